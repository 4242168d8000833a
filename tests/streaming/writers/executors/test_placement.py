"""Stores that are written beside executors: equal bytes, one writer, whatever dies or comes twice."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pickle
import resource
import signal
import socket
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from reput.checkpoints import progress
from reput.checkpoints.disk import locks
from reput.formats.errors import (
    FormatError,
    KafkaError,
    ReputError,
    StoreError,
    StuckError,
    UsageError,
)
from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.events import TRUNCATION, kind_of_event
from reput.streaming.job import reach
from reput.streaming.job.job import Job
from reput.streaming.settings.kafka import kafka_settings
from reput.streaming.settings.model.choices import Placement
from reput.streaming.verify.output import verify
from reput.streaming.writers.base import UnreachableError
from reput.streaming.writers.counted import Counted, Mark
from reput.streaming.writers.executors import orders, protocol
from reput.streaming.writers.executors import process as writer_process
from reput.streaming.writers.executors import task as writer_task
from reput.streaming.writers.executors.listening import Listener
from reput.streaming.writers.executors.orders import ExecutorWriters
from reput.streaming.writers.executors.protocol import (
    CLOSE,
    DISPATCH,
    DRAIN,
    END,
    TEND,
    Order,
    Spec,
    error_of,
    failure_of,
)
from reput.streaming.writers.executors.spark_job import grouped, run_tasks
from reput.streaming.writers.job_options import JobOptions
from reput.streaming.writers.placement_mode import default_placement
from tests.builders import waiting
from tests.builders.brokers import Broker
from tests.builders.hanging import hanging
from tests.builders.jobs import running, wait_for
from tests.builders.slow_twins import differences
from tests.builders.stores import LOG_FILE, config_of, files_of, name_batch_topics
from tests.kafka.broker import free_port

spark_test = pytest.mark.spark
NOW = JobOptions(available_now=True, placement=Placement.EXECUTORS)
SYNC = JobOptions(sync_flush=True)
# Nothing is flushed in the time of a test.
LAZY = JobOptions(flush_seconds=3600)
LIVE = JobOptions(sync_flush=True, placement=Placement.EXECUTORS)
# Spark's, as far as the driver's side asks it.
CONTEXT = SimpleNamespace(applicationId="application")


def test_a_cluster_writes_on_its_executors():
    assert default_placement("local[*]") == Placement.DRIVER
    assert default_placement("spark://127.0.0.1:7077") == Placement.EXECUTORS


@pytest.mark.parametrize(
    "error",
    [
        ReputError("corrupt"),
        UsageError("no such setting"),
        OSError(28, "No space left on device", "/a/file"),
    ],
)
def test_an_error_comes_back_as_itself(error):
    """
    The command's exit code and message hang on its kind.
    """
    back = error_of(failure_of(error))

    assert type(back) is type(error)
    assert str(back) == str(error)


def test_what_an_output_that_begins_again_dispatches_is_new(made):
    """
    A start after a cut that leaves nothing in common: its messages are counted, and starts,
    recoveries and truncations continue where they were, though the output is empty.
    """
    broker, config = made
    broker.append(60)
    counted = Counted()

    def dispatch() -> int:
        dispatcher = StoreDispatcher(config)
        batches = counted.begin(dispatcher)
        batches += counted.take([dispatcher.dispatch(broker.log.end)], dispatcher.progress)
        dispatcher.close()
        return sum(batch.messages for batch in batches)

    assert dispatch() == 60
    broker.recover(broker.log.places[-10].position)
    broker.append(3, now=broker.messages.now + 9000)
    dispatch()
    before = progress.load(config.output)
    kept = next(i for i, p in enumerate(broker.log.places) if p.position >= LOG_FILE) + 1
    broker.recover(broker.log.places[kept].position)
    broker.append(5, now=broker.messages.now + 9000)
    (broker.store / "commitlog" / f"{0:020d}").unlink()
    new = dispatch()
    after = progress.load(config.output)

    assert after.lost == ((0, LOG_FILE),)
    assert new == after.messages == 6
    assert (before.truncations, after.truncations) == (1, 2)
    assert (before.starts, after.starts) == (2, 3)
    assert after.recoveries == before.recoveries + 1


@pytest.fixture
def made(tmp_path):
    broker = Broker(tmp_path / "store", 3)
    name_batch_topics(broker.store, "batches")
    return broker, config_of(broker.store, tmp_path / "out")


@pytest.fixture
def frozen():
    """Let what opens a file hang within the system call, as on a disk that does not answer."""
    pipes = []

    def freeze(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        pipes.append(path)

    yield freeze
    for pipe in pipes:
        with contextlib.suppress(OSError):
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


def away(**settings):
    """Return a way to a Kafka that is not there."""
    return kafka_settings({"bootstrap": f"127.0.0.1:{free_port()}", **settings})


def greet_as_another(listener):
    """Greet as the writer of another job does, which was left, and say nothing more."""
    hello = protocol.Hello("another", "reput, process 7 on host,", is_left=True)
    with contextlib.suppress(OSError):
        while True:
            protocol.send(listener.accept()[0], json.dumps(hello._asdict()).encode())


def answer_with(listener, spec):
    """Answer one order, as the writer of an output does, with the output's name."""
    connection, _ = listener.accept()
    with connection:
        hello = protocol.Hello(spec.job, "reput, process 7 on host,", is_left=False)
        protocol.send(connection, json.dumps(hello._asdict()).encode())
        protocol.receive(connection)
        protocol.send(connection, spec.output.encode())


