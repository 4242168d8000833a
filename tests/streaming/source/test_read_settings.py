"""Readers whose file sizes are not those of what they read are refused, not answered wrongly."""

from __future__ import annotations

import json
import shutil

import pytest

from reput.checkpoints import output_record
from reput.formats.errors import StoreError
from reput.streaming.dispatch.dispatcher import rebuild
from reput.streaming.settings.config import store_config
from reput.streaming.source.datasource import RocketMQDataSource
from reput.streaming.source.read_settings import refuse_other_sizes
from tests.builders.stores import SMALL, Log, fill
from tests.streaming.settings.test_places import run

WRONG = {
    "mappedFileSizeConsumeQueue": str(2 * int(SMALL["mappedFileSizeConsumeQueue"])),
    "maxHashSlotNum": str(2 * int(SMALL["maxHashSlotNum"])),
    "maxIndexNum": str(2 * int(SMALL["maxIndexNum"])),
}


@pytest.fixture
def made(tmp_path):
    """A store with an output, and a copy of the store with the broker's own files."""
    store = fill(Log(), 3, 60).write(tmp_path / "store")
    output = tmp_path / "out"
    rebuild(store, output, broker_version="5.5", broker_conf=SMALL)
    own = tmp_path / "own"
    shutil.copytree(output, own, ignore=shutil.ignore_patterns(".reput"))
    shutil.copytree(store / "commitlog", own / "commitlog")
    return store, output, own


def conf_of(tmp_path, setting):
    conf = tmp_path / "broker.conf"
    values = {**SMALL, setting: WRONG[setting]} if setting else SMALL
    conf.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return conf


COMMANDS = (
    "topics",
    "tail --topic t --seconds 0",
    "query key k --topic t",
    "query offset 0 --topic t --queue 0",
    "query time 0",
)


@pytest.mark.parametrize("is_own", [False, True], ids=["output", "own"])
@pytest.mark.parametrize("setting", WRONG)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_size_is_refused(made, tmp_path, monkeypatch, capsys, command, setting, is_own):
    store, output, own = made
    places = ["--store", own] if is_own else ["--store", store, "--output", output]

    code, shown, error = run(
        monkeypatch,
        capsys,
        *command.split(),
        *places,
        "--broker-conf",
        conf_of(tmp_path, setting),
    )

    assert (code, shown) == (3, "")
    assert setting in error
    assert WRONG[setting] in error or "bytes" in error


@pytest.mark.parametrize("setting", WRONG)
def test_a_data_frame_does_not_choose_by_such_files(made, setting):
    store, output, _ = made
    table = {
        "path": str(store),
        "output": str(output),
        "broker": {**SMALL, setting: WRONG[setting]},
    }
    with pytest.raises(StoreError, match=setting):
        RocketMQDataSource({"stores": json.dumps({"s": table})}).schema()
    table["broker"] = SMALL
    RocketMQDataSource({"stores": json.dumps({"s": table})}).schema()


def test_right_sizes_and_single_files_that_are_damaged_are_read(made):
    """
    Damage is one file of several; and what is empty is being made.
    """
    store, output, own = made
    settings = store_config(store, output, broker_conf=SMALL).settings
    refuse_other_sizes(output, settings, output_record.read(output))
    refuse_other_sizes(own, settings, output_record.read(own))
    first, *_ = sorted((own / "consumequeue").rglob("0" * 20))
    with first.open("r+b") as file:
        file.truncate(20)
    refuse_other_sizes(own, settings, output_record.read(own))
    refuse_other_sizes(store, settings, output_record.read(store))


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_a_record_that_cannot_be_read_says_nothing(made, tmp_path, monkeypatch, capsys, raw):
    """
    However it is damaged: a query continues without it.
    """
    store, output, _ = made
    (output / ".reput" / "progress.json").write_bytes(raw)
    words = ["--store", store, "--output", output, "--broker-conf", conf_of(tmp_path, None)]

    assert output_record.read(output) == {}
    code, shown, error = run(monkeypatch, capsys, "topics", *words)
    assert (code, error) == (0, "")
    assert "messages" in shown
