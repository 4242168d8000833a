"""Stores of millions of messages in seconds, and what a consumer has to get of each message.

Every message has a body, a key and an id of its own. Records are filled in by numpy; their layout
is `formats.rocketmq.encode`'s, and each length of body is encoded by it once.
"""

from __future__ import annotations

import json
import random
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import (
    BODY_CRC_AT,
    PHYSICAL_OFFSET_AT,
    PLACES,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
)
from reput.formats.rocketmq.encode import Message, encode, encode_blank
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.config import store_config

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

TOPIC = "orders"
QUEUES = 8
TAGS = ("created", "paid", "packed", "shipped")
BEGAN = 1_700_000_000_000
A_MILLISECOND = 50
"""Messages that are stored within one."""
FILE_SIZE = 64 << 20
CONF = {
    "mappedFileSizeCommitLog": str(FILE_SIZE),
    "messageIndexEnable": "false",
    "enablePropertyFilter": "true",
}
_LENGTHS = 64
_NUMBER, _DIGITS = 8, 16
_MARK = b"0123456789abcdef"
_HOST = "7F00000100002A9F"
_BODY_AT = PLACES[0].body
_STORED_AT = PLACES[0].store_timestamp


class Written(NamedTuple):
    """A log that was made, message by message in the log's order.

    Attributes:
        store: its directory.
        data: the log's bytes, file after file.
        queue, offset: of each message.
        place: its physical offset.
        kind: number of its template: 0 to 63, its property `a`.
        body_crc: of its body.
        facts_crc: of its facts, see `facts_of`.
        stored: its store timestamp.
        end: of the log.
    """

    store: Path
    data: NDArray[np.uint8]
    queue: NDArray[np.int64]
    offset: NDArray[np.int64]
    place: NDArray[np.int64]
    kind: NDArray[np.int64]
    body_crc: NDArray[np.uint32]
    facts_crc: NDArray[np.uint32]
    stored: NDArray[np.int64]
    end: int

    def first_since(self, stored: int) -> list[int]:
        """Return for each queue the offset of its first message stored then or later."""
        found = (self.queue[self.stored >= stored], self.offset[self.stored >= stored])
        return [int(found[1][found[0] == queue].min()) for queue in range(QUEUES)]

    def ends(self) -> NDArray[np.int64]:
        """Return how many messages each queue has."""
        return np.bincount(self.queue, minlength=QUEUES)


def tag_of(kind: int) -> str:
    """Return the tag of the messages of a template."""
    return TAGS[kind % len(TAGS)]


def facts_of(number: int, kind: int, place: int) -> str:
    """Return what a consumer is told of a message besides its body.

    Tag, keys, unique id, property `a`, times of birth and of storing, id.
    """
    stored = BEGAN + number // A_MILLISECOND
    digits = f"{number:016x}"
    return (
        f"{tag_of(kind)}\n{digits}\n7F000001AC1018B4{digits}\n{kind}\n{BEGAN}\n{stored}\n"
        f"{_HOST}{place:016X}"
    )


def _templates(pick: random.Random) -> list[bytes]:
    """Return records that are copied: their bodies begin with room for a number."""
    made = []
    for kind in range(_LENGTHS):
        body = bytes(_NUMBER) + pick.randbytes(min(int(pick.expovariate(0.01)), 2000))
        properties = {
            "KEYS": _MARK.decode(),
            "UNIQ_KEY": f"7F000001AC1018B4{_MARK.decode()}",
            "TAGS": tag_of(kind),
            "a": str(kind),
        }
        made.append(encode(Message(TOPIC, body, properties, born_timestamp=BEGAN), 0))
    return made


