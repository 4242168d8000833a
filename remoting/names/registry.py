"""Brokers of others that have registered: what they told, while they live.

It is in memory only. A broker is forgotten when its connection closes, or when it has not told of
itself for as long as it said; it registers again by itself, as it does at any name server.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reput.remoting.names.known import READABLE, WRITABLE, Broker, Topic
from reput.remoting.wire.name_headers import RegisterBrokerResponseHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.name_headers import RegisterBrokerRequestHeader
    from reput.remoting.wire.registration import DataVersion, Registration, TopicConfig

LOG = logging.getLogger("reput")

SILENT_SECONDS = 120.0
"""A broker that says no other time is gone after this (`DEFAULT_BROKER_CHANNEL_EXPIRED_TIME`)."""
MOST_BROKERS = 1000
"""Addresses that are registered at once; a name server of RocketMQ has no limit."""
MOST_TOPICS = 200_000
"""All brokers together may have as many; what two of them have counts twice."""
MOST_LETTERS = 255
"""A name or an address may have as many."""
MASTER = 0


class RegistrationError(Exception):
    """A broker may not register; the text is the remark of the answer."""


@dataclass
class _Member:
    """One address of a broker."""

    address: str
    ha_address: str
    version: DataVersion
    seen: float
    silent_seconds: float
    channel: Channel


@dataclass
class _Group:
    """The brokers of one name: a master and its slaves."""

    cluster: str
    zone: str | None = None
    acts_as_master: bool = False
    members: dict[int, _Member] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)

    def without_writes(self) -> None:
        """Close all topics for producers."""
        for topic in tuple(self.topics.values()):
            self.topics[topic.name] = _with_perm(topic, topic.perm & ~WRITABLE)


class Place(NamedTuple):
    """Where somebody says that a broker is."""

    name: str
    address: str


class Registry:
    """The brokers of others."""

    def __init__(self, ours: Callable[[], Collection[str]], now: Callable[[], float]) -> None:
        """Know none.

        Args:
            ours: returns the names of brokers that are served here: nobody else may have them.
            now: seconds, of a clock that never goes back.
        """
        self._ours, self._now = ours, now
        self._groups: dict[str, _Group] = {}

    def __len__(self) -> int:
        """Return how many addresses are registered."""
        return sum(len(group.members) for group in self._groups.values())

    def brokers(self) -> tuple[Broker, ...]:
        """Return them as routes and clusters tell of them, in the order in which they came."""
        return tuple(
            Broker(
                name,
                group.cluster,
                {number: member.address for number, member in group.members.items()},
                group.topics,
                group.acts_as_master,
                group.zone,
            )
            for name, group in self._groups.items()
        )

    def register(
        self,
        header: RegisterBrokerRequestHeader,
        told: Registration,
        channel: Channel,
        zone: str | None = None,
    ) -> RegisterBrokerResponseHeader:
        """Take that a broker is there; return what it wants to know.

        A broker of 5.x tells only of the topics that changed, so topics are added to those that are
        known.

        Raises:
            RegistrationError: it may not be, or tells of a single topic before it told of itself.
        """
        self._refuse(header, told)
        name, number = header.broker_name, header.broker_id
        group = self._groups.get(name) or _Group(header.cluster_name)
        before = group.members.get(number)
        if before is None and len(told.topics) == 1:
            raise RegistrationError("register broker failed")
        if before is not None and _is_older(before, header, told):
            # RocketMQ ignores it, too, and says so to nobody.
            return RegisterBrokerResponseHeader()
        self._groups[name] = group
        # A slave that became a master has one id, the new one.
        for other in [n for n, m in group.members.items() if m.address == header.broker_addr]:
            del group.members[other]
        group.zone, group.acts_as_master = zone, bool(header.enable_acting_master)
        group.members[number] = _member(header, told, self._now(), channel)
        _log_arrival(header, before)
        self._take_topics(group, header, told.topics)
        return _master_of(group, number)

    def is_known(self, place: Place, version: DataVersion) -> bool:
        """Tell whether a broker has told of this state of its topics; it was heard of now."""
        member = self._heard(place)
        return member is not None and member.version == version

    def version_of(self, place: Place) -> DataVersion | None:
        """Return which state of its topics a broker told of, None for one that is not known."""
        found = self._find(place)
        return None if found is None else found[2].version

    def heard(self, place: Place) -> None:
        """Take that a broker lives."""
        self._heard(place)

    def unregister(self, place: Place) -> None:
        """Forget a broker; one that is not known is forgotten already."""
        found = self._find(place)
        if found is not None:
            self._forget(place.name, found[1], "it says so")

    def closed(self, channel: Channel) -> None:
        """Forget the brokers of a connection that has closed."""
        for name, number, member in tuple(self._members()):
            if member.channel is channel:
                self._forget(name, number, "its connection is closed")

    def tick(self) -> None:
        """Forget the brokers that are silent; call it each second."""
        now = self._now()
        for name, number, member in tuple(self._members()):
            if now - member.seen > member.silent_seconds:
                self._forget(name, number, f"it was silent for {member.silent_seconds:g} s")

    def set_writable(self, name: str, *, is_writable: bool) -> int:
        """Open or close a broker's topics for producers, until it tells of them again.

        Returns:
            How many topics it has.
        """
        group = self._groups.get(name)
        if group is None:
            return 0
        if is_writable:
            for topic in tuple(group.topics.values()):
                group.topics[topic.name] = _with_perm(topic, READABLE | WRITABLE)
        else:
            group.without_writes()
        return len(group.topics)

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Forget a topic of a cluster's brokers, or of all, until one of them tells of it again."""
        for group in self._groups.values():
            if cluster in {None, group.cluster}:
                group.topics.pop(topic, None)

    def _refuse(self, header: RegisterBrokerRequestHeader, told: Registration) -> None:
        name = header.broker_name
        if name in self._ours():
            raise RegistrationError(
                f"This name server is reput's, and serves a store as broker {name} itself: give "
                "that broker or this store another name, as clients tell brokers by it."
            )
        texts = [name, header.broker_addr, header.cluster_name, header.ha_server_addr]
        if max(map(len, [*texts, *(each.name for each in told.topics)])) > MOST_LETTERS:
            raise RegistrationError(f"A name or an address has more than {MOST_LETTERS} letters.")
        if self._find(Place(name, header.broker_addr)) is None and len(self) >= MOST_BROKERS:
            raise RegistrationError(f"{MOST_BROKERS} brokers are registered, and no more fit.")
        known = self._groups[name].topics if name in self._groups else {}
        more = sum(each.name not in known for each in told.topics)
        if more + sum(len(group.topics) for group in self._groups.values()) > MOST_TOPICS:
            raise RegistrationError(f"All brokers together may have {MOST_TOPICS} topics.")

    def _take_topics(
        self,
        group: _Group,
        header: RegisterBrokerRequestHeader,
        topics: Collection[TopicConfig],
    ) -> None:
        """Take what a master tells; or, of 5.x, the slave that comes first without one."""
        is_master = header.broker_id == MASTER
        is_first = header.enable_acting_master is not None
        is_first = is_first and header.broker_id == min(group.members)
        if not is_master and not is_first:
            return
        hides_writes = not is_master and group.acts_as_master
        for each in topics:
            perm = each.perm & ~WRITABLE if hides_writes else each.perm
            numbers = (each.read_queues, each.write_queues, perm, each.sys_flag)
            group.topics[each.name] = Topic(each.name, *numbers)

    def _members(self) -> Iterator[tuple[str, int, _Member]]:
        for name, group in self._groups.items():
            for number, member in group.members.items():
                yield name, number, member

    def _find(self, place: Place) -> tuple[_Group, int, _Member] | None:
        group = self._groups.get(place.name)
        if group is not None:
            for number, member in group.members.items():
                if member.address == place.address:
                    return group, number, member
        return None

    def _heard(self, place: Place) -> _Member | None:
        found = self._find(place)
        if found is None:
            return None
        found[2].seen = self._now()
        return found[2]

    def _forget(self, name: str, number: int, why: str) -> None:
        group = self._groups[name]
        member = group.members.pop(number)
        LOG.info("broker %s, id %d, at %s is gone: %s", name, number, member.address, why)
        if not group.members:
            del self._groups[name]
        elif group.acts_as_master and MASTER not in group.members:
            group.without_writes()