# Between two orders a writer does what is due.
wait_until = partial(waiting.wait_until, pause=0.5)


def order(kind: str, end: int = -1, **values) -> Order:
    return Order(kind, end, **{"patience": 1.0, "executor": os.getpid(), **values})


class Carrier:
    """Speaks to writers as tasks do, without Spark."""

    def __init__(self, config, job="job", options=SYNC):
        self.spec = Spec.of(job, config, options)

    def send(self, kind, end=-1, **values):
        carried = writer_task._speak(self.spec, order(kind, end, **values))
        return protocol.answer_of(carried) if carried else None

    @property
    def process(self) -> int:
        """The writer's process, as its lock names it."""
        text = Path(self.spec.output, progress.STATE_DIRECTORY, locks.WRITER_LOCK).read_text()
        return int(text.split("process ")[1].split()[0])


@pytest.fixture
def carrier(made):
    carrier = Carrier(made[1])
    yield carrier
    carrier.send(CLOSE, starts=False)
    writer_task._started[-1].wait(30)


class TestWriter:
    """The process, spoken to by this one in the place of tasks."""

    def test_it_writes_what_a_driver_writes(self, made, carrier):
        broker, config = made
        end = broker.append(60)
        first = carrier.send(TEND)
        answer = carrier.send(DISPATCH, end)
        assert (first.end, answer.end, answer.failure) == (-1, end, None)
        assert sum(batch.messages for batch in answer.batches) == 60
        carrier.send(CLOSE)

        assert differences(files_of(config.output), broker.expected(config.settings)) == []
        assert not (config.output / names.ABORT).exists()

    def test_an_order_that_comes_twice_changes_and_counts_nothing(self, made, carrier):
        """
        A task whose answer was lost, or a second attempt beside the first.
        """
        broker, config = made
        middle = broker.append(30)
        carrier.send(DISPATCH, middle)
        again = carrier.send(DISPATCH, middle)
        assert [batch.messages for batch in again.batches] == [30, 0]
        seen = (again.incarnation, 2)
        end = broker.append(30)
        results = []
        tasks = [
            threading.Thread(target=lambda: results.append(carrier.send(DISPATCH, end, seen=seen)))
            for _ in range(4)
        ]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join(60)
        assert {answer.first for answer in results} == {2}
        assert {answer.batches[0].messages for answer in results} == {30}
        carrier.send(CLOSE)
        carrier.send(CLOSE)

        assert differences(files_of(config.output), broker.expected(config.settings)) == []

    def test_a_killed_one_is_replaced_and_loses_nothing(self, made):
        broker, config = made
        carrier = Carrier(config, options=LAZY)
        carrier.send(DISPATCH, broker.append(40))
        killed = carrier.process
        os.kill(killed, signal.SIGKILL)
        end = broker.log.end
        answer = carrier.send(CLOSE, end)

        assert answer.end == end
        assert any("killed" in e or "rolled back" in e for b in answer.batches for e in b.events)
        assert differences(files_of(config.output), broker.expected(config.settings)) == []
        assert not (config.output / names.ABORT).exists()

    @pytest.mark.parametrize("is_sync", [False, True])
    def test_what_killed_ones_had_done_is_counted_once(self, made, is_sync):
        """
        Each is killed after its batch, four times: with nothing recorded the next one does all
        of it again; with all recorded, and an answer that was lost, the next one does nothing.
        """
        broker, config = made
        carrier = Carrier(config, options=replace(LAZY, sync_flush=is_sync))
        counted, seen, found = Mark(), ("", 0), []

        def send(kind, end, *, is_lost=False):
            nonlocal counted, seen
            answer = carrier.send(kind, end, seen=seen, counted=counted)
            if not is_lost:
                seen, counted = answer.seen, answer.counted
                found.extend(answer.batches)

        for _ in range(4):
            send(DISPATCH, broker.append(20))
            send(DISPATCH, broker.append(10), is_lost=is_sync)
            os.kill(carrier.process, signal.SIGKILL)
        send(CLOSE, broker.log.end)
        twin = StoreDispatcher(replace(config, output=config.output.with_name("twin")))
        whole = twin.dispatch(broker.log.end)
        twin.close()

        assert sum(batch.messages for batch in found) == whole.messages == 120
        assert sum(batch.bytes for batch in found) == whole.bytes
        if not is_sync:
            # An output's record has no number of entries: what was recorded and not said is lost.
            for name in ("entries", "items", "repeated"):
                assert sum(getattr(batch, name) for batch in found) == getattr(whole, name)
            assert sum(sum(batch.latencies) for batch in found) == 120
        assert differences(files_of(config.output), broker.expected(config.settings)) == []

    @pytest.mark.parametrize("is_sync", [False, True])
    def test_one_that_cannot_open_at_once_counts_what_was_done_once(self, made, is_sync):
        """
        The store is away when the writer is killed, and comes back between two orders.
        """
        broker, config = made
        carrier = Carrier(config, options=replace(LAZY, sync_flush=is_sync))
        first = carrier.send(DISPATCH, broker.append(20))
        counted = first.counted
        os.kill(carrier.process, signal.SIGKILL)
        broker.store.rename(broker.store.with_name("away"))
        failed = carrier.send(TEND, broker.log.end, counted=counted)
        assert failed.failure is not None
        assert failed.counted == counted
        broker.store.with_name("away").rename(broker.store)
        end = broker.append(10)
        found, seen = [], failed.seen
        deadline = time.monotonic() + 30
        while counted.end < end:
            assert time.monotonic() < deadline
            time.sleep(0.2)
            answer = carrier.send(TEND, end, seen=seen, counted=counted)
            found += answer.batches
            seen, counted = answer.seen, answer.counted
        carrier.send(CLOSE)

        assert sum(batch.messages for batch in found) == 10
        assert sum(batch.bytes for batch in found) == end - first.end

    def test_one_that_dies_each_time_is_given_up(self, made, monkeypatch):
        """
        What the kernel kills for its memory would be killed for ever.
        """
        _, config = made
        carrier = Carrier(config)
        deaths = []

        def ask(connection, order):
            deaths.append(1)
            return b""

        monkeypatch.setattr(writer_task, "_ask", ask)
        with pytest.raises(ReputError, match="died 3 times"):
            carrier.send(DISPATCH, 100)
        monkeypatch.undo()
        carrier.send(CLOSE, starts=False)

    def test_another_job_is_refused(self, made, carrier):
        _, config = made
        carrier.send(TEND)
        with pytest.raises(ReputError, match=r"process \d+ on .* is writing to this output"):
            Carrier(config, "another").send(TEND)

    def test_another_job_of_a_later_version_is_refused_by_its_name(self, made):
        """
        Its greeting may say more than this version knows.
        """
        _, config = made
        carrier = Carrier(config)
        hello = {"job": "another", "holder": "reput, process 7 on host,", "is_left": False}
        frame = json.dumps({**hello, "version": "2.0"}).encode()

        def greet(listener: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while True:
                    protocol.send(listener.accept()[0], frame)

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(protocol.address_of(carrier.spec.output))
            listener.listen()
            threading.Thread(target=greet, args=[listener], daemon=True).start()
            with pytest.raises(StoreError, match="process 7 on host, is writing to this output"):
                carrier.send(TEND)
            listener.shutdown(socket.SHUT_RDWR)

    @pytest.mark.parametrize(("options", "error"), [(SYNC, TimeoutError), (NOW, StoreError)])
    def test_another_jobs_writer_that_has_to_end_and_hangs(self, made, monkeypatch, options, error):
        """
        A live job has other stores to speak to meanwhile.
        """
        monkeypatch.setattr(writer_task, "_ANSWER_SECONDS", 0.5)
        monkeypatch.setattr(writer_task, "_LEFT_PATIENCE", 1.5)
        carrier = Carrier(made[1], options=options)

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(protocol.address_of(carrier.spec.output))
            listener.listen()
            threading.Thread(target=greet_as_another, args=[listener], daemon=True).start()
            with pytest.raises(error):
                carrier.send(TEND)
            listener.shutdown(socket.SHUT_RDWR)

    def test_one_that_greets_no_one_for_long_hangs(self, made):
        """
        No more connections wait for it than a system keeps, which is another error then.
        """
        carrier = Carrier(made[1])
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            listener.bind(protocol.address_of(carrier.spec.output))
            listener.listen(0)
            stack.enter_context(writer_task._connect(carrier.spec, 0.2))
            with pytest.raises(TimeoutError):
                writer_task._connect(carrier.spec, 0.2)

    @pytest.mark.parametrize("greets", [False, True])
    def test_one_that_was_silent_takes_no_longer_than_its_share(self, made, monkeypatch, greets):
        """
        Neither one that does not even greet, nor another job's that has to end and hangs.
        """
        monkeypatch.setattr(writer_task, "_GREETING_SECONDS", 3600.0)
        monkeypatch.setattr(writer_task, "_ANSWER_SECONDS", 3600.0)
        carrier = Carrier(made[1], options=LIVE)

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(protocol.address_of(carrier.spec.output))
            listener.listen()
            if greets:
                threading.Thread(target=greet_as_another, args=[listener], daemon=True).start()
            asked = writer_task.Task(carrier.spec, order(TEND, answer_within=0.2), "")
            found = []
            asking = threading.Thread(
                target=lambda: found.append(writer_task.carry(asked)), daemon=True
            )
            asking.start()
            asking.join(30)
            listener.shutdown(socket.SHUT_RDWR)

        assert [type(error_of(each.failure)) for each in found] == [StuckError]

    def test_an_order_may_say_more_than_a_writer_knows(self, made, carrier):
        broker, _ = made
        broker.append(3)
        carrier.send(TEND)
        wanted = order(DISPATCH, broker.log.end)._asdict()

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(protocol.address_of(carrier.spec.output))
            assert protocol.Hello.read(protocol.receive(connection)).job == carrier.spec.job
            protocol.send(connection, json.dumps({**wanted, "colour": "blue"}).encode())
            answer = protocol.answer_of(protocol.receive(connection))

        assert (answer.failure, answer.end) == (None, broker.log.end)

    def test_a_lock_of_another_process_is_waited_for_and_then_refused(self, made):
        """
        On another host, or in a driver: nobody answers to the name, but the lock is held.
        """
        broker, config = made
        end = broker.append(5)
        owner = StoreDispatcher(config)
        carrier = Carrier(config)
        refused = carrier.send(DISPATCH, end, patience=0.0)
        assert "is writing to this output" in str(error_of(refused.failure))
        threading.Timer(1.5, owner.close).start()
        answer = carrier.send(DISPATCH, end, patience=30.0)
        carrier.send(CLOSE)

        assert (answer.failure, answer.end) == (None, end)
        assert verify(config).ok

    def test_a_live_one_waits_for_a_lock_longer_than_its_task(self, made, monkeypatch):
        """
        The order was not answered; one that comes once the lock is free is.
        """
        broker, config = made
        monkeypatch.setattr(writer_task, "_ANSWER_SECONDS", 1.0)
        monkeypatch.setattr(writer_task, "_OPENING_SECONDS", 1.0)
        end = broker.append(5)
        owner = StoreDispatcher(config)
        carrier = Carrier(config)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                carrier.send(DISPATCH, end, patience=60.0)
        owner.close()
        monkeypatch.undo()
        answer = carrier.send(DISPATCH, end, patience=0.0)
        carrier.send(CLOSE)

        assert (answer.failure, answer.end) == (None, end)
        assert verify(config).ok

    def test_an_order_that_opens_has_its_patience_too(self, made, monkeypatch):
        """
        More than what else a live writer has for an answer.
        """
        broker, config = made
        monkeypatch.setattr(writer_task, "_ANSWER_SECONDS", 1.0)
        end = broker.append(5)
        owner = StoreDispatcher(config)
        carrier = Carrier(config)
        threading.Timer(4.0, owner.close).start()
        answer = carrier.send(DISPATCH, end, patience=9.0)
        carrier.send(CLOSE)

        assert (answer.failure, answer.end) == (None, end)

    def test_a_corrupt_record_comes_back_as_it_is_said(self, made, carrier):
        broker, config = made
        end = broker.append(60)
        place = broker.log.places[20]
        damage(broker, place)
        failure = error_of(carrier.send(DISPATCH, end).failure)
        again = error_of(carrier.send(DISPATCH, end).failure)
        carrier.send(CLOSE)

        assert type(failure) is FormatError
        assert (again.fields, str(again)) == (failure.fields, str(failure))
        assert failure.fields["position"] == place.position % LOG_FILE
        assert progress.load(config.output).end == place.position
        assert not (config.output / names.ABORT).exists()

    def test_a_full_disk_comes_back_as_it_is_said(self, made):
        """
        Here: files may not be larger than this. What was half written is rolled back.
        """
        broker, config = made
        end = broker.append(200)
        carrier = Carrier(config)
        carrier.send(TEND)
        _, hard = resource.prlimit(carrier.process, resource.RLIMIT_FSIZE)
        resource.prlimit(carrier.process, resource.RLIMIT_FSIZE, (100, hard))
        failure = error_of(carrier.send(DISPATCH, end).failure)
        carrier.send(CLOSE)
        assert (type(failure), failure.errno) == (OSError, errno.EFBIG)
        assert (config.output / names.ABORT).exists()
        carrier.send(CLOSE, end)

        assert differences(files_of(config.output), broker.expected(config.settings)) == []

    def test_what_a_failed_batch_had_to_say_is_reported(self, made, carrier):
        """
        That the log was cut; the error alone would hide it.
        """
        broker, _ = made
        broker.append(20)
        for place in [*broker.log.places, broker.log.places[-1]]:
            carrier.send(DISPATCH, place.end)
        broker.recover(broker.log.places[10].position)
        broker.append(3, now=broker.messages.now + 9000)
        bad = b"INNER_NUM\x0140000\x02INNER_BASE\x011\x02"
        end = broker.put(Message("t", properties=bad))
        answer = carrier.send(DISPATCH, end)

        assert "INNER_BASE" in str(error_of(answer.failure))
        events = [event for batch in answer.batches for event in batch.events]
        assert [kind_of_event(event) for event in events] == [TRUNCATION]

    def test_one_without_its_executor_ends_in_order(self, made, carrier):
        broker, config = made
        end = broker.append(10)
        gone = os.posix_spawn("/bin/sleep", ["sleep", "600"], os.environ)
        carrier.send(DISPATCH, end, executor=gone)
        os.kill(gone, signal.SIGKILL)
        os.waitpid(gone, 0)

        assert writer_task._started[-1].wait(30) == 0
        assert not (config.output / names.ABORT).exists()

    def test_one_that_nobody_speaks_to_ends_in_order(self, made, monkeypatch):
        """
        Its store has moved to another host, or its job can no longer reach it.
        """
        broker, config = made
        end = broker.append(10)
        monkeypatch.setattr(writer_process, "SILENCE_SECONDS", 1.0)
        spec = Spec.of("job", config, LAZY)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(protocol.address_of(spec.output))
        listener.listen()
        writer = writer_process.Writer(spec, listener, os.getpid())
        thread = threading.Thread(target=writer.run)
        thread.start()
        writer_task._speak(spec, order(DISPATCH, end))
        thread.join(30)

        assert not thread.is_alive()
        assert progress.load(config.output).clean
        assert not locks.is_held(config.output / progress.STATE_DIRECTORY / locks.WRITER_LOCK)

    def test_without_kafka_it_hears_orders_and_ends_at_once(self, made):
        """
        The driver may have to end meanwhile, and a writer that waits for Kafka hears nothing.
        """
        broker, config = made
        end = broker.append(10)
        carrier = Carrier(replace(config, kafka=away(request_seconds=0.2)))
        carrier.send(DISPATCH, end)
        waited = carrier.send(DRAIN, end, seconds=0.3)
        closed = carrier.send(CLOSE, end)

        assert (waited.is_drained, waited.failure, waited.end) == (False, None, end)
        assert (closed.failure, closed.state.kafka.is_confirmed) == (None, False)
        assert writer_task._started[-1].wait(protocol.SILENCE_SECONDS / 2) == 0
        assert progress.load(config.output).clean

    def test_a_store_that_got_well_before_it_is_closed_has_not_failed(self, made):
        """
        Its output is not flushed yet as the job ends, and closing records more.
        """
        broker, config = made
        carrier = Carrier(config, options=LAZY)
        carrier.send(DISPATCH, broker.append(30))
        away_now = broker.store.with_name("away")
        broker.store.rename(away_now)
        wait_until(lambda: carrier.send(TEND).failure)
        away_now.rename(broker.store)
        end = broker.append(10)
        wait_until(lambda: carrier.send(TEND).end == end)
        closed = carrier.send(CLOSE)

        assert (closed.failure, closed.end) == (None, end)

    def test_what_is_counted_of_kafka_continues_after_a_failure(self, made):
        """
        The output is opened again by the same process, with a client of its own.
        """
        broker, config = made
        carrier = Carrier(replace(config, kafka=away(request_seconds=0.2)))
        carrier.send(DISPATCH, broker.append(30))
        wait_until(lambda: carrier.send(TEND).state.kafka.retries >= 2)
        away_now = broker.store.with_name("away")
        broker.store.rename(away_now)
        failed = wait_until(lambda: (a := carrier.send(TEND)).failure and a)
        away_now.rename(broker.store)
        again = wait_until(lambda: not (a := carrier.send(TEND)).failure and a)
        carrier.send(CLOSE)

        assert again.state.kafka.retries >= failed.state.kafka.retries >= 2

    def test_it_ends_sending_and_stays_open(self, made):
        broker, config = made
        spec = Spec.of("job", replace(config, kafka=away(request_seconds=0.2)), LIVE)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(protocol.address_of(config.output))
        listener.listen()
        writer = writer_process.Writer(spec, listener, os.getpid())
        thread = threading.Thread(target=writer.run)
        thread.start()
        end = broker.append(10)
        speak = partial(writer_task._speak, spec)
        try:
            speak(order(DISPATCH, end))
            sending = next(each for each in threading.enumerate() if each.name == "kafka-store")
            speak(order(END, end))
            sending.join(60)
            assert not sending.is_alive()
            end = broker.append(10)
            wait_until(lambda: protocol.answer_of(speak(order(TEND))).end == end)
        finally:
            speak(order(CLOSE))
            thread.join(60)

        assert not thread.is_alive()
        assert progress.load(config.output).clean

    def test_a_kafka_that_stays_away_is_said_and_the_output_closed(self, made):
        """
        The bound of an outage ends the job, whose outputs close in order all the same.
        """
        broker, config = made
        end = broker.append(10)
        settings = away(request_seconds=0.2, retry_seconds=0.5)
        carrier = Carrier(replace(config, kafka=settings))
        carrier.send(DISPATCH, end)
        waited = carrier.send(DRAIN, end, seconds=60.0)
        carrier.send(CLOSE, end)

        assert not waited.is_drained
        assert isinstance(error_of(waited.failure), KafkaError)
        assert "nothing is lost" in str(error_of(waited.failure))
        assert writer_task._started[-1].wait(protocol.SILENCE_SECONDS / 2) == 0
        assert progress.load(config.output).clean

    def test_a_store_without_kafka_is_drained(self, made, carrier):
        broker, _ = made

        assert carrier.send(DRAIN, broker.append(10), seconds=60.0).is_drained

    def test_sigterm_ends_it_in_order(self, made, carrier):
        broker, config = made
        carrier.send(DISPATCH, broker.append(10))
        writer_task._started[-1].send_signal(signal.SIGTERM)

        assert writer_task._started[-1].wait(30) == 0
        assert not (config.output / names.ABORT).exists()

    def test_a_live_one_whose_disk_hangs_is_left_at_the_end(self, made, monkeypatch):
        """
        It still greets, from a thread of its own, and answers neither this order nor the last.
        """
        broker, config = made
        carrier = Carrier(config)
        assert carrier.send(DISPATCH, broker.append(10)).failure is None
        monkeypatch.setattr(writer_task, "_ANSWER_SECONDS", 1.0)
        monkeypatch.setattr(writer_task, "_CLOSING_SECONDS", 1.0)
        with hanging(config.output):
            broker.append(10)
            time.sleep(1.0)
            for kind in (TEND, CLOSE):
                with pytest.raises(TimeoutError):
                    carrier.send(kind)

    def test_a_rebuild_waits_for_one_whose_disk_hangs(self, made, monkeypatch):
        """
        It has one end to come to, and no other store that waits.
        """
        broker, config = made
        monkeypatch.setattr(writer_task, "_CLOSING_SECONDS", 0.5)
        carrier = Carrier(config, options=replace(NOW, flush_seconds=3600))
        carrier.send(DISPATCH, broker.append(10))
        answers = []
        closing = threading.Thread(target=lambda: answers.append(carrier.send(CLOSE)))
        with hanging(config.output) as let_go:
            closing.start()
            closing.join(2.0)
            assert closing.is_alive()
            let_go()
            closing.join(30)

        assert isinstance(error_of(answers[0].failure), OSError)


def test_an_order_whose_task_has_gone_is_passed_over(tmp_path):
    """
    A writer that stood still answers first what is waited for; the last order holds in any case.
    """
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(str(tmp_path / "name"))
        listener.listen()
        listening = Listener(listener, "job", lambda: False)
        listening.start()
        for kind, has_gone in ((DISPATCH, True), (TEND, False), (CLOSE, True), (TEND, True)):
            task = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            task.connect(str(tmp_path / "name"))
            assert protocol.Hello.read(protocol.receive(task)).job == "job"
            protocol.send(task, json.dumps(order(kind)._asdict()).encode())
            if has_gone:
                task.close()
        taken = []
        while (came := listening.next(1.0)) is not None:
            taken.append(came[1].kind)
            came[0].close()
        listening.stop()

    assert taken == [TEND, CLOSE]


def damage(broker, place) -> Path:
    path = broker.store / names.COMMITLOG / names.offset_file(place.position // LOG_FILE * LOG_FILE)
    raw = bytearray(path.read_bytes())
    raw[place.position % LOG_FILE + 4] ^= 1
    path.write_bytes(raw)
    return path


@spark_test
class TestJob:
    """The whole job, in local mode: its one executor is the driver's JVM."""

    def test_several_stores_are_written_as_by_the_driver(self, spark, tmp_path):
        brokers = [Broker(tmp_path / f"store-{i}", i) for i in range(3)]
        configs = []
        for number, broker in enumerate(brokers):
            broker.append(80 + number)
            config = config_of(broker.store, tmp_path / f"out-{number}")
            configs.append(replace(config, name=f"s{number}"))
        options = replace(NOW, max_batch_bytes=20_000)
        summary = Job(configs, options).run(spark)

        assert [store.messages for store in summary.stores] == [80, 81, 82]
        assert summary.stores[0].batches > 1
        assert summary.writer_cpu_seconds > 0
        for broker, config in zip(brokers, configs, strict=True):
            assert differences(files_of(config.output), broker.expected(config.settings)) == []
            assert not (config.output / names.ABORT).exists()

    def test_a_writer_that_is_killed_between_batches_is_replaced(self, spark, made):
        broker, config = made
        with running(spark, [config], replace(LIVE, sync_flush=False)) as job:
            wait_for(job, broker.append(30))
            os.kill(Carrier(config).process, signal.SIGKILL)
            wait_for(job, broker.append(30))
            events = job.summary.stores[0].events

        assert any("rolled back" in event for event in events)
        assert job.summary.stores[0].messages == 60
        assert job.summary.stores[0].bytes == broker.log.end
        assert differences(files_of(config.output), broker.expected(config.settings)) == []

    def test_one_that_is_killed_before_the_end_is_made_up_for(self, spark, made):
        """
        Nothing of its last batches is on disk for certain, and no further batch comes.
        """
        broker, config = made
        with running(spark, [config], replace(LIVE, sync_flush=False)) as job:
            wait_for(job, broker.append(30))
            os.kill(Carrier(config).process, signal.SIGKILL)

        assert differences(files_of(config.output), broker.expected(config.settings)) == []
        assert not (config.output / names.ABORT).exists()

    def test_a_corrupt_record_stops_the_job_with_the_same_words(self, spark, made):
        broker, config = made
        broker.append(60)
        place = broker.log.places[20]
        path = damage(broker, place)
        messages = []
        for placement in Placement:
            job = Job([config], replace(NOW, placement=placement))
            with pytest.raises(ReputError, match=str(path)) as caught:
                job.run(spark)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
        assert progress.load(config.output).end == place.position
        assert not (config.output / names.ABORT).exists()

    def test_an_error_of_the_system_stops_it_as_itself(self, spark, made, tmp_path):
        broker, config = made
        broker.append(5)
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / progress.STATE_DIRECTORY).touch()
        config = replace(config, output=tmp_path / "other")
        errors = []
        for placement in Placement:
            with pytest.raises(FileExistsError) as caught:
                Job([config], replace(NOW, placement=placement)).run(spark)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]

    def test_a_second_job_is_refused_whatever_way_it_writes(self, spark, made):
        broker, config = made
        with running(spark, [config], LIVE) as job:
            wait_for(job, broker.append(10))
            with pytest.raises(ReputError, match="is writing to this output"):
                Job([config], NOW).run(spark)
            with pytest.raises(ReputError, match="is writing to this output"):
                Job([config], replace(NOW, placement=Placement.DRIVER))
            wait_for(job, broker.append(10))

    def test_what_was_waited_with_is_dispatched_when_the_broker_stops(self, spark, made, held):
        broker, config = made
        let_go = held(broker.store)
        broker.append(10)
        middle = broker.log.end
        with running(spark, [config], LIVE) as job:
            wait_for(job, middle)
            end = broker.append(1, now=broker.messages.now - 900_000)
            time.sleep(1.5)
            assert job.summary.stores[0].end == middle
            let_go()
            wait_for(job, end)

        assert differences(files_of(config.output), broker.expected(config.settings)) == []