def _places(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[int]]:
    """Return where each record begins, and where each file's records end."""
    places, ends, first = np.empty_like(sizes), [], 0
    while first < len(sizes):
        base = len(ends) * FILE_SIZE
        reached = np.cumsum(sizes[first : first + FILE_SIZE // 100])
        # A BLANK has to fit after them.
        count = int(np.searchsorted(reached, FILE_SIZE - 8, "right"))
        places[first : first + count] = base + reached[:count] - sizes[first : first + count]
        ends.append(base + int(reached[count - 1]))
        first += count
    return places, ends


def _put(data: NDArray[np.uint8], at: NDArray[np.int64], values: NDArray, kind: str) -> None:
    raw = np.ascontiguousarray(values.astype(kind)).view(np.uint8).reshape(len(at), -1)
    data[at[:, None] + np.arange(raw.shape[1])] = raw


def _digits(numbers: NDArray[np.int64]) -> NDArray:
    shifts = np.arange(4 * (_DIGITS - 1), -1, -4)
    nibbles = (numbers[:, None] >> shifts) & 15
    return np.frombuffer(_MARK, np.uint8)[nibbles].reshape(-1).view(f"S{_DIGITS}")


def _queue_offsets(queue: NDArray[np.int64]) -> NDArray[np.int64]:
    offset = np.empty_like(queue)
    for each in range(QUEUES):
        mine = queue == each
        offset[mine] = np.arange(np.count_nonzero(mine))
    return offset


def compose(store: Path, count: int, seed: int = 1) -> Written:
    """Make a log of `count` messages in memory.

    Args:
        store: where it will be.
        count: of its messages.
        seed: of everything random.
    """
    templates = _templates(random.Random(seed))
    draws = np.random.default_rng(seed)
    kind, queue = draws.integers(_LENGTHS, size=count), draws.integers(QUEUES, size=count)
    sizes = np.array([len(raw) for raw in templates])[kind]
    places, ends = _places(sizes)
    data = np.zeros(len(ends) * FILE_SIZE, np.uint8)
    offset, number = _queue_offsets(queue), np.arange(count)
    for each, raw in enumerate(templates):
        mine = number[kind == each]
        at = places[mine]
        data[at[:, None] + np.arange(len(raw))] = np.frombuffer(raw, np.uint8)
        key = raw.index(_MARK, _BODY_AT)
        for where in (key, raw.index(_MARK, key + 1)):
            _put(data, at + where, _digits(mine), f"S{_DIGITS}")
    _put(data, places + QUEUE_ID_AT, queue, ">i4")
    _put(data, places + QUEUE_OFFSET_AT, offset, ">i8")
    _put(data, places + PHYSICAL_OFFSET_AT, places, ">i8")
    stored = BEGAN + number // A_MILLISECOND
    _put(data, places + _STORED_AT, stored, ">i8")
    _put(data, places + _BODY_AT, number, ">i8")
    lengths = np.array([int.from_bytes(raw[_BODY_AT - 4 : _BODY_AT], "big") for raw in templates])
    view = memoryview(data)
    spans = zip((places + _BODY_AT).tolist(), lengths[kind].tolist(), strict=True)
    crc = np.array([zlib.crc32(view[at : at + length]) for at, length in spans], np.uint32)
    _put(data, places + BODY_CRC_AT, crc & 0x7FFFFFFF, ">i4")
    for end in ends[:-1]:
        blank = encode_blank(FILE_SIZE - end % FILE_SIZE)
        data[end : end + len(blank)] = np.frombuffer(blank, np.uint8)
    told = zip(range(count), kind.tolist(), places.tolist(), strict=True)
    facts = np.array([zlib.crc32(facts_of(*each).encode()) for each in told], np.uint32)
    return Written(store, data, queue, offset, places, kind, crc, facts, stored, ends[-1])


def write_settings(store: Path) -> None:
    """Write the topics of the store."""
    topic = {
        "topicName": TOPIC,
        "readQueueNums": QUEUES,
        "writeQueueNums": QUEUES,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    (store / names.CONFIG).mkdir(parents=True)
    version = {"counter": 1, "timestamp": BEGAN, "stateVersion": 0}
    document = {"topicConfigTable": {TOPIC: topic}, "dataVersion": version}
    (store / names.CONFIG / "topics.json").write_text(json.dumps(document))


class Grower:
    """Writes the files of a log piece by piece, and dispatches what is there."""

    def __init__(self, written: Written, output: Path) -> None:
        self._written = written
        self._directory = written.store / names.COMMITLOG
        self._directory.mkdir(parents=True)
        write_settings(written.store)
        self._end = 0
        self._dispatcher: StoreDispatcher | None = None
        self._config = (written.store, output)

    def grow(self, end: int) -> None:
        """Let the log reach to `end`, where a record ends or begins."""
        data = self._written.data
        while self._end < end:
            base = self._end - self._end % FILE_SIZE
            until = min(end, base + FILE_SIZE)
            path = self._directory / names.offset_file(base)
            is_new = not path.exists()
            with path.open("wb" if is_new else "rb+") as file:
                if is_new:
                    file.truncate(FILE_SIZE)
                file.seek(self._end - base)
                file.write(data[self._end : until])
            self._end = until
        if self._dispatcher is None:
            store, output = self._config
            config = store_config(store, output, broker_version="5.5", broker_conf=CONF)
            self._dispatcher = StoreDispatcher(config)
        self._dispatcher.dispatch(end)

    def close(self) -> None:
        """Leave the output in order."""
        if self._dispatcher is not None:
            self._dispatcher.close()


def make(directory: Path, count: int, seed: int = 1) -> Written:
    """Write a store of `count` messages to `directory`/store, its queues to `directory`/out."""
    written = compose(directory / "store", count, seed)
    grower = Grower(written, directory / "out")
    grower.grow(written.end)
    grower.close()
    return written._replace(data=np.empty(0, np.uint8))