def _member(
    header: RegisterBrokerRequestHeader, told: Registration, now: float, channel: Channel
) -> _Member:
    millis = header.heartbeat_timeout_millis
    silent = SILENT_SECONDS if millis is None else millis / 1000
    return _Member(header.broker_addr, header.ha_server_addr, told.version, now, silent, channel)


def _is_older(before: _Member, header: RegisterBrokerRequestHeader, told: Registration) -> bool:
    """Tell whether another broker of this name and id was elected later."""
    is_other = before.address != header.broker_addr
    return is_other and before.version.state_version > told.version.state_version


def _log_arrival(header: RegisterBrokerRequestHeader, before: _Member | None) -> None:
    name, address = header.broker_name, header.broker_addr
    if before is None:
        LOG.info("broker %s, id %d, registers with %s", name, header.broker_id, address)
    elif before.address != address:
        LOG.warning("broker %s: %s takes the place of %s", name, address, before.address)


def _with_perm(topic: Topic, perm: int) -> Topic:
    return Topic(topic.name, topic.read_queues, topic.write_queues, perm, topic.sys_flag)


def _master_of(group: _Group, number: int) -> RegisterBrokerResponseHeader:
    """Return where a slave finds its master."""
    master = group.members.get(MASTER)
    if number == MASTER or master is None:
        return RegisterBrokerResponseHeader()
    return RegisterBrokerResponseHeader(master.ha_address, master.address)
