"""Filters that are handed down lose no row where a broker has cut its log, and double none."""

from __future__ import annotations

import random
import shutil

import pytest
from pyspark.sql.datasource import EqualTo

from reput.formats.rocketmq.encode import Message
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.source.datasource import BatchReader
from reput.streaming.source.options import parse
from reput.streaming.source.pushdown import choosing
from reput.streaming.source.pushdown.filtered import FilteringReader
from tests.builders.stores import Log, config_of
from tests.oracle import oracle
from tests.stores.following.test_log_end import cut, put
from tests.streaming.source.pushdown.test_filters import answer, options, rows_of, small_steps

__all__ = ["small_steps"]

NOW = 1_700_000_000_000


def pushed(parsed, conditions):
    """Return what is found, and by which way it was read."""
    reader = FilteringReader(parsed)
    list(reader.pushFilters(list(conditions)))
    rows = rows_of(reader)
    assert len({row["physicalOffset"] for row in rows}) == len(rows)
    return answer(rows, conditions)


def assert_same(parsed, pick, count=60):
    """Each kind of condition gives what an unfiltered read gives."""
    rows = rows_of(BatchReader(parsed))
    assert rows
    for topic in {row["topic"] for row in rows}:
        conditions = [EqualTo(("topic",), topic)]
        assert pushed(parsed, conditions) == answer(rows, conditions)
    for row in pick.sample(rows, min(count, len(rows))):
        by_topic = EqualTo(("topic",), row["topic"])
        for conditions in (
            [by_topic, EqualTo(("keys",), row["keys"])],
            [by_topic, EqualTo(("uniqKey",), row["uniqKey"])],
            [
                by_topic,
                EqualTo(("queueId",), row["queueId"]),
                EqualTo(("queueOffset",), row["queueOffset"]),
            ],
        ):
            assert pushed(parsed, conditions) == answer(rows, conditions), conditions


@pytest.mark.oracle
@pytest.mark.parametrize("version", oracle.VERSIONS)
def test_of_a_brokers_own_store(version, tmp_path):
    """
    Cut by truncateFiles and by recoveries, written on with records of one size or of many, closed
    in order or killed; as its broker has left it.
    """
    oracle.build(version)
    for path in oracle.cut_stores(version, 1, 8, tmp_path):
        conf = oracle.config_of(path.with_suffix(".facts"))
        parsed = parse(
            {
                "path": str(path),
                "brokerVersion": version,
                **{f"broker.{name}": value for name, value in conf.items()},
            }
        )
        assert_same(parsed, random.Random(path.name), 20)


class Cutting:
    """A log that is written, cut and written over."""

    def __init__(self, tmp_path, seed: int) -> None:
        self.store = tmp_path / "store"
        self.random = random.Random(seed)
        self.log = Log()
        self.now = NOW
        self.serial = 0
        self.same_size = seed % 2 == 0
        self.offsets: dict[tuple[str, int], int] = {}

    def write(self, count: int) -> None:
        begin = self.log.end
        for _ in range(count):
            self.now += 1
            self.serial += 1
            key = self.random.choice("ab"), self.random.randrange(2)
            number = self.offsets.get(key, 0)
            self.offsets[key] = number + 1
            name = f"{1_000_000 + self.serial}"
            size = 30 if self.same_size else self.random.randint(10, 60)
            self.log.append(
                Message(
                    key[0],
                    bytes(size),
                    {"KEYS": f"k{name}", "UNIQ_KEY": f"U{name}"},
                    queue_id=key[1],
                    queue_offset=number,
                    store_timestamp=self.now,
                )
            )
        if self.store.exists():
            put(self.store, begin, bytes(self.log.data[begin:]))
        else:
            self.log.write(self.store, ahead=1)

    def cut(self, number: int) -> None:
        self.now += 10_000
        for place in self.log.places[number:]:
            key = place.message.topic, place.message.queue_id
            self.offsets[key] = min(self.offsets[key], place.message.queue_offset)
        cut(self.store, self.log, number)

    def dispatch(self, output, end=None) -> None:
        dispatcher = StoreDispatcher(config_of(self.store, output))
        dispatcher.dispatch(self.log.end if end is None else end)
        dispatcher.close()


