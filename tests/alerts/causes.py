"""What goes wrong, so that alerts fire by their real causes (`python -m tests.alerts.live`).

Each function starts a job, or leaves one that has ended by itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from helm.monitoring import series as s
from reput.formats.rocketmq import names
from tests.alerts.kafka_causes import (
    kafka_killed,
    kafka_refuses,
    kafka_slow,
    kafka_stopped,
)
from tests.alerts.place import Place, until
from tests.cluster.rig import CheckError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

_HANGS_SECONDS = 45.0
# Longer than the alert about a planner waits.
_PLANNER_SECONDS = 90.0
# Longer than any of the alerts about a dispatcher that is gone looks back and waits.
_QUIET_SECONDS = 45.0
_CRASHES_SECONDS = 240.0
_OUTPUT_BYTES = 8 << 20
# MiB of heap: what Spark hardly starts with, and far more than it needs.
_HEAPS = range(48, 160, 4)
# A job that is ready has it; the alert looks back and waits for 50 s.
_HEAP_SECONDS = 90.0


def unflushed(place: Place) -> None:
    """A log grows, the broker's checkpoint does not move, and the job takes what is on disk."""
    with place.writing():
        (place.store / names.ABORT).touch()
        place.start("--tail", "flushed")
        time.sleep(75)


def nothing_on_disk(place: Place) -> None:
    """The broker's checkpoint does not move, and the job only takes what is on disk."""
    place.write(2000)
    # As a broker has it while it runs: a store that was closed in order is on disk.
    (place.store / names.ABORT).touch()
    place.start("--tail", "flushed")


def never_recorded(place: Place) -> None:
    """A job records its progress only once an hour."""
    place.write(2000)
    place.start("--flush-seconds", "3600")


def expired(place: Place) -> None:
    """A broker's retention removes the log's first file while the job is stopped."""
    writer = place.write(300)
    place.dispatch()
    for _ in range(5000):
        writer.append(writer.next_message())
    first = place.store / names.COMMITLOG / names.offset_file(0)
    first.unlink()
    place.start()


def corrupt(place: Place) -> None:
    """A byte of the log has changed: the magic number of a record."""
    _damage(place)
    place.start()


def skipped(place: Place) -> None:
    """The same, and the job skips what is damaged."""
    _damage(place)
    place.start("--on-corrupt", "skip")


def _damage(place: Place) -> None:
    place.write(2000)
    path = place.store / names.COMMITLOG / names.offset_file(0)
    raw = bytearray(path.read_bytes())
    at = 0
    for _ in range(100):
        at += int.from_bytes(raw[at : at + 4], "big")
    raw[at + 4] ^= 0xFF
    path.write_bytes(raw)


def one_of_two(place: Place) -> None:
    """A byte of the log of one of the job's two stores has changed."""
    other = place.neighbour()
    place.write(2000)
    _damage(other)
    place.start(other=other)


def stopped_writer(place: Place) -> None:
    """The process that writes one of the job's two stores is stopped, as by SIGSTOP."""
    other = place.neighbour()
    for each in (place, other):
        each.write(2000)
    place.start("--placement", "executors", other=other)
    place.wait_until_ready()
    place.begin()
    (writer,) = (
        process
        for process in _descendants(_started(place))
        if "executors.process" in _command(process) and _has_open(process, other.output)
    )
    _hold([writer])


def stopped_planner(place: Place) -> None:
    """A log grows, and the process in which Spark plans it is stopped."""
    with place.writing():
        place.start()
        until(lambda: (place.value(s.UNPLANNED) or 0) > 0, "a first plan")
        place.begin()
        planners = [
            process
            for process in _descendants(_started(place))
            if "source_runner" in _command(process)
        ]
        _hold(planners, _PLANNER_SECONDS)
        until(lambda: place.server.has_fired("PlannerStopped"), "a planner that stands still")


