"""A log that grows, and when the entries of its records could be seen."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import sys
import time
from typing import TYPE_CHECKING

from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import BORN_HOST, HOST_V4, PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE
from reput.formats.rocketmq.encode import Message, encode, encode_blank

if TYPE_CHECKING:
    import subprocess
    import threading
    from pathlib import Path

FILE_SIZE = 1 << 30
# One file of the queue has to do.
ENTRIES = 2_000_000
CONF = f"mappedFileSizeConsumeQueue={ENTRIES * ENTRY_SIZE}\n"
_STORE_TIMESTAMP_AT = BORN_HOST + HOST_V4
_LOOK_SECONDS = 0.0005
_PROPERTIES = {
    "KEYS": "order-0123456789abcdef",
    "UNIQ_KEY": "7F000001AC1018B4000000000000ABCD",
    "TAGS": "paid",
}


class LiveStore:
    """A log of one queue that grows, and a look at the queue that is made of it."""

    def __init__(self, directory: Path, body: int = 100, entries: int = ENTRIES) -> None:
        self.store = directory / "store"
        self.output = directory / "output"
        self.conf = directory / "broker.conf"
        self.conf.write_text(f"mappedFileSizeConsumeQueue={entries * ENTRY_SIZE}\n")
        log = self.store / "commitlog"
        log.mkdir(parents=True)
        self._file = os.open(log / names.offset_file(0), os.O_RDWR | os.O_CREAT)
        os.ftruncate(self._file, FILE_SIZE)
        self._record = bytearray(encode(Message("latency", os.urandom(body), _PROPERTIES), 0))
        self.end = 0
        self.times: list[float] = []

    def append(self) -> None:
        """Append a record."""
        raw = self._next()
        os.pwrite(self._file, raw, self.end % FILE_SIZE)
        self.end += len(raw)

    def _next(self) -> bytes:
        """Return the next record, as appended now."""
        now = time.time()
        struct.pack_into(">q", self._record, QUEUE_OFFSET_AT, len(self.times))
        struct.pack_into(">q", self._record, PHYSICAL_OFFSET_AT, self.end)
        struct.pack_into(">q", self._record, _STORE_TIMESTAMP_AT, int(now * 1000))
        self.times.append(time.monotonic())
        return bytes(self._record)

    def _roll(self, left: int) -> None:
        """End the file with a BLANK, and begin the next one."""
        os.pwrite(self._file, encode_blank(left), self.end % FILE_SIZE)
        os.close(self._file)
        self.end += left
        path = self.store / "commitlog" / names.offset_file(self.end)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.ftruncate(self._file, FILE_SIZE)

    def append_bytes(self, size: int) -> None:
        """Append records of this many bytes in all, into as many files as they need."""
        room = 1 << 20
        while size > 0:
            left = FILE_SIZE - self.end % FILE_SIZE
            if left < room:
                self._roll(left)
            piece = []
            while size > 0 and sum(map(len, piece[:1])) * len(piece) < room // 2:
                piece.append(self._next())
                size -= len(piece[-1])
                self.end += len(piece[-1])
            raw = b"".join(piece)
            os.pwrite(self._file, raw, (self.end - len(raw)) % FILE_SIZE)

    def append_at(self, rate: int, seconds: float) -> None:
        """Append at a rate, a millisecond's records at once."""
        began = time.monotonic()
        count = 0
        while (passed := time.monotonic() - began) < seconds:
            while count < passed * rate:
                self.append()
                count += 1
            time.sleep(0.001)

    @property
    def queue_file(self) -> Path:
        return self.output / "consumequeue" / "latency" / "0" / names.offset_file(0)

    def command(self, *options: str) -> list[str]:
        own = ["--store", self.store, "--output", self.output, "--broker-conf", self.conf]
        return [sys.executable, "-m", "reput", "run", *map(str, own), *options]


def wait_for_entry(path: Path, process: subprocess.Popen[bytes], place: int = 0) -> None:
    """Wait until an entry of a queue's first file is there, by its number; the first one."""
    at = place * ENTRY_SIZE
    while True:
        # Asked first: it may end right after the entry was put.
        has_ended = process.poll() is not None
        if path.exists() and path.stat().st_size > at:
            with path.open("rb") as file:
                file.seek(at)
                if any(file.read(ENTRY_SIZE)[8:12]):
                    return
        if has_ended:
            raise RuntimeError(f"the job ended with {process.returncode}")
        time.sleep(0.005)


def wait_for_all(store: LiveStore, process: subprocess.Popen[bytes]) -> None:
    """Wait until all that a store has is dispatched."""
    wait_for_entry(store.queue_file, process, len(store.times) - 1)


def look(path: Path, seen: list[float], wanted: threading.Event) -> None:
    """Note when each entry of a queue could be seen, until told to end."""
    look_at_all([path], [seen], wanted)


def look_at_all(paths: list[Path], seen: list[list[float]], wanted: threading.Event) -> None:
    """Note when each entry of some queues could be seen, until told to end."""
    with contextlib.ExitStack() as stack:
        maps = []
        for path in paths:
            file = stack.enter_context(path.open("rb"))
            maps.append(stack.enter_context(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)))
        places = [len(each) * ENTRY_SIZE for each in seen]
        while not wanted.is_set():
            now = time.monotonic()
            for number, data in enumerate(maps):
                at = places[number]
                # The size is stored last.
                while data[at + 8 : at + 12] != b"\0\0\0\0":
                    seen[number].append(now)
                    at += ENTRY_SIZE
                places[number] = at
            time.sleep(_LOOK_SECONDS)
