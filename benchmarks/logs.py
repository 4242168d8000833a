"""Writes commitlogs for benchmarks: real-looking topics, records of many lengths, a GB a second.

    python -m benchmarks.logs DIRECTORY --gib 8 --body 100

A record has a tag, a key and a unique id, so three entries in the index of a 5.5 broker. Bodies are
as long as an exponential distribution says, so that no two records in a row are of one length; the
topics' names and shares are uneven as a shop's are. The log is one that a broker takes: checksums,
BLANKs and offsets of queues are right.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import (
    BORN_HOST,
    HOST_V4,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
)
from reput.formats.rocketmq.encode import Message, encode, encode_blank

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILE_SIZE = 1 << 30
QUEUES_A_TOPIC = 8
LENGTHS = 64
_STORE_TIMESTAMP_AT = BORN_HOST + HOST_V4
_BEGAN = 1_700_000_000_000
_RECORDS_A_MILLISECOND = 50
_ID_DIGITS = 16
_MARK = b"0123456789abcdef"
_TAGS = ("created", "paid", "packed", "shipped", "delivered", "returned", "refunded", "archived")
_WORDS = ("order", "payment", "stock", "parcel", "customer", "invoice", "price", "session")
_ACTS = ("events", "commands", "changes", "audit", "mail", "feed")


class Templates(NamedTuple):
    """Records that are copied, and where in each of them the numbers stand.

    Attributes:
        data: all of them, end to end.
        start, size: of each, LENGTHS for every topic.
        key_at, id_at: where the key's and the unique id's digits begin in each.
    """

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    key_at: NDArray[np.int64]
    id_at: NDArray[np.int64]


def topic_name(number: int) -> str:
    """Return the name of a topic, as a shop would have it."""
    word, act = _WORDS[number % len(_WORDS)], _ACTS[number // len(_WORDS) % len(_ACTS)]
    region = number // (len(_WORDS) * len(_ACTS))
    return f"{word}-{act}" + (f"-eu{region}" if region else "")


def make_templates(topics: int, body: int, pick: random.Random) -> Templates:
    """Return records of that many topics with bodies of that many bytes on average."""
    records, key_at, id_at = [], [], []
    for topic in range(topics):
        for _ in range(LENGTHS):
            length = min(int(pick.expovariate(1 / body)), 64 * body)
            properties = {
                "KEYS": f"{topic_name(topic)[:3]}{_MARK.decode()}",
                "UNIQ_KEY": f"7F000001AC1018B4{_MARK.decode()}",
                "WAIT": "true",
                "TAGS": pick.choice(_TAGS),
            }
            raw = encode(Message(topic_name(topic), pick.randbytes(length), properties), 0)
            # Of the bodies' random bytes none looks like this.
            key_at.append(raw.index(_MARK, max(len(raw) - 200, 0)))
            id_at.append(raw.index(_MARK, key_at[-1] + 1))
            records.append(raw)
    sizes = np.array([len(raw) for raw in records], np.int64)
    return Templates(
        np.frombuffer(b"".join(records), np.uint8),
        np.concatenate([[0], np.cumsum(sizes)[:-1]]),
        sizes,
        np.array(key_at, np.int64),
        np.array(id_at, np.int64),
    )


@njit(cache=True)
def _put(out: NDArray[np.uint8], at: int, value: int, width: int) -> None:
    for i in range(width):
        out[at + width - 1 - i] = (value >> (8 * i)) & 0xFF


@njit(cache=True)
def _put_digits(out: NDArray[np.uint8], at: int, value: int) -> None:
    # Times an odd number, so that ids hash to places all over an index, and none comes twice.
    value *= 0x1E3779B97F4A7C15
    for i in range(_ID_DIGITS):
        digit = value & 15
        out[at + _ID_DIGITS - 1 - i] = digit + (48 if digit < 10 else 87)
        value >>= 4


@njit(cache=True)
def fill(
    out: NDArray[np.uint8],
    base: int,
    number: int,
    data: NDArray[np.uint8],
    start: NDArray[np.int64],
    size: NDArray[np.int64],
    key_at: NDArray[np.int64],
    id_at: NDArray[np.int64],
    offsets: NDArray[np.int64],
    state: int,
) -> tuple[int, int, int]:
    """Fill a file with records; return bytes used, the next record's number and random state.

    Args:
        out: the file.
        base: its physical offset.
        number: of the first record.
        data, start, size, key_at, id_at: see `Templates`.
        offsets: the next offset of every queue, [topics * QUEUES_A_TOPIC]; counted up.
        state: of the random numbers.
    """
    at = 0
    queues = len(offsets)
    while True:
        # Knuth's MMIX numbers; the square of a fraction makes few queues busy and many quiet.
        state = (state * 6364136223846793005 + 1442695040888963407) & 0x7FFFFFFFFFFFFFFF
        fraction = (state >> 31) / 4294967296.0
        queue = int(fraction * fraction * queues) if queues > 1 else 0
        topic = queue // QUEUES_A_TOPIC
        which = topic * LENGTHS + ((state >> 16) % LENGTHS)
        length = size[which]
        if at + length + 8 > len(out):
            return at, number, state
        first = start[which]
        for i in range(length):
            out[at + i] = data[first + i]
        _put(out, at + QUEUE_ID_AT, queue % QUEUES_A_TOPIC, 4)
        _put(out, at + QUEUE_OFFSET_AT, offsets[queue], 8)
        _put(out, at + PHYSICAL_OFFSET_AT, base + at, 8)
        _put(out, at + _STORE_TIMESTAMP_AT, _BEGAN + number // _RECORDS_A_MILLISECOND, 8)
        _put_digits(out, at + key_at[which], number)
        _put_digits(out, at + id_at[which], number)
        offsets[queue] += 1
        number += 1
        at += length


def write_log(directory: Path, size: int, body: int, queues: int = 128, seed: int = 1) -> int:
    """Write a log of at least `size` bytes, in whole files but the last; return its records.

    Args:
        directory: of the commitlog files; made.
        size: bytes.
        body: bytes of a body on average.
        queues: over which records are spread.
        seed: of everything random.
    """
    directory.mkdir(parents=True)
    pick = random.Random(seed)
    templates = make_templates(-(-queues // QUEUES_A_TOPIC), body, pick)
    offsets = np.zeros(queues, np.int64)
    number, state = 0, seed
    for base in range(0, size, FILE_SIZE):
        path = directory / names.offset_file(base)
        wanted = min(FILE_SIZE, size - base)
        with path.open("wb+") as file:
            file.truncate(FILE_SIZE)
        out = np.memmap(path, np.uint8, "r+")
        used, number, state = fill(out[:wanted], base, number, *templates, offsets, state)
        if wanted == FILE_SIZE:
            out[used:] = np.frombuffer(encode_blank(FILE_SIZE - used), np.uint8)
        out.flush()
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="a store: commitlog/ is made in it")
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--body", type=int, default=100, help="bytes on average")
    parser.add_argument("--queues", type=int, default=128)
    arguments = parser.parse_args()
    size = int(arguments.gib * (1 << 30))
    count = write_log(arguments.directory / "commitlog", size, arguments.body, arguments.queues)
    print(f"{count:,} records, {size / count:.0f} bytes each")


if __name__ == "__main__":
    main()
