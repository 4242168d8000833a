"""Looks keys up by kernels, which also read and check the records that an index points to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import called_with
from reput.stores.log.records import NO_MESSAGES, Messages
from reput.stores.query.by_key import (
    MAX_HITS,
    KeyAnswer,
    KeyKind,
    KeyLookup,
    KeyStatus,
    check_request,
    limit_of,
    matching,
    prefix_of,
)
from reput.stores.query.compiled import by_key_kernels as kernels
from reput.stores.query.compiled.by_key_kernels import (
    CLOSED,
    END,
    FIRST_DESCRIPTOR,
    MOST,
    PADDING,
    READ_AHEAD,
    ROOM,
    UNSEEN,
    WORD,
)
from reput.stores.query.compiled.index import KEYS, asked_keys
from reput.stores.query.compiled.index_kernels import OUTDATED
from reput.stores.query.index_search import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.log.files import LogFiles
    from reput.stores.query.compiled.index import AskedKeys, CompiledSearch
    from reput.stores.query.index_search import Window

    # Of `kernels.find`: text, bytes of the topic, where the key begins, and the kind.
    _Asked = tuple[bytes, int, int, int]
    # What it returns.
    _Found = tuple[int, int, int, int, int, int, int]

_ANY, _ANY_CODE = KeyKind.ANY, kernels.ANY
_KINDS = {
    _ANY: kernels.ANY,
    KeyKind.KEY: kernels.KEY,
    KeyKind.UNIQUE: kernels.UNIQUE,
    KeyKind.TAG: kernels.TAG,
}
# Stands in a text for bytes that are not UTF-8: such keys are left to the readable twin.
_NO_UTF8 = "\ufffd".encode()
# A key's records may lie in as many files as it has hits.
_OPEN_FILES = MOST


# Naming a member of an enumeration, or the fields of a tuple, takes as long as a chain.
_FOUND, _NOT_FOUND, _NO_INDEX = KeyStatus.FOUND, KeyStatus.NOT_FOUND, KeyStatus.NO_INDEX
_tuple_of = tuple.__new__


class CompiledLookup(KeyLookup):
    """`KeyLookup` by kernels; the readable twin looks at what those cannot tell."""

    def __init__(self, index: CompiledSearch, log: LogFiles) -> None:
        """Make room for records; see `KeyLookup`."""
        super().__init__(index, log)
        self._search = index
        self._read_rules = log.settings.read_rules
        self._data = np.zeros(MOST * ROOM + PADDING, np.uint8)
        self._bytes = self._data.data
        self._records = np.zeros((2, MOST), np.int64)
        self._found = np.zeros(KEYS, np.int64)
        self._open: dict[int, int] = {}
        self._files = np.zeros(0, np.int64)
        self.refresh()
        example = b"", 0, 0, 0, index.search, self._files, self._records, self._data
        self._find = called_with(kernels.find, *example)

    def refresh(self) -> None:
        """Take the log's files as they are now."""
        self.close()
        log = self._log
        files = len(self._bases())
        facts = log.min_offset, log.known_end, log.file_size, self._read_rules.bits, files
        ranges = -(-(log.end_of_files - log.min_offset) // READ_AHEAD)
        self._files = np.zeros(FIRST_DESCRIPTOR + 2 * files + -(-ranges // WORD), np.int64)
        self._files[:FIRST_DESCRIPTOR] = facts
        self._files[FIRST_DESCRIPTOR : FIRST_DESCRIPTOR + files] = -1
        self._take_ends()

    def _take_ends(self) -> None:
        """Take where the log and its files end, as far as that is known by now."""
        bases = self._bases()
        first = FIRST_DESCRIPTOR + len(bases)
        self._files[END] = self._log.known_end
        self._files[first : first + len(bases)] = [self._log.sure_of(base) for base in bases]

    def _bases(self) -> range:
        """Return where the log's files begin, with those that are missing in between."""
        log = self._log
        return range(log.min_offset, log.end_of_files, log.file_size)

    def close(self) -> None:
        """Close the files."""
        for number, descriptor in self._open.items():
            self._files[FIRST_DESCRIPTOR + number] = -1
            os.close(descriptor)
        self._open = {}

    def _open_file(self, number: int) -> None:
        """Open one of the log's files, and close the first of too many.

        Raises:
            LogChangedError: it is no longer there.
        """
        while len(self._open) >= _OPEN_FILES:
            first = next(iter(self._open))
            self._files[FIRST_DESCRIPTOR + first] = -1
            os.close(self._open.pop(first))
        descriptor = self._log.open_file(self._log.min_offset + number * self._log.file_size)
        self._open[number] = self._files[FIRST_DESCRIPTOR + number] = descriptor

    def of_key(
        self,
        topic: str,
        key: str,
        kind: KeyKind,
        window: Window,
        limit: int | None,
        *,
        is_raw: bool,
    ) -> KeyAnswer:
        """Return the messages of a topic that have a key; see `KeyLookup`."""
        is_plain = kind is _ANY and window is ALWAYS and limit is None and not is_raw
        if is_plain and topic and key:
            text, limit, code = f"{topic}#{key}", MAX_HITS, _ANY_CODE
        else:
            text, limit, code = _request(topic, key, kind, window, limit, is_raw=is_raw)
        search = self._search
        if not text.isascii() or not (
            (window is search.window and limit == search.limit) or search.is_asked(window, limit)
        ):
            return self.of_keys(topic, [key], kind, window, limit, is_raw=is_raw)[0]
        asked = text.encode(), len(topic), len(text) - len(key), code
        count, hit, found, position, size, stored, last = self._find(
            *asked, search.search, self._files, self._records, self._data
        )
        if count == OUTDATED or found <= CLOSED:
            count, hit, found, position, size, stored, last = self._retry(asked, count, found)
        if found == UNSEEN:
            return self._by_twin(topic, key, kind, window, limit, is_raw=is_raw)
        hits = [hit] if count == 1 else search.hits(count)
        if found == 0:
            return KeyAnswer(_NOT_FOUND, NO_MESSAGES, hits, stored, last)
        messages = Messages()
        messages.rules = self._read_rules
        if found == 1:
            messages.found = [(position, self._bytes[:size].tobytes())]
        else:
            messages.found = self._messages(found)
        return _tuple_of(KeyAnswer, (_FOUND, messages, hits, stored, last))

    def _retry(self, asked: _Asked, count: int, found: int) -> _Found:
        """Open what the kernel has found closed or outdated; call it until it has an answer."""
        search = self._search
        answer = 0, 0, 0, 0, 0, 0, 0
        while count == OUTDATED or found <= CLOSED:
            if count == OUTDATED:
                search.look_again()
            else:
                self._open_file(CLOSED - found)
            answer = self._find(*asked, search.search, self._files, self._records, self._data)
            count, _, found, *_ = answer
        return answer

    def _by_twin(
        self,
        topic: str,
        key: str,
        kind: KeyKind,
        window: Window,
        limit: int | None,
        *,
        is_raw: bool,
    ) -> KeyAnswer:
        """Return the answer of the readable twin, which may look for the log's end."""
        answer = super().of_key(topic, key, kind, window, limit, is_raw=is_raw)
        self._take_ends()
        return answer

    def _messages(self, count: int) -> list[tuple[int, bytes]]:
        """Return physical offset and bytes of the first records that a kernel has found."""
        data = self._bytes
        positions, sizes = self._records[:, :count].tolist()
        starts = range(0, count * ROOM, ROOM)
        return [
            (position, data[at : at + size].tobytes())
            for at, position, size in zip(starts, positions, sizes, strict=True)
        ]

    def of_keys(
        self,
        topic: str,
        keys: Sequence[str],
        kind: KeyKind,
        window: Window,
        limit: int | None,
        *,
        is_raw: bool,
    ) -> list[KeyAnswer]:
        """Return the messages of a topic that have each of several keys; see `KeyLookup`."""
        check_request(topic, "" if "" in keys else "any", window, limit)
        limit = limit or limit_of(kind)
        search, prefix = self._search, prefix_of(topic, kind)
        code = kernels.RAW if is_raw else _KINDS[KeyKind(kind)]
        answers: list[KeyAnswer] = []
        for first in range(0, len(keys), KEYS):
            some = keys[first : first + KEYS]
            asked = asked_keys(prefix, some) if search.is_asked(window, limit, len(some)) else None
            if asked is None or _NO_UTF8 in asked.raw:
                answers += super().of_keys(topic, some, kind, window, limit, is_raw=is_raw)
                continue
            last = search.last()
            missing = _NOT_FOUND if search.files() else _NO_INDEX
            count = search.select_many(asked)
            messages = self._of_some(asked, len(topic.encode()), code, count)
            for key, found, hits in zip(
                some, messages, search.hits_of(prefix, some, count), strict=True
            ):
                if found is None:
                    seen = matching(self._log, topic, key, kind, hits, is_raw=is_raw)
                    answers.append(KeyAnswer(self.status_of(seen), seen, hits, *last))
                else:
                    status = missing if found is NO_MESSAGES else _FOUND
                    answers.append(_tuple_of(KeyAnswer, (status, found, hits, *last)))
            self._take_ends()
        return answers

    def _of_some(
        self, asked: AskedKeys, topic_length: int, code: int, count: NDArray[np.int64]
    ) -> list[Sequence[Record] | None]:
        """Return the messages of keys whose hits are in the index's `search`."""
        answers: list[Sequence[Record] | None] = []
        rules = self._read_rules
        key, hit = 0, self._search.first_hit
        while key < len(count):
            next_key, hit, closed = kernels.match_many(
                asked.raw,
                topic_length,
                asked.prefix,
                asked.key_end,
                code,
                self._search.search,
                hit,
                count,
                key,
                self._files,
                self._records,
                self._data,
                self._found,
            )
            found = self._found[key:next_key]
            read = self._messages(int(np.maximum(found, 0).sum()))
            at = 0
            for count_found in found.tolist():
                if count_found > 0:
                    messages = Messages()
                    messages.found, messages.rules = read[at : at + count_found], rules
                    answers.append(messages)
                    at += count_found
                else:
                    answers.append(None if count_found == UNSEEN else NO_MESSAGES)
            if closed >= 0:
                self._open_file(closed)
            key = next_key
        return answers


def _request(
    topic: str, key: str, kind: KeyKind, window: Window, limit: int | None, *, is_raw: bool
) -> tuple[str, int, int]:
    """Return what an index has the hash of, the limit, and the kernels' number for the kind.

    Raises:
        UsageError: see `check_request`.
    """
    check_request(topic, key, window, limit)
    code = kernels.RAW if is_raw else _KINDS[KeyKind(kind)]
    return prefix_of(topic, kind) + key, limit or limit_of(kind), code
