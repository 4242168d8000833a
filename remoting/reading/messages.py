"""Messages by their place in the log, by key and by unique key (`QueryMessageProcessor`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.reading.answer import Answer
from reput.remoting.wire.admin_headers import QueryMessageResponseHeader
from reput.remoting.wire.codes import ResponseCode
from reput.stores.log.records import NoRecordError
from reput.stores.query.by_key import MAX_HITS, MAX_UNIQUE_HITS, KeyKind, KeyLookup, KeyStatus
from reput.stores.query.index_search import Window
from reput.stores.query.presence import lost_index
from reput.stores.reads import patiently

if TYPE_CHECKING:
    from reput.formats.rocketmq.commitlog import Record
    from reput.remoting.reading.served import Served
    from reput.remoting.wire.admin_headers import (
        QueryMessageRequestHeader,
        ViewMessageRequestHeader,
    )
    from reput.stores.query.message_store import MessageStore
    from reput.stores.reads import Steps

_TAG_INDEX = "T"


def view_message(header: ViewMessageRequestHeader, served: Served) -> Answer:
    """Answer `VIEW_MESSAGE_BY_ID`: the record at a physical offset.

    A broker sends whatever stands there; here a record has to begin there.
    """
    store = served.store_at(header.offset)
    try:
        record = store.at(header.offset)
    except NoRecordError:
        remark = f"can not find message by the offset, {header.offset}"
        return Answer(ResponseCode.SYSTEM_ERROR, remark)
    pieces = served.leaving([_bytes_of(store, record)])
    return Answer(ResponseCode.SUCCESS, pieces=pieces, messages=1)


def query_message(
    header: QueryMessageRequestHeader, served: Served, *, is_unique: bool = False
) -> Steps[Answer]:
    """Answer `QUERY_MESSAGE` in turns: the records whose keys have the hash of a key, in log order.

    Args:
        header: the request.
        served: what is asked.
        is_unique: `_UNIQUE_KEY_QUERY` of the request is "true".

    Raises:
        StoreError: the log is away, or the index: nobody can say that there is no such message.
    """
    store = served.store
    if store.presence.away is not None:
        raise store.presence.away
    limit = MAX_UNIQUE_HITS if is_unique else min(header.max_num, MAX_HITS)
    window = Window(header.begin_timestamp, header.end_timestamp)
    by_tag = header.index_type == _TAG_INDEX and store.settings.version.indexes_tags
    if limit < 1 or window.begin > window.end or not header.topic or not header.key:
        return _not_found(QueryMessageResponseHeader(0, 0))
    kind = KeyKind.TAG if by_tag else KeyKind.ANY
    lookup = KeyLookup(store.index, store.log)
    found = yield from lookup.key_steps(header.topic, header.key, kind, window, limit)
    if found.status == KeyStatus.NO_INDEX:
        lost = lost_index(store)
        if lost is not None:
            raise lost
    # A broker says how far its index is only where it has the key.
    last = (found.last_timestamp, found.last_offset) if found.offsets else (0, 0)
    said = QueryMessageResponseHeader(*last)
    if not found.messages:
        return _not_found(said)
    pieces = yield from patiently(
        lambda: served.leaving([_bytes_of(store, record) for record in found.messages])
    )
    return Answer(ResponseCode.SUCCESS, None, said, pieces, len(pieces))


def _not_found(said: QueryMessageResponseHeader) -> Answer:
    remark = "can not find message, maybe time range not correct"
    return Answer(ResponseCode.QUERY_NOT_FOUND, remark, said)


def _bytes_of(store: MessageStore, record: Record) -> memoryview:
    return memoryview(store.log.bytes_at(record.physical_offset, record.size))
