"""How fast messages go to Kafka, beside plain kafka-python, in one run against one real broker.

    python -m benchmarks.kafka

Each measurement is a process of its own, turn about: `plain` sends values, keys and timestamps
that lie in memory with kafka-python's `send`, a transaction each 10,000; `plain, headers` the same
with our headers; `ours` reads a commitlog and sends it, headers and position included; `2 x ours`
are two stores at once. Seconds are from the first record to the last commit, processor
seconds those of the sending process alone.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from kafka import KafkaProducer

from reput.formats.rocketmq import broker, names
from reput.formats.rocketmq.encode import Message, encode, encode_blank, fits
from reput.sinks.kafka.client.partition import Partition
from reput.sinks.kafka.extent import Extent
from reput.sinks.kafka.messages.encoder import Share
from reput.sinks.kafka.sink import KafkaSink
from reput.stores.log.tail import find_tail
from reput.streaming.settings.kafka import kafka_settings
from tests.kafka.broker import Broker

FILE_SIZE = 1 << 28
PARTITIONS = 6
TRANSACTION = 10_000
KINDS = ("plain", "plain, headers", "ours", "2 x ours")


def message(number: int, size: int, pick: random.Random) -> Message:
    return Message(
        "bench",
        body=pick.randbytes(size),
        properties={"KEYS": f"key-{number}", "TAGS": "TagA", "UNIQ_KEY": f"{number:032X}"},
        queue_id=number % PARTITIONS,
        queue_offset=number // PARTITIONS,
        store_timestamp=1_760_000_000_000 + number,
        born_timestamp=1_760_000_000_000 + number,
    )


def write_store(store: Path, count: int, size: int) -> None:
    """Write a store of `count` messages with bodies of `size` bytes."""
    pick = random.Random(1)
    directory = store / names.COMMITLOG
    directory.mkdir(parents=True)
    position = 0
    data = bytearray()

    def close() -> None:
        raw = bytes(data).ljust(FILE_SIZE, b"\0")
        (directory / names.offset_file(position - position % FILE_SIZE)).write_bytes(raw)
        data.clear()

    for number in range(count):
        made = message(number, size, pick)
        raw = encode(made, position)
        left = FILE_SIZE - position % FILE_SIZE
        if not fits(len(raw), left):
            data += encode_blank(left)
            close()
            position += left
            raw = encode(made, position)
        data += raw
        position += len(raw)
    close()


def send_plain(bootstrap: str, topic: str, count: int, size: int, *, headers: bool) -> dict[str, Any]:  # fmt: skip # noqa: E501
    """Send what a user of kafka-python would, from memory."""
    pick = random.Random(1)
    made = [message(number, size, pick) for number in range(count)]
    rows = []
    for number, each in enumerate(made):
        shown = [
            ("rmq.store", b"bench"), ("rmq.topic", b"bench"),
            ("rmq.queueId", str(each.queue_id).encode()),
            ("rmq.queueOffset", str(each.queue_offset).encode()),
            ("rmq.physicalOffset", str(number * size).encode()),
            ("rmq.storeTimestamp", str(each.store_timestamp).encode()),
            ("rmq.bornTimestamp", str(each.born_timestamp).encode()),
            ("rmq.sysFlag", b"0"), ("rmq.reconsumeTimes", b"0"),
            *[(k, v.encode()) for k, v in each.properties.items()],
        ] if headers else None  # fmt: skip
        key = each.properties["KEYS"].encode()
        rows.append((each.body, key, shown, each.queue_id, each.store_timestamp))
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"plain-{topic}", acks="all",
        batch_size=128 << 10, linger_ms=5, metrics_enabled=False,
    )  # fmt: skip
    producer.init_transactions()
    producer.partitions_for(topic)
    with Stopwatch() as watch:
        for start in range(0, count, TRANSACTION):
            producer.begin_transaction()
            for body, key, shown, partition, timestamp in rows[start : start + TRANSACTION]:
                producer.send(topic, body, key, shown, partition, timestamp)
            producer.commit_transaction()
    producer.close()
    return watch.values(count)


def send_ours(bootstrap: str, topic: str, store: Path, count: int, size: int) -> dict[str, Any]:
    """Send a store, as the job's thread does."""
    # As many messages a transaction as the others have.
    record = len(encode(message(count - 1, size, random.Random(1)), 0))
    settings = kafka_settings(
        {"bootstrap": bootstrap, "topic": topic, "transaction_bytes": TRANSACTION * record,
         "transaction_seconds": 30}
    )  # fmt: skip
    conf = broker.settings_of("5.5", {"mappedFileSizeCommitLog": str(FILE_SIZE)})
    sink = KafkaSink(settings, {"security_protocol": "PLAINTEXT"}, topic, store, conf)
    extent = Extent(find_tail(sink.log).end, None)
    sink.open(extent)
    warm_up(sink, extent)
    sent = 0
    with Stopwatch() as watch:
        while sent < count:
            done = sink.send(extent)
            assert done is not None
            sent += done.messages
    sink.close()
    return watch.values(sent)


