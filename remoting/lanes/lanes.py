"""The lanes of one store: pulls that kernels answer because Python has judged their like before.

Python judges the second request of an outline. From then on kernels answer its like, until
something changes that the judgement rests on: topics, groups, resets, accounts. Then all are
judged again. What changes more often, such as a queue's end, kernels look up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from reput.formats.kernels.compiled import called_with
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE
from reput.remoting.lanes import kernels, learning
from reput.remoting.lanes import places as p
from reput.remoting.lanes.opened import OpenLog, OpenQueues, Outbox
from reput.remoting.lanes.outlines import hash_of, outline
from reput.remoting.lanes.rounds import Rounds
from reput.remoting.lanes.rounds import compiled as compiled_rounds
from reput.remoting.wire.codes import ResponseCode
from reput.stores.log.files import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.counting.counters import Counters
    from reput.remoting.lanes.learning import Lane
    from reput.remoting.reading.served import Served

    # Files, the log's bounds, changes of groups, resets.
    _Seen = tuple[tuple[int, int, int], int, int, int, int]
    Commit = Callable[[str, str, int, int], None]

# Looks at one piece of what has come, each after something was learned or opened for it.
_TRIES = 16
_MENDED = {p.REPEATED, p.CLOSED, p.QUEUE_FILE, p.LOG_FILE}


class Outlet(Protocol):
    """A connection as lanes see it."""

    @property
    def outlet(self) -> int:
        """Return the socket that may be written to at once; below 0 where others are before."""

    def write(self, data: bytes) -> None:
        """Send bytes after those that were sent before."""


def load() -> None:
    """Compile the kernels, or load them; that takes seconds the first time."""
    arrays = p.arrays()
    _compiled(arrays)
    compiled_rounds(arrays)
    outline(b"", 0, 0, arrays.work, arrays.vectors)
    hash_of(arrays.work, 0)


def _compiled(arrays: p.Arrays) -> Callable[..., Any]:
    return called_with(kernels.serve, b"", 0, 0, -1, 0, arrays)


class Lanes:
    """Answers pulls of one store that are like others before.

    Attributes:
        learned: how many lanes were made.
        arrays: what kernels go by; see `places`.
        rounds: connections that kernels read.
    """

    def __init__(
        self,
        served: Served,
        counters: Counters,
        commit: Commit,
        may_pass: Callable[[Any], bool] | None = None,
        pulled: Commit | None = None,
    ) -> None:
        """Begin without any lane.

        Args:
            served: what is asked.
            counters: what is told of answers, at each `tick`.
            commit: keeps the offset that a pull commits: group, topic, queue id, offset.
            may_pass: tells whether all that a connection asks is allowed; None if that holds for
                each.
            pulled: takes down where a group's next pull begins, at each `tick`; None if nobody
                wants to know.
        """
        self._served, self._counters, self._commit = served, counters, commit
        self._pulled = pulled
        self._may_pass = may_pass
        log = served.store.log
        self._log = log
        self._outbox = Outbox()
        self.arrays = p.arrays(self._outbox.data, self._outbox.descriptor)
        arrays = self.arrays
        self._state, self._lanes, self._texts = arrays.state, arrays.lanes, arrays.texts
        self._slots, self._queues, self._commits = arrays.slots, arrays.queues, arrays.commits
        self._work, self._vectors, self._bytes = arrays.work, arrays.vectors, arrays.out.data
        self._known: list[Lane] = []
        self._open_log = OpenLog(log, self._state)
        self._open_queues = OpenQueues(self._queues)
        self.learned = 0
        self._serve = _compiled(self.arrays)
        self._commits_any = False
        self._seen: _Seen | None = None
        self.rounds = Rounds(self)

    def take(self, data: bytes, connection: Outlet) -> bytes:
        """Answer the requests at the beginning of what has come; return what is left.

        Args:
            data: frames, the first one from its beginning on.
            connection: where answers go.
        """
        if not self.begin() or not self.may_pass(connection):
            return data
        at = 0
        for _ in range(_TRIES):
            at, why, detail, sent, filled, answers = self._serve(
                data, at, len(data), connection.outlet, 0, self.arrays
            )
            if answers:
                if sent < filled:
                    connection.write(bytes(self._bytes[sent:filled]))
                self.take_commits(answers)
            if why == p.DONE:
                return b""
            if why not in _MENDED or not self._mend(why, detail, data, at):
                break
        return data[at:]

    def may_pass(self, connection: Outlet) -> bool:
        """Tell whether lanes may answer a connection."""
        return self._may_pass is None or self._may_pass(connection)

    def begin(self) -> bool:
        """Take what has changed since the last call of a kernel; False where the log is away."""
        log, served = self._log, self._served
        presence = served.store.presence
        try:
            end = log.known_end
        except (LogChangedError, OSError):
            return False
        files = log.taken, presence.generation, presence.cuts
        seen = files, log.min_offset, end, served.groups.changes, self._resets()
        if seen != self._seen:
            self._renew(seen)
        return True

    def _resets(self) -> int:
        resets = self._served.resets
        return 0 if resets is None else resets.reset_count

    def _renew(self, seen: _Seen) -> None:
        before, self._seen = self._seen, seen
        if before is None or before[0] != seen[0]:
            self._open_log.close()
        if before is None or before[3:] != seen[3:]:
            self.forget()
        elif before[1] != seen[1]:
            # Queues begin elsewhere once files of the log have expired.
            self.forget()
            self._open_queues.close()
        state, limits = self._state, self._served.limits
        if limits.messages > p.MOST_RECORDS:
            raise RuntimeError(f"no place for {limits.messages} records of an answer")
        state[p.LOG_MIN], state[p.LOG_END] = seen[1:3]
        state[p.LOG_FILE_SIZE] = self._log.file_size
        state[p.MOST_MESSAGES], state[p.MOST_BYTES] = limits.messages, limits.bytes

    def forget(self) -> None:
        """Forget all lanes: what they were judged by has changed."""
        self._tell_pulled()
        self._known.clear()
        self._slots[:] = 0
        self._commits_any = False
        if self._open_queues.is_full:
            self._open_queues.close()

    def take_commits(self, answers: int) -> None:
        """Keep the offsets that answered pulls have committed."""
        if not self._commits_any:
            return
        for number, offset in self._commits[:answers].tolist():
            lane = self._known[number]
            if lane.commits:
                self._commit(lane.group, lane.topic, lane.queue_id, offset)

    def _mend(self, why: int, detail: int, data: bytes, at: int) -> bool:
        """Do what is needed for a request; tell whether lanes can try again."""
        if why == p.LOG_FILE:
            return self._open_log.open(detail)
        if why == p.REPEATED:
            return self._learn(data, at)
        if why == p.CLOSED:
            return self._attach(detail) is not None
        position = int(self._vectors[p.NUMBERS + p.OFFSET]) * ENTRY_SIZE
        queue = int(self._lanes[detail, p.QUEUE])
        size = int(self._queues[queue, p.QUEUE_FILE_SIZE])
        return self._open_queues.open(queue, position - position % size)

    def _attach(self, number: int) -> int | None:
        """Open a lane's queue; return its number, None where Python has to look at it."""
        lane = self._known[number]
        reader = learning.queue_of(lane, self._served)
        if reader is None or reader.max_offset <= 0:
            return None
        queue = self._open_queues.add((lane.topic, lane.queue_id), reader)
        self._lanes[number, p.QUEUE] = queue
        return queue

    def _learn(self, data: bytes, at: int) -> bool:
        """Make a lane of the request that begins at a byte; tell whether there is one now."""
        frame = data[at + 4 : at + 4 + int.from_bytes(data[at : at + 4], "big")]
        vectors, work = self._vectors, self._work
        length = outline(frame, 4, len(frame), work, vectors)
        text = work[:length].tobytes()
        numbers = vectors[p.NUMBERS : p.NUMBERS + p.NUMBER_COUNT].tolist()
        other = learning.other_frame(text, vectors[p.PLACES : p.PLACES + p.NUMBER_COUNT].tolist())
        lane = learning.lane_of(frame, numbers, self._served)
        if lane is None or not learning.says(frame, *other):
            return False
        if len(self._known) >= p.LANES or self._open_queues.is_full:
            self.forget()
        number = len(self._known)
        self._known.append(lane)
        if self._attach(number) is None:
            self._known.pop()
            return False
        self._enter(number, lane, text)
        return True

    def _enter(self, number: int, lane: Lane, text: bytes) -> None:
        """Let kernels find a lane."""
        row, codes = self._lanes[number], lane.codes
        row[p.OUTLINE], row[p.MAX_MESSAGES], row[p.KIND] = len(text), lane.max_messages, lane.kind
        row[p.NEXT] = -1
        row[p.CODES] = -1 if codes is None else len(codes)
        row[p.FIRST_CODE : p.FIRST_CODE + len(codes or ())] = codes or ()
        row[p.PARTS : p.PARTS + p.PART_COUNT] = list(map(len, lane.parts))
        parts = b"".join(lane.parts)
        texts = self._texts[number]
        texts[: len(text)] = np.frombuffer(text, np.uint8)
        texts[p.OUTLINE_ROOM : p.OUTLINE_ROOM + len(parts)] = np.frombuffer(parts, np.uint8)
        at = int(hash_of(self._work, len(text))) & (p.SLOTS - 1)
        while self._slots[at]:
            at = (at + 1) & (p.SLOTS - 1)
        self._slots[at] = number + 1
        self._commits_any = self._commits_any or lane.commits
        self.learned += 1

    def tick(self) -> None:
        """Tell of what was answered, and close files that are not needed; call it each second."""
        # Files that have expired: their space is free once nobody has them open.
        self.begin()
        self.rounds.tick()
        self._open_queues.tidy()
        self._tell_pulled()
        for kind, code in enumerate(learning.KINDS):
            tally = slice(p.TALLIES + p.TALLY * kind, p.TALLIES + p.TALLY * (kind + 1))
            answers, size, messages = self._state[tally].tolist()
            if answers:
                self._state[tally] = 0
                self._counters.answered(code, ResponseCode.SUCCESS, size, messages, answers)

    def _tell_pulled(self) -> None:
        if self._pulled is None:
            return
        following = self._lanes[: len(self._known), p.NEXT]
        for number in (following >= 0).nonzero()[0].tolist():
            lane = self._known[number]
            self._pulled(lane.group, lane.topic, lane.queue_id, int(following[number]))
        following[:] = -1

    def close(self) -> None:
        """Close the files."""
        self.rounds.close()
        try:
            self.tick()
            self.forget()
        finally:
            self._open_queues.close()
            self._open_log.close()
            self._outbox.close()