def broken_index(place: Place) -> None:
    """Somebody cuts the newest index file short, and the job restarts again and again."""
    place.write(2000)
    place.dispatch()
    newest = max((place.output / names.INDEX).iterdir())
    os.truncate(newest, newest.stat().st_size // 2)
    end = time.monotonic() + _CRASHES_SECONDS
    # Each lives for a scrape or two, and rules of a busy Prometheus do not see every one.
    while not place.server.has_fired("RestartLoop") and time.monotonic() < end:
        place.start()
        if place.job is not None:
            place.job.wait(120)


def gap(place: Place) -> None:
    """A record's queue offset is five past the end of its queue, and no broker runs."""
    writer = place.write(2000)
    message = writer.next_message()
    writer.append(message._replace(queue_offset=message.queue_offset + 5))
    place.start()


def out_of_turn(place: Place) -> None:
    """The same while a broker has its lock: it may be about to write its log again."""
    place.store.mkdir(parents=True)
    place.hold_lock()
    gap(place)


def filling(place: Place) -> None:
    """A log grows, and the output's file system of 8 MiB fills until no file fits."""
    with place.writing():
        place.start(file_system=_OUTPUT_BYTES)
        job = place.job
        until(lambda: job is not None and job.poll() is not None, "a job without room")


def small_heap(place: Place) -> None:
    """A JVM has little more heap than it needs."""
    place.write(2000)
    for heap in _HEAPS:
        # Spark itself starts with no less than 450 MiB, unless told so.
        place.start(submit=f"--driver-memory {heap}m --conf spark.testing.reservedMemory=1048576")
        job = place.job

        def has_ended(job: subprocess.Popen[bytes] | None = job) -> bool:
            return job is None or job.poll() is not None

        until(lambda: place.get("/readyz") or has_ended(), "a job that is ready, or has ended")
        end = time.monotonic() + _HEAP_SECONDS
        while not has_ended() and time.monotonic() < end:
            if place.server.has_fired("HeapFull"):
                return
            time.sleep(1)
        place.stop()


def too_few(place: Place) -> None:
    """A second dispatcher is added to a running one, and it never starts."""
    place.write(2000)
    place.start()
    place.wait_until_ready()
    # Longer than the alert looks back and waits, so that it would have fired.
    time.sleep(_QUIET_SECONDS)
    place.begin()
    place.server.expect_dispatchers(2)


def hung_start(place: Place) -> None:
    """Spark's JVM hangs while it starts."""
    place.write(2000)
    place.start()
    job = _started(place)
    until(lambda: _children(job), "a JVM")
    _hold(_children(job))


def _started(place: Place) -> int:
    """Return the process of the job.

    Raises:
        CheckError: there is none.
    """
    if place.job is None:
        raise CheckError("it was started")
    return place.job.pid


def _hold(processes: list[int], seconds: float = _HANGS_SECONDS) -> None:
    """Stop processes, and let them go after this time: the job's end in order needs them.

    Raises:
        CheckError: there are none.
    """
    if not processes:
        raise CheckError("a process to be stopped")
    for process in processes:
        os.kill(process, signal.SIGSTOP)

    def let_go() -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)

    later = threading.Timer(seconds, let_go)
    later.daemon = True
    later.start()


def _children(process: int) -> list[int]:
    """Return the processes that a process has started, on whichever thread."""
    lists = Path("/proc", str(process), "task").glob("*/children")
    return [int(each) for path in lists for each in path.read_text().split()]


def _descendants(process: int) -> list[int]:
    """Return the processes below a process."""
    children = _children(process)
    return children + [each for child in children for each in _descendants(child)]


def _command(process: int) -> str:
    """Return a process's command line."""
    return Path("/proc", str(process), "cmdline").read_text("utf-8").replace("\0", " ")


def _has_open(process: int, directory: Path) -> bool:
    """Tell whether a process has a file below a directory open."""
    files = (each.readlink() for each in Path("/proc", str(process), "fd").iterdir())
    return any(file.is_relative_to(directory) for file in files)


def killed(place: Place) -> None:
    """A job is killed and does not come back."""
    place.write(2000)
    place.start()
    place.wait_until_ready()
    time.sleep(_QUIET_SECONDS)
    place.begin()
    if place.job is not None:
        place.job.kill()
        place.job.wait(30)


# Cause, and the alerts that it has to make fire.
CAUSES: tuple[tuple[Callable[[Place], None], tuple[str, ...]], ...] = (
    (
        unflushed,
        (
            *("BehindBytes", "BehindBytesCritical", "BehindSeconds", "BehindSecondsCritical"),
            "RetentionNear",
        ),
    ),
    (broken_index, ("IndexFailure", "RestartLoop")),
    (nothing_on_disk, ("Stalled",)),
    (expired, ("OutrunByRetention",)),
    (never_recorded, ("CheckpointStale",)),
    (corrupt, ("CorruptRecord",)),
    (skipped, ("QueueOffsetsShifted",)),
    (gap, ("ConsumeQueueGap",)),
    (out_of_turn, ("RecordWaiting",)),
    (filling, ("OutputFilling", "OutputFull", "WriteFailure")),
    (small_heap, ("HeapFull",)),
    (too_few, ("TooFew",)),
    (one_of_two, ("StoreFailed",)),
    (stopped_writer, ("WriterSilent",)),
    (stopped_planner, ("PlannerStopped",)),
    (hung_start, ("QueryInactive",)),
    (killed, ("Missing",)),
    (kafka_slow, ("KafkaBehind",)),
    (kafka_killed, ("KafkaAway",)),
    (kafka_refuses, ("KafkaDeadLetters",)),
    (kafka_stopped, ("KafkaStopped",)),
)


def pod_of(cause: Callable[[Place], None]) -> str:
    """Return the name of a cause's store."""
    return cause.__name__.replace("_", "-")
