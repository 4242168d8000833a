"""Finds the records that have a key, compiled; the readable twin is `stores.query.by_key.matching`.

A key or topic is compared as bytes here, as text there. That is the same as long as the key has no
U+FFFD: only bytes that are not UTF-8 become one, and such bytes are equal to no key's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.frames import check
from reput.formats.kernels.properties import MASK_WIDTH
from reput.formats.kernels.properties import find as find_properties
from reput.formats.rocketmq.commitlog import Verdict
from reput.stores.query.compiled.index_kernels import HITS, select
from reput.stores.query.compiled.libc import pread, will_need

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

# Bytes of a record that are read at first; most records are shorter.
ROOM = 2048
# Bytes that must be readable after the last record: kernels load whole vectors.
PADDING = MASK_WIDTH + 16
# Hits that a key may have here.
MOST = 128
# What a record's size is where there is none with the key, where the twin has to look, and what is
# returned where a file has to be opened.
NONE, UNSEEN, CLOSED = 0, -1, -2
# Which of a message's names a key is, as `stores.query.by_key.KeyKind` has it; RAW: any will do.
ANY, KEY, UNIQUE, TAG, RAW = range(5)
# Fields of `log`: its first physical offset, the end that is known (what is past it the twin looks
# at, because it may not be in the log), bytes of a file, rules (see
# `formats.kernels.frames.check`), how many files; by file, oldest first: its descriptor, below 0
# while it is closed; by file: the physical offset from which on the twin looks as well, for the
# file's BLANK may stand before it; then a bit for each `READ_AHEAD` bytes: they have been asked
# for.
MIN_OFFSET, END, FILE_SIZE, RULES, FILES, FIRST_DESCRIPTOR = range(6)
# Bytes that a disk reads at once where one record is wanted, as it does around a broker's mapping.
READ_AHEAD = 128 << 10
WORD = 64
# Rows of `records`.
POSITION, SIZE = range(2)
_SPACE = 32
_RECORD, _SHORT = int(Verdict.RECORD), int(Verdict.SHORT)


@kernel
def _is_equal(
    data: Bytes, at: int, length: int, text: Bytes | bytes, start: int, stop: int
) -> bool:
    is_equal = length == stop - start
    i = 0
    while is_equal and i < length:
        is_equal = data[at + i] == text[start + i]
        i += 1
    return is_equal


@kernel
def _has_word(
    data: Bytes, at: int, length: int, text: Bytes | bytes, start: int, stop: int
) -> bool:
    """Tell whether one of the words between single spaces is the text."""
    word, end = at, at + length
    for i in range(at, end + 1):
        if i == end or data[i] == _SPACE:
            if _is_equal(data, word, i - word, text, start, stop):
                return True
            word = i + 1
    return False


@kernel
def _size_with_key(
    text: Bytes | bytes,
    topic_length: int,
    start: int,
    stop: int,
    kind: int,
    position: int,
    data: Bytes,
    at: int,
    got: int,
    file_size: int,
    rules: int,
) -> int:
    """Return the size of the record at `data[at]` if it has the key `text[start:stop]`."""
    file_end = position - position % file_size + file_size
    verdict, length, _, _, _, topic_at, topic_bytes, properties_at = check(
        data, at, at + got, position, file_end, rules
    )
    if verdict != _RECORD:
        return UNSEEN if verdict == _SHORT else NONE
    if kind == RAW:
        return length
    if not _is_equal(data, topic_at, topic_bytes, text, 0, topic_length):
        return NONE
    tags_at, tags_length, keys_at, keys_length, id_at, id_length, _, _, _, _ = find_properties(
        data, properties_at, at + length - properties_at
    )
    is_found = False
    if kind == TAG:
        is_found = _is_equal(data, tags_at, tags_length, text, start, stop)
    elif kind != KEY:
        is_found = _is_equal(data, id_at, id_length, text, start, stop)
    if not is_found and kind in (ANY, KEY):
        is_found = _has_word(data, keys_at, keys_length, text, start, stop)
    return length if is_found else NONE


@kernel
def _read_ahead(log: NDArray[np.int64], descriptor: int, position: int) -> None:
    """Start reading what is around a physical offset, once."""
    number = (position - log[MIN_OFFSET]) // READ_AHEAD
    word = FIRST_DESCRIPTOR + 2 * log[FILES] + number // WORD
    bit = np.int64(1) << (number % WORD)
    if log[word] & bit == 0:
        log[word] |= bit
        in_file = position % log[FILE_SIZE]
        will_need(descriptor, in_file - in_file % READ_AHEAD, READ_AHEAD)


@kernel
def _add_matching(  # noqa: C901 - kernel
    text: Bytes | bytes,
    topic_length: int,
    start: int,
    stop: int,
    kind: int,
    hits: NDArray[np.int64],
    first: int,
    count: int,
    log: NDArray[np.int64],
    records: NDArray[np.int64],
    found: int,
    data: Bytes,
) -> int:
    """Read the records of a key's hits, and add those that have it to the `found` ones.

    Args:
        text: see `find`.
        topic_length: bytes of the topic.
        start: index into `text` of the key.
        stop: index after it.
        kind: see above.
        hits: physical offsets, those of the key from `first` on.
        first: index.
        count: how many hits.
        log: the commitlog; see above.
        records: room for `count` records after the `found` ones; written.
        found: how many there are already.
        data: room for `count` records after the `found` ones; written.

    Returns:
        How many are found now; `UNSEEN` if the twin has to look; `CLOSED` less the number of a file
        that is to be opened first.
    """
    # A key has few hits, mostly one after the other from new to old.
    for i in range(count):
        position = hits[first + i]
        at = found + i
        while at > found and records[POSITION, at - 1] > position:
            records[POSITION, at] = records[POSITION, at - 1]
            at -= 1
        records[POSITION, at] = position
    low, high, file_size = log[MIN_OFFSET], log[END], log[FILE_SIZE]
    for i in range(found, found + count):
        position = records[POSITION, i]
        if position >= high:
            return UNSEEN
        if position >= low:
            file = (position - low) // file_size
            descriptor = log[FIRST_DESCRIPTOR + file]
            if descriptor < 0:
                return int(CLOSED - file)
            _read_ahead(log, descriptor, position)
            at = found * ROOM
            got = pread(descriptor, data, at, ROOM, position % file_size)
            if got < 0:
                return UNSEEN
            size = _size_with_key(
                text,
                topic_length,
                start,
                stop,
                kind,
                position,
                data,
                at,
                got,
                file_size,
                log[RULES],
            )
            if size == UNSEEN:
                return UNSEEN
            if size > NONE and position >= log[FIRST_DESCRIPTOR + log[FILES] + file]:
                return UNSEEN
            if size > NONE:
                records[POSITION, found] = position
                records[SIZE, found] = size
                found += 1
    return found


@kernel
def find(
    text: Bytes | bytes,
    topic_length: int,
    start: int,
    kind: int,
    search: NDArray[np.int64],
    log: NDArray[np.int64],
    records: NDArray[np.int64],
    data: Bytes,
) -> tuple[int, int, int, int, int, int, int]:
    """Find the messages of a topic that have a key, in the order of the log.

    Args:
        text: topic, what stands between, key, in UTF-8.
        topic_length: bytes of the topic.
        start: bytes before the key.
        kind: see above.
        search: see `stores.query.compiled.index_kernels`.
        log: the commitlog; see above.
        records: shape (2, `MOST`): physical offset and size of each record; written.
        data: `MOST * ROOM + PADDING` bytes; record i from byte `i * ROOM` on is written.

    Returns:
        Of `select`: how many hits and the first one; of `_add_matching`: how many messages; offset
        and size of the first; of `select` again: the newest item's timestamp and offset.
    """
    hits, hit, last_timestamp, last_offset = select(text, search)
    found = UNSEEN
    if 0 <= hits <= MOST:
        found = _add_matching(
            text,
            topic_length,
            start,
            len(text),
            kind,
            search,
            search[HITS],
            hits,
            log,
            records,
            0,
            data,
        )
    position, size = records[POSITION, 0], records[SIZE, 0]
    return hits, hit, found, position, size, last_timestamp, last_offset


@kernel
def match_many(  # noqa: C901 - kernel
    text: Bytes | bytes,
    topic_length: int,
    prefix: int,
    key_end: NDArray[np.int64],
    kind: int,
    hits: NDArray[np.int64],
    hit: int,
    count: NDArray[np.int64],
    key: int,
    log: NDArray[np.int64],
    records: NDArray[np.int64],
    data: Bytes,
    found: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Find the messages of keys from one on, of as many as there is room for; see `find`.

    Args:
        text: topic, what stands between, keys one after the other, in UTF-8.
        topic_length: bytes of the topic.
        prefix: bytes before the first key.
        key_end: by key: index into `text` after it.
        kind: see above.
        hits: physical offsets of the keys, one key's after the other's.
        hit: index of the first hit of the first key that is looked at.
        count: by key: how many hits; below 0 where the twin has to look.
        key: number of the first key that is looked at.
        log: the commitlog; see above.
        records: see `find`.
        data: see `find`.
        found: by key: how many messages, or `UNSEEN`; written.

    Returns:
        Number and first hit of the key to resume with; the number of a file that is to be opened
        before, -1 if there is only no more room, or no more key.
    """
    # Reading waits for a disk, but asking does not: it reads for all of them together.
    last = hit
    for i in range(key, len(key_end)):
        last += max(count[i], 0)
    for i in range(hit, last):
        if log[MIN_OFFSET] <= hits[i] < log[END]:
            file = (hits[i] - log[MIN_OFFSET]) // log[FILE_SIZE]
            if log[FIRST_DESCRIPTOR + file] >= 0:
                _read_ahead(log, log[FIRST_DESCRIPTOR + file], hits[i])
    records_found = 0
    while key < len(key_end):
        own = max(count[key], 0)
        if own <= MOST:
            if records_found + own > MOST:
                break
            start = key_end[key - 1] if key > 0 else prefix
            stop = key_end[key]
            outcome = UNSEEN
            if count[key] >= 0:
                outcome = _add_matching(
                    text,
                    topic_length,
                    start,
                    stop,
                    kind,
                    hits,
                    hit,
                    own,
                    log,
                    records,
                    records_found,
                    data,
                )
            if outcome <= CLOSED:
                return key, hit, CLOSED - outcome
            if outcome == UNSEEN:
                found[key] = UNSEEN
            else:
                found[key] = outcome - records_found
                records_found = outcome
        else:
            found[key] = UNSEEN
        hit += own
        key += 1
    return key, hit, -1
