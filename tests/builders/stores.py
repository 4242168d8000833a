"""Builds small stores without a broker: logs of chosen or random messages, and their outputs.

Everything random comes from a `random.Random`, so a store is made again from its seed.
"""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import COMMIT, PREPARED, ROLLBACK, Record, read
from reput.formats.rocketmq.encode import Message, encode, encode_blank, fits
from reput.streaming.settings.config import StoreConfig, store_config

if TYPE_CHECKING:
    from pathlib import Path

LOG_FILE = 4096
QUEUE_FILE = 8 * 20
SLOTS = 13
ITEMS = 12
# Small files, so that a few records roll all of them.
SMALL = {
    "mappedFileSizeCommitLog": str(LOG_FILE),
    "mappedFileSizeConsumeQueue": str(QUEUE_FILE),
    "mappedFileSizeConsumeQueueExt": "160",
    "mapperFileSizeBatchConsumeQueue": str(4 * 46),
    "maxHashSlotNum": str(SLOTS),
    "maxIndexNum": str(ITEMS),
}
# Where a record's body begins with IPv4 hosts.
BODY_AT = 88


class Place(NamedTuple):
    """Where a record stands, and what it holds."""

    position: int
    size: int
    message: Message

    @property
    def end(self) -> int:
        return self.position + self.size


