"""A producer of whole batches: kafka-python's, handed batches that are encoded already.

kafka-python's `send` makes each record in Python, which is most of what it costs. Here a batch
comes as encoded records (`formats.kafka.records`) and goes into kafka-python's accumulator as it
is; sequence numbers, checksums, requests, retries and transactions stay kafka-python's own. For
that some of its inner parts are touched, all of them in this file; `sinks.kafka.client.versions`
lets in the versions that this was tested with.

kafka-python goes on where a batch of a transaction could not be delivered in time. So before a
commit each batch is looked at, and nothing is committed that has not arrived.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer, TopicPartition, errors
from kafka.net.compat import KafkaNetClient
from kafka.producer.producer_batch import FinalState, ProducerBatch
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from reput.formats.errors import KafkaError, ReputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from reput.sinks.kafka.client.settings import KafkaSettings

_MAGIC = 2
_MOST_BYTES = 1 << 30
_MILLISECONDS = 1000
# Requests carry batches of several partitions up to this; brokers take 100 MiB by default.
_REQUEST_BYTES = 8 << 20
_JOIN_SECONDS = 5.0
# For taking back what is open when there is no time, or Kafka does not answer.
_ABORT_SECONDS = 3.0
_CONNECTIONS = logging.getLogger("kafka.net.manager")
# Bytes of a batch before its first record.
BATCH_HEADER = 61


class FencedError(KafkaError):
    """Another process has begun to write under the same transactional id."""


class AccessError(KafkaError):
    """Kafka does not let us in, or not write transactions at all."""


class RefusedError(KafkaError):
    """Kafka takes everything but this: a batch or a topic.

    Attributes:
        topics: that are refused as a whole.
        batch: that is refused.
        cause: what Kafka said.
    """

    def __init__(
        self, cause: BaseException, topics: frozenset[str] = frozenset(), batch: Batch | None = None
    ) -> None:
        super().__init__(describe(cause))
        self.cause = cause
        self.topics = topics
        self.batch = batch


class AwayError(KafkaError):
    """Kafka cannot be reached, or not in time: worth another try."""


class EndedError(AwayError):
    """Kafka has ended what we had open: another process has begun, or it was open for too long.

    Which of the two it was only the position tells.
    """


class TopicError(KafkaError):
    """A topic is missing or not for us: worth another try, once somebody has made or allowed it."""


FENCED = (
    "another process writes with this store's transactional id, and has begun later. Only one job "
    "may send a store: stop one of them"
)
# What is wrong with a record or a batch: it will be refused again.
_RECORD_ERRORS = (
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.InvalidRecordError,
    errors.InvalidTimestampError,
    errors.PolicyViolationError,
    errors.CorruptRecordError,
)
_FENCED = (errors.ProducerFencedError, errors.InvalidProducerEpochError)
_ACCESS = (
    errors.SaslAuthenticationFailedError,
    errors.ClusterAuthorizationFailedError,
    errors.TransactionalIdAuthorizationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.UnsupportedForMessageFormatError,
)
_TOPIC_ERRORS = (
    errors.TopicAuthorizationFailedError,
    errors.UnknownTopicOrPartitionError,
    errors.InvalidTopicError,
)


def describe(error: BaseException) -> str:
    """Return what Kafka said in one line: the error's name, and its text if it has one."""
    kind = type(error).__name__
    text = " ".join(str(error).split()).removeprefix(f"[Error {getattr(error, 'errno', '')}] ")
    text = text.removeprefix(kind).removeprefix(": ")
    name = kind.removesuffix("Error")
    return name if text in {"", "None"} else f"{name}: {text[:300]}"


# Of settings that kafka-python does not take, where it begins.
_SETTINGS_ERRORS = (ValueError, TypeError, AssertionError, errors.KafkaConfigurationError)
# That it took too long is said anyway.
_NO_REASONS = (errors.KafkaTimeoutError, errors.NodeNotReadyError)