def test_silent_writers_are_asked_last_and_together_not_for_longer_than_one(made, monkeypatch):
    """
    As many hang as share a disk, and tasks run a few at a time: the others hear of the job.
    """
    configs = [replace(made[1], name=name) for name in "abcd"]
    sent = []

    def run(_, tasks):
        sent[:] = tasks
        hangs = protocol.failure_of(StuckError(made[1].output, 1.0))
        silent = [task.spec.name in "abc" for task in tasks]
        return [writer_task.TaskResult("", b"", hangs if each else None) for each in silent]

    monkeypatch.setattr(orders, "run_tasks", run)
    writers = ExecutorWriters(configs, LIVE)
    writers.open(SimpleNamespace(sparkContext=CONTEXT))
    writers.dispatch(dict.fromkeys("abcd", 100))
    limits = {task.spec.name: writer_task._limit(*task[:2], is_new=False) for task in sent}

    kinds = [(task.spec.name, task.order.kind, task.order.end) for task in sent]
    assert kinds == [("d", DISPATCH, 100), *((name, TEND, 100) for name in "abc")]
    assert limits["d"] == writer_task._ANSWER_SECONDS
    assert limits["a"] + limits["b"] + limits["c"] == pytest.approx(orders._SILENT_SECONDS)
    assert sum(limits.values()) < protocol.SILENCE_SECONDS

    writers.close(has_failed=False, is_ending=lambda: True)
    assert [(task.spec.name, task.order.kind) for task in sent] == [(n, CLOSE) for n in "abc"]
    last = [writer_task._limit(*task[:2], is_new=False) for task in sent]
    assert last == [writer_task._CLOSING_SECONDS] * 3


