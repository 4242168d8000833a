"""Files laid end to end: what is accepted, what is refused, and that the last one is mapped."""

from __future__ import annotations

from pathlib import Path

import pytest

from reput.formats.errors import FormatError, StoreError
from reput.formats.rocketmq.names import offset_file
from reput.sinks.files.file_queue import FileQueue

SIZE = 100


def make(directory, *bases, size=SIZE):
    directory.mkdir(exist_ok=True)
    for base in bases:
        (directory / offset_file(base)).write_bytes(bytes(size))


@pytest.fixture
def queue(root):
    return root / "q"


class TestOpen:
    def test_a_missing_directory_is_an_empty_queue_and_stays_missing(self, queue, staging):
        files = FileQueue(queue, SIZE, staging)

        assert (files.base, files.bases) == (None, [])
        assert not queue.exists()

    def test_files_in_order(self, queue, staging):
        make(queue, 400, 300, 500)

        assert FileQueue(queue, SIZE, staging).bases == [300, 400, 500]

    @pytest.mark.parametrize("name", ["x.tmp", "0", offset_file(0) + ".bak", offset_file(150)])
    def test_a_name_that_no_broker_gave_is_refused_by_name(self, queue, staging, name):
        make(queue, 0)
        (queue / name).write_bytes(bytes(SIZE))

        with pytest.raises(StoreError, match="multiples of 100") as raised:
            FileQueue(queue, SIZE, staging)
        assert name in str(raised.value)

    @pytest.mark.parametrize("size", [0, 99, 101])
    def test_a_file_of_another_size(self, queue, staging, size):
        make(queue, 0)
        make(queue, 100, size=size)

        with pytest.raises(FormatError, match="expected 100 bytes") as raised:
            FileQueue(queue, SIZE, staging)
        assert raised.value.path == str(queue / offset_file(100))
        assert raised.value.position == size

    def test_a_gap(self, queue, staging):
        make(queue, 0, 200)

        with pytest.raises(StoreError, match=r"no file between 0+ and 0+200"):
            FileQueue(queue, SIZE, staging)


class TestWrite:
    def test_a_new_file_becomes_the_last(self, queue, staging):
        files = FileQueue(queue, SIZE, staging)
        files.add(300)
        files.room(0, 5)
        files.last().write(0, b"first")
        files.add(400)
        files.room(10, 6)
        files.last().write(10, b"second")
        files.flush(10, 16)
        files.close()

        assert files.bases == [300, 400]
        assert files.path(300).read_bytes() == b"first".ljust(SIZE, b"\0")
        assert files.path(400).read_bytes()[10:16] == b"second"
        assert list(staging.iterdir()) == []

    def test_room_grows_with_the_file_and_ends_with_it(self, root, staging):
        """
        A quiet queue shall hold little, a busy one shall not ask for every page.
        """
        size = 8 << 20
        files = FileQueue(root / "big", size, staging)
        files.add(0)

        assert files.room(0, 20) < 128 << 10
        prepared = files.room(4 << 20, 20)
        assert prepared >= (4 << 20) + (256 << 10)
        # The step after that one came meanwhile.
        assert files.room(prepared, 20) >= prepared + (256 << 10)
        assert files.room(size - 20, 20) == size
        files.close()

    def test_a_queue_of_a_few_entries_holds_a_page(self, root, staging):
        """
        There may be ten thousand of them, opened for the first time or again.
        """
        size = 6 << 20
        files = FileQueue(root / "quiet", size, staging)
        files.add(0)
        files.room(0, 20)
        assert files.path(0).stat().st_blocks * 512 <= 4 << 10
        files.close()

        again = FileQueue(root / "quiet", size, staging)
        assert again.room(3 << 20, 20) <= (3 << 20) + (4 << 10)
        again.close()

    def test_an_unmapped_queue_is_mapped_again(self, queue, staging):
        files = FileQueue(queue, SIZE, staging)
        files.add(0)
        files.room(0, 10)
        files.last().write(0, b"before")
        files.unmap()
        assert str(queue) not in Path("/proc/self/maps").read_text()
        files.room(6, 10)
        files.last().write(6, b" and behind")
        files.unmap()
        files.flush(0, 17)
        files.close()

        assert files.path(0).read_bytes().startswith(b"before and behind")

    def test_a_reopened_queue_does_not_prepare_what_is_written(self, root, staging):
        size = 8 << 20
        FileQueue(root / "big", size, staging).add(0).close()
        files = FileQueue(root / "big", size, staging)
        files.room(6 << 20, 20)

        assert files.path(0).stat().st_blocks * 512 < 2 << 20
        files.close()

    def test_files_that_are_full_are_flushed_and_closed_once(self, queue, staging):
        files = FileQueue(queue, SIZE, staging)
        for base in (0, 100, 200):
            files.add(base)
        files.flush(0, 0)
        maps = Path("/proc/self/maps").read_text()

        assert offset_file(100) not in maps
        assert offset_file(200) in maps
        files.close()
        assert str(queue) not in Path("/proc/self/maps").read_text()