class Batch(ProducerBatch):  # type: ignore[misc]
    """One batch for one partition.

    kafka-python would split a batch that is too large into ones that nobody waits for; so it is
    told that there is nothing to split. Sequence numbers do not come from this count.

    Attributes:
        note: the caller's, to know again what is in it.
        size: bytes of records.
        refused: records that Kafka has named as what is wrong, by their number, and why.
    """

    def __init__(
        self, partition: TopicPartition, records: Any, note: object, size: int, count: int = 1
    ) -> None:
        super().__init__(partition, records)
        self.note = note
        self.size = size
        self.refused: dict[int, BaseException] = {}
        self._count = count
        self._reason: BaseException | None = None

    def done(
        self,
        base_offset: int | None = None,
        timestamp_ms: int | None = None,
        top_level_exception: Exception | None = None,
        record_exceptions_fn: Callable[[int], Exception] | None = None,
    ) -> bool:
        """Take what Kafka has said of it; of an innocent record that is nothing of use."""
        if top_level_exception is not None and record_exceptions_fn is not None:
            self._reason = top_level_exception
            for number in range(self._count):
                said = record_exceptions_fn(number)
                if said is not top_level_exception and isinstance(said, _RECORD_ERRORS):
                    # Of several its client says less of each than of one.
                    self.refused[number] = type(top_level_exception)(*said.args)
        return bool(
            super().done(base_offset, timestamp_ms, top_level_exception, record_exceptions_fn)
        )

    @property
    def record_count(self) -> int:
        """Return 1: see the class."""
        return 1

    @property
    def failure(self) -> BaseException | None:
        """Return why it did not arrive, None if it did or is on its way."""
        if not self.is_done or self.final_state is FinalState.SUCCEEDED:
            return None
        if self._reason is not None:
            return self._reason
        *_, exception_of = self.produce_future.value
        failure: BaseException = exception_of(0)
        return failure


def batch_of(
    partition: TopicPartition,
    records: memoryview,
    count: int,
    first_timestamp: int,
    max_timestamp: int,
    codec: int,
    note: object = None,
) -> Batch:
    """Return a batch of records that are encoded already.

    Args:
        partition: where it goes.
        records: encoded.
        count: how many.
        first_timestamp: of the first one, ms.
        max_timestamp: ms.
        codec: kafka-python's number of a compression.
        note: see `Batch`.
    """
    # Full from the start: it is sent at once.
    memory = MemoryRecordsBuilder(_MAGIC, codec, 0)
    builder = memory._builder  # noqa: SLF001 - see the file's first lines, so the rest
    builder._buffer += records  # noqa: SLF001
    builder._num_records = count  # noqa: SLF001
    builder._last_offset = count - 1  # noqa: SLF001
    builder._first_timestamp = first_timestamp  # noqa: SLF001
    builder._max_timestamp = max_timestamp  # noqa: SLF001
    memory._next_offset = count  # noqa: SLF001
    return Batch(partition, memory, note, len(records), count)


def encode_records(
    records: Iterable[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]],
) -> memoryview:
    """Return encoded records, made one by one by kafka-python: for few.

    Args:
        records: timestamp in ms, key, value and headers of each.
    """
    builder = DefaultRecordBatchBuilder(_MAGIC, 0, 0, -1, -1, -1, _MOST_BYTES)
    for number, (timestamp, key, value, headers) in enumerate(records):
        builder.append(number, timestamp, key, value, headers)
    return memoryview(builder.build())[BATCH_HEADER:]


def _compression(settings: KafkaSettings) -> str | None:
    return None if settings.compression == "none" else settings.compression


