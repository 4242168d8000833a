"""Rows of one partition as encoded batches, in a buffer that is used again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reput.formats.kafka import records
from reput.formats.kafka.records import Encoded
from reput.sinks.kafka.client.settings import ALL, ARRIVALS, KEYS, NONE, UNIQ_KEY

if TYPE_CHECKING:
    from reput.formats.kafka.records import RoutePieces
    from reput.formats.kernels.memory import Bytes
    from reput.sinks.kafka.client.partition import Partition
    from reput.sinks.kafka.client.settings import KafkaSettings
    from reput.sinks.kafka.messages.blocks import RowBlock
    from reput.sinks.kafka.messages.routes import Rows

_KEYS = {
    NONE: records.NO_KEY,
    KEYS: records.KEYS_KEY,
    UNIQ_KEY: records.UNIQ_KEY_KEY,
}


class Share(NamedTuple):
    """Rows of a block that go into one partition.

    Attributes:
        block: the rows.
        rows: their routes.
        product: messages or arrival notices.
        partition: where they go.
        chosen: their numbers, in log order.
    """

    block: RowBlock
    rows: Rows
    product: str
    partition: Partition
    chosen: np.ndarray[Any, np.dtype[np.int64]]


class Encoder:
    """Encodes as the settings say."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._key = _KEYS[settings.key]
        self._coordinates = settings.headers != NONE
        self._properties = settings.headers == ALL
        self._out: Bytes = np.empty(settings.batch_bytes, np.uint8)

    def encode(
        self, share: Share, pieces: RoutePieces, first: int, most: int, limit: int
    ) -> tuple[memoryview, Encoded]:
        """Encode what fits into a batch, at least one record however large.

        Args:
            share: the rows.
            pieces: of routes.
            first: number of the first one of the chosen rows to encode.
            most: records.
            limit: bytes.

        Returns:
            The records, until the next call, and what is in them.
        """
        out = self._out[:limit]
        while True:
            result = self._encode_into(out, share, pieces, first, most)
            if result.length >= 0:
                return out.data[: result.length], result
            if -result.length > len(self._out):
                self._out = np.empty(-result.length, np.uint8)
            out = self._out[: -result.length]

    def _encode_into(
        self, out: Bytes, share: Share, pieces: RoutePieces, first: int, most: int
    ) -> Encoded:
        block, routes = share.block, share.rows.routes
        if share.product == ARRIVALS:
            encoded = records.encode_notices(
                block.data, block.columns, share.chosen, first, most, routes, pieces, out
            )
        else:
            encoded = records.encode_messages(
                block.data, block.columns, share.chosen, first, most, routes, pieces,
                self._key, self._coordinates, self._properties, out,
            )  # fmt: skip
        return Encoded(*map(int, encoded))
