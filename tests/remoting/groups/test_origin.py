"""Offsets of another store are known by the records of its log.

Stores whose brokers have one name have one file, and groups are not to be led past what they miss.
"""

from __future__ import annotations

import dataclasses
import json

import pytest

from reput.formats.errors import StoreError
from reput.formats.rocketmq.names import offset_file
from reput.remoting.groups.offset_file import OffsetFile
from reput.remoting.groups.origin import KEY, is_current, of_log
from reput.stores.log.files import LogFiles
from tests.builders.served import messages
from tests.builders.stores import config_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "offsets.json"


@pytest.fixture
def opened(path, tmp_path):
    def opened(log):
        return OffsetFile(path, tmp_path / "store", log=log)

    return opened


def log_of(directory, topic, count=60):
    """Return the files of a log of several files."""
    place = messages(count, topic=topic).write(directory / "store")
    return LogFiles([place / "commitlog"], config_of(place, directory / "out").settings)


def replace(log, other, bases):
    """Put files of another log in the places of a log's own."""
    for base in bases:
        written, _ = other.file_of(base)
        (log.directories[0] / written.name).write_bytes(written.read_bytes())


@pytest.fixture
def kept(opened, tmp_path):
    """Offsets of a group in a log."""
    file = opened(log=log_of(tmp_path / "one", "a"))
    file.offsets.set("g", "a", 0, 7)
    file.close()


@pytest.mark.usefixtures("kept")
def test_they_are_refused(opened, path, tmp_path):
    text = path.read_bytes()
    with pytest.raises(StoreError, match=r"offsets are of another log.*--broker-name"):
        opened(log=log_of(tmp_path / "two", "b"))
    assert path.read_bytes() == text


@pytest.mark.usefixtures("kept")
def test_a_log_that_grew_or_was_cut_is_the_same(opened, tmp_path):
    for count in (20, 90):
        file = opened(log=log_of(tmp_path / str(count), "a", count))
        assert file.offsets.find("g", "a", 0) == 7
        file.close()


@pytest.mark.usefixtures("kept")
def test_where_nothing_can_be_compared_nothing_is_said(opened, tmp_path):
    """
    What is known of the log has expired, or is all in files that are gone.
    """
    log = log_of(tmp_path / "two", "b", 300)
    for base in log.bases[:-1]:
        log.file_of(base)[0].unlink()
    log.refresh()
    assert opened(log=log).offsets.find("g", "a", 0) == 7


def test_a_file_that_does_not_say_whose_it_is(opened, path, tmp_path):
    """
    Such as a broker's, or one that was kept before logs were noted.
    """
    path.parent.mkdir()
    path.write_text('{"offsetTable":{"a@g":{"0":5}}}')
    assert opened(log=log_of(tmp_path / "two", "b")).offsets.find("g", "a", 0) == 5


def test_a_log_that_was_empty_at_first(opened, path, tmp_path):
    """
    Its first record is noted as soon as there is one. A broker has made the next file by then.
    """
    log = log_of(tmp_path / "one", "a", 3)
    first, _ = log.file_of(0)
    there = first.read_bytes()
    for file in (first, first.with_name(offset_file(len(there)))):
        file.write_bytes(bytes(len(there)))
    log.refresh()
    file = opened(log=log)
    file.offsets.set("g", "a", 0, 1)
    file.tick(1.0)
    assert KEY not in path.read_text()

    first.write_bytes(there)
    file.offsets.set("g", "a", 0, 2)
    file.tick(2.0)
    file.close()
    with pytest.raises(StoreError, match="of another log"):
        opened(log=log_of(tmp_path / "two", "b"))


def test_a_log_that_lives_on(opened, path, tmp_path):
    """
    What was noted at first expires while the server runs, and another store is still told.
    """
    grown = log_of(tmp_path / "grown", "a", 300)
    log = log_of(tmp_path / "one", "a", 20)
    file = opened(log=log)
    noted = log.bases
    replace(log, grown, grown.bases)
    for base in noted:
        log.file_of(base)[0].unlink()
    log.refresh()
    file.offsets.set("g", "a", 0, 7)
    file.tick(1.0)
    file.close()

    assert not set(map(str, noted)) & set(json.loads(path.read_text())[KEY])
    opened(log=log).close()
    other = log_of(tmp_path / "two", "b", 300)
    with pytest.raises(StoreError, match="of another log"):
        opened(log=other)


