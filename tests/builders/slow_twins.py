"""RocketMQ's dispatch in plain Python, by the words of STORE.md: what every output must equal.

Nothing of `sinks` or of a kernel is used here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.commitlog import Record

PRE_BLANK = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)
PREPARED, COMMIT, ROLLBACK = 4, 8, 12


def java_hash(text: str) -> int:
    state = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        state = (31 * state + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return state - (1 << 32) if state & 0x80000000 else state


def key_hash(text: str) -> int:
    value = abs(java_hash(text))
    return 0 if value == 1 << 31 else value


class SlowFiles:
    """Files of one size; `wrote` counts bytes of the last one."""

    def __init__(self, file_size: int) -> None:
        self.file_size = file_size
        self.files: dict[int, bytearray] = {}
        self.wrote = 0

    @property
    def last(self) -> int:
        return max(self.files)

    def add(self, base: int) -> None:
        self.files[base] = bytearray(self.file_size)
        self.wrote = 0

    def write(self, raw: bytes) -> None:
        self.files[self.last][self.wrote : self.wrote + len(raw)] = raw
        self.wrote += len(raw)


class SlowQueue(SlowFiles):
    """One consume queue, by the put algorithm of STORE.md section 3."""

    max_end = -1

    def put(self, queue_offset: int, offset: int, size: int, code: int) -> None:
        if offset + size <= self.max_end:
            return
        expected = queue_offset * 20
        if not self.files:
            self.add(expected - expected % self.file_size)
            if queue_offset != 0:
                self.write(PRE_BLANK * (expected % self.file_size // 20))
        elif self.wrote >= self.file_size:
            self.add(self.last + self.file_size)
        current = self.last + self.wrote
        if queue_offset != 0 and expected < current:
            return
        self.max_end = offset + size
        self.write(struct.pack(">qiq", offset, size, code))


class SlowExt(SlowFiles):
    """One extension: units, then -1 where the next does not fit before 4 spare bytes.

    Three files are tried for one.
    """

    def put(self, code: int, timestamp: int, bitmap: bytes = b"") -> int | None:
        raw = struct.pack(">hqqh", 20 + len(bitmap), code, timestamp, len(bitmap)) + bitmap
        if len(raw) > 32767:
            return None
        for _ in range(3):
            if not self.files:
                self.add(0)
            elif self.wrote == self.file_size:
                self.add(self.last + self.file_size)
            if len(raw) > self.file_size - self.wrote - 4:
                self.write(struct.pack(">h", -1))
                self.wrote = self.file_size
                continue
            at = self.last + self.wrote
            self.write(raw)
            return at - (1 << 63)
        return None


class SlowBatches(SlowFiles):
    """One batch consume queue."""

    last_offset = -1

    def put(self, record: Record, code: int) -> None:
        if record.physical_offset <= self.last_offset:
            return
        base, number = record.properties.get("INNER_BASE"), record.properties.get("INNER_NUM")
        has_batch = base is not None and number is not None
        first, count = (int(base), int(number)) if has_batch else (record.queue_offset, 1)
        if not self.files:
            self.add(0)
        elif self.wrote >= self.file_size:
            self.add(self.last + self.file_size)
        place = (record.physical_offset, record.size, code, record.store_timestamp)
        self.write(struct.pack(">qiqqqhii", *place, first, count, -1, 0))
        self.last_offset = record.physical_offset


class SlowIndexFile:
    """One index file, by the steps of STORE.md section 4."""

    def __init__(self, slots: int, items: int, before: SlowIndexFile | None) -> None:
        self.slots = [0] * slots
        self.items = [(0, 0, 0, 0)] * items
        self.begin_time = self.end_time = max(before.end_time, 0) if before else 0
        self.begin_offset = self.end_offset = max(before.end_offset, 0) if before else 0
        self.used = 0
        self.count = 1

    @property
    def is_full(self) -> bool:
        return self.count >= len(self.items)

    def put(self, hashed: int, offset: int, timestamp: int) -> None:
        slot = hashed % len(self.slots)
        previous = self.slots[slot]
        seconds = 0
        if self.begin_time > 0:
            seconds = min(max(int((timestamp - self.begin_time) / 1000), 0), 0x7FFFFFFF)
        self.items[self.count] = (hashed, offset, seconds, previous)
        self.slots[slot] = self.count
        if self.count <= 1:
            self.begin_offset, self.begin_time = offset, timestamp
        self.used += previous == 0
        self.count += 1
        self.end_offset, self.end_time = offset, timestamp

    def bytes(self, empty_count: int) -> bytes:
        count = empty_count if self.count == 1 else self.count
        times = (self.begin_time, self.end_time, self.begin_offset, self.end_offset)
        return (
            struct.pack(">qqqqii", *times, self.used, count)
            + b"".join(struct.pack(">i", slot) for slot in self.slots)
            + b"".join(struct.pack(">iqii", *item) for item in self.items)
        )


class SlowIndex:
    """All index files of a store."""

    def __init__(self, slots: int, items: int) -> None:
        self.sizes = (slots, items)
        self.files: list[SlowIndexFile] = []

    def room(self) -> SlowIndexFile:
        if not self.files or self.files[-1].is_full:
            self.files.append(SlowIndexFile(*self.sizes, self.files[-1] if self.files else None))
        return self.files[-1]

    def put(self, record: Record, *, tag_entries: bool) -> None:
        self.room()
        if record.sys_flag & 12 == ROLLBACK:
            return
        topic, properties = record.topic, record.properties
        keys = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
        keys += [key for key in properties.get("KEYS", "").split(" ") if key]
        if tag_entries and properties.get("TAGS"):
            keys.append(f"T#{properties['TAGS']}")
        for key in keys:
            hashed = key_hash(f"{topic}#{key}")
            self.room().put(hashed, record.physical_offset, record.store_timestamp)


class SlowStore:
    """All that a broker derives from its log."""

    def __init__(self, settings: BrokerSettings, batch_topics: Collection[str] = ()) -> None:
        self.settings = settings
        self.batch_topics = batch_topics
        self.queues: dict[tuple[str, int], SlowQueue] = {}
        self.exts: dict[tuple[str, int], SlowExt] = {}
        self.batches: dict[tuple[str, int], SlowBatches] = {}
        self.index = SlowIndex(settings.index_slots, settings.index_items)

    def dispatch(self, records: Sequence[Record]) -> SlowStore:
        for record in records:
            if record.sys_flag & 12 in {0, COMMIT}:
                self.put(record)
            if self.settings.writes_index:
                self.index.put(record, tag_entries=self.settings.version.indexes_tags)
        return self

    def queue(self, topic: str, queue_id: int) -> SlowQueue:
        size = self.settings.consumequeue_file_size
        return self.queues.setdefault((topic, queue_id), SlowQueue(size))

    def put(self, record: Record) -> None:
        settings = self.settings
        place = (record.topic, record.queue_id)
        code = tags_code(record, settings.delays)
        if record.topic in self.batch_topics:
            queue = self.batches.setdefault(place, SlowBatches(settings.batch_file_size))
            queue.put(record, code)
            return
        held: int | None = None
        if settings.writes_ext:
            ext = self.exts.setdefault(place, SlowExt(settings.ext_file_size))
            held = ext.put(code, record.store_timestamp)
        held = code if held is None else held
        entry = (record.physical_offset, record.size)
        self.queue(*place).put(record.queue_offset, *entry, held)
        never = (
            ()
            if settings.version.family == "4.9"
            else ("%RETRY%", "rmq_sys_", "SCHEDULE_TOPIC_XXXX")
        )
        if not settings.multi_dispatch or record.topic.startswith(never):
            return
        names = record.properties.get("INNER_MULTI_DISPATCH", "")
        offsets = record.properties.get("INNER_MULTI_QUEUE_OFFSET", "")
        if names and offsets and names.count(",") == offsets.count(","):
            for name, offset in zip(names.split(","), offsets.split(","), strict=True):
                queue_id = 0 if settings.lmq and name.startswith("%LMQ%") else record.queue_id
                self.queue(name, queue_id).put(int(offset), *entry, code)

    def files(self, *, empty_count: int = 1) -> dict[str, bytes]:
        """Return bytes by path, as `tests.builders.stores.files_of` does."""
        found = {}
        kinds = (
            ("consumequeue", self.queues),
            ("consumequeue_ext", self.exts),
            ("batchconsumequeue", self.batches),
        )
        for kind, queues in kinds:
            for (topic, queue_id), queue in queues.items():
                for base, raw in queue.files.items():
                    found[f"{kind}/{topic}/{queue_id}/{base:020d}"] = bytes(raw)
        for number, file in enumerate(self.index.files):
            found[f"index/{number}"] = file.bytes(empty_count)
        return found


def tags_code(record: Record, delays: Sequence[int]) -> int:
    level = record.properties.get("DELAY")
    if record.topic == "SCHEDULE_TOPIC_XXXX" and level is not None:
        at = min(int(level), len(delays))
        if at > 0:
            return record.store_timestamp + delays[at - 1]
    tags = record.properties.get("TAGS")
    return java_hash(tags) if tags else 0


def differences(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    """Return what differs, a line a file: a diff of bytes would be no use to anybody."""
    lines = [f"missing {name}" for name in expected.keys() - found.keys()]
    lines += [f"too many {name}" for name in found.keys() - expected.keys()]
    for name in expected.keys() & found.keys():
        a, b = found[name], expected[name]
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), -1)
            lines.append(
                f"{name}: {len(a)} bytes for {len(b)}, at {at} {a[at : at + 24].hex()} "
                f"for {b[at : at + 24].hex()}"
            )
    return sorted(lines)
