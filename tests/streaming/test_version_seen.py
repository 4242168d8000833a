"""A wrong --broker-version is named as what it is, and a right one never."""

from __future__ import annotations

import shutil

import pytest

from formats import broker
from formats.errors import UsageError
from stores.commitlog import CommitLog, commitlog_directories
from streaming.config import store_config
from streaming.verdict import Verdict, verdict_of
from streaming.verify import verify
from streaming.version_seen import _votes, refuse_other_version
from tests.golden_stores import GOLDENS, VERSIONS

TAGGED = {"5.4", "5.5"}


def own(golden, version, scenario, given):
    source = golden(version, scenario)
    return store_config(
        source.path, None, broker_version=given, broker_conf=source.conf, in_place=True
    )


@pytest.mark.parametrize(("version", "scenario"), GOLDENS)
@pytest.mark.parametrize("given", broker.VERSIONS)
def test_what_real_brokers_wrote(golden, version, scenario, given):
    """
    All stores that have an item of a record with a tag tell by it: 5.4 and later index tags.
    """
    family = broker.version_of(version).family
    config = own(golden, version, scenario, given)
    if (family in TAGGED) == (given in TAGGED):
        refuse_other_version(config)
        return
    with pytest.raises(UsageError) as refused:
        refuse_other_version(config)

    said = str(refused.value)
    assert f"not of {given}" in said
    assert family in said.partition("give --broker-version ")[2].split(" or ")


@pytest.mark.parametrize("version", VERSIONS)
def test_verify_says_it_instead_of_findings(golden, version):
    family = broker.version_of(version).family
    other = "4.9" if family in TAGGED else "5.5"

    with pytest.raises(UsageError, match="looks like a store of"):
        verify(own(golden, version, "basic", other))
    assert verdict_of(verify(own(golden, version, "basic", family))) == Verdict.SOUND


def test_the_checkpoint_says_more(golden):
    """
    Its sixth field is 5.5's alone.
    """
    with pytest.raises(UsageError, match=r"give --broker-version 5\.5$"):
        refuse_other_version(own(golden, "5.5.0", "basic", "5.3"))
    with pytest.raises(UsageError, match=r"give --broker-version 5\.3$"):
        refuse_other_version(own(golden, "5.3.3", "restart", "5.5"))
    with pytest.raises(UsageError, match=r"give --broker-version 4\.9 or 5\.3$"):
        refuse_other_version(own(golden, "4.9.8", "basic", "5.5"))


def test_an_index_of_both_is_compared(golden, tmp_path):
    """
    A broker that was upgraded: neither version is wrong, and its findings are to be seen.
    """
    newer, older = golden("5.5.0", "basic"), golden("5.3.3", "basic")
    store = newer.copy(tmp_path / "store")
    config = store_config(store, None, broker_version="5.3", broker_conf=newer.conf, in_place=True)
    with pytest.raises(UsageError, match="looks like a store of"):
        refuse_other_version(config)
    files = sorted((store / "index").iterdir())
    shutil.copy(min((older.path / "index").iterdir()), files[0])
    log = CommitLog(commitlog_directories(store, config.settings), config.settings, store)
    votes = [set(_votes(path, log)) for path in (files[0], files[-1])]
    log.close()

    assert votes == [{False}, {True}]
    refuse_other_version(config)


@pytest.mark.parametrize("given", ["5.3", "5.5"])
def test_damage_is_not_taken_for_another_version(golden, tmp_path, given):
    """
    Items that are of neither version say nothing, for or against any; whole ones did.
    """
    source = golden("5.5.0", "basic")
    store = source.copy(tmp_path / "store")
    config = store_config(store, None, broker_version=given, broker_conf=source.conf, in_place=True)
    if given == "5.3":
        with pytest.raises(UsageError, match="looks like a store of"):
            refuse_other_version(config)
    for path in (store / "index").iterdir():
        data = bytearray(path.read_bytes())
        data[40:] = bytes(byte ^ 0x55 for byte in data[40:])
        path.write_bytes(data)
    refuse_other_version(config)
