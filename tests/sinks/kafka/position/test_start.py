"""Where a store with `start` "latest" begins: a place, and records before it that tell of cuts."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from reput.sinks.kafka.position.start import points_before, same_until
from reput.stores.log import trail
from tests.builders.kafka_sinks import (
    COUNT,
    FILE_SIZE,
    log_of,
    messages,
    written,
)

if TYPE_CHECKING:
    from pathlib import Path

    from reput.stores.log.commitlog import CommitLog
    from tests.builders.stores import Log


def test_points_are_the_first_record_and_the_last_and_more_the_nearer_they_are(
    tmp_path: Path,
) -> None:
    made, log = log_of(tmp_path)
    points = points_before(log, made.end)
    ends = {place.end for place in made.places}

    assert points[0].record.physical_offset == 0
    assert points[-1].end == made.end
    assert {p.end for p in points} <= ends
    assert all(trail.is_there(log, p.record) for p in points)
    depths = [made.end - p.record.physical_offset for p in points[1:]]
    assert all(deep <= 4 * less + 1024 for deep, less in pairwise(depths))


def test_the_last_record_is_found_across_the_end_of_a_file(tmp_path: Path) -> None:
    """
    Also where what fills the file is longer than the nearest distance that is looked at.
    """
    found = messages(600)
    found[550] = found[550]._replace(body=bytes(40_000))
    made, log = written(tmp_path / "store", found, FILE_SIZE)
    large = made.places[550]
    assert made.places[549].end + 2048 < large.position
    assert large.position % FILE_SIZE == 0
    for number in (550, 551):
        end = made.places[number].position

        assert points_before(log, end)[-1].record.physical_offset == (
            made.places[number - 1].position
        )


def test_nothing_is_before_the_beginning_of_a_log(tmp_path: Path) -> None:
    _, log = log_of(tmp_path)

    assert points_before(log, 0) == ()


class TestSameUntil:
    @pytest.fixture
    def made(self, tmp_path: Path) -> tuple[Log, CommitLog]:
        return log_of(tmp_path)

    @pytest.mark.parametrize("body", [b"new", b"longer than the old ones"])
    @pytest.mark.parametrize("new_from", [20, 700, COUNT - 1])
    def test_a_log_that_was_cut_is_the_same_up_to_a_record_before_the_cut(
        self, tmp_path: Path, made: tuple[Log, CommitLog], new_from: int, body: bytes
    ) -> None:
        """
        The new log reaches past the place, and what stands at the place may be within a record.
        """
        place, points = made[0].end, points_before(made[1], made[0].end)
        log, after = log_of(tmp_path, count=COUNT + 50, new_from=new_from, body=body)
        cut = log.places[new_from].position

        same = same_until(after, place, points, None)

        assert same is not None
        assert same <= cut
        assert place - same <= 4 * (place - cut) + 2048
        assert same in {p.position for p in log.places}

    def test_bytes_that_stand_after_the_end_of_a_log_do_not_vouch_for_it(
        self, tmp_path: Path, made: tuple[Log, CommitLog]
    ) -> None:
        old, log = made
        tail = old.places[700].position
        points = points_before(log, old.end)
        assert trail.check(log, points).is_same

        same = same_until(log, old.end, points, tail)

        assert same is not None
        assert same <= tail
        assert same in {p.end for p in points}

    def test_where_dispatch_has_gone_back_it_begins_there(
        self, made: tuple[Log, CommitLog]
    ) -> None:
        old, log = made
        cut = old.places[500].position

        assert same_until(log, cut, points_before(log, old.end), None) == cut

    def test_another_log_is_the_same_from_its_beginning(
        self, tmp_path: Path, made: tuple[Log, CommitLog]
    ) -> None:
        points = points_before(made[1], made[0].end)
        _, other = log_of(tmp_path, new_from=0)

        assert same_until(other, made[0].end, points, None) == 0

    def test_without_points_a_log_that_ends_earlier_tells_nothing(
        self, made: tuple[Log, CommitLog]
    ) -> None:
        old, log = made

        assert same_until(log, old.end, (), old.end - 1000) is None
        assert same_until(log, old.end, (), None) == old.end
