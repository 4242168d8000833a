"""Two jobs with one transactional id: the later one wins, however long the earlier one slept."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka.errors import KafkaError

from tests.kafka import stores

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kafka.broker import Broker

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT = 4
_PATIENCE = 60.0


def start(
    tmp_path: Path,
    output: str,
    broker: Broker,
    end: int,
    program: tuple[str, str] = ("-m", "tests.kafka.core"),
) -> subprocess.Popen[bytes]:
    """Start a process that dispatches and sends, and ends when Kafka has everything."""
    with (tmp_path / f"{output}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *program, str(tmp_path / "store"),
             str(tmp_path / output), broker.address, str(end), f"name={tmp_path.name}",
             f"transaction_timeout_seconds={_TIMEOUT}", "transaction_seconds=3", "batch_bytes=2k",
             "on_failure=stop", "buffer_bytes=16k"],
            cwd=ROOT, stdout=log, stderr=log,
        )  # fmt: skip


# Stops itself as it is about to commit its claim.
STOPS = """
import os, signal, sys
from sinks.kafka_client import Client
from tests.kafka.core import main
commit = Client.commit
def stop(self):
    Client.commit = commit
    os.kill(os.getpid(), signal.SIGSTOP)
    commit(self)
Client.commit = stop
sys.exit(main(*sys.argv[1:]))
"""


def is_stopped(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether a process has stopped."""
    assert process.poll() is None
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def is_within(broker: Broker, name: str) -> bool:
    """Tell whether a transaction with messages of a store is open."""
    admin = broker.admin()
    try:
        (found,) = admin.describe_transactions([f"reput-{name}"]).values()
    except KafkaError:
        # There is none yet.
        return False
    finally:
        admin.close()
    return found.state.value == "Ongoing" and name in {p.topic for p in found.topic_partitions}


def wait_for(what: str, is_there: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not is_there():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def stop_within(broker: Broker, name: str, process: subprocess.Popen[bytes]) -> None:
    """Stop a process while a transaction of its is open."""

    def is_stopped_within() -> bool:
        assert process.poll() is None
        if not is_within(broker, name):
            return False
        os.kill(process.pid, signal.SIGSTOP)
        if is_within(broker, name):
            return True
        os.kill(process.pid, signal.SIGCONT)
        return False

    wait_for("a transaction", is_stopped_within)


def test_a_process_that_wakes_up_does_not_fence_its_heir(broker: Broker, tmp_path: Path) -> None:
    """
    The first one is stopped within a transaction for longer than Kafka lets that be open. What it
    is told then looks as if only its time was over.
    """
    name = tmp_path.name
    broker.make_topic(name, 3)
    log = stores.write(tmp_path / "store", stores.messages(60_000, (name,), random.Random(10)))
    first = start(tmp_path, "out-a", broker, log.end)
    processes = [first]
    try:
        stop_within(broker, name, first)
        wait_for("its end by Kafka", lambda: not is_within(broker, name))
        second = start(tmp_path, "out-b", broker, log.end)
        processes.append(second)
        wait_for("the second one", lambda: is_within(broker, name) or second.poll() is not None)
        os.kill(first.pid, signal.SIGCONT)
        wait_for("an end", lambda: all(each.poll() is not None for each in processes))
    finally:
        for each in processes:
            if each.poll() is None:
                each.kill()
                each.wait()

    said = [(tmp_path / f"out-{name}.log").read_text() for name in "ab"]
    assert second.returncode == 0, said[1][-2000:]
    assert first.returncode != 0
    assert "another process writes with this store's transactional id" in said[0]
    assert stores.by_queue(stores.got(broker, name)) == stores.in_log(log)


def test_a_process_that_slept_as_it_began_does_not_fence_its_heir(
    broker: Broker, tmp_path: Path
) -> None:
    """
    The first one is stopped before its claim is committed, and Kafka ends that. When it wakes up a
    later one has claimed; what that is still to send comes from that one.
    """
    name = tmp_path.name
    broker.make_topic(name, 3)
    found = list(stores.messages(2000, (name,), random.Random(10)))
    log = stores.write(tmp_path / "store", found)
    stores.write(tmp_path / "store", found[:1000])
    first = start(tmp_path, "out-a", broker, log.end, ("-c", STOPS))
    processes = [first]
    try:
        wait_for("the first one", lambda: is_stopped(first))
        second = start(tmp_path, "out-b", broker, log.end)
        processes.append(second)
        wait_for("half of it", lambda: len(stores.got(broker, name)) == 1000)
        os.kill(first.pid, signal.SIGCONT)
        wait_for("an end", lambda: first.poll() is not None or second.poll() is not None)
        stores.write(tmp_path / "store", found)
        wait_for("both ends", lambda: all(each.poll() is not None for each in processes))
    finally:
        for each in processes:
            if each.poll() is None:
                each.kill()
                each.wait()

    said = [(tmp_path / f"out-{name}.log").read_text() for name in "ab"]
    assert second.returncode == 0, said[1][-2000:]
    assert first.returncode != 0
    assert "another process writes with this store's transactional id" in said[0]
    assert stores.by_queue(stores.got(broker, name)) == stores.in_log(log)


def test_a_process_whose_transaction_took_too_long_goes_on(broker: Broker, tmp_path: Path) -> None:
    """
    Nobody else has written: then it was only its time, and nobody is fenced.
    """
    name = tmp_path.name
    broker.make_topic(name, 3)
    log = stores.write(tmp_path / "store", stores.messages(60_000, (name,), random.Random(3)))
    first = start(tmp_path, "out-a", broker, log.end)
    try:
        stop_within(broker, name, first)
        wait_for("its end by Kafka", lambda: not is_within(broker, name))
        os.kill(first.pid, signal.SIGCONT)
        wait_for("its end", lambda: first.poll() is not None)
    finally:
        if first.poll() is None:
            first.kill()
            first.wait()

    assert first.returncode == 0, (tmp_path / "out-a.log").read_text()[-2000:]
    assert stores.by_queue(stores.got(broker, name)) == stores.in_log(log)
