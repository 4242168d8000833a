"""Whether another process holds a lock file: a broker its store's, a writer its output's.

Nothing is taken or made here. A POSIX record lock vanishes when *any* descriptor of its file is
closed in the process that holds it, so the locks of this process are kept in a list, and their
files are never opened.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Files whose locks this process holds: names with links resolved, and device and inode. The kernel
# does not keep a process from itself: two jobs in one interpreter need this.
HELD: dict[str, tuple[int, int]] = {}
# C's struct flock on 64-bit Linux: type, whence, start, length, process.
_FLOCK = struct.Struct("hhqqi4x")


def is_held(path: Path) -> bool:
    """Tell whether another process has the lock; it is neither taken nor made.

    Also False if the file cannot be opened, or the file system shows no locks, or not those of
    other hosts.
    """
    try:
        found = path.stat()
        if (found.st_dev, found.st_ino) in HELD.values():
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        lock = fcntl.fcntl(descriptor, fcntl.F_GETLK, wanted)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(_FLOCK.unpack(lock)[0] != fcntl.F_UNLCK)
