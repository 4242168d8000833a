"""How the number of queues counts: rate, restart, flush, maps, memory and disk; without Spark.

    python benchmarks/queues.py --queues 1,72,600,10000 --messages 2000000 --runs 3 [--json]

For each number of queues a log is made, its records (~285 bytes, three index items each) spread
over the queues at random. A run takes each log in turn, in a process of its own: dispatch nine
tenths, flush, close; open again and dispatch a twentieth, which opens every queue, and be killed
before that is recorded; open once more, which rolls it back, and dispatch the rest. Every output
of a log must be the same, byte for byte. The log is read once before each run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from reput.formats.rocketmq.commitlog import PHYSICAL_OFFSET_AT, QUEUE_ID_AT, QUEUE_OFFSET_AT  # noqa: E402
from reput.formats.rocketmq.encode import Message, encode, encode_blank, fits  # noqa: E402
from reput.streaming.dispatch.dispatcher import StoreDispatcher  # noqa: E402
from reput.streaming.dispatch.warm import load_kernels  # noqa: E402
from reput.streaming.settings.config import FlushPolicy, store_config  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG_FILE = 256 << 20
QUEUES_A_TOPIC = 8
# Bodies of this many lengths for each topic: records of one length flatter a processor.
LENGTHS = 16
PARTS = (0.45, 0.9, 0.95, 1.0)
KEY = b"0123456789ABCDEF"
CONF = {"mappedFileSizeCommitLog": str(LOG_FILE)}
# Nothing is flushed but by hand, to be timed apart.
POLICY = FlushPolicy(seconds=1e9, thorough_seconds=1e9)
MIB = 1 << 20


def templates(topic: int, pick: random.Random) -> list[tuple[bytearray, list[int]]]:
    """Return records of a topic, and where their two keys stand."""
    made = []
    for _ in range(LENGTHS):
        message = Message(
            f"topic-{topic:05d}",
            pick.randbytes(pick.randint(40, 140)),
            {
                "KEYS": f"K{KEY.decode()}",
                "UNIQ_KEY": f"7F000001AC1018B4{KEY.decode()}",
                "WAIT": "true",
                "TAGS": pick.choice(["created", "paid", "shipped", "refunded"]),
            },
        )
        raw = bytearray(encode(message, 0))
        first = raw.index(KEY)
        made.append((raw, [first, raw.index(KEY, first + 1)]))
    return made


def write_log(directory: Path, queues: int, messages: int) -> list[int]:
    """Write a log and return where the parts of it end."""
    directory.mkdir(parents=True)
    pick = random.Random(queues)
    topics = [templates(topic, pick) for topic in range(-(-queues // QUEUES_A_TOPIC))]
    offsets = [0] * queues
    marks = {int(messages * part) for part in PARTS}
    ends = []
    base, at = 0, 0
    file = bytearray(LOG_FILE)
    for number in range(messages):
        queue = int(pick.random() * queues)
        topic, queue_id = divmod(queue, QUEUES_A_TOPIC)
        raw, keys = topics[topic][number % LENGTHS]
        if not fits(len(raw), LOG_FILE - at):
            file[at:] = encode_blank(LOG_FILE - at)
            (directory / f"{base:020d}").write_bytes(file)
            base, at, file = base + LOG_FILE, 0, bytearray(LOG_FILE)
        file[at : at + len(raw)] = raw
        struct.pack_into(">i", file, at + QUEUE_ID_AT, queue_id)
        struct.pack_into(">q", file, at + QUEUE_OFFSET_AT, offsets[queue])
        struct.pack_into(">q", file, at + PHYSICAL_OFFSET_AT, base + at)
        key = b"%016X" % number
        for place in keys:
            file[at + place : at + place + len(key)] = key
        offsets[queue] += 1
        at += len(raw)
        if number + 1 in marks:
            ends.append(base + at)
    (directory / f"{base:020d}").write_bytes(file)
    return ends


def process_figures() -> dict[str, float]:
    """Return what this process holds."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "maps": len(Path("/proc/self/maps").read_text().splitlines()),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "anonymous_mib": int(status["RssAnon"].split()[0]) / 1024,
        "page_tables_mib": int(status["VmPTE"].split()[0]) / 1024,
    }


