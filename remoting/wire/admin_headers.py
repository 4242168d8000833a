"""Headers of what tools ask a broker: messages, topics, groups, statistics."""

from __future__ import annotations

from dataclasses import dataclass

from reput.remoting.wire.fields import Header, Int, Long


@dataclass(frozen=True)
class QueryMessageRequestHeader(Header):
    """12. `_UNIQUE_KEY_QUERY` stands beside these."""

    topic: str
    key: str
    max_num: Int
    begin_timestamp: Long
    end_timestamp: Long
    index_type: str | None = None
    last_key: str | None = None


@dataclass(frozen=True)
class QueryMessageResponseHeader(Header):
    """How far the index is."""

    index_last_update_timestamp: Long
    index_last_update_phyoffset: Long


@dataclass(frozen=True)
class ViewMessageRequestHeader(Header):
    """33. `offset` is in the commitlog."""

    offset: Long
    topic: str | None = None


@dataclass(frozen=True)
class QueryConsumeQueueRequestHeader(Header):
    """321."""

    topic: str | None = None
    queue_id: Int = 0
    index: Long = 0
    count: Int = 0
    consumer_group: str | None = None


@dataclass(frozen=True)
class GetTopicStatsInfoRequestHeader(Header):
    """202."""

    topic: str


@dataclass(frozen=True)
class GetTopicConfigRequestHeader(Header):
    """351."""

    topic: str


@dataclass(frozen=True)
class GetAllTopicConfigResponseHeader(Header):
    """How many topics there are, of which a page has some."""

    total_topic_num: Int | None = None


@dataclass(frozen=True)
class GetAllSubscriptionGroupResponseHeader(Header):
    """How many groups there are, of which a page has some."""

    total_group_num: Int


@dataclass(frozen=True)
class GetConsumeStatsRequestHeader(Header):
    """208."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@dataclass(frozen=True)
class GetConsumerConnectionListRequestHeader(Header):
    """203."""

    consumer_group: str


@dataclass(frozen=True)
class GetProducerConnectionListRequestHeader(Header):
    """204."""

    producer_group: str


@dataclass(frozen=True)
class QueryTopicConsumeByWhoRequestHeader(Header):
    """300."""

    topic: str


@dataclass(frozen=True)
class QueryConsumeTimeSpanRequestHeader(Header):
    """303."""

    topic: str
    group: str


@dataclass(frozen=True)
class ViewBrokerStatsDataRequestHeader(Header):
    """315."""

    stats_name: str
    stats_key: str


@dataclass(frozen=True)
class GetConsumeStatsInBrokerHeader(Header):
    """317."""

    is_order: bool


@dataclass(frozen=True)
class GetConsumerRunningInfoRequestHeader(Header):
    """307, which is sent to a client."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@dataclass(frozen=True)
class GetSubscriptionGroupConfigRequestHeader(Header):
    """352."""

    group: str


@dataclass(frozen=True)
class QueryTopicsByConsumerRequestHeader(Header):
    """343."""

    group: str


@dataclass(frozen=True)
class QuerySubscriptionByConsumerRequestHeader(Header):
    """345. A broker wants no topic (5.5.0), and then knows no subscription."""

    group: str
    topic: str | None = None


@dataclass(frozen=True)
class ConsumeMessageDirectlyResultRequestHeader(Header):
    """309, which is sent to a client with a message. The flags are those of 5.x."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None


@dataclass(frozen=True)
class GetParentTopicInfoRequestHeader(Header):
    """200075."""

    topic: str


@dataclass(frozen=True)
class GetLiteTopicInfoRequestHeader(Header):
    """200076. 200077 begins with the same topic."""

    parent_topic: str | None = None
    lite_topic: str | None = None


@dataclass(frozen=True)
class GetLiteGroupInfoRequestHeader(Header):
    """200078, and 200079 with the id of a client."""

    group: str
    lite_topic: str | None = None
    top_k: Int = 0
