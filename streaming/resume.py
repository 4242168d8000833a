"""Where an output goes on: its own progress, once it is certain that the files agree with it.

What an earlier writer left beyond the progress is taken back; what somebody else has done to the
files or to the log is refused. Source: docs/adr/0003-recovery.md.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from checkpoints import progress
from checkpoints.progress import Fingerprint, Progress
from formats import names
from formats.errors import StoreError
from formats.indexfile import HEADER_SIZE, Header
from sinks import cut
from sinks.index import IndexPosition
from stores.commitlog import PAD

if TYPE_CHECKING:
    from stores.commitlog import CommitLog
    from streaming.config import StoreConfig

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NO_HEADER = (0,) * len(Header._fields)


@dataclass
class Recovery:
    """What was taken back when the output was opened, for the log."""

    entries: int = 0
    items: int = 0
    reasons: list[str] = field(default_factory=list)


def check_output(output: Path) -> None:
    """Refuse a directory that holds somebody else's files.

    Raises:
        StoreError: which.
    """
    if (output / progress.STATE_DIRECTORY / progress.FILE_NAME).exists() or not output.exists():
        return
    for kind in names.DISPATCHED:
        if (output / kind).exists():
            raise StoreError(
                output / kind,
                "it is there already and was not written by reput",
                "Move it away, or give an empty directory as the output",
            )


def resume(config: StoreConfig, log: CommitLog) -> tuple[Progress, Recovery]:
    """Return where an output goes on, after taking back what is beyond it.

    The caller holds the output's lock.

    Raises:
        StoreError: it was written with other settings, of another log, or by somebody else since.
    """
    recovery = Recovery()
    found = progress.load(config.output)
    boot_id = _BOOT_ID.read_text("ascii").strip()
    if found is None:
        return _beginning(config, boot_id), recovery
    _check_settings(config, found)
    reason = _reason_to_rebuild(config, found, boot_id)
    if reason is not None:
        recovery.reasons.append(f"{reason}: it is rebuilt")
        generation = found.generation
        found = replace(_beginning(config, boot_id), clean=False, generation=generation)
    if found.clean:
        _check_untouched(config, found)
    else:
        _take_back(config, found, recovery)
    _check_identity(config, log, found)
    return replace(found, boot_id=boot_id), recovery


def _beginning(config: StoreConfig, boot_id: str) -> Progress:
    return Progress(
        end=-1,
        flushed_end=-1,
        generation=0,
        boot_id=boot_id,
        clean=True,
        messages=0,
        settings=config.settings.fingerprint(),
    )


def _reason_to_rebuild(config: StoreConfig, found: Progress, boot_id: str) -> str | None:
    """Return why nothing short of a rebuild is certain to be right, None if taking back is."""
    if found.clean:
        return None
    if found.boot_id != boot_id:
        # Unsynced pages may be lost, in any order.
        return "the machine stopped while this output was written"
    if found.repeated and config.settings.writes_ext:
        # A repeated record has a unit and no entry: nothing says which units are its own.
        return "its writer was killed, and it has extension units without entries"
    return None


def _check_settings(config: StoreConfig, found: Progress) -> None:
    for name, value in config.settings.fingerprint().items():
        if found.settings.get(name) != value:
            raise StoreError(
                config.output,
                f"it was written with {name} = {found.settings.get(name)}, now it is {value}",
                "Use the same broker version and broker.conf, or another output",
            )


def _check_untouched(config: StoreConfig, found: Progress) -> None:
    """Refuse files that somebody else has written to since: a broker, after in-place work."""
    directory = config.output / names.INDEX
    files = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    newest = max(files, default="")
    header: tuple[int, ...] = _NO_HEADER
    if newest:
        with (directory / newest).open("rb") as file:
            header = tuple(Header.unpack(file.read(HEADER_SIZE)))
    # A broker's last act on a file without items is to count to one.
    is_same = header[:-1] == found.index_header[:-1] and (
        max(header[-1], 1) == max(found.index_header[-1], 1)
    )
    if newest != found.index_name or not is_same:
        raise StoreError(
            directory,
            f"the newest index file is {newest or 'missing'} and not as it was left "
            f"({found.index_name or 'none'})",
            "Somebody else has written here since, a broker perhaps: move consumequeue, "
            "index and .reput away and rebuild",
        )


def _take_back(config: StoreConfig, found: Progress, recovery: Recovery) -> None:
    staging = config.output / progress.STATE_DIRECTORY
    if not recovery.reasons:
        recovery.reasons.append("the last writer of this output was killed")
    end = max(found.end, 0)
    recovery.entries = cut.cut_queues(config.output, staging, config.settings, end)
    position = IndexPosition(found.index_name, Header(*found.index_header))
    recovery.items = cut.cut_index(config.output, config.settings, position)


def _check_identity(config: StoreConfig, log: CommitLog, found: Progress) -> None:
    """Refuse to go on with another store's output, or behind a log that was cut."""
    last = found.last
    if last is None or last.physical_offset < log.min_offset:
        return
    if fingerprint(log, last.physical_offset, last.size) != last:
        raise StoreError(
            config.output,
            f"its last record, at physical offset {last.physical_offset}, is not in the "
            f"commitlog of {config.path}",
            "The output belongs to another store, or the broker has rewritten its log since; "
            "give another output, or remove this one and rebuild it",
        )


def fingerprint(log: CommitLog, position: int, size: int) -> Fingerprint | None:
    """Return what identifies the record at a physical offset, None behind the log's end."""
    if position + size > log.end_of_files:
        return None
    data = log.read(position, size)[PAD:-PAD]
    return Fingerprint(position, size, zlib.crc32(data.tobytes()))