class _Reasons(logging.Handler):
    """Keeps what kafka-python logs and does not raise: why it cannot connect.

    All clients of a process log to one place; only what this one says counts.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: Exception | None = None
        self._caller = threading.get_ident()
        self._client: Any = None

    def make(self, **config: Any) -> Any:
        """Return a client, for kafka-python: what its thread says is ours."""
        self._client = KafkaNetClient(**config)
        return self._client

    def emit(self, record: logging.LogRecord) -> None:
        """Take an error out of a log line."""
        own = self._client._net._io_thread if self._client is not None else None  # noqa: SLF001
        if record.thread not in {self._caller, own.ident if own is not None else None}:
            return
        for value in record.args if isinstance(record.args, tuple) else ():
            if not isinstance(value, Exception) or isinstance(value, _NO_REASONS):
                continue
            # A password that is refused is the reason for all that follows.
            if not isinstance(self.last, _ACCESS):
                self.last = value

    def __enter__(self) -> _Reasons:
        _CONNECTIONS.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        _CONNECTIONS.removeHandler(self)


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
            look: called when Kafka has answered, and before its last holder is shut out; what it
                raises ends this.

        Raises:
            KafkaError: what came of it.
        """
        self._settings = settings
        self._unsettled: list[Batch] = []
        self._began = time.monotonic()
        self._is_begun = False
        self.in_flight = 0
        milliseconds = int(settings.request_seconds * _MILLISECONDS)
        with _Reasons() as reasons, self._explained(reasons):
            options: dict[str, Any] = {
                "bootstrap_servers": [host.strip() for host in settings.bootstrap.split(",")],
                "client_id": settings.client_id,
                "transactional_id": transactional_id,
                "transaction_timeout_ms": int(settings.transaction_timeout_seconds * _MILLISECONDS),
                "enable_idempotence": True,
                "acks": "all",
                "compression_type": _compression(settings),
                "max_request_size": max(_REQUEST_BYTES, settings.max_message_bytes),
                "max_block_ms": milliseconds,
                "request_timeout_ms": milliseconds,
                "delivery_timeout_ms": 2 * milliseconds,
                "bootstrap_timeout_ms": milliseconds,
                "reconnect_backoff_max_ms": _MILLISECONDS,
                "allow_auto_create_topics": settings.auto_create_topics,
                "metrics_enabled": False,
                "kafka_client": reasons.make,
            }
            # None of these is the operator's to change, but for how it connects.
            try:
                self._producer = KafkaProducer(**{**options, **access})
            except _SETTINGS_ERRORS as error:
                # Another try changes nothing.
                raise KafkaError(
                    f"kafka-python does not take the settings of [kafka]: {describe(error)}"
                ) from error
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

    @property
    def _manager(self) -> Any:
        return self._producer._transaction_manager  # noqa: SLF001

    @contextlib.contextmanager
    def _explained(self, reasons: _Reasons | None = None) -> Any:
        """Raise kafka-python's errors as ours."""
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
        # What a call says is often only that an earlier one has failed.
        cause = (manager.last_error if manager is not None else None) or error
        where = self._settings.bootstrap
        if isinstance(cause, _FENCED):
            open_seconds = time.monotonic() - self._began
            return EndedError(
                f"Kafka at {where} has ended a transaction that was open for {open_seconds:.0f} s: "
                "for its age, or as another process has begun to write with this store's "
                "transactional id"
            )
        if isinstance(cause, _ACCESS):
            return AccessError(
                f"Kafka at {where} does not let us in: {describe(cause)}. Look at username, "
                "password and mechanism, and at the ACLs (docs/kafka.md)"
            )
        if isinstance(cause, errors.TopicAuthorizationFailedError):
            names = cause.args[0] if cause.args else ()
            topics = frozenset((names,) if isinstance(names, str) else names)
            return RefusedError(cause, topics=topics)
        if isinstance(cause, (*_RECORD_ERRORS, *_TOPIC_ERRORS)):
            return RefusedError(cause)
        return AwayError(f"Kafka at {where}: {describe(cause)}")

    @property
    def cluster(self) -> str:
        """Return by what name Kafka tells itself from others."""
        return str(self._producer._metadata.cluster_id)  # noqa: SLF001

    def partitions(self, topic: str, patience: float) -> int:
        """Return how many partitions a topic has.

        Args:
            topic: its name.
            patience: seconds; a topic that is being made may be there then.

        Raises:
            RefusedError: there is no such topic, or it is not for us.
            AwayError: Kafka does not answer.
        """
        metadata = self._producer._metadata  # noqa: SLF001
        began = time.monotonic() * _MILLISECONDS
        try:
            found = self._producer._wait_on_metadata(topic, patience * _MILLISECONDS)  # noqa: SLF001
        except errors.KafkaTimeoutError as error:
            # What Kafka does not name when it answers is not there.
            if metadata._last_successful_refresh_ms < began:  # noqa: SLF001
                raise self._explain(error) from error
            missing = errors.UnknownTopicOrPartitionError("there is no such topic")
            raise RefusedError(missing, topics=frozenset({topic})) from error
        except _TOPIC_ERRORS as error:
            raise RefusedError(error, topics=frozenset({topic})) from error
        except (errors.KafkaError, ValueError) as error:
            raise self._explain(error) from error
        return len(found)

    def begin(self) -> None:
        """Begin a transaction, or what stands for one.

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
        partition: TopicPartition,
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
        try:
            with self._explained():
                # A client that took another one's place has not been asked for it.
                self._producer._sender.add_topic(partition.topic)  # noqa: SLF001
                if self._is_transactional:
                    self._manager.maybe_add_partition_to_transaction(partition)
                accumulator = self._producer._accumulator  # noqa: SLF001
                with accumulator._tp_lock(partition):  # noqa: SLF001
                    accumulator._batches[partition].append(batch)  # noqa: SLF001
                    accumulator._incomplete.add(batch)  # noqa: SLF001
                self._producer._sender.wakeup()  # noqa: SLF001
        except RefusedError as error:
            # Not this batch is refused but one before it, of which this is the first to be heard.
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
        # Above kafka-python's own bound, so that its reason is heard rather than ours.
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
        """Raise what has become of a transaction by one of its batches.

        Batches that only fell with another one are not the reason, if that one can be found.
        """
        self._wait_for_reasons()
        for each in self._unsettled:
            reason = each.failure
            if isinstance(reason, _RECORD_ERRORS):
                raise RefusedError(reason, batch=each) from reason
            if isinstance(reason, _TOPIC_ERRORS):
                topics = frozenset({each.topic_partition.topic})
                raise RefusedError(reason, topics=topics, batch=each) from reason
        raise self._explain(failure) from failure

    def _wait_for_reasons(self) -> None:
        """Give the other batches that are on their way the time to fail as well."""
        end = time.monotonic() + 1.0
        while any(not batch.is_done for batch in self._unsettled) and time.monotonic() < end:
            time.sleep(0.01)

    def flush(self) -> None:
        """Wait until all has arrived.

        Raises:
            KafkaError: something has not.
        """
        self._settle(-1)

    def commit(self) -> None:
        """End a transaction; when this returns, readers have it.

        Raises:
            AwayError: whether it is committed is not known; who opens anew will see.
            KafkaError: it is not.
        """
        self.flush()
        if self._is_transactional:
            with self._explained():
                # From here on there is nothing to take back.
                self._is_begun = False
                result = self._manager.begin_commit()
                self._producer._sender.wakeup()  # noqa: SLF001
                if not result.wait(timeout_ms=self._settings.request_seconds * _MILLISECONDS):
                    raise errors.KafkaTimeoutError("a commit was not answered in time")

    def abort(self) -> None:
        """Take back the transaction.

        Raises:
            KafkaError: it could not be; who opens anew will have it aborted.
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
            if not result.wait(timeout_ms=seconds * _MILLISECONDS):
                raise errors.KafkaTimeoutError("an abort was not answered in time")

    def close(self, *, aborts: bool = True) -> None:
        """Give it back at once, a transaction that is open aborted if Kafka answers.

        One that is left open would keep readers waiting until its timeout.

        Args:
            aborts: not where another client with the same id is opened at once: that aborts it.
        """
        if self._is_begun and aborts:
            with contextlib.suppress(KafkaError):
                self._abort(min(_ABORT_SECONDS, self._settings.request_seconds))
        sender = self._producer._sender  # noqa: SLF001
        sender.force_close()
        sender.join(_JOIN_SECONDS)
        with contextlib.suppress(errors.KafkaError):
            self._producer.close(timeout=0)
