"""Which positions of other ids are of a store's log, and which only look like it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reput.sinks.kafka.opening import rename_refusals
from reput.sinks.kafka.opening.renamed import Me, chosen
from reput.sinks.kafka.position.position import Found, Position
from reput.stores.log import trail
from reput.stores.log.trail import Point
from reput.streaming.settings.kafka import kafka_settings
from tests.builders.kafka_sinks import written
from tests.kafka import stores

if TYPE_CHECKING:
    from pathlib import Path

    from reput.stores.log.commitlog import CommitLog
    from tests.builders.stores import Log

PATH = "/home/rocketmq/store"
ME = Me("reput-new", PATH, "")


def log_of(path: Path, seed: int, count: int = 200, like: int = 0) -> tuple[Log, CommitLog]:
    """Write a log whose first records are those of seed 1, as many as are asked for."""
    same = list(stores.messages(count, ("x",), random.Random(1)))[:like]
    own = list(stores.messages(count, ("x",), random.Random(seed)))[len(same) :]
    return written(path, same + own, 1 << 16)


def sent(made: Log, log: CommitLog, count: int, path: str = PATH, *, first: int = 0) -> Found:
    """Return a position after `count` records, with points at each tenth of them."""
    places = made.places[first:count]
    points = []
    for place in places[:: max(len(places) // 10, 1)]:
        record = trail.fingerprint(log, place.position, place.size)
        assert record is not None
        points.append(Point(record, place.position + place.size))
    begin = made.places[first].position
    hashed = trail.hash_at(log, begin)
    end = places[-1].position + places[-1].size
    return Found(Position(end, tuple(points), first=(begin, hashed), origin=path), 0)


def ids(found: list[object]) -> list[tuple[str, bool]]:
    return [(each.transactional_id, each.is_certain) for each in found]  # type: ignore[attr-defined]


@pytest.fixture
def first(tmp_path: Path) -> tuple[Log, CommitLog]:
    return log_of(tmp_path / "a", 1)


def test_a_log_under_another_id_is_found_wherever_it_stands(first: tuple[Log, CommitLog]) -> None:
    assert ids(chosen({"reput-old": sent(*first, 100, "/else")}, ME, first[1])) == [
        ("reput-old", True)
    ]


def test_another_log_at_the_same_path_is_not_it(
    tmp_path: Path, first: tuple[Log, CommitLog]
) -> None:
    """
    As in pods of one layout: one log young, the other one begins after all that was sent of it.
    """
    _, other = log_of(tmp_path / "b", 2, 1000)
    min((tmp_path / "b" / "commitlog").iterdir()).unlink()
    other.refresh()
    assert other.min_offset > 0
    young = sent(*first, 100)
    assert young.position.end < other.min_offset

    assert chosen({"reput-a": young}, ME, other) == []
    assert chosen({"reput-a": sent(*first, 200)}, ME, other) == []


def test_a_claim_before_anything_was_sent_is_no_log(first: tuple[Log, CommitLog]) -> None:
    claim = Found(Position(0, origin=PATH), 0)

    assert chosen({"reput-a": claim}, ME, first[1]) == []
    assert chosen({"reput-a": claim}, ME._replace(remembered="reput-a"), first[1]) == []


def test_of_two_ways_the_one_that_the_output_remembers_is_its_own(
    first: tuple[Log, CommitLog],
) -> None:
    """
    Whichever is farther; without a memory both are named.
    """
    ways = {"one-x": sent(*first, 100), "two-x": sent(*first, 150)}

    assert ids(chosen(ways, ME._replace(remembered="one-x"), first[1])) == [("one-x", True)]
    assert ids(chosen(ways, ME, first[1])) == [("two-x", True), ("one-x", True)]


def test_a_log_that_begins_alike_is_not_taken_for_certain(
    tmp_path: Path, first: tuple[Log, CommitLog]
) -> None:
    """
    A copy that went its own way, at the same path as well; with the same output it is a log that was
    cut.
    """
    _, copy = log_of(tmp_path / "b", 2, like=50)
    elsewhere = {"reput-a": sent(*first, 100, "/else")}

    assert ids(chosen(elsewhere, ME, copy)) == [("reput-a", False)]
    assert ids(chosen(elsewhere, ME._replace(remembered="reput-a"), copy)) == [("reput-a", True)]
    assert ids(chosen({"reput-a": sent(*first, 100)}, ME, copy)) == [("reput-a", False)]


def test_of_a_log_without_its_beginning_and_its_end_the_output_knows_whose_it_was(
    tmp_path: Path,
) -> None:
    """
    The first record has expired, and it was cut deeper than the position's points: Kafka is held
    back, and nothing is taken over. Without a memory of it, it is another log.
    """
    made, log = log_of(tmp_path / "a", 1, 2000)
    found = sent(made, log, 2000)
    kept = tuple(p for p in found.position.points if p.end > made.places[1500].position)
    ways = {"reput-a": found._replace(position=replace(found.position, points=kept))}
    _, cut = log_of(tmp_path / "b", 2, 2000, like=1400)
    min((tmp_path / "b" / "commitlog").iterdir()).unlink()
    cut.refresh()
    assert cut.min_offset < made.places[1400].position

    assert chosen(ways, ME, cut) == []
    others = chosen(ways, ME._replace(remembered="reput-a"), cut)
    assert ids(others) == [("reput-a", False)]
    settings = kafka_settings({"bootstrap": "127.0.0.1:1"})
    said = rename_refusals.alike(settings, "new", others[0])
    assert "no longer has any record that is known of that" in said
    assert 'on_rename = "begin"' in said


def test_what_only_begins_alike_does_not_count_beside_its_own(
    tmp_path: Path, first: tuple[Log, CommitLog]
) -> None:
    """
    Also where it was sent farther: a copy that was renamed continues where the copy was.
    """
    made, copy = log_of(tmp_path / "b", 2, like=50)
    ways = {"reput-a": sent(*first, 100, "/else"), "reput-b": sent(made, copy, 60, "/else")}

    assert ids(chosen(ways, ME, copy)) == [("reput-b", True)]


def test_what_the_output_remembers_is_followed_to_where_another_output_took_it(
    tmp_path: Path,
) -> None:
    """
    It remembers one id, another output took that over under a second one, and the store has a third
    one now: of a log without its beginning and its end, Kafka is held back as under the first id.
    """
    made, log = log_of(tmp_path / "a", 1, 2000)
    found = sent(made, log, 2000)
    kept = tuple(p for p in found.position.points if p.end > made.places[1500].position)
    there = found._replace(position=replace(found.position, points=kept))
    gone = found._replace(position=replace(found.position, points=kept, moved="reput-b"))
    _, cut = log_of(tmp_path / "b", 2, 2000, like=1400)
    min((tmp_path / "b" / "commitlog").iterdir()).unlink()
    cut.refresh()
    ways = {"reput-a": gone, "reput-b": there}

    assert ids(chosen(ways, ME._replace(remembered="reput-a"), cut)) == [("reput-b", False)]
    assert chosen(ways, ME, cut) == []
    back = ME._replace(transactional_id="reput-a", remembered="reput-a")
    assert chosen(ways, back, cut) == []


def test_an_id_that_the_position_has_moved_on_from_may_be_another_store_s_by_now(
    tmp_path: Path, first: tuple[Log, CommitLog]
) -> None:
    """
    All of that one lies before the beginning of our log. Ours, which the log knows, stands under a
    third id; without that, Kafka is held back, and nothing is taken over.
    """
    made, log = log_of(tmp_path / "b", 2, 2000)
    mine = sent(made, log, 2000)
    gone = mine._replace(position=replace(mine.position, moved="reput-b"))
    min((tmp_path / "b" / "commitlog").iterdir()).unlink()
    log.refresh()
    foreign = sent(*first, 200, "/else")
    assert foreign.position.end < log.min_offset
    ways = {"reput-a": gone, "reput-b": foreign, "reput-c": mine}
    me = ME._replace(remembered="reput-a")

    assert ids(chosen(ways, me, log)) == [("reput-c", True)]
    del ways["reput-c"]
    assert ids(chosen(ways, me, log)) == [("reput-b", False)]
    ways["reput-b"] = mine
    assert ids(chosen(ways, me, log)) == [("reput-b", True)]


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_way_that_was_sent_more_is_not_hidden_by_one_that_is_certain(
    tmp_path: Path, first: tuple[Log, CommitLog], *, is_remembered: bool
) -> None:
    """
    The log was cut after the older way had stopped, so only that one fits it whole: which of the
    two counts is not known.
    """
    made, log = first
    ways = {"reput-b": sent(made, log, 200), "reput-x": sent(made, log, 60)}
    if is_remembered:
        moved = replace(ways["reput-b"].position, moved="reput-b")
        ways["reput-a"] = ways["reput-b"]._replace(position=moved)
    _, cut = log_of(tmp_path / "b", 2, 200, like=180)
    me = ME._replace(remembered="reput-a" if is_remembered else "")

    assert ids(chosen(ways, me, cut)) == [("reput-b", False), ("reput-x", True)]
