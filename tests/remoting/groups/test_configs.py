"""Which groups are configured, and which a broker makes."""

from __future__ import annotations

import json

import pytest

from reput.formats.errors import StoreError
from reput.remoting.groups.configs import FILE, GroupConfigs, configs_of
from reput.remoting.names.release import RELEASE_4_9, RELEASE_5_5
from reput.remoting.reading.served import GroupConfig

SAID = {
    "dataVersion": {"counter": {"value": 3}, "timestamp": 1},
    "forbiddenTable": {"g": {"t": 4, "u": 3, "v": 6, "w": -1}},
    "subscriptionGroupTable": {
        "g": {
            "groupName": "g",
            "consumeEnable": False,
            "consumeBroadcastEnable": False,
            "groupSysFlag": 5,
            "notifyConsumerIdsChangedEnable": False,
        }
    },
}


@pytest.fixture
def store(tmp_path):
    (tmp_path / "config").mkdir()
    return tmp_path


def write(store, text):
    (store / "config" / FILE).write_text(text)


def test_what_the_file_says(store):
    """
    Reading is forbidden by the bit of value 4; the other bits forbid other things.
    """
    write(store, json.dumps(SAID))
    configs = configs_of(store, RELEASE_5_5)

    assert configs.find("g") == GroupConfig(False, False, 5, frozenset({"t", "v"}))
    assert configs.data_version == SAID["dataVersion"]
    assert not configs.tells("g")
    assert configs.tells("h")


def test_a_store_without_the_file_has_a_broker_s_own_groups(store):
    configs = configs_of(store, RELEASE_5_5, makes_unknown=False)

    assert configs.find("TOOLS_CONSUMER") == GroupConfig()
    assert configs.find("g") is None
    assert configs.find("CID_RMQ_SYS_x") == GroupConfig()


def test_an_unknown_group_is_made_in_memory(store):
    configs = configs_of(store, RELEASE_5_5)
    assert "g" not in configs

    assert configs.find("g") == GroupConfig()
    assert "g" in configs
    assert list(configs.made) == ["g"]
    assert list((store / "config").iterdir()) == []


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 121, "a\n"])
def test_a_name_that_rocketmq_does_not_allow(name):
    """
    A broker of 4.9 takes any.
    """
    assert GroupConfigs({}, RELEASE_5_5).find(name) is None
    assert GroupConfigs({}, RELEASE_4_9).find(name) == GroupConfig()


@pytest.mark.parametrize(
    "text", ['{"a"}', '{"subscriptionGroupTable":[]}', '{"forbiddenTable":{"g":4}}']
)
def test_a_damaged_file_is_not_taken_for_none(store, text):
    write(store, text)
    with pytest.raises(StoreError, match=FILE):
        configs_of(store, RELEASE_5_5)
