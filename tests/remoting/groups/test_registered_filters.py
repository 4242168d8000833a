"""SQL92 expressions that groups register by their heartbeats."""

from __future__ import annotations

from reput.formats.filters.bloomfilter import BloomFilter
from reput.formats.filters.consumerfilter import ConsumerFilter
from reput.formats.rocketmq.broker import BrokerSettings
from reput.remoting.groups import registered_filters as module
from reput.remoting.groups.registered_filters import RegisteredFilters
from reput.remoting.reading.served import Subscription
from tests.builders.channels import Clock

POSITIONS = BloomFilter.sized().positions("g", "t")


def filters(saved=None, now=1000.0):
    return RegisteredFilters(BrokerSettings(), saved or {}, Clock(now))


def sql(text="a = 1", version=5):
    return {"t": Subscription(text, "SQL92", version)}


def test_a_filter_with_its_bits():
    found = filters()
    found.register("g", sql())

    assert found.get("t", "g") == ConsumerFilter(
        "g", "a = 1", "SQL92", 1_000_000, 0, POSITIONS, BloomFilter.sized().bits, 5
    )
    assert found.get("t", "h") is None


def test_tags_are_not_registered():
    found = filters()
    found.register("g", {"t": Subscription("A"), "u": Subscription("", "SQL92")})

    assert found.get("t", "g") is None
    assert found.get("u", "g") is None


class TestVersions:
    def test_an_older_one_is_ignored(self):
        found = filters()
        found.register("g", sql("a = 1", 5))
        found.register("g", sql("a = 2", 5))

        assert found.get("t", "g").expression == "a = 1"

    def test_a_newer_one_of_the_same_text_keeps_its_birth(self):
        """
        Bit maps that were made since then stay usable.
        """
        clock = Clock()
        found = RegisteredFilters(BrokerSettings(), {}, clock)
        found.register("g", sql(version=5))
        clock.now += 10
        found.register("g", sql(version=6))

        known = found.get("t", "g")
        assert (known.client_version, known.born_time) == (6, 1_000_000)

    def test_a_newer_text_that_cannot_be_read_removes_the_older_one(self):
        found = filters()
        found.register("g", sql("a = 1", 5))
        found.register("g", sql("a = = 2", 6))

        assert found.get("t", "g") is None


class TestDeath:
    def test_a_topic_that_is_no_longer_named(self):
        found = filters()
        found.register("g", sql())
        found.register("g", {"u": Subscription("A")})

        assert found.get("t", "g").dead

    def test_a_group_that_left_and_comes_back(self):
        found = filters(now=2000.0)
        found.register("g", sql())
        found.unregister("g")
        assert found.get("t", "g").dead_time == 2_000_000

        found.register("g", sql())
        assert not found.get("t", "g").dead


def test_their_number_is_bounded(monkeypatch):
    """
    The dead make room for the living.
    """
    monkeypatch.setattr(module, "_MOST", 2)
    found = filters()
    for group in "gh":
        found.register(group, sql())
    found.register("i", sql())
    assert found.get("t", "i") is None
    found.register("h", sql("a = 2", 6))
    assert found.get("t", "h").expression == "a = 2"

    found.unregister("g")
    found.register("i", sql())
    assert found.get("t", "i") is not None
    assert found.get("t", "g") is None


class TestSaved:
    def saved(self):
        bits = BloomFilter.sized().bits
        return {"t": (ConsumerFilter("g", "a = 1", "SQL92", 1, 0, POSITIONS, bits, 5),)}

    def test_what_the_broker_had_is_there_and_dead(self):
        found = filters(self.saved())

        assert found.get("t", "g").dead_time == 1_000_000
        assert found.get("t", "g").born_time == 1

    def test_filters_of_another_size_are_left_out(self):
        """
        A broker with these settings makes bit maps of another size, and forgets them all.
        """
        other = RegisteredFilters(BrokerSettings(bloom_consumers=64), self.saved(), Clock())

        assert other.get("t", "g") is None


def test_a_dead_filter_is_dropped_a_day_later():
    clock = Clock(1000.0)
    found = RegisteredFilters(BrokerSettings(), {}, clock)
    found.register("g", sql())
    found.register("h", sql())
    found.unregister("g")
    clock.now += module.DEAD_MS / 1000 - 1
    found.drop_dead()
    assert found.get("t", "g") is not None

    clock.now += 1
    found.drop_dead()
    assert found.get("t", "g") is None
    assert found.get("t", "h") is not None
