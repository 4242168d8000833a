"""A pull: which records of a queue answer it, and with which code (`PullMessageProcessor`).

Nearly every pull is for plain entries whose records stand in the log, filtered by tags or not at
all. Those are answered over columns, and the bytes of the records go out as they lie in the log.
All others are answered by `stores.queues.pull`, entry by entry: SQL92, entries with extensions,
batch queues, and entries whose records are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.errors import StoreError
from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE
from reput.remoting.reading import entries
from reput.remoting.reading.answer import Answer, RefusedError
from reput.remoting.reading.filters import HashFilter
from reput.remoting.reading.pull_checks import filter_of, topic_and_group
from reput.remoting.reading.records import pieces_of
from reput.remoting.wire.codes import ResponseCode
from reput.remoting.wire.pull_headers import PullMessageResponseHeader
from reput.stores.log.files import LogChangedError
from reput.stores.queues.pull import PullStatus, outside, scanned_entries
from reput.stores.queues.pull import steps as select
from reput.stores.reads import ColdError, patiently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.remoting.names.known import Topic
    from reput.remoting.reading.pull_checks import Filter
    from reput.remoting.reading.served import GroupConfig, Resets, Served
    from reput.remoting.wire.pull_headers import PullMessageRequestHeader
    from reput.stores.query.message_store import MessageStore
    from reput.stores.queues.pull import PullLimits
    from reput.stores.queues.reader import QueueReader
    from reput.stores.reads import Steps

_MASTER = 0
# Messages before a queue's end, as far as it is known, from which on more is looked for.
NEAR_END = 64
_CODES = {
    PullStatus.FOUND: ResponseCode.SUCCESS,
    PullStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    PullStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    PullStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    PullStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    PullStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    PullStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
    PullStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class Found(NamedTuple):
    """What the store has for a pull.

    Attributes:
        status: as a broker names it, in the remark of its answer.
        next_offset: where the next pull resumes.
        min_offset: of the queue.
        max_offset: of the queue, exclusive.
        pieces: records as they lie in the log.
        messages: how many there are in them.
    """

    status: PullStatus
    next_offset: int
    min_offset: int = 0
    max_offset: int = 0
    pieces: Sequence[memoryview] = ()
    messages: int = 0


def pull(
    header: PullMessageRequestHeader, served: Served, peer: str = "", *, is_lite: bool = False
) -> Answer:
    """Return the answer to a pull; one with `PULL_NOT_FOUND` may be held.

    The offset that the pull may commit is not its business.

    Args:
        header: the request.
        served: what is asked.
        peer: address of the client as Java writes it, "/127.0.0.1:4711".
        is_lite: it is a `LITE_PULL_MESSAGE`.
    """
    asked = steps(header, served, peer, is_lite=is_lite)
    while True:
        try:
            next(asked)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # what `steps` returns


def steps(
    header: PullMessageRequestHeader, served: Served, peer: str = "", *, is_lite: bool = False
) -> Steps[Answer]:
    """Do what `pull` does, in turns; see `Turns`."""
    try:
        topic, group = topic_and_group(header, served, peer, is_lite=is_lite)
        wanted = filter_of(header, served, group)
    except RefusedError as error:
        return error.answer
    try:
        found = yield from _find_now(header, served, wanted)
    except StoreError:
        # Said where it is seen first, not to each client.
        return Answer(ResponseCode.SYSTEM_ERROR, "store getMessage return null")
    places = found.next_offset, found.min_offset, found.max_offset
    said = said_of(places, topic, group, has_flags=served.release.has_flags)
    code = code_of(found.status, header.queue_offset)
    return Answer(code, found.status, said, served.leaving(found.pieces), found.messages)


def said_of(
    places: tuple[int, int, int], topic: Topic, group: GroupConfig, *, has_flags: bool
) -> PullMessageResponseHeader:
    """Return the fields of an answer.

    Args:
        places: where the next pull resumes, the queue's min offset and its max offset.
        topic: what is known of it.
        group: likewise.
        has_flags: see `Release`.
    """
    return PullMessageResponseHeader(
        _MASTER,
        *places,
        topic_sys_flag=topic.sys_flag if has_flags else None,
        group_sys_flag=group.sys_flag if has_flags else None,
    )


def _find_now(header: PullMessageRequestHeader, served: Served, wanted: Filter) -> Steps[Found]:
    """Do what `find` does, though files go meanwhile.

    Raises:
        StoreError: the log or all queues are not there.
    """
    try:
        return (yield from find(header, served, wanted))
    except LogChangedError:
        # A file has expired, or the log was cut, since the last look.
        yield from patiently(served.look_at_files)
    try:
        return (yield from find(header, served, wanted))
    except LogChangedError:
        # They go faster than they are looked at.
        return Found(PullStatus.MESSAGE_WAS_REMOVING, header.queue_offset)


def code_of(status: PullStatus, queue_offset: int) -> ResponseCode:
    """Return the code of an answer.

    Args:
        status: what the store says.
        queue_offset: what was asked for.
    """
    code = _CODES.get(status)
    if code is not None:
        return code
    # There is no queue, or nothing in it: only a client that begins is where it should be.
    return ResponseCode.PULL_OFFSET_MOVED if queue_offset else ResponseCode.PULL_NOT_FOUND


def find(header: PullMessageRequestHeader, served: Served, wanted: Filter) -> Steps[Found]:
    """Return what the store has for a pull, in turns.

    Args:
        header: the request.
        served: what is asked.
        wanted: the filter, None for every message.

    Raises:
        LogChangedError: the files are no longer those of the last look.
    """
    resets = served.resets
    if resets is not None and resets.is_reset(*_place(header)):
        moved = yield from _reset(header, served, resets)
        if moved is not None:
            return moved
    while True:
        try:
            found = _find(header, served, wanted)
        except ColdError as cold:
            yield cold
        else:
            break
    return (yield from _by_entries(header, served, wanted)) if found is None else found


def _queue_of(
    header: PullMessageRequestHeader, served: Served
) -> tuple[MessageStore, tuple[str, int]]:
    """Return the store of the queue that is pulled, and the queue's name in it."""
    name = header.topic, header.queue_id
    return served.store_of(*name), name