@pytest.mark.parametrize(
    ("kind", "seen"), [(END, ""), (CLOSE, ""), (DISPATCH, "one"), (TEND, "one"), (TEND, "")]
)
def test_writers_of_a_host_are_spoken_to_at_the_same_time(made, monkeypatch, kind, seen):
    """
    A disk of several stores may hang, and Spark runs as many tasks as there are cores.

    Only where one is to be started first, Spark finds the place.
    """
    meeting = threading.Barrier(3)

    def carry(task):
        meeting.wait(30)
        return writer_task.TaskResult(task.spec.name, b"")

    def tasks(options, hosts):
        specs = [Spec.of("job", replace(made[1], name=name), options) for name in "abcd"]
        return [
            writer_task.Task(spec, order(kind, seen=(seen, 0)), host)
            for spec, host in zip(specs, hosts, strict=True)
        ]

    monkeypatch.setattr(writer_task, "carry", carry)
    asked = tasks(LIVE, ["x", "y", "x", "x"])
    together = [[0, 2, 3], [1]] if seen or kind != TEND else [[0], [1], [2], [3]]
    assert grouped(asked) == together
    found = writer_task.carry_all([asked[number] for number in (0, 2, 3)])
    assert [each.host for each in found] == ["a", "c", "d"]
    # A rebuild waits for each as long as it takes, and its closing is work.
    assert grouped(tasks(NOW, ["x"] * 4)) == [[0], [1], [2], [3]]


