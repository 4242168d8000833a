"""A wrong --broker-version is named as what it is, and a right one never."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace

import pytest

from reput.formats.errors import UsageError
from reput.formats.rocketmq import broker
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.streaming.cli.main import main
from reput.streaming.dispatch.dispatcher import rebuild
from reput.streaming.endings.verdict import Verdict, verdict_of
from reput.streaming.settings.config import store_config
from reput.streaming.settings.reput_toml import read_config
from reput.streaming.verify.handover import examine
from reput.streaming.verify.output import verify
from reput.streaming.verify.version_seen import (
    _votes,
    of_another_version,
    refuse_other_version,
    refuse_version_of_store,
)
from tests.builders.goldens import GOLDENS, VERSIONS

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
    fitting, _, rest = said.partition("give --broker-version ")[2].partition(" (")
    assert family in fitting.split(" or ")
    assert rest.endswith("continue with --any-version (any_version = true)")


@pytest.mark.parametrize("version", VERSIONS)
def test_verify_says_it_instead_of_findings(golden, version):
    family = broker.version_of(version).family
    other = "4.9" if family in TAGGED else "5.5"

    with pytest.raises(UsageError, match="looks like a store of"):
        verify(own(golden, version, "basic", other))
    assert verdict_of(verify(own(golden, version, "basic", family))) == Verdict.SOUND


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
@pytest.mark.parametrize("way", ["option", "file"])
def test_a_broker_that_was_upgraded_and_has_not_written_since_is_verified(
    golden, tmp_path, monkeypatch, capsys, version, way
):
    """
    With --any-version, or its key: its index is compared by the rules of the older version, and a
    note says how far; what is damaged is found all the same.
    """
    source = golden(version, "basic")
    store = source.copy(tmp_path / "store")
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in source.conf.items()))
    words = ["verify", "--json", "--store", store, "--broker-conf", conf]
    more = ["--any-version"]
    if way == "file":
        file = tmp_path / "reput.toml"
        table = f"[[store]]\npath='{store}'\nin_place=true\nbroker_conf='{conf}'\n"
        file.write_text(table)
        words = ["verify", "--json", "--config", file]
        more = []

    def say(*words):
        monkeypatch.setattr(sys, "argv", ["reput", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, json.loads(capsys.readouterr().out)

    code, document = say(*words)
    assert code == 2
    assert ("any_version = true" if way == "file" else "--any-version") in document["error"]
    if way == "file":
        file.write_text(table + "any_version = true\n")
    code, document = say(*words, *more)
    assert (code, document["verdict"]) == (0, "sound")
    assert "has no items for tags: brokers before 5.4 write none" in document["notes"][0]["detail"]

    path = max((store / "index").iterdir())
    raw = bytearray(path.read_bytes())
    # Of the second item: a byte of its record's position.
    raw[40 + 4 * int(source.conf["maxHashSlotNum"]) + 2 * 20 + 11] ^= 1
    path.write_bytes(raw)
    code, document = say(*words, *more)
    assert (code, document["verdict"]) == (1, "damaged")


def test_the_checkpoint_says_more(golden):
    """
    Its sixth field is 5.5's alone.
    """
    with pytest.raises(UsageError, match=r"give --broker-version 5\.5 \("):
        refuse_other_version(own(golden, "5.5.0", "basic", "5.3"))
    with pytest.raises(UsageError, match=r"give --broker-version 5\.3 \("):
        refuse_other_version(own(golden, "5.3.3", "restart", "5.5"))
    with pytest.raises(UsageError, match=r"give --broker-version 4\.9 or 5\.3 \("):
        refuse_other_version(own(golden, "4.9.8", "basic", "5.5"))


def test_an_index_of_both_is_compared_by_the_rules_of_the_newer_one(golden, tmp_path):
    """
    A broker that was upgraded: what was written last says of which version it is.
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
    with pytest.raises(UsageError, match=r"give --broker-version 5\.5 \("):
        refuse_other_version(config)
    config = store_config(store, None, broker_version="5.5", broker_conf=newer.conf, in_place=True)
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


