"""What a message costs stage by stage, and how far each stage is from what the machine can do.

    python -m benchmarks.stages --gib 1 [--body 90] [--runs 5] [--directory DIR] [--json FILE]

Each stage is taken alone, on one core, on the same messages; of several runs the best counts, for
what disturbs a run only ever makes it longer. Beside it stands what the machine needs for the least
that the stage has to do: to copy the bytes, to touch one slot at random for each index entry, to
write the entries' bytes. Pages are those of new files, which cost most where a machine touches its
memory for the first time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.logs import write_log  # noqa: E402
from reput.formats.kernels import consumequeue  # noqa: E402
from reput.formats.kernels import indexfile as indexfile_kernels  # noqa: E402
from reput.formats.kernels.compiled import kernel  # noqa: E402
from reput.formats.kernels.indexfile import State  # noqa: E402
from reput.formats.kernels.scan import Columns  # noqa: E402
from reput.formats.rocketmq import indexfile  # noqa: E402
from reput.formats.rocketmq.commitlog import CHECK_BODY_CRC  # noqa: E402
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE  # noqa: E402
from reput.formats.rocketmq.indexfile import HEADER_SIZE, ITEM_SIZE, SLOT_SIZE  # noqa: E402
from reput.sinks.files.mapped_file import MappedFile  # noqa: E402
from reput.sinks.files.queues import QueueDirectory  # noqa: E402
from reput.stores.log.commitlog import CommitLog, commitlog_directories  # noqa: E402
from reput.stores.log.tail import find_tail  # noqa: E402
from reput.streaming.dispatch.blocks.pipeline import BLOCK_SIZE, Pipeline  # noqa: E402
from reput.streaming.settings.config import store_config  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

_PAGES_FILE = 256 << 20


@kernel
def _touch(slots, places):
    """Write one slot a place: the least that chaining an item has to do."""
    for i in range(len(places)):
        slots[places[i]] = i


def _copied(columns: Columns, count: int) -> Columns:
    *by_record, keys = columns
    return Columns(
        *(c[:count].copy() for c in by_record), keys[: columns.key_end[count - 1]].copy()
    )


class Stages:
    """A log's messages, and each stage of their way."""

    def __init__(self, store: Path, work: Path, runs: int) -> None:
        self.work, self.runs = work, runs
        config = store_config(store, work / "none")
        self.settings = config.settings
        self.log = CommitLog(commitlog_directories(store, self.settings), self.settings)
        self.queues = QueueDirectory(lambda _: False)
        self.end = find_tail(self.log).end
        self.blocks = [
            (block.count, _copied(block.columns, block.count))
            for block in Pipeline(self.log, self.queues, self.settings, 1).blocks(0, self.end)
        ]
        self.messages = sum(count for count, _ in self.blocks)
        self.keys = sum(int(columns.key_end[count - 1]) for count, columns in self.blocks)

    def best(self, stage: Callable[[], float]) -> float:
        """Return the nanoseconds a message of the best run; a run returns its seconds."""
        # Kernels are compiled, or loaded, by the first call.
        stage()
        return min(stage() for _ in range(self.runs)) / self.messages * 1e9

    def read(self) -> float:
        buffer = bytearray(BLOCK_SIZE)
        began = time.perf_counter()
        for at in range(0, self.end, BLOCK_SIZE):
            self.log.read_into(memoryview(buffer)[: self.end - at], at)
        return time.perf_counter() - began

    def copy(self) -> float:
        """Copy as many bytes, from memory that is in no cache."""
        source = np.ones(self.end, np.uint8)
        target = np.ones(BLOCK_SIZE, np.uint8)
        began = time.perf_counter()
        for at in range(0, self.end, BLOCK_SIZE):
            piece = source[at : at + BLOCK_SIZE]
            target[: len(piece)] = piece
        return time.perf_counter() - began

    def parse(self, *, checks_body: bool = True) -> float:
        """Read and parse, by one thread."""
        rules = self.log.rules
        if not checks_body:
            self.log.rules = rules & ~CHECK_BODY_CRC
        pipeline = Pipeline(self.log, self.queues, self.settings, 1)
        began = time.perf_counter()
        for _ in pipeline.blocks(0, self.end):
            pass
        seconds = time.perf_counter() - began
        pipeline.close()
        self.log.rules = rules
        return seconds

    def index(self) -> float:
        """Chain all keys, in memory that has its pages."""
        slots, items = self.settings.index_slots, self.keys + 2
        file = np.ones(indexfile.file_size(slots, items), np.uint8)
        file[HEADER_SIZE : HEADER_SIZE + slots * SLOT_SIZE] = 0
        state = np.zeros(State.FIELDS, np.int64)
        state[State.COUNT] = indexfile.FIRST_ITEM
        began = time.perf_counter()
        for count, columns in self.blocks:
            indexfile_kernels.insert(
                0, 0, count, columns.key_end, columns.key_hash, columns.physical_offset,
                columns.store_timestamp, columns.sys_flag, file, slots, items, state,
            )  # fmt: skip
        return time.perf_counter() - began

    def touch(self) -> float:
        """Touch a slot for each key, in their order, and write the items' bytes in a row."""
        slots = np.ones(self.settings.index_slots, np.int32)
        items = np.ones(self.keys * ITEM_SIZE, np.uint8)
        places = [
            columns.key_hash[: columns.key_end[count - 1]] % len(slots)
            for count, columns in self.blocks
        ]
        began = time.perf_counter()
        for each in places:
            _touch(slots, each)
        items[:] = 7
        return time.perf_counter() - began

    def put(self) -> float:
        """Put all entries, into memory that has its pages."""
        queues, most = len(self.queues.names), 0
        for count, columns in self.blocks:
            most = max(most, int(columns.queue_offset[:count].max()) + 1)
        memory = np.ones((queues, most * ENTRY_SIZE), np.uint8)
        first = memory.ctypes.data
        addresses = first + np.arange(queues, dtype=np.int64) * most * ENTRY_SIZE
        next_entry, last_end = np.zeros(queues, np.int64), np.full(queues, -1, np.int64)
        window_end = np.full(queues, most, np.int64)
        began = time.perf_counter()
        for count, c in self.blocks:
            done = consumequeue.put(
                0, count, c.queue, c.queue_offset, c.physical_offset, c.size, c.tags_code,
                c.sys_flag, c.special, next_entry, last_end, addresses, window_end,
            )  # fmt: skip
            assert done == count
        return time.perf_counter() - began

    def store_entries(self) -> float:
        """Write as many bytes in a row."""
        entries = np.ones(self.messages * ENTRY_SIZE, np.uint8)
        began = time.perf_counter()
        entries[:] = 7
        return time.perf_counter() - began

    @property
    def entry_bytes(self) -> int:
        """Return the bytes of queue and index entries of all messages."""
        return self.messages * ENTRY_SIZE + self.keys * ITEM_SIZE

    def pages(self) -> tuple[float, float, float]:
        """Return what new pages cost, to write on them, and to have them on disk: ns a message."""
        (self.work / "staging").mkdir(exist_ok=True)
        best = [float("inf")] * 3
        for number in range(self.runs):
            path = self.work / f"pages-{number}"
            file = MappedFile.create(path, _PAGES_FILE, self.work / "staging")
            times = [time.perf_counter()]
            file.prepare(_PAGES_FILE)
            times.append(time.perf_counter())
            file.data[:] = 7
            times.append(time.perf_counter())
            file.begin_flush()
            file.flush()
            times.append(time.perf_counter())
            file.close()
            spent = np.diff(times) * 1e9 * self.entry_bytes / self.messages / _PAGES_FILE
            best = [min(a, float(b)) for a, b in zip(best, spent, strict=True)]
        return best[0], best[1], best[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--body", type=int, default=90)
    parser.add_argument("--queues", type=int, default=128)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=ROOT / "work" / "bench")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    store = arguments.directory / f"{arguments.gib:g}gib-{arguments.body}b-{arguments.queues}q"
    if not store.is_dir():
        size = int(arguments.gib * (1 << 30))
        write_log(store / "commitlog", size, arguments.body, arguments.queues)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as work:
        stages = Stages(store, Path(work), arguments.runs)
        read, copied = stages.best(stages.read), stages.best(stages.copy)
        parsed = stages.best(stages.parse)
        unchecked = stages.best(lambda: stages.parse(checks_body=False))
        pages, written, synced = stages.pages()
        rows = [
            ("read the log", read, copied, "copy the bytes"),
            ("parse", unchecked - read, None, ""),
            ("check bodies", parsed - unchecked, None, ""),
            ("index", stages.best(stages.index), stages.best(stages.touch), "touch its slots"),
            ("queues", stages.best(stages.put), stages.best(stages.store_entries), "write entries"),
            ("new pages", pages, written, "write on them again"),
            ("to disk", synced, None, ""),
        ]
    print(f"{stages.messages:,} messages of {stages.end // stages.messages} bytes, "
          f"{stages.keys / stages.messages:.2f} keys each; load average {os.getloadavg()[0]:.2f}; "
          f"ns a message, best of {arguments.runs}")  # fmt: skip
    for name, took, least, what in rows:
        least_text = f"{least:7.1f} to {what}" if least is not None else ""
        print(f"{name:14} {took:7.1f}   {least_text}")
    if arguments.json:
        found = {name: {"ns": took, "least_ns": least} for name, took, least, _ in rows}
        arguments.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
