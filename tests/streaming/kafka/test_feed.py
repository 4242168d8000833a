"""Kafka beside dispatch where Kafka cannot be reached: what happens, and what is said of it."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import random
import socket
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from reput.checkpoints import progress
from reput.formats.errors import ReputError
from reput.sinks.kafka.client import producer
from reput.sinks.kafka.client.errors import AwayError
from reput.sinks.kafka.client.producer import Client
from reput.sinks.kafka.position.memory import Memory, remember, remembered
from reput.sinks.kafka.position.position import Position
from reput.sinks.kafka.position.start import Start
from reput.sinks.kafka.sent import Sent
from reput.sinks.kafka.sink import KafkaSink
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.kafka import feed as kafka_feed
from reput.streaming.kafka import position_file
from reput.streaming.kafka.state import KafkaState
from reput.streaming.writers.backoff import Backoff
from tests.builders.waiting import wait_until
from tests.kafka import stores

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.sinks.kafka.extent import Extent
    from reput.streaming.kafka.feed import KafkaFeed


def nowhere() -> str:
    """Return an address where nothing answers."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


@pytest.fixture
def written(tmp_path: Path) -> Any:
    return stores.write(tmp_path / "store", stores.messages(400, ("x",), random.Random(1)))


def config(tmp_path: Path, **settings: Any) -> Any:
    values = {"retry_seconds": 0.5, "request_seconds": 0.2, **settings}
    return stores.config(tmp_path / "store", tmp_path / "out", nowhere(), **values)


def test_an_outage_holds_back_kafka_only(tmp_path: Path, written: Any) -> None:
    """
    Long after `retry_seconds` the job still dispatches, and the thread still tries.
    """
    dispatcher = StoreDispatcher(config(tmp_path))
    try:
        dispatcher.dispatch(written.places[200].position)
        feed = dispatcher.kafka
        assert feed is not None
        began = time.monotonic()
        wait_until(lambda: feed.state.retries >= 3 and time.monotonic() - began > 1)
        dispatcher.flush_if_due()
        batch = dispatcher.dispatch(written.end)
        before = feed.state.retries
        wait_until(lambda: feed.state.retries > before)

        assert batch.messages == 200
        assert dispatcher.progress.end == written.end
        assert feed.state.is_connected is False
        assert "Kafka at" in feed.state.trouble
        assert not feed.state.stopped
    finally:
        dispatcher.close()


