"""Where does a log end now? Asked again only where dispatch tells that something has happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import FormatError
from reput.stores.log.holes import HoleWatch, find_hole
from reput.stores.log.tail import find_tail

if TYPE_CHECKING:
    from reput.sinks.kafka.extent import Extent
    from reput.sinks.kafka.position.position import Position
    from reput.stores.log.commitlog import CommitLog


def end_past_damage(log: CommitLog) -> int:
    """Return where a log ends, also where there is damage before that."""
    return find_tail(log, skips_corrupt=True, holes=HoleWatch(log)).end


class LogEnd:
    """The end of one log, and what it was computed for."""

    def __init__(self, log: CommitLog) -> None:
        """Begin without having looked."""
        self._log = log
        # Where the log's records ended when dispatch had come that far.
        self._limit: tuple[Extent, int] | None = None
        # Whether the log still reached a position, and where it ended if not.
        self._reached: tuple[tuple[int, int, int], int | None] | None = None

    def forget_limit(self) -> None:
        """Forget where the log ended: a new opening looks again."""
        self._limit = None

    def limit(self, extent: Extent) -> int:
        """Return the physical offset where the log's records end.

        Dispatch tells of growth and cuts; while it does not, the log is not read again.
        """
        if self._limit is None or self._limit[0] != extent:
            try:
                end = max(find_tail(self._log).end, extent.end)
            except FormatError:
                end = extent.end
            self._limit = extent, end
        return self._limit[1]

    def before(self, known: Position, extent: Extent) -> int | None:
        """Return where the log ends if it no longer reaches the position, None if it does.

        Where the bytes of the records that were cut still stand after the log's end, no other look
        finds that until it has grown past them.
        """
        key = known.end, extent.end, extent.last_cut
        if self._reached is None or self._reached[0] != key:
            try:
                tail = find_tail(self._log).end
                is_end = find_hole(self._log, tail) is None
            except FormatError:
                tail, is_end = known.end, False
            if not is_end:
                # There may be more after damage, or a hole; dispatch tells once it is past that.
                tail = end_past_damage(self._log)
                is_end = extent.end >= tail
            self._reached = key, tail if is_end and tail < known.end else None
        return self._reached[1]
