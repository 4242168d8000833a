"""Files of a store's `config/` that a broker writes while it runs, read again when they change.

Depending on its version, a broker writes them in place or under another name first: for a moment
there is no file, or the beginning of one. What was read last counts until a whole one is there; if
nothing was read yet, it is waited for.
Source: RocketMQ `ConfigManager#persist`, `MixAll#string2File`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

from reput.formats.errors import StoreError
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Value = TypeVar("Value")

# An unreadable file that was written this long ago is damaged, not being written.
_WRITTEN_SECONDS = 1.0
_STEP_SECONDS = 0.05


class Followed(Generic[Value]):
    """What a file says, as of the last look.

    Attributes:
        value: what was read last; before that, the value for no file.
        written: when the file that it comes from was written, ms; 0 for none.
    """

    def __init__(
        self, store: Path, name: str, parse: Callable[[str], Value], nothing: Value
    ) -> None:
        """Read the file, or the backup beside it as a broker that starts does.

        A file that is just being written is waited for, a second at most.

        Args:
            store: the store's root.
            name: of the file in `config/`.
            parse: reads its text; raises ValueError.
            nothing: the value without a file.

        Raises:
            StoreError: there is a file, and neither it nor its backup can be read.
        """
        self.path = store / names.CONFIG / name
        self.value = nothing
        self.written = 0
        self._parse = parse
        self._raw: bytes | None = None
        self._seen: tuple[int, ...] | None = None
        self._bad: tuple[int, ...] | None = None
        self._problem: str | None = None
        if not self.look() and not self._read_backup():
            self._wait()

    def _read_backup(self) -> bool:
        """Read the backup; tell whether there is one."""
        backup = self.path.with_name(f"{self.path.name}.bak")
        try:
            self.value = self._parse(backup.read_text("utf-8"))
        except FileNotFoundError:
            return False
        except ValueError as error:
            raise StoreError(backup, str(error), f"Restore {self.path} from the broker") from error
        return True

    def _wait(self) -> None:
        """Look at a file that cannot be read until it can, or is damaged for certain."""
        until = time.monotonic() + _WRITTEN_SECONDS
        while self._problem is None and self._bad is None and self._signature() is not None:
            time.sleep(_STEP_SECONDS)
            # A clock that was set back makes every file look new.
            if self.look(is_patient=time.monotonic() < until):
                return
        if self._problem is not None:
            remedy = "Restore it from the broker, or from its .bak"
            raise StoreError(self.path, self._problem, remedy)

    def look(self, *, is_patient: bool = True) -> bool:
        """Read the file if it has changed; tell whether it says something else now.

        Args:
            is_patient: a file that is new and cannot be read may be just being written.
        """
        seen = self._signature()
        if seen is None or seen in {self._seen, self._bad}:
            return False
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            self._fail(seen, b"}", str(error), is_patient=is_patient)
            return False
        if raw != self._raw:
            try:
                self.value = self._parse(raw.decode())
            except ValueError as error:
                self._fail(seen, raw, str(error), is_patient=is_patient)
                return False
        is_new, self._raw, self._seen = raw != self._raw, raw, seen
        self.written = seen[0] // 1_000_000
        self._bad = self._problem = None
        return is_new

    def _fail(self, seen: tuple[int, ...], raw: bytes, why: str, *, is_patient: bool) -> None:
        """Remember what cannot be read, if it is not just being written."""
        is_being_written = is_patient and time.time() - seen[0] / 1e9 < _WRITTEN_SECONDS
        if raw.strip() and (raw.strip().endswith(b"}") or not is_being_written):
            self._problem = why
        if not is_being_written:
            self._bad = seen

    def take_problem(self) -> str | None:
        """Return why the file cannot be read, once for each state of it."""
        problem, self._problem = (self._problem, None) if self._bad is not None else (None, None)
        return problem

    def _signature(self) -> tuple[int, ...] | None:
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