def test_a_place_that_cannot_be_written_down_holds_back_nothing(
    tmp_path: Path,
    written: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    With start = "latest" it is decided at the start all the same, and written down once it can be.
    """
    monkeypatch.setattr(position_file, "_WRITE_SECONDS", 0.1)
    memory = tmp_path / "out" / ".reput" / "kafka.json"
    blocked = memory.with_suffix(".new")
    blocked.mkdir(parents=True)
    dispatcher = StoreDispatcher(config(tmp_path, start="latest"))
    try:
        stores.write(tmp_path / "store", stores.messages(600, ("x",), random.Random(1)))
        batch = dispatcher.dispatch(written.end)
        feed = dispatcher.kafka
        assert feed is not None
        wait_until(lambda: feed.state.retries >= 2)
        assert (batch.messages, feed.state.stopped) == (400, "")
        assert "Kafka at" in feed.state.trouble
        blocked.rmdir()
        wait_until(memory.exists)
    finally:
        dispatcher.close()
    assert [r.getMessage().count("cannot be written") for r in caplog.records].count(1) == 1
    known = remembered(memory)
    assert known is not None
    assert known.latest is not None
    assert known.latest.end == written.end


def test_kafka_counts_as_away_from_the_first_attempt_on(
    tmp_path: Path, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Also while that one hangs; before it, when nothing is dispatched yet, nobody has tried.
    """
    tried, go_on = threading.Event(), threading.Event()

    def hang(*_: Any) -> None:
        tried.set()
        assert go_on.wait(60)
        raise AwayError("it hung")

    monkeypatch.setattr(KafkaSink, "open", hang)
    dispatcher = StoreDispatcher(config(tmp_path))
    try:
        feed = dispatcher.kafka
        assert feed is not None
        before = feed.state.is_connected
        dispatcher.dispatch(written.places[200].position)
        assert tried.wait(60)

        assert before is None
        assert feed.state.is_connected is False
    finally:
        go_on.set()
        dispatcher.close()


def test_what_ends_the_thread_is_said_by_its_state_alone(
    tmp_path: Path, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The job says it from there, once, as an error; an event of a batch would be a second line.
    """
    monkeypatch.setattr(KafkaSink, "open", lambda *_: (_ for _ in ()).throw(ReputError("refused")))
    dispatcher = StoreDispatcher(config(tmp_path))
    try:
        dispatcher.dispatch(written.places[200].position)
        feed = dispatcher.kafka
        assert feed is not None
        wait_until(lambda: bool(feed.state.stopped))
        feed._thread.join(60)
        batch = dispatcher.dispatch(written.end)

        assert feed.state.stopped == "refused"
        assert not [event for event in batch.events if "Kafka" in event]
    finally:
        dispatcher.close()


def test_a_disk_that_fails_is_looked_at_again(
    tmp_path: Path, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Kafka need not wait for a restart of the job once it is back.
    """

    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error", "/store")

    monkeypatch.setattr(KafkaSink, "open", failing)
    dispatcher = StoreDispatcher(config(tmp_path))
    try:
        dispatcher.dispatch(written.end)
        feed = dispatcher.kafka
        assert feed is not None
        wait_until(lambda: feed.state.retries >= 1)
        monkeypatch.undo()
        wait_until(lambda: "Kafka at" in feed.state.trouble)

        dispatcher.flush_if_due()
        assert not feed.state.stopped
    finally:
        dispatcher.close()


def test_a_job_that_is_to_stop_for_kafka_does(tmp_path: Path, written: Any) -> None:
    dispatcher = StoreDispatcher(config(tmp_path, on_failure="stop"))
    try:
        dispatcher.dispatch(written.end)
        feed = dispatcher.kafka
        assert feed is not None
        with pytest.raises(ReputError, match=r"Tried again for \d+ s \(retry_seconds is 0\.5"):  # noqa: PT012
            while True:
                dispatcher.flush_if_due()
                time.sleep(0.01)
    finally:
        dispatcher.close()


@pytest.mark.parametrize(("on_failure", "is_well"), [("stop", False), ("hold", True)])
def test_a_store_that_is_to_stop_for_kafka_is_not_well_without_it(
    tmp_path: Path, written: Any, on_failure: str, *, is_well: bool
) -> None:
    """
    It had failed, was opened again, and has dispatched all; neither then nor at its end.
    """
    backoff = Backoff()
    dispatcher = StoreDispatcher(config(tmp_path, on_failure=on_failure, retry_seconds=0))
    try:
        backoff.begin(dispatcher.recorded_end)
        dispatcher.dispatch(written.end)
        dispatcher.flush()
        assert backoff.is_well(dispatcher) == is_well
    finally:
        dispatcher.close()
    assert backoff.has_ended_well(dispatcher) == is_well


def test_a_job_that_has_an_end_does_not_end_well_without_kafka(
    tmp_path: Path, written: Any
) -> None:
    """
    Neither when its patience is over nor when somebody ends it before.
    """
    dispatcher = StoreDispatcher(config(tmp_path))
    try:
        dispatcher.dispatch(written.end)
        with pytest.raises(ReputError, match="Kafka does not have all of it"):
            dispatcher.drain_kafka(lambda: True)
        with pytest.raises(ReputError, match="nothing is lost"):
            dispatcher.drain_kafka(lambda: False)
    finally:
        dispatcher.close()


def test_a_kafka_that_does_not_answer_does_not_keep_the_job_from_its_end(
    tmp_path: Path, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It hangs for far longer than a service manager waits; the thread is left, and what comes later is the next start's.
    """
    begun, over = threading.Event(), threading.Event()

    def hanging(*_: object) -> None:
        begun.set()
        over.wait(600)

    monkeypatch.setattr(KafkaSink, "open", hanging)
    assert kafka_feed._END_SECONDS <= 5
    monkeypatch.setattr(kafka_feed, "_END_SECONDS", 0.1)
    dispatcher = StoreDispatcher(config(tmp_path))
    dispatcher.dispatch(written.end)
    assert begun.wait(60)
    dispatcher.close()
    feed = dispatcher.kafka
    assert feed is not None
    was_left = feed._thread.is_alive()
    over.set()

    assert was_left
    assert not feed.is_done


def test_an_output_that_cannot_be_written_does_not_slow_down_kafka(
    tmp_path: Path, written: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Only what the next process says until it has asked Kafka is written there. It is said once.
    """

    def open_it(sink: KafkaSink, _: object) -> None:
        sink._client = SimpleNamespace(in_flight=0)  # type: ignore[assignment]
        sink.position = Position(0)

    def send(sink: KafkaSink, extent: Extent) -> Sent:
        assert sink.position is not None
        end = min(sink.position.end + 1000, extent.end)
        sent = Sent(sink.position.end, end)
        sink.position = Position(end)
        return sent

    def failing(_: KafkaSink) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "kafka.json")

    for name, made in (("open", open_it), ("send", send), ("remember", failing)):
        monkeypatch.setattr(KafkaSink, name, made)
    monkeypatch.setattr(KafkaSink, "close", lambda sink: setattr(sink, "_client", None))
    monkeypatch.setattr(position_file, "_WRITE_SECONDS", 0.0)
    dispatcher = StoreDispatcher(config(tmp_path))
    try:
        dispatcher.dispatch(written.end)
        feed = dispatcher.kafka
        assert feed is not None
        wait_until(lambda: feed.is_done or feed.state.retries > 0)
        assert feed.state.retries == 0
        assert feed.state.end == written.end
    finally:
        dispatcher.close()
    assert sum("No space left" in r.message for r in caplog.records) == 1


@pytest.mark.parametrize("lacks", [0, 1])
def test_a_log_is_looked_at_for_kafka_while_kafka_lacks_some_of_it(
    tmp_path: Path, written: Any, monkeypatch: pytest.MonkeyPatch, lacks: int
) -> None:
    """
    Where Kafka has all, the thread rests until dispatch has something to say; where it lacks some
    that it could not be sent, because the log was being changed, it looks again.
    """
    sends: list[int] = []

    def open_it(sink: KafkaSink, extent: Extent) -> None:
        sink._client = SimpleNamespace(in_flight=0)  # type: ignore[assignment]
        sink.position = Position(extent.end - lacks)

    def send(sink: KafkaSink, extent: Extent) -> None:
        sends.append(extent.end)
        sink.position = Position(extent.end - lacks)

    for name, made in (("open", open_it), ("send", send), ("remember", lambda _: None)):
        monkeypatch.setattr(KafkaSink, name, made)
    monkeypatch.setattr(KafkaSink, "close", lambda sink: setattr(sink, "_client", None))
    monkeypatch.setattr(kafka_feed, "_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(kafka_feed, "_REST_SECONDS", 600.0)
    dispatcher = StoreDispatcher(config(tmp_path))
    try:
        feed = dispatcher.kafka
        assert feed is not None
        for place in (written.places[200].position, written.end):
            dispatcher.dispatch(place)
            wait_until(lambda: feed._settled == feed._extent)
            before = len(sends)
            if lacks:
                wait_until(lambda before=before: len(sends) > before + 3)  # type: ignore[misc]
            else:
                time.sleep(0.3)
                assert len(sends) <= before + 1
            assert sends[-1] == place
    finally:
        dispatcher.close()


def test_settings_that_the_client_does_not_take_are_not_an_outage(
    tmp_path: Path, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Another try changes nothing: it is held back, and said.
    """

    def refusing(**_: object) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(producer, "KafkaProducer", refusing)
    dispatcher = StoreDispatcher(config(tmp_path))
    try:
        dispatcher.dispatch(written.end)
        feed = dispatcher.kafka
        assert feed is not None
        wait_until(lambda: feed.state.stopped or feed.state.retries)
        assert "kafka-python does not take the settings" in feed.state.stopped
    finally:
        dispatcher.close()


def test_a_client_hears_only_its_own_reasons(tmp_path: Path) -> None:
    """
    All clients of a process log to one place, and each has a thread.
    """
    settings = config(tmp_path).kafka
    assert settings is not None
    is_over = threading.Event()

    def talk() -> None:
        while not is_over.wait(0.01):
            logging.getLogger("kafka.net.manager").error("Failed: %s", ValueError("another's"))

    other = threading.Thread(target=talk)
    other.start()
    try:
        with pytest.raises(AwayError, match="KafkaConnection: 111 ECONNREFUSED"):
            Client(settings, {}, "reput-x")
    finally:
        is_over.set()
        other.join()


def test_counts_continue_where_an_output_is_opened_again() -> None:
    """
    Where sending is now is said by the later state alone.
    """
    sent = Sent(0, 500, messages=7, notices=2, dead_letters=1, bytes=90, seconds=0.03)
    before = KafkaState(retries=4, trouble="away").after(sent, 1)
    after = KafkaState(end=500).after(replace(sent, end=900), 0).since(before)

    counts = after.messages, after.notices, after.dead_letters, after.bytes, after.retries
    assert counts == (14, 4, 2, 180, 4)
    assert (after.transactions, sum(after.seconds), after.truncations) == (2, 2, 1)
    assert (after.end, after.trouble) == (900, "")
    assert after.since(None) == after


class TestLag:
    def remember(self, tmp_path: Path, name: str, end: int, bootstrap: str = "") -> None:
        memory = Memory("c", f"reput-{name}", end, 5, bootstrap)
        remember(tmp_path / "out" / ".reput" / "kafka.json", memory)

    def opened(self, tmp_path: Path, written: Any) -> StoreDispatcher:
        dispatcher = StoreDispatcher(config(tmp_path))
        dispatcher.dispatch(written.end)
        return dispatcher

    def test_it_is_that_of_the_last_known_position_until_kafka_was_asked(
        self, tmp_path: Path, written: Any
    ) -> None:
        """
        A restart in an outage does not say that Kafka has everything.
        """
        self.opened(tmp_path, written).close()
        self.remember(tmp_path, "broker-a", 1000)
        dispatcher = self.opened(tmp_path, written)
        try:
            assert dispatcher.kafka is not None
            assert dispatcher.kafka.state.lag == written.end - 1000
            assert dispatcher.kafka.state.store_timestamp == 5
        finally:
            dispatcher.close()

    @pytest.mark.parametrize("has_followed", [False, True])
    def test_it_is_not_known_where_the_log_was_cut_below_that_position(
        self, tmp_path: Path, written: Any, has_followed: bool
    ) -> None:
        """
        A start in an outage finds the cut before Kafka can be asked; 0 would say that it has it.
        """
        self.opened(tmp_path, written).close()
        found = list(stores.messages(400, ("x",), random.Random(1)))
        later = found[-1].store_timestamp + 1000
        other = [m._replace(body=b"other", store_timestamp=later) for m in found[200:205]]
        cut = stores.write(tmp_path / "store", found[:200] + other)
        for _ in range(2):
            number = 0
            if has_followed:
                self.opened(tmp_path, cut).close()
                number = progress.load(tmp_path / "out").cuts[-1][0]
            sent = Start("reput-broker-a", written.end, number)
            memory = Memory("c", "reput-broker-a", written.end, 5, sent=sent)
            remember(tmp_path / "out" / ".reput" / "kafka.json", memory)
            dispatcher = self.opened(tmp_path, cut)
            try:
                assert dispatcher.kafka is not None
                assert dispatcher.kafka.state.lag == (0 if has_followed else None)
            finally:
                dispatcher.close()

    def test_a_position_that_is_only_remembered_does_not_make_it_complete(
        self, tmp_path: Path, written: Any
    ) -> None:
        """
        Kafka may be another one since, and has not been asked; neither before the end nor after.
        """
        self.opened(tmp_path, written).close()
        self.remember(tmp_path, "broker-a", written.end)
        dispatcher = self.opened(tmp_path, written)
        feed = dispatcher.kafka
        assert feed is not None
        try:
            wait_until(lambda: feed.state.retries >= 1)
            assert not feed.is_done
        finally:
            dispatcher.close()
        assert not feed.is_done
        assert feed.lacks() is not None
        assert feed.state.confirmed_lag is None

    @pytest.mark.parametrize(
        "memory", ["none", "of another id", "of another Kafka", "of an earlier version"]
    )
    def test_it_is_not_zero_where_nothing_is_known(
        self, tmp_path: Path, written: Any, memory: str
    ) -> None:
        self.opened(tmp_path, written).close()
        if memory == "of another id":
            self.remember(tmp_path, "other", 1000)
        elif memory == "of another Kafka":
            self.remember(tmp_path, "broker-a", 1000, "elsewhere:9092")
        elif memory == "of an earlier version":
            path = tmp_path / "out" / ".reput" / "kafka.json"
            path.write_text(json.dumps({"cluster": "c", "id": "reput-broker-a"}))
        dispatcher = self.opened(tmp_path, written)
        try:
            assert dispatcher.kafka is not None
            assert dispatcher.kafka.state.lag is None
        finally:
            dispatcher.close()


@contextlib.contextmanager
def held_back(tmp_path: Path, written: Any, start: str) -> Iterator[KafkaFeed]:
    """Dispatch all of a log while what the output remembers of Kafka holds that back; its feed."""
    dispatcher = StoreDispatcher(config(tmp_path, start=start))
    feed = dispatcher.kafka
    assert feed is not None
    try:
        dispatcher.dispatch(written.end)
        wait_until(lambda: bool(feed.state.stopped))
        dispatcher.flush_if_due()
        assert dispatcher.progress.end == written.end
        yield feed
    finally:
        dispatcher.close()


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_memory_that_cannot_be_read_holds_back_kafka_alone(
    tmp_path: Path, written: Any, start: str
) -> None:
    memory = tmp_path / "out" / ".reput" / "kafka.json"
    memory.mkdir(parents=True)
    with held_back(tmp_path, written, start) as feed:
        assert f"{memory}: it cannot be read" in feed.state.stopped


@pytest.mark.parametrize(
    "damaged",
    [b"", b'{"cluster": "c", "id"', b'{"cluster": "c", "id": "x", "end": "1o"}', b"[]",
     b'{"cluster": "c", "id": "x", "latest": [1]}', b'{"cluster": "c", "id": "\xff"}'],
)  # fmt: skip
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_damaged_memory_holds_back_kafka_alone(
    tmp_path: Path, written: Any, damaged: bytes, start: str
) -> None:
    """
    It may be all that tells that Kafka has lost the position, or where the latest begins. It stays
    as it is, and the message says what to do. Dispatch continues.
    """
    memory = tmp_path / "out" / ".reput" / "kafka.json"
    memory.parent.mkdir(parents=True)
    memory.write_bytes(damaged)
    with held_back(tmp_path, written, start) as feed:
        assert f"{memory}: it is damaged" in feed.state.stopped
        assert "Restore the file; or stop the job and remove it" in feed.state.stopped
        with pytest.raises(ReputError, match="it is damaged"):
            feed.check_end()
    assert memory.read_bytes() == damaged

    memory.unlink()
    dispatcher = StoreDispatcher(config(tmp_path, start=start))
    try:
        assert dispatcher.kafka is not None
        assert not dispatcher.kafka.state.stopped
    finally:
        dispatcher.close()


def test_positions_of_an_earlier_version_are_read() -> None:
    raw = b'{"version": 2, "end": 7, "trail": [[1, 2, 3, 4]], "messages": 5, "deadLetters": 6, "cut": 1}'
    found = Position.unpack(raw, "here")

    assert (found.end, found.messages, found.dead_letters, found.cut) == (7, 5, 6, 1)
    assert Position.unpack(found.pack(), "here") == found
