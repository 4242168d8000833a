"""The stores of a query, opened by planner and tasks, and the rows of one range."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from reput.streaming.source.options import RANGES, SourceOptions
from reput.streaming.source.planning import (
    LogRange,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import (
        InputPartition,
    )

    from reput.streaming.source.offsets import StoreOffsets
    from reput.streaming.source.options import Store


def open_stores(options: SourceOptions) -> dict[str, StoreOffsets]:
    """Return the offsets of each store that the options name.

    Raises:
        StoreError: one is missing, or is not a store.
    """
    return {store.name: open_store(store, options) for store in options.stores}


def open_store(store: Store, options: SourceOptions) -> StoreOffsets:
    """Return the offsets of a store, as the options say.

    Raises:
        StoreError: it is missing, or is not a store.
    """
    from reput.streaming.source.offsets import StoreOffsets  # noqa: PLC0415 - brings the compiler

    return StoreOffsets(
        store,
        skips_corrupt=options.skips_corrupt,
        only_flushed=options.only_flushed,
        ascending_time=options.ascending_store_time,
    )


def read_range(
    options: SourceOptions, partition: InputPartition
) -> Iterator[tuple[Any, ...]] | Iterator[pa.RecordBatch]:
    """Return the rows of a range."""
    if not isinstance(partition, LogRange):
        # Spark hands this in if there is nothing to read.
        return iter(())
    if options.rows == RANGES:
        return iter([(partition.store, partition.start, partition.end)])
    from reput.streaming.source.rows import read_batches  # noqa: PLC0415 - as above

    store = next(store for store in options.stores if store.name == partition.store)
    rows = read_batches(
        store,
        partition.start,
        partition.end,
        fail_on_data_loss=options.fail_on_data_loss,
        skips_corrupt=options.skips_corrupt,
        is_record=partition.is_record,
    )
    return rows_naming_the_option(options, rows)


def naming_the_option(options: SourceOptions) -> contextlib.AbstractContextManager[None]:
    """Name the option of a DataFrame in errors at a place of a log, except in a job's ranges."""
    if options.rows == RANGES:
        return contextlib.nullcontext()
    from reput.streaming.dispatch.log import damage  # noqa: PLC0415 - brings what reads logs

    return damage.naming_the_option()


def rows_naming_the_option(
    options: SourceOptions, rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield rows; errors while they are read name the option of a DataFrame."""
    with naming_the_option(options):
        yield from rows
