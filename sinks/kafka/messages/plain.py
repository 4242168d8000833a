"""One message at a time, as Python values: for dead letters and positions, which are few."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.kafka.headers import NUMBERS, property_name
from reput.sinks.kafka.client.batch import encode_records
from reput.sinks.kafka.client.settings import MESSAGES
from reput.sinks.kafka.messages.refusals import BARE, WHOLE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reput.formats.rows.texts import Slices
    from reput.sinks.kafka.messages.blocks import RowBlock

_KEPT_OF_ERROR = 500
_NO_KEY = "InvalidRecord"
# Bytes of a header besides its value, and of a record besides its headers: upper bounds.
_HEADER_BYTES = 200
# Bytes of a record without headers besides key and value: an upper bound.
RECORD_BYTES = 40


class PlainMessage(NamedTuple):
    """One message as Python values."""

    topic: str
    queue_id: int
    key: bytes | None
    body: bytes
    coordinates: list[tuple[str, bytes]]
    properties: list[tuple[str, bytes]]

    @classmethod
    def of(cls, block: RowBlock, row: int) -> PlainMessage:
        """Return a row of a block."""
        data, columns = block.data, block.columns

        def raw(slices: Slices, number: int) -> bytes:
            at = int(slices.at[number])
            return data[at : at + int(slices.length[number])].tobytes()

        first = int(columns.property_end[row - 1]) if row else 0
        numbers: tuple[NDArray[np.int64] | NDArray[np.int32], ...] = (
            columns.queue_offset, columns.physical_offset, columns.store_timestamp,
            columns.born_timestamp, columns.sys_flag, columns.reconsume_times,
        )  # fmt: skip
        topic = raw(columns.topic, row)
        queue_id = int(columns.queue_id[row])
        coordinates = [("rmq.topic", topic), ("rmq.queueId", str(queue_id).encode())]
        coordinates += [
            (name, str(int(column[row])).encode())
            for name, column in zip(NUMBERS, numbers, strict=True)
        ]
        properties = [
            (property_name(raw(columns.names, i).decode()), raw(columns.values, i))
            for i in range(first, int(columns.property_end[row]))
        ]
        return cls(
            topic=topic.decode(),
            queue_id=queue_id,
            key=raw(columns.keys, row) or None,
            body=raw(columns.body, row),
            coordinates=coordinates,
            properties=properties,
        )


def dead_letter(
    message: PlainMessage,
    *,
    error: str,
    topic: str,
    product: str,
    store: str,
    room: int,
    content: int = WHOLE,
) -> tuple[memoryview, int]:
    """Return a message as its dead letter, encoded, and its timestamp.

    A dead letter lacks whatever its message may have been refused for: its timestamp is now, and
    where a key is wanted and there is none, it gets one of its own.

    Args:
        message: the message.
        error: what Kafka said.
        topic: where it was to go.
        product: as what.
        store: the store's name.
        room: bytes that it may have; a body that does not fit is left out.
        content: how much of the message is in it, see `sinks.kafka.messages.refusals`.
    """
    said = {"": error[:_KEPT_OF_ERROR], ".topic": topic, ".product": product}
    headers = [(f"rmq.error{name}", text.encode()) for name, text in said.items()]
    headers += [("rmq.store", store.encode()), *message.coordinates]
    headers += message.properties if content != BARE else []
    key = message.key if content != BARE else None
    if key is None and (content != WHOLE or error.startswith(_NO_KEY)):
        key = _own_key(message, store)
    value: bytes | None = message.body if product == MESSAGES else None
    around = sum(len(text) + _HEADER_BYTES for _, text in headers) + len(key or b"")
    if value is not None and (content != WHOLE or len(value) + around > room):
        headers.append(("rmq.error.bodyBytes", str(len(value)).encode()))
        value = None
    now = int(time.time() * 1000)
    return encode_records([(now, key, value, headers)]), now


def _own_key(message: PlainMessage, store: str) -> bytes:
    """Return a key that only this message has."""
    places = dict(message.coordinates)
    return b"@".join((store.encode(), places["rmq.physicalOffset"], places["rmq.queueOffset"]))
