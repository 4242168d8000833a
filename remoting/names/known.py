"""What a name server knows: brokers, the topics of each, and values under names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reput.remoting.names.release import Release

READABLE, WRITABLE = 4, 2
UNIT, UNIT_SUB = 1, 2


@dataclass(frozen=True)
class Topic:
    """A topic on one broker.

    Attributes:
        perm: `READABLE` and `WRITABLE`, and 1 to inherit. Producers fail at once on a topic that is
            only readable, and not with each message.
        sys_flag: `UNIT` and `UNIT_SUB`, of setups with several units.
        is_ordered: messages of one queue are in order (`order`).
        attributes: of 5.x, by name.
    """

    name: str
    read_queues: int
    write_queues: int
    perm: int = READABLE
    sys_flag: int = 0
    is_ordered: bool = False
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Broker:
    """A broker as its clients find it.

    Attributes:
        addresses: by broker id, 0 the master's: what clients dial, so never the address that a
            server happens to be bound to.
        topics: by name.
        acts_as_master: its slave may stand in for its master (`enableActingMaster` of 5.x).
        zone: where it stands, in setups that say so.
    """

    name: str
    cluster: str
    addresses: Mapping[int, str]
    topics: Mapping[str, Topic]
    acts_as_master: bool = False
    zone: str | None = None

    def data(self, release: Release) -> dict[str, Any]:
        """Return the broker as routes and clusters describe it."""
        # Clients compare a whole route with the one before: the order never changes.
        addresses = {str(number): self.addresses[number] for number in sorted(self.addresses)}
        data: dict[str, Any] = {"brokerAddrs": addresses, "brokerName": self.name}
        data["cluster"] = self.cluster
        if release.has_acting_master:
            data["enableActingMaster"] = self.acts_as_master
        return data if self.zone is None else data | {"zoneName": self.zone}


@dataclass(frozen=True)
class Known:
    """All that a name server answers from.

    Attributes:
        brokers: in the order in which they are listed.
        values: what `PUT_KV_CONFIG` has put, by namespace and key.
    """

    brokers: tuple[Broker, ...]
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of_topic(self, name: str) -> list[tuple[Broker, Topic]]:
        """Return the brokers that have a topic."""
        return [(each, each.topics[name]) for each in self.brokers if name in each.topics]

    def clusters(self) -> dict[str, list[str]]:
        """Return the names of brokers by cluster."""
        found: dict[str, list[str]] = {}
        for broker in self.brokers:
            found.setdefault(broker.cluster, []).append(broker.name)
        return found

    def topics(self, cluster: str | None = None) -> list[str]:
        """Return the names of the topics of a cluster, or of all."""
        return list(
            unique(
                name
                for broker in self.brokers
                if cluster in {None, broker.cluster}
                for name in broker.topics
            )
        )


def unique(names: Iterable[str]) -> dict[str, None]:
    """Return names once, in their order."""
    return dict.fromkeys(names)
