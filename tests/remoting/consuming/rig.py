"""Runs stock consumers at a served store, with members that join, leave and are killed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.remoting.consuming import checking, stored, taken
from tests.remoting.consuming.checking import Event, Expected, Shared
from tests.remoting.consuming.members import Asked, Member, StartError
from tests.remoting.server.served_process import ServedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

SHARED = ("clustering", "orderly", "lite-subscribe", "tags", "sql92")
ROUNDS = ("lite-assign", "pull")
WAYS = (*SHARED, "broadcasting", *ROUNDS)
# A queue that nobody takes is an error after this; a killed member's lock ends after 60 s.
STUCK_SECONDS = 150.0
_LOOK_SECONDS = 0.2
_STARTS = 5
# What comes twice at the end comes within this.
_LATE_SECONDS = 1.0

STEADY = ((0.0, "join", "m1"), (0.0, "join", "m2"), (0.0, "join", "m3"))
CHANGING = (
    (0.0, "join", "m1"),
    (0.05, "join", "m2"),
    (0.10, "join", "m3"),
    (0.20, "close", "m1"),
    (0.30, "join", "m4"),
    (0.40, "kill", "m2"),
    (0.50, "join", "m5"),
    (0.60, "close", "m3"),
    (0.68, "join", "m6"),
    (0.76, "kill", "m4"),
    (0.84, "join", "m7"),
)
"""When, by the part of the messages that came; what happens; to which member."""
ORDERLY = (*STEADY, (0.55, "close", "m1"), (0.65, "join", "m4"), (0.90, "kill", "m2"))
"""The client in Go does not give up locks of queues that go to another member: they end by themselves."""
RETURNING = (
    *STEADY,
    (0.30, "close", "m2"),
    (0.35, "join", "m2"),
    (0.60, "kill", "m3"),
    (0.65, "join", "m3"),
)

Plan = tuple[tuple[float, str, str], ...]


class Found(NamedTuple):
    """What a run has seen.

    Attributes:
        messages: that were to come, in all rounds or of all members.
        received: that came.
        shared: what was found; see `checking`.
        pauses: ms in which a queue had no owner, by kind of event.
        seconds: of the consumption.
    """

    messages: int
    received: int
    shared: Shared
    pauses: dict[str, list[int]]
    seconds: float


def now() -> int:
    """Return the clock of consumers, ms."""
    return time.time_ns() // 1_000_000


class Crew:
    """The members of one group, those that are gone included.

    Attributes:
        events: what happened to them.
        names: of all that ever were.
    """

    def __init__(self, asked: Asked, directory: Path, expected: Expected) -> None:
        directory.mkdir(exist_ok=True)
        self._asked, self._directory, self._expected = asked, directory, expected
        self._running: dict[str, Member] = {}
        self.names: list[str] = []
        self.events: list[Event] = []
        self.faults: list[str] = []
        self._parts: dict[str, list[NDArray]] = {}
        self._seen: dict[str, NDArray[np.bool_]] = {}
        self._lines: dict[str, int] = {}

    def do(self, kind: str, name: str) -> None:
        """Let a member join, close it, or kill it; return when that is over."""
        began = now()
        {"join": self._join, "close": self._close, "kill": self._kill}[kind](name)
        self.events.append(Event(began, kind, name, now()))

    def begin(self, names: Sequence[str]) -> None:
        """Let several join at once."""
        began = now()
        for name in names:
            self._start(name)
        for name in names:
            self._wait_started(name)
            self.events.append(Event(began, "join", name, now()))

    def _start(self, name: str) -> None:
        if name not in self.names:
            self.names.append(name)
            self._parts[name], self._lines[name] = [], 0
            self._seen[name] = np.zeros(len(self._expected.wanted), np.bool_)
        self._running[name] = Member(self._asked, name, self._directory)

    def _join(self, name: str) -> None:
        self._start(name)
        self._wait_started(name)

    def _wait_started(self, name: str) -> None:
        for _ in range(_STARTS):
            try:
                self._running[name].wait_started()
            except StartError:
                # A client in Java does not start if an answer takes 3 s, as on a busy machine.
                self._running[name].kill()
                self._start(name)
            else:
                return
        self.faults.append(f"{name} did not start {_STARTS} times")

    def _close(self, name: str) -> None:
        member = self._running.pop(name)
        member.order_close()
        if (code := member.wait_closed()) != 0:
            self.faults.append(f"{name} was closed, and its exit code is {code}")

    def _kill(self, name: str) -> None:
        self._running.pop(name).kill()

    def look(self) -> int:
        """Read what they have written since; return how many rows came."""
        count = 0
        for name in self.names:
            rows = taken.read(self._directory / f"{name}.taken", self._lines[name])
            if not len(rows):
                continue
            count += len(rows)
            self._lines[name] += len(rows)
            self._parts[name].append(rows)
            number = self._expected.numbers_of(rows)
            self._seen[name][number[number >= 0]] = True
        self.faults += [
            f"{name} has ended by itself"
            for name, each in self._running.items()
            if not each.is_alive
        ]
        return count

    @property
    def received(self) -> int:
        """Return how many rows there are."""
        return sum(self._lines.values())

    def seen(self) -> int:
        """Return how many of the wanted messages came to any member."""
        if not self._seen:
            return 0
        return int((np.logical_or.reduce(list(self._seen.values())) & self._expected.wanted).sum())

    def seen_alone(self) -> int:
        """Return how many came to each member, added up."""
        return sum(int(each.sum()) for each in self._seen.values())

    def taken(self) -> list[NDArray]:
        """Return the rows of each member."""
        empty = np.empty(0, taken.ROW)
        return [np.concatenate([empty, *self._parts[name]]) for name in self.names]

    def close(self) -> None:
        """Close all that run, in order and at once."""
        running = dict(self._running)
        for member in running.values():
            member.order_close()
        for name, member in running.items():
            del self._running[name]
            if (code := member.wait_closed()) != 0:
                self.faults.append(f"{name} was closed at the end, and its exit code is {code}")

    def end(self) -> None:
        """Kill all that run: the run is over."""
        for member in self._running.values():
            member.kill()
        self._running.clear()


def wait(
    crew: Crew, part: Callable[[], float], until: float, said: Callable[[str], None], seconds: float
) -> bool:
    """Return once this part of the messages came; False if nothing comes any longer.

    Args:
        crew: the consumers.
        part: returns which part has come, 0 to 1.
        until: the part that is awaited.
        said: gets a line now and then.
        seconds: without anything new, after which it is in vain.
    """
    last, told, best = time.monotonic(), time.monotonic(), -1.0
    while True:
        crew.look()
        reached = part()
        if reached >= until:
            return True
        moment = time.monotonic()
        if reached > best:
            last, best = moment, reached
        if crew.faults or moment - last > seconds:
            return False
        if moment - told > 10:
            told = moment
            said(f"{reached:.1%}")
        time.sleep(_LOOK_SECONDS)


def follow(crew: Crew, plan: Plan, part: Callable[[], float], said: Callable[[str], None]) -> None:
    """Do what a plan says until all messages came; what goes wrong is among the crew's faults."""
    first = [name for at, kind, name in plan if at == 0]
    crew.begin(first)
    for at, kind, name in (*plan[len(first) :], (1.0, "", "")):
        if not wait(crew, part, at, said, STUCK_SECONDS):
            crew.faults.append(f"nothing came for {STUCK_SECONDS:g} s, at {part():.3%}")
            return
        if kind and part() < 1:
            said(f"{part():.1%}: {kind} {name}")
            crew.do(kind, name)
    time.sleep(_LATE_SECONDS)
    crew.close()
    crew.look()