@spark_test
@pytest.mark.parametrize("kind", [TEND, CLOSE])
def test_each_writer_gets_its_own_answer(made, spark, kind):
    """
    They come back by host, in whatever order these were asked.
    """
    specs = [Spec.of("job", replace(made[1], output=made[1].output / name), LIVE) for name in "abc"]
    asked = [
        writer_task.Task(spec, order(kind, starts=False), host)
        for spec, host in zip(specs, ["x", "", "x"], strict=True)
    ]
    with contextlib.ExitStack() as stack:
        for spec in specs[1:]:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            listener.bind(protocol.address_of(spec.output))
            listener.listen()
            threading.Thread(target=answer_with, args=[listener, spec], daemon=True).start()
        found = run_tasks(spark.sparkContext, asked)

    assert [each.answer for each in found] == [b"", *(spec.output.encode() for spec in specs[1:])]


def test_the_waits_for_kafka_of_several_writers_do_not_add_up(tmp_path, monkeypatch):
    """
    Tasks run a few at a time, so all hear that sending ends before one is closed.
    """
    configs = []
    for number, name in enumerate("abc"):
        broker = Broker(tmp_path / name / "store", number)
        broker.append(10)
        config = replace(config_of(broker.store, tmp_path / name / "out"), name=name)
        configs.append(replace(config, kafka=away() if name != "c" else None))
    rounds = []

    def run(_, tasks):
        rounds.append([(task.spec.name, task.order.kind) for task in tasks])
        return [writer_task.carry(task) for task in tasks]

    monkeypatch.setattr(orders, "run_tasks", run)
    writers = ExecutorWriters(configs, LIVE)
    writers.open(SimpleNamespace(sparkContext=CONTEXT))
    closed = writers.close(has_failed=False, is_ending=lambda: True)

    assert rounds[1:] == [[("a", END), ("b", END)], [("a", CLOSE), ("b", CLOSE), ("c", CLOSE)]]
    assert [result.error for result in closed] == [None] * len(closed)
    assert all(progress.load(config.output).clean for config in configs)


