"""What is served: a store, and what its broker knows of topics, groups and subscriptions."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from reput.formats.errors import StoreError
from reput.remoting.reading.hosts import with_host
from reput.stores.queues.pull import IN_MEMORY, PullLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reput.formats.filters.consumerfilter import ConsumerFilter
    from reput.remoting.names.known import Topic
    from reput.remoting.names.release import Release
    from reput.remoting.reading.hosts import Host
    from reput.stores.query.message_store import MessageStore
    from reput.stores.queues.open_queues import AnyQueue


class GroupConfig(NamedTuple):
    """What a broker's `subscriptionGroup.json` says of a group.

    Attributes:
        may_consume: `consumeEnable`.
        may_broadcast: `consumeBroadcastEnable`.
        sys_flag: `groupSysFlag`, for the answers of 5.x.
        forbidden: topics that it may not read (`forbiddenTable`, 5.x).
        retries: `retryMaxTimes`: how often a message is tried again, if a client does not say.
        retry_queues: `retryQueueNums`; what is sent back is dropped if there is none.
    """

    may_consume: bool = True
    may_broadcast: bool = True
    sys_flag: int = 0
    forbidden: frozenset[str] = frozenset()
    retries: int = 16
    retry_queues: int = 1


class Subscription(NamedTuple):
    """What a group wants of a topic, by the heartbeats of its members.

    Attributes:
        expression: `subString`.
        kind: `TAG`, `SQL92`, or what else a client wrote.
        version: `subVersion`: the client's clock when it subscribed.
    """

    expression: str
    kind: str = "TAG"
    version: int = 0


class Online(NamedTuple):
    """A group with members.

    Attributes:
        is_broadcasting: each member gets every message.
        subscriptions: by topic.
    """

    is_broadcasting: bool
    subscriptions: Mapping[str, Subscription]


class Groups(Protocol):
    """What is known of consumer groups."""

    @property
    def changes(self) -> int:
        """Return how often what `online` returns has become another answer."""

    def config(self, group: str) -> GroupConfig | None:
        """Return a group's configuration, None if there is none and the broker makes none."""

    def online(self, group: str) -> Online | None:
        """Return a group that has members, None if it has none."""

    def filter_of(self, topic: str, group: str) -> ConsumerFilter | None:
        """Return the SQL92 filter that a group registered for a topic, None if it has none."""


class Resets(Protocol):
    """Offsets of groups that a tool has set, and of which no pull has been told."""

    @property
    def reset_count(self) -> int:
        """Return how many a tool has set so far."""

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Tell whether there is one."""

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return it, and forget that it was set; None if there is none."""


class KeptStore(Protocol):
    """Messages that consumers sent back: a store of our own beside the one that is served."""

    @property
    def store(self) -> MessageStore:
        """Return the store."""

    def has(self, topic: str, queue_id: int) -> bool:
        """Tell whether a queue is one of its own."""

    def holds(self, physical_offset: int) -> bool:
        """Tell whether an offset is one of its log."""


@dataclass(frozen=True)
class Served:
    """A store as a broker serves it.

    Attributes:
        store: its files; opened for reading.
        release: whose broker it answers like.
        topics: by name.
        groups: what is known of consumer groups.
        host: what remarks call the broker by (`brokerIP1`).
        is_readable: `brokerPermission` allows to read.
        has_lite_pull: `litePullMessageEnable`.
        filters_properties: `enablePropertyFilter`: SQL92 is allowed.
        limits: how much one pull transfers.
        memory: bytes before the log's end that a broker takes to be in memory, 40 % of its RAM;
            None takes all to be there, which suits an archive: a pull then gets four times more.
        resets: what a tool has set; None if nobody sets anything.
        kept: what consumers sent back; None if it is not kept.
        own_host: returns the store host that records leave with; None if they keep theirs.
    """

    store: MessageStore
    release: Release
    topics: Mapping[str, Topic]
    groups: Groups
    host: str = "127.0.0.1"
    is_readable: bool = True
    has_lite_pull: bool = True
    filters_properties: bool = False
    limits: PullLimits = IN_MEMORY
    memory: int | None = None
    resets: Resets | None = None
    kept: KeptStore | None = None
    own_host: Callable[[], Host] | None = None

    def leaving(self, pieces: Sequence[memoryview]) -> Sequence[memoryview]:
        """Return records as clients get them."""
        return pieces if self.own_host is None else with_host(pieces, self.own_host())

    def store_of(self, topic: str, queue_id: int) -> MessageStore:
        """Return the store that has a queue, if any has."""
        kept = self.kept
        return kept.store if kept is not None and kept.has(topic, queue_id) else self.store

    def store_at(self, physical_offset: int) -> MessageStore:
        """Return the store that has a physical offset, if any has."""
        kept = self.kept
        return kept.store if kept is not None and kept.holds(physical_offset) else self.store

    def queue_now(self, topic: str, queue_id: int) -> AnyQueue | None:
        """Return a queue with what was written to it since, None if there is none."""
        return self.store_of(topic, queue_id).queue_now(topic, queue_id)

    def look_at_files(self) -> None:
        """Look at the files, as a server does each second.

        Raises:
            StoreError: some of the store are not there; see `stores.query.presence`.
        """
        if self.kept is not None:
            # It says so itself, and the store is served without what is kept beside it.
            with contextlib.suppress(StoreError):
                self.kept.store.presence.look()
        self.store.presence.look()

    def limits_now(self) -> PullLimits:
        """Return how much one pull transfers, as far as the log is now."""
        if self.memory is None:
            return self.limits
        return self.limits._replace(memory_from=self.store.log.end() - self.memory)