def serve(directory: Path) -> ServedProcess:
    """Start a server of the store in a directory."""
    server = ServedProcess(directory, "--broker-name", "reput", settings=stored.CONF)
    server.start()
    return server


def run(
    asked: Asked,
    count: int,
    directory: Path,
    plan: Plan | None = None,
    said: Callable[[str], None] = lambda _: None,
) -> Found:
    """Consume a store of this many messages in one way.

    Args:
        asked: client, way, group, rate.
        count: of messages.
        directory: for all files.
        plan: who joins and leaves when; None for the way's own.
        said: gets a line now and then.
    """  # fmt: skip
    written = stored.make(directory, count)
    expected = Expected(written, asked.way)
    server = serve(directory)
    asked = asked._replace(
        names=server.names,
        topic=stored.TOPIC,
        wanted=checking.WANTED.get(asked.way, "*"),
        time=stored.BEGAN + count // stored.A_MILLISECOND // 3,
        ends=tuple(written.ends().tolist()),
    )
    crew = Crew(asked, directory / "members", expected)
    began = time.monotonic()
    try:
        if asked.way in ROUNDS:
            return _run_rounds(asked, crew, expected, said)
        if asked.way == "broadcasting":
            plan = plan or RETURNING
            members = len({name for _, _, name in plan})
            total = expected.count * members
            follow(crew, plan, lambda: crew.seen_alone() / total, said)
            rows = checking.rows_of(expected, crew.taken())
            shared = checking.check_alone(expected, rows, crew.events, members)
            pauses = {}
        else:
            plan = plan or (ORDERLY if asked.way == "orderly" else CHANGING)
            total = expected.count
            follow(crew, plan, lambda: crew.seen() / total, said)
            rows = checking.rows_of(expected, crew.taken())
            shared = checking.check_shared(expected, rows, crew.events)
            pauses = checking.pauses(rows, crew.events, crew.names)
        seconds = time.monotonic() - began
        return _found(crew, expected, total, shared, pauses, seconds)
    finally:
        crew.end()
        server.end()


def _found(
    crew: Crew, expected: Expected, total: int, shared: Shared, pauses: dict, seconds: float
) -> Found:
    wrong = [
        fault
        for name, rows in zip(crew.names, crew.taken(), strict=True)
        for fault in expected.wrong(rows, name)
    ]
    faults = [*crew.faults, *wrong, *shared.faults]
    return Found(total, crew.received, shared._replace(faults=faults), pauses, seconds)


def _run_rounds(asked: Asked, crew: Crew, expected: Expected, said: Callable[[str], None]) -> Found:
    ends = expected.written.ends()
    starts = [[0] * len(ends), (ends // 2).tolist()]
    if asked.client != "go":
        starts.append(expected.written.first_since(asked.time))
    total = sum(int((ends - begins).sum()) for begins in starts)
    began = time.monotonic()
    follow(crew, ((0.0, "join", "m1"),), lambda: crew.received / total, said)
    seconds = time.monotonic() - began
    faults = checking.check_rounds(expected, crew.taken()[0], starts)
    return _found(crew, expected, total, Shared(faults, 0, 0), {}, seconds)
