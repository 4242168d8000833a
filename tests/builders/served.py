"""Serves small stores: what a log dispatches, with groups and topics of a test's choice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reput.formats.rocketmq.encode import Message
from reput.remoting.names.known import Topic
from reput.remoting.names.release import RELEASES
from reput.remoting.reading.served import GroupConfig, Served
from reput.remoting.wire.pull_headers import PullMessageRequestHeader
from reput.stores.query.message_store import MessageStore
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.stores import Log, config_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from reput.formats.filters.consumerfilter import ConsumerFilter
    from reput.remoting.reading.served import Online

NOW = 1_700_000_000_000


@dataclass
class FixedGroups:
    """Groups as a test says; every group may consume unless it says otherwise."""

    configs: dict[str, GroupConfig | None] = field(default_factory=dict)
    members: dict[str, Online] = field(default_factory=dict)
    filters: dict[tuple[str, str], ConsumerFilter] = field(default_factory=dict)
    changes: int = 0

    def config(self, group: str) -> GroupConfig | None:
        return self.configs.get(group, GroupConfig())

    def online(self, group: str) -> Online | None:
        return self.members.get(group)

    def filter_of(self, topic: str, group: str) -> ConsumerFilter | None:
        return self.filters.get((topic, group))


def messages(
    count: int, *, topic: str = "t", queues: int = 1, size: int = 0, tags: int = 3, step: int = 1000
) -> Log:
    """Return a log of messages that go to the queues of a topic in turn."""
    log = Log()
    for i in range(count):
        properties = {"TAGS": f"T{i % tags}", "KEYS": f"k{i}", "UNIQ_KEY": f"U{i}", "a": str(i)}
        number, queue = divmod(i, queues)
        log.append(
            Message(
                topic,
                bytes(size) or b"body",
                properties,
                queue,
                number,
                store_timestamp=NOW + i * step,
            )
        )
    return log


def dispatched(log: Log, directory: Path, version: str = "5.5", **conf: str) -> MessageStore:
    """Write a log, dispatch it, and open a reader of it."""
    config = config_of(log.write(directory / "store"), directory / "out", version, **conf)
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(log.end)
    dispatcher.close()
    return MessageStore.open(config.path, config.output, config.settings)


def served(
    store: MessageStore, topics: Iterable[Topic] = (), groups: FixedGroups | None = None, **said
) -> Served:
    """Return a store as it is served: by default all of its topics, to any group."""
    known = {name: Topic(name, 16, 16) for name in store.topics()}
    known |= {topic.name: topic for topic in topics}
    release = RELEASES[store.settings.version.family]
    return Served(store, release, known, groups or FixedGroups(), **said)


def request(
    offset: int = 0,
    *,
    topic: str = "t",
    queue: int = 0,
    limit: int = 32,
    flags: int = 4,
    expression: str | None = "*",
    kind: str | None = None,
    version: int = 0,
    group: str = "g",
) -> PullMessageRequestHeader:
    """Return a pull that says itself what it wants."""
    return PullMessageRequestHeader(
        group, topic, queue, offset, limit, flags, 0, 15000, version, expression, kind
    )
