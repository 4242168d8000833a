"""Answers whole requests as they came from a socket; `remoting.reading.pull` is the twin to read.

A request is answered here if its outline is that of a lane: Python has judged such a request, and
has seen that its queue has plain entries. What is left is to take entries and to read records. The
first request that is anything else ends the call, and Python answers it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.memory import load_i32, load_i64, store_i32
from reput.formats.layout import field_offsets
from reput.formats.rocketmq.commitlog import MIN_SIZE
from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE
from reput.remoting.lanes import places as p
from reput.remoting.lanes.libc import preadv_now, send_now
from reput.remoting.lanes.outlines import hash_of, outline
from reput.remoting.lanes.records import NO_LOG_FILE, NOT_HERE, read
from reput.remoting.reading.pull import NEAR_END

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

    Longs = NDArray[np.int64]

_OFFSET_AT, _ENTRY_SIZE_AT, _CODE_AT = field_offsets(ENTRY)
_INT_MAX = (1 << 31) - 1
# What `_take` returns for a file that has to be opened.
_NO_QUEUE_FILE = -3
_ZERO = 48


@kernel
def _word(data: Bytes | bytes, at: int) -> int:
    word = np.int64(data[at]) << 24
    word |= np.int64(data[at + 1]) << 16
    word |= np.int64(data[at + 2]) << 8
    return word | np.int64(data[at + 3])  # type: ignore[return-value]


@kernel
def lane_of(text: Bytes, length: int, slots: Longs, lanes: NDArray[np.int64], texts: Bytes) -> int:
    """Return the lane of an outline; -1 for none, -2 if the outline was seen before."""
    code = hash_of(text, length)
    at = code & (p.SLOTS - 1)
    while slots[at]:
        lane = slots[at] - 1
        if lanes[lane, p.OUTLINE] == length:
            i = 0
            while i < length and texts[lane, i] == text[i]:
                i += 1
            if i == length:
                return int(lane)
        at = (at + 1) & (p.SLOTS - 1)
    seen = p.SLOTS + ((code >> 16) & (p.SLOTS - 1))
    if slots[seen] == code:
        return -2
    slots[seen] = code
    return -1


@kernel
def _take(  # noqa: C901, PLR0911 - kernel
    lane: int, state: Longs, lanes: Longs, queues: Longs, work: Bytes, vectors: Longs
) -> tuple[int, int]:
    """Choose what a pull takes of its queue's entries; see `remoting.reading.entries`.

    Returns:
        How many records, placed in `vectors`, or why Python has to answer; entries looked at.
    """
    queue = lanes[lane, p.QUEUE]
    offset = vectors[p.NUMBERS + p.OFFSET]
    high = queues[queue, p.QUEUE_MAX]
    wanted = lanes[lane, p.MAX_MESSAGES]
    if offset < queues[queue, p.QUEUE_MIN] or high - offset <= max(wanted, NEAR_END):
        return NOT_HERE, 0
    codes = lanes[lane, p.CODES]
    most = min(wanted, state[p.MOST_MESSAGES])
    count = most if codes < 0 else p.MOST_ENTRIES
    count = min(count, high - offset)
    position = offset * ENTRY_SIZE
    in_file = position % queues[queue, p.QUEUE_FILE_SIZE]
    base = position - in_file
    count = min(count, (queues[queue, p.QUEUE_FILE_SIZE] - in_file) // ENTRY_SIZE)
    file = base // queues[queue, p.QUEUE_FILE_SIZE] % p.QUEUE_FILES
    if queues[queue, p.QUEUE_BASES + file] != base:
        return _NO_QUEUE_FILE, base
    vectors[0] = work.ctypes.data + p.ENTRIES_AT
    vectors[1] = count * ENTRY_SIZE
    if count * ENTRY_SIZE != preadv_now(
        queues[queue, p.QUEUE_DESCRIPTORS + file], vectors, 1, in_file
    ):
        return NOT_HERE, 0
    taken = 0
    transferred = 0
    seen = 0
    while seen < count:
        at = p.ENTRIES_AT + seen * ENTRY_SIZE
        size = load_i32(work, at + _ENTRY_SIZE_AT)
        if taken and (taken >= most or transferred + size > state[p.MOST_BYTES]):
            break
        passes = codes < 0
        if not passes:
            code = load_i64(work, at + _CODE_AT)
            if code > _INT_MAX or code < -_INT_MAX - 1:
                # An address, or a time.
                return NOT_HERE, 0
            i = 0
            while not passes and i < codes:
                passes = lanes[lane, p.FIRST_CODE + i] == code
                i += 1
        if passes:
            if size < MIN_SIZE:
                return NOT_HERE, 0
            vectors[p.POSITIONS + taken] = load_i64(work, at + _OFFSET_AT)
            vectors[p.SIZES + taken] = size
            transferred += size
            taken += 1
        seen += 1
    if not taken or transferred > p.BODY_ROOM:
        return NOT_HERE, 0
    return taken, seen


@kernel
def _put_number(out: Bytes, at: int, value: int) -> int:
    """Write a number that is not negative in decimal digits; return where it ends."""
    digits = 1
    rest = value // 10
    while rest:
        digits += 1
        rest //= 10
    for i in range(digits):
        out[at + digits - 1 - i] = _ZERO + value % 10
        value //= 10
    return at + digits


@kernel
def _put_header(
    lane: int,
    lanes: Longs,
    texts: Bytes,
    queues: Longs,
    seen: int,
    out: Bytes,
    at: int,
    vectors: Longs,
) -> int:
    """Write an answer's header after its lengths; return where it ends."""
    queue = lanes[lane, p.QUEUE]
    text = p.OUTLINE_ROOM
    for part in range(p.PART_COUNT):
        length = lanes[lane, p.PARTS + part]
        for i in range(length):
            out[at + i] = texts[lane, text + i]
        at += length
        text += length
        if part == 0:
            at = _put_number(out, at, vectors[p.NUMBERS + p.OFFSET] + seen)
        elif part == 1:
            at = _put_number(out, at, queues[queue, p.QUEUE_MIN])
        elif part == 2:
            at = _put_number(out, at, queues[queue, p.QUEUE_MAX])
        elif part == 3:
            at = _put_number(out, at, vectors[p.NUMBERS + p.OPAQUE])
    return at


