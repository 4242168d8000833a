"""The clients of a broker: consumers and producers, by group and by connection.

A member is a connection, not a client id. It joins with a heartbeat (34) and leaves with an
unregistration (35), when its connection closes (Go's clients leave in no other way), or after 120 s
of silence. A group without members is forgotten but for its name: its retry topic and offsets stay.

When a group changes, its members are told (40) and ask who is there (38), so the list is right
before the first of them is told. A change is a new connection, or a topic that was added or
removed; a newer version of a subscription replaces the older one and is none.

Source: RocketMQ `ConsumerManager`, `ConsumerGroupInfo`, `ProducerManager`.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reput.remoting.groups.heartbeats import BROADCASTING
from reput.remoting.reading.served import Online
from reput.remoting.wire import fields
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.command import ONEWAY, Command
from reput.remoting.wire.pull_headers import NotifyConsumerIdsChangedRequestHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.remoting.groups.heartbeats import Consumer, Heartbeat
    from reput.remoting.groups.registered_filters import RegisteredFilters
    from reput.remoting.names.release import Release
    from reput.remoting.reading.served import Subscription
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.codes import LanguageCode

LOG = logging.getLogger("reput")
SILENCE_SECONDS = 120.0
SCAN_SECONDS = 10.0
# Any peer can name groups, so the number of those with members is bounded, for each kind.
_MOST_GROUPS = 1 << 16


@dataclass
class Member:
    """A client, as one of its groups knows it.

    Attributes:
        channel: its connection.
        client_id: what it calls itself.
        language: what it is written in, None for one that is not known.
        version: the ordinal of its release.
        heard: when its last heartbeat came, by the clock of `Members`.
    """

    channel: Channel
    client_id: str
    language: LanguageCode | None
    version: int
    heard: float


@dataclass
class Group:
    """Consumers of one name. Where its members differ, the last heartbeat counts.

    Attributes:
        consume_type: see `Consumer`.
        model: see `Consumer`.
        from_where: see `Consumer`.
        subscriptions: by topic.
        members: by connection.
    """

    consume_type: str
    model: str
    from_where: str
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    members: dict[Channel, Member] = field(default_factory=dict)

    @property
    def client_ids(self) -> list[str]:
        """Return the members' ids, each once: clients share queues by their places in the list."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))

    @property
    def is_broadcasting(self) -> bool:
        """Tell whether each member gets every message."""
        return self.model == BROADCASTING

    def wants(self) -> tuple[str, dict[str, Subscription]]:
        """Return what checks of pulls ask for, as it is now."""
        return self.model, self.subscriptions.copy()

    def subscribe(self, wanted: Mapping[str, Subscription]) -> bool:
        """Take over what a member subscribes to; tell whether topics were added or removed."""
        is_changed = wanted.keys() != self.subscriptions.keys()
        for topic in self.subscriptions.keys() - wanted.keys():
            del self.subscriptions[topic]
        for topic, subscription in wanted.items():
            known = self.subscriptions.get(topic)
            if known is None or subscription.version > known.version:
                self.subscriptions[topic] = subscription
        return is_changed


