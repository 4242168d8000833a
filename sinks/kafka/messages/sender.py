"""Sends a block of rows: each to its partition, and what Kafka refuses to the dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reput.sinks.kafka.client.batch import BATCH_HEADER
from reput.sinks.kafka.client.partition import Partition
from reput.sinks.kafka.client.settings import ARRIVALS, DEAD_LETTERS, MESSAGES
from reput.sinks.kafka.messages.encoder import Encoder, Share
from reput.sinks.kafka.messages.plain import PlainMessage, dead_letter
from reput.sinks.kafka.messages.refusals import Note, Refusals
from reput.sinks.kafka.messages.routes import DEAD, Routes
from reput.sinks.kafka.messages.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.sinks.kafka.client.producer import Client
    from reput.sinks.kafka.link import Link
    from reput.sinks.kafka.messages.blocks import RowBlock
    from reput.sinks.kafka.messages.routes import Rows
    from reput.sinks.kafka.sent import Sent

    Chosen = np.ndarray[Any, np.dtype[np.int64]]


class Sender:
    """Sends blocks of one store.

    Attributes:
        refusals: what Kafka has refused.
        topics: of that Kafka.
        routes: where messages go.
        encoder: of batches.
    """

    def __init__(self, link: Link, opened: Callable[[], Client]) -> None:
        """Begin with nothing known of Kafka.

        Args:
            link: the store and its Kafka.
            opened: returns the client.
        """
        self._settings = link.settings
        self._name = link.name
        self._opened = opened
        self.encoder = Encoder(link.settings)
        self.refusals = Refusals(link.settings, link.log)
        self.topics = Topics(link, self.refusals, opened)
        self.routes = Routes(link.settings, link.name, self.topics.partitions)

    def begin(self) -> None:
        """Begin with a Kafka of which nothing is known yet."""
        self.topics.forget()
        self.routes.forget()

    def send(self, block: RowBlock, sent: Sent) -> None:
        """Send a block's messages and notices.

        Args:
            block: rows.
            sent: what the transaction has done; this adds to it.

        Raises:
            RefusedError: Kafka refuses a batch, or a topic.
            KafkaError: it is not sent.
        """
        rows = self.routes.of_rows(block.data, block.columns)
        for product, targets in ((MESSAGES, rows.messages), (ARRIVALS, rows.notices)):
            for share in self._shares(block, rows, product, targets):
                count = self._send_share(share, sent)
                if product == MESSAGES:
                    sent.messages += count
                else:
                    sent.notices += count
            for row in np.flatnonzero(targets == DEAD).tolist():
                self._send_dead(block, row, product, "", sent)

    def _shares(
        self, block: RowBlock, rows: Rows, product: str, targets: np.ndarray[Any, Any]
    ) -> Iterator[Share]:
        wanted = np.flatnonzero(targets >= 0)
        order = wanted[np.argsort(targets[wanted], kind="stable")]
        cuts = np.flatnonzero(np.diff(targets[order])) + 1
        for chosen in np.split(order, cuts) if len(order) else ():
            partition = self.routes.targets[int(targets[chosen[0]])]
            yield Share(block, rows, product, partition, chosen)

    def _send_share(self, share: Share, sent: Sent) -> int:
        """Encode and send rows; return how many went into their partition."""
        topic, most_bytes = share.partition.topic, self._settings.max_message_bytes
        limit = min(self.refusals.batch_bytes(topic), most_bytes - BATCH_HEADER)
        most = self.refusals.batch_records(topic)
        share = share._replace(chosen=self._without_refused(share, sent))
        following, count = 0, 0
        while following < len(share.chosen):
            records, encoded = self.encoder.encode(
                share, self.routes.pieces, following, most, limit
            )
            size = encoded.length + BATCH_HEADER
            if encoded.records == 1 and size > most_bytes:
                self._send_too_large(share, int(share.chosen[following]), size, sent)
                following += 1
                continue
            inside = share.chosen[following : following + encoded.records]
            note = _note(share.block, share.product, inside)
            self._opened().add(
                share.partition, records, encoded.records,
                encoded.first_timestamp, encoded.max_timestamp, note,
            )  # fmt: skip
            sent.bytes += encoded.length
            count += encoded.records
            following = encoded.following
        return count

    def _send_too_large(self, share: Share, row: int, size: int, sent: Sent) -> None:
        """Send a row that no batch takes to the dead letters.

        Raises:
            KafkaError: the operator does not want that.
        """
        most = self._settings.max_message_bytes
        why = f"MessageSizeTooLarge: {size} bytes, max_message_bytes is {most}"
        place = _place(share.block, row)
        self.refusals.add_message(*place, share.product, share.partition.topic, why)
        self._send_dead(share.block, row, share.product, why, sent)

    def _without_refused(self, share: Share, sent: Sent) -> Chosen:
        """Send the rows that Kafka has refused before to the dead letters; return the others."""
        block, product, chosen = share.block, share.product, share.chosen
        if not self.refusals.has_messages:
            return chosen
        refused = [
            (row, why)
            for row in chosen.tolist()
            if (why := self.refusals.why_message(*_place(block, row), product)) is not None
        ]
        for row, why in refused:
            self._send_dead(block, row, product, why, sent)
        return np.setdiff1d(chosen, [row for row, _ in refused]).astype(np.int64)

    def _send_dead(self, block: RowBlock, row: int, product: str, why: str, sent: Sent) -> None:
        """Send a message or notice to the dead-letter topic, with where it stood and the error."""
        record = PlainMessage.of(block, row)
        wanted = self.routes.topic_of(record.topic, product)
        room = self._settings.max_message_bytes - BATCH_HEADER
        records, timestamp = dead_letter(
            record,
            error=why or self.refusals.why_topic(wanted),
            topic=wanted,
            product=product,
            store=self._name,
            room=room,
            content=self.refusals.content_of(*_place(block, row)),
        )
        number = record.queue_id % self.topics.dead_letter_partitions()
        partition = Partition(self._settings.dead_letter_topic, number)
        note = _note(block, DEAD_LETTERS, np.array([row], np.int64))
        self._opened().add(partition, records, 1, timestamp, timestamp, note)
        sent.dead_letters += 1
        sent.bytes += len(records)


def _place(block: RowBlock, row: int) -> tuple[int, int]:
    """Return physical and queue offset of a row: together they name a message."""
    return int(block.columns.physical_offset[row]), int(block.columns.queue_offset[row])


def _note(block: RowBlock, product: str, chosen: Chosen) -> Note:
    """Return whose records are in a batch, as copies: the columns are used again."""
    columns = block.columns
    return Note(product, columns.physical_offset[chosen], columns.queue_offset[chosen])
