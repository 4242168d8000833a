"""Headers of what producers send, in the long form and in the one that is now usual."""

from __future__ import annotations

from dataclasses import dataclass

from reput.remoting.wire.fields import Header, Int, Long


@dataclass(frozen=True)
class SendMessageRequestHeader(Header):
    """10; the body is the message's. Properties are a text as in a record."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str | None = None
    reconsume_times: Int | None = None
    max_reconsume_times: Int | None = None
    batch: bool = False


LONG_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "l": "maxReconsumeTimes",
    "m": "batch",
}
"""What 310 calls the fields of 10."""


@dataclass(frozen=True)
class SendMessageResponseHeader(Header):
    """Where the message stands; its id is the offset id."""

    msg_id: str
    queue_id: Int
    queue_offset: Long
    transaction_id: str | None = None
