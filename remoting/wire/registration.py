"""What a broker tells a name server of its topics: the body of `REGISTER_BROKER`.

As JSON, of all releases; those of 5.x have `stateVersion`, attributes and static topics besides:

    {"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":0,"timestamp":1},
    "topicConfigTable":{"T":{"perm":6,"readQueueNums":4,"topicName":"T","writeQueueNums":4,…}}}}

Compressed, of brokers with `compressedRegister`, it is something else, deflated:

====== ===================================================================
size   field (numbers are 4 bytes, big-endian)
====== ===================================================================
4 + n  bytes of a JSON `DataVersion`, and that
4      how many topics
4 + n  of each: bytes of its text, and that: `T 4 4 6 SINGLE_TAG {}` is its
       name, queues to read, queues to write, permission, filter, attributes
4 + n  bytes of a JSON list of filter servers, and that
       from 5.0 on: static topics, their number first
====== ===================================================================
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.java import strings
from reput.remoting.wire import bodies
from reput.remoting.wire.errors import FieldError, JsonError
from reput.remoting.wire.frames import MAX_FRAME_LENGTH

if TYPE_CHECKING:
    from reput.remoting.wire.command import Bytes

MOST_TOPICS = 200_000
"""A body that has more is refused before it takes the memory."""
MOST_INFLATED = MAX_FRAME_LENGTH
"""Bytes of a body when it is no longer compressed: what it could have said without."""

_INT = struct.Struct(">i")
_DECODE = "org.apache.rocketmq.remoting.exception.RemotingCommandException"
_LEAST_WORDS = 5
_MOST_LONG = (1 << 63) - 1
# What Python makes of a body that is something else than it should be.
_WRONG = (JsonError, ValueError, TypeError, LookupError, AttributeError, struct.error, zlib.error)


class DataVersion(NamedTuple):
    """Which state of its topics a broker tells of.

    Attributes:
        counter: of changes.
        timestamp: of the last one, ms.
        state_version: which of two masters was elected later; 0 without a controller.
    """

    counter: int = 0
    timestamp: int = 0
    state_version: int = 0

    def said(self, *, has_state: bool = True) -> dict[str, int]:
        """Return it as it stands in bodies.

        Args:
            has_state: brokers of 5.x tell which master was elected later.
        """
        said = {"counter": self.counter, "timestamp": self.timestamp}
        return said | ({"stateVersion": self.state_version} if has_state else {})


class TopicConfig(NamedTuple):
    """A topic as its broker tells of it."""

    name: str
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int = 0


class Registration(NamedTuple):
    """What a body says: the broker's topics, or those that are new or changed."""

    version: DataVersion
    topics: tuple[TopicConfig, ...]


def crc_of(body: Bytes) -> int:
    """Return the checksum of a body as Java's brokers have it: 31 bits of CRC-32."""
    return zlib.crc32(body) & 0x7FFFFFFF


def read(body: Bytes, *, is_compressed: bool) -> Registration:
    """Return what a broker says; an empty body says that it has no topics.

    Raises:
        FieldError: it is neither form, or larger than anything that is sane; answer 1.
    """
    if not body:
        return Registration(DataVersion(), ())
    try:
        return _inflated(body) if is_compressed else _of_json(bodies.loads(body))
    except _WRONG as error:
        raise FieldError(_DECODE, f"Failed to decode RegisterBrokerBody ({error})") from None


def write(registration: Registration, *, is_5: bool) -> bytes:
    """Return a body as JSON.

    Args:
        registration: what it says.
        is_5: as a broker of 5.x writes it.
    """
    more: dict[str, Any] = {"attributes": {}} if is_5 else {}
    table = {
        each.name: more
        | {
            "order": False,
            "perm": each.perm,
            "readQueueNums": each.read_queues,
            "topicFilterType": "SINGLE_TAG",
            "topicName": each.name,
            "topicSysFlag": each.sys_flag,
            "writeQueueNums": each.write_queues,
        }
        for each in registration.topics
    }
    wrapper: dict[str, Any] = {
        "dataVersion": registration.version.said(has_state=is_5),
        "topicConfigTable": table,
    }
    if is_5:
        wrapper["mappingDataVersion"] = DataVersion().said()
        wrapper |= {"topicQueueMappingDetailMap": {}, "topicQueueMappingInfoMap": {}}
    return bodies.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def read_version(body: Bytes) -> DataVersion:
    """Return the `DataVersion` of a request that asks whether it is known.

    Raises:
        FieldError: it is not one; answer 1.
    """
    try:
        return _version(bodies.loads(body))
    except _WRONG as error:
        raise FieldError(_DECODE, f"Failed to decode DataVersion ({error})") from None


def _of_json(said: Any) -> Registration:
    wrapper = said["topicConfigSerializeWrapper"]
    table = wrapper.get("topicConfigTable") or {}
    _refuse_many(len(table))
    topics = tuple(_topic(name, config) for name, config in table.items())
    return Registration(_version(wrapper.get("dataVersion") or {}), topics)


def _topic(name: str, config: dict[str, Any]) -> TopicConfig:
    numbers = ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag")
    return TopicConfig(name, *(_number(config.get(each)) for each in numbers))


def _version(said: Any) -> DataVersion:
    return DataVersion(*(_number(said.get(e)) for e in ("counter", "timestamp", "stateVersion")))


def _number(value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MOST_LONG:
        raise TypeError(f"{str(value)[:20]!r} is not a number")
    return value


def _refuse_many(topics: int) -> None:
    if not 0 <= topics <= MOST_TOPICS:
        raise ValueError(f"{topics} topics, and at most {MOST_TOPICS} are taken")


def _inflated(body: Bytes) -> Registration:
    inflater = zlib.decompressobj()
    plain = inflater.decompress(body, MOST_INFLATED)
    if not inflater.eof:
        raise ValueError(f"compressed, it does not end within {MOST_INFLATED} bytes")
    version, at = _piece(plain, 0)
    (count,) = _INT.unpack_from(plain, at)
    _refuse_many(count)
    at += _INT.size
    topics = []
    for _ in range(count):
        text, at = _piece(plain, at)
        topics.append(_of_text(text))
    return Registration(_version(bodies.loads(version)), tuple(topics))


def _piece(plain: bytes, at: int) -> tuple[bytes, int]:
    """Return what stands at a byte, after its own size, and where it ends."""
    (size,) = _INT.unpack_from(plain, at)
    begin = at + _INT.size
    if not 0 <= size <= len(plain) - begin:
        raise ValueError(f"{size} bytes at {begin} are not there")
    return plain[begin : begin + size], begin + size


def _of_text(text: bytes) -> TopicConfig:
    words = strings.decode(text).split(" ")
    if len(words) < _LEAST_WORDS:
        raise ValueError(f"{words[0][:20]!r} is not all of a topic")
    return TopicConfig(words[0], *map(strings.parse_int, words[1:4]))
