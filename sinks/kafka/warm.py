"""Compiles the kernels that messages to Kafka need, without a Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kafka import records
from reput.sinks.kafka.client.settings import KEY, KafkaSettings
from reput.sinks.kafka.messages.blocks import RowReader
from reput.sinks.kafka.messages.routes import Routes
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.tail import find_tail

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings


def encode_once(store: Path, settings: BrokerSettings) -> None:
    """Encode a store's first block with every kernel there is."""
    log = CommitLog(commitlog_directories(store, settings), settings)
    try:
        reader = RowReader(log, decompresses=True, block_bytes=1 << 16)
        chosen = KafkaSettings("", partition_by=KEY, tags="tag")
        routes = Routes(chosen, "warm", lambda _: 1)
        block = next(reader.blocks(log.min_offset, find_tail(log).end, {}))
        found = routes.of_rows(block.data, block.columns)
        rows = np.arange(len(found.routes), dtype=np.int64)
        out = np.empty(1 << 16, np.uint8)
        records.encode_messages(
            block.data, block.columns, rows, 0, 1, found.routes, routes.pieces,
            records.KEYS_KEY, True, True, out,
        )  # fmt: skip
        records.encode_notices(
            block.data, block.columns, rows, 0, 1, found.routes, routes.pieces, out
        )
    finally:
        log.close()
