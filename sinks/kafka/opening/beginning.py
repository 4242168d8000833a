"""Decides where a store begins that Kafka has no position of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.sinks.kafka.client.settings import BEGIN, LATEST
from reput.sinks.kafka.following.ends import end_past_damage
from reput.sinks.kafka.position.memory import Memory, remember
from reput.sinks.kafka.position.position import Position
from reput.sinks.kafka.position.start import Start, points_before

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.sinks.kafka.extent import Extent
    from reput.sinks.kafka.link import Link
    from reput.sinks.kafka.opening.output_memory import OutputMemory


class Beginning:
    """The place where one store begins, decided once."""

    def __init__(
        self,
        link: Link,
        memory: OutputMemory,
        first_record: Callable[[], tuple[int, int] | None],
    ) -> None:
        """Begin undecided.

        Args:
            link: the store and its Kafka.
            memory: the output's.
            first_record: returns physical offset and hash of the log's first record.
        """
        self._link = link
        self._memory = memory
        self._first_record = first_record
        self._decided: Start | None = None
        self._is_unwritten = False

    @property
    def leaves_out(self) -> int:
        """Return the physical offset before which a store without a position leaves out all."""
        return self._decided.end if self._decided is not None else 0

    @property
    def own_begin(self) -> int:
        """Return where sending would begin if Kafka had no position."""
        return max(self.leaves_out, self._link.log.min_offset, 0)

    def decide_latest(self, extent: Extent) -> None:
        """Decide, once, where a store begins if only what comes from now on is wanted.

        This does not wait for Kafka's first answer: what is dispatched until then is wanted.

        Args:
            extent: of dispatch at the start of the job; with a new output, the log's end counts,
                also where there is damage before it.

        Raises:
            OSError: it is decided, and cannot be written down; `write_place` tries again.
            KafkaError: what is written down cannot be read.
        """
        self._decided = self.place()
        if self._decided is not None:
            return
        log, end = self._link.log, extent.end
        if end < 0 and extent.cuts:
            # An output that was rolled back to the log's beginning is not a new one.
            end = max(log.min_offset, 0)
        elif end < 0:
            # Past damage: dispatch decides whether it gets past that.
            end = end_past_damage(log)
        mine = self._link.transactional_id
        self._decided = Start(mine, end, extent.last_cut, points_before(log, end))
        self._is_unwritten = self._memory.path is not None
        self.write_place()

    def write_place(self) -> None:
        """Write down where sending begins, if that is decided and not written down yet.

        Raises:
            OSError: it cannot be written down.
            KafkaError: what is there cannot be read.
        """
        if not self._is_unwritten or self._memory.path is None:
            return
        known = self._memory.known() or Memory("", "")
        remember(self._memory.path, known._replace(latest=self._decided))
        self._is_unwritten = False

    def note_position(self) -> None:
        """Note that the memory has the position in Kafka, so the place is known by that."""
        self._is_unwritten = False

    def place(self, on_rename: str | None = None) -> Start | None:
        """Return where the output remembers that sending resumes if Kafka has no position of it.

        That is where it ended in the Kafka of this address: if another one answers there, that has
        nothing from there on. Where nothing was sent, it is what was decided. Both are the
        output's, under any name, unless the operator asks for a way beside the former one.

        Args:
            on_rename: in place of the operator's setting.

        Raises:
            KafkaError: what is remembered cannot be read.
        """
        known = self._memory.known()
        if known is None:
            return None
        settings = self._link.settings
        begins = (on_rename or settings.on_rename) == BEGIN
        is_beside = begins and known.transactional_id != self._link.transactional_id
        if known.sent is not None and known.bootstrap == settings.bootstrap and not is_beside:
            return known.sent
        return known.latest

    def first_position(self, extent: Extent) -> Position:
        """Return where a store begins that has no position yet."""
        link = self._link
        if link.settings.start != LATEST:
            begin = max(link.log.min_offset, 0)
            return Position(begin, cut=extent.last_cut, first=self._first_record(), since=begin)
        # What was sent since the start of the job counts too.
        start = self.place() or self._decided
        if start is None:
            end = extent.end
            start = Start(link.transactional_id, end, extent.last_cut, points_before(link.log, end))
        end = min([start.end, *extent.cut_since(start.cut)])
        points = tuple(p for p in start.points if p.end <= end)
        oldest = points[0].record if points else None
        first = (oldest.physical_offset, oldest.hash) if oldest else self._first_record()
        begin = max(end, 0)
        return Position(begin, points, cut=extent.last_cut, first=first, since=begin)
