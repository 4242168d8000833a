"""Mapped files: whole from the first moment, prepared before they are written, never a SIGBUS."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from reput.checkpoints.disk import changes
from reput.checkpoints.disk.changes import sync_directory
from reput.sinks.files.mapped_file import MappedFile

PAGE = os.sysconf("SC_PAGE_SIZE")


def _killed(*_):
    raise KeyboardInterrupt


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def wait_for_helper(file: MappedFile) -> None:
    """Wait until what the file is to be prepared for has been begun."""
    coming = file._coming
    while coming is not None and not (coming.running() or coming.done()):
        time.sleep(0.001)


def blocks(path) -> int:
    return path.stat().st_blocks


class TestCreate:
    def test_a_new_file_has_its_size_and_holds_zeros(self, root, staging):
        path = root / "0"
        file = MappedFile.create(path, 10_000, staging)

        assert path.stat().st_size == 10_000
        assert file.size == len(file.data) == 10_000
        assert path.read_bytes() == bytes(10_000)
        assert blocks(path) == 0
        file.close()

    def test_staging_leaves_nothing_behind(self, root, staging):
        MappedFile.create(root / "a", 100, staging).close()

        assert list(staging.iterdir()) == []

    def test_an_existing_file_stays_as_it_is(self, root, staging):
        path = root / "a"
        path.write_bytes(b"mine")

        with pytest.raises(FileExistsError) as raised:
            MappedFile.create(path, 100, staging)
        assert str(path) in str(raised.value)
        assert path.read_bytes() == b"mine"
        assert list(staging.iterdir()) == []

    def test_what_a_killed_process_left_in_staging_does_no_harm(self, root, staging):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("reput.checkpoints.disk.changes.rename", _killed)
            with pytest.raises(KeyboardInterrupt):
                MappedFile.create(root / "a", 50, staging)
        (left,) = staging.iterdir()
        left.write_bytes(b"left" * 1000)

        file = MappedFile.create(root / "a", 100, staging)
        assert file.read(0, 100) == bytes(100)
        assert list(staging.iterdir()) == []
        file.close()


class TestOpen:
    def test_a_file_of_another_size_is_named(self, root):
        path = root / "a"
        path.write_bytes(bytes(99))

        with pytest.raises(OSError, match="has 99 bytes, expected 100") as raised:
            MappedFile(path, 100)
        assert raised.value.filename == str(path)

    def test_a_missing_file(self, root):
        with pytest.raises(FileNotFoundError):
            MappedFile(root / "a", 100)

    def test_no_descriptor_stays_open(self, root, staging):
        """
        Ten thousand queues have a map each, but not a descriptor each.
        """
        before = descriptors()
        files = [MappedFile.create(root / str(i), 100, staging) for i in range(50)]

        assert descriptors() == before
        for file in files:
            file.close()

    def test_closing_gives_the_memory_back_once(self, root, staging):
        file = MappedFile.create(root / "a", 100, staging)
        file.close()
        file.close()

        assert str(root / "a") not in Path("/proc/self/maps").read_text()


class TestWrite:
    def test_what_is_written_is_in_the_file_at_once(self, root, staging):
        file = MappedFile.create(root / "a", 3 * PAGE, staging)
        file.prepare(PAGE + 1)
        file.write(PAGE - 2, b"word")

        assert file.read(PAGE - 2, 4) == b"word"
        assert (root / "a").read_bytes()[PAGE - 2 : PAGE + 2] == b"word"
        file.close()
        assert (root / "a").read_bytes()[PAGE - 2 : PAGE + 2] == b"word"

    def test_preparing_allocates_whole_pages_and_no_more(self, root, staging):
        file = MappedFile.create(root / "a", 10 * PAGE - 5, staging)

        file.prepare(0)
        assert (file.prepared, blocks(root / "a")) == (0, 0)
        file.prepare(PAGE + 1)
        assert file.prepared == 2 * PAGE
        file.prepare(1)
        assert file.prepared == 2 * PAGE
        file.prepare(10 * PAGE)
        assert file.prepared == file.size
        assert (root / "a").stat().st_size == 10 * PAGE - 5
        file.close()

    def test_preparing_again_keeps_what_is_written(self, root, staging):
        file = MappedFile.create(root / "a", 2 * PAGE, staging)
        file.prepare(2 * PAGE)
        file.write(7, b"x")
        file.flush(0, 2 * PAGE)
        file.prepare_again(5, PAGE + 5)

        assert file.read(6, 3) == b"\0x\0"
        file.close()

    @pytest.mark.parametrize(
        ("start", "end"), [(0, None), (5, 9), (PAGE, PAGE + 1), (9, 9), (0, 99 * PAGE)]
    )
    def test_flushing_any_range(self, root, staging, start, end, monkeypatch):
        """
        Each page that has a byte of the range is synced, and none past the file's end: the page
        cache has all bytes, so only the call tells what a power cut would leave.
        """
        file = MappedFile.create(root / "a", 2 * PAGE, staging)
        file.prepare(2 * PAGE)
        file.write(0, bytes(1 + at % 251 for at in range(2 * PAGE)))
        synced, sync = set(), changes.sync_memory

        def spy(path, address, first, length):
            assert (path, address, first % PAGE) == (file.path, file.address, 0)
            assert first + length <= file.size
            synced.update(range(first // PAGE, -(-(first + length) // PAGE)))
            sync(path, address, first, length)

        monkeypatch.setattr(changes, "sync_memory", spy)
        file.flush(start, end)
        last = min(2 * PAGE if end is None else end, 2 * PAGE)

        assert synced >= {at // PAGE for at in range(start, last)}
        assert synced <= {start // PAGE, *(at // PAGE for at in range(start, last))}
        file.close()

    def test_a_directory_can_be_synced(self, root):
        sync_directory(root)
        with pytest.raises(FileNotFoundError):
            sync_directory(root / "none")


class TestFullDisk:
    def test_preparing_says_so_and_names_the_file(self, small_disk):
        """
        Without preparing it would be a SIGBUS in a kernel: the end of the process.
        """
        staging = small_disk / ".reput"
        staging.mkdir()
        file = MappedFile.create(small_disk / "a", 4 << 20, staging)

        file.prepare(256 << 10)
        with pytest.raises(OSError, match="No space left") as raised:
            file.prepare(4 << 20)
        assert raised.value.errno == errno.ENOSPC
        assert raised.value.filename == str(small_disk / "a")
        assert file.prepared == 256 << 10
        file.write(0, b"still writable")
        file.close()

    def test_when_there_is_room_again_it_goes_on(self, small_disk):
        staging = small_disk / ".reput"
        staging.mkdir()
        (small_disk / "fill").write_bytes(bytes(900 << 10))
        file = MappedFile.create(small_disk / "a", 512 << 10, staging)
        with pytest.raises(OSError, match="No space left"):
            file.prepare(512 << 10)

        (small_disk / "fill").unlink()
        file.prepare(512 << 10)
        file.write((512 << 10) - 4, b"last")
        file.close()
        assert (small_disk / "a").read_bytes().endswith(b"\0last")


class TestPrepareAhead:
    def test_what_comes_is_waited_for_where_it_is_needed(self, root, staging):
        file = MappedFile.create(root / "a", 8 * PAGE, staging)
        file.prepare(PAGE)
        file.prepare_ahead(5 * PAGE)
        wait_for_helper(file)
        file.prepare(3 * PAGE)

        assert file.prepared == 5 * PAGE
        assert blocks(root / "a") * 512 >= 5 * PAGE
        file.close()

    def test_it_never_reaches_beyond_the_file(self, root, staging):
        file = MappedFile.create(root / "a", 3 * PAGE - 100, staging)
        file.prepare_ahead(1 << 30)
        file.prepare(file.size)

        assert file.prepared == file.size
        file.close()

    def test_one_piece_comes_at_a_time(self, root, staging, monkeypatch):
        gate, asked = threading.Event(), []
        populate = changes.populate

        def slow(path, address, start, length, size):
            asked.append((start, length))
            gate.wait(60)
            populate(path, address, start, length, size)

        monkeypatch.setattr(changes, "populate", slow)
        file = MappedFile.create(root / "a", 8 * PAGE, staging)
        file.prepare_ahead(2 * PAGE)
        file.prepare_ahead(4 * PAGE)
        wait_for_helper(file)
        gate.set()
        file.close()

        assert asked == [(0, 2 * PAGE)]

    def test_a_full_disk_is_said_where_the_bytes_are_needed(self, root, staging, monkeypatch):
        populate = changes.populate

        def full(path, address, start, length, size):
            if start + length > 2 * PAGE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            populate(path, address, start, length, size)

        monkeypatch.setattr(changes, "populate", full)
        file = MappedFile.create(root / "a", 8 * PAGE, staging)
        file.prepare_ahead(4 * PAGE)
        file.prepare(2 * PAGE)

        assert file.prepared == 2 * PAGE
        with pytest.raises(OSError, match="No space left") as raised:
            file.prepare(3 * PAGE)
        assert raised.value.filename == str(root / "a")
        file.close()

    def test_a_map_is_not_given_back_while_it_is_prepared(self, root, staging, monkeypatch):
        gate, done = threading.Event(), []
        populate, unmap = changes.populate, changes.unmap

        def slow(*args):
            gate.wait(60)
            populate(*args)
            done.append("populate")

        monkeypatch.setattr(changes, "populate", slow)
        monkeypatch.setattr(changes, "unmap", lambda *args: (done.append("unmap"), unmap(*args)))
        file = MappedFile.create(root / "a", 8 * PAGE, staging)
        file.prepare_ahead(4 * PAGE)
        wait_for_helper(file)
        threading.Timer(0.05, gate.set).start()
        file.close()

        assert done == ["populate", "unmap"]

    def test_a_forked_process_has_a_thread_of_its_own(self, root, staging):
        file = MappedFile.create(root / "a", 8 * PAGE, staging)
        file.prepare_ahead(2 * PAGE)
        file.prepare(2 * PAGE)
        child = os.fork()
        if child == 0:
            file.prepare_ahead(4 * PAGE)
            wait_for_helper(file)
            file.prepare(3 * PAGE)
            os._exit(0 if file.prepared == 4 * PAGE else 1)
        _, status = os.waitpid(child, 0)

        assert status == 0
        file.close()


class TestBeginFlush:
    @pytest.fixture
    def begun(self, monkeypatch):
        calls, begin = [], changes.begin_sync

        def counted(path, start, length):
            calls.append((path.name, start, length))
            begin(path, start, length)

        monkeypatch.setattr(changes, "begin_sync", counted)
        return calls

    def test_the_device_begins_with_what_is_worth_it(self, root, staging, begun):
        file = MappedFile.create(root / "a", 1 << 20, staging)
        file.begin_flush(100, 5000)
        file.begin_flush(100, 200_000)
        file.begin_flush(1 << 19)
        file.close()

        assert begun == [("a", 100, 199_900), ("a", 1 << 19, 1 << 19)]

    def test_nothing_is_lost_or_done_twice_by_it(self, root, staging, begun):
        file = MappedFile.create(root / "a", 1 << 20, staging)
        file.prepare(1 << 20)
        file.data[:] = 7
        file.begin_flush_meanwhile()
        file.flush()
        file.close()

        assert (root / "a").read_bytes() == b"\x07" * (1 << 20)

    def test_a_file_that_is_gone_is_named(self, root, staging):
        file = MappedFile.create(root / "a", 1 << 20, staging)
        (root / "a").unlink()
        with pytest.raises(FileNotFoundError) as raised:
            file.begin_flush()
        assert raised.value.filename == str(root / "a")
        file.close()
