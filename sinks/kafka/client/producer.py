"""A producer of whole batches: kafka-python's, handed batches that are encoded already.

kafka-python's `send` makes each record in Python, which is most of what it costs. Here a batch
comes as encoded records (`formats.kafka.records`) and goes into kafka-python's accumulator as it
is; sequence numbers, checksums, requests, retries and transactions stay kafka-python's own. That
touches some of its inner parts, all of them in this folder; `sinks.kafka.client.versions` names the
versions that this was tested with.

kafka-python commits a transaction of which a batch could not be delivered in time. So this looks at
each batch before a commit, and commits nothing that has not arrived.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer, errors

from reput.formats.errors import KafkaError, ReputError
from reput.sinks.kafka.client.batch import Batch, batch_of
from reput.sinks.kafka.client.errors import (
    ACCESS_ERRORS,
    FENCED_ERRORS,
    RECORD_ERRORS,
    SETTINGS_ERRORS,
    TOPIC_ERRORS,
    AccessError,
    AwayError,
    EndedError,
    RefusedError,
    describe,
)
from reput.sinks.kafka.client.options import MILLISECONDS, producer_options
from reput.sinks.kafka.client.reasons import Reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.sinks.kafka.client.partition import Partition
    from reput.sinks.kafka.client.settings import KafkaSettings

_JOIN_SECONDS = 5.0
# To abort what is open when there is no time, or Kafka does not answer.
_ABORT_SECONDS = 3.0


class Client:
    """One producer, from `open` to `close`; after an error only `close` makes sense.

    Attributes:
        in_flight: bytes that are sent and not acknowledged yet, as last looked at.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        access: Mapping[str, Any],
        transactional_id: str | None,
        look: Callable[[], None] | None = None,
    ) -> None:
        """Connect and, with a transactional id, end what its last holder left undone.

        Args:
            settings: the operator's.
            access: kafka-python's settings of security.
            transactional_id: None for a producer that is idempotent only.
            look: called when Kafka has answered, and before its last holder is fenced; if it
                raises, this ends.

        Raises:
            KafkaError: Kafka does not answer, or does not let us in.
        """
        self._settings = settings
        self._unsettled: list[Batch] = []
        self._began = time.monotonic()
        self._is_begun = False
        self.in_flight = 0
        self._producer = self._connected(access, transactional_id)
        self._is_transactional = transactional_id is not None
        self._codec: int = self._producer.config["compression_attrs"]
        try:
            if look is not None:
                look()
            if self._is_transactional:
                # Left to itself a fenced producer would ask for a new epoch, and fence its heir.
                self._manager._supports_epoch_bump = lambda: False  # noqa: SLF001
                with self._explained():
                    self._producer.init_transactions()
        except BaseException:
            self.close()
            raise

    def _connected(self, access: Mapping[str, Any], transactional_id: str | None) -> Any:
        """Return kafka-python's producer, once Kafka has answered.

        Raises:
            KafkaError: what is in the way.
        """
        with Reasons() as reasons, self._explained(reasons):
            options = producer_options(self._settings, transactional_id)
            # None of these is the operator's to change, but for how it connects.
            try:
                return KafkaProducer(**{**options, "kafka_client": reasons.make, **access})
            except SETTINGS_ERRORS as error:
                # Another try changes nothing.
                raise KafkaError(
                    f"kafka-python does not take the settings of [kafka]: {describe(error)}"
                ) from error

    @property
    def _manager(self) -> Any:
        return self._producer._transaction_manager  # noqa: SLF001

    @contextlib.contextmanager
    def _explained(self, reasons: Reasons | None = None) -> Any:
        """Raise our errors in place of kafka-python's."""
        try:
            yield
        except ReputError:
            raise
        except (errors.KafkaError, OSError, ValueError, RuntimeError, AssertionError) as error:
            reason = reasons.last if reasons is not None else None
            raise self._explain(reason or error) from error

    def _explain(self, error: BaseException) -> KafkaError:
        producer = getattr(self, "_producer", None)
        manager = producer._transaction_manager if producer is not None else None  # noqa: SLF001
        # A call often says only that an earlier one has failed.
        cause = (manager.last_error if manager is not None else None) or error
        where = self._settings.bootstrap
        if isinstance(cause, FENCED_ERRORS):
            open_seconds = time.monotonic() - self._began
            return EndedError(
                f"Kafka at {where} has ended a transaction that was open for {open_seconds:.0f} s: "
                "for its age, or as another process has begun to write with this store's "
                "transactional id"
            )
        if isinstance(cause, ACCESS_ERRORS):
            return AccessError(
                f"Kafka at {where} does not let us in: {describe(cause)}. Look at username, "
                "password and mechanism, and at the ACLs (docs/kafka.md)"
            )
        if isinstance(cause, errors.TopicAuthorizationFailedError):
            names = cause.args[0] if cause.args else ()
            topics = frozenset((names,) if isinstance(names, str) else names)
            return RefusedError(cause, topics=topics)
        if isinstance(cause, (*RECORD_ERRORS, *TOPIC_ERRORS)):
            return RefusedError(cause)
        return AwayError(f"Kafka at {where}: {describe(cause)}")

    @property
    def cluster(self) -> str:
        """Return the name by which Kafka tells itself from others."""
        return str(self._producer._metadata.cluster_id)  # noqa: SLF001

    def partitions(self, topic: str, patience: float) -> int:
        """Return how many partitions a topic has.

        Args:
            topic: its name.
            patience: seconds; a topic that is being made may be there then.

        Raises:
            RefusedError: the topic does not exist, or we may not use it.
            AwayError: Kafka does not answer.
        """
        metadata = self._producer._metadata  # noqa: SLF001
        began = time.monotonic() * MILLISECONDS
        try:
            found = self._producer._wait_on_metadata(topic, patience * MILLISECONDS)  # noqa: SLF001
        except errors.KafkaTimeoutError as error:
            # A topic that Kafka does not name in its answer is not there.
            if metadata._last_successful_refresh_ms < began:  # noqa: SLF001
                raise self._explain(error) from error
            missing = errors.UnknownTopicOrPartitionError("there is no such topic")
            raise RefusedError(missing, topics=frozenset({topic})) from error
        except TOPIC_ERRORS as error:
            raise RefusedError(error, topics=frozenset({topic})) from error
        except (errors.KafkaError, ValueError) as error:
            raise self._explain(error) from error
        return len(found)

    def begin(self) -> None:
        """Begin a transaction; without a transactional id, a new count of batches.

        Raises:
            KafkaError: an earlier error.
        """
        self._began = time.monotonic()
        self._unsettled = []
        self.in_flight = 0
        if self._is_transactional:
            with self._explained():
                self._producer.begin_transaction()
            self._is_begun = True

    def add(
        self,
        partition: Partition,
        records: memoryview,
        count: int,
        first_timestamp: int,
        max_timestamp: int,
        note: object = None,
    ) -> None:
        """Send a batch; waits while too much is on its way. Arguments as of `batch_of`.

        Raises:
            KafkaError: something of this transaction has failed.
        """
        batch = batch_of(
            partition, records, count, first_timestamp, max_timestamp, self._codec, note
        )
        target = batch.topic_partition
        try:
            with self._explained():
                # A client that replaced another one does not know the topic yet.
                self._producer._sender.add_topic(partition.topic)  # noqa: SLF001
                if self._is_transactional:
                    self._manager.maybe_add_partition_to_transaction(target)
                accumulator = self._producer._accumulator  # noqa: SLF001
                with accumulator._tp_lock(target):  # noqa: SLF001
                    accumulator._batches[target].append(batch)  # noqa: SLF001
                    accumulator._incomplete.add(batch)  # noqa: SLF001
                self._producer._sender.wakeup()  # noqa: SLF001
        except RefusedError as error:
            # Not this batch is refused but an earlier one, which shows only now.
            self._raise_failure(error.cause)
        self._unsettled.append(batch)
        self.in_flight += batch.size
        if self.in_flight > self._settings.buffer_bytes:
            self._settle(self._settings.buffer_bytes)

    def _settle(self, most: int) -> None:
        """Wait until no more than `most` bytes are on their way.

        Raises:
            KafkaError: one has not arrived.
        """
        # Longer than kafka-python's own bound, so that its reason comes first.
        end = time.monotonic() + 3 * self._settings.request_seconds
        while True:
            left = []
            for batch in self._unsettled:
                if not batch.is_done:
                    left.append(batch)
                elif (failure := batch.failure) is not None:
                    self._raise_failure(failure)
                else:
                    self.in_flight -= batch.size
            self._unsettled = left
            if not left or self.in_flight <= most:
                return
            if time.monotonic() > end:
                raise AwayError(
                    f"Kafka at {self._settings.bootstrap} has not acknowledged "
                    f"{self.in_flight} bytes in {3 * self._settings.request_seconds:.0f} s"
                )
            left[0].produce_future.wait(0.5)

    def _raise_failure(self, failure: BaseException) -> None:
        """Raise why a transaction failed, of which one batch has.

        Batches that only failed with another one are not the reason, if that one can be found.
        """
        self._wait_for_reasons()
        for each in self._unsettled:
            reason = each.failure
            if isinstance(reason, RECORD_ERRORS):
                raise RefusedError(reason, batch=each) from reason
            if isinstance(reason, TOPIC_ERRORS):
                topics = frozenset({each.topic_partition.topic})
                raise RefusedError(reason, topics=topics, batch=each) from reason
        raise self._explain(failure) from failure

    def _wait_for_reasons(self) -> None:
        """Wait for the other batches to fail as well."""
        end = time.monotonic() + 1.0
        while any(not batch.is_done for batch in self._unsettled) and time.monotonic() < end:
            time.sleep(0.01)

    def flush(self) -> None:
        """Wait until everything has arrived.

        Raises:
            KafkaError: something has not.
        """
        self._settle(-1)

    def commit(self) -> None:
        """End a transaction; when this returns, readers have it.

        Raises:
            AwayError: whether it is committed is not known; the next opening finds out.
            KafkaError: it is not.
        """
        self.flush()
        if self._is_transactional:
            with self._explained():
                # From here on there is nothing to abort.
                self._is_begun = False
                result = self._manager.begin_commit()
                self._producer._sender.wakeup()  # noqa: SLF001
                if not result.wait(timeout_ms=self._settings.request_seconds * MILLISECONDS):
                    raise errors.KafkaTimeoutError("a commit was not answered in time")

    def abort(self) -> None:
        """Abort the transaction.

        Raises:
            KafkaError: it could not be; the next opening aborts it.
        """
        self._abort(self._settings.request_seconds)

    def _abort(self, seconds: float) -> None:
        self.in_flight = 0
        if not self._is_transactional:
            return
        self._is_begun = False
        with self._explained():
            result = self._manager.begin_abort()
            self._producer._sender.wakeup()  # noqa: SLF001
            if not result.wait(timeout_ms=seconds * MILLISECONDS):
                raise errors.KafkaTimeoutError("an abort was not answered in time")

    def close(self, *, aborts: bool = True) -> None:
        """Disconnect at once; abort a transaction that is open, if Kafka answers.

        One that is left open would keep readers waiting until its timeout.

        Args:
            aborts: False where another client with the same id is opened next, which aborts it.
        """
        if self._is_begun and aborts:
            with contextlib.suppress(KafkaError):
                self._abort(min(_ABORT_SECONDS, self._settings.request_seconds))
        sender = self._producer._sender  # noqa: SLF001
        sender.force_close()
        sender.join(_JOIN_SECONDS)
        with contextlib.suppress(errors.KafkaError):
            self._producer.close(timeout=0)
