"""Sets where a group resumes in a topic to a time: 222, which mqadmin sends.

A broker of 5.x sets offsets itself. The next pull of each queue is told (`PULL_OFFSET_MOVED`), and
until then what members say of the queue is not taken down, see `Offsets.reset`.

One of 4.9, or whose `useServerSideResetOffset` is off, tells members (220), and refuses groups that
have none: push consumers stop, wait ten seconds and resume there. We set our own offsets, too, so
that others go back when they join again.

Source: RocketMQ `AdminBrokerProcessor#resetOffset`, `#resetOffsetInner`,
`Broker2Client#resetOffset`, `ConsumerOffsetManager#assignResetOffset`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.remoting.reading.answer import Answer, RefusedError
from reput.remoting.wire import bodies, fields
from reput.remoting.wire.bodies import MessageQueue
from reput.remoting.wire.codes import LanguageCode, RequestCode, ResponseCode
from reput.remoting.wire.command import ONEWAY, Command
from reput.remoting.wire.fields import Header, Int, Long

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.remoting.groups.consumers import Consumers
    from reput.remoting.groups.offsets import Offsets
    from reput.remoting.names.known import Topic
    from reput.remoting.reading.served import Served
    from reput.remoting.wire.channel import Channel

    Handler = Callable[[Command, Channel], Answer | None]

_ALL = -1
_END = -1


@dataclass(frozen=True)
class ResetOffsetRequestHeader(Header):
    """222, and 220 to clients.

    Attributes:
        timestamp: ms; -1 is the end of the queue.
        is_force: go forward, too.
        queue_id: 5.x; -1 is every queue.
        offset: 5.x; where to, of a single queue; -1 is as `timestamp` says.
    """

    group: str
    topic: str
    timestamp: Long
    is_force: bool = False
    queue_id: Int = _ALL
    offset: Long | None = None


class Resets:
    """Answers what sets the offsets of groups."""

    def __init__(
        self, consumers: Consumers, offsets: Offsets, served: Served, broker_name: str
    ) -> None:
        """Answer for a store.

        Args:
            consumers: its groups.
            offsets: theirs.
            served: how it is served.
            broker_name: what it is called in queues.
        """
        self._consumers = consumers
        self._offsets = offsets
        self._served = served
        self._broker_name = broker_name

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset}

    def reset(self, request: Command, channel: Channel) -> Answer:
        """Set the offsets of a group in a topic.

        Raises:
            FieldError: a field is missing.
        """
        del channel
        header = fields.read(ResetOffsetRequestHeader, request.fields)
        is_at_broker = self._served.release.resets_offsets
        try:
            wanted = self._as_5_x(header) if is_at_broker else self._as_4_9(header)
        except RefusedError as error:
            return error.answer
        keep = self._offsets.reset if is_at_broker else self._offsets.set
        kept = [keep(header.group, header.topic, *each) for each in wanted.items()]
        if not all(kept):
            return Answer(ResponseCode.SYSTEM_ERROR, "too many queues have offsets")
        if not is_at_broker:
            self._tell(header, wanted)
        table = {self._queue(header, queue_id): offset for queue_id, offset in wanted.items()}
        body = bodies.dumps({"offsetTable": table})
        return Answer(ResponseCode.SUCCESS, pieces=(memoryview(body),))

    def _as_5_x(self, header: ResetOffsetRequestHeader) -> dict[int, int]:
        topic, group = header.topic, header.group
        known = self._topic(topic, f"Topic {topic} does not exist")
        if group not in self._consumers.configs:
            code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            raise _refused(code, f"Group {group} does not exist")
        if header.queue_id < 0:
            return self._of_time(header, known.read_queues)
        if header.offset in {None, _END}:
            return {header.queue_id: self._offset_at(topic, header.queue_id, header.timestamp)}
        assert header.offset is not None
        queue = self._served.store_of(topic, header.queue_id).queue_now(topic, header.queue_id)
        least, end = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
        if not least <= header.offset <= end + 1:
            remark = f"Target offset {header.offset} not in consume queue range [{least}-{end}]"
            raise _refused(ResponseCode.SYSTEM_ERROR, remark)
        return {header.queue_id: header.offset}

    def _as_4_9(self, header: ResetOffsetRequestHeader) -> dict[int, int]:
        topic, group = header.topic, header.group
        remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
        known = self._topic(topic, remark)
        wanted = self._of_time(header, known.read_queues)
        for queue_id, offset in wanted.items():
            now = self._offsets.find(group, topic, queue_id)
            if now is None:
                remark = f"THe consumer group <{group}> not exist"
                raise _refused(ResponseCode.SYSTEM_ERROR, remark)
            wanted[queue_id] = offset if header.is_force or offset < now else now
        if self._consumers.online(group) is None:
            remark = f"Consumer not online, so can not reset offset, Group: {group} "
            remark += f"Topic: {topic} Timestamp: {header.timestamp}"
            raise _refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        return wanted

    def _topic(self, name: str, remark: str) -> Topic:
        known = self._served.topics.get(name)
        if known is None:
            raise _refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        return known

    def _of_time(self, header: ResetOffsetRequestHeader, queues: int) -> dict[int, int]:
        topic, time = header.topic, header.timestamp
        return {number: self._offset_at(topic, number, time) for number in range(queues)}

    def _offset_at(self, topic: str, queue_id: int, timestamp: int) -> int:
        store = self._served.store_of(topic, queue_id)
        if timestamp >= 0:
            return max(store.offset_by_time(topic, queue_id, timestamp) or 0, 0)
        queue = store.queue_now(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def _queue(self, header: ResetOffsetRequestHeader, queue_id: int) -> MessageQueue:
        return MessageQueue(self._broker_name, queue_id, header.topic)

    def _tell(self, header: ResetOffsetRequestHeader, wanted: Mapping[int, int]) -> None:
        group = self._consumers.members.groups.get(header.group)
        said = ResetOffsetRequestHeader(header.group, header.topic, header.timestamp)
        for member in list(group.members.values()) if group is not None else ():
            member.channel.send(
                Command(
                    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                    member.channel.next_opaque(),
                    ONEWAY,
                    version=self._served.release.version,
                    fields=fields.write(said),
                    body=self._body(header, wanted, member.language),
                )
            )

    def _body(
        self,
        header: ResetOffsetRequestHeader,
        wanted: Mapping[int, int],
        language: LanguageCode | None,
    ) -> bytes:
        """Return what a client reads: Java a map, C++ a list."""
        if language is not LanguageCode.CPP:
            table = {self._queue(header, number): offset for number, offset in wanted.items()}
            return bodies.dumps({"offsetTable": table})
        name, topic = self._broker_name, header.topic
        rows = [
            {"brokerName": name, "offset": offset, "queueId": number, "topic": topic}
            for number, offset in wanted.items()
        ]
        return bodies.dumps({"offsetTable": rows})


def _refused(code: ResponseCode, remark: str) -> RefusedError:
    return RefusedError(Answer(code, remark))
