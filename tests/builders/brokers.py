"""A stand-in for a broker: it writes a commitlog as one does, cuts it, and writes over the cut."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import BLANK_SIZE
from reput.formats.rocketmq.encode import Message
from tests.builders.slow_twins import SlowStore
from tests.builders.stores import LOG_FILE, Log, Messages

if TYPE_CHECKING:
    from pathlib import Path


class Broker:
    """Writes a commitlog as a broker does: over what stands there, files made ahead."""

    def __init__(self, store: Path, seed: int = 1, **traits: bool) -> None:
        self.store = store
        self.log = Log()
        self.messages = Messages(seed, **traits)
        self._write(0)

    def append(self, count: int = 1, *, now: int | None = None) -> int:
        """Append random messages; return where the log ends."""
        if now is not None:
            self.messages.now = now
        before = self.log.end
        for _ in range(count):
            self.log.append(self.messages.next())
        self._write(before)
        return self.log.end

    def put(self, message: Message) -> int:
        before = self.log.end
        self.log.append(message)
        self._write(before)
        return self.log.end

    def _write(self, start: int) -> None:
        directory = self.store / names.COMMITLOG
        directory.mkdir(parents=True, exist_ok=True)
        for base in range(start - start % LOG_FILE, self.log.end + 1, LOG_FILE):
            path = directory / names.offset_file(base)
            raw = bytearray(path.read_bytes() if path.exists() else bytes(LOG_FILE))
            at = max(start - base, 0)
            piece = self.log.data[base + at : base + LOG_FILE]
            raw[at : at + len(piece)] = piece
            # Not made empty first where it is there: a job that looks meanwhile sees whole files.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            os.write(descriptor, raw)
            os.close(descriptor)

    def recover(self, position: int) -> None:
        """Cut the log at a record, as a recovery does: later files go, later bytes stay."""
        log = self.log
        kept = [place for place in log.places if place.end <= position]
        log.places = kept
        log.data = log.data[:position]
        log.blanks = [blank for blank in log.blanks if blank < position]
        for path in sorted((self.store / names.COMMITLOG).iterdir())[1:]:
            if int(path.name) > position:
                path.unlink()
        # Queue offsets continue after what is left.
        queues = self.messages.next_offset
        for key in queues:
            queues[key] = max(
                (
                    place.message.queue_offset + 1
                    for place in kept
                    if (place.message.topic, place.message.queue_id) == key
                    and place.message.sys_flag in {0, 8}
                ),
                default=0,
            )

    def expected(self, settings) -> dict[str, bytes]:
        records = self.log.records()
        return SlowStore(settings, ["batches"]).dispatch(records).files(empty_count=1)


def queue(number: int, size: int = 50, **values) -> Message:
    """Return a message whose record has a size of its own."""
    return Message("t", body=bytes(size), queue_offset=number, **values)


def write_over(broker: Broker, kept: int, count: int, *, size: int, now: int) -> None:
    """Cut the log after that many records, and write others there."""
    broker.recover(broker.log.places[kept].position)
    for number in range(kept, kept + count):
        broker.put(queue(number, size, store_timestamp=now + number, properties={"TAGS": "new"}))


def make_hole(broker: Broker) -> tuple[int, int]:
    """Zero a record of the last file, two records before the log's end; return where it stood."""
    place = broker.log.places[-3]
    path, at = _in_file(broker, place.position)
    raw = path.read_bytes()
    path.write_bytes(raw[:at] + bytes(place.size) + raw[at + place.size :])
    return place.position, place.end


def put_with_hole(broker: Broker) -> tuple[int, int]:
    """Put 76 messages and zero the third last; return where that stood, in the last file."""
    for number in range(76):
        broker.put(queue(number, store_timestamp=1000 + number))
    return make_hole(broker)


def go_on_at_hole(broker: Broker, start: int, sizes: tuple[int, ...], *, now: int) -> None:
    """Recover a log with a hole as a broker does, which cuts it there, and put messages.

    Where one of them does not fit, the file ends with a BLANK; past it all is as it was.

    Args:
        broker: writes the log.
        start: physical offset of the hole.
        sizes: of the messages' bodies.
        now: store timestamp of the first, ms.
    """
    path, _ = _in_file(broker, start)
    before = path.read_bytes()
    broker.recover(start)
    blanks = len(broker.log.blanks)
    for number, size in enumerate(sizes, len(broker.log.places)):
        broker.put(queue(number, size, store_timestamp=now + number))
    for blank in broker.log.blanks[blanks:][:1]:
        _, at = _in_file(broker, blank)
        path.write_bytes(path.read_bytes()[: at + BLANK_SIZE] + before[at + BLANK_SIZE :])


def _in_file(broker: Broker, position: int) -> tuple[Path, int]:
    base = position - position % LOG_FILE
    return broker.store / names.COMMITLOG / names.offset_file(base), position - base
