"""A store that Kafka has no position of begins at one place, whatever happens until then."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reput.sinks.kafka.extent import Extent
from reput.sinks.kafka.opening.opening import Connected
from reput.sinks.kafka.position.memory import remembered
from reput.sinks.kafka.position.position import Position
from reput.sinks.kafka.position.start import points_before
from tests.builders.kafka_sinks import (
    kafka_of,
    log_of,
    sink,
)

if TYPE_CHECKING:
    from pathlib import Path

    from reput.sinks.kafka.sink import KafkaSink
    from tests.builders.stores import Log


class TestPlace:
    def test_it_belongs_to_the_output_under_any_name(self, tmp_path: Path) -> None:
        """
        A start under another name, while Kafka is away, neither moves the place nor writes over it.
        """
        made, _ = log_of(tmp_path, count=300)
        sink(tmp_path).decide_latest(Extent(-1, None))
        grown, _ = log_of(tmp_path, count=600)
        for name in ("y", "x"):
            sending = sink(tmp_path, name)
            sending.decide_latest(Extent(grown.end, None))

            position = sending._opening.beginning.first_position(Extent(grown.end, None))
            assert position.end == position.since == made.end
            assert position.points[-1].end == made.end

    @pytest.mark.parametrize("damage", ["a record", "zeros"])
    def test_damage_before_the_end_of_the_log_does_not_move_the_place(
        self, tmp_path: Path, damage: str
    ) -> None:
        """
        It is the log's end at the first start, written down with records on both sides of the
        damage, and stays there at a start later on.
        """

        def damaged(count: int) -> Log:
            made, _ = log_of(tmp_path, count=count)
            place = made.places[100]
            broken = slice(4, 8) if damage == "a record" else slice(0, place.size)
            raw = bytearray((tmp_path / "store" / "commitlog" / f"{0:020}").read_bytes())
            raw[place.position + broken.start : place.position + broken.stop] = bytes(
                b"JUNK" if damage == "a record" else place.size
            )
            (tmp_path / "store" / "commitlog" / f"{0:020}").write_bytes(raw)
            return made

        made = damaged(300)
        sink(tmp_path).decide_latest(Extent(-1, None))
        grown = damaged(350)
        for end in (-1, made.places[50].position, grown.end):
            sending = sink(tmp_path)
            sending.decide_latest(Extent(end, None))

            position = sending._opening.beginning.first_position(Extent(end, None))
            assert position.end == position.since == made.end
            assert position.points[-1].end == made.end
            assert len([p for p in position.points if p.end > made.places[110].position]) > 3

    @pytest.mark.parametrize("is_known", [True, False], ids=["", "of an earlier version"])
    def test_another_kafka_at_the_same_address_lacks_nothing_from_the_outage_on(
        self, tmp_path: Path, is_known: bool
    ) -> None:
        """
        The store was sent, and its Kafka goes away: neither what is dispatched then nor a start in
        between moves the place where sending begins in an empty one, and an event says where.
        """
        made, log = log_of(tmp_path, count=300)
        first = sink(tmp_path)
        first.position = Position(made.end, points_before(log, made.end), since=0)
        first._opening.memory.cluster, first._opening.memory.knows_position = "c", True
        first.remember()
        if not is_known:
            assert first._opening.memory.path is not None
            values = json.loads(first._opening.memory.path.read_text())
            del values["sent"], values["crc"]
            first._opening.memory.path.write_text(json.dumps(values))
        for count in (300, 400, 500):
            grown, _ = log_of(tmp_path, count=count)
            sending = sink(tmp_path, mode="idempotent")
            extent = Extent(grown.end, None)
            sending.decide_latest(extent)
            sending._begin(extent, Connected(kafka_of("d"), None, 8))

            position = sending.position
            assert position is not None
            assert position.end == position.since == made.end
            assert position.points[-1].end == made.end
            (event,) = sending._reports.events
            assert f"offset {made.end}: sending begins at {made.end} there" in event

    @pytest.fixture
    def sent(self, tmp_path: Path) -> tuple[KafkaSink, int]:
        """Return a sink whose output remembers that it was sent, and up to where."""
        made, log = log_of(tmp_path, count=300)
        first = sink(tmp_path)
        first.decide_latest(Extent(-1, None))
        first.position = Position(made.end, points_before(log, made.end), since=0)
        first._opening.memory.cluster, first._opening.memory.knows_position = "c", True
        first.remember()
        return first, made.end

    @pytest.mark.parametrize("last", ["x", "y"], ids=["again as before", "as another one"])
    def test_a_start_under_another_name_in_an_outage_does_not_move_it(
        self, tmp_path: Path, sent: tuple[KafkaSink, int], last: str
    ) -> None:
        """
        Nor does one with another address. An empty Kafka answers then: an event says where it
        continues.
        """
        grown, _ = log_of(tmp_path, count=600)
        extent = Extent(grown.end, None)
        sink(tmp_path, "y").decide_latest(extent)
        sink(tmp_path, "x", bootstrap="127.0.0.1:2").decide_latest(extent)
        sending = sink(tmp_path, last, mode="idempotent")
        sending.decide_latest(extent)
        sending._begin(extent, Connected(kafka_of("d"), None, 8))

        position = sending.position
        assert position is not None
        assert position.end == position.since == sent[1]
        (event,) = sending._reports.events
        assert f"offset {sent[1]}: sending begins at {sent[1]} there" in event

    def test_a_way_beside_the_former_one_begins_at_the_latest(
        self, tmp_path: Path, sent: tuple[KafkaSink, int]
    ) -> None:
        """
        With on_rename = "begin" the operator asks for that; the former way keeps its place.
        """
        grown, _ = log_of(tmp_path, count=600)
        extent = Extent(grown.end, None)
        beside = sink(tmp_path, "y", on_rename="begin")
        beside.decide_latest(extent)
        former = sink(tmp_path)
        former.decide_latest(extent)

        assert beside._opening.beginning.first_position(extent).end == grown.end
        assert former._opening.beginning.first_position(extent).end == sent[1]

    def test_another_kafka_that_answers_a_running_job_lacks_nothing_and_gets_nothing_twice(
        self, tmp_path: Path, sent: tuple[KafkaSink, int]
    ) -> None:
        """
        Sending begins where it ended, and not where it was to begin when the job started.
        """
        running, end = sent
        grown, log = log_of(tmp_path, count=600)
        assert running.position is not None
        running.position = replace(
            running.position, end=grown.end, points=points_before(log, grown.end)
        )
        running.remember()

        assert (
            end
            < running._opening.beginning.first_position(Extent(grown.end, None)).end
            == grown.end
        )

    def test_an_output_that_has_gone_back_to_the_beginning_is_not_a_new_one(
        self, tmp_path: Path
    ) -> None:
        """
        It was dispatched in one batch without Kafka, and the log was cut while the job was down: all
        that is dispatched from then on is sent, also after a restart.
        """
        made, _ = log_of(tmp_path, count=300)
        for end in (-1, made.end):
            extent = Extent(end, None, cuts=((1, 0),))
            sending = sink(tmp_path)
            sending.decide_latest(extent)

            position = sending._opening.beginning.first_position(extent)
            assert position.end == position.since == 0


def test_a_memory_that_cannot_be_written_does_not_hold_back_what_kafka_has_taken(
    tmp_path: Path,
) -> None:
    """
    What was committed counts, and sending continues.
    """
    made, _ = log_of(tmp_path)
    sending = sink(tmp_path, start="earliest", mode="idempotent", exclude="*")
    added: list[Position] = []
    sending._positions.add = lambda _, each, *__: added.append(each)  # type: ignore[method-assign]
    sending._begin(Extent(0, None), Connected(kafka_of("c"), None, 8))
    assert sending._opening.memory.path is not None
    blocked = sending._opening.memory.path.with_suffix(".new")
    blocked.mkdir()
    for number in (100, 200):
        sending._reports.events.append("something to tell")
        sent = sending.send(Extent(made.places[number].position, None))
        assert sent is not None
        assert sent.end == added[-1].end == made.places[number].position
    with pytest.raises(IsADirectoryError):
        sending.remember()
    blocked.rmdir()
    sending.remember()
    known = remembered(sending._opening.memory.path)
    assert known is not None
    assert known.end == made.places[200].position
