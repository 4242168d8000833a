"""What a broker of ours says to a name server of others, and what it reads there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.wire import bodies, fields, registration
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.command import Command
from reput.remoting.wire.errors import JsonError
from reput.remoting.wire.name_headers import (
    RegisterBrokerRequestHeader,
    UnRegisterBrokerRequestHeader,
)
from reput.remoting.wire.registration import Registration, TopicConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.names.known import Broker
    from reput.remoting.names.release import Release
    from reput.remoting.wire.registration import DataVersion

MOST_AT_ONCE = 10_000
"""Topics of one request: a name server adds them to those that it knows, and reads 16 MiB."""
_MASTER = 0


def all_brokers(release: Release) -> Command:
    """Return the question for the brokers that a name server knows."""
    return Command(RequestCode.GET_BROKER_CLUSTER_INFO, version=release.version, fields={})


def other_address(answer: Command, broker: Broker) -> str | None:
    """Return the address of another broker that lives under a name of ours; None for none.

    Args:
        answer: to `all_brokers`.
        broker: ours.

    Raises:
        JsonError: the answer is not that of a name server.
    """
    known = bodies.loads(answer.body)
    table = known.get("brokerAddrTable") if isinstance(known, dict) else None
    if not isinstance(table, dict):
        raise JsonError("it does not tell of brokers, as a name server does")
    said = table.get(broker.name) or {}
    addresses = said.get("brokerAddrs") or {}
    return next((each for each in addresses.values() if each != broker.addresses[_MASTER]), None)


def registrations(
    broker: Broker, release: Release, next_version: Callable[[], DataVersion], *, is_first: bool
) -> list[Command]:
    """Return the requests that register a broker with all its topics, in order.

    Args:
        broker: as its clients find it.
        release: whose broker it is.
        next_version: gives each of them a version: topics of one that is known are not looked at.
        is_first: the name server does not know it yet.
    """
    topics = [
        TopicConfig(each.name, each.read_queues, each.write_queues, each.perm, each.sys_flag)
        for each in broker.topics.values()
    ]
    parts = [topics[at : at + MOST_AT_ONCE] for at in range(0, len(topics), MOST_AT_ONCE)] or [[]]
    # RocketMQ's refuses a broker that tells of a single topic before it told of itself.
    if is_first and len(parts[0]) == 1:
        parts.insert(0, [])
    return [
        _registration(broker, release, Registration(next_version(), tuple(part))) for part in parts
    ]


def _registration(broker: Broker, release: Release, told: Registration) -> Command:
    is_5 = release.has_acting_master
    body = registration.write(told, is_5=is_5)
    address = broker.addresses[_MASTER]
    header = RegisterBrokerRequestHeader(
        broker.name,
        address,
        broker.cluster,
        # No slave reads from a store that is served; the field may not lack.
        ha_server_addr=address,
        broker_id=_MASTER,
        enable_acting_master=False if is_5 else None,
        body_crc32=registration.crc_of(body),
    )
    written = fields.write(header)
    code = RequestCode.REGISTER_BROKER
    return Command(code, version=release.version, fields=written, body=body)


def goodbye(broker: Broker, release: Release) -> Command:
    """Return the request that makes a name server forget a broker."""
    address = broker.addresses[_MASTER]
    header = UnRegisterBrokerRequestHeader(broker.name, address, broker.cluster, _MASTER)
    code = RequestCode.UNREGISTER_BROKER
    return Command(code, version=release.version, fields=fields.write(header))
