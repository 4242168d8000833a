"""Headers of what clients, tools and brokers ask a name server."""

from __future__ import annotations

from dataclasses import dataclass

from reput.remoting.wire.fields import Header, Int, Long


@dataclass(frozen=True)
class GetRouteInfoRequestHeader(Header):
    """105."""

    topic: str
    accept_standard_json_only: bool | None = None


@dataclass(frozen=True)
class GetTopicsByClusterRequestHeader(Header):
    """224."""

    cluster: str


@dataclass(frozen=True)
class PutKVConfigRequestHeader(Header):
    """100."""

    namespace: str
    key: str
    value: str


@dataclass(frozen=True)
class GetKVConfigRequestHeader(Header):
    """101."""

    namespace: str
    key: str


@dataclass(frozen=True)
class GetKVConfigResponseHeader(Header):
    """Absent where there is nothing under the key."""

    value: str | None = None


@dataclass(frozen=True)
class DeleteKVConfigRequestHeader(Header):
    """102."""

    namespace: str
    key: str


@dataclass(frozen=True)
class GetKVListByNamespaceRequestHeader(Header):
    """219."""

    namespace: str


@dataclass(frozen=True)
class RegisterBrokerRequestHeader(Header):
    """103."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Long
    heartbeat_timeout_millis: Long | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int = 0


@dataclass(frozen=True)
class RegisterBrokerResponseHeader(Header):
    """Where a slave finds its master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@dataclass(frozen=True)
class UnRegisterBrokerRequestHeader(Header):
    """104."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


@dataclass(frozen=True)
class WipeWritePermOfBrokerRequestHeader(Header):
    """205."""

    broker_name: str


@dataclass(frozen=True)
class WipeWritePermOfBrokerResponseHeader(Header):
    """How many queues of topics are closed for producers now."""

    wipe_topic_count: Int


@dataclass(frozen=True)
class AddWritePermOfBrokerRequestHeader(Header):
    """327."""

    broker_name: str


@dataclass(frozen=True)
class AddWritePermOfBrokerResponseHeader(Header):
    """How many topics are open for producers again."""

    add_topic_count: Int


@dataclass(frozen=True)
class QueryDataVersionRequestHeader(Header):
    """322."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


@dataclass(frozen=True)
class QueryDataVersionResponseHeader(Header):
    """Whether the broker has to tell its topics again."""

    changed: bool


@dataclass(frozen=True)
class DeleteTopicFromNamesrvRequestHeader(Header):
    """216. Brokers' tools of 5.x may name a cluster."""

    topic: str
    cluster_name: str | None = None


@dataclass(frozen=True)
class BrokerHeartbeatRequestHeader(Header):
    """904."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Long | None = None
    epoch: Int | None = None
    max_offset: Long | None = None
    confirm_offset: Long | None = None
    heartbeat_timeout_mills: Long | None = None
    election_priority: Int | None = None


@dataclass(frozen=True)
class GetBrokerMemberGroupRequestHeader(Header):
    """901."""

    cluster_name: str
    broker_name: str
