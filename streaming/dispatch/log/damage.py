"""What an error at a place of a log means for its reader, and what can be done about it.

Errors name the remedy that `reput run` and `rebuild` have. A DataFrame and an export have options
of their own for it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from reput.checkpoints import progress
from reput.formats.errors import FormatError, ReputError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import Verdict
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.holes import HoleWatch
from reput.stores.log.tail import find_tail
from reput.stores.log.unreadable import next_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.streaming.settings.config import StoreConfig

_OF_FRAMES = (
    "Restore the file from a replica, or read what is there with the option onCorrupt=skip."
)
_OF_EXPORTS = "Restore the file from a replica, or export what is there with --on-corrupt skip."


def explained(error: FormatError, config: StoreConfig) -> FormatError | None:
    """Return an error with what was dispatched before it, and what passing over it leaves out.

    Args:
        error: at a place of a store's log.
        config: a store.

    Returns:
        None if the place is not in this store's log.

    Raises:
        ReputError: the log can no longer be read.
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
    # The same file may have been named by another way.
    to = f"byte {byte + 1}" if last.name == path.name else f"byte {byte + 1} of {last}"
    return FormatError(
        error.path,
        error.position,
        error.problem,
        f"Restore the file from a replica and start again; or start with --on-corrupt skip, which "
        f"leaves out {end - start} bytes (physical offsets {start} to {end}: from byte "
        f"{error.position} to {to}) and keeps a copy of those that are there."
        + (f" {error.note}" if error.note else "")
        + _kept(config.output),
    )


def _kept(output: Path) -> str:
    """Return what an output has, as a sentence; "" if it has nothing."""
    found = progress.load(output)
    if found is None or found.end < 0:
        return ""
    done = f"{found.messages} messages, up to physical offset {found.end}"
    return f" {done}, are dispatched and kept."


@contextlib.contextmanager
def naming_the_option() -> Iterator[None]:
    """Name the option of a DataFrame as the remedy of errors at a place of a log."""
    try:
        yield
    except FormatError as error:
        if error.note is None:
            raise
        raise error.with_remedy(_OF_FRAMES) from None


def of_export(error: ReputError) -> ReputError:
    """Return an error with the remedy of an export where it has a DataFrame's."""
    if not isinstance(error, FormatError) or error.note is None:
        return error
    return error.with_remedy(_OF_EXPORTS)


def gaps_of(
    store: Path, settings: BrokerSettings, end: int | None = None
) -> Iterable[tuple[str, int, int, int]]:
    """Yield what a reader of a whole log passes over with onCorrupt=skip.

    All records are read and checked once more.

    Args:
        store: a broker's storePathRootDir.
        settings: the broker's.
        end: physical offset; where the log ends by default.

    Yields:
        File and byte in it, and the physical offsets where the gap begins and ends.
    """
    log = CommitLog(commitlog_directories(store, settings), settings, store)
    try:
        if end is None:
            end = find_tail(log, skips_corrupt=True, holes=HoleWatch(log)).end
        position = log.min_offset
        while position < end:
            file_end = log.base_of(position) + log.file_size
            verdict, reached = log.hop(position, min(end, file_end), log.rules)
            if verdict == Verdict.ROLL:
                position = log.base_of(reached) + log.file_size
            elif verdict == Verdict.RECORD:
                position = reached
            else:
                position = next_record(log, reached)
                path, byte = log.file_of(reached)
                yield str(path), byte, reached, min(position, end)
    finally:
        log.close()
