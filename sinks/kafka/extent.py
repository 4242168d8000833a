"""How far dispatch is in a log: what sending goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.stores.log import trail

if TYPE_CHECKING:
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.trail import Fingerprint


class Extent(NamedTuple):
    """How far dispatch has gone, and what the log there was.

    Attributes:
        end: physical offset.
        mark: the last record that was dispatched, None if there is none.
        gaps: places that dispatch has passed over: begin and end.
        cuts: times that dispatch has found the log cut, see `checkpoints.progress.Progress`.
    """

    end: int
    mark: Fingerprint | None
    gaps: tuple[tuple[int, int], ...] = ()
    cuts: tuple[tuple[int, int], ...] = ()

    @property
    def last_cut(self) -> int:
        """Return the number of the last cut, 0 for none."""
        return self.cuts[-1][0] if self.cuts else 0

    def is_in(self, log: CommitLog) -> bool:
        """Tell whether a log up to the mark is still the one that was dispatched."""
        mark = self.mark
        if mark is None:
            return True
        log.refresh()
        return mark.physical_offset < log.min_offset or trail.is_there(log, mark)

    def has_cut(self, number: int) -> bool:
        """Tell whether the output has a cut of a number."""
        return any(each == number for each, _ in self.cuts)

    def cut_since(self, number: int) -> list[int]:
        """Return where the log was cut since the cut of a number.

        Numbers are times, and those of another output may come from another host's clock. If this
        output has no cut of that number, nothing says which came first, and all count. Looking at a
        cut a second time changes nothing where the log is as it was sent.
        """
        numbers = [each for each, _ in self.cuts]
        first = numbers.index(number) + 1 if number in numbers else 0
        return [place for _, place in self.cuts[first:]]