def test_writers_that_are_busy_as_sending_ends_have_all_their_time_to_close(made, monkeypatch):
    """
    They have 2 s to hear of that, and a flush may take longer: none of them was silent before.
    """
    configs = [replace(made[1], name=name, kafka=away()) for name in "abcdef"]
    sent = []

    def run(_, tasks):
        sent[:] = tasks
        if tasks[0].order.kind == END:
            busy = protocol.failure_of(StuckError(made[1].output, 2.0))
            found = [task.spec.name > "b" for task in tasks]
            return [writer_task.TaskResult("", b"", busy if each else None) for each in found]
        answer = protocol.Answer("one", 0, [], None, 0.0, Mark(), None)
        return [writer_task.TaskResult("", pickle.dumps(answer)) for _ in tasks]

    monkeypatch.setattr(orders, "run_tasks", run)
    writers = ExecutorWriters(configs, LIVE)
    writers.open(SimpleNamespace(sparkContext=CONTEXT))
    closed = writers.close(has_failed=False, is_ending=lambda: True)

    assert [(task.spec.name, task.order.kind) for task in sent] == [(n, CLOSE) for n in "abcdef"]
    limits = {writer_task._limit(*task[:2], is_new=False) for task in sent}
    assert limits == {writer_task._CLOSING_SECONDS}
    assert [result.error for result in closed] == [None] * len(closed)


