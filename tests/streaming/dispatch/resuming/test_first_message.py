"""Has a broker got its first message? Only what can be a commitlog file says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.dispatch.resuming.first_message import is_awaited
from tests.builders.stores import Log, config_of, fill


@pytest.fixture
def config(tmp_path):
    (tmp_path / "store" / names.COMMITLOG).mkdir(parents=True)
    return config_of(tmp_path / "store", tmp_path / "out")


def test_a_volume_of_its_own_is_empty_too(config):
    """
    ext4 puts `lost+found` into each, a directory of some KiB; the job waits beside it.
    """
    found = config.path / names.COMMITLOG / "lost+found"
    found.mkdir()
    (found / "#12").write_bytes(b"x")
    assert found.stat().st_size

    assert is_awaited(config)


def test_a_file_with_bytes_ends_the_waiting(config):
    """
    A broker makes it with its first message. A file of no broker does as well: the job names it.
    """
    first = config.path / names.COMMITLOG / names.offset_file(0)
    first.touch()
    assert is_awaited(config)
    fill(Log(), 1, 1).write(config.path)
    assert not is_awaited(config)
    first.rename(first.with_name("notes.txt"))
    assert not is_awaited(config)


def test_a_log_that_is_away_is_not_waited_for(config):
    """
    The output has its messages: the volume of the log is not mounted.
    """
    log = fill(Log(), 5, 1)
    log.write(config.path)
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(log.end)
    dispatcher.close()
    shutil.rmtree(config.path / names.COMMITLOG)
    (config.path / names.COMMITLOG).mkdir()

    assert not is_awaited(config)


@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_goes_while_it_is_looked_at_is_not_there(config, monkeypatch, what):
    """
    A broker that starts removes and makes files and directories.
    """
    fill(Log(), 1, 1).write(config.path)
    directory = config.path / names.COMMITLOG
    listed = Path.iterdir

    def go(path):
        entries = list(listed(path)) if what == "file" else []
        for each in listed(directory):
            each.unlink()
        if what == "directory":
            directory.rmdir()
            entries = list(listed(path))
        return iter(entries)

    monkeypatch.setattr(Path, "iterdir", go)

    assert is_awaited(config)


def test_a_store_that_is_not_there_is_not_waited_for(tmp_path):
    with pytest.raises(StoreError, match="no such directory"):
        is_awaited(config_of(tmp_path / "none", tmp_path / "out"))
