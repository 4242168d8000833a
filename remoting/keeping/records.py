"""What a message becomes that is sent back: the copy that waits, and the one that is delivered.

A broker writes both, with these properties (`AbstractSendMessageProcessor#consumerSendMsgBack`,
`HookUtils#transformDelayLevelMessage`, `ScheduleMessageService#messageTimeUp`). The copy that is
delivered keeps `DELAY`: the broker takes it from the message, and not from the text that it stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq import properties
from reput.formats.rocketmq.commitlog import WIDE_HOSTS
from reput.formats.rocketmq.consumequeue import SCHEDULE_TOPIC
from reput.formats.rocketmq.encode import Message
from reput.formats.rocketmq.names import DEAD_LETTERS, RETRY
from reput.remoting.reading.hosts import Host, address_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.formats.rocketmq.commitlog import Record

RETRY_TOPIC, ORIGIN_ID = "RETRY_TOPIC", "ORIGIN_MESSAGE_ID"
REAL_TOPIC, REAL_QUEUE = "REAL_TOPIC", "REAL_QID"
WAIT, DELAY = "WAIT", properties.DELAY
# Level 3 is the first that a broker gives by itself: 10 s.
_FIRST_LEVEL = 3


class Wanted(NamedTuple):
    """What a consumer wants with a message that it sends back.

    Attributes:
        group: its group.
        level: of the delay; 0 lets the broker choose, less than 0 is for the dead letters.
        most_times: how often it is tried again.
    """

    group: str
    level: int
    most_times: int


def sent_back(record: Record, wanted: Wanted, origin_id: str, stored_by: Host) -> Message:
    """Return a message as it is to be put: into the group's topic, or its dead letters.

    Args:
        record: the message that was sent back.
        wanted: see `Wanted`.
        origin_id: its offset id.
        stored_by: what ids of the copy lead to.
    """
    said = {name: value for name, value in record.properties.items() if name != properties.CRC32}
    said.setdefault(RETRY_TOPIC, record.topic)
    said[WAIT] = "false"
    is_dead = wanted.level < 0 or record.reconsume_times >= wanted.most_times
    level = wanted.level or _FIRST_LEVEL + record.reconsume_times
    said[DELAY] = "0" if is_dead else str(level)
    said.setdefault(ORIGIN_ID, origin_id)
    topic = (DEAD_LETTERS if is_dead else RETRY) + wanted.group
    copy = _copy(record, topic, said, stored_by)
    return copy._replace(reconsume_times=record.reconsume_times + 1)


def waiting(message: Message, levels: int) -> Message:
    """Return a message as it waits for its delay, or itself if it has none.

    Args:
        message: with its own topic and queue.
        levels: how many delays there are; what is beyond the last one has that.
    """
    said = _properties(message)
    level = min(int(said.get(DELAY, "0")), levels)
    if level <= 0:
        return message
    said |= {
        DELAY: str(level),
        REAL_TOPIC: str(message.topic),
        REAL_QUEUE: str(message.queue_id),
    }
    return message._replace(topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=said)


def delivered(record: Record) -> Message:
    """Return a message whose delay is over, as it is to be put.

    Args:
        record: as it waited.
    """
    topic, queue_id = record.properties[REAL_TOPIC], int(record.properties[REAL_QUEUE])
    copy = _copy(record, topic, record.properties, address_of(record.store_host))
    return copy._replace(queue_id=queue_id, reconsume_times=record.reconsume_times)


def identity(record: Record) -> tuple[str, str, str, int]:
    """Return what a copy that waits and the one that is delivered have in common."""
    said = record.properties
    topic = said.get(REAL_TOPIC, "") if record.topic == SCHEDULE_TOPIC else record.topic
    return topic, said.get(ORIGIN_ID, ""), said.get(properties.UNIQ_KEY, ""), record.reconsume_times


def _copy(record: Record, topic: str, said: Mapping[str, str], stored_by: Host) -> Message:
    born = address_of(record.born_host)
    return Message(
        topic,
        record.body,
        said,
        born_timestamp=record.born_timestamp,
        flag=record.flag,
        sys_flag=record.sys_flag & ~WIDE_HOSTS,
        born_host=born.address,
        born_port=born.port,
        store_host=stored_by.address,
        store_port=stored_by.port,
    )


def _properties(message: Message) -> dict[str, str]:
    if isinstance(message.properties, bytes):
        return properties.parse(message.properties)
    return dict(message.properties)
