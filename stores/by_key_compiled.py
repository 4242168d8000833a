"""Reads the records that an index points to, and leaves to a kernel which of them have the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formats.compiled import called_with
from stores import by_key_kernels as kernels
from stores.by_key import KeyKind
from stores.by_key_kernels import NONE, PADDING, ROOM, UNSEEN
from stores.records import NO_MESSAGES, Messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.commitlog import Record
    from stores.log_files import LogFiles

_ANY = KeyKind.ANY
_KINDS = {
    _ANY: kernels.ANY,
    KeyKind.KEY: kernels.KEY,
    KeyKind.UNIQUE: kernels.UNIQUE,
    KeyKind.TAG: kernels.TAG,
}
# What bytes that are no UTF-8 are in a text: what has it is left to the readable twin.
_NO_UTF8 = "\ufffd"


class Matcher:
    """Reads records and tells which have a key; `stores.by_key.matching` is the readable twin.

    Attributes:
        MOST: hits that a key may have here.
    """

    MOST = 256

    def __init__(self, log: LogFiles) -> None:
        """Make room for records.

        Args:
            log: the commitlog.
        """
        self._log = log
        self._read_rules = log.settings.read_rules
        self._rules = self._read_rules.bits
        self._data = np.zeros(self.MOST * ROOM + PADDING, np.uint8)
        self._bytes = self._data.data
        self._rooms = [[self._bytes[i * ROOM : (i + 1) * ROOM]] for i in range(self.MOST)]
        self._records = np.zeros((4, self.MOST), np.int64)
        # One value of a memoryview is read or written in half the time of one of an array.
        self._number, self._position, self._got, self._size = (row.data for row in self._records)
        self._match = called_with(kernels.match, b"", 0, 0, 0, 0, self._data, 0, 0, 0)

    def of_key(
        self, topic: str, text: str, key: str, kind: KeyKind, hits: list[int], *, is_raw: bool
    ) -> Sequence[Record] | None:
        """Return the messages that have a key, in the order of the log; see `of_keys`.

        Args:
            topic: the topic.
            text: what is hashed: topic, "#", key.
            key: the key.
            kind: which of a message's names it is.
            hits: physical offsets, `MOST` at most.
            is_raw: whatever keys they have.
        """
        start = len(text) - len(key)
        if not text.isascii():
            return self.of_keys(topic, text[:start], [key], kind, [hits], is_raw=is_raw)[0]
        raw, topic_length = text.encode(), len(topic)
        code = kernels.RAW if is_raw else kernels.ANY if kind is _ANY else _KINDS[KeyKind(kind)]
        log, room = self._log, self._rooms[0]
        low, high, file_size = log.min_offset, log.end_of_files, log.file_size
        found = []
        for offset in hits if len(hits) == 1 else sorted(hits):
            if low <= offset < high:
                got = log.read_once(room, offset)
                size = self._match(
                    raw, topic_length, start, code, offset, self._data, got, file_size, self._rules
                )
                if size > NONE:
                    found.append((offset, self._bytes[:size].tobytes()))
                elif size == UNSEEN:
                    return None
        return Messages(found, self._read_rules) if found else NO_MESSAGES

    def of_keys(
        self,
        topic: str,
        prefix: str,
        keys: Sequence[str],
        kind: KeyKind,
        hits: Sequence[list[int]],
        *,
        is_raw: bool,
    ) -> Sequence[Sequence[Record] | None]:
        """Return the messages that have each of several keys, in the order of the log.

        Args:
            topic: the topic.
            prefix: what stands before each key in the text that is hashed: "topic#".
            keys: the keys.
            kind: which of a message's names they are.
            hits: by key: physical offsets, `MOST` at most.
            is_raw: whatever keys they have.

        Returns:
            By key; None where the readable twin has to look.
        """
        text = "".join((prefix, *keys))
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            return [None] * len(keys)
        if _NO_UTF8 in text:
            return [None] * len(keys)
        lengths = map(len, keys) if len(raw) == len(text) else map(len, map(str.encode, keys))
        start = len(prefix.encode())
        key_end = np.fromiter(lengths, np.int64, len(keys)).cumsum() + start
        code = kernels.RAW if is_raw else _KINDS[KeyKind(kind)]
        answers: list[Sequence[Record] | None] = []
        view, position = self._bytes, self._position
        while len(answers) < len(keys):
            records, record_end = self._read(hits, len(answers))
            kernels.match_many(
                raw,
                len(topic.encode()),
                start,
                key_end,
                code,
                records,
                self._records,
                self._data,
                self._log.file_size,
                self._rules,
            )
            sizes = self._size[:records].tolist()
            are_seen = UNSEEN not in sizes
            at = 0
            for end in record_end:
                found = [
                    (position[i], view[i * ROOM : i * ROOM + sizes[i]].tobytes())
                    for i in range(at, end)
                    if sizes[i] > NONE
                ]
                if are_seen or UNSEEN not in sizes[at:end]:
                    answers.append(Messages(found, self._read_rules) if found else NO_MESSAGES)
                else:
                    answers.append(None)
                at = end
        return answers

    def _read(self, hits: Sequence[list[int]], first: int) -> tuple[int, list[int]]:
        """Read the records of keys from one on, of as many as there is room for.

        Returns:
            How many records were read, and how many behind each of the keys.
        """
        log = self._log
        low, high = log.min_offset, log.end_of_files
        number_of, position, got = self._number, self._position, self._got
        records = 0
        record_end = []
        for number in range(first, len(hits)):
            offsets = hits[number]
            if records + len(offsets) > self.MOST:
                break
            for offset in sorted(offsets) if len(offsets) > 1 else offsets:
                if low <= offset < high:
                    got[records] = log.read_once(self._rooms[records], offset)
                    number_of[records], position[records] = number, offset
                    records += 1
            record_end.append(records)
        return records, record_end
