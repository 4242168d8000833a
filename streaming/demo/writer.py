"""Appends realistic records to a commitlog at a rate: the demonstration's stand-in for a broker.

Run as a process of its own: `python -m reput.streaming.demo.writer DIRECTORY RATE SECONDS
FILE_SIZE`. It prints the last key that it wrote and how many records, as JSON.
"""

from __future__ import annotations

import json
import mmap
import random
import sys
import time
from pathlib import Path

from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message, encode, encode_blank, fits

_TOPICS = {
    "orders": ("created", "paid", "shipped", "cancelled"),
    "payments": ("authorised", "captured", "refunded"),
    "stock-levels": ("changed",),
    "customer-events": ("login", "search", "view"),
}
_QUEUES = 4
_CITIES = ("Lisboa", "København", "Zürich", "東京", "São Paulo", "Kraków")


class Writer:
    """A commitlog that grows: files of one size, written through memory as a broker does."""

    def __init__(self, directory: Path, file_size: int, seed: int = 1) -> None:
        """Begin an empty log in `directory`."""
        self.directory = directory
        self.file_size = file_size
        self.position = 0
        self.records = 0
        self.last_key = ("", "")
        self._random = random.Random(seed)
        self._offsets: dict[tuple[str, int], int] = {}
        self._files: list[mmap.mmap] = []
        directory.mkdir(parents=True, exist_ok=True)
        self._file = self._make_file(0)

    def _make_file(self, base: int) -> mmap.mmap:
        path = self.directory / names.offset_file(base)
        with path.open("w+b") as file:
            file.truncate(self.file_size)
            return mmap.mmap(file.fileno(), self.file_size)

    def append(self, message: Message) -> None:
        """Append a record, in the next file if it does not fit into this one."""
        raw = encode(message, self.position)
        left = self.file_size - self.position % self.file_size
        if not fits(len(raw), left):
            self._put(encode_blank(left))
            self._file = self._make_file(self.position)
            raw = encode(message, self.position)
        self._put(raw)
        self.records += 1

    def _put(self, raw: bytes) -> None:
        at = self.position % self.file_size
        self._file[at : at + len(raw)] = raw
        self.position += len(raw)

    def next_message(self) -> Message:
        """Make up the next message."""
        topic = self._random.choice(list(_TOPICS))
        queue_id = self._random.randrange(_QUEUES)
        offset = self._offsets.get((topic, queue_id), 0)
        self._offsets[topic, queue_id] = offset + 1
        key = f"{topic[:3].upper()}{self.records:08d}"
        self.last_key = (topic, key)
        now = time.time_ns() // 1_000_000
        body = {
            "id": key,
            "city": self._random.choice(_CITIES),
            "amount": round(self._random.expovariate(0.02), 2),
            "note": "x" * self._random.randrange(120),
        }
        return Message(
            topic=topic,
            body=json.dumps(body, ensure_ascii=False).encode(),
            properties={
                "KEYS": f"{key} user-{self._random.randrange(500)}",
                "UNIQ_KEY": f"7F0000010539{self._random.getrandbits(64):016X}{self.records:04X}"[
                    :32
                ],
                "WAIT": "true",
                "TAGS": self._random.choice(_TOPICS[topic]),
            },
            queue_id=queue_id,
            queue_offset=offset,
            store_timestamp=now,
            born_timestamp=now - self._random.randrange(5),
        )


def main() -> None:
    """Write until the time is over."""
    directory, rate, seconds, file_size = sys.argv[1:]
    writer = Writer(Path(directory), int(file_size))
    began = time.monotonic()
    end = began + float(seconds)
    while (now := time.monotonic()) < end:
        due = int((now - began) * float(rate))
        for _ in range(due - writer.records):
            writer.append(writer.next_message())
        time.sleep(0.002)
    topic, key = writer.last_key
    print(json.dumps({"records": writer.records, "topic": topic, "key": key}))


if __name__ == "__main__":
    main()
