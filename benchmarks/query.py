"""Looks keys and ids up beside the broker's own classes: 20 million items, and 16 files.

    python benchmarks/query.py [--files 16] [--directory DIR]

Two stores: one index file of RocketMQ's standard size, full (5 million slots, 20 million items),
and `--files` of a tenth of it. Each has a real commitlog with the messages that are asked for; the
other items are of other keys. RocketMQ 5.3.3's `IndexService#queryOffset` and
`DefaultMessageStore#queryMessage`, and `MessageStore`, are asked for the same keys, each in a
process of its own, with the files' pages dropped before: first each key once (cold), then again and
again (warm). `decoded` looks at each message as well: the broker's classes and ours hand out bytes.
`many` is one call for 256 keys, divided by 256, beside the broker's call for one, and a process of
its own too. One run, one JSON document; times in microseconds, the shell's in milliseconds.
"""

from __future__ import annotations

import argparse
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

from formats import broker, indexfile, names  # noqa: E402
from formats.encode import Message, encode  # noqa: E402
from formats.indexfile import Header  # noqa: E402
from formats.indexfile_kernels import State, insert  # noqa: E402
from formats.messageid import offset_id  # noqa: E402
from stores.index_search import ALWAYS  # noqa: E402
from stores.message_store import MessageStore  # noqa: E402
from streaming.dispatcher import rebuild  # noqa: E402

VERSION = "5.3.3"
TOPIC = "TopicTest"
NOW = 1_760_000_000_000
MESSAGES = 100_000
ASKED = 2000
WARM = 10
PASSES = 10
MANY = 256
LOG_FILE = 64 << 20
SHELL_RUNS = 15


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


def drop_pages(store: Path) -> None:
    """Have nothing of a store in memory."""
    os.sync()
    for path in store.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def summary(nanos, found: int) -> dict[str, float]:
    ordered = sorted(nanos)
    return {
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[len(ordered) * 99 // 100],
        "found": found,
    }


def time_calls(lookup, requests, passes: int, keys: int = 1) -> dict[str, float]:
    """Time calls that are for so many keys each; times are a key's."""
    nanos, found = [], 0
    clock = time.perf_counter_ns
    for request in requests * passes:
        start = clock()
        found += lookup(request)
        nanos.append(clock() - start)
    return summary([spent / keys for spent in nanos], found)


def open_reader(store: Path) -> MessageStore:
    conf = oracle.config_of(store.with_suffix(".facts"))
    return MessageStore.open(store, settings=broker.settings_of(VERSION, conf), is_compiled=True)


def time_ours(store: Path, asked: list[str], offsets: list[int]) -> dict[str, object]:
    """Time this process's lookups; it has to be a fresh one, without any page mapped."""
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
        out = {"index_cold": time_calls(by_index, fresh, 1)}
        ids = [offset_id("127.0.0.1:10911", offset) for offset in offsets[: len(fresh)]]
        warm = {
            "index_warm": (by_index, fresh),
            "message_warm": (by_key, fresh),
            "decoded_warm": (decoded, fresh),
            "id_warm": (by_id, ids),
        }
        for kind, (lookup, requests) in warm.items():
            time_calls(lookup, requests, 1)
            out[kind] = time_calls(lookup, requests, PASSES)
    return out


def time_many(store: Path, asked: list[str]) -> dict[str, object]:
    """Time this process's lookups of many keys a call; a fresh process too."""
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
        out = {"index_many_cold": time_calls(by_index, calls, 1, MANY)}
        for kind, lookup in {"index": by_index, "message": by_key, "decoded": decoded}.items():
            time_calls(lookup, calls, 1, MANY)
            out[f"{kind}_many_warm"] = time_calls(lookup, calls, PASSES, MANY)
    return out


def time_shell(store: Path, key: str) -> dict[str, float]:
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
    return {
        "p50_ms": round(statistics.median(seconds[1:]) * 1000),
        "worst_ms": round(max(seconds[1:]) * 1000),
    }


def in_us(times: dict) -> dict:
    return {
        kind: {name: round(v / 1000, 2) if name != "found" else v for name, v in values.items()}
        for kind, values in times.items()
    }


def measure(directory: Path, slots: int, items: int, files: int) -> dict[str, object]:
    """Time both on one store."""
    directory.mkdir(parents=True)
    store, keys, offsets = make_store(directory, slots, items, files)
    step = len(keys) // ASKED
    asked = keys[::step][: ASKED + WARM]
    listed = directory / "keys"
    listed.write_text("".join(f"{TOPIC}\t{key}\n" for key in asked))
    drop_pages(store)
    theirs = json.loads(oracle.run(VERSION, "QueryBench", store, listed, timeout=200, heap="1g"))
    (directory / "offsets").write_text(json.dumps(offsets[::step][: ASKED + WARM]))
    ours = {}
    for options in ([], ["--many"]):
        drop_pages(store)
        command = [sys.executable, __file__, "--ask", str(directory), *options]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        ours |= json.loads(done.stdout)
    result = {
        "index": f"{files} files of {slots:,} slots and {items:,} items",
        "rocketmq": in_us(theirs),
        "reput": in_us(ours),
        "shell": time_shell(store, asked[-1]),
    }
    result["ratios"] = {
        f"{kind} {name}": round(ours[kind][name] / theirs[kind.replace("_many", "")][name], 2)
        for kind in ours
        for name in ("p50", "p99")
        if kind.replace("_many", "") in theirs
    }
    for kind in ("index_cold", "index_warm"):
        assert ours[kind]["found"] == theirs[kind]["found"], kind
    # The broker leaves it to its clients to tell hits of other keys with the same hash.
    for kind in ("message_warm", "decoded_warm"):
        assert 0 < ours[kind]["found"] <= theirs[kind]["found"], kind
    # Calls for many keys leave out the last few, which do not fill one.
    assert ours["message_many_warm"]["found"] == ASKED // MANY * MANY * PASSES
    print(json.dumps(result), file=sys.stderr, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--directory", type=Path, help="where the stores are made; needs 1.5 GB")
    parser.add_argument("--ask", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--many", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ask is not None:
        asked = [line.split("\t")[1] for line in (args.ask / "keys").read_text().splitlines()]
        offsets = json.loads((args.ask / "offsets").read_text())
        store = args.ask / "store"
        print(
            json.dumps(time_many(store, asked) if args.many else time_ours(store, asked, offsets))
        )
        return
    oracle.build(VERSION)
    with tempfile.TemporaryDirectory(prefix="query-", dir=args.directory) as temporary:
        root = Path(temporary)
        one = measure(root / "one", indexfile.SLOTS, indexfile.ITEMS, 1)
        shutil.rmtree(root / "one")
        many = measure(root / "many", indexfile.SLOTS // 10, indexfile.ITEMS // 10, args.files)
    print(json.dumps({"one": one, "many": many}, indent=2))


if __name__ == "__main__":
    main()