@kernel
def serve(  # noqa: C901, PLR0912, PLR0915 - kernel
    data: Bytes | bytes,
    at: int,
    size: int,
    socket: int,
    told: int,
    arrays: p.Arrays,
) -> tuple[int, int, int, int, int, int]:
    """Answer the requests at the beginning of what has come, as far as lanes can.

    Args:
        data: frames, the last one maybe not whole.
        at: where the first one begins.
        size: where the last one ends.
        socket: where answers are sent to; below 0 they are only written to `out`.
        told: how many stand in `commits`.
        arrays: see `places`; `out` gets the answers, `commits` each one's lane and offset.

    Returns:
        Where the first request begins that is not answered; why it is not; what has to be opened
        for it, or its lane; bytes that were sent of the answers; bytes of the answers; how many.
    """
    state, lanes, queues, texts = arrays.state, arrays.lanes, arrays.queues, arrays.texts
    out, work, vectors = arrays.out, arrays.work, arrays.vectors
    filled = 0
    turn = 0
    why = p.DONE
    detail = 0
    while at < size:
        if turn == p.TURN or filled + p.BODY_ROOM + p.HEADER_ROOM > len(out):
            why = p.ENOUGH
            break
        if size - at < 8:
            why = p.PARTIAL
            break
        header = _word(data, at + 4)
        # JSON, and no body.
        if header != _word(data, at) - 4 or not 0 < header <= p.OUTLINE_ROOM:
            why = p.OTHER
            break
        end = at + 8 + header
        if end > size:
            why = p.PARTIAL
            break
        length = outline(data, at + 8, end, work, vectors)
        if length < 0:
            why = p.OTHER
            break
        lane = lane_of(work, length, arrays.slots, lanes, texts)
        if lane < 0:
            why = p.NEW if lane == -1 else p.REPEATED
            break
        detail = lane
        queue = lanes[lane, p.QUEUE]
        if queues[queue, p.QUEUE_MAX] < 0:
            why = p.CLOSED
            break
        taken, seen = _take(lane, state, lanes, queues, work, vectors)
        body = taken
        place = seen
        # The header's numbers are known now, and so is where records begin.
        head = _put_header(lane, lanes, texts, queues, seen, out, filled + 8, vectors)
        if taken > 0:
            body, place = read(taken, state, out, head, work, vectors)
        if body < 0:
            why = p.OTHER
            if body == _NO_QUEUE_FILE:
                why = p.QUEUE_FILE
            elif body == NO_LOG_FILE:
                why = p.LOG_FILE
                detail = place
            break
        store_i32(out, filled, head + body - filled - 4)
        store_i32(out, filled + 4, head - filled - 8)
        filled = head + body
        arrays.commits[told + turn, 0] = lane
        arrays.commits[told + turn, 1] = vectors[p.NUMBERS + p.COMMIT]
        lanes[lane, p.NEXT] = vectors[p.NUMBERS + p.OFFSET] + seen
        tally = p.TALLIES + p.TALLY * lanes[lane, p.KIND]
        state[tally] += 1
        state[tally + 1] += body
        state[tally + 2] += taken
        turn += 1
        at = end
    sent = 0
    if socket >= 0 and filled:
        sent = max(send_now(socket, out, filled), 0)
    return at, why, detail, sent, filled, turn