def test_a_store_that_got_well_has_not_failed_for_the_end_of_its_sending(tmp_path, monkeypatch):
    """
    Whether it is well shows as its output is closed, after sending has ended.
    """
    brokers, configs = [], []
    for number, name in enumerate("ab"):
        brokers.append(Broker(tmp_path / name / "store", number))
        config = replace(config_of(brokers[-1].store, tmp_path / name / "out"), name=name)
        configs.append(replace(config, kafka=away()))
    monkeypatch.setattr(orders, "run_tasks", lambda _, tasks: list(map(writer_task.carry, tasks)))
    writers = ExecutorWriters(configs, replace(LAZY, placement=Placement.EXECUTORS))
    writers.open(SimpleNamespace(sparkContext=CONTEXT))
    try:
        writers.dispatch(
            {each.name: broker.append(10) for each, broker in zip(configs, brokers, strict=True)}
        )
        away_now = brokers[0].store.with_name("away")
        brokers[0].store.rename(away_now)
        wait_until(lambda: any(each.error for each in writers.dispatch({"a": 1})))
        away_now.rename(brokers[0].store)
        end = brokers[0].append(10)
        wait_until(lambda: writers.dispatch({"a": end}) and writers.end("a") == end)
    finally:
        closed = writers.close(has_failed=False, is_ending=lambda: True)

    assert [result.error for result in closed] == [None] * len(closed)
    assert [writers.failure(each.name) for each in configs] == [None, None]


