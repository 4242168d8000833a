"""CRCs of queues' last bytes: what they cover, and of which queues there are none."""

from __future__ import annotations

import errno
import os
import zlib

import pytest

from reput.checkpoints import tails
from reput.checkpoints.tails import TAIL_SIZE
from reput.formats.rocketmq import names
from reput.formats.rocketmq.broker import settings_of

FILE_SIZE = 400 * 20
SETTINGS = settings_of(
    "5.5",
    {
        "mappedFileSizeConsumeQueue": str(FILE_SIZE),
        "mappedFileSizeConsumeQueueExt": str(FILE_SIZE),
        "mapperFileSizeBatchConsumeQueue": str(46 * 200),
    },
)
QUEUE = "consumequeue/t/0"


def write(root, name: str, base: int, raw: bytes) -> None:
    path = root / name / names.offset_file(base)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)


@pytest.mark.parametrize("kind", ["consumequeue", "consumequeue_ext", "batchconsumequeue"])
@pytest.mark.parametrize("end", [20, TAIL_SIZE - 1, TAIL_SIZE, TAIL_SIZE + 1, FILE_SIZE])
def test_it_covers_the_last_bytes_before_the_end(tmp_path, kind, end):
    """
    Of any kind of queue; a file that is full counts as the last one.
    """
    raw = os.urandom(FILE_SIZE)
    name = f"{kind}/t/0"
    write(tmp_path, name, 0, raw)

    assert tails.read(tmp_path, {name: end}, SETTINGS) == {
        name: zlib.crc32(raw[max(end - TAIL_SIZE, 0) : end])
    }


def test_it_covers_nothing_of_the_files_before(tmp_path):
    """
    A queue's last file alone is read: the others are full, and were recorded when they were last.
    """
    raw = os.urandom(FILE_SIZE)
    write(tmp_path, QUEUE, FILE_SIZE, raw)

    assert tails.read(tmp_path, {QUEUE: FILE_SIZE + 40}, SETTINGS) == {QUEUE: zlib.crc32(raw[:40])}


def test_a_queue_without_a_file_or_an_entry_has_none(tmp_path):
    """
    Where nothing is known a start has nothing to compare; that a file is missing it says itself.
    """
    (tmp_path / "consumequeue").mkdir()
    (tmp_path / "consumequeue/file").write_text("")
    ends = {QUEUE: 20, "consumequeue/file/0": 20, "consumequeue/empty/0": 0}

    assert tails.read(tmp_path, ends, SETTINGS) == {}


def test_an_error_of_the_device_names_the_file(tmp_path, monkeypatch):
    write(tmp_path, QUEUE, 0, bytes(FILE_SIZE))

    def fail(*_: int) -> bytes:
        raise OSError(errno.EIO, "")

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(OSError, match=QUEUE) as raised:
        tails.read(tmp_path, {QUEUE: 20}, SETTINGS)
    assert raised.value.errno == errno.EIO
