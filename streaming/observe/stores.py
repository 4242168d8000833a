"""How far a store is: what is looked up at a scrape, and what its writer last said."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError
from reput.formats.rocketmq import consumequeue, names
from reput.stores.log.broker_lock import is_held
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.holes import HoleWatch
from reput.stores.log.tail_watch import TailWatch
from reput.streaming.dispatch.latencies import BOUNDS
from reput.streaming.dispatch.resuming.first_message import has_no_first_message
from reput.streaming.endings.look import Look
from reput.streaming.events import NOTICE
from reput.streaming.observe import kafka as kafka_metrics

if TYPE_CHECKING:
    from reput.checkpoints.progress import Progress
    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.observe.families import Families, Texts
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.state import State

LOG = logging.getLogger("reput")
# What a broker's own series of its store have besides, and their values there and here.
BROKER_LABELS = ("node_id", "storage_type", "storage_medium")
_STORAGE = ("local", "disk")
_MILLISECONDS = 1000
# A writer looks many times a second; on an executor it is asked every few seconds.
SILENT_SECONDS = 20.0
# A look at a log takes milliseconds.
_LOOK_SECONDS = 2.0
_CHECKPOINT_KINDS = ("physic", "logics", "index")
_LATENCY = "rocketmq_reput_latency_seconds"
TEXTS: Texts = {
    "rocketmq_storage_dispatch_behind_bytes": (
        "Bytes of log that are not dispatched yet.",
        BROKER_LABELS,
    ),
    "rocketmq_storage_dispatch_behind_seconds": (
        "Store time between the log's last record and the last dispatched one.",
        BROKER_LABELS,
    ),
    "rocketmq_reput_oldest_undispatched_age_seconds": (
        "For how long the oldest record that is not dispatched has waited, by this host's clock.",
        (),
    ),
    "rocketmq_reput_first_message_awaited": (
        "The job has not begun: the store has no first message yet.",
        (),
    ),
    "rocketmq_reput_output_free_bytes": ("Free bytes of the output's file system.", ()),
    "rocketmq_reput_output_size_bytes": ("Size of the output's file system.", ()),
    "rocketmq_consumequeue_max_offset": (
        "Entries of a consume queue that are on disk and recorded, those that expired included.",
        ("topic", "queue_id"),
    ),
    "rocketmq_reput_offset_bytes": ("Physical offsets.", ("which",)),
    "rocketmq_checkpoint_timestamp_seconds": (
        "Store timestamps of the checkpoint file, Unix time.",
        ("kind",),
    ),
    "rocketmq_index_fill_ratio": ("How full the newest index file is.", ()),
    "rocketmq_reput_record_waiting": ("Dispatch waits at a record that came out of turn.", ()),
    "rocketmq_reput_store_failed": (
        "The store is not dispatched: it has failed and is tried again, or waits at damage.",
        (),
    ),
    "rocketmq_reput_writer_silent_seconds": (
        "How long ago the store's writer was last seen to work.",
        (),
    ),
    "rocketmq_reput_starts_total": ("Openings of the output since it was begun.", ()),
    "rocketmq_reput_recoveries_total": ("Openings at which something was rolled back.", ()),
    "rocketmq_reput_log_truncations_total": (
        "Times the log was found rewritten.",
        (),
    ),
    "rocketmq_reput_corrupt_skipped": ("Corrupt places that the output has passed over.", ()),
    "rocketmq_reput_data_loss_gaps": (
        "Gaps in the output, of records that expired before dispatch.",
        (),
    ),
    "rocketmq_reput_data_loss_bytes": ("Bytes of log in these gaps.", ()),
    "rocketmq_reput_last_batch_timestamp_seconds": ("When the last batch ended, Unix time.", ()),
    _LATENCY: ("From a record's store timestamp to its entry being visible.", ()),
    **kafka_metrics.TEXTS,
}


@dataclass(frozen=True)
class Behind:
    """How far dispatch lags behind the log's end.

    Attributes:
        bytes: of log that are not dispatched.
        seconds: store time between the log's last record and the last dispatched one.
        age: for how long the oldest record that is not dispatched has waited, seconds by this
            host's clock.
    """

    bytes: int
    seconds: float
    age: float


class StoreMetrics:
    """What can be looked up of one store."""

    def __init__(self, config: StoreConfig, *, skips_corrupt: bool) -> None:
        """Begin with nothing known.

        Args:
            config: of the store.
            skips_corrupt: the job passes over what is corrupt, and over holes.
        """
        self._config = config
        self._skips_corrupt = skips_corrupt
        self._log: CommitLog | None = None
        self._watch: TailWatch | None = None
        # Why the log cannot be looked at, "" if it can.
        self._trouble = ""
        # The store has no first message yet; others of the job may be dispatched.
        self._is_awaited = False
        # Scrapes and health checks come on threads of their own, and share a look.
        self._lock = threading.Lock()
        self._shared: Look[Behind | None] | None = None
        self._log_end = 0
        self._log_timestamp = 0
        # Physical offset and store timestamp of the oldest record that is not dispatched.
        self._oldest = (-1, 0)
        self.state: State | None = None
        # For how long its writer has not been seen to work, seconds, as the job last said.
        self.silence = 0.0
        self.failure: BaseException | None = None
        self._latencies = [0] * (len(BOUNDS) + 1)
        self._latency_seconds = 0.0
        self._last_batch = 0.0

    def update(self, batch: Batch) -> None:
        """Take a batch's latencies, and that there was one."""
        self._last_batch = time.time()
        self._latencies = [a + b for a, b in zip(self._latencies, batch.latencies, strict=True)]
        self._latency_seconds += batch.latency_seconds

    def is_ready(self, within_bytes: int) -> bool:
        """Tell whether it is dispatched, its lag is within this, and Kafka is not held back."""
        state = self.state
        is_held_back = state is not None and state.kafka is not None and state.kafka.stopped
        if self.has_failed or is_held_back or self.silence > SILENT_SECONDS:
            return False
        behind = self.behind()
        return behind is not None and behind.bytes <= within_bytes

    @property
    def has_failed(self) -> bool:
        """Tell whether it is not dispatched: it has failed, or waits at a flaw of its log."""
        flaw = self.state.flaw if self.state is not None else None
        return self.failure is not None or bool(flaw)

    def behind(self) -> Behind | None:
        """Return how far behind the log's end dispatch is now, None if that cannot be told."""
        return self.begin().found()

    def begin(self) -> Look[Behind | None]:
        """Begin to look how far that is, unless somebody else's look is not over."""
        with self._lock:
            if self._shared is None or self._shared.is_over:
                self._shared = Look(self._look, _LOOK_SECONDS)
            return self._shared

    def _reckoned(self) -> Behind:
        """Return the lag of dispatch as the last look found it."""
        state = self.state
        if state is None or self._log is None:
            return Behind(0, 0.0, 0.0)
        begin = max(state.progress.end, self._log.min_offset)
        left = max(self._log_end - begin, 0)
        if not left:
            return Behind(0, 0.0, 0.0)
        stored = self._stored_at(begin)
        last = state.progress.store_timestamp
        late = (self._log_timestamp - last) / _MILLISECONDS if last else 0.0
        # If a damaged record is next, the one before it is the oldest that is known.
        oldest = stored or last
        age = time.time() - oldest / _MILLISECONDS if oldest else 0.0
        return Behind(left, max(late, 0.0), max(age, 0.0))

    def _stored_at(self, position: int) -> int:
        """Return the store timestamp of the record at a physical offset, 0 if it cannot be told."""
        if self._oldest[0] != position and self._log is not None:
            stored = 0
            with contextlib.suppress(ReputError, OSError):
                stored = self._log.timestamp_at(position)
            self._oldest = position, stored
        return self._oldest[1]

    def _look(self) -> Behind | None:
        try:
            self._look_at_log()
            behind = self._reckoned()
        except (ReputError, OSError) as error:
            self._is_awaited = has_no_first_message(self._config)
            if self._trouble != str(error) and not self._is_awaited:
                LOG.warning(
                    "%s: its log cannot be looked at, so its lag is not known: %s",
                    self._config.name,
                    error,
                    extra={"store": self._config.name, "event": NOTICE},
                )
            self._trouble = str(error)
            # Without a first message nothing is there to lag behind.
            return Behind(0, 0.0, 0.0) if self._is_awaited else None
        self._trouble, self._is_awaited = "", False
        return behind

    def _look_at_log(self) -> None:
        if self._log is None or self._watch is None:
            settings, path = self._config.settings, self._config.path
            log = self._log = CommitLog(commitlog_directories(path, settings), settings, path)
            # The job looks in the same way, so both see one end; but for a job that stops at a
            # corrupt record, what follows it is lag.
            holes = HoleWatch(log, self._is_live) if self._skips_corrupt else None
            self._watch = TailWatch(log, skips_corrupt=True, holes=holes)
        end = self._watch.look().end
        if end != self._log_end:
            self._log_timestamp = self._log.timestamp_before(end)
            self._log_end = end

    def _is_live(self) -> bool:
        return not self._config.in_place and is_held(self._config.path / names.LOCK)

    def collect(
        self,
        families: Families,
        labels: tuple[str, str, str],
        lag: Behind | None,
        *,
        is_awaited: bool,
        shows_queues: bool,
    ) -> None:
        """Add the store's series.

        Args:
            families: of the scrape.
            labels: of the store.
            lag: what a look for this scrape has found.
            is_awaited: the job has not begun because the store has no first message yet.
            shows_queues: each queue has series of its own.
        """
        state, log = self.state, self._log
        families.add("rocketmq_reput_last_batch_timestamp_seconds", labels, self._last_batch)
        families.add_histogram(
            _LATENCY, labels, BOUNDS, tuple(self._latencies), self._latency_seconds
        )
        families.add(
            "rocketmq_reput_first_message_awaited", labels, float(is_awaited or self._is_awaited)
        )
        families.add("rocketmq_reput_store_failed", labels, float(self.has_failed))
        families.add("rocketmq_reput_writer_silent_seconds", labels, self.silence)
        if state is None or log is None:
            # No zeros: neither the lag nor what happened before is known yet.
            return
        if lag is not None:
            self._collect_lag(families, labels, lag, log.min_offset)
        _collect_output(families, labels, state)
        if shows_queues:
            _collect_queues(families, labels, state.progress)
        if state.kafka is not None:
            stored = state.progress.store_timestamp
            kafka_metrics.collect(families, labels, state.kafka, stored)

    def _collect_lag(
        self, families: Families, labels: tuple[str, str, str], behind: Behind, log_begin: int
    ) -> None:
        node = self._config.properties.get("brokerName", self._config.name)
        for unit, value in (("bytes", behind.bytes), ("seconds", behind.seconds)):
            name = f"rocketmq_storage_dispatch_behind_{unit}"
            families.add(name, (*labels, node, *_STORAGE), value)
        families.add("rocketmq_reput_oldest_undispatched_age_seconds", labels, behind.age)
        for which, offset in (("log_end", self._log_end), ("log_begin", log_begin)):
            families.add("rocketmq_reput_offset_bytes", (*labels, which), max(offset, 0))


