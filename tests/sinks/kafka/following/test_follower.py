"""Sending resumes where a log that was cut parts from what was sent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from reput.formats.errors import KafkaError
from reput.sinks.kafka.extent import Extent
from reput.sinks.kafka.following.parting import SentRecords, parting, sent_until
from reput.sinks.kafka.position.position import Position
from reput.sinks.kafka.position.start import points_before
from tests.builders.kafka_sinks import (
    COUNT,
    FILE_SIZE,
    later,
    log_of,
    messages,
    prepared,
    sent_in,
    sink,
    written,
)

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.encode import Message
    from tests.builders.stores import Log


class TestFollowing:
    """A position that nothing was sent before, and the log is cut."""

    def position(self, path: Path, extent: Extent) -> Position:
        sending = sink(path)
        sending.decide_latest(extent)
        return sending._opening.beginning.first_position(extent)

    @pytest.mark.parametrize("count", [COUNT + 50, 800], ids=["past it", "before it"])
    @pytest.mark.parametrize("body", [b"new", b"longer than the old ones"])
    def test_sending_begins_where_the_log_was_cut(
        self, tmp_path: Path, count: int, body: bytes
    ) -> None:
        """
        Before dispatch had come to the place, so it knows of no cut; nobody has to accept that.
        """
        old, _ = log_of(tmp_path)
        position = self.position(tmp_path, Extent(-1, None))
        new, _ = log_of(tmp_path, count=count, new_from=700, body=body)
        cut = new.places[700].position

        found, sent = prepared(sink(tmp_path), position, Extent(new.end, None))

        assert sent is not None
        assert sent.start == found.end == found.since <= cut
        assert old.end - found.end <= 4 * (old.end - cut) + 2048
        assert all(p.end <= found.end for p in found.points)

    @pytest.mark.parametrize(("cut", "new"), [(3, 1), (50, 10), (40, 30), (3, 3), (200, 100)])
    @pytest.mark.parametrize("more", [0, 50])
    @pytest.mark.parametrize("is_torn", [False, True], ids=["", "and the last one is new"])
    def test_sending_begins_before_new_records_that_old_ones_follow(
        self, tmp_path: Path, cut: int, new: int, more: int, *, is_torn: bool
    ) -> None:
        """
        Of the same sizes, and where no point is; dispatch had not come there. They are newer. The
        last old one may have been torn, and another one stands there.
        """
        raw = messages()
        written(tmp_path / "store", raw, FILE_SIZE)
        position = self.position(tmp_path, Extent(-1, None))
        first = COUNT - cut
        changed = messages(COUNT + more)
        for number in range(first, first + new):
            changed[number] = later(raw[number], 3_600_000)._replace(body=b"new%06d" % number)
        if is_torn:
            changed[COUNT - 1] = later(raw[COUNT - 1], 3_700_000)._replace(body=b"trn%06d" % COUNT)
        for number in range(COUNT, COUNT + more):
            changed[number] = later(changed[number], 7_200_000)
        now, _ = written(tmp_path / "store", changed, FILE_SIZE)

        found, sent = prepared(sink(tmp_path), position, Extent(now.end, None))

        assert sent is not None
        assert sent.start == found.end == found.since <= now.places[first].position
        distance = position.end - now.places[first].position
        assert position.end - found.end <= 4 * distance + 2048

    def test_the_place_stays_while_a_new_output_catches_up(self, tmp_path: Path) -> None:
        log_of(tmp_path)
        position = self.position(tmp_path, Extent(-1, None))

        assert prepared(sink(tmp_path), position, Extent(5000, None)) == (position, None)

    def test_a_place_without_records_holds_kafka_back_with_what_is_true(
        self, tmp_path: Path
    ) -> None:
        """
        An earlier version wrote it: how much is new is not known, and nothing was ever sent.
        """
        old, _ = log_of(tmp_path)
        position = Position(old.end, since=old.end)
        new, _ = log_of(tmp_path, count=800, new_from=700)

        with pytest.raises(KafkaError, match="nothing was sent yet") as caught:
            prepared(sink(tmp_path), position, Extent(new.end, None))
        assert "stays in Kafka" not in str(caught.value)

        sending = sink(tmp_path, on_truncation="continue")
        assert prepared(sending, position, Extent(new.end, None))[0].end == new.end

    def test_what_is_said_of_a_cut_begins_where_sending_began(self, tmp_path: Path) -> None:
        """
        Some was sent, and the log was cut before the place at which that began.
        """
        old, log = log_of(tmp_path)
        since = old.places[500].position
        points = points_before(log, since)
        position = Position(old.end, (*points, points_before(log, old.end)[-1]), since=since)
        log_of(tmp_path, count=COUNT + 50, new_from=400)
        sending = sink(tmp_path)
        sending._follower.comparison.parting = lambda *_: None  # type: ignore[method-assign]

        with pytest.raises(KafkaError, match=f"offsets {since} to {old.end} is no longer"):
            prepared(sending, position, Extent(old.end, None))

    def follow(
        self,
        path: Path,
        raw: list[Message],
        changed: list[Message],
        looked: int,
        *,
        number: int = 1,
        **settings: Any,
    ) -> tuple[Log, Position]:
        """Return where sending continues after all from record 500 on was sent, and a log has changed.

        Args:
            path: of the test.
            raw: messages of the log that was sent.
            changed: those that it has now.
            looked: record before which dispatch has gone back to.
            number: of that cut; that of the last one that was followed is 1000.
            **settings: of Kafka.
        """
        old, log = written(path / "store", raw, FILE_SIZE)
        since = old.places[500].position
        points = (*points_before(log, since), points_before(log, old.end)[-1])
        position = Position(old.end, points, cut=1000, since=since)
        values = sent_until(sent_in(log, [old.end]), old.end).values
        known = SentRecords(since, values[500:], ((since, 0),))
        new, _ = written(path / "store", changed, FILE_SIZE)
        sending = sink(path, **settings)
        sending._follower.comparison.parting = lambda *_: parting(  # type: ignore[method-assign]
            sending.log, known, old.end, new.end, {}, 1
        )
        cuts = ((number, old.places[looked].position),)
        return old, prepared(sending, position, Extent(new.end, None, cuts=cuts))[0]

    @pytest.mark.parametrize(
        ("new", "by", "looked"),
        [
            (range(100, 120), 3_600_000, 40),
            (range(100, 120), -5_000, 40),
            (range(100, 120), -5_000, 100),
            (range(0), 0, 40),
        ],
        ids=["new records", "by a clock that has gone back", "from where it had looked", "none"],
    )
    @pytest.mark.parametrize("same", [500, 300], ids=["all the same", "to a shorter end"])
    def test_a_cut_before_all_that_was_sent_is_said_though_the_same_bytes_follow(
        self, tmp_path: Path, new: range, by: int, looked: int, same: int
    ) -> None:
        """
        The broker has erased nothing, and its new records are of the old ones' sizes: what was sent
        still stands after them. They are newer by the broker's clock, or by the producers'. Where
        there are none, dispatch only had to go back to where it had last looked: nothing is sent
        again.
        """
        raw = messages()
        changed = raw[: 500 + same]
        for number in new:
            changed[number] = raw[number]._replace(
                body=b"new%06d" % number,
                store_timestamp=raw[number].store_timestamp + by,
                born_timestamp=raw[number].born_timestamp + 3_600_000,
            )
        if new:
            with pytest.raises(KafkaError, match=r"is no longer in the log.*it is not known which"):
                self.follow(tmp_path, raw, changed, looked)
            old, position = self.follow(tmp_path, raw, changed, looked, on_truncation="continue")
            assert position.end == old.places[looked].position
        else:
            old, position = self.follow(tmp_path, raw, changed, looked, on_truncation="continue")
            assert position.end == old.end

    def test_a_point_before_the_place_tells_whatever_the_clocks_say(self, tmp_path: Path) -> None:
        """
        The store had rested before the place, and the clock of its new master is half an hour
        slow: the new records look as if they stood there in their turn.
        """
        raw = messages()
        for number in range(500, COUNT):
            raw[number] = later(raw[number], 3_600_000)
        changed = list(raw)
        for number in range(400, 500):
            changed[number] = later(raw[number], 1_800_000)._replace(body=b"new%06d" % number)

        with pytest.raises(KafkaError, match=r"is no longer in the log.*it is not known which"):
            self.follow(tmp_path, raw, changed, 400)
        old, position = self.follow(tmp_path, raw, changed, 400, on_truncation="continue")
        assert position.end <= old.places[400].position

    @pytest.mark.parametrize("number", [900, 1001], ids=["earlier", "later"])
    def test_a_cut_counts_whatever_the_clock_says_of_the_host_that_found_it(
        self, tmp_path: Path, number: int
    ) -> None:
        """
        A new output, on a host whose clock is behind, gives it a lower number than that of the last
        cut that was followed. The old bytes still stand where the points are.
        """
        raw = messages()
        changed = list(raw)
        for each in range(650, 710):
            changed[each] = later(raw[each], -5)._replace(body=b"new%06d" % each)

        with pytest.raises(KafkaError, match="is no longer in the log"):
            self.follow(tmp_path, raw, changed, 600, number=number)
        old, position = self.follow(
            tmp_path, raw, changed, 600, number=number, on_truncation="continue"
        )
        assert (position.end, position.cut) == (old.places[650].position, number)
        # And one that changed nothing is not told.
        assert self.follow(tmp_path, raw, raw, 600, number=number)[1].end == old.end

    def test_a_cut_that_was_followed_is_not_followed_again(self) -> None:
        """
        By the list of the output that has found it; of two that it has made one, too.
        """
        extent = Extent(100, None, cuts=((5, 50), (3, 40), (9, 30)))

        assert extent.cut_since(0) == extent.cut_since(7) == [50, 40, 30]
        assert extent.cut_since(5) == [40, 30]
        assert extent.cut_since(9) == []

    @pytest.mark.parametrize(
        ("step", "cut"), [(50, 990), (50, None), (5_000, 990)], ids=["cut", "not cut", "long"]
    )
    @pytest.mark.parametrize("at", [100, 390, 450])
    @pytest.mark.parametrize("looked", [0, 400, 499])
    def test_a_clock_that_was_set_back_long_ago_is_no_cut(
        self, tmp_path: Path, step: int, cut: int | None, at: int, looked: int
    ) -> None:
        """
        Somewhere before the place, in records that nobody has touched. Digests tell where a cut is.
        """
        raw = messages()
        raw[at:] = [later(message, -step) for message in raw[at:]]
        changed = list(raw)
        if cut is not None:
            changed[cut:] = [later(m, 60_000)._replace(body=b"NEW") for m in raw[cut:]]
            with pytest.raises(KafkaError, match="is no longer in the log, and stays in Kafka\\. "):
                self.follow(tmp_path, raw, changed, looked)

        old, position = self.follow(tmp_path, raw, changed, looked, on_truncation="continue")
        assert position.since == old.places[500].position
        assert position.end == (old.end if cut is None else old.places[cut].position)

    @pytest.mark.parametrize("cut", [990, None], ids=["cut", "not cut"])
    @pytest.mark.parametrize("looked", [0, 400, 499])
    def test_messages_that_were_born_long_before_are_no_cut(
        self, tmp_path: Path, cut: int | None, looked: int
    ) -> None:
        """
        Delayed and repeated ones: those before the place were born after all that was sent.
        """
        raw = messages()
        raw[500:] = [m._replace(born_timestamp=m.born_timestamp - 10_000) for m in raw[500:]]
        changed = list(raw)
        if cut is not None:
            changed = raw[:cut]

        old, position = self.follow(tmp_path, raw, changed, looked, on_truncation="continue")
        assert position.since == old.places[500].position
        assert position.end == old.end

    @pytest.mark.parametrize("number", [3, 5, 7])
    def test_an_old_cut_of_another_output_does_not_move_the_place(
        self, tmp_path: Path, number: int
    ) -> None:
        """
        Both have found it, before the place was decided; each gave it a number of its own.
        """
        made, log = log_of(tmp_path)
        position = replace(
            self.position(tmp_path, Extent(made.end, None)),
            points=points_before(log, made.end),
            cut=5,
        )
        cuts = ((number, made.places[400].position),)

        found, _ = prepared(sink(tmp_path), position, Extent(made.end, None, cuts=cuts))
        assert found.end == found.since == made.end


@pytest.mark.parametrize("damage", ["a record", "zeros"])
def test_a_log_that_ends_before_the_position_is_seen_past_damage(
    tmp_path: Path, damage: str
) -> None:
    """
    The place was passed over; the log was cut after it, and bytes of the old records still stand.
    Whether dispatch gets past the place is not known before it has.
    """
    file = tmp_path / "store" / "commitlog" / f"{0:020}"

    def hurt() -> None:
        raw = bytearray(file.read_bytes())
        at, size = old.places[100].position, old.places[100].size
        raw[at : at + size] = b"J" * size if damage == "a record" else bytes(size)
        file.write_bytes(raw)

    old, log = log_of(tmp_path, count=400)
    place = old.places[100]
    points = points_before(log, place.position)
    position = Position(old.end, points, since=0)
    hurt()
    was = file.read_bytes()
    found = messages(400)[:320]
    for number in range(300, 320):
        later = found[number].store_timestamp + 9000
        found[number] = found[number]._replace(body=b"newer%06d" % number, store_timestamp=later)
    new, _ = written(tmp_path / "store", found, FILE_SIZE)
    hurt()
    raw = file.read_bytes()
    file.write_bytes(raw[: new.end] + was[new.end :])
    sending = sink(tmp_path)
    sending._follower.comparison.parting = lambda *_: None  # type: ignore[method-assign]
    gaps = ((place.position, place.position + place.size),)

    assert prepared(sending, position, Extent(place.position, None))[1] is None
    with pytest.raises(KafkaError, match=f"to {old.end} is no longer in the log"):
        prepared(sending, position, Extent(new.end, None, gaps))
