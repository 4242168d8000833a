"""Rows with bodies as their senders had them, in batches that no sender can make large."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from reput.formats.rocketmq import bodies
from reput.formats.rocketmq.commitlog import COMPRESSED
from reput.streaming.source.rows import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

PROBLEM = "bodyProblem"
# `streaming.source.rows.SCHEMA` plus the reason why a body is not what its sender had; null if it
# is.
DECOMPRESSED_SCHEMA = StructType([*SCHEMA.fields, StructField(PROBLEM, StringType())])
# Body bytes in a batch at most; a single larger body has a batch of its own.
BATCH_BYTES = 16 << 20


def with_plain_bodies(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows with bodies decompressed, and with the column `PROBLEM`.

    A few kilobytes can expand to 64 MiB: a batch ends where its bodies reach `BATCH_BYTES`, so what
    is held at a time does not depend on what was sent.

    Args:
        batches: of the source's columns.
    """
    for batch in batches:
        yield from _split(batch)


def _split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    flags = batch.column("sysFlag").to_pylist()
    if not any(flag & COMPRESSED for flag in flags):
        yield batch.append_column(PROBLEM, pa.nulls(len(flags), pa.string()))
        return
    stored = batch.column("body")
    found: list[bytes] = []
    problems: list[str | None] = []
    first = held = 0
    for row, flag in enumerate(flags):
        body = bodies.decompressed(stored[row].as_py(), flag)
        if found and held + len(body.data) > BATCH_BYTES:
            rows = _rows(batch, first, found, problems)
            found, problems, first, held = [], [], row, 0
            yield rows
        found.append(body.data)
        problems.append(body.problem)
        held += len(body.data)
    yield _rows(batch, first, found, problems)


def _rows(
    batch: pa.RecordBatch, first: int, found: list[bytes], problems: list[str | None]
) -> pa.RecordBatch:
    """Return as many rows from `first` on as there are bodies, with these."""
    at = batch.schema.get_field_index("body")
    field = batch.schema.field(at)
    offsets = np.zeros(len(found) + 1, np.int32)
    np.cumsum([len(body) for body in found], out=offsets[1:])
    # A large body, which is alone, is not copied.
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(found))]
    plain = pa.Array.from_buffers(field.type, len(found), buffers)
    rows = batch.slice(first, len(found)).set_column(at, field, plain)
    return rows.append_column(PROBLEM, pa.array(problems, pa.string()))
