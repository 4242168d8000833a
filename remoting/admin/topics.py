"""What tools ask about topics: their configurations, their queues, and entries of one.

Source: RocketMQ `AdminBrokerProcessor`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq.consumequeue import SCHEDULE_TOPIC
from reput.remoting.admin.subscriptions import filter_text, subscribed
from reput.remoting.reading.answer import Answer
from reput.remoting.wire import bodies, fields
from reput.remoting.wire.admin_headers import (
    GetAllTopicConfigResponseHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryConsumeQueueRequestHeader,
)
from reput.remoting.wire.bodies import MessageQueue
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.stores.config.config_files import read_config
from reput.stores.config.topics import TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.remoting.names.known import Topic
    from reput.remoting.reading.served import Served
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer]

UNSET = "not set any response code"
"""The remark of answers whose code nobody sets in a broker: it is that of its constructor."""
_VERSION = re.compile(r'"dataVersion"\s*:\s*(\{[^{}]*\})')
_SYSTEM = (
    "SELF_TEST_TOPIC",
    "TBW102",
    "BenchmarkTest",
    "OFFSET_MOVED_EVENT",
    SCHEDULE_TOPIC,
    "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
)
_MORE_OF_5 = (
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
    "rmq_sys_wheel_timer",
    "CHECKPOINT_TOPIC",
)


class Topics:
    """Answers what concerns topics."""

    def __init__(self, served: Served, named: tuple[str, str]) -> None:
        """Answer for a store.

        Args:
            served: how it is served.
            named: what it is called in queues, and the name of its cluster.
        """
        self._served = served
        self._broker_name, self._cluster = named

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return {
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all_configs,
            RequestCode.GET_TOPIC_CONFIG: self.config,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system,
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
            RequestCode.QUERY_CONSUME_QUEUE: self.entries,
        }

    def all_configs(self, request: Command, channel: Channel) -> Answer:
        """Answer with all configurations: one page has all there are."""
        del request, channel
        table = {name: self._document(each) for name, each in self._served.topics.items()}
        version = self._version() or data_version(self._served)
        said: dict[str, Any] = {"dataVersion": version}
        if self._served.release.is_5:
            said["mappingDataVersion"] = data_version(self._served)
        if not self._served.release.counts_pages:
            return body_of(said | {"topicConfigTable": table})
        said |= {"topicQueueMappingDetailMap": {}, "topicQueueMappingInfoMap": {}}
        answer = body_of(said | {"topicConfigTable": table})
        return answer._replace(header=GetAllTopicConfigResponseHeader(len(table)))

    def _version(self) -> Mapping[str, int] | None:
        """Return the version of the broker's file, None if it has none."""
        text = read_config(self._served.store.root, TOPICS)
        found = _VERSION.search(text) if text is not None else None
        return json.loads(found[1]) if found is not None else None

    def config(self, request: Command, channel: Channel) -> Answer:
        """Answer with one configuration.

        Raises:
            FieldError: the topic is missing.
        """
        del channel
        name = fields.read(GetTopicConfigRequestHeader, request.fields).topic
        topic = self._served.topics.get(name)
        if topic is None:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}")
        return body_of(self._document(topic))

    def _document(self, topic: Topic) -> dict[str, Any]:
        document = {
            "order": topic.is_ordered,
            "perm": topic.perm,
            "readQueueNums": topic.read_queues,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic.name,
            "topicSysFlag": topic.sys_flag,
            "writeQueueNums": topic.write_queues,
        }
        if not self._served.release.is_5:
            return document
        attributes = dict(topic.attributes)
        if self._served.store.is_batch(topic.name):
            attributes.setdefault("queue.type", "BatchCQ")
        return {"attributes": attributes} | document

    def system(self, request: Command, channel: Channel) -> Answer:
        """Answer which topics are a broker's own, whether it has them or not."""
        del request, channel
        broker, cluster = self._broker_name, self._cluster
        names = [*_SYSTEM, cluster, broker, f"{cluster}_REPLY_TOPIC"]
        if self._served.release.is_5:
            names += [*_MORE_OF_5, f"rmq_sys_REVIVE_LOG_{cluster}"]
            names.append(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}")
        return body_of({"topicList": names})

    def stats(self, request: Command, channel: Channel) -> Answer:
        """Answer how far a topic's queues reach.

        Raises:
            FieldError: the topic is missing.
        """
        del channel
        name = fields.read(GetTopicStatsInfoRequestHeader, request.fields).topic
        topic = self._served.topics.get(name)
        if topic is None:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        table = {
            MessageQueue(self._broker_name, number, name): self._reach(name, number)
            for number in range(max(topic.read_queues, topic.write_queues))
        }
        said: dict[str, Any] = {"offsetTable": table}
        return body_of(said | ({"topicPutTps": 0.0} if self._served.release.is_5 else {}))

    def _reach(self, name: str, queue_id: int) -> dict[str, int]:
        store = self._served.store_of(name, queue_id)
        queue = store.queue_now(name, queue_id)
        if queue is None:
            return {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
        last = queue.last_entry()
        stored = store.stored_at(last) if last is not None else None
        return {
            "lastUpdateTimestamp": stored or 0,
            "maxOffset": queue.max_offset,
            "minOffset": max(queue.min_offset, 0),
        }

    def entries(self, request: Command, channel: Channel) -> Answer:
        """Answer with entries of a queue, as they stand there.

        Raises:
            FieldError: a number is not one.
        """
        del channel
        header = fields.read(QueryConsumeQueueRequestHeader, request.fields)
        topic = header.topic or ""
        queue = self._served.store_of(topic, header.queue_id).queue_now(topic, header.queue_id)
        if queue is None:
            place = f"{header.queue_id}@{header.topic}"
            return Answer(ResponseCode.SYSTEM_ERROR, f"{place} is not exist!")
        said: dict[str, Any] = {}
        if header.consumer_group is not None:
            said = self._filter(header.consumer_group, header.topic or "")
        least = max(queue.min_offset, 0)
        said |= {"maxQueueIndex": queue.max_offset, "minQueueIndex": least}
        if not least <= header.index < queue.max_offset:
            place = f"{header.index} of {header.queue_id}@{header.topic}"
            return Answer(ResponseCode.SUCCESS, f"Index {place} is not exist!")
        found = []
        for entry in queue.all_entries(header.index):
            if entry.queue_offset - header.index >= header.count:
                break
            found.append(
                {
                    "eval": False,
                    "physicOffset": entry.physical_offset,
                    "physicSize": entry.size,
                    "tagsCode": entry.tags_code,
                }
            )
        return body_of(said | {"queueData": found}, UNSET)

    def _filter(self, group: str, topic: str) -> dict[str, Any]:
        """Return what a group wants of a topic."""
        groups = self._served.groups
        online = groups.online(group)
        wanted = online.subscriptions.get(topic) if online is not None else None
        if wanted is None:
            return {"filterData": f"{group}@{topic} is not online!"}
        registered = groups.filter_of(topic, group)
        text = filter_text(topic, registered)
        return {"filterData": text, "subscriptionData": subscribed(topic, wanted)}


def data_version(served: Served) -> Mapping[str, int]:
    """Return the version of what no file says; it never changes."""
    version = {"counter": 0, "timestamp": 0}
    return {"stateVersion": 0} | version if served.release.is_5 else version


def body_of(value: Any, remark: str | None = None) -> Answer:
    """Return an answer that is a JSON document."""
    return Answer(ResponseCode.SUCCESS, remark, None, (memoryview(bodies.dumps(value)),))
