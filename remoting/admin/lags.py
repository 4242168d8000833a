"""What tools ask about how far groups are: offsets, lag, and the times of what they consume.

Source: RocketMQ `AdminBrokerProcessor`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from reput.remoting.admin.topics import body_of, data_version
from reput.remoting.reading.answer import Answer
from reput.remoting.wire import fields
from reput.remoting.wire.admin_headers import (
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
)
from reput.remoting.wire.bodies import MessageQueue
from reput.remoting.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.remoting.groups.requests import GroupState
    from reput.remoting.reading.served import Served
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer]


class Lags:
    """Answers what concerns the offsets of groups."""

    def __init__(self, state: GroupState, served: Served, broker_name: str, address: str) -> None:
        """Answer for a store.

        Args:
            state: what is known of groups.
            served: how the store is served.
            broker_name: what it is called in queues.
            address: what clients dial.
        """
        self._state = state
        self._served = served
        self._broker_name = broker_name
        self._address = address
        self._members = state.consumers.members
        self._is_5 = served.release.is_5

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return {
            RequestCode.GET_CONSUME_STATS: self.stats,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.of_topic,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_span,
            RequestCode.GET_BROKER_CONSUME_STATS: self.all_stats,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all_offsets,
        }

    def all_offsets(self, request: Command, channel: Channel) -> Answer:
        """Answer with the offsets of all groups, as their file has them."""
        del request, channel
        said: dict[str, Any] = {"dataVersion": data_version(self._served)} if self._is_5 else {}
        return body_of(said | self._state.offsets.document())

    def of_topic(self, request: Command, channel: Channel) -> Answer:
        """Answer which groups consume a topic, or have.

        Raises:
            FieldError: the topic is missing.
        """
        del channel
        topic = fields.read(QueryTopicConsumeByWhoRequestHeader, request.fields).topic
        online = [n for n, each in self._members.groups.items() if topic in each.subscriptions]
        return body_of(
            {"groupList": list(dict.fromkeys((*online, *self._state.offsets.groups(topic))))}
        )

    def topics(self, request: Command, channel: Channel) -> Answer:
        """Answer in which topics a group has offsets.

        Raises:
            FieldError: the group is missing.
        """
        del channel
        group = fields.read(QueryTopicsByConsumerRequestHeader, request.fields).group
        topics = self._state.offsets.topics(group)
        return body_of({"brokerAddr": self._address, "topicList": topics})

    def stats(self, request: Command, channel: Channel) -> Answer:
        """Answer how far a group is in its topics.

        Raises:
            FieldError: the group is missing.
        """
        del channel
        header = fields.read(GetConsumeStatsRequestHeader, request.fields)
        group = header.consumer_group
        topics = [each for each in (header.topic_list or "").split(";") if each and self._is_5]
        if not topics:
            topics = [header.topic] if header.topic else self._state.offsets.topics(group)
            topics = [each for each in topics if self._wants(group, each)]
        known = [self._served.topics[each] for each in topics if each in self._served.topics]
        table: dict[MessageQueue, dict[str, int]] = {}
        for topic in known:
            for queue, lag in self._lags(group, topic.name, topic.read_queues):
                if self._is_5:
                    pulled = self._state.offsets.pulled(group, topic.name, queue.queue_id)
                    lag["pullOffset"] = max(lag["consumerOffset"], pulled)
                table[queue] = lag
        return body_of({"consumeTps": 0.0, "offsetTable": table})

    def _wants(self, group: str, topic: str) -> bool:
        """Tell whether a group still wants a topic; one that is away wants all that it had."""
        online = self._members.groups.get(group)
        return online is None or not online.subscriptions or topic in online.subscriptions

    def _lags(
        self, group: str, topic: str, queues: int
    ) -> Iterator[tuple[MessageQueue, dict[str, int]]]:
        for number in range(queues):
            queue = self._served.queue_now(topic, number)
            end = queue.max_offset if queue is not None else 0
            found = self._state.offsets.find(group, topic, number)
            consumed = max(found if found is not None else 0, 0)
            stored = 0
            if queue is not None and consumed > 0:
                last = next(queue.all_entries(consumed - 1), None)
                if last is not None and last.queue_offset < consumed:
                    stored = self._served.store_at(last.physical_offset).stored_at(last) or 0
            said = {"brokerOffset": end, "consumerOffset": consumed, "lastTimestamp": stored}
            yield MessageQueue(self._broker_name, number, topic), said

    def all_stats(self, request: Command, channel: Channel) -> Answer:
        """Answer how far all groups are, by group and topic.

        Raises:
            FieldError: a field is missing.
        """
        del channel
        header = fields.read(GetConsumeStatsInBrokerHeader, request.fields)
        listed, total, reached = [], 0, 0
        for group in self._groups():
            of_group = []
            for name in self._state.offsets.topics(group):
                topic = self._served.topics.get(name)
                if topic is None or (header.is_order and not topic.is_ordered):
                    continue
                if not self._wants(group, name):
                    continue
                table = dict(self._lags(group, name, topic.write_queues))
                if self._is_5:
                    # A broker does not look up what was pulled here, and counts from 0.
                    table = {queue: lag | {"pullOffset": 0} for queue, lag in table.items()}
                of_group.append({"consumeTps": 0.0, "offsetTable": table})
                total += sum(e["brokerOffset"] - e["consumerOffset"] for e in table.values())
                reached += sum(e["consumerOffset"] for e in table.values())
            listed.append({group: of_group})
        said: dict[str, Any] = {"brokerAddr": self._address, "consumeStatsList": listed}
        said["totalDiff"] = total
        return body_of(said | ({"totalInflightDiff": -reached} if self._is_5 else {}))

    def _groups(self) -> list[str]:
        configs = self._state.consumers.configs
        return list(dict.fromkeys((*configs.documents, *configs.made)))

    def time_span(self, request: Command, channel: Channel) -> Answer:
        """Answer from when to when messages of a topic's queues are, and where a group is.

        Raises:
            FieldError: a field is missing.
        """
        del channel
        header = fields.read(QueryConsumeTimeSpanRequestHeader, request.fields)
        topic = self._served.topics.get(header.topic)
        if topic is None:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        spans = [
            self._span(header.group, header.topic, number) for number in range(topic.write_queues)
        ]
        return body_of({"consumeTimeSpanSet": spans})

    def _span(self, group: str, topic: str, number: int) -> dict[str, Any]:
        store = self._served.store_of(topic, number)
        queue = store.queue_now(topic, number)
        said: dict[str, Any] = {
            "messageQueue": {"brokerName": self._broker_name, "queueId": number, "topic": topic}
        }
        if queue is None:
            return said | _times(-1, -1, -1) | {"delayTime": _now() + 1}

        def stored(offset: int) -> int:
            entry = next(queue.all_entries(max(offset, queue.min_offset, 0)), None)
            found = store.stored_at(entry) if entry is not None else None
            return -1 if found is None else found

        consumed = self._state.offsets.find(group, topic, number)
        first, last = stored(queue.min_offset), stored(queue.max_offset - 1)
        at = stored(consumed - 1) if consumed is not None and consumed > 0 else first
        said |= _times(first, last, at)
        said["delayTime"] = 0
        reached = consumed if consumed is not None else -1
        if reached < queue.max_offset:
            # A broker that knows no offset takes the time before the first one, which is none.
            following = stored(reached) if reached >= queue.min_offset else -1
            said["delayTime"] = _now() - following
        return said


def _times(first: int, last: int, at: int) -> dict[str, Any]:
    """Return times in milliseconds, and as a broker prints them."""
    times = {"consumeTimeStamp": at, "maxTimeStamp": last, "minTimeStamp": first}
    return times | {f"{name}Str": _shown(each) for name, each in times.items()}


def _shown(milliseconds: int) -> str:
    """Return a time of the server's zone (`UtilAll#timeMillisToHumanString`)."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{time.strftime('%Y-%m-%d#%H:%M:%S', time.localtime(seconds))}:{rest:03d}"


def _now() -> int:
    return int(time.time() * 1000)
