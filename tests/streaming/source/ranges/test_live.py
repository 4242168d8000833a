"""Plans of a live job: a store that cannot be looked at keeps no other one from its plan."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from reput.formats.errors import FormatError, StoreError, store_of
from reput.formats.rocketmq import names
from reput.streaming.source.offsets import NOTHING, StoreOffsets
from reput.streaming.source.options import parse
from reput.streaming.source.ranges import live
from reput.streaming.source.ranges.live import LiveRanges
from tests.builders.brokers import Broker
from tests.builders.stores import LOG_FILE, SMALL

if TYPE_CHECKING:
    from pathlib import Path

START = {"a": 0, "b": 0}


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Wait for looks however slow the machine is; return a function that sets how long."""

    def wait(seconds: float) -> None:
        monkeypatch.setattr(live, "_PATIENCE_SECONDS", seconds)

    wait(60.0)
    return wait


@pytest.fixture
def brokers(tmp_path):
    """Return two brokers with 20 messages, by store."""
    found = {}
    for seed, name in enumerate(START):
        found[name] = Broker(tmp_path / name, seed)
        found[name].append(20)
    return found


def ranges_of(brokers: dict[str, Broker]) -> LiveRanges:
    stores = json.dumps({name: str(broker.store) for name, broker in brokers.items()})
    return LiveRanges(
        parse(
            {
                "stores": stores,
                "rows": "ranges",
                "startingOffsets": json.dumps(dict.fromkeys(brokers, 0)),
                **{f"broker.{key}": value for key, value in SMALL.items()},
            }
        )
    )


def take_away(broker: Broker) -> None:
    broker.store.rename(away(broker))


def away(broker: Broker) -> Path:
    return broker.store.with_name(f"{broker.store.name}-away")


def damage(broker: Broker) -> int:
    """Damage the second record of the log's last file; return its physical offset."""
    broker.append(6)
    base = broker.log.end // LOG_FILE * LOG_FILE
    place = [each.position for each in broker.log.places if each.position >= base][1]
    path = broker.store / names.COMMITLOG / names.offset_file(base)
    raw = bytearray(path.read_bytes())
    raw[place - base + 4] ^= 1
    path.write_bytes(raw)
    return place


@pytest.fixture
def flawed(monkeypatch):
    """Let looks at the stores of this list fail by a fault of the program."""
    stores: list[str] = []
    real = StoreOffsets.end

    def end(offsets: StoreOffsets) -> int:
        if offsets.name in stores:
            raise AttributeError("of a kernel")
        return real(offsets)

    monkeypatch.setattr(StoreOffsets, "end", end)
    return stores


class TestEnds:
    def test_they_follow_the_logs(self, brokers):
        ranges = ranges_of(brokers)
        assert ranges.begin() == START
        for count in (0, 1, 40):
            ends = {name: broker.append(count) for name, broker in brokers.items()}
            assert ranges.ends(START) == ends

    def test_a_store_that_is_away_stays_where_it_is_and_comes_back(self, brokers):
        take_away(brokers["b"])
        ranges = ranges_of(brokers)

        assert ranges.begin() == {"a": 0, "b": NOTHING}
        assert ranges.ends({"a": 0, "b": NOTHING}) == {"a": brokers["a"].log.end, "b": NOTHING}
        away(brokers["b"]).rename(brokers["b"].store)
        assert ranges.ends(START) == {name: each.log.end for name, each in brokers.items()}

    def test_damage_is_planned_up_to_and_then_an_error_where_no_store_goes_on(self, brokers):
        places = {name: damage(broker) for name, broker in brokers.items()}
        ranges = ranges_of(brokers)

        assert ranges.ends(START) == places
        with pytest.raises(FormatError):
            ranges.ends(places)
        assert ranges.ends({**places, "b": 0}) == places

    def test_the_error_is_raised_where_no_store_can_be_looked_at(self, brokers):
        for broker in brokers.values():
            take_away(broker)
        ranges = ranges_of(brokers)

        with pytest.raises(StoreError) as error:
            ranges.begin()
        assert store_of(error.value) == "a"


class TestLook:
    def test_a_fault_of_the_program_is_the_error_of_its_store(self, brokers, flawed):
        """
        Not lost with the thread that came upon it.
        """
        ranges = ranges_of(brokers)
        flawed.append("b")
        assert ranges.ends(START) == {"a": brokers["a"].log.end, "b": 0}
        flawed.insert(0, "a")
        with pytest.raises(AttributeError, match="of a kernel") as error:
            ranges_of(brokers).ends(START)

        assert store_of(error.value) == "a"

    def test_one_store_alone_fails_likewise(self, brokers, flawed):
        alone = ranges_of({"b": brokers["b"]})
        flawed.append("b")
        with pytest.raises(AttributeError, match="of a kernel") as error:
            alone.ends({"b": 0})

        assert store_of(error.value) == "b"

    def test_one_that_hangs_is_not_begun_again_and_keeps_no_other_waiting(
        self, brokers, monkeypatch, patience
    ):
        returns = threading.Event()
        begun = []
        real = StoreOffsets.end

        def end(offsets: StoreOffsets) -> int:
            if offsets.name == "b" and not returns.is_set():
                begun.append(offsets)
                returns.wait()
            return real(offsets)

        monkeypatch.setattr(StoreOffsets, "end", end)
        ranges = ranges_of(brokers)
        # The first look of all compiles what it needs.
        assert ranges_of({"a": brokers["a"]}).ends({"a": 0}) == {"a": brokers["a"].log.end}
        patience(1.0)
        try:
            for _ in range(3):
                end = brokers["a"].append(1)
                assert ranges.ends(START) == {"a": end, "b": 0}
            assert len(begun) == 1
        finally:
            returns.set()
        patience(60.0)
        # The look that hung ends first.
        ranges.ends(START)

        assert ranges.ends(START) == {name: each.log.end for name, each in brokers.items()}
