"""Kafka beside dispatch: a thread a store that sends what is dispatched, at its own pace.

Dispatch tells how far it has come and goes on; it hears of Kafka only by an error that has lasted
too long, and by the room that is left where `max_lag` bounds how far it may be ahead.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from checkpoints.progress import STATE_DIRECTORY
from formats.errors import KafkaError
from sinks.kafka import Extent, KafkaSink
from sinks.kafka_client import AwayError

if TYPE_CHECKING:
    from sinks.kafka import Sent
    from streaming.config import StoreConfig

LOG = logging.getLogger("reput")
# What its client has to say of each attempt is said once, by us; whoever wants all of it has the
# logger "kafka".
logging.getLogger("kafka").addHandler(logging.NullHandler())
# Upper bounds of `KafkaState.seconds`, seconds.
SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_WAIT_SECONDS = 0.2
_BACK_OFF = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
# Of one run of trouble, so often a line in the log.
_SAY_SECONDS = 30.0
_JOIN_SECONDS = 30.0
_MEMORY = "kafka.json"


@dataclass(frozen=True)
class KafkaState:
    """Where a store's way to Kafka is; all counts since the process began.

    Attributes:
        end: physical offset that is committed, -1 while that is not known.
        wanted: physical offset that dispatch has come to.
        store_timestamp: of the last message sent, ms; 0 for none.
        messages: sent.
        notices: sent.
        dead_letters: of both, to the dead-letter topic.
        bytes: of records.
        retries: attempts that failed and were made again.
        transactions: committed.
        seconds: these by how long they took, see `SECONDS`; the last one is of those beyond.
        total_seconds: sum of that.
        in_flight: bytes that are sent and not acknowledged yet.
        is_connected: the last attempt went well.
        truncations: times that the log was cut below what had been sent.
    """

    end: int = -1
    wanted: int = 0
    store_timestamp: int = 0
    messages: int = 0
    notices: int = 0
    dead_letters: int = 0
    bytes: int = 0
    retries: int = 0
    transactions: int = 0
    seconds: tuple[int, ...] = field(default_factory=lambda: (0,) * (len(SECONDS) + 1))
    total_seconds: float = 0.0
    in_flight: int = 0
    is_connected: bool = False
    truncations: int = 0

    @property
    def lag(self) -> int:
        """Return the bytes of log that are dispatched and not committed to Kafka."""
        return max(self.wanted - self.end, 0) if self.end >= 0 else 0


class KafkaFeed:
    """One store's thread to Kafka, from construction to `close`."""

    def __init__(self, config: StoreConfig, extent: Extent, *, fail_on_data_loss: bool) -> None:
        """Begin.

        Args:
            config: the store's; it has Kafka settings.
            extent: how far dispatch is.
            fail_on_data_loss: stop where records expired before they were sent.

        Raises:
            UsageError: a secret that is not where it should be.
        """
        if config.kafka is None:
            raise ValueError("the store has no Kafka settings")
        self._settings = config.kafka
        self._name = config.name
        self._sink = KafkaSink(
            config.kafka,
            config.kafka_access(),
            config.name,
            config.path,
            config.settings,
            fail_on_data_loss=fail_on_data_loss,
            memory=config.output / STATE_DIRECTORY / _MEMORY,
        )
        self._extent = extent
        self._first_end = max(extent.end, 0)
        # The last one that was looked at, and of which there was no more to send.
        self._settled: Extent | None = None
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._state = KafkaState(wanted=extent.end)
        self._events: list[str] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"kafka-{config.name}", daemon=True)
        self._thread.start()

    def advance(self, extent: Extent) -> None:
        """Say how far dispatch has come, forward or back."""
        if extent != self._extent:
            self._extent = extent
            self._changed.set()

    def check(self) -> None:
        """Raise what has stopped the thread, if anything has.

        Raises:
            ReputError, OSError: see `KafkaSink.send`.
        """
        if self._failure is not None:
            raise self._failure

    def take_events(self) -> list[str]:
        """Return what an operator should know of since the last call."""
        with self._lock:
            events, self._events = self._events, []
        return events

    @property
    def state(self) -> KafkaState:
        """Return where it is."""
        extent, state = self._extent, self._state
        return replace(state, wanted=extent.end, in_flight=self._sink.in_flight)

    @property
    def is_done(self) -> bool:
        """Tell whether Kafka has all that is dispatched; where nothing is, it has."""
        extent = self._extent
        return extent.end < 0 or (self._settled == extent and extent.end <= self._state.end)

    def room(self, end: int) -> int:
        """Return how far dispatch may go: to `end`, or less where Kafka is too far behind."""
        state, most = self._state, self._settings.max_lag
        sent = state.end if state.end >= 0 else self._first_end
        return min(end, sent + most) if most else end

    def close(self) -> None:
        """End behind the transaction that is open, or without it if Kafka does not answer."""
        self._stopping.set()
        self._changed.set()
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._changed.clear()
                extent = self._extent
                # A new output does not know where it begins before its first batch.
                if extent.end >= 0 and self._send_with_retries(extent):
                    continue
                self._settled = extent
                self._changed.wait(_WAIT_SECONDS)
        except BaseException as error:  # noqa: BLE001 - raised where dispatch is
            self._failure = error
            self._state = replace(self._state, is_connected=False)
        finally:
            self._sink.close()
            self._sink.close_log()

    def _send_with_retries(self, extent: Extent) -> bool:
        """Send one transaction; tell whether there may be more to send at once.

        Raises:
            ReputError: Kafka was away for too long, or refuses.
        """
        began = said = time.monotonic()
        tries = 0
        while not self._stopping.is_set():
            try:
                sent = self._send(extent)
            except AwayError as error:
                self._sink.close()
                now = time.monotonic()
                bound = self._settings.retry_seconds
                if bound and now - began >= bound:
                    raise KafkaError(
                        f"{self._name}: {error}. Tried again for {now - began:.0f} s "
                        "(retry_seconds); nothing is lost, the next start goes on at physical "
                        f"offset {self._state.end}"
                    ) from error
                if not tries or now - said >= _SAY_SECONDS:
                    LOG.warning("%s: %s; trying again", self._name, error)
                    said = now
                self._state = replace(
                    self._state, retries=self._state.retries + 1, is_connected=False
                )
                self._stopping.wait(_BACK_OFF[min(tries, len(_BACK_OFF) - 1)])
                tries += 1
                # Dispatch has gone on meanwhile.
                extent = self._extent
                continue
            if tries:
                LOG.info("%s: Kafka is back after %.1f s", self._name, time.monotonic() - began)
            return sent
        return False

    def _send(self, extent: Extent) -> bool:
        sink = self._sink
        if not sink.is_open:
            sink.open(extent)
            position = sink.position
            if position is not None:
                self._state = replace(self._state, end=position.end, is_connected=True)
        sent = sink.send(extent)
        position = sink.position
        if position is not None:
            self._state = replace(self._state, end=position.end)
        if sent is None:
            return False
        self._account(sent)
        return sent.end < self._extent.end

    def _account(self, sent: Sent) -> None:
        known = self._state
        seconds = list(known.seconds)
        place = next((i for i, bound in enumerate(SECONDS) if sent.seconds <= bound), len(SECONDS))
        seconds[place] += 1
        self._state = replace(
            known,
            end=sent.end,
            store_timestamp=sent.store_timestamp or known.store_timestamp,
            messages=known.messages + sent.messages,
            notices=known.notices + sent.notices,
            dead_letters=known.dead_letters + sent.dead_letters,
            bytes=known.bytes + sent.bytes,
            transactions=known.transactions + 1,
            seconds=tuple(seconds),
            total_seconds=known.total_seconds + sent.seconds,
            is_connected=True,
            truncations=known.truncations + int(bool(sent.events)),
        )
        if sent.events:
            with self._lock:
                self._events += sent.events
