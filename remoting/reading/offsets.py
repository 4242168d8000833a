"""Offsets and times of a queue: the greatest and least offset, that of a time, the first time.

Source: RocketMQ `AdminBrokerProcessor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.reading.answer import success
from reput.remoting.wire.pull_headers import (
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetResponseHeader,
    SearchOffsetResponseHeader,
)
from reput.stores.queues.by_time import Boundary

if TYPE_CHECKING:
    from reput.remoting.reading.answer import Answer
    from reput.remoting.reading.served import Served
    from reput.remoting.wire.pull_headers import (
        GetEarliestMsgStoretimeRequestHeader,
        GetMaxOffsetRequestHeader,
        GetMinOffsetRequestHeader,
        SearchOffsetRequestHeader,
    )

_UNKNOWN = -1


def max_offset(header: GetMaxOffsetRequestHeader, served: Served) -> Answer:
    """Answer `GET_MAX_OFFSET`: one more than the last message's, 0 for no queue."""
    store = served.store_of(header.topic, header.queue_id)
    queue = store.queue_now(header.topic, header.queue_id)
    return success(GetMaxOffsetResponseHeader(queue.max_offset if queue is not None else 0))


def min_offset(header: GetMinOffsetRequestHeader, served: Served) -> Answer:
    """Answer `GET_MIN_OFFSET`: the first message's, 0 for no queue."""
    store = served.store_of(header.topic, header.queue_id)
    queue = store.queue_now(header.topic, header.queue_id)
    said = GetMinOffsetResponseHeader(queue.min_offset if queue is not None else 0)
    return success(said, served.release.min_offset_remark)


def search_offset(header: SearchOffsetRequestHeader, served: Served) -> Answer:
    """Answer `SEARCH_OFFSET_BY_TIMESTAMP`; see `stores.queues.by_time`. 0 for no queue."""
    boundary = None
    if served.store.settings.version.has_time_boundaries:
        is_upper = (header.boundary_type or "").lower() == Boundary.UPPER
        boundary = Boundary.UPPER if is_upper else Boundary.LOWER
    store = served.store_of(header.topic, header.queue_id)
    found = store.offset_by_time(header.topic, header.queue_id, header.timestamp, boundary)
    return success(SearchOffsetResponseHeader(found or 0))


def earliest_store_time(header: GetEarliestMsgStoretimeRequestHeader, served: Served) -> Answer:
    """Answer `GET_EARLIEST_MSG_STORETIME`: when the first message was stored, -1 for unknown."""
    store = served.store_of(header.topic, header.queue_id)
    queue = store.queue_now(header.topic, header.queue_id)
    found = None
    if queue is not None:
        first = next(queue.all_entries(max(queue.min_offset, 0)), None)
        found = store.stored_at(first) if first is not None else None
    return success(GetEarliestMsgStoretimeResponseHeader(_UNKNOWN if found is None else found))
