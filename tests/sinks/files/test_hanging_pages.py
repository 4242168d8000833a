"""A page that does not come holds the thread that touches it, and no other one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from reput.sinks.files.mapped_file import MappedFile
from tests.builders.slow_pages import is_possible, pages_that_hang

# Where a map's missing pages can be held back.
MEMORY = Path("/dev/shm")
PAGE = 4096


def touch(call: str) -> None:
    """Touch a page that does not come, on another thread; end once it has come."""
    import threading

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
