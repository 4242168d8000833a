"""What a name server answers to each request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.remoting.names import registering
from reput.remoting.names.known import UNIT, UNIT_SUB, unique
from reput.remoting.names.said import Said, said_body
from reput.remoting.wire import fields
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.errors import FieldError
from reput.remoting.wire.name_headers import (
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.names.known import Known
    from reput.remoting.names.registry import Registry
    from reput.remoting.names.release import Release
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

READ_ONLY = "This name server is reput's: it serves stores that are only read, and changes nothing."
TAKES_NONE = "This name server is reput's, and takes no brokers unless it has --accept-brokers."


def answer(
    request: Command,
    known: Known,
    release: Release,
    registering_at: tuple[Registry, Channel] | None = None,
) -> Command | None:
    """Return the answer to a request, None for one that wants none.

    Args:
        request: what a client, a tool or a broker asks.
        known: what there is to tell.
        release: whose name server it answers like.
        registering_at: where others' brokers register, and the connection of this request; None
            where they may not.
    """
    try:
        said = registering.said(request, known, release, registering_at)
        said = said or _said(request, known, release)
    except FieldError as error:
        said = Said(ResponseCode.SYSTEM_ERROR, error.remark)
    if request.is_oneway:
        return None
    return request.answer(said.code, release.version, said.remark, said.fields, said.body)


def _said(request: Command, known: Known, release: Release) -> Said:
    if request.code in _REFUSED:
        return Said(ResponseCode.NO_PERMISSION, READ_ONLY)
    if request.code in registering.OF_BROKERS:
        return Said(ResponseCode.NO_PERMISSION, TAKES_NONE)
    handler = _HANDLERS.get(request.code)
    if handler is None:
        code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        return Said(code, f" request type {request.code} not supported")
    return handler(request, known, release)


def _route(request: Command, known: Known, release: Release) -> Said:
    topic = fields.read(GetRouteInfoRequestHeader, request.fields).topic
    found = known.of_topic(topic)
    if not found:
        remark = f"No topic route info in name server for the topic: {topic}\nSee "
        remark += f"{release.help_page} for further details."
        return Said(ResponseCode.TOPIC_NOT_EXIST, remark)
    route: dict[str, Any] = {
        "brokerDatas": [broker.data(release) for broker, _ in found],
        "filterServerTable": {},
    }
    order = known.values.get("ORDER_TOPIC_CONFIG", {}).get(topic)
    if order is not None:
        route["orderTopicConf"] = order
    route["queueDatas"] = [
        {
            "brokerName": broker.name,
            "perm": each.perm,
            "readQueueNums": each.read_queues,
            "topicSysFlag": each.sys_flag,
            "writeQueueNums": each.write_queues,
        }
        for broker, each in found
    ]
    return said_body(route)


def _cluster(_: Command, known: Known, release: Release) -> Said:
    table = {broker.name: broker.data(release) for broker in known.brokers}
    return said_body({"brokerAddrTable": table, "clusterAddrTable": known.clusters()})


def _topics(_: Command, known: Known, __: Release) -> Said:
    return said_body({"topicList": known.topics()})


def _topics_of_cluster(request: Command, known: Known, _: Release) -> Said:
    cluster = fields.read(GetTopicsByClusterRequestHeader, request.fields).cluster
    return said_body({"topicList": known.topics(cluster)})


def _system_topics(_: Command, known: Known, __: Release) -> Said:
    """Return clusters and their brokers: each of these names is a topic too."""
    names = unique(
        name for cluster, brokers in known.clusters().items() for name in (cluster, *brokers)
    )
    listed: dict[str, Any] = {"topicList": list(names)}
    addresses = (broker.addresses for broker in known.brokers if broker.addresses)
    address = next((each[min(each)] for each in addresses), None)
    return said_body(({} if address is None else {"brokerAddr": address}) | listed)


def _unit_topics(request: Command, known: Known, _: Release) -> Said:
    """Return topics by their unit flags, which are those of the first broker that has them."""
    first = {name: each for broker in known.brokers[::-1] for name, each in broker.topics.items()}
    mask, wanted = _UNIT_FLAGS[request.code]
    names = [name for name in known.topics() if first[name].sys_flag & mask == wanted]
    return said_body({"topicList": names})


def _value(request: Command, known: Known, _: Release) -> Said:
    asked = fields.read(GetKVConfigRequestHeader, request.fields)
    value = known.values.get(asked.namespace, {}).get(asked.key)
    if value is None:
        remark = f"No config item, Namespace: {asked.namespace} Key: {asked.key}"
        return Said(ResponseCode.QUERY_NOT_FOUND, remark)
    return Said(ResponseCode.SUCCESS, fields=fields.write(GetKVConfigResponseHeader(value)))


def _values(request: Command, known: Known, _: Release) -> Said:
    namespace = fields.read(GetKVListByNamespaceRequestHeader, request.fields).namespace
    found = known.values.get(namespace)
    if found is None:
        remark = f"No config item, Namespace: {namespace}"
        return Said(ResponseCode.QUERY_NOT_FOUND, remark)
    return said_body({"table": dict(found)})


def _settings(_: Command, __: Known, release: Release) -> Said:
    """Return the settings of a name server that are so here, as Java properties."""
    said = _SETTINGS | (_MORE_OF_5 if release.is_5 else {})
    text = "".join(f"{name}={value}\n" for name, value in sorted(said.items()))
    return Said(ResponseCode.SUCCESS, body=text.encode())


_SETTINGS = {"clusterTest": "false", "orderMessageEnable": "false", "productEnvName": "center"}
_MORE_OF_5 = {
    "enableAllTopicList": "true",
    "enableTopicList": "true",
    "needWaitForService": "false",
    "supportActingMaster": "false",
}
# Which of a topic's flags are looked at, and what they have to be.
_UNIT_FLAGS = {
    RequestCode.GET_UNIT_TOPIC_LIST.value: (UNIT, UNIT),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST.value: (UNIT_SUB, UNIT_SUB),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST.value: (UNIT | UNIT_SUB, UNIT_SUB),
}
_HANDLERS: dict[int, Callable[[Command, Known, Release], Said]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _route,
    RequestCode.GET_BROKER_CLUSTER_INFO: _cluster,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _topics,
    RequestCode.GET_TOPICS_BY_CLUSTER: _topics_of_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _system_topics,
    **dict.fromkeys(_UNIT_FLAGS, _unit_topics),
    RequestCode.GET_KV_CONFIG: _value,
    RequestCode.GET_KVLIST_BY_NAMESPACE: _values,
    RequestCode.GET_NAMESRV_CONFIG: _settings,
}
_REFUSED = {
    RequestCode.PUT_KV_CONFIG,
    RequestCode.DELETE_KV_CONFIG,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.UPDATE_NAMESRV_CONFIG,
}
