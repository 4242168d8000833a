"""A page that does not come holds the thread that touches it, and no other one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from reput.sinks.files.mapped_file import MappedFile
from tests.builders.slow_pages import is_possible, pages_that_hang

# Where a map's missing pages can be held back.
MEMORY = Path("/dev/shm")
PAGE = 4096


def touch(call: str) -> None:
    """Touch a page that does not come, on another thread; end once it has come."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        file = MappedFile.create(Path(made) / "0", 4 * PAGE, Path(made))
        argument = b"entry" if call == "write" else 5
        toucher = threading.Thread(target=getattr(file, call), args=(PAGE, argument))
        with pages_that_hang(file.address, file.size):
            toucher.start()
            toucher.join(0.2)
            sys.stdout.write(f"waits: {toucher.is_alive()}\n")
        toucher.join()
        file.close()


@pytest.mark.skipif(not is_possible() or not MEMORY.is_dir(), reason="of this machine's kernel")
@pytest.mark.parametrize("call", ["write", "read"])
def test_all_other_threads_run_while_one_waits_for_a_page(call):
    """
    Other stores, signals and health checks are served by threads of the same process.
    """
    program = f"from tests.sinks.files.test_hanging_pages import touch; touch({call!r})"
    # Without it the process would stand still for ever: nobody can end the wait.
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout == "waits: True\n"


def test_what_is_not_in_the_map_is_neither_read_nor_written(tmp_path):
    """
    The copies are those of the C library, which looks at no bounds.
    """
    file = MappedFile.create(tmp_path / "0", PAGE, tmp_path)
    for at, length in ((PAGE - 4, 5), (-1, 1), (PAGE, 1)):
        with pytest.raises(IndexError):
            file.read(at, length)
        with pytest.raises(IndexError):
            file.write(at, bytes(length))
    file.write(PAGE - 4, b"last")
    assert file.read(PAGE - 4, 4) == b"last"
    file.close()
    with pytest.raises(IndexError):
        file.read(0, 1)


def test_a_file_is_prepared_though_all_helpers_wait_for_another_disk(tmp_path):
    """
    They work for all stores of a process.
    """
    size = 1 << 16
    hanging = [MappedFile.create(tmp_path / str(number), size, tmp_path) for number in range(2)]
    for file in hanging:
        # To open a pipe waits for a writer, within the system call, as a disk that hangs does.
        file.path.unlink()
        os.mkfifo(file.path)
        file.begin_flush_meanwhile()
    file = MappedFile.create(tmp_path / "2", size, tmp_path)
    file.prepare_ahead(2 * PAGE)
    preparing = threading.Thread(target=file.prepare, args=(3 * PAGE,), daemon=True)
    preparing.start()
    preparing.join(20)
    is_held_up = preparing.is_alive()
    for each in hanging:
        os.close(os.open(each.path, os.O_RDWR))
    preparing.join()

    assert not is_held_up
    assert file.prepared == 3 * PAGE
    for each in (*hanging, file):
        each.close()
