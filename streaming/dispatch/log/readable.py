"""Reads a log past what is damaged in it, and keeps where that was: as `reput verify` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import FormatError
from reput.stores.following.lost_places import LostPlaces
from reput.stores.log.holes import HoleWatch, flaw_after
from reput.stores.log.tail import find_tail
from reput.stores.log.unreadable import next_record, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.blocks.pipeline import Pipeline


class Ends(NamedTuple):
    """Where a log ends.

    Attributes:
        first: physical offset where the records end that follow one another without damage in the
            last file.
        last: where those end that follow after damage; equal to `first` if none do.
        flaw: what stands at `first`, None if the log just ends there.
    """

    first: int
    last: int
    flaw: FormatError | None


def find_ends(log: CommitLog) -> Ends:
    """Return where a log ends, whatever is damaged in its last file."""
    try:
        first = find_tail(log).end
    except FormatError as error:
        place = place_of(log, error)
        if place is None:
            raise
        first, flaw = place, error
    else:
        found = flaw_after(log, first)
        if found is None:
            return Ends(first, first, None)
        flaw = found
    last = find_tail(log, skips_corrupt=True, holes=HoleWatch(log)).end
    return Ends(first, max(first, last), flaw)


class Readable:
    """The records of a log that can be read, and the places of those that cannot.

    Attributes:
        lost: places that were met and had not been passed over by the output.
        lacks: by physical offset: what is wrong with each place that was met.
    """

    def __init__(self, log: CommitLog, pipeline: Pipeline, passed: Mapping[int, int]) -> None:
        """Read nothing yet.

        Args:
            log: the files.
            pipeline: parses them; gets the places as its gaps.
            passed: beginnings and ends of the places that the output has passed over.
        """
        self._log = log
        self._pipeline = pipeline
        self.lost = LostPlaces(passed)
        self.lacks: dict[int, FormatError] = {}
        self._ends: dict[int, int] = {}
        pipeline.parser.gaps = dict(passed)

    def blocks(self, start: int, end: int) -> Iterator[Block]:
        """Yield the records that start in [`start`, `end`) and can be read, as `Pipeline.blocks`.

        Args:
            start: physical offset of a record, or of a file's beginning.
            end: physical offset.

        Raises:
            ReputError: something else than the log's content is wrong.
        """
        position = start
        while position < end:
            try:
                yield from self._pipeline.blocks(position, end)
            except FormatError as error:
                place = place_of(self._log, error)
                if place is None or place < position:
                    raise
                position = self.pass_over(error, place, next_record(self._log, place), end)
            else:
                return

    def pass_over(self, error: FormatError, start: int, following: int, end: int) -> int:
        """Pass over a place from now on; return where records continue.

        Args:
            error: what is wrong there.
            start: physical offset.
            following: physical offset where records continue.
            end: physical offset up to which the output was dispatched: only what is before it can
                have entries.
        """
        self._pipeline.parser.gaps[start] = following
        self.lost.add(start, min(following, end))
        self.lack(error, start, following)
        return following

    def lack(self, error: FormatError, start: int, end: int | None = None) -> None:
        """Keep what is wrong at a place, unless that is known of one that it is in."""
        if not any(first <= start < following for first, following in self._ends.items()):
            self.lacks[start] = error
            self._ends[start] = start + 1 if end is None else end
