"""Tells which records have a key, compiled; the readable twin is `stores.by_key.has_key`.

A key or topic is compared as bytes here, as text there. That is the same as long as the key has no
U+FFFD: only bytes that are no UTF-8 become one, and such bytes are equal to no key's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.commitlog import Verdict
from formats.compiled import kernel
from formats.frames import check
from formats.property_kernels import MASK_WIDTH, find

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from formats.memory import Bytes

# Bytes of a record that are read at first; most records are shorter.
ROOM = 2048
# Bytes that must be readable behind the last record: kernels load whole vectors.
PADDING = MASK_WIDTH + 16
# What a record's size is where there is none with the key, and where the twin has to look.
NONE, UNSEEN = 0, -1
# Which of a message's names a key is, as `stores.by_key.KeyKind` has it; RAW: any will do.
ANY, KEY, UNIQUE, TAG, RAW = range(5)
# Rows of the `records` of `match_many`.
NUMBER, POSITION, GOT, SIZE = range(4)
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
    tags_at, tags_length, keys_at, keys_length, id_at, id_length, _, _, _, _ = find(
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
def match(
    text: Bytes | bytes,
    topic_length: int,
    prefix: int,
    kind: int,
    position: int,
    data: Bytes,
    got: int,
    file_size: int,
    rules: int,
) -> int:
    """Tell whether a whole record with a key stands at the beginning of `data`.

    Args:
        text: topic, what stands between, key, in UTF-8.
        topic_length: bytes of the topic.
        prefix: bytes before the key.
        kind: see above.
        position: physical offset of `data[0]`.
        data: bytes of the log, `PADDING` more behind them.
        got: how many bytes of the log.
        file_size: of a commitlog file.
        rules: see `formats.frames.check`.

    Returns:
        The record's size, `NONE` or `UNSEEN`.
    """
    return _size_with_key(
        text, topic_length, prefix, len(text), kind, position, data, 0, got, file_size, rules
    )


@kernel
def match_many(
    text: Bytes | bytes,
    topic_length: int,
    prefix: int,
    key_end: NDArray[np.int64],
    kind: int,
    count: int,
    records: NDArray[np.int64],
    data: Bytes,
    file_size: int,
    rules: int,
) -> None:
    """Tell of each record whether it is a whole one that has its key; see `match`.

    Args:
        text: topic, what stands between, keys one behind the other, in UTF-8.
        topic_length: bytes of the topic.
        prefix: bytes before the first key.
        key_end: by key: index into `text` behind it.
        kind: see above.
        count: how many records there are.
        records: shape (4, n): number of its key; physical offset; how many of its bytes are
            there, `ROOM` at most; its size, `NONE` or `UNSEEN`, which is written.
        data: record i at byte `i * ROOM`; `PADDING` bytes behind the last one.
        file_size: of a commitlog file.
        rules: see `formats.frames.check`.
    """
    for i in range(count):
        key = records[NUMBER, i]
        records[SIZE, i] = _size_with_key(
            text,
            topic_length,
            key_end[key - 1] if key > 0 else prefix,
            key_end[key],
            kind,
            records[POSITION, i],
            data,
            i * ROOM,
            records[GOT, i],
            file_size,
            rules,
        )
