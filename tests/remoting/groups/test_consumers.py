"""The groups of a broker that left its files."""

from __future__ import annotations

import json

import pytest

from reput.formats.errors import StoreError
from reput.formats.filters.bloomfilter import BloomFilter
from reput.formats.rocketmq.broker import BrokerSettings
from reput.remoting.groups.consumers import consumers_of
from reput.remoting.names.release import RELEASE_5_5
from tests.builders.channels import Clock

SIZE = BloomFilter.sized()
FILTER = {
    "bloomFilterData": {"bitNum": SIZE.bits, "bitPos": list(SIZE.positions("g", "t"))},
    "bornTime": 5,
    "clientVersion": 7,
    "expression": "a > 3",
    "expressionType": "SQL92",
}


@pytest.fixture
def config(tmp_path):
    (tmp_path / "config").mkdir()
    return tmp_path / "config"


def read(config, **options):
    clock = Clock()
    settings = BrokerSettings()
    return consumers_of(config.parent, settings, RELEASE_5_5, clock, clock=clock, **options)


def test_what_the_broker_knew_is_known(config):
    groups = {"subscriptionGroupTable": {"g": {"consumeEnable": False}}}
    (config / "subscriptionGroup.json").write_text(json.dumps(groups))
    filters = {"filterDataByTopic": {"t": {"groupFilterData": {"g": FILTER}}}}
    (config / "consumerFilter.json").write_text(json.dumps(filters))
    found = read(config, makes_unknown=False)

    assert not found.config("g").may_consume
    assert found.config("h") is None
    assert found.online("g") is None
    assert (found.filter_of("t", "g").expression, found.filter_of("t", "g").born_time) == (
        "a > 3",
        5,
    )


def test_a_store_without_files_has_no_groups_of_its_own(config):
    found = read(config)

    assert found.config("g") is not None
    assert found.filter_of("t", "g") is None


def test_damaged_filters_are_named(config):
    (config / "consumerFilter.json").write_text('{"filterDataByTopic":7}')
    with pytest.raises(StoreError, match=r"consumerFilter\.json"):
        read(config)
