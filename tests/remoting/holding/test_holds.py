"""Which pulls wait, and what ends their wait. `tests/remoting/holding/test_watch.py` has the files."""

from __future__ import annotations

import pytest

from reput.remoting.holding.holds import MOST_SECONDS, SWEEP_SECONDS, Holds
from reput.remoting.reading.filters import by_tags, of_request
from reput.remoting.wire.command import Command
from reput.stores.queues.reader import QueueEntry
from tests.builders.channels import Clock, KeptChannel
from tests.builders.served import request

QUEUE = "t", 0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def woken():
    return []


@pytest.fixture
def holds(clock, woken):
    return Holds(woken.append, clock)


def hold(holds, offset=5, wanted=None, channel=None, **said):
    header = request(offset, flags=6, **said)
    channel = channel or KeptChannel()
    holds.hold(Command(11, 7), header, channel, wanted)
    return channel


def entry(offset, tag=None):
    code = 0 if tag is None else next(iter(by_tags(tag).codes))
    return QueueEntry(offset, 1000, 100, code)


class TestArrival:
    def test_a_message_at_the_offset_that_was_asked_for_wakes(self, holds, woken):
        hold(holds, 5)
        holds.arrived(QUEUE, 6, entry(5))
        holds.answer()

        assert [each.header.queue_offset for each in woken] == [5]
        assert (len(holds), holds.woken) == (0, 1)

    def test_one_before_the_offset_does_not(self, holds, woken):
        hold(holds, 5)
        holds.arrived(QUEUE, 5, entry(4))
        holds.answer()

        assert (woken, len(holds)) == ([], 1)

    def test_nor_does_one_of_another_queue(self, holds, woken):
        hold(holds, 5)
        for key in (("t", 1), ("other", 0)):
            holds.arrived(key, 9, entry(5))
        holds.answer()

        assert woken == []

    def test_tags_are_compared_by_their_hashes(self, holds, woken):
        hold(holds, 5, by_tags("red || blue"))
        holds.arrived(QUEUE, 6, entry(5, "green"))
        holds.answer()
        assert woken == []

        holds.arrived(QUEUE, 7, entry(6, "blue"))
        holds.answer()
        assert len(woken) == 1

    def test_sql_looks_at_the_message(self, holds, woken):
        wanted = of_request("a > 3", "SQL92", string_operators=True)
        hold(holds, 5, wanted)
        for value in ("2", "9"):
            assert woken == []
            holds.arrived(QUEUE, 6, entry(5), lambda _, value=value: {"a": value})
            holds.answer()
        assert len(woken) == 1

    def test_sql_takes_a_message_that_is_gone_for_a_wanted_one(self, holds, woken):
        hold(holds, 5, of_request("a > 3", "SQL92", string_operators=True))
        holds.arrived(QUEUE, 6, entry(5), lambda _: None)
        holds.answer()

        assert len(woken) == 1

    def test_two_pulls_of_one_client_are_two(self, holds, woken):
        channel = hold(holds, 5)
        hold(holds, 5, channel=channel)
        assert len(holds) == 2

        holds.arrived(QUEUE, 6, entry(5))
        holds.answer()
        assert [each.channel for each in woken] == [channel, channel]

    def test_only_those_whose_offset_was_reached_wake(self, holds, woken):
        for offset in (5, 6, 7):
            hold(holds, offset)
        holds.arrived(QUEUE, 7, entry(6))
        holds.answer()

        assert [each.header.queue_offset for each in woken] == [5, 6]
        assert (len(holds), list(holds)) == (1, [QUEUE])

    def test_very_many_are_answered_in_several_turns(self, holds, woken):
        for _ in range(200):
            hold(holds, 5)
        holds.arrived(QUEUE, 6, entry(5))
        turns = 0
        while holds.is_ready:
            before = len(woken)
            holds.answer()
            turns += 1
            assert 0 < len(woken) - before <= 64
        assert (len(woken), turns, len(holds)) == (200, 4, 0)


class TestSweep:
    def test_it_wakes_whatever_is_wanted(self, holds, woken, clock):
        """
        A consumer whose tag never comes moves on by it.
        """
        hold(holds, 5, by_tags("never"))
        assert not holds.is_sweep_due()
        clock.now += SWEEP_SECONDS
        assert holds.is_sweep_due()
        holds.sweep({QUEUE: 6}.__getitem__)
        holds.answer()

        assert len(woken) == 1
        assert not holds.is_sweep_due()

    def test_it_leaves_those_for_whom_nothing_came(self, holds, woken):
        hold(holds, 5)
        holds.sweep({QUEUE: 5}.__getitem__)
        holds.answer()

        assert (woken, len(holds)) == ([], 1)


class TestTime:
    @pytest.mark.parametrize(
        ("asked", "seconds"), [(15000, 15), (20000, 20), (60_000, MOST_SECONDS), (0, 0), (-5, 0)]
    )
    def test_a_pull_waits_as_long_as_it_says_but_its_client_gets_an_answer(
        self, holds, woken, clock, asked, seconds
    ):
        header = request(5, flags=6).__class__("g", "t", 0, 5, 32, 6, 0, asked, 0, "*")
        holds.hold(Command(11), header, KeptChannel(), None)
        if seconds:
            clock.now += seconds - 0.001
            holds.tick()
            holds.answer()
            assert woken == []
            clock.now += 0.001
        holds.tick()
        holds.answer()

        assert (len(woken), holds.expired, len(holds)) == (1, 1, 0)

    def test_short_polling_is_for_all_the_same(self, woken, clock):
        holds = Holds(woken.append, clock, short_polling=1.0)
        hold(holds, 5)
        clock.now += 1
        holds.tick()
        holds.answer()

        assert len(woken) == 1


class TestClosed:
    def test_a_closed_connection_is_forgotten(self, holds, woken):
        gone, there = hold(holds), hold(holds)
        gone.close()
        holds.tick()
        assert (len(holds), holds.left) == (1, 1)

        holds.arrived(QUEUE, 6, entry(5))
        holds.answer()
        assert [each.channel for each in woken] == [there]

    def test_also_if_it_closes_just_before_its_answer(self, holds, woken):
        channel = hold(holds)
        holds.arrived(QUEUE, 6, entry(5))
        channel.close()
        holds.answer()

        assert (woken, len(holds), holds.left) == ([], 0, 1)

    def test_the_last_of_a_queue_leaves_nothing(self, holds):
        hold(holds).close()
        holds.tick()

        assert (len(holds), list(holds)) == (0, [])
