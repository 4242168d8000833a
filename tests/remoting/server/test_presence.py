"""Files go, come back, or are others while clients are served: right answers, and no end."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest

from reput.formats.rocketmq.encode import Message
from reput.remoting.counting.counters import Uncounted
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.fields import write
from reput.stores.query.message_store import MessageStore
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.java_clients import consuming
from tests.builders.served import NOW, dispatched, messages, request
from tests.builders.servers import Client, serving
from tests.builders.stores import config_of
from tests.builders.waiting import wait_until
from tests.oracle import oracle

COUNT, SIZE = 64, 100
SECONDS = 60
AWAY = (ResponseCode.SYSTEM_ERROR, "store getMessage return null")


class Place:
    """A store that is served, its directories, and a client."""

    def __init__(self, directory, running, log):
        self.log_files = directory / "store" / "commitlog"
        self.queues = directory / "out" / "consumequeue"
        self.directory, self.log, self.port = directory, log, running.broker
        self.broker = running.store
        self.client = Client(self.port)

    def files(self):
        return sorted(self.log_files.iterdir())

    def record(self, number):
        at = self.log.places[number]
        return bytes(self.log.data[at.position : at.end])

    def pull(self, offset, client=None, **said):
        return (client or self.client).ask(
            RequestCode.PULL_MESSAGE, **write(request(offset, **said))
        )

    def said(self, offset, **said):
        """Return code and remark of a pull."""
        answer = self.pull(offset, **said)
        return answer.code, answer.remark

    def reach(self, topic="t"):
        """Return the least and the greatest offset."""
        of_queue = {"topic": topic, "queueId": "0"}
        codes = RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET
        return tuple(int(self.client.ask(code, **of_queue).fields["offset"]) for code in codes)

    def until(self, is_so):
        """Wait until something holds; the server looks each second."""
        wait_until(is_so, SECONDS)

    def hold(self, offset, millis=15000):
        """Return a client whose pull waits."""
        client = Client(self.port)
        said = write(request(offset, flags=6)) | {"suspendTimeoutMillis": str(millis)}
        client.send(RequestCode.PULL_MESSAGE, **said)
        self.until(lambda: self.broker.has_held)
        return client

    def dispatch(self, log):
        log.write(self.directory / "store")
        self.dispatch_written()

    def dispatch_written(self):
        log = self.log
        again = StoreDispatcher(config_of(self.directory / "store", self.directory / "out", "5.5"))
        again.dispatch(log.end)
        again.close()


@pytest.fixture
def place(tmp_path):
    log = messages(COUNT, size=SIZE)
    with serving(dispatched(log, tmp_path)) as running:
        yield Place(tmp_path, running, log)


@pytest.mark.parametrize("is_held", [False, True], ids=["", "held"])
class TestExpired:
    def test_messages_of_files_that_expired_are_gone(self, place, is_held):
        """
        Their descriptors are open: what stands in them is no longer part of the log.
        """
        held = place.hold(COUNT) if is_held else None
        assert place.pull(0).body
        first, *_ = place.files()
        first.unlink()
        place.until(lambda: place.said(0, limit=1) == (20, "MESSAGE_WAS_REMOVING"))
        low = next(i for i, each in enumerate(place.log.places) if each.position >= 4096)

        assert place.pull(low - 1, limit=1).body == place.record(low)
        assert place.pull(low, limit=1).body == place.record(low)
        assert held is None or len(held.told) == 0

    def test_queue_files_that_expired_too(self, place, is_held):
        held = place.hold(COUNT) if is_held else None
        assert place.pull(0).body
        files = place.files()
        # As a broker does: the log first, then queue files whose messages are all gone.
        for path in files[:2]:
            path.unlink()
        floor = int(files[2].name)
        for path in sorted((place.queues / "t" / "0").iterdir()):
            last = int(path.name) // 20 + 7
            if place.log.places[last].position < floor:
                path.unlink()
        low = next(i for i, each in enumerate(place.log.places) if each.position >= floor)
        place.until(lambda: place.reach() == (low, COUNT))

        assert place.said(low - 1) == (21, "OFFSET_TOO_SMALL")
        assert place.pull(low).body
        assert held is None or len(held.told) == 0


class TestAway:
    @pytest.mark.parametrize("what", ["log_files", "queues"])
    @pytest.mark.parametrize("is_held", [False, True], ids=["", "held"])
    def test_clients_try_again_until_it_is_back(self, place, what, is_held, caplog):
        """
        A consumer that is told of an offset that moved would begin again at 0.
        """
        caplog.set_level("INFO", "reput")
        held = place.hold(COUNT) if is_held else None
        path = getattr(place, what)
        path.rename(place.directory / "away")
        place.until(lambda: place.said(0) == AWAY and "try again" in caplog.text)
        of_queue = {"topic": "t", "queueId": "0"}
        assert place.client.ask(RequestCode.GET_MAX_OFFSET, **of_queue).code == 1
        assert place.said(COUNT, flags=6) == AWAY
        (place.directory / "away").rename(path)
        place.until(lambda: place.said(0) == (0, "FOUND"))

        assert place.reach() == (0, COUNT)
        # Of several stores, this one.
        place.until(lambda: f"{place.directory / 'store'}: the files are back" in caplog.text)
        assert "Traceback" not in caplog.text
        if held is not None:
            place.log.append(Message("t", b"new", {}, 0, COUNT, store_timestamp=NOW))
            place.dispatch(place.log)
            assert held.answer(SECONDS).body

    def test_a_pull_that_waits_past_its_time_is_told_too(self, place):
        held = place.hold(COUNT, 2500)
        place.log_files.rename(place.directory / "away")
        place.until(lambda: place.said(0) == AWAY)
        answer = held.answer(SECONDS)

        assert (answer.code, answer.remark) == AWAY

    def test_files_that_cannot_be_looked_at_end_nothing(self, place, caplog):
        """
        As where no file descriptors are left, or the disk fails.
        """
        held = place.hold(COUNT)
        place.log_files.rename(place.directory / "away")
        place.log_files.symlink_to(place.log_files)
        place.until(lambda: "cannot be looked at" in caplog.text)
        time.sleep(1.5)
        place.log_files.unlink()
        (place.directory / "away").rename(place.log_files)

        assert caplog.text.count("cannot be looked at") == 1
        assert place.pull(0).body
        place.log.append(Message("t", b"new", {}, 0, COUNT, store_timestamp=NOW))
        place.dispatch(place.log)
        assert held.answer(SECONDS).body

    def test_queues_that_are_not_there_at_the_start(self, tmp_path, caplog):
        """
        A group whose offset is 5 would be told that its queue is empty, and begin again at 0.
        """
        written = dispatched(messages(COUNT), tmp_path)
        written.close()
        topics = {"topicConfigTable": {"t": {"topicName": "t", "readQueueNums": 1}}}
        (tmp_path / "store" / "config").mkdir()
        (tmp_path / "store" / "config" / "topics.json").write_text(json.dumps(topics))
        queues = tmp_path / "out" / "consumequeue"
        queues.rename(tmp_path / "away")
        ready = []

        class Ready(Uncounted):
            def ready(self, *, is_ready):
                ready.append(is_ready)

        store = MessageStore.open(written.root, written.output, written.settings)
        with serving(store, counters=Ready()) as running:
            place = Place(tmp_path, running, None)
            assert place.said(5) == AWAY
            place.until(lambda: "the log has messages, and there are no queues" in caplog.text)
            assert set(ready) == {False}
            (tmp_path / "away").rename(queues)
            place.until(lambda: place.said(5) == (0, "FOUND"))
            place.until(lambda: ready[-1])

    def test_a_copy_in_its_place(self, place):
        copied = place.directory / "copy"
        for path in (place.log_files, place.queues):
            shutil.copytree(path, copied)
            shutil.rmtree(path)
            copied.rename(path)
        whole = sum(each.size for each in place.log.places)

        def pulled():
            return sum(len(place.pull(i, limit=1).body) for i in range(COUNT))

        # A look may have come while one of them was not there.
        place.until(lambda: pulled() == whole)
        assert place.reach() == (0, COUNT)

    def test_another_log_in_its_place(self, place, tmp_path):
        other = messages(COUNT // 2, size=SIZE + 10)
        dispatched(other, tmp_path / "other").close()
        for path, name in (
            (place.log_files, "store/commitlog"),
            (place.queues, "out/consumequeue"),
        ):
            shutil.rmtree(path)
            shutil.copytree(tmp_path / "other" / name, path)
        place.until(lambda: place.reach() == (0, COUNT // 2))

        assert bytes(place.pull(3, limit=1).body) == bytes(
            other.data[other.places[3].position : other.places[3].end]
        )


class TestIndex:
    def test_keys_are_not_said_to_be_unknown_while_it_is_away(self, place, caplog):
        caplog.set_level("INFO", "reput")
        asked = {"topic": "t", "key": "k7", "maxNum": "32", "beginTimestamp": "0"}
        asked["endTimestamp"] = str(2 * NOW)

        def found(key="k7"):
            return place.client.ask(RequestCode.QUERY_MESSAGE, **asked | {"key": key})

        assert place.record(7) in found().body
        assert found("none").code == ResponseCode.QUERY_NOT_FOUND
        index = place.directory / "out" / "index"
        index.rename(place.directory / "away")
        said = f"{place.directory / 'store'}: queries by key and unique key fail"
        place.until(lambda: said in caplog.text)
        time.sleep(1.5)
        answer = found()

        assert caplog.text.count(said) == 1
        assert f"{index}: no index file of the right size is there" in caplog.text
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "the store's files are not there: try again later"
        assert place.pull(0).body
        (place.directory / "away").rename(index)
        place.until(lambda: "the index is back" in caplog.text)
        assert place.record(7) in found().body

    def test_a_file_that_is_left_out_is_said(self, place, caplog):
        caplog.set_level("INFO", "reput")
        index = place.directory / "out" / "index"
        first, *_ = sorted(index.iterdir())
        copy = index / f"{int(first.name) - 1}"
        copy.write_bytes(b"begun")
        said = f"the index file {copy} has a wrong size and is left out"
        place.until(lambda: said in caplog.text)
        time.sleep(1.5)
        copy.unlink()
        place.until(lambda: "all index files have the right size again" in caplog.text)

        assert caplog.text.count(said) == 1
        assert "queries by key and unique key fail" not in caplog.text

    def test_nor_while_the_log_is(self, place):
        asked = {"topic": "t", "key": "k7", "maxNum": "32", "beginTimestamp": "0"}
        asked["endTimestamp"] = str(2 * NOW)
        place.log_files.rename(place.directory / "away")
        place.until(lambda: place.said(0) == AWAY)

        assert place.client.ask(RequestCode.QUERY_MESSAGE, **asked).code == 1

    @pytest.mark.parametrize("is_empty", [True, False])
    def test_a_store_without_messages_or_index_lacks_none(self, tmp_path, caplog, is_empty):
        if is_empty:
            config = config_of(tmp_path / "store", tmp_path / "out", "5.5")
            (tmp_path / "store" / "commitlog").mkdir(parents=True)
            (tmp_path / "store" / "commitlog" / f"{0:020}").write_bytes(bytes(4096))
            store = MessageStore.open(config.path, config.output, config.settings)
        else:
            store = dispatched(messages(COUNT), tmp_path, messageIndexEnable="false")
        asked = {"topic": "t", "key": "k", "maxNum": "1", "beginTimestamp": "0"}
        with serving(store) as running:
            time.sleep(1.5)
            client = Client(running.broker)
            answer = client.ask(RequestCode.QUERY_MESSAGE, **asked | {"endTimestamp": "1"})

        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert "by key" not in caplog.text


class TestTopics:
    def test_a_topic_that_is_deleted(self, place):
        held = place.hold(COUNT)
        assert place.pull(0).body
        shutil.rmtree(place.queues / "t")
        place.until(lambda: place.said(0)[0] == ResponseCode.TOPIC_NOT_EXIST)
        assert len(held.told) == 0

    def test_a_queue_that_is_deleted_and_made_again(self, place):
        assert place.pull(0).body
        queue = place.queues / "t" / "0"
        kept = {each.name: each.read_bytes() for each in sorted(queue.iterdir())[:2]}
        shutil.rmtree(queue)
        queue.mkdir()
        for name, data in kept.items():
            (queue / name).write_bytes(data)
        place.until(lambda: place.reach()[1] == 16)

        assert place.said(COUNT) == (21, "OFFSET_OVERFLOW_BADLY")

    def test_a_new_topic_and_a_new_queue(self, place):
        for number, (topic, queue) in enumerate([("u", 0), ("t", 1)]):
            place.log.append(Message(topic, b"new", {}, queue, 0, store_timestamp=NOW + number))
        place.dispatch(place.log)
        place.until(lambda: place.said(0, topic="u") == (0, "FOUND"))

        assert place.said(0, queue=1) == (0, "FOUND")

    def test_topics_that_cannot_be_read_are_those_before(self, place, caplog):
        config = place.directory / "store" / "config"
        config.mkdir()
        (config / "topics.json").write_text("{]}")
        place.until(lambda: "the topics before it are served" in caplog.text)

        assert place.pull(0).body
        (config / "topics.json").write_text(json.dumps({"topicConfigTable": {}}))


class TestChanged:
    def test_a_log_that_grows_is_seen_without_a_pull(self, place):
        assert place.reach() == (0, COUNT)
        for number in range(COUNT, COUNT + 40):
            place.log.append(Message("t", bytes(SIZE), {}, 0, number, store_timestamp=NOW))
        place.dispatch(place.log)

        place.until(lambda: place.reach() == (0, COUNT + 40))
        assert place.pull(COUNT + 39).body

    def test_files_that_are_cut_are_read_as_far_as_they_go(self, place):
        assert place.pull(0).body
        first = place.files()[0]
        whole = first.read_bytes()
        os.truncate(first, 1000)
        answers = [place.pull(offset, limit=1) for offset in range(COUNT)]
        assert {each.code for each in answers} <= {0, 20}
        assert b"".join(each.body for each in answers)[:800] == whole[:800]
        queue = sorted((place.queues / "t" / "0").iterdir())
        os.truncate(queue[0], 30)
        assert {place.said(offset)[0] for offset in range(COUNT)} <= {0, 19, 20}

    def test_a_file_of_another_kind_is_passed_over(self, place, caplog):
        held = place.hold(COUNT)
        (place.log_files / "junk").write_bytes(b"x")
        place.files()[0].unlink()
        place.until(lambda: place.said(0, limit=1) == (20, "MESSAGE_WAS_REMOVING"))

        place.until(lambda: "not the name of a commitlog file" in caplog.text)
        assert len(held.told) == 0

    @pytest.mark.parametrize("is_short", [True, False])
    def test_what_is_missing_in_the_middle_is_said(self, place, caplog, is_short):
        caplog.set_level("INFO", "reput")
        path = place.files()[1]
        kept = path.read_bytes()
        path.unlink()
        if is_short:
            path.write_bytes(kept[:100])
        place.until(lambda: "consumers are led past the messages" in caplog.text)
        found = "the file ends here" if is_short else "the file is missing"
        assert f"{path}: {found}, expected 4096 bytes" in caplog.text
        path.unlink(missing_ok=True)
        path.write_bytes(kept)
        place.until(lambda: "the log has no gaps any longer" in caplog.text)

        assert place.pull(0).body

    def test_a_file_that_is_missing_in_between_keeps_nobody_waiting(self, place):
        place.hold(COUNT)
        assert place.pull(0).body
        place.files()[1].unlink()
        slowest = 0.0
        end = time.monotonic() + 4
        while time.monotonic() < end:
            began = time.monotonic()
            place.pull(0, limit=1)
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.01)
        lost = [i for i, each in enumerate(place.log.places) if each.position // 4096 == 1]

        assert place.said(lost[0], limit=1) == (20, "MESSAGE_WAS_REMOVING")
        assert place.pull(lost[-1] + 1, limit=1).body


@pytest.mark.oracle
@pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
def test_a_stock_consumer_gets_each_message_once_whatever_goes_meanwhile(tmp_path, version):
    """
    The log is away for a while, its first file expires, and more comes.
    """
    count, more = 200, 50
    # A connection on which nothing moves meanwhile would be closed.
    oracle.build(version)
    log = messages(count, size=SIZE)
    with serving(dispatched(log, tmp_path)) as running:
        place = Place(tmp_path, running, log)
        with consuming(running.names, version, "push", tmp_path, count=count + more) as consumer:
            place.until(lambda: place.broker.has_held)
            place.log_files.rename(tmp_path / "away")
            place.until(lambda: place.said(0) == AWAY)
            (tmp_path / "away").rename(place.log_files)
            place.until(lambda: place.said(0) == (0, "FOUND"))
            place.files()[0].unlink()
            place.until(lambda: place.said(0, limit=1) == (20, "MESSAGE_WAS_REMOVING"))
            for number in range(count, count + more):
                log.append(Message("t", bytes(SIZE), {}, 0, number, store_timestamp=NOW))
            place.log.write(tmp_path / "store", first=1)
            place.dispatch_written()
            taken = consumer.taken()

    assert sorted(int(offset) for _, offset, *_ in taken) == list(range(count + more))
