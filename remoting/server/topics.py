"""Which topics a served store has: what its broker's `topics.json` says, and what has queues.

Clients see a topic with as many queues as either of the two knows, and may only read it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq import names
from reput.formats.rocketmq.names import RETRY
from reput.remoting.names.known import READABLE, WRITABLE, Topic
from reput.stores.config.config_files import read_config, unreadable
from reput.stores.config.topics import TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reput.remoting.keeping.keeper import Keeper
    from reput.stores.query.message_store import MessageStore

_MOST_QUEUES = 1 << 16
# Any peer can name groups; the topics of more are found once they have messages.
_MOST_KEPT = 1 << 16
# A broker of 4.9 writes to it without having it as a topic.
_OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def topics_of(store: MessageStore) -> dict[str, Topic]:
    """Return the topics of a store, by name, in order.

    Raises:
        StoreError: `topics.json` says something else.
    """
    told = _told(store)
    found = {}
    for name in sorted({*told, *store.topics()}):
        if name == _OP and told and name not in told:
            continue
        config = told.get(name, {})
        ids = store.queue_ids(name)
        least = ids[-1] + 1 if ids and ids[-1] < _MOST_QUEUES else 0
        reads = max(_number(config, "readQueueNums"), least)
        if not reads:
            continue
        perm = _number(config, "perm", READABLE) & READABLE
        writes = max(_number(config, "writeQueueNums"), least)
        flags = _number(config, "topicSysFlag")
        is_ordered = config.get("order") is True
        found[name] = Topic(name, reads, writes, perm, flags, is_ordered, _attributes(config))
    return found


def with_kept(
    found: Mapping[str, Topic], keeper: Keeper, groups: Iterable[str]
) -> dict[str, Topic]:
    """Return topics with those of messages that are kept: one queue more than the store has.

    Args:
        found: the store's own.
        keeper: keeps messages.
        groups: that have members: they ask where their retry topic is before it has a message.
    """
    for group in groups:
        name = RETRY + group
        if len(keeper.topics()) >= _MOST_KEPT:
            break
        keeper.queue_of(name, found[name].read_queues if name in found else 0)
    topics = dict(found)
    for name in keeper.topics():
        queues = max(keeper.id_in(name) + 1, found[name].read_queues if name in found else 0)
        # Members send messages there themselves where they cannot send them back.
        perm = READABLE | WRITABLE if name.startswith(RETRY) else READABLE
        topics[name] = Topic(name, queues, queues, perm)
    return dict(sorted(topics.items()))


def with_retries(found: Mapping[str, Topic], groups: Iterable[str]) -> dict[str, Topic]:
    """Return topics with the retry topic of each group; it has one queue where the store has none.

    A broker makes it at a group's first heartbeat. Consumers subscribe to it, and tools ask for its
    route to learn how far a group is.

    Args:
        found: what there is without.
        groups: that have had members.
    """
    topics = dict(found)
    for group in groups:
        if len(topics) - len(found) >= _MOST_KEPT:
            break
        name = RETRY + group
        topics.setdefault(name, Topic(name, 1, 1, READABLE))
    return dict(sorted(topics.items()))


def _told(store: MessageStore) -> dict[str, Any]:
    text = read_config(store.root, TOPICS)
    if text is None:
        return {}
    path = store.root / names.CONFIG / TOPICS
    try:
        table: Any = json.loads(text).get("topicConfigTable") or {}
    except (ValueError, RecursionError, AttributeError) as error:
        raise unreadable(path, str(error)) from error
    if not isinstance(table, dict):
        raise unreadable(path, "topicConfigTable is not an object")
    return {name: each for name, each in table.items() if isinstance(each, dict)}


def _attributes(config: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    said = config.get("attributes")
    pairs = said.items() if isinstance(said, dict) else ()
    return tuple((name, value) for name, value in pairs if isinstance(value, str))


def _number(config: dict[str, Any], name: str, default: int = 0) -> int:
    value = config.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
