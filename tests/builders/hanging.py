"""A writer process whose disk hangs, though its listener answers."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from reput.checkpoints.disk import locks
from reput.checkpoints.progress import STATE_DIRECTORY
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def writer_of(output: Path) -> int:
    """Return the process that has an output locked."""
    return int(locks.holder_of(output / STATE_DIRECTORY).split()[2])


@contextlib.contextmanager
def hanging(output: Path) -> Iterator[Callable[[], None]]:
    """Let an output's writer process hang from its next flush on; it is killed in the end.

    A pipe takes the place of the file that it writes: to open it waits for a reader, within the
    system call, as a disk that hangs does. What is yielded ends that, with an error of the writer.
    """
    process = writer_of(output)
    pipe = output / STATE_DIRECTORY / f"{names.PROGRESS}.new"
    os.mkfifo(pipe)
    ends = []

    def let_go() -> None:
        ends.append(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
        pipe.unlink()

    try:
        yield let_go
    finally:
        for end in ends:
            os.close(end)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
