"""Messages by a key: through the index's chains, then the messages themselves.

RocketMQ `DefaultMessageStore#queryMessage`, and what its clients check of the answer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import UsageError
from stores.index_search import ALWAYS, Window
from stores.records import read_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.commitlog import Record
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

    Raises:
        UsageError: no topic, no key, a window that is none.
    """
    check_request(topic, key, window, limit)
    if limit is None:
        limit = MAX_UNIQUE_HITS if kind == KeyKind.UNIQUE else MAX_HITS
    if not index.files():
        return KeyAnswer(KeyStatus.NO_INDEX, (), ())
    stored = f"{_TAG_PREFIX}{key}" if kind == KeyKind.TAG else key
    hits = index.offsets_of(f"{topic}#{stored}", window, limit)
    messages = []
    for offset in sorted(hits.offsets):
        record = read_record(log, offset)
        if record is not None and (is_raw or has_key(record, topic, key, kind)):
            messages.append(record)
    status = KeyStatus.FOUND if messages else KeyStatus.NOT_FOUND
    return KeyAnswer(status, messages, hits.offsets, hits.last_timestamp, hits.last_offset)


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
