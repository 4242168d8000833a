"""Headers of what consumers ask a broker: pulls, offsets, groups, messages sent back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from reput.remoting.wire.fields import Header, Int, Long, named


@dataclass(frozen=True)
class PullMessageRequestHeader(Header):
    """11 and 361."""

    IS_FAST: ClassVar[bool] = True

    consumer_group: str
    topic: str
    queue_id: Int
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    commit_offset: Long
    suspend_timeout_millis: Long
    sub_version: Long
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int | None = None
    request_source: Int | None = None
    # RocketMQ's own spelling.
    proxy_client_id: str | None = named("proxyFrowardClientId", default=None)
    lite_topic: str | None = None


@dataclass(frozen=True)
class PullMessageResponseHeader(Header):
    """A client's decoder fails without the first four."""

    IS_FAST: ClassVar[bool] = True

    suggest_which_broker_id: Long
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long
    offset_delta: Long | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
    forbidden_type: Int | None = None


@dataclass(frozen=True)
class QueryConsumerOffsetRequestHeader(Header):
    """14."""

    consumer_group: str
    topic: str
    queue_id: Int
    set_zero_if_not_found: bool | None = None


@dataclass(frozen=True)
class QueryConsumerOffsetResponseHeader(Header):
    """Where the group continues."""

    offset: Long


@dataclass(frozen=True)
class UpdateConsumerOffsetRequestHeader(Header):
    """15."""

    consumer_group: str
    topic: str
    queue_id: Int
    commit_offset: Long


@dataclass(frozen=True)
class GetMaxOffsetRequestHeader(Header):
    """30."""

    topic: str
    queue_id: Int
    committed: bool = True


@dataclass(frozen=True)
class GetMaxOffsetResponseHeader(Header):
    """One more than the last message's."""

    offset: Long


@dataclass(frozen=True)
class GetMinOffsetRequestHeader(Header):
    """31."""

    topic: str
    queue_id: Int


@dataclass(frozen=True)
class GetMinOffsetResponseHeader(Header):
    """The first message's."""

    offset: Long


@dataclass(frozen=True)
class SearchOffsetRequestHeader(Header):
    """29. LOWER, if a broker does not know what `boundary_type` says."""

    topic: str
    queue_id: Int
    timestamp: Long
    boundary_type: str | None = None
    lite_topic: str | None = None


@dataclass(frozen=True)
class SearchOffsetResponseHeader(Header):
    """The first message's that was stored at that time or later."""

    offset: Long


@dataclass(frozen=True)
class GetEarliestMsgStoretimeRequestHeader(Header):
    """32."""

    topic: str
    queue_id: Int


@dataclass(frozen=True)
class GetEarliestMsgStoretimeResponseHeader(Header):
    """Milliseconds."""

    timestamp: Long


@dataclass(frozen=True)
class UnregisterClientRequestHeader(Header):
    """35."""

    client_id: str = named("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@dataclass(frozen=True)
class GetConsumerListByGroupRequestHeader(Header):
    """38."""

    consumer_group: str


@dataclass(frozen=True)
class NotifyConsumerIdsChangedRequestHeader(Header):
    """40, from the server to its clients."""

    consumer_group: str


@dataclass(frozen=True)
class ConsumerSendMsgBackRequestHeader(Header):
    """36. `offset` is in the commitlog."""

    offset: Long
    group: str
    delay_level: Int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int | None = None
