"""What a name server answers to brokers that register, and to tools that speak of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.remoting.names.registry import Place, RegistrationError
from reput.remoting.names.said import Said, said_body
from reput.remoting.wire import bodies, fields, registration
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.name_headers import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    BrokerHeartbeatRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    UnRegisterBrokerRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.names.known import Known
    from reput.remoting.names.registry import Registry
    from reput.remoting.names.release import Release
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

_ZONE = "__ZONE_NAME"


class _Asked(NamedTuple):
    """A request, and all that an answer to it may need."""

    request: Command
    known: Known
    release: Release
    registry: Registry
    channel: Channel

    def is_ours(self, name: str) -> bool:
        """Tell whether a broker is served here, and has not registered."""
        others = {broker.name for broker in self.registry.brokers()}
        return name not in others and any(name == each.name for each in self.known.brokers)


def said(
    request: Command,
    known: Known,
    release: Release,
    registering_at: tuple[Registry, Channel] | None,
) -> Said | None:
    """Return what is answered here, None for what others answer.

    Args:
        request: what a broker or a tool asks.
        known: all brokers, those that are served here included.
        release: whose name server it answers like.
        registering_at: where brokers register, and the request's connection; None if they may not.

    Raises:
        FieldError: a field or the body is wrong.
    """
    handler = _HANDLERS.get(request.code)
    if handler is None or registering_at is None:
        return None
    return handler(_Asked(request, known, release, *registering_at))


def _register(asked: _Asked) -> Said:
    request = asked.request
    header = fields.read(RegisterBrokerRequestHeader, request.fields)
    if header.body_crc32 and header.body_crc32 != registration.crc_of(request.body):
        return Said(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    told = registration.read(request.body, is_compressed=header.compressed)
    zone = (request.fields or {}).get(_ZONE)
    try:
        answer = asked.registry.register(header, told, asked.channel, zone)
    except RegistrationError as error:
        return Said(ResponseCode.SYSTEM_ERROR, str(error))
    return Said(ResponseCode.SUCCESS, fields=fields.write(answer))


def _unregister(asked: _Asked) -> Said:
    header = fields.read(UnRegisterBrokerRequestHeader, asked.request.fields)
    asked.registry.unregister(Place(header.broker_name, header.broker_addr))
    return Said(ResponseCode.SUCCESS)


def _heartbeat(asked: _Asked) -> Said:
    header = fields.read(BrokerHeartbeatRequestHeader, asked.request.fields)
    asked.registry.heard(Place(header.broker_name, header.broker_addr))
    return Said(ResponseCode.SUCCESS)


def _version(asked: _Asked) -> Said:
    header = fields.read(QueryDataVersionRequestHeader, asked.request.fields)
    place = Place(header.broker_name, header.broker_addr)
    asks_for = registration.read_version(asked.request.body)
    is_known = asked.registry.is_known(place, asks_for)
    known = asked.registry.version_of(place)
    has_state = asked.release.is_5
    body = b"" if known is None else bodies.dumps(known.said(has_state=has_state))
    answer = fields.write(QueryDataVersionResponseHeader(changed=not is_known))
    return Said(ResponseCode.SUCCESS, fields=answer, body=body)


def _group(asked: _Asked) -> Said:
    header = fields.read(GetBrokerMemberGroupRequestHeader, asked.request.fields)
    name = header.broker_name
    found = next((each.addresses for each in asked.known.brokers if each.name == name), {})
    addresses = {str(number): found[number] for number in sorted(found)}
    group = {"brokerAddrs": addresses, "brokerName": name, "cluster": header.cluster_name}
    return said_body({"brokerMemberGroup": group})


def _wipe_writes(asked: _Asked) -> Said | None:
    name = fields.read(WipeWritePermOfBrokerRequestHeader, asked.request.fields).broker_name
    if asked.is_ours(name):
        return None
    count = asked.registry.set_writable(name, is_writable=False)
    answer = fields.write(WipeWritePermOfBrokerResponseHeader(count))
    return Said(ResponseCode.SUCCESS, fields=answer)


def _add_writes(asked: _Asked) -> Said | None:
    name = fields.read(AddWritePermOfBrokerRequestHeader, asked.request.fields).broker_name
    if asked.is_ours(name):
        return None
    count = asked.registry.set_writable(name, is_writable=True)
    answer = fields.write(AddWritePermOfBrokerResponseHeader(count))
    return Said(ResponseCode.SUCCESS, fields=answer)


def _delete_topic(asked: _Asked) -> Said | None:
    """Forget a topic of others; one that only stores have, which are served here, stays."""
    header = fields.read(DeleteTopicFromNamesrvRequestHeader, asked.request.fields)
    having = [broker.name for broker, _ in asked.known.of_topic(header.topic)]
    if having and all(map(asked.is_ours, having)):
        return None
    asked.registry.delete_topic(header.topic, header.cluster_name or None)
    return Said(ResponseCode.SUCCESS)


OF_BROKERS = {
    RequestCode.REGISTER_BROKER,
    RequestCode.UNREGISTER_BROKER,
    RequestCode.BROKER_HEARTBEAT,
    RequestCode.QUERY_DATA_VERSION,
    RequestCode.GET_BROKER_MEMBER_GROUP,
}
"""What only brokers ask."""
_HANDLERS: dict[int, Callable[[_Asked], Said | None]] = {
    RequestCode.REGISTER_BROKER: _register,
    RequestCode.UNREGISTER_BROKER: _unregister,
    RequestCode.BROKER_HEARTBEAT: _heartbeat,
    RequestCode.QUERY_DATA_VERSION: _version,
    RequestCode.GET_BROKER_MEMBER_GROUP: _group,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: _wipe_writes,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: _add_writes,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: _delete_topic,
}
