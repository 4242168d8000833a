"""File and directory names of a store, both ways; which topics can be a directory.

Mapped files are named by the offset of their first byte, 20 decimal digits
(`UtilAll#offset2FileName`); index files by the local time of their making, 17 digits. A broker
refuses to start on any other name in these directories, so nothing else may ever stand there.
"""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

DIGITS = 20
INDEX_DIGITS = 17
# ext4, xfs and their like all end at 255 bytes a name.
NAME_BYTES = 255

COMMITLOG = "commitlog"
CONSUMEQUEUE = "consumequeue"
CONSUMEQUEUE_EXT = "consumequeue_ext"
BATCH_CONSUMEQUEUE = "batchconsumequeue"
INDEX = "index"
CHECKPOINT = "checkpoint"
ABORT = "abort"
LOCK = "lock"
CONFIG = "config"
# What dispatch makes of a log, the checkpoint aside.
# What our own abort marker begins with; the process id follows.
OUR_ABORT = "reput, process "
DISPATCHED = (CONSUMEQUEUE, CONSUMEQUEUE_EXT, BATCH_CONSUMEQUEUE, INDEX)
# Before a group's name: topics of what its consumers sent back, and of what they gave up.
RETRY, DEAD_LETTERS = "%RETRY%", "%DLQ%"
# Our own, in an output; no broker knows it.
STATE = ".reput"
# How far the output is, in STATE.
PROGRESS = "progress.json"


class QueueName(NamedTuple):
    """A queue of a topic."""

    topic: str
    queue_id: int


def offset_file(offset: int) -> str:
    """Return the name of the file that begins at `offset`."""
    return f"{offset:0{DIGITS}d}"


def parse_offset_file(name: str) -> int | None:
    """Return the offset that a file's name states, None for any other name."""
    if len(name) < DIGITS or not (name.isascii() and name.isdigit()):
        return None
    offset = int(name)
    # A broker reads it as a Java long.
    return offset if offset < 1 << 63 else None


def index_file(made_ms: int) -> str:
    """Return the name of an index file made at `made_ms`, in the local zone as a broker has it."""
    made = dt.datetime.fromtimestamp(made_ms // 1000).astimezone()
    return f"{made:%Y%m%d%H%M%S}{made_ms % 1000:03d}"


def is_index_file(name: str) -> bool:
    """Tell whether `name` is one that a broker would open as an index file."""
    return name.isascii() and name.isdigit()


def topic_problem(topic: str, *, nested: bool = False) -> str | None:
    """Return why `topic` cannot name a directory, None if it can.

    Args:
        topic: the name.
        nested: separators are allowed, see `BrokerVersion.nests_queues`.
    """
    if nested and "/" in topic:
        parts = (topic_problem(part) for part in topic.split("/"))
        return next((problem for problem in parts if problem), None)
    problems = (
        ("it is empty", not topic),
        ("it means another directory", topic in {".", ".."}),
        ("it holds the path separator", "/" in topic),
        ("it holds a NUL", "\0" in topic),
        ("it holds half of a character", not has_bytes(topic)),
        (
            f"it is longer than {NAME_BYTES} bytes",
            len(topic.encode("utf-8", "surrogatepass")) > NAME_BYTES,
        ),
    )
    return next((problem for problem, is_so in problems if is_so), None)


def has_bytes(name: str) -> bool:
    """Tell whether a file can be called so: JSON may hold half of a surrogate pair."""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
