"""Looks keys and ids up beside the broker's own classes: 20 million items, and 16 files.

    python benchmarks/query.py [--files 16] [--scale 1] [--runs 5] [--as-it-is] [--directory DIR]

Two stores: one index file of RocketMQ's standard size, full (5 million slots, 20 million items),
and `--files` of a tenth of it. Each has a real commitlog with the messages that are asked for; the
other items are of other keys. RocketMQ 5.3.3's `IndexService#queryOffset` and
`DefaultMessageStore#queryMessage`, and `MessageStore`, are asked for the same keys by processes of
their own: cold, each key once, with the files' pages dropped before; warm, ten times after ten
times that are not timed.
`decoded` looks at each message as well: the broker's classes and ours hand out bytes. `many` is one
call for 256 keys, divided by 256, beside the broker's call for one.

Before cold ones most of the machine's free memory is touched, so that a virtual machine has it;
with `--as-it-is` it is not. Medians of the runs with least and most, ratios of the two sides of one
run, as a table and as one JSON document; times in microseconds, the shell's in milliseconds.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "oracle")]

import oracle  # noqa: E402

from reput.formats.kernels.indexfile import State, insert  # noqa: E402
from reput.formats.rocketmq import broker, indexfile, names  # noqa: E402
from reput.formats.rocketmq.encode import Message, encode  # noqa: E402
from reput.formats.rocketmq.indexfile import Header  # noqa: E402
from reput.formats.rocketmq.messageid import offset_id  # noqa: E402
from reput.stores.query.index_search import ALWAYS  # noqa: E402
from reput.stores.query.message_store import MessageStore  # noqa: E402
from reput.streaming.dispatch.dispatcher import rebuild  # noqa: E402

VERSION = "5.3.3"
TOPIC = "TopicTest"
NOW = 1_760_000_000_000
MESSAGES = 100_000
ASKED = 2000
WARM = 10
PASSES = 10
MANY = 256
LOG_FILE = 64 << 20
COLD = ("index_cold", "message_cold")
SHELL_RUNS = 6
SETTLE_SECONDS = 5


def make_log(store: Path) -> tuple[list[str], list[int]]:
    """Write a commitlog of messages with a key each; return keys and physical offsets."""
    keys, offsets, log = [], [], bytearray()
    for i in range(MESSAGES):
        key = f"order-{i * 7919 % 1_000_003:07d}-{i:08X}"
        message = Message(
            TOPIC,
            b"x" * 200,
            {"KEYS": key, "TAGS": f"T{i % 7}"},
            queue_id=i % 4,
            queue_offset=i // 4,
            store_timestamp=NOW + i,
        )
        keys.append(key)
        offsets.append(len(log))
        log += encode(message, len(log))
    assert len(log) < LOG_FILE
    (store / names.COMMITLOG).mkdir(parents=True)
    (store / names.COMMITLOG / names.offset_file(0)).write_bytes(log.ljust(LOG_FILE, b"\0"))
    return keys, offsets


def make_index(directory: Path, keys, offsets, slots: int, items: int, files: int) -> None:
    """Fill index files: the log's keys spread over all of them, other keys' items between."""
    directory.mkdir(exist_ok=True)
    pick = np.random.default_rng(1)
    hashes = np.array([indexfile.key_hash(f"{TOPIC}#{key}") for key in keys], np.int32)
    places = np.array(offsets, np.int64)
    count = items - 1
    own = len(keys) // files
    last = np.int64(places[-1])
    for number in range(files):
        mine = slice(number * own, (number + 1) * own)
        key_hash = pick.integers(0, 1 << 31, count, np.int32)
        physical_offset = np.full(count, last, np.int64)
        at = np.sort(pick.choice(count, own, replace=False))
        key_hash[at], physical_offset[at] = hashes[mine], places[mine]
        stamps = np.full(count, NOW + number, np.int64)
        data = np.zeros(indexfile.file_size(slots, items), np.uint8)
        state = np.zeros(State.FIELDS, np.int64)
        state[State.COUNT] = indexfile.FIRST_ITEM
        ends = np.arange(1, count + 1, dtype=np.int32)
        insert(
            0, 0, count, ends, key_hash, physical_offset, stamps,
            np.zeros(count, np.int32), data, slots, items, state,
        )  # fmt: skip
        # As if it reached to the log's end: nothing is left for the broker to dispatch.
        header = Header(NOW, NOW + MESSAGES, 0, int(last), int(state[State.SLOTS_USED]), items)
        data[: indexfile.HEADER_SIZE] = np.frombuffer(header.pack(), np.uint8)
        data.tofile(directory / f"{20260101000000000 + number}")


def make_store(directory: Path, slots: int, items: int, files: int) -> tuple[Path, list, list]:
    """Make one store with queues, checkpoint and index, and the facts of it."""
    store = directory / "store"
    keys, offsets = make_log(store)
    conf = {
        "mappedFileSizeCommitLog": str(LOG_FILE),
        "maxHashSlotNum": str(slots),
        "maxIndexNum": str(items),
    }
    pairs = ", ".join(f"{name}={value}" for name, value in conf.items())
    (directory / "store.facts").write_text(f"config={{{pairs}}}\n")
    rebuild(store, directory / "out", broker_version=VERSION, broker_conf=conf)
    for part in (names.CONSUMEQUEUE, names.CHECKPOINT):
        (directory / "out" / part).rename(store / part)
    shutil.rmtree(directory / "out")
    make_index(store / names.INDEX, keys, offsets, slots, items, files)
    return store, keys, offsets


def fill_free_memory() -> None:
    """Touch most of the memory that is free, in a process that ends.

    A virtual machine may have given it back to its host, which gives it again page by page at the
    first touch: several times what a page costs on a machine that has its memory.
    """
    code = (
        "import mmap, sys; size = int(sys.argv[1]); data = mmap.mmap(-1, size)\n"
        "data.madvise(mmap.MADV_HUGEPAGE)\n"
        "for at in range(0, size, mmap.PAGESIZE): data[at] = 1"
    )
    facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(facts["MemFree"].split()[0]) * 1024
    subprocess.run([sys.executable, "-c", code, str(free * 3 // 4)], check=True)


def drop_pages(store: Path) -> None:
    """Drop a store's pages from memory."""
    os.sync()
    for path in store.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def summary(nanos, found: int) -> dict[str, float]:
    ordered = sorted(nanos)
    return {
        "mean": sum(ordered) / len(ordered),
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[len(ordered) * 99 // 100],
        "found": found,
    }


def time_calls(lookup, requests, passes: int, keys: int = 1) -> dict[str, float]:
    """Time calls that are for that many keys each; times are a key's."""
    nanos, found = [], 0
    clock = time.perf_counter_ns
    for request in requests * passes:
        start = clock()
        found += lookup(request)
        nanos.append(clock() - start)
    return summary([spent / keys for spent in nanos], found)


def open_reader(store: Path) -> MessageStore:
    conf = oracle.config_of(store.with_suffix(".facts"))
    settings = broker.settings_of(VERSION, conf)
    reader = MessageStore.open(store, settings=settings, is_compiled=True)
    # As docs/query.md has it for programs that ask thousands of times.
    gc.freeze()
    return reader


def time_ours(
    store: Path, asked: list[str], offsets: list[int], what: str
) -> dict[str, dict[str, float]]:
    """Time this process's lookups; cold ones want a fresh process."""
    with open_reader(store) as reader:

        def by_index(key: str) -> int:
            return len(reader.index.offsets_of(f"{TOPIC}#{key}", ALWAYS, 64)[0])

        def by_key(key: str) -> int:
            return len(reader.by_key(TOPIC, key).messages)

        def decoded(key: str) -> int:
            return sum(message.topic == TOPIC for message in reader.by_key(TOPIC, key).messages)

        def by_id(identity: str) -> int:
            return reader.by_id(identity).message is not None

        fresh = asked[WARM:]
        for lookup in (by_index, by_key, decoded):
            for i in range(3000):
                lookup(asked[i % WARM])
        if what in COLD:
            return {what: time_calls(by_index if what == COLD[0] else by_key, fresh, 1)}
        ids = [offset_id("127.0.0.1:10911", offset) for offset in offsets[: len(fresh)]]
        warm = {
            "index_warm": (by_index, fresh),
            "message_warm": (by_key, fresh),
            "decoded_warm": (decoded, fresh),
            "id_warm": (by_id, ids),
        }
        return {kind: time_warm(*call) for kind, call in warm.items()}


def time_warm(lookup, requests, keys: int = 1) -> dict[str, float]:
    time_calls(lookup, requests, PASSES, keys)
    return time_calls(lookup, requests, PASSES, keys)


def time_many(store: Path, asked: list[str], what: str) -> dict[str, dict[str, float]]:
    """Time this process's lookups of many keys a call."""
    with open_reader(store) as reader:

        def by_index(keys: list[str]) -> int:
            found = reader.index.offsets_of_many(f"{TOPIC}#", keys, ALWAYS, 64)
            return sum(map(len, found.offsets))

        def by_key(keys: list[str]) -> int:
            return sum(len(answer.messages) for answer in reader.by_keys(TOPIC, keys))

        def decoded(keys: list[str]) -> int:
            return sum(
                message.topic == TOPIC
                for answer in reader.by_keys(TOPIC, keys)
                for message in answer.messages
            )

        fresh = asked[WARM:]
        calls = [fresh[i : i + MANY] for i in range(0, len(fresh) - MANY + 1, MANY)]
        for lookup in (by_index, by_key, decoded):
            for _ in range(300):
                lookup(asked[:WARM])
        if what in COLD:
            lookup = by_index if what == COLD[0] else by_key
            return {f"{what}_many": time_calls(lookup, calls, 1, MANY)}
        kinds = {"index": by_index, "message": by_key, "decoded": decoded}
        return {
            f"{kind}_warm_many": time_warm(lookup, calls, MANY) for kind, lookup in kinds.items()
        }


def time_shell(store: Path, key: str) -> list[float]:
    """Time the command as an operator calls it."""
    conf = store.with_name("broker.conf")
    pairs = oracle.config_of(store.with_suffix(".facts"))
    conf.write_text("".join(f"{name}={value}\n" for name, value in pairs.items()))
    command = [str(Path(sys.executable).with_name("reput")), "query", "key", key]
    command += ["--store", str(store), "--topic", TOPIC, "--broker-conf", str(conf)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    seconds = []
    for _ in range(SHELL_RUNS):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=env)
        seconds.append(time.perf_counter() - start)
    # The first one has the interpreter's own files read.
    return [1000 * spent for spent in seconds[1:]]


def prepare(store: Path, what: str, *, is_filled: bool) -> None:
    """Bring a store's pages into the state that is wanted, and let the machine come to rest."""
    if what in COLD:
        drop_pages(store)
        if is_filled:
            fill_free_memory()
    elif is_filled:
        # A virtual machine may still be giving back what was touched before.
        time.sleep(SETTLE_SECONDS)


def ask_theirs(store: Path, listed: Path, *, is_filled: bool) -> dict[str, dict]:
    """Time the broker's classes, by processes of their own."""
    theirs = {}
    for what in (*COLD, "warm"):
        prepare(store, what, is_filled=is_filled)
        done = oracle.run(VERSION, "QueryBench", store, listed, what, timeout=200, heap="1g")
        theirs |= json.loads(done)
        # It ends at once. A broker that finds this file throws its newest index file away.
        (store / names.ABORT).unlink()
    return theirs


def ask_ours(directory: Path, *, is_filled: bool) -> dict[str, dict]:
    """Time ours as the broker's."""
    ours = {}
    for what in (*COLD, "warm"):
        for options in ([], ["--many"]):
            prepare(directory / "store", what, is_filled=is_filled)
            command = [sys.executable, __file__, "--ask", str(directory), what, *options]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            ours |= json.loads(done.stdout)
    return ours


def check_found(ours: dict[str, dict], theirs: dict[str, dict]) -> None:
    """Refuse figures of answers that are not the same."""
    for kind in ("index_cold", "index_warm"):
        assert ours[kind]["found"] == theirs[kind]["found"] > 0, kind
    # The broker leaves it to its clients to tell hits of other keys with the same hash.
    for kind in ("message_cold", "message_warm", "decoded_warm"):
        assert 0 < ours[kind]["found"] <= theirs[kind]["found"], kind
    # Calls for many keys leave out the last few, which do not fill one.
    assert ours["message_warm_many"]["found"] == ASKED // MANY * MANY * PASSES


def spread(values: list[float]) -> list[float]:
    """Return median, least and most."""
    return [round(v, 2) for v in (statistics.median(values), min(values), max(values))]


def measure(
    directory: Path, slots: int, items: int, files: int, *, runs: int, is_filled: bool
) -> dict[str, object]:
    """Time both on one store, in turn."""
    directory.mkdir(parents=True)
    store, keys, offsets = make_store(directory, slots, items, files)
    step = len(keys) // ASKED
    asked = keys[::step][: ASKED + WARM]
    listed = directory / "keys"
    listed.write_text("".join(f"{TOPIC}\t{key}\n" for key in asked))
    (directory / "offsets").write_text(json.dumps(offsets[::step][: ASKED + WARM]))
    times: dict[str, dict[str, list]] = {}
    shell = []
    for _ in range(runs):
        theirs = ask_theirs(store, listed, is_filled=is_filled)
        ours = ask_ours(directory, is_filled=is_filled)
        check_found(ours, theirs)
        shell.append(time_shell(store, asked[-1]))
        for kind, own in ours.items():
            base = kind.removesuffix("_many")
            for name in ("p50", "p99", "mean"):
                row = times.setdefault(f"{kind} {name}", {"rocketmq": [], "reput": [], "ratio": []})
                row["reput"].append(own[name] / 1000)
                if base in theirs:
                    row["rocketmq"].append(theirs[base][name] / 1000)
                    row["ratio"].append(own[name] / theirs[base][name])
        print(".", end="", file=sys.stderr, flush=True)
    result = {
        kind: {peer: spread(values) for peer, values in row.items() if values}
        for kind, row in times.items()
    }
    result["shell ms"] = {"reput": spread([ms for each in shell for ms in each])}
    title = f"{files} files of {slots:,} slots and {items:,} items, {runs} runs"
    print_table(title, result)
    return {"index": title, **result}


def print_table(title: str, result: dict[str, dict]) -> None:
    print(f"\n{title}; medians (least to most)", file=sys.stderr)
    print(f"{'µs a key':26}{'RocketMQ':>26}{'reput':>26}{'ratio':>22}", file=sys.stderr)
    for kind, row in result.items():
        cells = [
            "{:,.2f} ({:,.2f} to {:,.2f})".format(*row[peer]) if peer in row else "-"
            for peer in ("rocketmq", "reput", "ratio")
        ]
        print(f"{kind:26}{cells[0]:>26}{cells[1]:>26}{cells[2]:>22}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=16, help="0 leaves the second store out")
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes, for a quick look")
    parser.add_argument("--runs", type=int, default=5, help="both sides in turn")
    parser.add_argument(
        "--as-it-is", action="store_true", help="do not touch the machine's free memory before"
    )
    parser.add_argument("--directory", type=Path, help="where the stores are made; needs 1.5 GB")
    parser.add_argument("--ask", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--many", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ask is not None:
        directory, what = Path(args.ask[0]), args.ask[1]
        asked = [line.split("\t")[1] for line in (directory / "keys").read_text().splitlines()]
        if args.many:
            print(json.dumps(time_many(directory / "store", asked, what)))
        else:
            offsets = json.loads((directory / "offsets").read_text())
            print(json.dumps(time_ours(directory / "store", asked, offsets, what)))
        return
    oracle.build(VERSION)
    with tempfile.TemporaryDirectory(prefix="query-", dir=args.directory) as temporary:
        root = Path(temporary)
        how = {"runs": args.runs, "is_filled": not args.as_it_is}
        slots, items = indexfile.SLOTS // args.scale, indexfile.ITEMS // args.scale
        one = measure(root / "one", slots, items, 1, **how)
        shutil.rmtree(root / "one")
        result = {"one": one}
        if args.files:
            slots, items = slots // 10, items // 10
            result["many"] = measure(root / "many", slots, items, args.files, **how)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
