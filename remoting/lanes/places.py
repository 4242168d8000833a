"""Where things stand in the arrays that kernels and Python share.

All are made once and live as long as their server's `Lanes`.

========= ==================== ====================================================
array     shape                has
========= ==================== ====================================================
state     (STATE,)             the log's bounds, limits, tallies, files of the log
lanes     (LANES, COLUMNS)     by lane: what Python found out about its pulls
texts     (LANES, TEXT)        by lane: the outline of its requests, then its answers'
slots     (2 * SLOTS,)         by hash: number of a lane plus one; then outlines seen once
queues    (QUEUES, …)          by queue: its bounds and files
out       (OUT,)               answers, one after the other
work      (WORK,)              an outline, entries of a queue, bytes between records, pages
vectors   (VECTORS,)           places for `preadv2` and `pwritev`, records of one answer, numbers
commits   (COMMITS, 2)         lane and committed offset of each pull that is answered
========= ==================== ====================================================
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reput.formats.rocketmq.consumequeue import ENTRY_SIZE
from reput.stores.queues.pull import scanned_entries

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Arrays(NamedTuple):
    """The arrays of the table, in its order."""

    state: NDArray[Any]
    lanes: NDArray[Any]
    texts: NDArray[Any]
    slots: NDArray[Any]
    queues: NDArray[Any]
    out: NDArray[Any]
    work: NDArray[Any]
    vectors: NDArray[Any]
    commits: NDArray[Any]


# Of `state`.
LOG_MIN, LOG_END, LOG_FILE_SIZE, MOST_MESSAGES, MOST_BYTES, OUT_FILE = range(6)
# Answers, bytes of their bodies, messages: of `PULL_MESSAGE`, then of its lite twin.
TALLIES = 8
TALLY = 3
# Files of the log by number: where each begins, and its descriptor.
LOG_FILES = 64
FILE_BASES = 16
FILE_DESCRIPTORS = FILE_BASES + LOG_FILES
# Where each is mapped, and how much of it; 0 for what is not.
FILE_ADDRESSES = FILE_DESCRIPTORS + LOG_FILES
FILE_MAPPED = FILE_ADDRESSES + LOG_FILES
STATE = FILE_MAPPED + LOG_FILES

# Of `lanes`.
OUTLINE, QUEUE, MAX_MESSAGES, KIND, CODES = range(5)
# Lengths of the parts of an answer's header, between which there are numbers.
PARTS, PART_COUNT = 5, 5
# Where the pull after the last one begins; below 0 if Python knows.
NEXT = PARTS + PART_COUNT
FIRST_CODE, MOST_CODES = 16, 32
COLUMNS = FIRST_CODE + MOST_CODES
LANES = 2048

OUTLINE_ROOM = 1024
TEXT = 2 * OUTLINE_ROOM
SLOTS = 2 * LANES

# Of `queues`. Below 0 the queue is closed.
QUEUE_MAX, QUEUE_MIN, QUEUE_FILE_SIZE = range(3)
QUEUE_FILES = 4
QUEUE_BASES, QUEUE_DESCRIPTORS = 4, 8
QUEUE_COLUMNS = QUEUE_DESCRIPTORS + QUEUE_FILES
QUEUES = 1024

# Requests of one connection that are taken before others have their turn.
TURN = 32
# Requests after which the loop has its turn; those of one more turn may come with them.
ROUND = 32
COMMITS = ROUND + TURN
# Bytes of records that one answer may have here: more than a pull's limit.
BODY_ROOM = 320 << 10
HEADER_ROOM = 2 * OUTLINE_ROOM
OUT = 4 * BODY_ROOM

# Records of one answer.
MOST_RECORDS = 64

# Of `work`.
MOST_ENTRIES = scanned_entries(1)
ENTRIES_AT = OUTLINE_ROOM + 64
GAP_AT = ENTRIES_AT + MOST_ENTRIES * ENTRY_SIZE + 64
# Bytes between two records that are read with them: another call takes as long.
GAP = 8 << 10
# Whether pages are in memory: of records with what lies between them.
PAGES_AT = GAP_AT + GAP
PAGES = (BODY_ROOM + MOST_RECORDS * GAP) // mmap.PAGESIZE + 2
WORK = PAGES_AT + PAGES

# Of `vectors`: pairs of address and length, then position, size and place in `out` by record.
POSITIONS = 4 * MOST_RECORDS + 8
SIZES = POSITIONS + MOST_RECORDS
RECORDS_AT = SIZES + MOST_RECORDS
# Numbers of a request, and where each stands in its outline.
NUMBERS = RECORDS_AT + MOST_RECORDS
OPAQUE, OFFSET, COMMIT, NUMBER_COUNT = 0, 1, 2, 3
PLACES = NUMBERS + NUMBER_COUNT
VECTORS = PLACES + NUMBER_COUNT

# Why a call ended: all was answered; enough was; a frame is not whole; one that is not for lanes;
# one whose outline is new, or was seen before; a lane's queue is closed; a file of a queue, or of
# the log, has to be opened.
DONE, ENOUGH, PARTIAL, OTHER, NEW, REPEATED, CLOSED, QUEUE_FILE, LOG_FILE = range(9)


def arrays(out: NDArray[np.uint8] | None = None, out_file: int = -1) -> Arrays:
    """Return new arrays.

    Args:
        out: the one for answers; a new one by default.
        out_file: descriptor of the file that it is mapped from; below 0 for none.
    """
    state = np.zeros(STATE, np.int64)
    state[OUT_FILE] = out_file
    return Arrays(
        state=state,
        lanes=np.zeros((LANES, COLUMNS), np.int64),
        texts=np.zeros((LANES, TEXT), np.uint8),
        slots=np.zeros(2 * SLOTS, np.int64),
        queues=np.zeros((QUEUES, QUEUE_COLUMNS), np.int64),
        out=np.zeros(OUT, np.uint8) if out is None else out,
        work=np.zeros(WORK, np.uint8),
        vectors=np.zeros(VECTORS, np.int64),
        commits=np.zeros((COMMITS, 2), np.int64),
    )
