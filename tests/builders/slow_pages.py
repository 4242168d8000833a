"""Memory whose pages do not come until they are let come, as those of a file on a disk that hangs."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of x86-64 and arm64.
_CALLS = {"x86_64": 323, "aarch64": 282}
_USER_MODE_ONLY = 1
_API, _API_CALL = 0xAA, 0xC018AA3F
_REGISTER, _MISSING = 0xC020AA00, 1


def _open() -> int:
    call = _CALLS.get(os.uname().machine)
    if call is None:
        return -1
    return int(ctypes.CDLL(None).syscall(call, os.O_CLOEXEC | _USER_MODE_ONLY))


def is_possible() -> bool:
    """Tell whether this kernel has userfaultfd for everybody."""
    descriptor = _open()
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True


@contextlib.contextmanager
def pages_that_hang(address: int, size: int) -> Iterator[None]:
    """Let a thread that touches a missing page of a map wait, until what is within is over."""
    descriptor = _open()
    try:
        fcntl.ioctl(descriptor, _API_CALL, struct.pack("QQQ", _API, 0, 0))
        fcntl.ioctl(descriptor, _REGISTER, struct.pack("QQQQ", address, size, _MISSING, 0))
        yield
    finally:
        os.close(descriptor)
