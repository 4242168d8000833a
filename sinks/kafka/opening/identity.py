"""Tells whether a position is of this store, and not of another one of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import KafkaError
from reput.sinks.kafka.client.settings import CONTINUE
from reput.stores.log import trail

if TYPE_CHECKING:
    from reput.sinks.kafka.link import Link
    from reput.sinks.kafka.opening.beginning import Beginning
    from reput.sinks.kafka.opening.output_memory import OutputMemory
    from reput.sinks.kafka.position.position import Position
    from reput.stores.log.commitlog import CommitLog

_REMEDY = (
    'Give this one a name of its own (name = "…" in its [[store]] of reput.toml), or an id_prefix'
)


class FirstRecord:
    """The first record of a log, which stays the first one until its file expires."""

    def __init__(self, log: CommitLog) -> None:
        """Begin without having looked."""
        self._log = log
        self._found: tuple[int, int] | None = None

    def __call__(self) -> tuple[int, int] | None:
        """Return where it begins and its hash; None if there is none to read."""
        begin = self._log.min_offset
        if self._found is None or self._found[0] != begin:
            found = trail.hash_at(self._log, begin)
            self._found = (begin, found) if found is not None else None
        return self._found


class Identity:
    """Tells this store's position from that of another one."""

    def __init__(self, link: Link, memory: OutputMemory, beginning: Beginning) -> None:
        """Begin.

        Args:
            link: the store and its Kafka.
            memory: the output's.
            beginning: where the store begins without a position.
        """
        self._link = link
        self._memory = memory
        self._beginning = beginning

    def check(self, position: Position, cluster: str) -> None:
        """Check that a position is of this store.

        Args:
            position: of this store's name.
            cluster: the name by which Kafka tells itself from others.

        Raises:
            KafkaError: it is of another one.
        """
        log = self._link.log
        log.refresh()
        if log.end_of_files <= log.min_offset:
            # Without a file there is nothing to send from it.
            return
        first = position.first
        if first is not None and first[0] >= log.min_offset:
            self._check_first(position, *first)
        elif not self._is_vouched_for(position, cluster):
            self._refuse(position)

    def _check_first(self, position: Position, offset: int, hashed: int) -> None:
        link = self._link
        if link.log.damage_at(offset) is not None:
            return
        is_there = trail.hash_at(link.log, offset) == hashed
        link.log.refresh()
        if is_there or offset < link.log.min_offset:
            return
        raise KafkaError(
            f"{link.name}: the position of this name in {link.settings.progress_topic} is of "
            f"another store, {position.origin}: at physical offset {offset} that one has "
            f"another record than {link.path}. {_REMEDY}. That is right as well for a broker "
            "that has begun its log again"
        )

    def _is_vouched_for(self, position: Position, cluster: str) -> bool:
        """Tell whether a record, the path or the output says that a position is this store's."""
        log = self._link.log
        left = [p.record for p in position.points if p.record.physical_offset >= log.min_offset]
        # A record that no file of a damaged log has says nothing.
        readable = [record for record in left if log.damage_at(record.end - 1) is None]
        if position.origin == "" or any(trail.is_there(log, record) for record in readable):
            return True
        is_here = self._is_here(position)
        if is_here and self._is_possible(position) and not readable:
            return True
        if not left and self.is_where_it_begins(position):
            return True
        # Hosts and pods of one layout have one path, so where records differ it says nothing.
        return is_here and self._memory.has_sent_to(cluster, position)

    def _is_here(self, position: Position) -> bool:
        return position.origin == str(self._link.path)

    def _is_possible(self, position: Position) -> bool:
        """Tell whether a position can be this log's at all.

        A log that had no record has none before the position either, nor can it get any.
        """
        return not position.has_no_record or position.end <= self._beginning.own_begin

    def _refuse(self, position: Position) -> None:
        """Refuse a position that nothing vouches for, unless the operator accepts it.

        Raises:
            KafkaError: the operator does not.
        """
        link = self._link
        if link.settings.on_truncation == CONTINUE:
            return
        why = f"nothing of what was sent from there is in {link.path}"
        if position.has_no_record:
            why = f"had no record then, so nothing tells whether {link.path} is its log"
            if not self._is_possible(position):
                why = f"{why}, which begins before the place of that, {position.end}"
        elif self._is_here(position):
            why = (
                "none of the records that are known of what was sent from there is in the log "
                "here; this output does not remember that it was sent"
            )
        raise KafkaError(
            f"{link.name}: the position of this name in {link.settings.progress_topic} was "
            f"written for the store {position.origin}, and {why}. If it is another store: "
            f"{_REMEDY}. If it is the same one, at a new place or with other records since: "
            'set on_truncation = "continue" for one start'
        )

    def is_where_it_begins(self, position: Position) -> bool:
        """Tell whether a position may be used although no record shows that it is of this log.

        All that was sent has expired; or nothing was, and this store begins there as well.
        """
        if position.has_no_record:
            return self._beginning.leaves_out <= position.end <= self._beginning.own_begin
        return position.end >= self._link.log.min_offset
