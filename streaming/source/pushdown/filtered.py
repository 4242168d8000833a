"""Batch reads that know the query's filters, and read no more of the logs than these need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.stores.query.first_since import first_since_by_bisection
from reput.streaming.source.datasource import BatchReader
from reput.streaming.source.opening import naming_the_option, open_stores, rows_naming_the_option
from reput.streaming.source.planning import LogRanges, share_out
from reput.streaming.source.pushdown.choosing import announce, choose
from reput.streaming.source.pushdown.wanted import LONG, Wanted
from reput.streaming.source.rows import read_wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition

    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.source.options import SourceOptions

# The last time that a record can have, so that one more still fits.
_LAST_TIME = LONG - 1


class FilteringReader(BatchReader):
    """Reads the parts of the logs that hold what the query's filters leave."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options; without filters all is wanted."""
        super().__init__(options)
        self._wanted = Wanted()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take from the filters what may be left out, and leave all of them to Spark as well."""
        self._wanted = Wanted.of(filters)
        return filters

    def partitions(self) -> list[InputPartition]:
        """Return what to read.

        Raises:
            ReputError: see `BatchReader.partitions`.
        """
        if not self._wanted.filters:
            return super().partitions()
        with naming_the_option(self._options):
            return self._partitions()

    def _partitions(self) -> list[InputPartition]:
        stores = open_stores(self._options)
        starts, ends = self.bounds(stores)
        tasks: list[InputPartition] = []
        for store in self._options.stores:
            offsets = stores[store.name]
            log = offsets.log()
            start, end = starts[store.name], ends[store.name]
            loss = self._options.fail_on_data_loss
            if log is None or start >= end:
                continue
            start = offsets.existing(start, fail_on_data_loss=loss)
            is_record = offsets.is_record(start)
            if self._options.ascending_store_time:
                first, end = self._in_time(log, start, end)
                is_record, start = is_record and first == start, first
            choice = choose(
                store,
                log,
                start,
                end,
                self._wanted,
                is_record=is_record,
                never_cut=self._options.never_cut,
            )
            announce(store.name, choice, self._wanted, aloud=self._options.explains)
            size = store.settings.commitlog_file_size
            tasks += share_out(store.name, choice, size, self._options.min_partitions)
            # Nobody else closes it, and the planner may live on and plan again.
            log.close()
        return tasks

    def _in_time(self, log: CommitLog, start: int, end: int) -> tuple[int, int]:
        """Return the part of a log with the times that are wanted, if these only ever rise."""
        times = self._wanted.store_times
        first = first_since_by_bisection(log, times.low, end) if times.low > 0 else start
        last = (
            first_since_by_bisection(log, times.high + 1, end) if times.high < _LAST_TIME else end
        )
        return max(start, first), min(end, last)

    def read(
        self, partition: InputPartition
    ) -> Iterator[tuple[Any, ...]] | Iterator[pa.RecordBatch]:
        """Return the rows of some ranges that may be wanted."""
        if not isinstance(partition, LogRanges):
            return super().read(partition)
        store = next(store for store in self._options.stores if store.name == partition.store)
        rows = read_wanted(
            store,
            partition.ranges,
            fail_on_data_loss=self._options.fail_on_data_loss,
            skips_corrupt=self._options.skips_corrupt,
            is_record=partition.is_record,
            wanted=self._wanted,
        )
        return rows_naming_the_option(self._options, rows)
