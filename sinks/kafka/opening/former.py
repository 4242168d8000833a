"""Resumes from the position of the id under which a store was sent before it was renamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import KafkaError
from reput.sinks.kafka.client.errors import AwayError
from reput.sinks.kafka.client.settings import BEGIN, CONTINUE
from reput.sinks.kafka.opening import rename_refusals, renamed, takeover
from reput.sinks.kafka.position import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.sinks.kafka.link import Link
    from reput.sinks.kafka.opening.beginning import Beginning
    from reput.sinks.kafka.opening.output_memory import OutputMemory
    from reput.sinks.kafka.opening.ownership import Ownership
    from reput.sinks.kafka.opening.renamed import Me, Other
    from reput.sinks.kafka.position.position import Found


class FormerPosition:
    """The position that this log has under another id."""

    def __init__(
        self, link: Link, memory: OutputMemory, beginning: Beginning, ownership: Ownership
    ) -> None:
        """Begin.

        Args:
            link: the store and its Kafka.
            memory: the output's.
            beginning: where the store begins without a position.
            ownership: this process's claim.
        """
        self._link = link
        self._memory = memory
        self._beginning = beginning
        self._ownership = ownership

    def find(self, cluster: str, partitions: int) -> Found | None:
        """Return the position of this log where it was sent under another id; None if it was not.

        Args:
            cluster: the name by which Kafka tells itself from others.
            partitions: how many the progress topic has.

        Raises:
            KafkaError: it was, and the operator wants to know; or it cannot be read or written.
        """
        link, settings = self._link, self._link.settings
        if settings.on_rename == BEGIN:
            return None
        link.log.refresh()
        me = self._me(cluster)
        others = renamed.find(settings, link.access, me, partitions, link.log)
        # Another job of this name may have taken it over since we looked for ours, in a transaction
        # of the other id, which our producer does not fence.
        found = progress.read(settings, link.access, link.transactional_id, partitions)
        if found is not None and not found.position.moved:
            return found
        if not others:
            return None
        other = self._chosen(me, others)
        writer = takeover.Writer(
            self._ownership.writer, self._ownership.began, self._ownership.is_late
        )
        taken = takeover.Takeover(settings, link.access, me, other, partitions, writer)
        takeover.take_over(taken)
        return progress.read(settings, link.access, link.transactional_id, partitions)

    def _me(self, cluster: str) -> Me:
        memory = self._memory.known()
        is_known = memory is not None and memory.cluster == cluster
        known = memory.transactional_id if memory is not None and is_known else ""
        link = self._link
        return renamed.Me(link.transactional_id, str(link.path), known, self._beginning.leaves_out)

    def _chosen(self, me: Me, others: Sequence[Other]) -> Other:
        """Return the one position to take over.

        Raises:
            KafkaError: the operator has to say which, or whether.
        """
        settings, name = self._link.settings, self._link.name
        without_record = [each for each in others if each.found.position.has_no_record]
        if without_record:
            begin = self._beginning.place(BEGIN)
            raise AwayError(rename_refusals.without_record(settings, me, without_record, begin))
        if len(others) > 1:
            raise KafkaError(rename_refusals.several(settings, name, others))
        other = others[0]
        if not other.is_certain:
            raise KafkaError(rename_refusals.alike(settings, name, other))
        if settings.on_rename != CONTINUE:
            raise KafkaError(rename_refusals.refusal(settings, name, me, other))
        return other
