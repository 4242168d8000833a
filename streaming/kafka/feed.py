"""Kafka beside dispatch: a thread a store that sends what is dispatched, at its own pace.

Dispatch tells how far it has come and continues. The log is the buffer: the thread reads it from
the last committed position, however long Kafka was away. What Kafka does not take holds back this
thread only; `on_failure = "stop"` lets dispatch hear of it, and `max_lag` bounds how far dispatch
may be ahead.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reput.checkpoints.progress import STATE_DIRECTORY
from reput.formats.errors import KafkaError, ReputError, StoreError, UsageError
from reput.sinks.kafka.client.errors import AccessError, AwayError, TopicError
from reput.sinks.kafka.client.settings import LATEST, STOP
from reput.sinks.kafka.sink import KafkaSink
from reput.streaming.kafka.outage import Outage
from reput.streaming.kafka.position_file import MEMORY, PositionFile
from reput.streaming.kafka.state import KafkaState

if TYPE_CHECKING:
    from reput.sinks.kafka.extent import Extent
    from reput.sinks.kafka.sent import Sent
    from reput.streaming.settings.config import StoreConfig

LOG = logging.getLogger("reput")
# Its client logs each attempt; we say that once. The logger "kafka" still has all of it.
logging.getLogger("kafka").addHandler(logging.NullHandler())
_WAIT_SECONDS = 0.2
# If Kafka has all that is dispatched: dispatch wakes the thread for more, and for cuts.
_REST_SECONDS = 5.0
# What may pass by itself, or once an operator has mended it; a disk of the store, for example.
_TRIED_AGAIN = (AwayError, AccessError, TopicError, StoreError, OSError)
# For committing what is open. What is not committed by then, the next start sends again.
_END_SECONDS = 5.0


class KafkaFeed:
    """One store's thread to Kafka, from construction to `close`."""

    def __init__(self, config: StoreConfig, extent: Extent, *, fail_on_data_loss: bool) -> None:
        """Begin to send.

        Args:
            config: the store's; it has Kafka settings.
            extent: how far dispatch is.
            fail_on_data_loss: stop where records expired before they were sent.

        Raises:
            UsageError: a secret that is not where it should be.
        """
        if config.kafka is None:
            raise ValueError("the store has no Kafka settings")
        self._config, self._settings, self._name = config, config.kafka, config.name
        path = config.output / STATE_DIRECTORY / MEMORY
        self._sink = KafkaSink(
            config.kafka,
            config.kafka_access(),
            config.name,
            config.path,
            config.settings,
            fail_on_data_loss=fail_on_data_loss,
            memory=path,
        )
        self._place = PositionFile(self._sink, path, config.name)
        self._outage = Outage(config.name)
        self._extent = extent
        self._first_end = max(extent.end, 0)
        # The last one that was looked at, and of which there was no more to send.
        self._settled: Extent | None = None
        self._changed, self._stopping = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        # What ends the thread.
        self._failure: BaseException | None = None
        self._events: list[str] = []
        self._end_by = 0.0
        self._state = self._begin(extent)
        self._thread = threading.Thread(target=self._run, name=f"kafka-{config.name}", daemon=True)
        self._thread.start()

    def _begin(self, extent: Extent) -> KafkaState:
        """Return where sending begins; what is wrong with the file of that ends the thread."""
        known = None
        try:
            known = self._place.read()
            if self._settings.start == LATEST:
                self._place.decide(extent)
        except KafkaError as error:
            self._failure = error
        is_mine = known is not None and known.transactional_id == self._sink.transactional_id
        is_there = known is not None and known.bootstrap in {"", self._settings.bootstrap}
        if known is None or not (is_mine and is_there):
            return KafkaState(wanted=extent.end)
        return KafkaState(
            end=known.end,
            wanted=extent.end,
            store_timestamp=known.store_timestamp,
            # Dispatch may have found another cut since, and found it as it was opened just now.
            cut=known.sent.cut if known.sent is not None else 0,
        )

    def advance(self, extent: Extent) -> None:
        """Take note of how far dispatch has come, forward or back."""
        if extent != self._extent:
            self._extent = extent
            self._changed.set()

    def check(self) -> None:
        """Raise what ends the job: an error of this program, or what the operator wants that for.

        Raises:
            ReputError, OSError: see `KafkaSink.send`.
        """
        failure = self._failure
        if failure is not None and not isinstance(failure, ReputError | OSError):
            raise failure
        if self._settings.on_failure == STOP:
            self.check_end()

    def check_end(self) -> None:
        """Raise what keeps Kafka from having everything, if the job is to end.

        Raises:
            ReputError, OSError: what has stopped the thread, or an outage that has lasted too long.
        """
        if self._failure is not None:
            raise self._failure
        error = self._outage.error
        if error is None:
            return
        if not isinstance(error, AwayError):
            raise error
        bound, seconds = self._settings.retry_seconds, self._outage.seconds
        one_try = self._settings.request_seconds
        if bound and seconds >= bound:
            raise KafkaError(
                f"{self._name}: {error}. Tried again for {seconds:.0f} s (retry_seconds is "
                f"{bound:g}; one try may take request_seconds, {one_try:g}); "
                f"nothing is lost, {self._where_next()}"
            ) from error

    @property
    def is_about_to_fail(self) -> bool:
        """Tell whether the store fails for Kafka, unless that takes what is dispatched in time."""
        is_sent = self._state.is_connected or self._extent.end < 0
        return self._settings.on_failure == STOP and not is_sent

    def _where_next(self) -> str:
        end = self._state.end
        if end < 0 or self.state.lag is None:
            return "the next start resumes at the position that Kafka has"
        return f"the next start resumes at physical offset {end}"

    def lacks(self) -> KafkaError | None:
        """Return what to say of a job that ends now, None if Kafka has all that is dispatched."""
        if self.is_done:
            return None
        return KafkaError(
            f"{self._name}: consume queues and index are written, and Kafka does not have all of "
            f"it: {self._where_next()}"
        )

    def take_events(self) -> list[str]:
        """Return what an operator should know of since the last call."""
        with self._lock:
            events, self._events = self._events, []
        return events

    @property
    def state(self) -> KafkaState:
        """Return where it is."""
        extent, state = self._extent, self._state
        return replace(
            state,
            wanted=extent.end,
            wanted_cut=extent.last_cut,
            in_flight=self._sink.in_flight,
        )

    @property
    def is_done(self) -> bool:
        """Tell whether Kafka has all that is dispatched, or nothing is."""
        extent = self._extent
        state = self._state
        is_there = state.is_confirmed and extent.end <= state.end
        return extent.end < 0 or (self._settled == extent and is_there)

    def room(self, end: int) -> int:
        """Return how far dispatch may go: to `end`, or less if Kafka is too far behind."""
        state, most = self._state, self._settings.max_lag
        sent = state.end if state.end >= 0 else self._first_end
        return min(end, sent + most) if most else end

    def end(self) -> None:
        """Ask the thread to end, and return at once."""
        if not self._stopping.is_set():
            self._end_by = time.monotonic() + _END_SECONDS
        self._stopping.set()
        self._changed.set()

    def close(self) -> None:
        """End after the transaction that is open, or without it if Kafka does not answer soon.

        Kafka aborts what is left open, at the next start's first request or by its age.
        """
        self.end()
        self._thread.join(max(self._end_by - time.monotonic(), 0.0))
        if self._thread.is_alive():
            # The output may be another process's by the time that the thread ends.
            self._place.give_up()
            LOG.warning(
                "%s: Kafka has not answered for %.0f s; ending without its answer; %s",
                self._name, _END_SECONDS, self._where_next(),
            )  # fmt: skip

    def _run(self) -> None:
        try:
            if self._failure is not None:
                raise self._failure
            while not self._stopping.is_set():
                self._changed.clear()
                extent = self._extent
                # A new output does not know where it begins before its first batch.
                if extent.end >= 0 and self._send_with_retries(extent):
                    continue
                if self._stopping.is_set():
                    # Attempts may have ended for that, and not for having nothing more to send.
                    break
                if self._place.is_unwritten:
                    self._place.write_if_due()
                self._settled = extent
                has_all = self._state.is_confirmed and extent.end <= self._state.end
                self._changed.wait(_REST_SECONDS if has_all else _WAIT_SECONDS)
            self._place.write()
        except BaseException as error:  # noqa: BLE001 - said by `check` or by the state
            self._stop(error)
        finally:
            self._sink.close()
            self._sink.close_log()

    def _stop(self, error: BaseException) -> None:
        """Note what has ended the thread; the rest of the job continues unless told not to."""
        what = str(error) if isinstance(error, ReputError) else f"{type(error).__name__}: {error}"
        self._failure = error
        self._state = replace(
            self._state,
            is_connected=False,
            stopped=what,
            trouble=what,
            truncations=self._state.truncations + self._sink.take_losses(),
        )

    def _send_with_retries(self, extent: Extent) -> bool:
        """Send one transaction; tell whether there may be more to send at once.

        Raises:
            ReputError: what another try does not mend.
        """
        if self._state.is_connected is None:
            # An attempt that hangs has not gone well either.
            self._state = replace(self._state, is_connected=False)
        while not self._stopping.is_set():
            self._outage.attempt()
            try:
                sent = self._send(extent)
            except _TRIED_AGAIN as error:
                self._sink.close()
                self._stopping.wait(self._failed(error))
                # Dispatch has continued meanwhile.
                extent = self._extent
                continue
            self._outage.end()
            if self._state.trouble:
                self._state = replace(self._state, trouble="")
            return sent
        return False

    def _failed(self, error: Exception) -> float:
        """Take note of an attempt that failed; return the seconds until the next one."""
        pause = self._outage.failed(error)
        self._state = replace(
            self._state, retries=self._state.retries + 1, is_connected=False, trouble=str(error)
        )
        if self._place.is_unwritten:
            self._place.write_if_due()
        return pause

    def _send(self, extent: Extent) -> bool:
        sink = self._sink
        if not sink.is_open:
            sink.give_access(self._access())
            sink.open(extent)
            self._take_position()
        sent = sink.send(extent)
        self._take_position()
        if not self._state.is_connected:
            # Not before: Kafka answers, and refuses each attempt to send, where a topic is missing.
            self._state = replace(self._state, is_connected=True)
        if sent is None:
            return False
        self._account(sent)
        self._place.write_if_due()
        return sent.end < self._extent.end

    def _access(self) -> dict[str, Any]:
        """Return what Kafka's client needs to get in; a secret that was changed is read again.

        Raises:
            AccessError: a secret is not where it should be, by now.
        """
        try:
            return self._config.kafka_access()
        except UsageError as error:
            raise AccessError(str(error)) from error

    def _take_position(self) -> None:
        """Take over how far Kafka has it."""
        position = self._sink.position
        if position is not None:
            stored = position.store_timestamp or self._state.store_timestamp
            self._state = replace(
                self._state,
                end=position.end,
                store_timestamp=stored,
                is_confirmed=True,
                cut=position.cut,
            )

    def _account(self, sent: Sent) -> None:
        self._state = self._state.after(sent, self._sink.take_losses())
        if sent.events:
            with self._lock:
                self._events += sent.events
