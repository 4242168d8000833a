"""Messages by a key: through the index's chains, then the messages themselves.

RocketMQ `DefaultMessageStore#queryMessage`, and what its clients check of the answer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import UsageError
from reput.formats.rocketmq import indexfile
from reput.stores.log.records import read_record
from reput.stores.reads import patiently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.log.files import LogFiles
    from reput.stores.query.index_search import IndexSearch, Window
    from reput.stores.reads import Steps

MAX_HITS = 64
# A broker looks for fewer with a unique id (`QueryMessageProcessor`).
MAX_UNIQUE_HITS = 32
_TAG_PREFIX = "T#"


class KeyKind(StrEnum):
    """Which of a message's names a key is."""

    ANY = "any"
    KEY = "key"
    UNIQUE = "unique"
    TAG = "tag"


class KeyStatus(StrEnum):
    """What an answer means."""

    FOUND = "found"
    NOT_FOUND = "not found"
    NO_INDEX = "no index"


class KeyAnswer(NamedTuple):
    """Messages with a key.

    Attributes:
        status: found or not, and whether there is an index.
        messages: in the order of the log, as a broker gives them.
        offsets: what the index had for the hash, newest first.
        last_timestamp: store timestamp of the index's newest item, ms.
        last_offset: its physical offset.
    """

    status: KeyStatus
    messages: Sequence[Record]
    offsets: Sequence[int]
    last_timestamp: int = 0
    last_offset: int = 0


class KeyLookup:
    """Finds the messages of keys, the readable way: a record is taken apart to see its keys."""

    def __init__(self, index: IndexSearch, log: LogFiles) -> None:
        """Read nothing yet.

        Args:
            index: where to look.
            log: the commitlog that it points into.
        """
        self._index = index
        self._log = log

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
        """Return the messages of a topic that have a key.

        Args:
            topic: the topic; a transaction's half message has another one.
            key: one word of KEYS, the UNIQ_KEY, or a tag.
            kind: which of these.
            window: store time; an index knows whole seconds from a file's first record.
            limit: hits of the index, newest first, before messages are looked at; None: a broker's.
            is_raw: other keys' hits as well: those with the same hash.

        Raises:
            UsageError: no topic, no key, a window that ends before it begins.
        """
        check_request(topic, key, window, limit)
        text = prefix_of(topic, kind) + key
        hits, *last = self._index.offsets_of(text, window, limit or limit_of(kind))
        messages = matching(self._log, topic, key, kind, hits, is_raw=is_raw)
        return KeyAnswer(self.status_of(messages), messages, hits, *last)

    def key_steps(
        self, topic: str, key: str, kind: KeyKind, window: Window, limit: int
    ) -> Steps[KeyAnswer]:
        """Return the messages of a topic that have the hash of a key, in turns; see `of_key`."""
        check_request(topic, key, window, limit)
        hashed = indexfile.key_hash(prefix_of(topic, kind) + key)
        hits, *last = yield from self._index.offset_steps(hashed, window, limit)
        messages = yield from patiently(
            lambda: matching(self._log, topic, key, kind, hits, is_raw=True)
        )
        return KeyAnswer(self.status_of(messages), messages, hits, *last)

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
        """Return the messages of a topic that have each of several keys; see `of_key`.

        Args:
            topic: the topic.
            keys: keys; the answers are in their order.
            kind: which of a message's names they are.
            window: store time.
            limit: hits of each key.
            is_raw: other keys' hits as well.

        Raises:
            UsageError: as of `of_key`, for any of the keys.
        """
        check_request(topic, "" if "" in keys else "any", window, limit)
        limit = limit or limit_of(kind)
        many = self._index.offsets_of_many(prefix_of(topic, kind), keys, window, limit)
        answers = []
        for key, hits in zip(keys, many.offsets, strict=True):
            messages = matching(self._log, topic, key, kind, hits, is_raw=is_raw)
            answers.append(KeyAnswer(self.status_of(messages), messages, hits, *many[1:]))
        return answers

    def status_of(self, messages: Sequence[Record]) -> KeyStatus:
        """Return what an answer with these messages means."""
        if messages:
            return KeyStatus.FOUND
        return KeyStatus.NOT_FOUND if self._index.files() else KeyStatus.NO_INDEX

    def refresh(self) -> None:
        """Take the log's files as they are now: here they are opened by the log itself."""

    def close(self) -> None:
        """Close what was opened here: nothing."""


def matching(
    log: LogFiles, topic: str, key: str, kind: KeyKind, hits: Sequence[int], *, is_raw: bool
) -> Sequence[Record]:
    """Return those of the records at physical offsets that have a key, in the order of the log."""
    records = (read_record(log, offset) for offset in sorted(hits))
    return [r for r in records if r is not None and (is_raw or has_key(r, topic, key, kind))]


def limit_of(kind: KeyKind) -> int:
    """Return how many hits a broker looks for."""
    return MAX_UNIQUE_HITS if kind == KeyKind.UNIQUE else MAX_HITS


def prefix_of(topic: str, kind: KeyKind) -> str:
    """Return what stands before a key in the text that an index has the hash of."""
    return f"{topic}#{_TAG_PREFIX}" if kind == KeyKind.TAG else f"{topic}#"


def check_request(topic: str, key: str, window: Window, limit: int | None) -> None:
    """Refuse what cannot be asked.

    Raises:
        UsageError: no topic, no key, a window that ends before it begins, a limit below 1.
    """
    if not topic or not key:
        raise UsageError(f"the {'key' if topic else 'topic'} is empty")
    if window.begin > window.end:
        raise UsageError(f"the time window ends ({window.end}) before it begins ({window.begin})")
    if limit is not None and limit < 1:
        raise UsageError(f"a limit of {limit} finds nothing: give 1 or more")


def has_key(record: Record, topic: str, key: str, kind: KeyKind) -> bool:
    """Tell whether a message is what was asked for, and not one with the same hash."""
    if record.topic != topic:
        return False
    words = record.properties.get("KEYS", "").split(" ")
    is_key, is_unique = key in words, record.properties.get("UNIQ_KEY") == key
    if kind == KeyKind.ANY:
        return is_key or is_unique
    if kind == KeyKind.TAG:
        return record.properties.get("TAGS") == key
    return is_key if kind == KeyKind.KEY else is_unique
