"""What an error at a place of a log means for who dispatches it, and what can be done about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from checkpoints import progress
from formats import names
from formats.errors import FormatError
from stores.commitlog import CommitLog, commitlog_directories
from stores.tail import next_record

if TYPE_CHECKING:
    from streaming.config import StoreConfig


def explained(error: FormatError, config: StoreConfig) -> FormatError | None:
    """Return an error with what was dispatched before it, and what passing over it leaves out.

    Args:
        error: at a place of a store's log.
        config: a store.

    Returns:
        None if the place is not in this store's log.

    Raises:
        ReputError: the log cannot be read any more.
    """
    path = Path(error.path)
    directories = commitlog_directories(config.path, config.settings)
    base = names.parse_offset_file(path.name)
    if base is None or path.parent.resolve() not in {d.resolve() for d in directories}:
        return None
    log = CommitLog(directories, config.settings)
    try:
        if not log.min_offset <= base + error.position < log.end_of_files:
            return None
        start = base + error.position
        end = next_record(log, start)
        last, byte = log.file_of(end - 1)
    finally:
        log.close()
    to = f"byte {byte + 1}" if last == path else f"byte {byte + 1} of {last}"
    found = progress.load(config.output)
    kept = (
        f" {found.messages} messages, up to physical offset {found.end}, are dispatched and kept."
        if found is not None and found.end >= 0
        else ""
    )
    return FormatError(
        error.path,
        error.position,
        error.problem,
        f"Restore the file from a replica and start again; or start with --on-corrupt skip, which "
        f"leaves out {end - start} bytes (physical offsets {start} to {end}: {path} from byte "
        f"{error.position} to {to}) and keeps a copy of those that are there.{kept}",
    )
