"""Streams of a store: plans batches, and reads their messages."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from reput.formats.errors import ReputError, UsageError, about
from reput.streaming.source.marks import Mark, marks_of
from reput.streaming.source.opening import naming_the_option, open_stores, read_range
from reput.streaming.source.options import RANGES, SourceOptions
from reput.streaming.source.planning import (
    cap_bytes,
    cap_records,
    cap_store_bytes,
    partitions_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from reput.streaming.source.offsets import StoreOffsets

LOG = logging.getLogger("reput")
_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


def expect_the_end() -> None:
    """End the process in which Spark plans without a traceback if Spark ends first.

    The runner then writes to a socket that nobody reads. In any other process this does nothing.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == _RUNNER:
        sys.excepthook = without_spark


def without_spark(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Stay silent about a socket that Spark has closed; show any other error as Python does."""
    if not isinstance(error, ConnectionError):
        sys.__excepthook__(kind, error, trace)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads batches; one object plans all of them, each task reads by its own copy."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options; nothing is opened yet."""
        expect_the_end()
        self._options = options
        self._offsets: dict[str, StoreOffsets] | None = None
        self._latest: dict[str, int] | None = None
        # The offsets planned last, and thereby compared.
        self._planned: dict[str, Mark] = {}
        # Offsets that are of another log, and were reported.
        self._told: dict[str, Mark] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to tasks: they open what they need themselves."""
        return {
            "_options": self._options,
            "_offsets": None,
            "_latest": None,
            "_planned": {},
            "_told": {},
        }

    @property
    def _stores(self) -> dict[str, StoreOffsets]:
        if self._offsets is None:
            self._offsets = open_stores(self._options)
        return self._offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint begins.

        Raises:
            ReputError: at an offset that is not there.
        """
        loss = self._options.fail_on_data_loss
        return self._offset(
            {
                store.name: self._stores[store.name].resolve(
                    store.starting,
                    fail_on_data_loss=loss,
                    is_known=self._options.rows == RANGES,
                )
                for store in self._options.stores
            }
        )

    def _offset(self, places: Mapping[str, int]) -> dict[str, Any]:
        """Return an offset of these places, with what identifies the logs up to there."""
        if self._options.rows == RANGES:
            # A reader of ranges follows the log itself.
            return dict(places)
        self._planned = {name: self._stores[name].mark(at) for name, at in places.items()}
        return {name: mark.as_json() for name, mark in self._planned.items()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Freeze all logs at their current ends."""
        for offsets in self._stores.values():
            offsets.freeze()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the options; of two, the records' (`latestOffset` knows both)."""
        if self._options.max_records is not None:
            return ReadMaxRows(self._options.max_records)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the batch that begins at `start`.

        Raises:
            ReputError: a corrupt record is next; the log was cut since it was read; other stores
                than those of the checkpoint.
        """
        with naming_the_option(self._options):
            return self._latest_offset(start, limit)

    def _latest_offset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        marks = marks_of(start)
        self._require_same_stores(marks)
        self._latest = {name: offsets.end() for name, offsets in self._stores.items()}
        self._require_same_logs(marks)
        places = {name: mark.position for name, mark in marks.items()}
        ends = {name: self._end_of(name, places[name]) for name in self._stores}
        self._raise_damage(places, ends)
        if self._options.max_store_bytes is not None:
            ends = cap_store_bytes(self._stores, places, ends, self._options.max_store_bytes)
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        if isinstance(limit, ReadMaxRows):
            # Spark does not combine limits, so the smaller one is found here.
            max_bytes = self._options.max_bytes
        if max_bytes is not None:
            ends = cap_bytes(self._stores, places, ends, max_bytes)
        if isinstance(limit, ReadMaxRows):
            ends = cap_records(self._stores, places, ends, limit.max_rows)
        return self._offset(ends) | {
            # Spark has to see the identical offset if nothing is new.
            name: start[name]
            for name, end in ends.items()
            if end == places[name]
        }

    def _require_same_logs(self, marks: Mapping[str, Mark]) -> None:
        """Compare the logs with what is known of them.

        Raises:
            ReputError: one was cut since, and `failOnDataLoss` is set.
        """
        for name, mark in marks.items():
            if self._options.rows == RANGES or self._told.get(name) == mark:
                continue
            if self._stores[name].is_same(mark):
                continue
            message = (
                f"store {name}: the commitlog is not the one that was read up to the query's "
                f"offset {mark.position}: it has been cut before there and written again. Records "
                "that were delivered are no longer in it, and others have taken their place"
            )
            if self._options.fail_on_data_loss:
                with about(name):
                    raise ReputError(
                        f"{message}. Begin with a new checkpoint, or resume at the offset without "
                        "those records with the option failOnDataLoss=false"
                    )
            LOG.warning("%s; resuming at the offset (failOnDataLoss=false)", message)
            # Until something is appended, Spark asks with the same offset again and again.
            self._told[name] = mark

    def _raise_damage(self, starts: Mapping[str, int], ends: Mapping[str, int]) -> None:
        """Raise what is wrong with a log once no store can be read any further.

        A store with damage does not keep the others from being planned.

        Raises:
            FormatError: the first store's.
        """
        ended = [each for name, each in self._stores.items() if starts[name] >= ends[name]]
        error = next((each.error for each in ended if each.error is not None), None)
        if error is not None and len(ended) == len(self._stores):
            raise error

    def _end_of(self, name: str, start: int) -> int:
        """Return where a store's log ends, at `start` or after it."""
        offsets, end = self._stores[name], (self._latest or {})[name]
        if start >= end and offsets.error is not None and self._options.rows != RANGES:
            raise offsets.error
        if start <= end or self._options.rows == RANGES:
            # A reader of ranges finds out by itself where the log was cut.
            return end
        if offsets.reaches(end, start):
            # It was compared just now, and is the same: its last record was whole while no broker
            # ran, and may look half written while one does. What follows it will tell.
            return start
        message = (
            f"store {name}: the commitlog ends at {end}, before the query's offset {start}: it has "
            "been cut or replaced"
        )
        if self._options.fail_on_data_loss:
            with about(name):
                raise ReputError(
                    f"{message}. Begin with a new checkpoint, or resume at the log's end with the "
                    "option failOnDataLoss=false"
                )
        return end

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        """Return the ends of the logs as last seen, for the query's progress."""
        return self._latest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of a batch.

        Raises:
            ReputError: records have expired before they were read; a batch that is repeated is
                no longer in the log.
        """
        starts, ends = marks_of(start), marks_of(end)
        self._require_same_stores(starts)
        # A batch that an earlier process planned has not been compared yet.
        self._require_same_logs(
            {name: mark for name, mark in ends.items() if self._planned.get(name) != mark}
        )
        with naming_the_option(self._options):
            return partitions_of(
                self._stores,
                self._options,
                {name: mark.position for name, mark in starts.items()},
                {name: mark.position for name, mark in ends.items()},
            )

    def _require_same_stores(self, start: Mapping[str, Mark]) -> None:
        if set(start) != set(self._stores):
            then, now = ", ".join(sorted(start)), ", ".join(sorted(self._stores))
            raise UsageError(
                f"path: the query's checkpoint is of the stores {then}; the options name {now}. "
                "Use the same stores, or begin with a new checkpoint"
            )

    def read(
        self, partition: InputPartition
    ) -> Iterator[tuple[Any, ...]] | Iterator[pa.RecordBatch]:
        """Return the rows of a range."""
        return read_range(self._options, partition)