class Log:
    """A commitlog in memory; `write` makes its files."""

    def __init__(self, file_size: int = LOG_FILE, origin: int = 0) -> None:
        self.file_size = file_size
        self.origin = origin
        self.data = bytearray()
        self.places: list[Place] = []
        self.blanks: list[int] = []

    @property
    def end(self) -> int:
        return self.origin + len(self.data)

    @property
    def boundaries(self) -> list[int]:
        """Where something begins: records, BLANKs, files, the unwritten end."""
        return sorted({*(p.position for p in self.places), *self.blanks, self.end})

    def append(self, message: Message) -> Place:
        raw = encode(message, self.end)
        left = self.file_size - self.end % self.file_size
        if not fits(len(raw), left):
            self.blank()
            raw = encode(message, self.end)
            assert fits(len(raw), self.file_size), "a record larger than a file"
        place = Place(self.end, len(raw), message)
        self.data += raw
        self.places.append(place)
        return place

    def append_forged(
        self, topic: str, inner: Message, *, pad: int = 0, claim: int = 0, tail: int = 0
    ) -> Place:
        """Append a record whose body holds one that names its own position.

        Args:
            topic: of the true record.
            inner: the forged record.
            pad: bytes of body before it.
            claim: what to add to the size that the forged record states.
            tail: bytes of body after it.
        """
        for _ in range(2):
            forged = bytearray(encode(inner, self.end + BODY_AT + pad))
            size = int.from_bytes(forged[:4], "big") + claim
            forged[:4] = size.to_bytes(4, "big")
            message = Message(topic, body=bytes(pad) + bytes(forged) + bytes(tail))
            if fits(len(encode(message, self.end)), self.file_size - self.end % self.file_size):
                break
            self.blank()
        return self.append(message)

    def blank(self) -> None:
        """Fill the rest of the file."""
        self.blanks.append(self.end)
        self.data += encode_blank(self.file_size - self.end % self.file_size)

    def records(self) -> list[Record]:
        """Return what the slow reader makes of it."""
        found = []
        for place in self.places:
            file_end = (place.position // self.file_size + 1) * self.file_size
            at = place.position - self.origin
            raw = bytes(self.data[at : at + place.size])
            verdict, record = read(raw, 0, place.position, file_end)
            assert isinstance(record, Record), verdict
            found.append(record)
        return found

    def write(self, store: Path, *, ahead: int = 0, first: int = 0) -> Path:
        """Write the files; `ahead` empty ones after them, none before number `first`."""
        directory = store / names.COMMITLOG
        directory.mkdir(parents=True, exist_ok=True)
        count = -(-len(self.data) // self.file_size) + ahead
        for number in range(first, count):
            piece = bytes(self.data[number * self.file_size : (number + 1) * self.file_size])
            name = names.offset_file(self.origin + number * self.file_size)
            # Not made empty first where it is there: a reader that looks meanwhile sees whole files.
            descriptor = os.open(directory / name, os.O_RDWR | os.O_CREAT, 0o644)
            os.write(descriptor, piece.ljust(self.file_size, b"\0"))
            os.close(descriptor)
        return store


def fill(log: Log, seed: int, count: int, **traits: bool) -> Log:
    """Append random messages; see `Messages` for the traits."""
    maker = Messages(seed, **traits)
    for _ in range(count):
        log.append(maker.next())
    return log


class Messages:
    """Makes up messages; each trait adds a kind of them."""

    def __init__(
        self,
        seed: int,
        *,
        transactions: bool = True,
        delays: bool = True,
        out_of_turn: bool = False,
        multi: bool = False,
        batches: bool = False,
        wide: bool = True,
    ) -> None:
        self.random = random.Random(seed)
        self.transactions = transactions
        self.delays = delays
        self.out_of_turn = out_of_turn
        self.multi = multi
        self.batches = batches
        self.wide = wide
        self.now = 1_700_000_000_000
        self.next_offset: dict[tuple[str, int], int] = {}

    def next(self) -> Message:
        pick = self.random
        topic = pick.choice(["orders", "payments", "a", "stock-levels-of-all-shops", "订单"])
        properties = self._properties()
        if self.delays and pick.random() < 0.15:
            topic = "SCHEDULE_TOPIC_XXXX"
            properties["DELAY"] = pick.choice(["1", "3", "18", "40", "0", "+2", "-1", "٣"])
        if self.wide and pick.random() < 0.05:
            topic = "t" * 130
        if self.batches and pick.random() < 0.3:
            topic = "batches"
            if pick.random() < 0.8:
                properties |= {"INNER_NUM": str(pick.randint(1, 9)), "INNER_BASE": "0"}
        queue_id = pick.randrange(3)
        if self.multi and pick.random() < 0.4 and topic not in {"batches", "SCHEDULE_TOPIC_XXXX"}:
            self._add_multi(properties, queue_id)
        self.now += pick.randrange(3000)
        transaction = pick.choice([0, 0, 0, 0, COMMIT, PREPARED, ROLLBACK])
        wide = self.wide and pick.random() < 0.1
        sys_flag = transaction if self.transactions else 0
        return Message(
            topic=topic,
            body=pick.randbytes(pick.choice([0, 1, 20, 90])),
            properties=properties,
            queue_id=queue_id,
            queue_offset=self._offset(topic, queue_id, has_entry=sys_flag in {0, COMMIT}),
            store_timestamp=self.now,
            sys_flag=sys_flag,
            born_host="::1" if wide else "10.0.0.9",
            store_host="fe80::2" if wide and pick.random() < 0.5 else "10.0.0.1",
        )

    def _properties(self) -> dict[str, str]:
        pick = self.random
        found = {"WAIT": "true"}
        if pick.random() < 0.8:
            found["TAGS"] = pick.choice(
                ["TagA", "TagB", "标签", "x" * 70, "😀", "polygenelubricants"]
            )
        if pick.random() < 0.6:
            found["KEYS"] = pick.choice(["k1", "k1 k2", " k3  k3 ", "ключ 钥匙", "a" * 80, " "])
        if pick.random() < 0.6:
            found["UNIQ_KEY"] = f"{pick.getrandbits(128):032X}"
        return found

    def _add_multi(self, properties: dict[str, str], queue_id: int) -> None:
        queues = self.random.sample(["%LMQ%a", "%LMQ%b", "other"], self.random.randint(1, 3))
        ids = [0 if name.startswith("%LMQ%") else queue_id for name in queues]
        offsets = [self._offset(n, i, has_entry=True) for n, i in zip(queues, ids, strict=True)]
        properties["INNER_MULTI_DISPATCH"] = ",".join(queues)
        properties["INNER_MULTI_QUEUE_OFFSET"] = ",".join(map(str, offsets))

    def _offset(self, topic: str, queue_id: int, *, has_entry: bool) -> int:
        if not has_entry:
            return 0
        if (topic, queue_id) not in self.next_offset:
            # Some queues begin late: what came before has expired.
            self.next_offset[topic, queue_id] = self.random.choice([0, 0, 3, 8, 21])
        offset = self.next_offset[topic, queue_id]
        if self.out_of_turn and self.random.random() < 0.15:
            return max(0, offset + self.random.choice([-3, -1, 2, 5, -offset]))
        self.next_offset[topic, queue_id] = offset + 1
        return offset


def config_of(store: Path, output: Path, version: str = "5.5", **conf: str) -> StoreConfig:
    """Return the configuration of a store with small files."""
    return store_config(store, output, broker_version=version, broker_conf={**SMALL, **conf})


def name_batch_topics(store: Path, *topics: str) -> None:
    """Write a topics.json that makes these topics BatchCQ ones."""
    table = {topic: {"attributes": {"queue.type": "BatchCQ"}} for topic in topics}
    (store / names.CONFIG).mkdir(parents=True, exist_ok=True)
    path = store / names.CONFIG / "topics.json"
    path.write_text(json.dumps({"topicConfigTable": table}))


def files_of(output: Path) -> dict[str, bytes]:
    """Return what was dispatched: bytes by path; index files, named by a clock, by number."""
    found = {}
    for kind in (names.CONSUMEQUEUE, names.CONSUMEQUEUE_EXT, names.BATCH_CONSUMEQUEUE):
        for path in sorted((output / kind).rglob("*")):
            if path.is_file():
                found[str(path.relative_to(output))] = path.read_bytes()
    if (output / names.INDEX).is_dir():
        for number, path in enumerate(sorted((output / names.INDEX).iterdir())):
            found[f"index/{number}"] = path.read_bytes()
    return found
