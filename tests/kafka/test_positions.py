"""Positions in a real Kafka: nothing is sent twice by what an operator does."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaConsumer

from reput.formats.errors import ReputError
from reput.sinks.kafka.position import trail
from reput.sinks.kafka.position.position import partition_of
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.kafka import stores
from tests.kafka.broker import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.encode import Message
    from tests.builders.stores import Log
    from tests.kafka.broker import Broker

pytestmark = pytest.mark.kafka


def offsets(broker: Broker, topic: str) -> list[tuple[Any, int, bytes | None]]:
    """Return what readers see of a topic, each message once for each time that it was sent."""
    return sorted((g.queue, g.queue_offset, g.body) for g in stores.got(broker, topic))


def of_log(log: Log, *others: Log) -> list[tuple[Any, int, bytes | None]]:
    """Return the messages of logs; what several have at one place is one."""
    found = {
        (place.position, (str(m.topic), m.queue_id), m.queue_offset, m.body)
        for each in (log, *others)
        for place in each.places
        for m in [place.message]
    }
    return sorted(each[1:] for each in found)


def test_partitions_that_are_added_to_the_progress_topic_change_nothing(
    broker: Broker, tmp_path: Path
) -> None:
    """
    The place of a position is computed from their number; neither the same output nor a new one
    takes that for a first start, and what comes later continues.
    """
    broker.make_topic("grown")
    broker.make_topic("grown-progress", 8, cleanup_policy="compact")
    found = list(stores.messages(600, ("grown",), random.Random(2)))
    stores.write(tmp_path / "store", found[:300])

    def config(output: str) -> Any:
        return stores.config(tmp_path / "store", tmp_path / output, broker, name="grown",
                             progress_topic="grown-progress")  # fmt: skip

    stores.send(config("out"))
    admin = broker.admin()
    admin.create_partitions({"grown-progress": 24})
    admin.close()
    stores.send(config("out"))
    stores.send(config("new"))
    log = stores.write(tmp_path / "store", found)
    stores.send(config("new"))
    stores.send(config("out"))

    assert offsets(broker, "grown") == of_log(log)


def test_a_name_that_was_changed_and_given_again_is_found_in_added_partitions(
    broker: Broker, tmp_path: Path
) -> None:
    """
    Partitions are added before and after: the note that the position has moved stands where it is
    looked for first. Neither the same output nor a new one sends anything again.
    """
    topic, progress = tmp_path.name, f"{tmp_path.name}-progress"
    broker.make_topic(topic)
    broker.make_topic(progress, 8, cleanup_policy="compact")
    found = list(stores.messages(600, (topic,), random.Random(4)))
    stores.write(tmp_path / "store", found[:300])

    def home(name: str, partitions: int) -> int:
        return partition_of(f"reput-{name}", partitions)

    names = (f"name-{number}" for number in range(1000))
    name = next(n for n in names if home(n, 8) == home(n, 16) != home(n, 12))

    def config(output: str, **settings: Any) -> Any:
        values = {"name": name, "progress_topic": progress, **settings}
        return stores.config(tmp_path / "store", tmp_path / output, broker, **values)

    def grow(partitions: int) -> None:
        admin = broker.admin()
        admin.create_partitions({progress: partitions})
        admin.close()

    stores.send(config("out"))
    grow(12)
    stores.send(config("out", name="another", on_rename="continue"))
    stores.send(config("out", on_rename="continue"))
    grow(16)
    stores.send(config("new"))
    log = stores.write(tmp_path / "store", found)
    stores.send(config("out"))
    with pytest.raises(ReputError, match=f"the one of reput-{name}, written for .*on_rename"):
        stores.send(config("new", name="another"))

    assert offsets(broker, topic) == of_log(log)


def test_a_lost_position_is_missed_under_another_name_as_well(
    broker: Broker, tmp_path: Path
) -> None:
    """
    The output remembers under which name it was sent. What the message says to do sends only what
    is new; without the topic of positions nothing else is known of what was sent.
    """
    topic, progress = tmp_path.name, f"{tmp_path.name}-progress"
    broker.make_topic(topic)
    found = list(stores.messages(400, (topic,), random.Random(5)))
    stores.write(tmp_path / "store", found[:300])

    def config(name: str, **settings: Any) -> Any:
        values = {"name": f"{topic}-{name}", "progress_topic": progress, **settings}
        return stores.config(tmp_path / "store", tmp_path / "out", broker, **values)

    stores.send(config("a"))
    admin = broker.admin()
    admin.delete_topics([progress])
    admin.close()
    for settings in ({}, {"on_rename": "continue"}, {"start": "latest"}):
        with pytest.raises(
            ReputError, match=f"no longer has a position of reput-{topic}-a,"
        ) as said:
            stores.send(config("b", **settings))
        assert f"has none of reput-{topic}-b" in str(said.value)
    stores.send(config("b", on_rename="begin", start="latest"))
    log = stores.write(tmp_path / "store", found)
    stores.send(config("b"))

    assert offsets(broker, topic) == of_log(log)


def test_a_name_that_another_store_has_since_is_no_lost_position(
    broker: Broker, tmp_path: Path
) -> None:
    """
    A broker begins its log again, and its store is given a name of its own: the output remembers
    the former one, whose position is there and is of another log. All is sent.
    """
    topic = tmp_path.name
    broker.make_topic(topic)
    logs = [
        stores.write(tmp_path / name, stores.messages(100, (topic,), random.Random(number)))
        for number, name in enumerate("ab")
    ]

    def config(name: str) -> Any:
        return stores.config(tmp_path / name, tmp_path / f"out-{name}", broker,
                             name=f"{topic}-{name}")  # fmt: skip

    stores.send(config("a"))
    memory = tmp_path / "out-b" / ".reput" / "kafka.json"
    memory.parent.mkdir(parents=True)
    shutil.copy(tmp_path / "out-a" / ".reput" / "kafka.json", memory)
    stores.send(config("b"))

    assert offsets(broker, topic) == sorted(of_log(logs[0]) + of_log(logs[1]))


class TestNames:
    @pytest.fixture
    def two(self, broker: Broker, tmp_path: Path) -> Any:
        """Two stores of one name, of which one was sent, and what makes their settings."""
        topic = tmp_path.name
        broker.make_topic(topic)
        logs = {
            store: stores.write(
                tmp_path / store, stores.messages(count, (topic,), random.Random(count))
            )
            for store, count in (("a", 600), ("b", 200))
        }

        def config(store: str, **settings: Any) -> Any:
            values = {"name": topic, "progress_topic": "names-progress", **settings}
            return stores.config(tmp_path / store, tmp_path / f"out-{store}", broker, **values)

        stores.send(config("a"))
        return topic, logs, config

    def test_another_store_of_the_same_name_is_refused(self, broker: Broker, two: Any) -> None:
        """
        Whatever the settings say: its position would take the place of the first one's. With a
        name of its own, as the message says, each message of both is there once.
        """
        topic, logs, config = two
        for settings in ({}, {"on_truncation": "continue"}):
            with pytest.raises(
                ReputError, match=r"is of another store, /.*/a: .*id_prefix"
            ) as said:
                stores.send(config("b", **settings))
            assert "on_truncation" not in str(said.value)
        stores.send(config("b", id_prefix="other-"))
        stores.send(config("a"))

        both = sorted(of_log(logs["a"]) + of_log(logs["b"]))
        assert offsets(broker, topic) == both

    def test_a_store_at_a_new_place_is_the_same(
        self, broker: Broker, tmp_path: Path, two: Any
    ) -> None:
        topic, logs, config = two
        (tmp_path / "a").rename(tmp_path / "moved")
        stores.send(config("moved"))

        assert offsets(broker, topic) == of_log(logs["a"])

    @pytest.mark.parametrize("change", [{"id_prefix": "mine-"}, {"name": "its-own"}], ids=str)
    def test_one_log_under_another_id_is_not_sent_again(
        self, broker: Broker, tmp_path: Path, two: Any, change: dict[str, str]
    ) -> None:
        """
        The first store is given a name as well, with the same output or a new one: the start says
        which position is of this log, and continues there where it is told to. The trail comes along,
        and the old name does not begin where it was left.
        """
        topic, logs, config = two
        change = {key: f"{value}{topic}" for key, value in change.items()}
        with pytest.raises(ReputError, match=rf"the one of reput-{topic}, written for .*on_rename"):
            stores.send(config("a", **change))
        found = list(stores.messages(600, (topic,), random.Random(600)))
        cut = found[:500] + [m._replace(body=b"other") for m in found[500:550]]
        new = stores.write(tmp_path / "a", cut)
        stores.send(config("a", on_rename="continue", on_truncation="continue", **change))
        stores.send(config("a", **change))
        with pytest.raises(ReputError, match="is of this log"):
            stores.send(config("a"))
        stores.send(config("a", on_rename="continue"))

        assert offsets(broker, topic) == of_log(logs["a"], new)

    def test_a_name_that_was_given_up_has_nothing_of_its_former_store(
        self, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        A store is renamed, and another one gets its name and is cut later: it is compared with its
        own records, where the first one's were in pieces that ended at the same places.
        """
        monkeypatch.setattr(trail, "_RECORDS", 5)
        topic = tmp_path.name
        broker.make_topic(topic)

        def found(seed: int, count: int) -> list[Message]:
            made = stores.messages(count, (topic,), random.Random(seed))
            return [m._replace(body=b"%d-%05d" % (seed, i), properties={})
                    for i, m in enumerate(made)]  # fmt: skip

        def config(store: str, name: str, **settings: Any) -> Any:
            return stores.config(tmp_path / store, tmp_path / f"out-{store}", broker,
                                 name=f"{topic}-{name}", **settings)  # fmt: skip

        first = found(1, 50)
        logs = [stores.write(tmp_path / "a", first)]
        stores.send(config("a", "x"))
        first = first[:48] + found(2, 200)[48:]
        logs.append(stores.write(tmp_path / "a", first))
        stores.send(config("a", "x", on_truncation="continue"))
        stores.send(config("a", "y", on_rename="continue"))
        second = found(3, 100)
        logs.append(stores.write(tmp_path / "b", second))
        stores.send(config("b", "x"))
        logs.append(stores.write(tmp_path / "b", second[:98] + found(4, 108)[98:]))
        stores.send(config("b", "x", on_truncation="continue"))

        assert offsets(broker, topic) == sorted(of_log(*logs[:2]) + of_log(*logs[2:]))

    def test_a_name_that_another_output_took_over_may_begin_a_way_of_its_own(
        self, broker: Broker, tmp_path: Path, two: Any
    ) -> None:
        """
        Its own output remembers that it was sent under that name. The position has moved, and is
        not lost: nothing has to be restored, and it begins where it is told to.
        """
        topic, logs, config = two
        broker.make_topic(f"{topic}-2")
        stores.send(stores.config(tmp_path / "a", tmp_path / "out-new", broker,
                                  name=f"new-{topic}", progress_topic="names-progress",
                                  on_rename="continue"))  # fmt: skip
        with pytest.raises(ReputError, match=rf"the one of reput-new-{topic}, written for"):
            stores.send(config("a"))
        for settings in ({"on_rename": "begin"}, {}):
            stores.send(config("a", topic="{topic}-2", **settings))

        assert offsets(broker, topic) == of_log(logs["a"])
        assert offsets(broker, f"{topic}-2") == of_log(logs["a"])

    def test_a_second_way_beside_the_first_is_possible(self, broker: Broker, two: Any) -> None:
        topic, logs, config = two
        stores.send(config("a", id_prefix="second-", on_rename="begin"))

        assert offsets(broker, topic) == sorted(2 * of_log(logs["a"]))

    def test_of_two_ways_of_one_log_none_is_chosen(
        self, broker: Broker, tmp_path: Path, two: Any
    ) -> None:
        """
        The farther one is another way's as well as the nearer one. With the output that was sent
        the name may change: it remembers which way is its own.
        """
        topic, logs, config = two
        stores.send(config("a", id_prefix="second-", on_rename="begin"))
        settings = {"name": f"new-{topic}", "on_rename": "continue"}
        new = stores.config(tmp_path / "a", tmp_path / "out-new", broker,
                            progress_topic="names-progress", **settings)  # fmt: skip
        with pytest.raises(ReputError, match="several positions") as said:
            stores.send(new)
        assert f"reput-{topic} (" in str(said.value)
        assert f"second-{topic} (" in str(said.value)
        stores.send(config("a", **settings))

        assert offsets(broker, topic) == sorted(2 * of_log(logs["a"]))

    def test_a_copy_that_went_its_own_way_is_another_store(
        self, broker: Broker, tmp_path: Path, two: Any
    ) -> None:
        """
        It begins like the first store. Nothing of it is sent before its operator has said so, and
        the first one keeps its position.
        """
        topic, logs, config = two
        found = list(stores.messages(600, (topic,), random.Random(600)))
        other = [m._replace(body=b"other") for m in found[300:400]]
        copy = stores.write(tmp_path / "c", found[:300] + other)
        with pytest.raises(ReputError, match=f"begins like the one .* under reput-{topic} up to"):
            stores.send(config("c", name=f"c-{topic}", on_rename="continue"))
        stores.send(config("c", name=f"c-{topic}", on_rename="begin"))
        stores.send(config("a"))

        assert offsets(broker, topic) == sorted(of_log(logs["a"]) + of_log(copy))

    def test_another_store_of_which_the_first_record_has_expired_is_refused(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        It overlaps what the position knows, and has none of it: that is not a cut.
        """
        topic = tmp_path.name
        broker.make_topic(topic)
        for store, seed in (("a", 1), ("b", 2)):
            stores.write(tmp_path / store, stores.messages(8000, (topic,), random.Random(seed)))
        min((tmp_path / "b" / "commitlog").iterdir()).unlink()
        settings = {"name": topic, "progress_topic": "expired-progress"}
        stores.send(stores.config(tmp_path / "a", tmp_path / "out-a", broker, **settings))

        with pytest.raises(ReputError, match="If it is another store: Give this one a name"):
            stores.send(stores.config(tmp_path / "b", tmp_path / "out-b", broker, **settings))


def test_the_latest_is_what_comes_after_the_first_start_and_not_after_an_outage(
    broker: Broker, tmp_path: Path
) -> None:
    """
    Kafka is away when the job first starts, and while messages are dispatched; then the job starts
    again, and Kafka is there.
    """
    topic = tmp_path.name
    broker.make_topic(topic)
    found = list(stores.messages(300, (topic,), random.Random(2)))
    stores.write(tmp_path / "store", found[:100])
    away = stores.config(tmp_path / "store", tmp_path / "out", f"127.0.0.1:{free_port()}",
                         name=topic, start="latest", request_seconds=0.2)  # fmt: skip
    dispatcher = StoreDispatcher(away)
    try:
        stores.write(tmp_path / "store", found[:200])
        dispatcher.dispatch(find_tail(dispatcher.log).end)
    finally:
        dispatcher.close()
    log = stores.write(tmp_path / "store", found)
    there = stores.config(tmp_path / "store", tmp_path / "out", broker, name=topic, start="latest")
    stores.send(there)
    stores.send(there)

    expected = [p for p in log.places if p.position >= log.places[100].position]
    assert {g.physical_offset for g in stores.got(broker, topic)} == {p.position for p in expected}


@pytest.mark.parametrize("decides", ["before the cut", "after it"])
@pytest.mark.parametrize("several", [True, False], ids=["several batches", "one batch"])
def test_the_latest_after_a_cut_while_kafka_was_away_leaves_nothing_out(
    broker: Broker, tmp_path: Path, several: bool, decides: str
) -> None:
    """
    Nothing is sent yet, so where the log was cut only dispatch tells, which goes back to the end of
    a batch, or to the beginning, which does not make the output a new one: what comes after the cut
    is all sent, and some of what was there before it, once.
    """
    topic = tmp_path.name
    broker.make_topic(topic)
    found = list(stores.messages(100, (topic,), random.Random(2)))
    log = stores.write(tmp_path / "store", found)
    away = stores.config(tmp_path / "store", tmp_path / "out", f"127.0.0.1:{free_port()}",
                         name=topic, request_seconds=0.2)  # fmt: skip
    batches = [log.places[40].position, log.end] if several else [log.end]
    dispatcher = StoreDispatcher(replace(away, kafka=None))
    for end in batches:
        dispatcher.dispatch(end)
    dispatcher.close()
    assert away.kafka is not None
    latest = replace(away, kafka=replace(away.kafka, start="latest"))
    if decides == "before the cut":
        StoreDispatcher(latest).close()

    other = found[:50] + [m._replace(body=b"other") for m in found[50:80]]
    log = stores.write(tmp_path / "store", other)
    if decides != "before the cut":
        StoreDispatcher(latest).close()
    there = stores.config(tmp_path / "store", tmp_path / "out", broker, name=topic, start="latest")
    stores.send(there)
    stores.send(there)

    expected = [p.position for p in log.places if p.position >= (batches[0] if several else 0)]
    assert sorted(g.physical_offset for g in stores.got(broker, topic)) == expected


class TestLatest:
    """A store with `start` "latest" that Kafka was sent nothing of yet."""

    def config(self, broker: Broker | str, tmp_path: Path, **settings: Any) -> Any:
        settings = {"name": tmp_path.name, "start": "latest", **settings}
        return stores.config(tmp_path / "store", tmp_path / "out", broker, **settings)

    @pytest.mark.parametrize("restarts", [False, True], ids=["catching up", "after a restart"])
    @pytest.mark.parametrize(
        ("count", "body"), [(400, b"other"), (400, b"longer" * 40), (260, b"other")]
    )
    def test_a_log_that_is_cut_before_the_place_leaves_nothing_out(
        self, broker: Broker, tmp_path: Path, restarts: bool, count: int, body: bytes
    ) -> None:
        """
        A new output catches up, and has not come to the cut: dispatch knows of none. The new log
        reaches past the place, with a record across it or not, or ends before it.
        """
        topic = tmp_path.name
        broker.make_topic(topic)
        found = [
            m._replace(body=b"first", properties={})
            for m in stores.messages(400, (topic,), random.Random(2))
        ]
        old = stores.write(tmp_path / "store", found[:300])
        dispatcher = StoreDispatcher(self.config(broker, tmp_path))
        try:
            stores.go_on(dispatcher, old.places[50].position)
            assert dispatcher.kafka is not None
            assert dispatcher.kafka.state.end == old.end
            other = [*found[:200], *(m._replace(body=body) for m in found[200:count])]
            log = stores.write(tmp_path / "store", other)
            if not restarts:
                stores.go_on(dispatcher)
        finally:
            dispatcher.close()
        if restarts:
            stores.send(self.config(broker, tmp_path))
        log = stores.write(tmp_path / "store", [*other, *found[count:]])
        stores.send(self.config(broker, tmp_path))

        sent = sorted(g.physical_offset for g in stores.got(broker, topic))
        expected = [p.position for p in log.places if p.position >= sent[0]]
        assert sent == expected
        assert log.places[100].position < sent[0] <= log.places[200].position

    def test_another_name_begins_where_the_first_one_was_to(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        The topic was missing under the first name, so nothing was sent, and Kafka has its place.
        """
        topic = tmp_path.name
        found = list(stores.messages(300, (topic,), random.Random(2)))
        stores.write(tmp_path / "store", found[:100])
        StoreDispatcher(self.config(broker, tmp_path)).close()
        stores.write(tmp_path / "store", found[:200])
        dispatcher = StoreDispatcher(self.config(broker, tmp_path))
        try:
            with pytest.raises(ReputError, match="there is no such topic"):
                stores.go_on(dispatcher)
        finally:
            dispatcher.close()
        broker.make_topic(topic)
        log = stores.write(tmp_path / "store", found)
        other = {"name": f"{topic}-b"}

        with pytest.raises(ReputError, match="nothing was sent yet under that id"):
            stores.send(self.config(broker, tmp_path, **other))
        stores.send(self.config(broker, tmp_path, on_rename="continue", **other))
        stores.send(self.config(broker, tmp_path, **other))

        sent = sorted(g.physical_offset for g in stores.got(broker, topic))
        assert sent == [p.position for p in log.places[100:]]


class TestCuts:
    """What Kafka was sent in one transaction, and the log has only in part since."""

    def config(self, broker: Broker, tmp_path: Path, output: str, **settings: Any) -> Any:
        return stores.config(tmp_path / "store", tmp_path / output, broker, name=tmp_path.name,
                             **settings)  # fmt: skip

    @pytest.mark.parametrize("output", ["out", "new"])
    def test_what_is_still_the_same_is_not_sent_again(
        self, broker: Broker, tmp_path: Path, output: str
    ) -> None:
        """
        The last file is lost, and other records are written: with the same output and a new one,
        the range in the message is the true one, and each message is there once.
        """
        topic = tmp_path.name
        broker.make_topic(topic)
        found = list(stores.messages(8000, (topic,), random.Random(6)))
        old = stores.write(tmp_path / "store", found)
        stores.send(self.config(broker, tmp_path, "out"))
        files = sorted((tmp_path / "store" / "commitlog").iterdir())
        assert len(files) > 1
        files[-1].unlink()
        kept = [p for p in old.places if p.position < (len(files) - 1) * stores.FILE_SIZE]
        cut = kept[-1].end

        said = f"physical offsets ({cut}|{(len(files) - 1) * stores.FILE_SIZE}) to {old.end} "
        with pytest.raises(ReputError, match=said):
            stores.send(self.config(broker, tmp_path, output))
        stores.send(self.config(broker, tmp_path, output, on_truncation="continue"))
        assert offsets(broker, topic) == of_log(old)

        other = [m._replace(body=b"other") for m in found[len(kept) : len(kept) + 50]]
        new = stores.write(tmp_path / "store", found[: len(kept)] + other)
        stores.send(self.config(broker, tmp_path, output))
        assert offsets(broker, topic) == of_log(old, new)

    def test_a_cut_of_a_log_whose_beginning_has_expired_is_as_exact(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        All was sent in one piece, and the first file of that has expired: no advice to continue says
        that it expired before it was sent, and what is the same does not come again.
        """
        topic = tmp_path.name
        broker.make_topic(topic)
        found = list(stores.messages(1000, (topic,), random.Random(6)))
        big = [m._replace(body=b"%05d" % number * 600) for number, m in enumerate(found)]
        old = stores.write(tmp_path / "store", big)
        stores.send(self.config(broker, tmp_path, "out"))
        new = [*big[:990], *(m._replace(body=m.body + b"!") for m in big[990:])]
        log = stores.write(tmp_path / "store", new)
        min((tmp_path / "store" / "commitlog").iterdir()).unlink()

        with pytest.raises(ReputError, match=f"offsets {log.places[990].position} to {old.end} "):
            stores.send(self.config(broker, tmp_path, "out"))
        stores.send(self.config(broker, tmp_path, "out", on_truncation="continue"))

        assert offsets(broker, topic) == of_log(old, log)

    def test_records_that_come_back_after_a_cut_are_not_sent_again(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        As where a file is restored: until then there was only less of the log, and nothing new.
        """
        topic = tmp_path.name
        broker.make_topic(topic)
        found = list(stores.messages(3300, (topic,), random.Random(6)))
        old = stores.write(tmp_path / "store", found[:3000])
        stores.send(self.config(broker, tmp_path, "out"))
        stores.write(tmp_path / "store", found[:2700])
        stores.send(self.config(broker, tmp_path, "out", on_truncation="continue"))
        stores.send(self.config(broker, tmp_path, "out"))
        stores.write(tmp_path / "store", found[:2800])
        stores.send(self.config(broker, tmp_path, "out"))
        assert offsets(broker, topic) == of_log(old)
        log = stores.write(tmp_path / "store", found)
        stores.send(self.config(broker, tmp_path, "out"))

        assert offsets(broker, topic) == of_log(log)

    def test_a_second_cut_under_one_job_is_compared_with_what_was_sent_since(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        A running job has gone back once and sent more; of the next cut it sends the new records.
        """
        topic = tmp_path.name
        broker.make_topic(topic)
        found = list(stores.messages(120, (topic,), random.Random(6)))
        logs = [stores.write(tmp_path / "store", found[:60])]
        dispatcher = StoreDispatcher(self.config(broker, tmp_path, "out", on_truncation="continue"))
        try:
            stores.go_on(dispatcher)
            other = found[:30] + [m._replace(body=b"other") for m in found[30:40]]
            for next_log in (other, other + found[40:100], other + found[40:95]):
                logs.append(stores.write(tmp_path / "store", next_log))
                stores.go_on(dispatcher)
            last = other + found[40:95] + [m._replace(body=b"last") for m in found[95:100]]
            logs.append(stores.write(tmp_path / "store", last))
            stores.go_on(dispatcher)
        finally:
            dispatcher.close()

        assert offsets(broker, topic) == of_log(*logs)

    def test_a_second_cut_that_lost_nothing_is_not_held_back(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        The log is cut and written again with the same records, twice, under one job.
        """
        topic = tmp_path.name
        broker.make_topic(topic)
        found = list(stores.messages(90, (topic,), random.Random(6)))
        stores.write(tmp_path / "store", found[:60])
        dispatcher = StoreDispatcher(self.config(broker, tmp_path, "out"))
        try:
            stores.go_on(dispatcher)
            for cut, end in ((30, 60), (90, 90), (70, 90)):
                stores.write(tmp_path / "store", found[:cut])
                dispatcher.dispatch(find_tail(dispatcher.log).end)
                log = stores.write(tmp_path / "store", found[:end])
                stores.go_on(dispatcher)
        finally:
            dispatcher.close()

        assert offsets(broker, topic) == of_log(log)

    def test_a_log_that_no_longer_reaches_the_position_was_cut(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        It is cut in place and fewer bytes are written, so those of the old records stay after its
        end; a new output has not seen the cut. Nothing but the log's end tells.
        """
        topic = tmp_path.name
        broker.make_topic(topic)
        found = [m._replace(body=bytes(50)) for m in
                 stores.messages(100, (topic,), random.Random(6))]  # fmt: skip
        old = stores.write(tmp_path / "store", found)
        stores.send(self.config(broker, tmp_path, "out"))
        other = found[:60] + [m._replace(body=b"-" * 53) for m in found[60:70]]
        (file,) = (tmp_path / "store" / "commitlog").iterdir()
        stale = file.read_bytes()
        new = stores.write(tmp_path / "store", other)
        file.write_bytes(file.read_bytes()[: new.end] + stale[new.end :])

        said = f"physical offsets {old.places[60].position} to {old.end} is no longer in the log"
        with pytest.raises(ReputError, match=said):
            stores.send(self.config(broker, tmp_path, "new"))
        stores.send(self.config(broker, tmp_path, "new", on_truncation="continue"))
        assert offsets(broker, topic) == of_log(old, new)

    def test_a_deeper_cut_than_the_accepted_one_is_said(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        What was accepted for one start is that cut; the next one is for the operator again.
        """
        topic = tmp_path.name
        broker.make_topic(topic)
        found = list(stores.messages(3000, (topic,), random.Random(6)))
        old = stores.write(tmp_path / "store", found)
        stores.send(self.config(broker, tmp_path, "out"))
        stores.write(tmp_path / "store", found[:2700])
        stores.send(self.config(broker, tmp_path, "out", on_truncation="continue"))
        stores.write(tmp_path / "store", found[:2000])

        cut = f"physical offsets {old.places[2000].position} to {old.end} is no longer in the log"
        with pytest.raises(ReputError, match=cut):
            stores.send(self.config(broker, tmp_path, "out"))
        stores.send(self.config(broker, tmp_path, "out", on_truncation="continue"))
        stores.send(self.config(broker, tmp_path, "out"))

        new = found[:2000] + [m._replace(body=b"other") for m in found[2000:2050]]
        log = stores.write(tmp_path / "store", new)
        stores.send(self.config(broker, tmp_path, "out"))
        assert offsets(broker, topic) == of_log(old, log)


class TestNewTopics:
    def test_they_are_made_as_asked_for(self, broker: Broker, tmp_path: Path) -> None:
        """
        With that many partitions, before the first message is sent; those that are there stay.
        """
        topics = [f"{tmp_path.name}-{n}" for n in ("new", "there")]
        broker.make_topic(topics[1], 2)
        log = stores.write(tmp_path / "store", stores.messages(300, topics, random.Random(1)))
        stores.send(
            stores.config(tmp_path / "store", tmp_path / "out", broker, name=tmp_path.name,
                          create_topics=True, new_topic_partitions=7, new_topic_replication=1)
        )  # fmt: skip

        consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None)
        try:
            made = [len(consumer.partitions_for_topic(topic) or ()) for topic in topics]
        finally:
            consumer.close()
        assert made == [7, 2]
        assert stores.by_queue(stores.got(broker, *topics)) == stores.in_log(log)

    def test_one_that_cannot_be_made_is_said_why(self, broker: Broker, tmp_path: Path) -> None:
        stores.write(
            tmp_path / "store", stores.messages(10, (f"{tmp_path.name}-x",), random.Random(1))
        )
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name=tmp_path.name,
                             create_topics=True, new_topic_replication=3)  # fmt: skip
        with pytest.raises(ReputError, match=r"-x is missing, and could not be made .*Replication"):
            stores.send(made)