def _place(header: PullMessageRequestHeader) -> tuple[str, str, int]:
    return header.consumer_group, header.topic, header.queue_id


def _reset(header: PullMessageRequestHeader, served: Served, resets: Resets) -> Steps[Found | None]:
    """Return where a tool has set the group to, None if another pull was told meanwhile."""
    store, name = _queue_of(header, served)
    queue = yield from patiently(lambda: store.queue(*name))
    offset = resets.take_reset(*_place(header))
    if offset is None:
        return None
    around = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
    return Found(PullStatus.OFFSET_RESET, offset, *around)


def _find(header: PullMessageRequestHeader, served: Served, wanted: Filter) -> Found | None:
    """Return what the store has for a pull, None where entries have to be looked at one by one."""
    store, name = _queue_of(header, served)
    queue = store.queue(*name)
    offset = header.queue_offset
    if queue is not None and queue.max_offset - offset <= max(header.max_msg_nums, NEAR_END):
        # A client that is far from the end asks again before it matters what was written since.
        queue = store.queue_now(*name)
    if queue is None:
        # A broker makes the queue when it is asked for, with nothing in it.
        return Found(PullStatus.NO_MESSAGE_IN_QUEUE, 0)
    low, high = queue.min_offset, queue.max_offset
    missed = outside(low, high, offset)
    if missed is not None:
        return Found(*missed, low, high)
    if queue.is_batch or not (wanted is None or isinstance(wanted, HashFilter)):
        return None
    return _by_columns(queue, offset, header.max_msg_nums, wanted, served.limits_now())


def _by_columns(
    queue: QueueReader,
    offset: int,
    max_messages: int,
    wanted: HashFilter | None,
    limits: PullLimits,
) -> Found | None:
    """Return the messages of plain entries, None if there are others among them."""
    low, high = queue.min_offset, queue.max_offset
    count = min(scanned_entries(max_messages), high - offset)
    if wanted is None:
        # Each entry is a message: more than these are never taken.
        count = min(count, max(min(max_messages, max(limits.messages, limits.disk_messages)), 1))
    codes = None if wanted is None else wanted.codes or frozenset()
    few = min(count, entries.FEW)
    raw = queue.files.read(offset * ENTRY_SIZE, few * ENTRY_SIZE)
    taken = entries.first(raw, codes, max_messages, limits) if len(raw) >= ENTRY_SIZE else None
    if taken is None:
        raw = queue.files.read(offset * ENTRY_SIZE, count * ENTRY_SIZE)
        taken = _taken(raw, codes, max_messages, limits)
        if taken is None:
            return None
    end = offset + taken.seen
    if not taken.sizes:
        return Found(PullStatus.NO_MATCHED_MESSAGE, end, low, high)
    pieces = pieces_of(queue.log, taken.offsets, taken.sizes)
    if pieces is None:
        return None
    return Found(PullStatus.FOUND, end, low, high, pieces, len(taken.sizes))


def _taken(
    raw: bytes, codes: frozenset[int] | None, max_messages: int, limits: PullLimits
) -> entries.Taken | None:
    """Return what a pull takes of any number of entries, None if there are others among them."""
    rows = np.frombuffer(raw, ENTRY, len(raw) // ENTRY_SIZE)
    if not len(rows):
        return None
    offsets = rows["physical_offset"].astype(np.int64)
    sizes = rows["size"].astype(np.int64)
    passing = None
    if codes is not None:
        passing = entries.with_codes(rows["tags_code"].astype(np.int64), codes)
        if passing is None:
            return None
    seen = entries.full_at(offsets, sizes, passing, max_messages, limits)
    offsets, sizes = offsets[:seen], sizes[:seen]
    if passing is not None:
        offsets, sizes = offsets[passing[:seen]], sizes[passing[:seen]]
    return entries.Taken(seen, offsets.tolist(), sizes.tolist())


def _by_entries(header: PullMessageRequestHeader, served: Served, wanted: Filter) -> Steps[Found]:
    """Return the messages of entries of any kind, one after the other."""
    store, name = _queue_of(header, served)
    queue = yield from patiently(lambda: store.queue(*name))
    found = yield from select(
        queue,
        store.settings,
        header.queue_offset,
        header.max_msg_nums,
        wanted,
        served.limits_now(),
        name=name,
        unit_size=queue.files.unit if queue is not None else ENTRY_SIZE,
    )
    pieces = []
    for _, record in found.messages:
        place = record.physical_offset, record.size
        raw = yield from patiently(lambda place=place: store.log.bytes_at(*place))  # type: ignore[misc]
        pieces.append(memoryview(raw))
    around = found.min_offset, found.max_offset
    return Found(found.status, found.next_offset, *around, pieces, len(pieces))
