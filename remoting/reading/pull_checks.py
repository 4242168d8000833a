"""May this pull be answered, and with which filter? The checks, in the order of a broker.

Source: RocketMQ `PullMessageProcessor#processRequest`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.formats.errors import ExpressionError
from reput.remoting.names.known import READABLE
from reput.remoting.reading import filters
from reput.remoting.reading.answer import Answer, RefusedError
from reput.remoting.wire.codes import ResponseCode
from reput.remoting.wire.fields import Header, Int

if TYPE_CHECKING:
    from reput.remoting.names.known import Topic
    from reput.remoting.reading.filters import HashFilter
    from reput.remoting.reading.served import GroupConfig, Served, Subscription
    from reput.remoting.wire.pull_headers import PullMessageRequestHeader
    from reput.stores.config.message_filter import Sql92Filter

    Filter = HashFilter | Sql92Filter | None

# Bits of a pull's flags (`PullSysFlag`).
COMMIT_OFFSET, SUSPEND, SUBSCRIPTION, CLASS_FILTER, LITE_PULL = 1, 2, 4, 8, 16
# What is forbidden (`ForbiddenType`); brokers of 4.9 do not say.
BROKER, GROUP, TOPIC, BROADCASTING, READING = 1, 2, 3, 4, 5


@dataclass(frozen=True)
class RefusalHeader(Header):
    """The fields of an answer to a pull where a check fails."""

    forbidden_type: Int | None = None


def topic_and_group(
    header: PullMessageRequestHeader, served: Served, peer: str, *, is_lite: bool
) -> tuple[Topic, GroupConfig]:
    """Return what is known of the topic and of the group that a pull names.

    Args:
        header: the request.
        served: what is asked.
        peer: address of the client, for a remark.
        is_lite: it is a `LITE_PULL_MESSAGE`.

    Raises:
        RefusedError: they, or the queue, may not be read.
    """
    name, topic_name = header.consumer_group, header.topic
    if not served.is_readable:
        raise _forbidden(served, BROKER, f"the broker[{served.host}] pulling message is forbidden")
    if is_lite and not served.has_lite_pull:
        remark = f"the broker[{served.host}] for lite pull consumer is forbidden"
        raise _forbidden(served, BROKER, remark)
    group = served.groups.config(name)
    if group is None:
        remark = f"subscription group [{name}] does not exist, {_help(served)}"
        raise refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if not group.may_consume:
        raise _forbidden(served, GROUP, f"subscription group no permission, {name}")
    topic = served.topics.get(topic_name)
    if topic is None:
        remark = f"topic[{topic_name}] not exist, apply first please! {_help(served)}"
        raise refused(ResponseCode.TOPIC_NOT_EXIST, remark)
    if not topic.perm & READABLE:
        raise _forbidden(served, TOPIC, f"the topic[{topic_name}] pulling message is forbidden")
    if not 0 <= header.queue_id < topic.read_queues:
        remark = f"queueId[{header.queue_id}] is illegal, topic:[{topic_name}] "
        remark += f"topicConfig.readQueueNums:[{topic.read_queues}] consumer:[{peer}]"
        raise refused(served.release.illegal_queue, remark)
    return topic, group


def filter_of(header: PullMessageRequestHeader, served: Served, group: GroupConfig) -> Filter:
    """Return the filter of a pull, None for one that every message passes.

    Args:
        header: the request.
        served: what is asked.
        group: configuration of its group.

    Raises:
        RefusedError: the expression, or the subscription, is not one that the broker can use.
    """
    if header.sys_flag & SUBSCRIPTION:
        operators = served.store.settings.version.has_string_operators
        kind = header.expression_type
        try:
            found: Filter = filters.of_request(
                header.subscription, kind, string_operators=operators
            )
        except ExpressionError:
            remark = "parse the consumer's subscription failed"
            raise refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from None
        _require_property_filter(served, kind)
        return found
    subscription = _subscription(header, served, group)
    if filters.is_tag(subscription.kind):
        try:
            return filters.by_tags(subscription.expression)
        except ExpressionError:
            # Its client has no hash either.
            return filters.of_request(" ", "", string_operators=False)
    known = served.groups.filter_of(header.topic, header.consumer_group)
    if known is None:
        remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
        raise refused(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
    if known.client_version < header.sub_version:
        remark = "the consumer's consumer filter data not latest"
        raise refused(ResponseCode.FILTER_DATA_NOT_LATEST, remark)
    _require_property_filter(served, subscription.kind)
    return filters.of_consumer(served.store, known)


def _subscription(
    header: PullMessageRequestHeader, served: Served, group: GroupConfig
) -> Subscription:
    """Return what a group has subscribed with by its heartbeats."""
    name = header.consumer_group
    online = served.groups.online(name)
    if online is None:
        remark = f"the consumer's group info not exist{_help(served)}"
        raise refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if not group.may_broadcast and online.is_broadcasting:
        remark = f"the consumer group[{name}] can not consume by broadcast way"
        raise _forbidden(served, BROADCASTING, remark)
    if served.release.has_flags and header.topic in group.forbidden:
        remark = f"the consumer group[{name}] is forbidden for topic[{header.topic}]"
        raise _forbidden(served, READING, remark)
    found = online.subscriptions.get(header.topic)
    if found is None:
        remark = f"the consumer's subscription not exist{_help(served)}"
        raise refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if found.version < header.sub_version:
        remark = "the consumer's subscription not latest"
        raise refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
    return found


def _require_property_filter(served: Served, kind: str | None) -> None:
    if not filters.is_tag(kind) and not served.filters_properties:
        remark = f"The broker does not support consumer to filter message by {kind}"
        raise refused(ResponseCode.SYSTEM_ERROR, remark)


def refused(code: int, remark: str, forbidden: int | None = None) -> RefusedError:
    """Return the error of a check that failed."""
    return RefusedError(Answer(code, remark, RefusalHeader(forbidden)))


def _forbidden(served: Served, kind: int, remark: str) -> RefusedError:
    said = kind if served.release.has_flags else None
    return refused(ResponseCode.NO_PERMISSION, remark, said)


def _help(served: Served) -> str:
    return f"\nSee {served.release.help_page} for further details."
