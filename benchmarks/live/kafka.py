"""From append to a consumer of Kafka: `reput run` beside a log that grows, and one real broker.

    python -m benchmarks.live.kafka --rates 1000 --seconds 60

A record is appended as a broker does it, and its time is kept. A kafka-python consumer that reads
only what is committed notes when it gets each message. A latency is the time from before the write
until then.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from kafka import KafkaConsumer, TopicPartition

from benchmarks.latencies import figures_of
from benchmarks.live.jobs import ROOT, WARM_SECONDS, stop
from benchmarks.live.store import LiveStore
from tests.kafka.broker import Broker

TOPIC = "latency"
# Milliseconds that the consumer lets the broker wait for more.
_FETCH_MS = 5
_PATIENCE_SECONDS = 60


class Reader:
    """Notes when each message came, by its offset among messages."""

    def __init__(self, address: str) -> None:
        self.seen: list[float] = []
        self._over = threading.Event()
        self._consumer = KafkaConsumer(
            bootstrap_servers=address,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=_FETCH_MS,
        )
        self._consumer.assign([TopicPartition(TOPIC, 0)])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            for records in self._consumer.poll(timeout_ms=100).values():
                now = time.monotonic()
                self.seen.extend(now for _ in records)

    def wait_for(self, count: int) -> None:
        """Wait until this many messages came."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while len(self.seen) < count:
            if time.monotonic() > until:
                raise RuntimeError(f"{len(self.seen)} of {count} messages came")
            time.sleep(0.05)

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()


def measure(
    directory: Path, rates: list[int], warm: float, seconds: float
) -> list[dict[str, float]]:
    """Run broker, job and consumer once; return the latencies of each rate."""
    store, server = LiveStore(directory), Broker(directory / "kafka")
    store.append()
    server.start()
    try:
        server.make_topic(TOPIC, 1)
        command = store.command("--kafka-bootstrap", server.address, "--kafka", f"topic={TOPIC}")
        with (directory / "job.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            return latencies(store, server.address, rates, warm, seconds)
        finally:
            stop(process)
    finally:
        server.stop()


def latencies(
    store: LiveStore, address: str, rates: list[int], warm: float, seconds: float
) -> list[dict[str, float]]:
    """Append at each rate; return what a consumer saw."""
    found = []
    reader = Reader(address)
    reader.wait_for(1)
    store.append_at(rates[0], warm)
    for rate in rates:
        reader.wait_for(len(store.times))
        first = len(store.times)
        store.append_at(rate, seconds)
        reader.wait_for(len(store.times))
        late = (np.array(reader.seen[first:]) - np.array(store.times[first:])) * 1000
        found.append({"rate": rate, "messages": len(late), **figures_of(late)})
    reader.end()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="1000", help="messages a second")
    parser.add_argument("--seconds", type=float, default=60, help="of each rate")
    parser.add_argument("--warm", type=float, default=WARM_SECONDS, help="seconds not counted")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write all figures there")
    arguments = parser.parse_args()
    rates = [int(rate) for rate in arguments.rates.split(",")]
    runs = []
    for _ in range(arguments.runs):
        with tempfile.TemporaryDirectory() as name:
            runs.append(measure(Path(name), rates, arguments.warm, arguments.seconds))
        for row in runs[-1]:
            print(
                f"{row['rate']:,} messages/s: p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.1f} "
                f"ms, most {row['max_ms']:.1f} ms (load average {os.getloadavg()[0]:.2f})",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(runs))


if __name__ == "__main__":
    main()