def warm_up(sink: Any, extent: Any) -> None:
    """Load kernels and ask for partitions, as plain kafka-python has."""
    # ruff: noqa: SLF001
    block = next(sink._reader.blocks(0, extent.end, {}))
    sender = sink._sender
    rows = sender.routes.of_rows(block.data, block.columns)
    chosen = np.arange(10, dtype=np.int64)
    share = Share(block, rows, "messages", Partition("", 0), chosen)
    sender.encoder.encode(share, sender.routes.pieces, 0, 10, 1 << 18)


class Stopwatch:
    def __enter__(self) -> Stopwatch:
        self._began = time.monotonic()
        self._usage = resource.getrusage(resource.RUSAGE_SELF)
        return self

    def __exit__(self, *_: object) -> None:
        after = resource.getrusage(resource.RUSAGE_SELF)
        self._seconds = time.monotonic() - self._began
        self._cpu = after.ru_utime + after.ru_stime - self._usage.ru_utime - self._usage.ru_stime

    def values(self, count: int) -> dict[str, Any]:
        return {"messages": count, "seconds": self._seconds, "cpu": self._cpu}


def measure(kind: str, bootstrap: str, topic: str, store: Path, count: int, size: int) -> None:
    """Be one measured process."""
    if kind == "ours":
        values = send_ours(bootstrap, topic, store, count, size)
    else:
        values = send_plain(bootstrap, topic, count, size, headers="headers" in kind)
    print(json.dumps(values))


def run(kind: str, server: Any, number: int, store: Path, count: int, size: int) -> dict[str, Any]:
    """Run one measurement, or two of them at once."""
    times = 2 if kind.startswith("2") else 1
    processes = []
    for copy in range(times):
        topic = f"bench-{number}-{copy}"
        server.make_topic(topic, PARTITIONS)
        command = [sys.executable, "-m", "benchmarks.kafka", "--be", kind.removeprefix("2 x ")]
        command += ["--bootstrap", server.address, "--topic", topic, "--store", str(store)]
        command += ["--messages", str(count), "--size", str(size)]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    results = [json.loads(process.communicate()[0]) for process in processes]
    assert all(process.returncode == 0 for process in processes)
    rate = sum(result["messages"] / result["seconds"] for result in results)
    cpu = sum(result["cpu"] for result in results) / sum(r["messages"] for r in results)
    return {"rate": rate, "cpu_per_million": cpu * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--size", type=int, action="append", help="bodies; 300 and 1024 by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", dest="as_json", action="store_true")
    parser.add_argument("--directory", type=Path, help="for all files; a temporary one by default")
    parser.add_argument("--be", default="", help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", default="", help=argparse.SUPPRESS)
    parser.add_argument("--topic", default="", help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    sizes = args.size or [300, 1024]
    if args.be:
        measure(args.be, args.bootstrap, args.topic, args.store, args.messages, sizes[0])
        return
    found: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(dir=args.directory, prefix="bench-kafka-") as directory:
        server = Broker(Path(directory, "kafka"))
        server.start()
        try:
            number = 0
            for size in sizes:
                store = Path(directory, f"store-{size}")
                write_store(store, args.messages, size)
                results: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
                # The first one warms the broker and the compiled kernels' cache.
                number += 1
                run("ours", server, number, store, args.messages, size)
                for _ in range(args.rounds):
                    for kind in KINDS:
                        number += 1
                        results[kind].append(run(kind, server, number, store, args.messages, size))
                found[str(size)] = {
                    kind: {
                        name: statistics.median(each[name] for each in values)
                        for name in ("rate", "cpu_per_million")
                    }
                    for kind, values in results.items()
                }
        finally:
            server.stop()
    if args.as_json:
        print(json.dumps(found))
        return
    for size, kinds in found.items():
        base = kinds["plain"]["rate"]
        print(f"\n{size} B, {args.messages:,} messages, transactions of {TRANSACTION:,}, median of {args.rounds}")  # fmt: skip # noqa: E501
        print(f"{'':16}{'messages/s':>12}{'of plain':>10}{'CPU s a million':>18}")
        for kind, values in kinds.items():
            share = values["rate"] / base
            print(f"{kind:16}{values['rate']:>12,.0f}{share:>10.2f}{values['cpu_per_million']:>18.1f}")  # fmt: skip # noqa: E501


if __name__ == "__main__":
    main()
