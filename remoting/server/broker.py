"""One store as a broker: its rooms put together, and what is due in them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from reput.formats.errors import StoreError
from reput.formats.rocketmq.names import RETRY
from reput.remoting.access.check import Open
from reput.remoting.admin import requests as admin
from reput.remoting.counting.counters import SentBack
from reput.remoting.groups import requests as of_groups
from reput.remoting.holding.pulls import Pulls
from reput.remoting.names.known import Broker
from reput.remoting.reading import requests as reading
from reput.remoting.reading.replies import Replies
from reput.remoting.reading.served import Served
from reput.remoting.reading.turns import Turns
from reput.remoting.server import rules
from reput.remoting.server.addresses import resolved
from reput.remoting.server.desks import BrokerDesk
from reput.remoting.server.following import Following, Topics
from reput.remoting.server.topics import topics_of, with_kept, with_retries
from reput.remoting.server.traffic import Traffic

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from reput.remoting.access.check import Access
    from reput.remoting.counting.counters import Counters
    from reput.remoting.groups.consumers import Consumers
    from reput.remoting.groups.offsets import Offsets
    from reput.remoting.groups.requests import GroupState
    from reput.remoting.holding.watch import Watch
    from reput.remoting.lanes.lanes import Lanes
    from reput.remoting.names.known import Topic
    from reput.remoting.names.release import Release
    from reput.remoting.reading.hosts import Host
    from reput.remoting.server.desks import Handler
    from reput.remoting.server.rules import GroupSettings
    from reput.stores.query.message_store import MessageStore

# A disk that takes longer for a read is not what it should be.
_STUCK_SECONDS = 2.0


@dataclass(frozen=True)
class Identity:
    """What clients take a store's broker for.

    Attributes:
        name: of the broker.
        cluster: that it belongs to.
        address: what clients dial: a host that they reach, and a port.
        release: whose broker it answers like.
        properties: its broker.conf.
        rewrites_hosts: records leave with the address that clients dial, so that ids lead there.
    """

    name: str
    cluster: str
    address: str
    release: Release
    properties: Mapping[str, str]
    rewrites_hosts: bool = False


class StoreBroker:
    """Serves one store.

    Attributes:
        desk: takes the requests of its port.
        traffic: its connections.
        counters: what is told of it.
        release: whose broker it answers like.
    """

    # How often groups had come, gone or changed when the topics were told of last.
    _joined = 0
    _told: tuple[int, ...] = (0,) * 5

    def __init__(
        self,
        store: MessageStore,
        identity: Identity,
        counters: Counters,
        loop: asyncio.AbstractEventLoop,
        groups: GroupSettings,
        access: Access | Open | None = None,
    ) -> None:
        """Read what topics there are.

        Args:
            store: its files; closed with this.
            identity: what clients take it for.
            counters: what is told of it.
            loop: where it is served.
            groups: what the operator wants of consumer groups; closed with this.
            access: judges requests; None for all may read.

        Raises:
            StoreError: a file of the broker's settings says something else.
        """
        self._store, self._identity, self.counters = store, identity, counters
        self.release = identity.release
        _prepare(store)
        self._now = loop.time
        self._access = access or Open()
        self._turns = Turns(loop)
        self._replies = Replies(identity.release, counters)
        consumers = rules.consumers_of(store, identity, self._now)
        self._keeper, self._members = groups.keeper, consumers.members
        self._offsets = groups.file.offsets
        found = topics_of(store)
        self._topics: dict[str, Topic] = self._with_own(found)
        served = self._served = self._as_served(consumers, self._offsets)
        self._groups = self._group_state(consumers, served, groups)
        self.desk = self._make_desk(served, reads_all=groups.new_groups_read_all)
        self.traffic = Traffic(counters)
        self._following = Following(store, self._pulls, self._followed(found), counters, loop)

    def _group_state(
        self, consumers: Consumers, served: Served, settings: GroupSettings
    ) -> GroupState:
        cluster, now = self._identity.cluster, self._now
        return rules.group_state(
            consumers, served, settings, now, self._turns, self._host, cluster, self._replies
        )

    def _followed(self, found: dict[str, Topic]) -> Topics:
        return Topics(found, self._topics, self._with_own, self._topics_changed)

    def _as_served(self, consumers: Consumers, offsets: Offsets) -> Served:
        identity = self._identity
        said = rules.served_as(identity.properties)
        release = rules.release_as(identity.release, identity.properties)
        host = identity.address.rpartition(":")[0]
        return Served(
            self._store,
            release,
            self._topics,
            consumers,
            host,
            resets=offsets,
            kept=self._keeper,
            own_host=self._host if identity.rewrites_hosts else None,
            **said,
        )

    def _make_desk(self, served: Served, *, reads_all: bool) -> BrokerDesk:
        """Put the rooms together."""
        identity, groups = self._identity, self._groups
        waits = rules.short_polling(identity.properties)
        self._pulls = Pulls(served, self._now, self._turns, groups.commit, waits, self._replies)
        handlers: dict[int, Handler] = {
            **admin.handlers(
                groups,
                served,
                identity.properties,
                (identity.name, identity.cluster),
                identity.address,
            ),
            **of_groups.handlers(groups, served, identity.name, new_groups_read_all=reads_all),
            **reading.handlers(served, self._turns),
            **self._pulls.handlers(),
        }
        checks, on_close = (self._access.check,), (groups.closed,)
        return BrokerDesk(handlers, self._replies, checks=checks, on_close=on_close)

    def _host(self) -> Host:
        """Return what ids of messages lead to, if it is ours that they are to lead to."""
        return resolved(self._identity.address)

    def use_lanes(self, kind: Callable[..., Lanes]) -> None:
        """Answer what is asked often by compiled code.

        Args:
            kind: `remoting.lanes.lanes.Lanes`, which takes a while to import.
        """
        if self._served.memory is None and self._served.own_host is None:
            groups, may_pass = self._groups, self._access.may_pass
            self.desk.lanes = kind(
                self._served, self.counters, groups.commit_to, may_pass, groups.offsets.set_pulled
            )

    @property
    def root(self) -> Path:
        """Return the store's directory."""
        return self._store.root

    @property
    def has_held(self) -> bool:
        """Tell whether pulls wait."""
        return len(self._pulls.holds) > 0

    @property
    def stuck_seconds(self) -> float:
        """Return for how long clients have waited for a disk that has brought nothing."""
        return self._turns.stuck_seconds

    def on_hold(self, called: Callable[[], None]) -> None:
        """Let something be called with each pull that begins to wait."""
        self._pulls.holds.on_hold = called

    def doubt(self, said: str | None, look: Callable[[str | None], str | None]) -> None:
        """Say, and count, which files of the output are missing; see `Following.doubt`."""
        self._following.doubt(said, look)

    def listens_on(self, port: int) -> None:
        """Take the port that it got: no client can dial port 0. It can be described then."""
        host, _, asked = self._identity.address.rpartition(":")
        if asked == "0":
            self._identity = replace(self._identity, address=f"{host}:{port}")
        self._describe()

    def described(self) -> Broker:
        """Return the broker as a name server describes it; any thread may ask."""
        return self._described

    def _describe(self) -> None:
        # A copy: other threads read it while topics come.
        name, cluster, topics = self._identity.name, self._identity.cluster, dict(self._topics)
        self._described = Broker(name, cluster, {0: self._identity.address}, topics)

    def say_ready(self, *, is_ready: bool) -> None:
        """Tell whether clients are served."""
        self.counters.ready(is_ready=is_ready and self._store.presence.away is None)

    @property
    def watch(self) -> Watch:
        """Return what sees messages come for pulls that wait."""
        return self._pulls.watch

    def look(self) -> float:
        """See what has come for pulls that wait; return the seconds until the next look."""
        self._pulls.look()
        return self._pulls.pause

    def tick(self) -> None:
        """Do what is due each second."""
        now = self._now()
        self.traffic.tick(now)
        self._access.tick()
        self._groups.tick(now)
        if self._keeper is not None:
            self._keeper.tick()
        if self._members.changes != self._joined or not self._kept_topics() <= self._topics.keys():
            self._joined = self._members.changes
            self._following.publish()
        self._following.tick()
        self._tell()

    def _tell(self) -> None:
        """Tell the counters what they have not been told of yet."""
        if self.desk.lanes is not None:
            self.desk.lanes.tick()
        counters, sent_back = self.counters, self._groups.sent_back
        counters.held(len(self._pulls.holds))
        counters.offsets_unsaved(self._groups.unsaved_seconds)
        counted: tuple[tuple[Callable[[], None], int], ...] = (
            (counters.duplicate_client, self._members.clashes),
            (counters.cold_pull, self._turns.cold),
            (partial(counters.sent_back, SentBack.REFUSED), sent_back.refused),
            (partial(counters.sent_back, SentBack.ACCEPTED), sent_back.accepted),
            (partial(counters.sent_back, SentBack.KEPT), sent_back.kept),
        )
        for (tell, count), told in zip(counted, self._told, strict=True):
            for _ in range(count - told):
                tell()
        self._told = tuple(count for _, count in counted)
        if self.stuck_seconds < _STUCK_SECONDS:
            counters.alive()

    def _topics_changed(self) -> None:
        self._describe()
        if self.desk.lanes is not None:
            self.desk.lanes.forget()

    def _kept_topics(self) -> AbstractSet[str]:
        return frozenset() if self._keeper is None else self._keeper.topics()

    def _with_own(self, found: Mapping[str, Topic]) -> dict[str, Topic]:
        """Return a store's topics with those that come of serving it."""
        groups = self._members.groups
        if self._keeper is not None:
            wanting = [name for name in groups if RETRY + name in groups[name].subscriptions]
            found = with_kept(found, self._keeper, wanting)
        # Groups of before the start have an offset there.
        return with_retries(found, (*self._members.known, *self._offsets.retrying()))

    def close(self) -> None:
        """Close the files; offsets are saved, and all is closed whatever a part fails with.

        Raises:
            OSError: they could not be.
        """
        with contextlib.ExitStack() as parts:
            # The last one is the first to be closed.
            if self._keeper is not None:
                parts.callback(self._keeper.close)
            parts.callback(self._store.close)
            parts.callback(self._following.close)
            parts.callback(self._turns.close)
            parts.callback(self._save)
            parts.callback(self.counters.held, 0)
            parts.callback(self.counters.slow, 0)
            parts.callback(self.watch.close)
            if self.desk.lanes is not None:
                parts.callback(self.desk.lanes.close)

    def _save(self) -> None:
        self._groups.close()
        self.counters.offsets_unsaved(0)


def _prepare(store: MessageStore) -> None:
    # It is searched for in the last file: not while clients wait. `reput serve` has done so by now.
    store.log.end()
    # The first tick says what is away; nobody is answered without it until then.
    with contextlib.suppress(StoreError):
        store.presence.look()
