"""Memory that is free goes back to the system, also after larger pieces were freed before."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

# 8 MiB are freed; then a piece of 1 MiB is freed while a small one after it stays. How many bytes
# of free memory does the C library keep?
SCRIPT = """
import ctypes
import sys

from reput.stores.heap import give_back_large

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

libc.mallinfo2.restype = Info
if sys.argv[1] == "given back":
    assert give_back_large()
libc.free(libc.malloc(8 << 20))
free = libc.mallinfo2().fordblks
large = libc.malloc(1 << 20)
small = libc.malloc(100)
libc.free(large)
print(libc.mallinfo2().fordblks - free)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33+")
def test_what_is_freed_between_other_pieces_is_not_kept():
    kept = {
        way: int(subprocess.check_output([sys.executable, "-c", SCRIPT, way], text=True))
        for way in ("as it comes", "given back")
    }

    assert kept["as it comes"] > 900 << 10
    assert kept["given back"] < 64 << 10
