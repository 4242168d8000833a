"""Changes of a small log of our own: through system calls, each flushed before it returns.

`changes` has those of outputs, which are written through memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from reput.checkpoints.disk.changes import naming

if TYPE_CHECKING:
    from pathlib import Path


def make_full_file(path: Path, size: int) -> None:
    """Make a file of zeros that has its blocks: writing into it cannot run out of space.

    Raises:
        OSError: no space, no permission.
    """
    with naming(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_into(path: Path, start: int, data: bytes, *, syncs: bool = True) -> None:
    """Write bytes into a file that is there, and have them on disk if `syncs`.

    Raises:
        OSError: no space, the device failed.
    """
    with naming(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            left = memoryview(data)
            while left:
                count = os.pwrite(descriptor, left, start)
                start, left = start + count, left[count:]
            if syncs:
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)


def sync_file(path: Path) -> None:
    """Flush what was written into a file.

    Raises:
        OSError: the device failed.
    """
    with naming(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