@pytest.fixture
def copied(golden, tmp_path):
    """Copy a broker's own store, and return its configuration with an output beside it."""

    def copied(version, given):
        source = golden(version, "basic")
        store = source.copy(tmp_path / f"store-{version}")
        output = tmp_path / "out"
        return store_config(store, output, broker_version=given, broker_conf=source.conf)

    return copied


@pytest.mark.parametrize("given", ["4.9", "5.5"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_new_output_is_not_begun_with_another_version(copied, version, given):
    """
    What the broker wrote itself tells, also where no version is given, and the newest counts.
    """
    config = copied(version, given)
    if (broker.version_of(version).family in TAGGED) == (given in TAGGED):
        refuse_version_of_store(config)
        return
    with pytest.raises(UsageError, match=r"looks like a store of .* give --broker-version"):
        refuse_version_of_store(config)
    # The way on for a broker that was upgraded.
    refuse_version_of_store(replace(config, any_version=True))


@pytest.mark.parametrize("words", [["rebuild"], ["run"], ["rebuild", "--repair"]], ids=" ".join)
def test_the_commands_refuse_it_before_anything_is_made(
    golden, copied, tmp_path, monkeypatch, capsys, words
):
    config = copied("4.9.8", "5.5")
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in config.properties.items()))
    if "--repair" in words:
        (config.output / "consumequeue").mkdir(parents=True)
    places = ["--store", config.path, "--output", config.output, "--broker-conf", conf]
    monkeypatch.setattr(sys, "argv", ["reput", *map(str, [*words, *places])])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "this looks like a store of 4.9 or 5.3" in said
    assert "--any-version" in said
    assert not (config.output / ".reput").exists()


@pytest.mark.parametrize("given", ["4.9", "5.5"])
def test_handover_is_not_safe_with_another_version(copied, given):
    """
    An output with the wrong version's rules has other bytes than the broker would write.
    """
    config = copied("4.9.8", given)
    rebuild(config.path, config.output, broker_version=given, broker_conf=config.properties)

    result = examine(config)

    if given == "4.9":
        assert result.is_safe
    else:
        assert [each for each in result.problems if "give --broker-version 4.9" in each]
        assert verdict_of(result.report) == Verdict.SOUND
        assert result.verdict == Verdict.DAMAGED
        assert examine(replace(config, any_version=True)).is_safe


def test_older_files_of_an_upgraded_broker_say_nothing(golden, copied):
    """
    Only what was written last counts: the newest index file.
    """
    config = copied("5.5.0", "5.5")
    older = golden("5.3.3", "basic")
    newest = max((config.path / "index").iterdir())
    before = newest.with_name("20200101000000000")
    shutil.copy(max((older.path / "index").iterdir()), before)
    assert of_another_version(config) is None
    before.rename(newest.with_name("20990101000000000"))
    assert "4.9 or 5.3" in of_another_version(config)


def test_a_file_of_stores_can_say_that_the_version_is_right(copied, tmp_path):
    config = copied("4.9.8", "5.5")
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in config.properties.items()))
    file = tmp_path / "reput.toml"
    table = f"[[store]]\npath='{config.path}'\noutput='out'\nbroker_conf='{conf}'\n"
    file.write_text(table)
    with pytest.raises(UsageError, match="any_version = true"):
        refuse_version_of_store(read_config(file)[0])
    file.write_text(table + "any_version = true\n")
    refuse_version_of_store(read_config(file)[0])


def test_a_field_of_a_newer_checkpoint_names_its_version(golden):
    """
    5.4 and 5.5 differ in that file only, and so the index says nothing.
    """
    report = verify(own(golden, "5.5.0", "basic", "5.4"))

    (finding,) = report.findings
    assert finding.path.endswith("/checkpoint")
    assert "--broker-version 5.5" in finding.detail
