"""The file in which offsets outlive the server: ours, and never the broker's.

It has the shape of a broker's `config/consumerOffset.json`. A broker that owns the store, or will
own it again, must find its own file as it left it, so this one is elsewhere.

It is replaced as a whole: written beside it, synced, renamed over it, and its name synced. A crash
leaves the old text or the new one. So a file that cannot be read was damaged otherwise, and is an
error: to begin from scratch would let every group consume everything again.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from reput.checkpoints.disk import changes, locks
from reput.formats.errors import FormatError, StoreError, UsageError
from reput.formats.java import fastjson
from reput.formats.rocketmq import names
from reput.remoting.groups import origin
from reput.remoting.groups.offsets import TABLE, Offsets, Seed
from reput.remoting.wire import bodies
from reput.stores.config.config_files import read_config, unreadable

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future
    from pathlib import Path

    from reput.stores.log.files import LogFiles

LOG = logging.getLogger("reput")
BROKERS_FILE = "consumerOffset.json"
# Groups may be idle for longer than records live.
_NOTE_SECONDS = 60.0
_OTHERS = (
    "Groups would be led past messages that they have not got: give this store a --broker-name, or "
    "an --offsets, of its own; or, if its log was replaced, move away the file and what was sent "
    "back, beside it"
)
_REMEDY = "Restore it, or remove it to begin with the broker's offsets or from scratch"


def seed_of(store: Path, seed: Seed) -> Offsets:
    """Return the offsets to begin with.

    Args:
        store: its directory.
        seed: those of its broker, or none.

    Raises:
        StoreError: the broker's file cannot be read.
    """
    if seed is Seed.SCRATCH:
        return Offsets()
    path = store / names.CONFIG / BROKERS_FILE
    text = read_config(store, BROKERS_FILE)
    if text is None:
        # A reader of settings does without; here it would be from scratch.
        if path.exists():
            raise unreadable(path, "it is not whole")
        return Offsets()
    try:
        return Offsets(_loads(text))
    except ValueError as error:
        raise unreadable(path, str(error)) from error


class OffsetFile:
    """A file that follows offsets. It is locked while it is open.

    Attributes:
        offsets: what it follows.
        failures: how often it could not be written.
        unsaved_seconds: how long the oldest change waits to be on disk, as of the last tick.
    """

    failures = 0
    unsaved_seconds = 0.0
    # When the oldest change came that is not on disk, and when the last write began.
    _oldest: float | None = None
    _began = 0.0
    # When the log was last looked at without an offset to save.
    _noted = 0.0
    _problem = ""

    def __init__(
        self,
        path: Path,
        store: Path,
        seed: Seed = Seed.BROKER,
        beside: Executor | None = None,
        log: LogFiles | None = None,
    ) -> None:
        """Read it, or begin it.

        Args:
            path: where it is, or is to be. Its directory is made.
            store: directory of the store that is consumed.
            seed: what to begin with if it is not there.
            beside: runs what waits for the disk; None lets the caller wait.
            log: of the store, to know offsets of another one by; None for no such look.

        Raises:
            ReputError: it would be among the broker's own files, another process has it, it is
                damaged, or of another store; or the broker's file is damaged.
            OSError: it cannot be read, or its directory not be made.
        """
        self._lock = _locked(path, store)
        self._path, self._store = path, store
        self._beside = beside
        self._pending: Future[None] | None = None
        try:
            is_there = path.exists()
            known: dict[str, str] = {}
            if is_there:
                self.offsets, known = _read(path, store, log)
            else:
                self.offsets = seed_of(store, seed)
            self._log, self._origin = log, known if log is None else origin.of_log(log, known)
        except BaseException:
            self._lock.release()
            raise
        # A seed is written at once: the broker's file may change before the first commit.
        self._saved = self.offsets.version if is_there else -1

    def tick(self, now: float) -> None:
        """Save what has changed, unless the last time still waits for the disk.

        Call it every second: what a kill loses is as old as that, and as a write takes.

        Args:
            now: seconds, of a clock that never goes back.
        """
        if self._pending is not None and self._pending.done():
            self._look_back()
        has_changed = self.offsets.version != self._saved
        if has_changed and self._oldest is None:
            self._oldest = now
        if has_changed and self._pending is None:
            self._save(now)
        elif self._pending is None and now - self._noted >= _NOTE_SECONDS:
            self._noted = now
            if self._note():
                self._save(now)
        self.unsaved_seconds = 0.0 if self._oldest is None else now - self._oldest

    def close(self) -> None:
        """Save what has changed, and let others have the file.

        Raises:
            StoreError: another process has it, since its directory was another one for a while.
            OSError: it could not be saved.
        """
        try:
            if self._pending is not None:
                # It must not replace what is written next.
                self._pending.exception()
                self._look_back()
            if self.offsets.version != self._saved:
                self._write(self._document())
                self._saved = self.offsets.version
        except (StoreError, OSError):
            LOG.error(  # noqa: TRY400 - the caller says what is wrong
                "offsets of groups are not saved in %s at the end: groups consume again what they "
                "have consumed since the last time",
                self._path,
            )
            raise
        finally:
            self._lock.release()

    def leave(self) -> None:
        """Let others have the file, as it is on disk."""
        self._lock.release()

    def _save(self, now: float) -> None:
        self._note()
        self._saved, self._began = self.offsets.version, now
        document = self._document()
        if self._beside is not None:
            self._pending = self._beside.submit(self._write, document)
            return
        try:
            self._write(document)
        except (StoreError, OSError) as error:
            self._failed(error)
        else:
            self._succeeded()

    def _note(self) -> bool:
        """Note the log as it is now; tell whether that is news.

        Not at the end, which does not wait for the disk of the log.
        """
        if self._log is None or origin.is_current(self._log, self._origin):
            return False
        was, self._origin = self._origin, origin.of_log(self._log, self._origin)
        return was != self._origin

    def _document(self) -> dict[str, Any]:
        return self.offsets.document() | ({origin.KEY: self._origin} if self._origin else {})

    def _look_back(self) -> None:
        pending, self._pending = self._pending, None
        if pending is None:
            return
        error = pending.exception()
        if isinstance(error, (StoreError, OSError)):
            self._failed(error)
        elif error is not None:
            raise error
        else:
            self._succeeded()

    def _failed(self, error: StoreError | OSError) -> None:
        # Nothing equals this version, so it is written again.
        self._saved = -1
        self.failures += 1
        if str(error) != self._problem:
            self._problem = str(error)
            LOG.error(
                "offsets of groups cannot be saved in %s, and are tried again every second: %s. "
                "Mend this before the server ends: else groups consume again what they have "
                "consumed since",
                self._path,
                error,
            )

    def _succeeded(self) -> None:
        # What came meanwhile came after the write began.
        self._oldest = self._began if self.offsets.version != self._saved else None
        if self._problem:
            self._problem = ""
            LOG.info("offsets of groups are saved again in %s", self._path)

    def _write(self, document: dict[str, Any]) -> None:
        if not self._lock.is_in_place():
            # Its directory was removed, or is another one: what is in the way now may be another's.
            self._lock.release()
            self._lock = _locked(self._path, self._store)
            LOG.warning(
                "%s is not the directory that it was: offsets of groups are saved in the "
                "one that is there now",
                self._path.parent,
            )
        temporary = self._path.with_name(f"{self._path.name}.new")
        changes.write_file(temporary, bodies.dumps(document))
        changes.rename(temporary, self._path)
        changes.sync_directory(self._path.parent)


def _locked(path: Path, store: Path) -> locks.FileLock:
    if path.resolve().parent == (store / names.CONFIG).resolve():
        raise UsageError(f"{path} is among the broker's files; keep offsets in another directory")
    for directory in changes.make_directories(path.parent):
        changes.sync_directory(directory)
    lock = locks.FileLock(path.with_name(f"{path.name}.lock"))
    if not lock.acquire():
        found = "another process keeps offsets in it"
        raise StoreError(path, found, "Stop it, or give each server an --offsets of its own")
    return lock


def _read(path: Path, store: Path, log: LogFiles | None) -> tuple[Offsets, dict[str, str]]:
    """Return the offsets, and what is known of the log that they are of."""
    raw = path.read_bytes()
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise FormatError(path, error.start, "not a text in UTF-8", _REMEDY) from error
    try:
        said = _loads(text)
        if said.get(TABLE) is None:
            raise ValueError(f"no {TABLE!r} is there")
        offsets = Offsets(said)
    except json.JSONDecodeError as error:
        at = len(error.doc[: error.pos].encode())
        raise FormatError(path, at, f"not JSON ({error.msg})", _REMEDY) from error
    except ValueError as error:
        raise FormatError(path, _place_of(str(error), text), str(error), _REMEDY) from error
    known = origin.known_in(said)
    if log is not None and origin.is_other(log, known):
        raise StoreError(path, f"its offsets are of another log than that of {store}", _OTHERS)
    return offsets, known


def _place_of(reason: str, text: str) -> int:
    """Return the byte of the key that a reason names, 0 if it names none that is there."""
    named = reason.split("'")[1:2]
    key = json.dumps(named[0], ensure_ascii=False) if named else ""
    return len(text[: max(text.find(key), 0)].encode())


def _loads(text: str) -> dict[str, Any]:
    said = fastjson.loads(text)
    if not isinstance(said, dict):
        raise ValueError("not an object")  # noqa: TRY004 - the file's value
    return said