@pytest.mark.usefixtures("kept")
def test_a_log_that_lives_on_while_groups_are_idle(opened, path, tmp_path):
    log = log_of(tmp_path / "one", "a", 20)
    file = opened(log=log)
    grown = log_of(tmp_path / "grown", "a", 300)
    replace(log, grown, grown.bases)
    log.refresh()
    text = path.read_text()
    file.tick(1.0)
    assert path.read_text() == text
    file.tick(100.0)
    said = json.loads(path.read_text())
    assert str(log.bases[-1]) in said[KEY]
    assert said["offsetTable"]["a@g"] == {"0": 7}
    file.close()


def test_a_log_that_is_cut_and_written_anew(opened, tmp_path):
    """
    Where the file that was cut into has expired, those after it are known as they are now.
    """
    log = log_of(tmp_path / "one", "a", 50)
    file = opened(log=log)
    other = log_of(tmp_path / "two", "b", 130)
    first, second, third, *_ = other.bases
    (log.directories[0] / offset_file(second)).write_bytes(other.bytes_at(second, third - second))
    log.refresh()
    file.offsets.set("g", "a", 0, 7)
    file.tick(1.0)
    file.close()

    (log.directories[0] / offset_file(third)).write_bytes(other.bytes_at(third, third - second))
    log.file_of(first)[0].unlink()
    log.refresh()
    assert opened(log=log).offsets.find("g", "a", 0) == 7


def test_a_log_that_is_cut_more_than_once(opened, tmp_path):
    """
    Of the records after a cut none stays known, whichever of them are the last ones to stand.
    """
    log = log_of(tmp_path / "one", "a", 120)
    first, *bases = log.bases
    file = opened(log=log)
    for number, topic in enumerate("bc"):
        other = log_of(tmp_path / topic, topic, 120)
        replace(log, other, bases[number:])
        if number:
            log.file_of(first)[0].unlink()
        log.refresh()
        file.offsets.set("g", "a", 0, 7 + number)
        file.tick(1.0 + number)
    file.close()

    assert opened(log=log).offsets.find("g", "a", 0) == 8


def test_a_damaged_size_is_not_read(tmp_path, monkeypatch):
    """
    It may be that of the whole file, which clients would wait for with each save.
    """
    small = log_of(tmp_path / "one", "a", 3)
    size = 1 << 20
    path, _ = small.file_of(0)
    raw = path.read_bytes()
    path.write_bytes((size.to_bytes(4, "big") + raw[4:]).ljust(size, b"\0"))
    settings = dataclasses.replace(
        small.settings, commitlog_file_size=size, max_message_size=1 << 12
    )
    log = LogFiles(small.directories, settings)
    lengths = []
    bytes_at = log.bytes_at
    monkeypatch.setattr(
        log, "bytes_at", lambda at, length: lengths.append(length) or bytes_at(at, length)
    )
    assert not of_log(log)
    assert is_current(log, {})
    assert 0 < max(lengths) <= settings.max_record_size


@pytest.mark.usefixtures("kept")
def test_a_log_that_is_replaced_while_it_is_served(opened, path, tmp_path):
    """
    The offsets stay those of the log before it.
    """
    log = log_of(tmp_path / "one", "a")
    file = opened(log=log)
    other = log_of(tmp_path / "two", "b", 90)
    replace(log, other, other.bases)
    log.refresh()
    file.offsets.set("g", "a", 0, 8)
    file.tick(1.0)
    file.close()

    with pytest.raises(StoreError, match="of another log"):
        opened(log=log)


def test_a_file_whose_notes_are_damaged(opened, path, tmp_path):
    path.parent.mkdir()
    said = {"offsetTable": {"a@g": {"0": 5}}, KEY: {"9" * 5000: "1", "x": 2}}
    path.write_text(json.dumps(said))
    assert opened(log=log_of(tmp_path / "two", "b")).offsets.find("g", "a", 0) == 5
