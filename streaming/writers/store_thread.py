"""Keeps one store's output in step with its log, on a thread of its own.

Stores do not share a fate: the others do not wait for one that hangs or fails. A store
that failed is closed, and opened again after a while: a disk gets room, a log comes back.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import ReputError, about
from reput.streaming.dispatch.batch import joined
from reput.streaming.dispatch.resuming.first_message import is_awaited
from reput.streaming.writers.backoff import Backoff
from reput.streaming.writers.base import Result
from reput.streaming.writers.counted import Counted
from reput.streaming.writers.follower import Follower
from reput.streaming.writers.opening import events_of
from reput.streaming.writers.state import State

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.kafka.state import KafkaState
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.options import WriterOptions
    from reput.streaming.writers.sentry import Sentry
    from reput.streaming.writers.turnstile import Turnstile

LOG = logging.getLogger("reput")
# What is told is put together for this long: a job has many turns a second.
_TOLD_SECONDS = 0.1
_STATE_SECONDS = 0.5
_LOOK_SECONDS = 0.1


class Shared(NamedTuple):
    """What the stores of a process have in common.

    Attributes:
        sentry: looks after logs at rest.
        turnstile: lets one store at a time take its turn.
    """

    sentry: Sentry
    turnstile: Turnstile


class StoreThread:
    """One store's writer.

    Attributes:
        dispatcher: of its output; None while it is not open.
        state: where the output stood when it was last told.
        failure: what the store waits after; None while it is dispatched.
        seen_at: when it was last seen to work, by a steady clock: it looked, or wrote a block.
        kafka: how far its messages were sent when the output was closed.
        unclosed: what kept the output from being closed in order.
    """

    def __init__(
        self,
        config: StoreConfig,
        options: WriterOptions,
        observe: Callable[[str, Block], None],
        most_bytes: int | None,
        shared: Shared,
    ) -> None:
        """Open nothing yet.

        Args:
            config: the store.
            options: how it is written.
            observe: gets each block that was written.
            most_bytes: of log that a turn takes, None for the usual.
            shared: with the other stores of the process.
        """
        self._most_bytes = most_bytes
        self._shared, self._post = shared, shared.sentry.post()
        self.dispatcher: StoreDispatcher | None = None
        self.state: State | None = None
        self.failure: BaseException | None = None
        self.seen_at = time.monotonic()
        self.kafka: KafkaState | None = None
        self.unclosed: BaseException | None = None
        self._config = config
        self._options = options
        self._observe = observe
        self._thread: threading.Thread | None = None
        self._over, self._opened = threading.Event(), threading.Event()
        self._may_follow = threading.Event()
        self._looks_for_flaw = False
        self._counted = Counted()
        self._sent: KafkaState | None = None
        self._backoff = Backoff()
        # Not told yet; the lock is held to add to it and to take it.
        self._told = threading.Lock()
        self._batches: list[Batch] = []
        self._events: list[str] = []
        self._failures: list[BaseException] = []

    @property
    def output(self) -> Path:
        """Return the output's directory."""
        return self._config.output

    @property
    def is_in_doubt(self) -> bool:
        """Tell whether the store could not be looked at, so that its output may not open soon."""
        return self._config.check is not None

    def start(self) -> None:
        """Open the output on the store's thread, which then waits for `follow`."""
        name = f"follow-{self._config.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wait_until_open(self, seconds: float) -> bool:
        """Wait until the output is open, or that has failed; False where it is neither by then."""
        return self._opened.wait(max(seconds, 0.0))

    def told(self) -> None:
        """Take note that the job says by itself what the opening was like."""
        with self._told:
            self._events = []

    def follow(self) -> None:
        """Follow the log from now on."""
        self._may_follow.set()

    def end(self, *, looks_for_flaw: bool = False) -> None:
        """Let the thread end after its block, and close the output; returns at once.

        Args:
            looks_for_flaw: look past the log's end before that for what the store has waited at.
        """
        self._looks_for_flaw = self._looks_for_flaw or looks_for_flaw
        self._over.set()
        self._may_follow.set()
        self._post.woken.set()

    def join(self, seconds: float) -> bool:
        """Wait for the thread; False if it has not ended by then."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def take(self) -> Result:
        """Return what is new since the last call."""
        with self._told:
            batches, self._batches = self._batches, []
            events, self._events = self._events, []
            failures, self._failures = self._failures, []
        error = failures[0] if failures else None
        return Result(self._config.name, joined(batches), error, events)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._open()
                self._opened.set()
                while not self._may_follow.wait(_LOOK_SECONDS):
                    self.seen_at = time.monotonic()
                self._follow()
            except BaseException as error:
                self._fail(error)
                self._shut()
                self._opened.set()
                if not isinstance(error, ReputError | OSError):
                    name = self._config.name
                    LOG.exception("%s: unexpected error; it is tried again", name, exc_info=error)
            self._wait()
        self._close()

    def _open(self) -> None:
        """Open the output.

        Raises:
            ReputError: a store or an output that cannot be used.
            OSError: no permission, no space.
        """
        with about(self._config.name):
            if not self._is_there():
                return
            if self._config.check is not None:
                self._config.check()
                self._config = replace(self._config, check=None)
            dispatcher = self._options.open(self._config)
        self.state, self.dispatcher = State.of(dispatcher, self._sent), dispatcher
        self._backoff.begin(dispatcher.recorded_end)
        with self._told:
            self._events += events_of(dispatcher)

    def _is_there(self) -> bool:
        """Wait until the store has a first message, as its broker makes the log with that.

        Returns:
            Whether it has one; False where the job ends before.

        Raises:
            ReputError, OSError: it is not a store.
        """
        if is_awaited(self._config):
            LOG.info("%s: waiting for the first message", self._config.name)
            # The others need not wait for this one; if it was missing, it is there now.
            self._opened.set()
            self.failure = None
        while is_awaited(self._config):
            self.seen_at = time.monotonic()
            if self._over.wait(_LOOK_SECONDS):
                return False
        return True

    def _follow(self) -> None:
        """Dispatch what is new until the job ends.

        Raises:
            ReputError, OSError: what the store has failed with.
        """
        dispatcher = self.dispatcher
        if dispatcher is None or self._over.is_set():
            return
        uncounted = self._counted.begin(dispatcher)
        with self._told:
            self._batches += uncounted
        follower = Follower(
            dispatcher,
            skips_corrupt=self._options.skips_corrupt,
            most_bytes=self._most_bytes,
            counted=self._counted,
            turnstile=self._shared.turnstile,
        )
        state_at = 0.0
        while not self._over.is_set():
            batches: list[Batch] = []
            try:
                follower.turn(batches, self._seen, self._over.is_set)
            finally:
                with self._told:
                    self._batches += batches
            now = self.seen_at = time.monotonic()
            if batches:
                state_at = min(state_at, now + _TOLD_SECONDS)
            if now >= state_at:
                self.state, state_at = State.of(dispatcher, self._sent), now + _STATE_SECONDS
                if self.failure is not None and self._backoff.is_well(dispatcher):
                    self.failure = None
            if (rest := follower.rest()) > 0:
                self._shared.sentry.rest(self._post, follower.tail, rest)
            else:
                time.sleep(follower.pause())
        self.state = State.of(dispatcher, self._sent)

    def _seen(self, block: Block) -> None:
        self.seen_at = time.monotonic()
        self._observe(self._config.name, block)

    def _fail(self, error: BaseException) -> None:
        ended: list[Batch] = []
        if self.dispatcher is not None:
            ended = self._counted.take(self.dispatcher.take_ended(), self.dispatcher.progress)
        with self._told:
            self._failures.append(error)
            self._batches += ended
        self.failure = error

    def _shut(self) -> None:
        """Close an output that has failed; an error of closing comes from the one told before."""
        dispatcher, self.dispatcher = self.dispatcher, None
        if dispatcher is None:
            return
        # It is left as that of a killed writer, and rolled back when it is opened again.
        with contextlib.suppress(Exception):
            dispatcher.close()
        with contextlib.suppress(OSError):
            self.state = State.of(dispatcher, self._sent)
        if dispatcher.kafka is not None:
            self._sent = dispatcher.kafka.state.since(self._sent)

    def _close(self) -> None:
        """Close the output in order, on this thread: its disk may hang."""
        dispatcher = self.dispatcher
        if dispatcher is None:
            return
        name = self._config.name
        try:
            if self._looks_for_flaw:
                about(name)(dispatcher.look_for_flaw)()
        except BaseException as error:  # noqa: BLE001 - told to the job, and the output is closed
            with self._told:
                self._failures.append(error)
        try:
            about(name)(dispatcher.close)()
            if self._backoff.has_ended_well(dispatcher):
                self.failure = None
        except BaseException as error:  # noqa: BLE001 - raised by the job
            self.unclosed = error
        self.state, self.dispatcher = State.of(dispatcher, self._sent), None
        self.kafka = self.state.kafka

    def _wait(self) -> None:
        """Wait until it is time to try again, or the job ends."""
        until = time.monotonic() + self._backoff.next()
        while time.monotonic() < until and not self._over.wait(_LOOK_SECONDS):
            self.seen_at = time.monotonic()
