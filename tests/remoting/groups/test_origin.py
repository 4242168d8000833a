"""Offsets of another store are known by the records of its log.

Stores whose brokers have one name have one file, and groups are not to be led past what they miss.
"""

from __future__ import annotations

import pytest

from reput.formats.errors import StoreError
from reput.remoting.groups.offset_file import OffsetFile
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
