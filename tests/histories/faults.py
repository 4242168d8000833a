"""Can the histories find what they are for? Old faults are put back, one by one, and must be found.

    python -m tests.histories.faults [--histories 300] [--seed 1]

Each was in the code once and was found by hand; the letters are those under which they were told.
The exit code says whether any of them was not found.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from reput.checkpoints import untouched
from reput.stores.following.file_walk import FileWalk
from reput.stores.following.log_end import EndedLog
from reput.stores.log import trail
from reput.stores.log.files import LogFiles
from reput.streaming.dispatch.books import Books
from reput.streaming.source.offsets import StoreOffsets
from reput.streaming.source.pushdown import choosing
from reput.streaming.source.pushdown.trust import Trust
from tests.histories.run import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def sampled_points() -> Iterator[None]:
    """C1. A log is the one that was read if the records that were remembered are there."""

    def there(walk: FileWalk) -> list[Any]:
        return [p for p in walk._points if trail.is_there(walk._log, p.record)]

    with (
        patch.object(FileWalk, "has_records", property(lambda w: there(w) == list(w._points))),
        patch.object(FileWalk, "is_same", property(lambda w: w.has_records)),
        patch.object(FileWalk, "common", property(lambda w: (there(w) or [None])[-1])),
    ):
        yield


@contextlib.contextmanager
def zero_at_the_end() -> Iterator[None]:
    """C2. A last record that ends with a zero byte never counts."""
    with patch.object(LogFiles, "is_at_rest", lambda _: False):
        yield


@contextlib.contextmanager
def unseen_losses() -> Iterator[None]:
    """C5. An output with files missing, or set back, is continued with."""
    with patch.object(untouched, "check", lambda *_: {}):
        yield


@contextlib.contextmanager
def later_hashes() -> Iterator[None]:
    """C7. What identifies a record is taken from what stands there once it is dispatched."""
    enter = Books.enter

    def enter_later(self: Books, batch: Any, block: Any, written: Any) -> None:
        columns = block.columns
        for row in range(block.count):
            found = trail.hash_at(self._log, int(columns.physical_offset[row]))
            columns.head_hash[row] = found if found is not None else columns.head_hash[row]
        enter(self, batch, block, written)

    with patch.object(Books, "enter", enter_later):
        yield


@contextlib.contextmanager
def readers_without_an_end() -> Iterator[None]:
    """R1. Queries take whatever stands in the files for the log."""
    with patch.object(
        EndedLog, "holds", lambda log, offset: log.min_offset <= offset < log.end_of_files
    ):
        yield


@contextlib.contextmanager
def trusting_filters() -> Iterator[None]:
    """R2. Filters believe queues and index, whatever became of the log."""
    with patch.object(choosing, "trust_in", lambda _root, _log, end, **_: Trust(end, end)):
        yield


@contextlib.contextmanager
def streams_without_a_mark() -> Iterator[None]:
    """R3. A stream continues at its offset, whatever log is there."""
    with patch.object(StoreOffsets, "is_same", lambda *_: True):
        yield


FAULTS = (
    sampled_points,
    zero_at_the_end,
    unseen_losses,
    later_hashes,
    readers_without_an_end,
    trusting_filters,
    streams_without_a_mark,
)


def first_found(fault: Callable[[], Any], seed: int, histories: int) -> str | None:
    """Return which of the first histories of a seed finds a fault, and by what; None if none does."""
    with fault():
        result = run(seed, range(histories), "", workers=1, shrinks=False, most=1)
    if not result.failures:
        return None
    first = min(result.failures, key=lambda failure: failure.number)
    return f"history {first.number}, {first.kind}: {' '.join(first.text.split())[:200]}"


def main() -> int:
    """Put each fault back, run histories, and print the first one that fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=300, help="for each fault (300)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    missed = 0
    for fault in FAULTS:
        found = first_found(fault, args.seed, args.histories)
        missed += found is None
        print(f"{str(fault.__doc__).strip()}\n    {found or 'NOT FOUND'}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
