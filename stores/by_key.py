"""Messages by a key: through the index's chains, then the messages themselves.

RocketMQ `DefaultMessageStore#queryMessage`, and what its clients check of the answer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import UsageError
from stores.index_search import ALWAYS, Window
from stores.records import NO_MESSAGES, read_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.commitlog import Record
    from stores.by_key_compiled import Matcher
    from stores.index_search import IndexSearch
    from stores.log_files import LogFiles

MAX_HITS = 64
# Of a unique id a broker looks for fewer (`QueryMessageProcessor`).
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


# Naming a member of an enumeration, or the fields of a tuple, takes longer than a look into the
# index: where messages are looked up by the thousand, this is most of it.
_ANY, _UNIQUE, _TAG = KeyKind.ANY, KeyKind.UNIQUE, KeyKind.TAG
_FOUND = KeyStatus.FOUND
_tuple_of = tuple.__new__


class KeyAnswer(NamedTuple):
    """Messages with a key.

    Attributes:
        status: see there.
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


def find(
    index: IndexSearch,
    log: LogFiles,
    topic: str,
    key: str,
    *,
    kind: KeyKind = KeyKind.ANY,
    window: Window = ALWAYS,
    limit: int | None = None,
    is_raw: bool = False,
    matcher: Matcher | None = None,
) -> KeyAnswer:
    """Return the messages of a topic that have a key.

    Args:
        index: where to look.
        log: the commitlog that it points into.
        topic: the topic; a transaction's half message has another one.
        key: one word of KEYS, the UNIQ_KEY, or a tag.
        kind: which of these.
        window: store time; an index knows whole seconds from a file's first record.
        limit: hits of the index, newest first, before messages are looked at.
        is_raw: other keys' hits as well: those with the same hash.
        matcher: what reads messages by a kernel; None: the readable way.

    Raises:
        UsageError: no topic, no key, a window that is none.
    """
    if not topic or not key or window is not ALWAYS or limit is not None:
        check_request(topic, key, window, limit)
    if limit is None:
        limit = MAX_HITS if kind is _ANY else _limit(kind)
    text = f"{topic}#{key}" if kind is _ANY else _prefix(topic, kind) + key
    hits, last_timestamp, last_offset = index.offsets_of(text, window, limit)
    messages: Sequence[Record] | None = None
    if matcher is not None and len(hits) <= matcher.MOST:
        messages = matcher.of_key(topic, text, key, kind, hits, is_raw=is_raw)
    if messages is None:
        messages = matching(log, topic, key, kind, hits, is_raw=is_raw)
    status = _FOUND
    if messages is NO_MESSAGES:
        status = KeyStatus.NOT_FOUND if hits or index.files() else KeyStatus.NO_INDEX
    return _tuple_of(KeyAnswer, (status, messages, hits, last_timestamp, last_offset))


def find_many(
    index: IndexSearch,
    log: LogFiles,
    topic: str,
    keys: Sequence[str],
    *,
    kind: KeyKind = KeyKind.ANY,
    window: Window = ALWAYS,
    limit: int | None = None,
    is_raw: bool = False,
    matcher: Matcher | None = None,
) -> list[KeyAnswer]:
    """Return the messages of a topic that have each of several keys; see `find`.

    Args:
        index: where to look.
        log: the commitlog that it points into.
        topic: the topic.
        keys: keys; the answers are in their order.
        kind: which of a message's names they are.
        window: store time.
        limit: hits of each key.
        is_raw: other keys' hits as well.
        matcher: what reads messages by a kernel.

    Raises:
        UsageError: as of `find`, for any of the keys.
    """
    check_request(topic, "" if "" in keys else "any", window, limit)
    if limit is None:
        limit = _limit(kind)
    prefix = _prefix(topic, kind)
    hits, last_timestamp, last_offset = index.offsets_of_many(prefix, keys, window, limit)
    found: Sequence[Sequence[Record] | None] = [None] * len(keys)
    if matcher is not None and limit <= matcher.MOST:
        found = matcher.of_keys(topic, prefix, keys, kind, hits, is_raw=is_raw)
    missing = KeyStatus.NOT_FOUND if index.files() else KeyStatus.NO_INDEX
    answers = []
    for key, offsets, messages in zip(keys, hits, found, strict=True):
        if messages is None:
            messages = matching(log, topic, key, kind, offsets, is_raw=is_raw)
        status = missing if messages is NO_MESSAGES else _FOUND
        answer = status, messages, offsets, last_timestamp, last_offset
        answers.append(_tuple_of(KeyAnswer, answer))
    return answers


def matching(
    log: LogFiles, topic: str, key: str, kind: KeyKind, hits: Sequence[int], *, is_raw: bool
) -> Sequence[Record]:
    """Return those of the records at physical offsets that have a key, in the order of the log."""
    records = (read_record(log, offset) for offset in sorted(hits))
    messages = [r for r in records if r is not None and (is_raw or has_key(r, topic, key, kind))]
    return messages or NO_MESSAGES


def _limit(kind: KeyKind) -> int:
    return MAX_UNIQUE_HITS if kind == _UNIQUE else MAX_HITS


def _prefix(topic: str, kind: KeyKind) -> str:
    """Return what stands before a key in the text that an index has the hash of."""
    return f"{topic}#{_TAG_PREFIX}" if kind == _TAG else f"{topic}#"


def check_request(topic: str, key: str, window: Window, limit: int | None) -> None:
    """Refuse what cannot be asked.

    Raises:
        UsageError: no topic, no key, a window that is none, a limit below 1.
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