class Members:
    """The clients of one broker.

    Attributes:
        groups: consumers, by group. To be read only.
        producers: by group, then by connection. To be read only.
        known: groups that have members, or had; a broker keeps the retry topics of all of them.
        clashes: how often a member joined with the client id of another member of its group.
        turned_away: how often a member could not join: there were too many groups.
        changes: how often a group came, went, or wants something else than before.
    """

    def __init__(
        self, release: Release, filters: RegisteredFilters, now: Callable[[], float]
    ) -> None:
        """Begin without any.

        Args:
            release: whose rules of notification are followed.
            filters: gets the SQL92 expressions that groups subscribe with.
            now: seconds, of a clock that never goes back.
        """
        self._release = release
        self._filters = filters
        self._now = now
        self._next_scan = now() + SCAN_SECONDS
        self.groups: dict[str, Group] = {}
        self.producers: dict[str, dict[Channel, Member]] = {}
        self.known: dict[str, None] = {}
        # Each is logged once.
        self._clashed: set[tuple[str, str]] = set()
        self.clashes = self.turned_away = self.changes = 0
        # Most connections that close in a storm never sent a heartbeat.
        self._heard: set[Channel] = set()

    def online(self, group: str) -> Online | None:
        """Return a group as checks of pulls see it, None if it has no members."""
        found = self.groups.get(group)
        if found is None:
            return None
        return Online(found.is_broadcasting, found.subscriptions)

    def silence(self, member: Member) -> float:
        """Return the seconds since a member was heard of."""
        return self._now() - member.heard

    def heard_at(self, member: Member) -> int:
        """Return when a member was heard of, in milliseconds since 1970."""
        return int((time.time() - self.silence(member)) * 1000)

    def find(self, group: str, client_id: str) -> Member | None:
        """Return the member of a group that has a client id, None if there is none."""
        found = self.groups.get(group)
        members = found.members.values() if found is not None else ()
        return next((each for each in members if each.client_id == client_id), None)

    def join(self, consumer: Consumer, request: Command, channel: Channel, client_id: str) -> bool:
        """Take over what a heartbeat says of one of its groups.

        Args:
            consumer: the group, and what the client wants of it.
            request: the heartbeat.
            channel: where it came from.
            client_id: of the heartbeat.

        Returns:
            Whether the group changed, so that its members have to be told.
        """
        if not self._has_room(self.groups, consumer.group):
            return False
        if len(self.known) < _MOST_GROUPS:
            self.known[consumer.group] = None
        said = (consumer.consume_type, consumer.model, consumer.from_where)
        group = self.groups.setdefault(consumer.group, Group(*said))
        before = group.wants() if group.members else None
        group.consume_type, group.model, group.from_where = said
        is_new = channel not in group.members
        if is_new and client_id in group.client_ids:
            self._clash(consumer.group, client_id, channel)
        self._hear(group.members, request, channel, client_id)
        if consumer.subscriptions is not None:
            is_changed = group.subscribe(consumer.subscriptions)
            self._filters.register(consumer.group, consumer.subscriptions)
            is_new = is_new or is_changed
        self.changes += before != group.wants()
        return is_new

    def produce(self, heartbeat: Heartbeat, request: Command, channel: Channel) -> None:
        """Take over which groups a client produces for."""
        for group in heartbeat.producers:
            if not self._has_room(self.producers, group):
                continue
            members = self.producers.setdefault(group, {})
            self._hear(members, request, channel, heartbeat.client_id)

    def _has_room(self, table: Mapping[str, object], group: str) -> bool:
        if group in table or len(table) < _MOST_GROUPS:
            return True
        if not self.turned_away:
            LOG.error("%d groups have members: group %s cannot have any", _MOST_GROUPS, group)
        self.turned_away += 1
        return False

    def _hear(
        self, members: dict[Channel, Member], request: Command, channel: Channel, client_id: str
    ) -> None:
        said = (client_id, request.language, request.version, self._now())
        members[channel] = Member(channel, *said)
        self._heard.add(channel)

    def _clash(self, group: str, client_id: str, channel: Channel) -> None:
        self.clashes += 1
        if (group, client_id) in self._clashed:
            return
        if len(self._clashed) < _MOST_GROUPS:
            self._clashed.add((group, client_id))
        LOG.warning(
            "group %s: %s joins as %s, which another connection is already. Two clients with one "
            "id get the same share of the queues; give each an instanceName of its own",
            group,
            channel.peer,
            client_id,
        )

    def leave(self, channel: Channel, consumers: str | None, producers: str | None) -> bool:
        """Remove a client from one group of each kind (35).

        Returns:
            Whether a group of consumers has this name, so that its members are told.
        """
        if producers is not None:
            _without(self.producers, producers, channel)
        return consumers is not None and self._remove(consumers, channel)

    def closed(self, channel: Channel) -> None:
        """Remove a connection that has closed from all groups, and tell those that remain."""
        if channel not in self._heard:
            return
        self._heard.discard(channel)
        for name in [name for name, each in self.producers.items() if channel in each]:
            _without(self.producers, name, channel)
        for name in [name for name, each in self.groups.items() if channel in each.members]:
            self._remove(name, channel)
            self.tell(name)

    def _remove(self, name: str, channel: Channel) -> bool:
        group = self.groups.get(name)
        if group is None:
            return False
        group.members.pop(channel, None)
        if not group.members:
            del self.groups[name]
            self.changes += 1
            self._filters.unregister(name)
        return True

    def tell(self, name: str) -> None:
        """Tell the members of a group that it changed (40)."""
        group = self.groups.get(name)
        if group is None or (group.is_broadcasting and not self._release.notifies_broadcasting):
            return
        said = fields.write(NotifyConsumerIdsChangedRequestHeader(name))
        for channel in list(group.members):
            channel.send(
                Command(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
                    channel.next_opaque(),
                    ONEWAY,
                    version=self._release.version,
                    fields=said,
                )
            )

    def tick(self, now: float) -> None:
        """Close connections that were silent for too long, and drop filters that nobody needs.

        Call it every second or so.

        A client sends a heartbeat every 30 s. Unlike a broker, which leaves it to the next balance
        of the others, they are told at once.

        Args:
            now: as of the clock.
        """
        if now < self._next_scan:
            return
        self._next_scan = now + SCAN_SECONDS
        self._filters.drop_dead()
        tables = [*self.producers.values(), *(group.members for group in self.groups.values())]
        silent = {
            member.channel: member
            for members in tables
            for member in members.values()
            if now - member.heard > SILENCE_SECONDS
        }
        for channel, member in silent.items():
            LOG.warning(
                "%s (%s) is closed: no heartbeat for %d s",
                member.client_id,
                channel.peer,
                SILENCE_SECONDS,
            )
            channel.close()
            self.closed(channel)


def _without(table: dict[str, dict[Channel, Member]], name: str, channel: Channel) -> None:
    members = table.get(name, {})
    members.pop(channel, None)
    if not members:
        table.pop(name, None)