@contextlib.contextmanager
def timed(figures: dict[str, float], name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    figures[name] = time.monotonic() - began


def open_output(store: Path) -> StoreDispatcher:
    config = store_config(store, store.parent / "output", broker_conf=CONF)
    return StoreDispatcher(config, flush=POLICY)


def dispatch_most(store: Path, ends: list[int]) -> dict[str, float]:
    """Dispatch nine tenths, from nothing, and end in order."""
    figures: dict[str, float] = {}
    dispatcher = open_output(store)
    for end, name in zip(ends[:2], ("first", "second"), strict=True):
        batch = dispatcher.dispatch(end)
        figures[f"{name}_rate"] = batch.messages / batch.seconds
        figures[f"{name}_seconds"] = batch.seconds
    messages = dispatcher.progress.messages
    figures["rate"] = messages / (figures.pop("first_seconds") + figures.pop("second_seconds"))
    figures |= process_figures()
    with timed(figures, "flush_seconds"):
        dispatcher.flush()
    with timed(figures, "flush_again_seconds"):
        dispatcher.parts.output.entries.flush()
    with timed(figures, "positions_seconds"):
        dispatcher.parts.output.entries.positions()
    blocks = sum(
        (Path(directory) / name).stat().st_blocks
        for directory, _, names in os.walk(store.parent / "output" / "consumequeue")
        for name in names
    )
    figures["disk_mib"] = blocks * 512 / MIB
    with timed(figures, "close_seconds"):
        dispatcher.close()
    return figures


def restart_and_die(store: Path, ends: list[int]) -> dict[str, float]:
    """Open what was ended in order, dispatch some, and be killed after that."""
    figures: dict[str, float] = {}
    with timed(figures, "open_clean_seconds"):
        dispatcher = open_output(store)
    with timed(figures, "first_batch_clean_seconds"):
        dispatcher.dispatch(ends[2])
    return figures


def restart_killed(store: Path, ends: list[int]) -> dict[str, float]:
    """Open what a killed writer has left, and dispatch the rest."""
    figures: dict[str, float] = {}
    with timed(figures, "open_killed_seconds"):
        dispatcher = open_output(store)
    with timed(figures, "first_batch_killed_seconds"):
        dispatcher.dispatch(ends[3])
    dispatcher.close()
    return figures


PHASES = {
    function.__name__: function for function in (dispatch_most, restart_and_die, restart_killed)
}


def run_phase(name: str, store: Path, ends: list[int]) -> None:
    """Be the process of one phase: kernels loaded first, an end without a word."""
    load_kernels()
    print(json.dumps(PHASES[name](store, ends)), flush=True)
    os._exit(0)


def fingerprint(output: Path) -> int:
    """Return a CRC over the queues and the index; names of index files are the time."""
    crc = 0
    for kind in ("consumequeue", "index"):
        for path in sorted((output / kind).rglob("*")):
            if path.is_file():
                name = "" if kind == "index" else str(path.relative_to(output))
                crc = zlib.crc32(path.read_bytes().rstrip(b"\0"), zlib.crc32(name.encode(), crc))
    return crc


def run(work: Path, queues: int, ends: list[int]) -> dict[str, float]:
    """Take one log through all phases."""
    store = work / str(queues) / "store"
    for path in sorted((store / "commitlog").iterdir()):
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass
    figures: dict[str, Any] = {}
    for name in PHASES:
        command = [sys.executable, __file__, "--phase", name, "--store", store]
        command += ["--ends", ",".join(map(str, ends))]
        done = subprocess.run(map(str, command), capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        figures |= json.loads(done.stdout)
    output = store.parent / "output"
    figures["fingerprint"] = fingerprint(output)
    shutil.rmtree(output)
    # Its blocks are given back now, not while the next one is timed.
    os.sync()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queues", default="1,72,600,10000")
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=Path, help="where logs are made and, if given, kept")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--phase", choices=PHASES, help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ends", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.phase:
        run_phase(arguments.phase, arguments.store, [int(e) for e in arguments.ends.split(",")])
    counts = [int(count) for count in arguments.queues.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        ends = {queues: ends_of(work, queues, arguments.messages) for queues in counts}
        runs: dict[int, list[dict[str, float]]] = {queues: [] for queues in counts}
        for _ in range(arguments.runs):
            for queues in counts:
                runs[queues].append(run(work, queues, ends[queues]))
    report(runs, as_json=arguments.json)


def ends_of(work: Path, queues: int, messages: int) -> list[int]:
    """Return where the parts of a log end, which is made unless it is there."""
    store = work / str(queues) / "store"
    known = work / str(queues) / "ends.json"
    if not known.exists():
        ends = write_log(store / "commitlog", queues, messages)
        known.write_text(json.dumps(ends))
    return json.loads(known.read_text())


def report(runs: dict[int, list[dict[str, float]]], *, as_json: bool) -> None:
    for queues, figures in runs.items():
        if len({run["fingerprint"] for run in figures}) != 1:
            raise SystemExit(f"outputs of {queues} queues differ")
    if as_json:
        print(json.dumps({"load": os.getloadavg()[0], "runs": runs}))
        return
    print(f"load average {os.getloadavg()[0]:.2f}; medians of {len(next(iter(runs.values())))}")
    names = [name for name in next(iter(runs.values()))[0] if name != "fingerprint"]
    medians = {
        queues: {name: statistics.median(run[name] for run in figures) for name in names}
        for queues, figures in runs.items()
    }
    first = next(iter(medians))
    print(f"{'queues':28}" + "".join(f"{queues:>14,}" for queues in medians))
    for name in names:
        values = [medians[queues][name] for queues in medians]
        places = 3 if name.endswith("seconds") else 0
        print(f"{name:28}" + "".join(f"{value:14,.{places}f}" for value in values))
        if name.endswith("rate"):
            ratios = [value / medians[first][name] for value in values]
            print(f"{f'  to that of {first}':28}" + "".join(f"{r:14.2f}" for r in ratios))


if __name__ == "__main__":
    main()
