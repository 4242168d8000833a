"""A position is told from that of another store of the same name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from reput.formats.errors import KafkaError
from reput.sinks.kafka.client.errors import AwayError
from reput.sinks.kafka.extent import Extent
from reput.sinks.kafka.opening import rename_refusals, renamed
from reput.sinks.kafka.opening.opening import Connected
from reput.sinks.kafka.opening.renamed import Me, chosen
from reput.sinks.kafka.position import progress
from reput.sinks.kafka.position.memory import Memory, remember
from reput.sinks.kafka.position.position import Found, Position
from reput.sinks.kafka.position.start import Start, points_before
from reput.stores.log import trail
from tests.builders.kafka_sinks import (
    COUNT,
    FILE_SIZE,
    kafka_of,
    log_of,
    sink,
    without_record,
)

if TYPE_CHECKING:
    from pathlib import Path


class TestLogWithoutRecord:
    """A place that was written to Kafka while the log had no record that could vouch for it."""

    @pytest.fixture
    def position(self, tmp_path: Path) -> Position:
        """Return the position of a store "x" that begins; its log has records after that."""
        without_record(tmp_path)
        sending = sink(tmp_path)
        sending.decide_latest(Extent(-1, None))
        sending.log.refresh()
        found = sending._opening.beginning.first_position(Extent(-1, None))
        assert found.has_no_record
        log_of(tmp_path, count=300)
        return replace(found, origin=str((tmp_path / "store").resolve()))

    def renamed(self, path: Path, position: Position, **settings: Any) -> Any:
        """Return what a new output of the store finds under another name."""
        sending = sink(path, "y", **settings)
        sending._opening.memory.path = path / "other.json"
        if settings.get("start") != "earliest":
            sending.decide_latest(Extent(-1, None))
        me = Me("reput-y", str(sending._link.path), "", sending._opening.beginning.leaves_out)
        return chosen({"reput-x": Found(position, 0)}, me, sending.log)

    def test_under_another_name_it_is_asked_whose_it_is(
        self, tmp_path: Path, position: Position
    ) -> None:
        """
        A new output would begin at the log's end: Kafka waits, and the message names the id.
        """
        (other,) = self.renamed(tmp_path, position)
        assert not other.is_certain
        sending = sink(tmp_path, "y")
        sending.decide_latest(Extent(-1, None))
        sending._opening.memory.path = None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(renamed, "find", lambda *_: [other])
            patch.setattr(progress, "read", lambda *_: None)
            with pytest.raises(AwayError, match=r"which had no record then.* reput-x \(0\)"):
                sending._opening.former.find("c", 8)
            # A way beside has a place of its own, and not where the output was sent up to.
            sending._opening.memory.path = tmp_path / "sent.json"
            for place, said in ((None, "only what is dispatched after that"), (7, "at 7 then")):
                latest = Start("reput-y", place, 0) if place is not None else None
                memory = Memory("d", "reput-z", latest=latest, sent=Start("reput-z", 5000, 0))
                remember(sending._opening.memory.path, memory)
                with pytest.raises(AwayError, match=said):
                    sending._opening.former.find("c", 8)

    def test_where_nothing_is_left_out_it_says_nothing(
        self, tmp_path: Path, position: Position
    ) -> None:
        """
        So stores of one layout that begin together, or at the earliest, do not wait for each other.
        """
        assert self.renamed(tmp_path, position, start="earliest") == []
        assert self.renamed(tmp_path, replace(position, origin="/else/store")) == []
        without_record(tmp_path)
        (tmp_path / "other.json").unlink(missing_ok=True)
        assert self.renamed(tmp_path, position) == []

    def test_a_record_that_the_log_had_when_kafka_came_vouches_for_it(
        self, tmp_path: Path, position: Position
    ) -> None:
        """
        The place was decided before, and was away from Kafka until the log had records.
        """
        claimed = sink(tmp_path)
        claimed.decide_latest(Extent(-1, None))
        first = claimed._opening.beginning.first_position(Extent(-1, None))
        assert (first.end, first.points, first.has_no_record) == (0, (), False)

        (other,) = self.renamed(tmp_path, first)
        assert other.is_certain
        assert position.end == first.end

    def test_a_second_store_of_the_name_does_not_take_it(
        self, tmp_path: Path, position: Position
    ) -> None:
        """
        It would send all its old messages. The one that wrote it continues, also at another path, as
        its output remembers the place; so does one with on_truncation, and an event says where.
        """
        log_of(tmp_path / "b", new_from=0)
        second = sink(tmp_path / "b")
        second.decide_latest(Extent(-1, None))
        with pytest.raises(KafkaError, match="had no record then, so nothing tells"):
            second._opening.identity.check(position, "c")

        first = sink(tmp_path)
        first.decide_latest(Extent(-1, None))
        first._opening.identity.check(position, "c")
        first._opening.identity.check(replace(position, origin="/else/store"), "c")
        accepted = sink(tmp_path / "b", on_truncation="continue", mode="idempotent")
        accepted.decide_latest(Extent(-1, None))
        accepted._opening.identity.check(position, "c")
        accepted._begin(Extent(-1, None), Connected(kafka_of("c"), Found(position, 0), 8))
        (event,) = accepted._reports.events
        assert "sending begins there, at 0, and not at" in event

    @pytest.mark.parametrize("start", ["earliest", "latest"])
    @pytest.mark.parametrize("is_here", [False, True], ids=["elsewhere", "at the same path"])
    def test_a_second_store_of_the_name_does_not_begin_late(
        self, tmp_path: Path, start: str, is_here: bool
    ) -> None:
        """
        All of the first one's log has expired but the next file, made ahead: its place is not 0. All
        that the second one's log has before that would be left out.
        """
        without_record(tmp_path / "a", FILE_SIZE)
        first = sink(tmp_path / "a", start=start)
        log_of(tmp_path / "b", count=100)
        second = sink(tmp_path / "b", start=start, mode="idempotent")
        if start == "latest":
            for each in (first, second):
                each.decide_latest(Extent(-1, None))
        own = second._opening.beginning.leaves_out
        first.log.refresh()
        position = first._opening.beginning.first_position(Extent(-1, None))
        assert (position.end, position.has_no_record) == (FILE_SIZE, True)
        first._opening.identity.check(replace(position, origin=str(first._link.path)), "c")
        new = sink(tmp_path / "a", start="earliest")
        new._opening.identity.check(replace(position, origin="/else/store"), "c")
        log_of(tmp_path / "b")
        position = replace(position, origin=str(second._link.path) if is_here else "/else/store")

        with pytest.raises(KafkaError, match=f"begins before the place of that, {FILE_SIZE}"):
            second._opening.identity.check(position, "c")
        accepted = sink(tmp_path / "b", start=start, on_truncation="continue", mode="idempotent")
        if start == "latest":
            accepted.decide_latest(Extent(-1, None))
        accepted._opening.identity.check(position, "c")
        accepted._begin(Extent(-1, None), Connected(kafka_of("c"), Found(position, 0), 8))
        (event,) = accepted._reports.events
        assert f"sending begins there, at {FILE_SIZE}, and not at {own}" in event

    def test_the_first_record_that_is_dispatched_is_told_kafka_though_it_is_not_wanted(
        self, tmp_path: Path, position: Position
    ) -> None:
        made, _ = log_of(tmp_path, count=300)
        sending = sink(tmp_path, exclude="*", mode="idempotent")
        sending.decide_latest(Extent(-1, None))
        sending._begin(Extent(-1, None), Connected(kafka_of("c"), Found(position, 0), 8))
        added: list[Position] = []
        sending._positions.add = lambda _, each, *__: added.append(each)  # type: ignore[method-assign]

        assert sending.send(Extent(made.end, None)) is not None
        assert [(each.end, each.has_no_record) for each in added] == [(made.end, False)]


def test_a_renamed_store_is_found_though_nothing_was_sent_yet(tmp_path: Path) -> None:
    """
    Another output would begin at the log's end, and leave out what came since the first start.
    """
    made, log = log_of(tmp_path)
    end = made.places[300].position
    sending = sink(tmp_path)
    sending.decide_latest(Extent(end, None))
    position = sending._opening.beginning.first_position(Extent(end, None))
    me = Me("reput-new", "/else", "")

    others = chosen({"reput-x": Found(position, 0)}, me, log)

    assert [(each.transactional_id, each.is_certain) for each in others] == [("reput-x", True)]
    said = rename_refusals.refusal(sending._link.settings, "new", me, others[0])
    assert f"to be sent from physical offset {end} on, and nothing was sent yet" in said
    assert "it was sent up to" not in said


@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_a_position_that_nothing_was_sent_before_is_not_of_another_store(
    tmp_path: Path, start: str
) -> None:
    """
    Two stores of one name: the second one would continue in the middle of its own log.
    """
    for name, new_from in (("a", COUNT), ("b", 0)):
        log_of(tmp_path / name, new_from=new_from)
    first, second = (sink(tmp_path / name, start=start) for name in ("a", "b"))
    if start == "latest":
        first.decide_latest(Extent(-1, None))
    position = first._opening.beginning.first_position(Extent(0, None))

    first._opening.identity.check(position, "c")
    with pytest.raises(KafkaError, match="is of another store"):
        second._opening.identity.check(position, "c")


def test_a_store_that_begins_at_its_log_is_not_held_back_by_its_other_name(tmp_path: Path) -> None:
    """
    Nothing was sent under that, and nothing is left out under the new one.
    """
    _, log = log_of(tmp_path)
    position = sink(tmp_path, start="earliest")._opening.beginning.first_position(Extent(0, None))

    assert position.first is not None
    assert chosen({"reput-x": Found(position, 0)}, Me("reput-new", "/else", ""), log) == []


def test_another_store_at_the_same_path_is_another_one_though_both_have_lost_their_beginnings(
    tmp_path: Path,
) -> None:
    """
    Hosts of one layout. Of the store itself, cut deeper than what is known, its output remembers
    that it was sent: then that is a cut as any other.
    """
    made, log = log_of(tmp_path)
    begin = tmp_path / "store" / "commitlog" / f"{0:020}"
    hashed = trail.hash_at(log, 0)
    assert hashed is not None
    points = points_before(log, made.end)
    path = str((tmp_path / "store").resolve())
    position = Position(made.end, points, first=(0, hashed), origin=path, since=0)
    log_of(tmp_path, new_from=0)
    begin.unlink()
    sending = sink(tmp_path)

    with pytest.raises(KafkaError, match="If it is another store: Give this one a name"):
        sending._opening.identity.check(position, "c")
    assert sending._opening.memory.path is not None
    remember(sending._opening.memory.path, Memory("c", "reput-x", made.end))
    sending._opening.identity.check(position, "c")
    with pytest.raises(KafkaError, match="If it is another store"):
        sending._opening.identity.check(position, "d")
    # All that is known has expired: what was sent before that cannot come again.
    expired = replace(position, points=tuple(p for p in points if p.end <= FILE_SIZE))
    sending._opening.identity.check(replace(expired, origin="/else/store"), "d")
    sending._opening.identity.check(replace(expired, end=FILE_SIZE - 1), "d")
    with pytest.raises(KafkaError, match="nothing of what was sent from there"):
        sending._opening.identity.check(
            replace(expired, end=FILE_SIZE - 1, origin="/else/store"), "d"
        )


def test_a_file_that_is_damaged_does_not_make_a_store_another_one(tmp_path: Path) -> None:
    """
    All records that are known, and are not expired, were in it. At another path it is not known.
    """
    made, log = log_of(tmp_path, count=2000)
    end = next(place.end for place in made.places if place.position > 2 * FILE_SIZE + 20_000)
    points = tuple(p for p in points_before(log, end) if p.record.physical_offset >= 2 * FILE_SIZE)
    hashed = trail.hash_at(log, 0)
    assert hashed is not None
    path = str((tmp_path / "store").resolve())
    position = Position(end, points, first=(0, hashed), origin=path, since=0)
    files = tmp_path / "store" / "commitlog"
    (files / f"{0:020}").unlink()
    broken = files / f"{2 * FILE_SIZE:020}"
    broken.write_bytes(broken.read_bytes()[:1000])
    sending = sink(tmp_path)

    sending._opening.identity.check(position, "c")
    with pytest.raises(KafkaError, match="nothing of what was sent from there"):
        sending._opening.identity.check(replace(position, origin="/else/store"), "c")
