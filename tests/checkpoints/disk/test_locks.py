"""One writer: locks between processes, inside one, after a kill, and with a broker's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reput.checkpoints.disk.locks import WRITER_LOCK, FileLock, lock_output, lock_store
from reput.formats.errors import StoreError
from reput.stores.log import broker_lock

# What java.nio.channels.FileChannel.tryLock(0, 1, false) does, and a broker at its start.
JAVA = """
import fcntl, struct, sys, time
file = open(sys.argv[1], "r+b" if len(sys.argv) > 2 else "w+b")
try:
    fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 1, 0))
except OSError:
    print("busy", flush=True)
    sys.exit()
file.write(b"lock")
file.flush()
print("locked", flush=True)
sys.stdin.read()
"""
OURS = """
import sys
from pathlib import Path
from reput.checkpoints.disk.locks import lock_output
from reput.formats.errors import StoreError
try:
    lock = lock_output(Path(sys.argv[1]))
except StoreError as error:
    print(error, flush=True)
    sys.exit()
print("locked", flush=True)
sys.stdin.read()
"""
ROOT = Path(__file__).parents[3]


class Process:
    """Another process that tries a lock and holds it until it is told to end."""

    def __init__(self, script: str, *arguments: object) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.said = self.popen.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.popen.kill()
        self.popen.communicate()


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "out" / ".reput"
    path.mkdir(parents=True)
    return path


class TestOutput:
    def test_a_second_process_is_refused_and_told_who_holds_it(self, state):
        with Process(OURS, state) as holder:
            assert holder.said == "locked"
            with pytest.raises(StoreError, match=f"process {holder.popen.pid} on .* is writing"):
                lock_output(state)
        lock_output(state).release()

    def test_a_held_lock_refuses_another_process(self, state):
        with lock_output(state), Process(OURS, state) as other:
            assert f"process {os.getpid()} on" in other.said
            assert str(state.parent) in other.said
        with Process(OURS, state) as other:
            assert other.said == "locked"

    def test_the_same_process_is_refused_too(self, state):
        """
        The kernel would grant it: its locks belong to the process.
        """
        with lock_output(state), pytest.raises(StoreError, match="is writing to this output"):
            lock_output(state)
        lock_output(state).release()

    def test_refusing_the_same_process_does_not_lose_the_lock(self, state):
        """
        A POSIX lock goes with any descriptor of its file that is closed: nobody may open it again.
        """
        with lock_output(state):
            with pytest.raises(StoreError):
                lock_output(state)
            with Process(OURS, state) as other:
                assert other.said != "locked"

    def test_another_path_to_the_same_file_is_the_same_lock(self, state, tmp_path):
        (tmp_path / "link").symlink_to(state)

        with lock_output(state), pytest.raises(StoreError):
            lock_output(tmp_path / "link")

    def test_a_killed_holder_holds_nothing(self, state):
        with Process(OURS, state) as holder:
            os.kill(holder.popen.pid, signal.SIGKILL)
            holder.popen.wait()
            lock_output(state).release()

    def test_a_child_does_not_take_the_lock_along(self, state):
        lock = lock_output(state)
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if not FileLock(state / WRITER_LOCK).acquire() else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with Process(OURS, state) as other:
            assert other.said != "locked"
        lock.release()

    def test_the_holder_is_written_whole(self, state):
        (state / WRITER_LOCK).write_text("x" * 500)
        with lock_output(state):
            assert (state / WRITER_LOCK).stat().st_size < 200

    def test_only_a_held_lock_can_be_written_to(self, state):
        with pytest.raises(RuntimeError, match="not held"):
            FileLock(state / WRITER_LOCK).write("me")

    def test_a_lock_that_cannot_be_made_is_an_error_not_a_no(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            FileLock(tmp_path / "none" / "lock").acquire()
        assert not broker_lock.HELD


class TestStore:
    def test_a_running_broker_is_not_written_over(self, tmp_path):
        with Process(JAVA, tmp_path / "lock") as broker:
            assert broker.said == "locked"
            with pytest.raises(StoreError, match="a broker holds this store's lock"):
                lock_store(tmp_path)
            assert (tmp_path / "lock").read_text() == "lock"

    def test_a_broker_does_not_start_while_we_write(self, tmp_path):
        (tmp_path / "lock").write_text("lock")
        with lock_store(tmp_path):
            with Process(JAVA, tmp_path / "lock", "keep") as broker:
                assert broker.said == "busy"
            assert (tmp_path / "lock").read_text() == "lock"
        with Process(JAVA, tmp_path / "lock", "keep") as broker:
            assert broker.said == "locked"

    def test_a_store_that_was_not_closed_in_order_is_refused(self, tmp_path):
        (tmp_path / "abort").write_text("123")

        with pytest.raises(StoreError, match="not closed in order"):
            lock_store(tmp_path)
        assert not (tmp_path / "lock").exists()

    def test_what_a_clean_stop_leaves_is_no_abort(self, tmp_path):
        """
        Real stores have an abort.bak beside it.
        """
        (tmp_path / "abort.bak").write_text("")

        lock_store(tmp_path).release()

    def test_what_our_own_killed_writer_left_may_be_taken_up(self, tmp_path):
        (tmp_path / ".reput").mkdir()
        lock_output(tmp_path / ".reput").release()
        (tmp_path / "abort").write_text(f"reput, process {os.getpid()}")

        lock_store(tmp_path).release()

    def test_a_store_that_this_process_writes_in_place_is_refused_and_stays_locked(self, tmp_path):
        (tmp_path / ".reput").mkdir()
        with lock_store(tmp_path), lock_output(tmp_path / ".reput"):
            (tmp_path / "abort").write_text(f"reput, process {os.getpid()}")
            with pytest.raises(StoreError):
                lock_store(tmp_path)
            with Process(OURS, tmp_path / ".reput") as other:
                assert other.said != "locked"
