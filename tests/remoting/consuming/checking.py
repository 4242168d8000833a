"""Compares what consumers got with the log: content, count, order, and why something came twice.

A message may come twice only around an event: a member joined, left or was killed, or the server
was killed. The member that gets the queue begins where the last one has said that it was, at most
some seconds ago, and the last one may still consume until it knows of it. So the first receipt is
at most `BACK` before the event and `AFTER` or `AFTER_LOCK` past it, and the second one not before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.remoting.consuming.stored import QUEUES, TAGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tests.remoting.consuming.stored import Written

BACK, AFTER, AFTER_LOCK = 12_000, 45_000, 105_000
"""Milliseconds. A client saves each 5 s, for the first time after 10, and asks again each 20 s; a lock
on a queue ends after 60 s."""
SERVER = "server"
"""The kind of an event that is a kill of the server."""
HEARTBEAT = 30_000
"""Milliseconds. A client of 4.9 tells a server that was killed of itself with its next heartbeat,
and gets nothing until then. A kill between two receipts may so keep the second one for as long."""


class Event(NamedTuple):
    """What makes queues change hands.

    Attributes:
        time: ms, when it began.
        kind: "join", "close", "kill", or `SERVER`.
        who: the member.
        ended: ms, when it was over: a closed member has ended, one that joins has begun.
    """

    time: int
    kind: str
    who: str
    ended: int


class Rows(NamedTuple):
    """Rows of all members, member after member, each as it was written.

    Attributes:
        number: of the message in the log, -1 if the log does not have it.
        rank: of the message among those of its queue that are wanted.
        queue, time: see `taken`.
        member: number of the member.
        line: number of the row in its member's file.
    """

    number: NDArray[np.int64]
    rank: NDArray[np.int64]
    queue: NDArray[np.int64]
    time: NDArray[np.int64]
    member: NDArray[np.int64]
    line: NDArray[np.int64]


class Expected:
    """The messages that are wanted of a log."""

    def __init__(self, written: Written, way: str) -> None:
        self.written = written
        self.after = AFTER_LOCK if way == "orderly" else AFTER
        self.wanted = wanted_of(written, way)
        self.count = int(self.wanted.sum())
        ends = written.ends()
        self._first = np.concatenate([[0], np.cumsum(ends)[:-1]])
        self._ends = ends
        # The number of a message in the log by queue and offset, queue after queue.
        self._numbers = np.lexsort((written.offset, written.queue))
        ranks = np.cumsum(self.wanted[self._numbers])
        before = np.concatenate([[0], ranks])[self._first]
        self._rank = np.empty(len(self.wanted), np.int64)
        self._rank[self._numbers] = ranks - 1 - before[written.queue[self._numbers]]

    def numbers_of(self, rows: NDArray) -> NDArray[np.int64]:
        """Return the number in the log of each row's message, -1 where the queue does not have it."""
        queue, offset = rows["queue"].astype(np.int64), rows["offset"].astype(np.int64)
        is_there = (queue >= 0) & (queue < QUEUES)
        queue = np.where(is_there, queue, 0)
        is_there &= (offset >= 0) & (offset < self._ends[queue])
        return np.where(
            is_there, self._numbers[np.where(is_there, self._first[queue] + offset, 0)], -1
        )

    def rank_of(self, number: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place of messages among the wanted ones of their queues."""
        return self._rank[number]

    def wrong(self, rows: NDArray, who: str) -> list[str]:
        """Return what rows say that the log does not."""
        written, number = self.written, self.numbers_of(rows)
        faults = []
        for name, is_wrong in {
            "queue and offset": number < 0,
            "place": rows["place"] != written.place[number],
            "body": rows["body"] != written.body_crc[number],
            "facts": rows["facts"] != written.facts_crc[number],
            "reconsume times": rows["times"] != 0,
            "message, which is not wanted": ~self.wanted[number],
        }.items():
            if is_wrong.any():
                first = rows[int(np.argmax(is_wrong))]
                faults.append(f"{who} got {int(is_wrong.sum())} times a wrong {name}: {first}")
        return faults


def wanted_of(written: Written, way: str) -> NDArray[np.bool_]:
    """Return which messages a way's filter lets pass."""
    tag = written.kind % len(TAGS)
    if way == "tags":
        return (tag == 1) | (tag == 3)
    if way == "sql92":
        return ((written.kind >= 10) & (written.kind <= 19)) | (tag == 2)
    return np.ones(len(tag), np.bool_)


WANTED = {
    "tags": f"{TAGS[1]} || {TAGS[3]}",
    "sql92": f"a BETWEEN 10 AND 19 OR TAGS = '{TAGS[2]}'",
}


def rows_of(expected: Expected, parts: Sequence[NDArray]) -> Rows:
    """Return the rows of all members, without those that the log does not have."""
    taken = np.concatenate(parts)
    member = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    line = np.concatenate([np.arange(len(part)) for part in parts])
    number = expected.numbers_of(taken)
    good = number >= 0
    number = number[good]
    queue, time = taken["queue"].astype(np.int64)[good], taken["time"].astype(np.int64)[good]
    return Rows(number, expected.rank_of(number), queue, time, member[good], line[good])


class Shared(NamedTuple):
    """What was found where members share the messages.

    Attributes:
        faults: what should not be.
        again: messages that came more than once, each time counted.
        back: ms between the first receipt of a message that came again and the event before, the most.
    """

    faults: list[str]
    again: int
    back: int


def check_shared(expected: Expected, rows: Rows, events: Sequence[Event]) -> Shared:
    """Check that the members together got each wanted message, once but for what events explain."""
    faults = []
    came = np.bincount(rows.number, minlength=len(expected.wanted))
    lost = np.flatnonzero(expected.wanted & (came == 0))
    if len(lost):
        faults.append(f"{len(lost)} messages never came, the first is number {lost[0]}")
    faults += misordered(rows, [each for each in events if each.kind == SERVER])
    again, back, unexplained = _explain(rows, events, expected.after)
    if unexplained:
        faults.append(
            f"{len(unexplained)} came again without an event, the first: {unexplained[0]}"
        )
    return Shared(faults, again, back)


def misordered(rows: Rows, restarts: Sequence[Event] = ()) -> list[str]:
    """Return where first receipts are not in the order of a queue: of all, and of each member.

    Args:
        rows: of all members.
        restarts: of the server. Its offsets are a few seconds old then, so a member that has taken
            a queue over from another may get messages that only that one has had.
    """
    faults = []
    for queue in range(QUEUES):
        mine = np.flatnonzero(rows.queue == queue)
        # Rows of one millisecond are in any order as far as members of their own are concerned.
        by_time = mine[np.lexsort((rows.rank[mine], rows.time[mine]))]
        groups = [by_time, *(mine[rows.member[mine] == one] for one in np.unique(rows.member))]
        for number, chosen in enumerate(groups):
            _, first = np.unique(rows.rank[chosen], return_index=True)
            firsts, times = (column[chosen][np.sort(first)] for column in (rows.rank, rows.time))
            bad = np.flatnonzero(np.diff(firsts) < 0).tolist()
            if number:
                bad = [at for at in bad if not _is_restarted(restarts, *times[at : at + 2])]
            if bad:
                whose = f"member {number - 1}" if number else "all members"
                faults.append(
                    f"queue {queue} of {whose}: {len(bad)} times out of order, first "
                    f"{firsts[bad[0]]} and then {firsts[bad[0] + 1]}"
                )
    return faults


def _is_restarted(restarts: Sequence[Event], first: int, second: int) -> bool:
    """Tell whether a server was killed shortly before or between two receipts."""
    return any(first - BACK <= each.time <= second for each in restarts)


def _explain(rows: Rows, events: Sequence[Event], after: int) -> tuple[int, int, list[str]]:
    """Return how often messages came again, how far back they were, and what nothing explains."""
    order = np.lexsort((rows.line, rows.time, rows.number))
    same = rows.number[order][1:] == rows.number[order][:-1]
    first, second = rows.time[order][:-1][same], rows.time[order][1:][same]
    kills = np.sort([each.time for each in events if each.kind == SERVER])
    is_kept = np.searchsorted(kills, first) < np.searchsorted(kills, second)
    longest = after + HEARTBEAT * is_kept
    # How far back it was is seen where the event was between the two.
    is_explained, back = np.zeros(len(first), np.bool_), np.full(len(first), after)
    for event in events:
        fits = (first >= event.time - BACK) & (first <= event.ended + after)
        fits &= (second >= event.time) & (second <= event.ended + longest)
        is_explained |= fits
        is_between = fits & (first <= event.time)
        back[is_between] = np.minimum(back, event.time - first)[is_between]
    numbers = rows.number[order][1:][same][~is_explained]
    unexplained = [
        f"message {number} at {one} and at {two} ms"
        for number, one, two in zip(
            numbers, first[~is_explained], second[~is_explained], strict=True
        )
    ]
    return len(first), int(back[back < after].max(initial=0)), unexplained


def pauses(rows: Rows, events: Sequence[Event], names: Sequence[str]) -> dict[str, list[int]]:
    """Return for each kind of event ms in which a queue had no owner, the most of each event.

    From the last receipt of the member that was closed or killed to the first one of another that
    is not before the event, of the queues that the member had.
    """
    found: dict[str, list[int]] = {"close": [], "kill": []}
    for event in events:
        if event.kind not in found:
            continue
        longest, leaver = 0, names.index(event.who)
        for queue in range(QUEUES):
            time, member = (column[rows.queue == queue] for column in (rows.time, rows.member))
            before = np.flatnonzero(time <= event.time)
            if not len(before) or member[before[np.argmax(time[before])]] != leaver:
                continue
            since = time[(member == leaver) & (time <= event.ended)].max()
            later = time[(member != leaver) & (time >= event.time)]
            if len(later):
                longest = max(longest, int(later.min() - since))
        found[event.kind].append(longest)
    return found


def check_alone(expected: Expected, rows: Rows, events: Sequence[Event], count: int) -> Shared:
    """Check that each of `count` members got each message, once but for what its restarts explain."""
    faults, again, back = [], 0, 0
    for member in range(count):
        mine = rows.member == member
        one = check_shared(expected, Rows(*(column[mine] for column in rows)), events)
        faults += [f"member {member}: {fault}" for fault in one.faults]
        again, back = again + one.again, max(back, one.back)
    return Shared(faults, again, back)


def check_rounds(expected: Expected, taken: NDArray, starts: Sequence[Sequence[int]]) -> list[str]:
    """Check a consumer that goes through the queues several times, alone.

    Args:
        expected: all messages.
        taken: its rows.
        starts: for each round the offset at which it begins in each queue.
    """
    ends = expected.written.ends()
    faults = [] if set(taken["phase"].tolist()) <= set(range(len(starts))) else ["more rounds"]
    for phase, begins in enumerate(starts):
        rows = taken[taken["phase"] == phase]
        for queue in range(QUEUES):
            got = rows["offset"][rows["queue"] == queue].astype(np.int64)
            want = np.arange(begins[queue], ends[queue])
            if not np.array_equal(got, want):
                differs = np.flatnonzero(got[: len(want)] != want[: len(got)])
                where = f", number {differs[0]} differs" if len(differs) else ""
                faults.append(
                    f"round {phase}, queue {queue}: {len(got)} messages, not {len(want)}{where}"
                )
    return faults