@pytest.mark.parametrize("seed", range(12))
def test_of_an_output(seed, tmp_path):
    """
    Whose log was cut since: an output that has not followed yet, and that has; and the same files
    as a broker's own, killed before it dispatched what it had written over the cut.
    """
    made = Cutting(tmp_path, seed)
    pick = made.random
    made.write(pick.randint(40, 150))
    output = tmp_path / "out"
    made.dispatch(output)
    for round_number in range(3):
        count = len(made.log.places)
        made.cut(pick.randrange(max(count - 40, 0), count))
        # Less than a file: no broker's dispatch is that far from its log's end.
        made.write(pick.randint(1, 60 if seed % 3 else 15))
        parsed = options(made.store, output)
        assert_same(parsed, pick, 15)
        if seed % 3:
            made.dispatch(output)
            assert_same(parsed, pick, 15)
            continue
        killed = tmp_path / f"killed-{round_number}"
        shutil.copytree(made.store, killed)
        for kind in ("consumequeue", "index"):
            shutil.copytree(output / kind, killed / kind)
        (killed / "abort").touch()
        assert_same(options(killed), pick, 15)
        made.dispatch(output)
        assert_same(parsed, pick, 15)


class TestChoice:
    @pytest.fixture
    def lines(self, monkeypatch):
        found = []
        monkeypatch.setattr(
            "reput.streaming.source.pushdown.filtered.announce",
            lambda *args, aloud: found.append(args),
        )
        return found

    def chosen(self, lines, parsed, conditions):
        reader = FilteringReader(parsed)
        reader.pushFilters(conditions)
        reader.partitions()
        return lines[-1][1]

    @pytest.fixture
    def made(self, tmp_path):
        made = Cutting(tmp_path, 0)
        made.write(120)
        made.dispatch(tmp_path / "out")
        return made

    def conditions(self, made, number):
        message = made.log.places[number].message
        return [EqualTo(("topic",), message.topic), EqualTo(("keys",), message.properties["KEYS"])]

    def test_a_brokers_index_is_used_if_the_user_trusts_it(self, made, tmp_path, lines):
        """
        And where it is not, that and what to do about it are said.
        """
        own = tmp_path / "own"
        shutil.copytree(made.store, own)
        for kind in ("consumequeue", "index"):
            shutil.copytree(tmp_path / "out" / kind, own / kind)
        conditions = self.conditions(made, 50)
        choice = self.chosen(lines, options(own), conditions)
        assert choice.way == choosing.QUEUES
        assert "trustIndex=true" in choice.describe("s", lines[-1][2])
        choice = self.chosen(lines, options(own, trustIndex="true"), conditions)
        assert (choice.way, choice.reason) == (choosing.INDEX, "")

    def test_an_outputs_index_is_used_as_far_as_the_output_fits_the_log(
        self, made, tmp_path, lines
    ):
        parsed = options(made.store, tmp_path / "out")
        assert self.chosen(lines, parsed, self.conditions(made, 50)).way == choosing.INDEX
        made.write(10)
        choice = self.chosen(lines, parsed, self.conditions(made, 50))
        assert choice.way == choosing.INDEX
        assert choice.ranges[-1].end == made.log.end
        made.cut(60)
        made.write(5)
        choice = self.chosen(lines, parsed, self.conditions(made, 50))
        assert choice.way == choosing.LOG
        assert "another log, or to a part that was cut" in choice.reason

    def test_of_a_running_broker_the_last_file_is_read_as_it_may_not_be_dispatched(
        self, made, tmp_path, lines
    ):
        own = tmp_path / "own"
        shutil.copytree(made.store, own)
        shutil.copytree(tmp_path / "out" / "consumequeue", own / "consumequeue")
        (own / "abort").touch()
        choice = self.chosen(lines, options(own), self.conditions(made, 50)[:1])
        last = made.log.end - made.log.end % made.log.file_size
        assert choice.way == choosing.QUEUES
        assert any(r.start <= last and r.end == made.log.end for r in choice.ranges)