def test_a_signal_while_the_writers_close_is_no_error(made, monkeypatch):
    """
    It ends Spark as well: what counts is that the job was asked to end when Spark was found gone.
    """
    job = Job([made[1]], JobOptions(available_now=True, placement=Placement.EXECUTORS))

    def signalled(*_: object, **__: object) -> None:
        job.stop()
        raise UnreachableError("Spark could not reach the stores' writers: connection refused")

    monkeypatch.setattr(ExecutorWriters, "_send", signalled)
    monkeypatch.setattr(ExecutorWriters, "_are_closed", lambda _: True)
    job._close()

    assert job.error is None


def test_spark_that_is_gone_before_an_order_could_not_be_reached(made):
    """
    Else a job that was asked to end, as Spark was, would not look whether all outputs are closed.
    """

    class Gone:
        def __getattr__(self, name: str) -> object:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    sent = writer_task.Task(Spec.of("job", made[1], LIVE), order(CLOSE), "")
    with pytest.raises(UnreachableError, match="Connection refused"):
        run_tasks(SimpleNamespace(_jvm=Gone()), [sent])


def test_a_disk_that_hangs_keeps_no_job_from_its_end_without_spark(made, monkeypatch, frozen):
    """
    It cannot be seen whether that output is closed.
    """
    monkeypatch.setattr(orders, "_CLOSING_SECONDS", 0.5)
    frozen(made[1].output / progress.STATE_DIRECTORY / names.PROGRESS)
    found = []
    looking = threading.Thread(
        target=lambda: found.append(ExecutorWriters([made[1]], LIVE)._are_closed()), daemon=True
    )
    looking.start()
    looking.join(30)

    assert found == [False]


def test_a_disk_that_hangs_keeps_no_job_from_its_end_before_it_began(made, monkeypatch, frozen):
    """
    A signal may come while Spark starts, before a writer was asked to open an output.
    """
    monkeypatch.setattr(reach, "PATIENCE_SECONDS", 0.5)
    frozen(made[1].output / progress.STATE_DIRECTORY / names.PROGRESS)
    errors = []

    def abandon() -> None:
        try:
            Job([made[1]], LIVE).abandon()
        except OSError as error:
            errors.append(error)

    ending = threading.Thread(target=abandon, daemon=True)
    ending.start()
    ending.join(30)

    assert [str(error.filename) for error in errors] == [str(made[1].output)]
    assert [error.strerror[:20] for error in errors] == ["no answer within 0.5"]


def test_a_wrong_flush_setting_is_refused_before_spark(made):
    """
    By the driver, as it is where the driver writes: no writer is started, no output opened.
    """
    _, config = made
    wrong = replace(config, properties={**config.properties, "flushIntervalConsumeQueue": "soon"})

    with pytest.raises(UsageError, match="flushIntervalConsumeQueue"):
        Job([wrong], JobOptions(placement=Placement.EXECUTORS))
    assert not (config.output / progress.STATE_DIRECTORY).exists()
