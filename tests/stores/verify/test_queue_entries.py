"""The first entries of an output's queues, and how much is read to find them."""

from __future__ import annotations

import pytest

from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import ENTRY_STRUCT, PRE_BLANK
from reput.stores.verify.queue_entries import first_entry, has_entries_from
from reput.stores.verify.stored_files import StoredFiles

ENTRIES = 30_000
FILE_SIZE = ENTRIES * ENTRY_STRUCT.size


def write(output, queue, fillers, offsets):
    """
    Write the oldest file of a queue, with fillers before its entries as a broker makes them.
    """
    directory = output / names.CONSUMEQUEUE / "t" / str(queue)
    directory.mkdir(parents=True)
    data = PRE_BLANK * fillers + b"".join(ENTRY_STRUCT.pack(each, 100, 0) for each in offsets)
    (directory / names.offset_file(FILE_SIZE)).write_bytes(data.ljust(FILE_SIZE, b"\0"))


@pytest.fixture
def read(monkeypatch):
    """Bytes that are read, one number a read."""
    amounts = []
    whole = StoredFiles.read

    def counted(files, position, length):
        raw = whole(files, position, length)
        amounts.append(len(raw))
        return raw

    monkeypatch.setattr(StoredFiles, "read", counted)
    return amounts


def test_a_start_reads_little_of_a_queue_for_its_first_entry(tmp_path, read):
    """
    The first entry of a file of 6 MB is wanted: ten thousand queues are 60 GB.
    """
    write(tmp_path, 0, 0, range(700, 700 + 100 * 20_000, 100))
    write(tmp_path, 1, 0, [600])

    assert first_entry(tmp_path, FILE_SIZE) == 600
    assert len(read) == 2
    assert sum(read) < FILE_SIZE // 2


@pytest.mark.parametrize("fillers", [1, 4095, 4096, 4097, ENTRIES - 1])
def test_a_queue_that_begins_late_in_its_file(tmp_path, fillers):
    """
    What fills the file up to its first entry is not an entry, wherever it ends.
    """
    write(tmp_path, 0, fillers, [900])

    assert first_entry(tmp_path, FILE_SIZE) == 900
    assert has_entries_from(tmp_path, FILE_SIZE, 900)
    assert not has_entries_from(tmp_path, FILE_SIZE, 901)


def test_queues_without_an_entry(tmp_path):
    assert first_entry(tmp_path, FILE_SIZE) is None
    write(tmp_path, 0, ENTRIES, [])
    write(tmp_path, 1, 0, [])

    assert first_entry(tmp_path, FILE_SIZE) is None
    assert not has_entries_from(tmp_path, FILE_SIZE, 0)
