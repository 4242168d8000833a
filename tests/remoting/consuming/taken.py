"""What consumers have written of the messages that they got: 40 bytes each, big-endian.

====== ==== ======== ==============================================================
offset size field    meaning
====== ==== ======== ==============================================================
     0    8 time     ms, the clock when the consumer had it, before it said so
     8    8 place    physical offset
    16    8 offset   queue offset
    24    4 queue    queue id
    28    4 body     CRC-32 of the body
    32    4 facts    CRC-32 of what else it was told, see `stored.facts_of`
    36    2 times    reconsume times
    38    2 phase    which of the rounds through the queues, of consumers that go back
====== ==== ======== ==============================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

ROW = np.dtype(
    [
        ("time", ">i8"),
        ("place", ">i8"),
        ("offset", ">i8"),
        ("queue", ">i4"),
        ("body", ">u4"),
        ("facts", ">u4"),
        ("times", ">i2"),
        ("phase", ">i2"),
    ]
)


def read(path: Path, skip: int = 0) -> NDArray:
    """Return the rows of a file from number `skip` on; none if there is no file yet.

    A consumer that was killed may leave part of a row.
    """
    if not path.exists():
        return np.empty(0, ROW)
    with path.open("rb") as file:
        file.seek(skip * ROW.itemsize)
        raw = file.read()
    return np.frombuffer(raw[: len(raw) - len(raw) % ROW.itemsize], ROW)
