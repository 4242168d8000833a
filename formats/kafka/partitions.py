"""Which partition of a Kafka topic a key goes to: as Kafka's own clients choose it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import kernel, making_kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes
    from reput.formats.rows.texts import Slices


@kernel
def murmur2(data: Bytes, at: int, length: int) -> int:
    """Return the hash by which Kafka's clients choose a key's partition, its top bit cleared.

    Source: Kafka `Utils#murmur2`, `Utils#toPositive`.
    """
    mix = np.uint32(0x5BD1E995)
    state = np.uint32(0x9747B28C) ^ np.uint32(length)
    words = length // 4
    for i in range(words):
        start = at + 4 * i
        word = np.uint32(data[start]) | np.uint32(data[start + 1]) << np.uint32(8)
        word |= np.uint32(data[start + 2]) << np.uint32(16)
        word |= np.uint32(data[start + 3]) << np.uint32(24)
        word = np.uint32(word * mix)
        word ^= word >> np.uint32(24)
        state = np.uint32(np.uint32(state * mix) ^ np.uint32(word * mix))
    rest = at + 4 * words
    left = length - 4 * words
    if left == 3:
        state ^= np.uint32(data[rest + 2]) << np.uint32(16)
    if left >= 2:
        state ^= np.uint32(data[rest + 1]) << np.uint32(8)
    if left >= 1:
        state ^= np.uint32(data[rest])
        state = np.uint32(state * mix)
    state ^= state >> np.uint32(13)
    state = np.uint32(state * mix)
    state ^= state >> np.uint32(15)
    return int(state & np.uint32(0x7FFFFFFF))


@making_kernel
def partitions_by_key(
    data: Bytes, keys: Slices, partitions: NDArray[np.int32], by_queue: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return each row's partition: by its key's hash, or as its queue's where it has no key.

    Args:
        data: what the keys are slices of.
        keys: by row.
        partitions: how many its topic has, by row.
        by_queue: by row.
    """
    found = by_queue.copy()
    for row in range(len(found)):
        if keys.length[row] > 0 and partitions[row] > 0:
            found[row] = murmur2(data, int(keys.at[row]), int(keys.length[row])) % partitions[row]
    return found
