"""Named points of the dispatch at which a history stops: the process is killed there, or stands still.

A kill happens in this very process: from the point on nothing changes a file, and what is
left of the dispatcher is thrown away. What was written through memory stays, as after `kill -9`.
"""

from __future__ import annotations

import contextlib
import random
import time
from concurrent.futures import Future
from functools import wraps
from typing import TYPE_CHECKING, Any

from reput.checkpoints.disk import locks
from reput.sinks.files import mapped_file
from reput.stores.log import broker_lock
from reput.streaming.dispatch.admission import Admission
from reput.streaming.dispatch.blocks import pipeline
from reput.streaming.dispatch.output import Output
from reput.streaming.source import rows
from tests.crash.kill_points import AFTER, OPERATIONS, WITHIN, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PARSED, WRITTEN = "parsed", "written"
NAMES = (PARSED, WRITTEN, *(operation.name for operation in OPERATIONS))
# What changes nothing that outlives the process.
_HARMLESS = {"changes.unmap", "changes.map_file"}
_BLOCK = 1 << 17
_ROWS = 512


class Killed(BaseException):
    """The process is gone."""


class _Inline:
    """An executor that does what it is given at once: no threads to start, and no chance in it."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit(self, call: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        """Call it; what it raises is raised where the result is asked for."""
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **options))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future

    def shutdown(self, **_: object) -> None:
        """End nothing."""


class Points:
    """Counts how often each point is passed, and acts at one of them.

    Attributes:
        is_dead: nothing may change a file from now on.
        passed: how often, by name, since the last `arm`.
        brokers: stores that a modelled broker runs on: its lock is held by nobody.
        clock: seconds that sleeps and the looks of the watchers have taken.
    """

    def __init__(self) -> None:
        self.is_dead = False
        self.passed: dict[str, int] = {}
        self.brokers: set[Path] = set()
        self.clock = 0.0
        self._armed: tuple[str, int, Callable[[], None], str] | None = None
        self._pick = random.Random(0)

    def arm(self, name: str, number: int, act: Callable[[], None], moment: str = "before") -> None:
        """Act the next time that a point is passed for the `number`th time."""
        self.passed = {}
        self._armed = (name, number, act, moment)

    def disarm(self) -> bool:
        """Do nothing any longer; tell whether it was still to be done."""
        was_armed, self._armed = self._armed is not None, None
        return was_armed

    def die(self) -> None:
        """End the process.

        Raises:
            Killed: always.
        """
        self.is_dead = True
        raise Killed

    def reach(self, name: str, part: Callable[[], None] | None = None) -> Callable[[], None] | None:
        """Pass a point; return what is to be done after it."""
        if self.is_dead:
            raise Killed
        self.passed[name] = self.passed.get(name, 0) + 1
        if self._armed is None or self._armed[:2] != (name, self.passed[name]):
            return None
        _, _, act, moment = self._armed
        self._armed = None
        if moment == AFTER:
            return act
        if moment == WITHIN and part is not None:
            part()
        act()
        return None

    @contextlib.contextmanager
    def installed(self) -> Iterator[Points]:
        """Stand between the code and the files, and take its time, for a while."""
        with contextlib.ExitStack() as undo:

            def replace(owner: Any, name: str, by: Any) -> None:
                undo.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, by)

            for operation in OPERATIONS:
                replace(operation.owner, operation.attribute, self._wrapped(operation))
            replace(Admission, "admit", self._before(PARSED, Admission.admit))
            replace(Output, "write", self._after(WRITTEN, Output.write))
            held = broker_lock.is_held

            def is_held(path: Path) -> bool:
                return path.parent in self.brokers or held(path)

            for owner in (broker_lock, locks):
                replace(owner, "is_held", is_held)
            # Looks that are a second apart, and waits, take no time here.
            monotonic, time_ns = time.monotonic, time.time_ns
            replace(time, "monotonic", lambda: monotonic() + self.clock)
            replace(time, "time_ns", lambda: time_ns() + int(self.clock * 1e9))
            replace(time, "sleep", self._sleep)
            # Blocks as large as these logs, and one thread: thousands of dispatchers are opened.
            defaults = pipeline.Pipeline.__init__.__defaults__
            replace(pipeline.Pipeline.__init__, "__defaults__", (*defaults[:-1], _BLOCK))
            replace(pipeline, "ThreadPoolExecutor", _Inline)
            # A pause in a thread that works ahead would hold back that thread alone, and its steps
            # would run beside those of the history.
            replace(mapped_file, "_helpers", _Inline)
            # Room for fewer rows: it is made for each read of a stream.
            replace(rows, "ROWS", _ROWS)
            replace(rows, "_PROPERTIES", 16 * _ROWS)
            yield self

    def _sleep(self, seconds: float) -> None:
        self.clock += seconds

    def _wrapped(self, operation: Operation) -> Callable[..., Any]:
        inner, name = getattr(operation.owner, operation.attribute), operation.name

        @wraps(inner)
        def wrapped(*args: Any, **options: Any) -> Any:
            if self.is_dead and name in _HARMLESS:
                return inner(*args, **options)
            part = None
            if operation.part is not None:
                part = lambda: operation.part(self._pick, *args, **options)  # noqa: E731
            after = self.reach(name, part)
            result = inner(*args, **options)
            if after is not None:
                after()
            return result

        return wrapped

    def _before(self, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(inner)
        def before(*args: Any, **options: Any) -> Any:
            after = self.reach(name)
            result = inner(*args, **options)
            if after is not None:
                after()
            return result

        return before

    def _after(self, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(inner)
        def then(*args: Any, **options: Any) -> Any:
            result = inner(*args, **options)
            after = self.reach(name)
            if after is not None:
                after()
            return result

        return then


POINTS = Points()
"""The one of this process: functions are wrapped once for all histories."""
