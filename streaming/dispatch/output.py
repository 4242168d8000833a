"""The files of one output: its sinks, opened where the books say that they end."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reput.checkpoints import progress
from reput.formats.errors import ReputError
from reput.formats.rocketmq import consumequeue
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.sinks.files.consumequeue import ConsumeQueueSink
from reput.sinks.files.index import IndexSink
from reput.sinks.files.no_index import NoIndex
from reput.sinks.files.special import SpecialSink
from reput.sinks.upkeep import rollback
from reput.streaming.dispatch.books import Written
from reput.streaming.dispatch.queue_writer import QueueWriter
from reput.streaming.dispatch.resuming import recovery
from reput.streaming.dispatch.resuming.recovery import Recovery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.checkpoints.progress import Progress
    from reput.sinks.files.queues import QueueDirectory
    from reput.sinks.sink import Sink
    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.admission import Admission
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.blocks.pipeline import Pipeline
    from reput.streaming.dispatch.books import Books
    from reput.streaming.dispatch.live_settings import LiveSettings
    from reput.streaming.dispatch.stopwatch import Stopwatch
    from reput.streaming.settings.config import StoreConfig


@dataclass(frozen=True)
class Sinks:
    """The writers of an output's files, from being opened until they are rolled back.

    Attributes:
        entries: of consume queues.
        special: of records that are more than one plain entry.
        index: the index; its null object where the broker writes none.
        in_order: all that blocks are written to.
    """

    entries: ConsumeQueueSink
    special: SpecialSink
    index: IndexSink | NoIndex
    in_order: tuple[Sink, ...]

    def close(self) -> None:
        """Give all maps back."""
        for sink in self.in_order:
            sink.close()


class Output:
    """Writes blocks into the files of one output, and rolls them back.

    Attributes:
        is_consistent: the files hold what the books say; False while they are ahead, and from a
            failed write on.
        failure: the last error of the system while a block was read or written.
    """

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        books: Books,
        pipeline: Pipeline,
        queues: QueueDirectory,
        live: LiveSettings,
        admission: Admission,
        stopwatch: Stopwatch,
    ) -> None:
        """Open the files as they stand, which is what the books say.

        Args:
            config: the store.
            log: its log.
            books: where the files end.
            pipeline: reads single records.
            queues: gives queues their numbers.
            live: what the broker's files say of topics.
            admission: decides on records out of turn.
            stopwatch: takes the time of writes.

        Raises:
            StoreError: a foreign file stands among them.
            OSError: no permission.
        """
        self._config = config
        self._log = log
        self._books = books
        self._pipeline = pipeline
        self._queues = queues
        self._live = live
        self._admission = admission
        self._stopwatch = stopwatch
        self.is_consistent = True
        self.failure: OSError | None = None
        # Items inserted and index files begun by sinks that were closed since; and those told.
        self._inserted_before = self._inserted_told = (0, 0)
        self._sinks = self._opened()

    @property
    def entries(self) -> ConsumeQueueSink:
        """Return the writer of consume queues."""
        return self._sinks.entries

    @property
    def special(self) -> SpecialSink:
        """Return the writer of records that are more than one plain entry."""
        return self._sinks.special

    @property
    def index(self) -> IndexSink | NoIndex:
        """Return the writer of the index."""
        return self._sinks.index

    def _opened(self) -> Sinks:
        """Open the sinks, and have the pipeline pass over what the books do."""
        root, settings, known = self._config.output, self._config.settings, self._books.progress
        staging = root / progress.STATE_DIRECTORY
        entries = ConsumeQueueSink(root, staging, settings, self._queues)
        special = SpecialSink(root, staging, settings, self._queues, entries, self._live)
        entries.vouched_from = known.vouched_from
        special.vouch_from(known.vouched_from)
        entries.recorded_lasts, entries.recorded_ends = known.lasts, known.queues
        special.expect_ends(known.queues)
        self._pipeline.parser.gaps = dict(known.skipped)
        writer = QueueWriter(entries, special, self._pipeline.parser, self._admission)
        if not settings.writes_index:
            return Sinks(entries, special, NoIndex(), (writer,))
        index = IndexSink(root, staging, settings)
        index.remember(StoreCheckpoint(*known.checkpoint).index_timestamp)
        return Sinks(entries, special, index, (writer, index))

    def require_consistent(self) -> None:
        """Refuse to write after a failed write.

        Raises:
            ReputError: one has failed.
        """
        if not self.is_consistent:
            raise ReputError(
                f"{self._config.output}: a write to it has failed; open it again first"
            )

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Mark the files as ahead of the books; for good if an error ends what is within."""
        self.is_consistent = False
        yield
        self.is_consistent = True

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Take the time of a phase, and remember an error of the system."""
        began = time.perf_counter()
        try:
            yield
        except OSError as error:
            self.failure = error
            raise
        finally:
            self._stopwatch.add(phase, time.perf_counter() - began)

    def write(self, block: Block) -> Written:
        """Write a block to all sinks, up to the first record that one of them does not take.

        Raises:
            OSError: no space, no permission.
        """
        counts = self.entries.counts
        repeated, misplaced = counts.repeated, counts.misplaced
        for sink in self._sinks.in_order:
            with self.timed(sink.name):
                sink.write(block)
        repeated, misplaced = counts.repeated - repeated, counts.misplaced - misplaced
        entries = consumequeue.count_entries(block.columns.sys_flag[: block.count])
        return Written(entries - len(block.without_entry) - repeated, repeated, misplaced)

    def take_inserted(self) -> tuple[int, int]:
        """Return index items inserted and files begun since the last call."""
        before, now = self._inserted_told, self._inserted
        self._inserted_told = now
        return now[0] - before[0], now[1] - before[1]

    @property
    def _inserted(self) -> tuple[int, int]:
        items, begun = self._inserted_before
        return items + self.index.inserted[0], begun + self.index.inserted[1]

    def vouch(self) -> None:
        """Tell the sinks from where on the log is known to be the one that was dispatched."""
        position = self._books.progress.vouched_from
        self.entries.vouched_from = position
        self.special.vouch_from(position)

    def flush(self) -> None:
        """Sync all files to disk.

        Raises:
            OSError: the device failed.
        """
        for sink in self._sinks.in_order:
            sink.flush()

    def finish(self) -> None:
        """Leave the index as a broker does when it stops."""
        counts = self._config.settings.version.counts_empty_index
        self.index.finish(writes_first_count=counts)

    def where(self) -> dict[str, Any]:
        """Return where the files end, as fields of the progress."""
        known, position = self._books.progress, self.index.position
        positions = self.entries.positions()
        written = positions | self.special.positions()
        ahead = (set(known.ahead) - positions.keys()) | self.entries.ahead()
        # If a queue is known, the books have its files that expired since it was opened.
        began = (self.entries.firsts() | self.special.firsts()).items()
        older = self.index.before(self._log.min_offset)
        return {
            "queues": known.queues | written,
            "firsts": {name: at for name, at in began if name not in known.queues} | known.firsts,
            "lasts": known.lasts | self.entries.lasts(),
            "ahead": tuple(sorted(ahead)),
            "tails": {name: crc for name, crc in known.tails.items() if name not in written},
            "index_before": tuple((name, tuple(header)) for name, header in older),
            "index_name": position.name,
            "index_header": tuple(position.header),
        }

    @contextlib.contextmanager
    def closed(self, *, flushes: bool = True) -> Iterator[None]:
        """Close the sinks to roll their files back; open them where the books say by then.

        Args:
            flushes: what the books say becomes durable first: it is recorded before any of it is
                removed.
        """
        self._books.change(**self.where())
        with self.changing():
            if flushes:
                self.flush()
            self.close()
            yield
            self._reopen()

    def begin_with(self, known: Progress) -> None:
        """Take over files that were put into the output after it was opened with nothing in it."""
        self.close()
        self._books.take_over(known)
        self._reopen()

    def _reopen(self) -> None:
        self._inserted_before = self._inserted
        self._sinks = self._opened()

    def roll_back_leftovers(self) -> None:
        """Remove what a record that could not be put has left in some of its queues."""
        config, leftovers = self._config, self.special.leftovers()
        with self.closed(flushes=False):
            known = self._books.progress
            queues = rollback.queues_before(
                config.output, config.settings, known.queues, known.end, known.lasts
            )
            queues |= {name: min(queues.get(name, at), at) for name, at in leftovers.items()}
            queues = {name: at for name, at in queues.items() if at > 0}
            known = replace(known, **progress.shortened(known, queues, known.index_name))
            recovery.roll_back_to(config, known, Recovery())
            self._books.take_over(known)

    def close(self) -> None:
        """Give all maps back."""
        self._sinks.close()