def _collect_output(families: Families, labels: tuple[str, str, str], state: State) -> None:
    """Add what an output's writer reports."""
    if state.space is not None:
        families.add("rocketmq_reput_output_free_bytes", labels, state.space.free)
        families.add("rocketmq_reput_output_size_bytes", labels, state.space.size)
    progress = state.progress
    for which, value in (("dispatched", progress.end), ("recorded", state.recorded_end)):
        # Before the first batch, and the first record of it: not 0, where a log may not begin.
        if value >= 0:
            families.add("rocketmq_reput_offset_bytes", (*labels, which), value)
    for kind, value in zip(_CHECKPOINT_KINDS, progress.checkpoint, strict=False):
        name = "rocketmq_checkpoint_timestamp_seconds"
        families.add(name, (*labels, kind), value / _MILLISECONDS)
    families.add("rocketmq_index_fill_ratio", labels, state.index_fill)
    families.add("rocketmq_reput_record_waiting", labels, float(state.holds))
    for name, count in (
        ("starts_total", progress.starts),
        ("recoveries_total", progress.recoveries),
        ("log_truncations_total", progress.truncations),
        # Not counters: a place that a broker has cut away, or a repair has put back, is gone.
        ("corrupt_skipped", len(progress.skipped)),
        ("data_loss_gaps", len(progress.lost)),
        ("data_loss_bytes", sum(end - start for start, end in progress.lost)),
    ):
        families.add(f"rocketmq_reput_{name}", labels, count)


def _collect_queues(families: Families, labels: tuple[str, str, str], progress: Progress) -> None:
    """Add a series for each consume queue."""
    for queue, end in progress.queues.items():
        kind, _, rest = queue.partition("/")
        topic, _, number = rest.rpartition("/")
        if kind == names.CONSUMEQUEUE:
            name = "rocketmq_consumequeue_max_offset"
            families.add(name, (*labels, topic, number), end // consumequeue.ENTRY_SIZE)
