"""Slices and native integers as Arrow arrays, without a Python object for each value."""

from __future__ import annotations

import functools
import ipaddress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from reput.formats.rocketmq.commitlog import HOST_V6
from reput.formats.rows.texts import gather, write_message_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes
    from reput.formats.rows.columns import RowColumns
    from reput.formats.rows.texts import Slices

# The first ms of the year 1 and of the year 10000.
_EARLIEST_MS, _TOO_LATE_MS = -62_135_596_800_000, 253_402_300_800_000


def _offsets(length: NDArray[np.int32]) -> tuple[NDArray[np.int32], Bytes]:
    """Return Arrow's offsets of pieces of these lengths, and room for their bytes."""
    offsets = np.zeros(len(length) + 1, np.int32)
    np.cumsum(length, out=offsets[1:])
    return offsets, np.empty(offsets[-1], np.uint8)


def binaries(data: Bytes, slices: Slices) -> pa.Array:
    """Return slices as binary values."""
    offsets, out = _offsets(slices.length)
    gather(data, slices, offsets[1:], out)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(slices.length), buffers)


def texts(data: Bytes, slices: Slices, *, nulls: bool = False) -> pa.Array:
    """Return slices that are known to be UTF-8 as texts; with `nulls`, empty ones are null."""
    offsets, out = _offsets(slices.length)
    gather(data, slices, offsets[1:], out)
    return _as_texts(offsets, out, slices.length > 0 if nulls else None)


def _as_texts(
    offsets: NDArray[np.int32], out: Bytes, valid: NDArray[np.bool_] | None = None
) -> pa.Array:
    mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def maps(data: Bytes, columns: RowColumns) -> pa.Array:
    """Return the properties of each row."""
    ends = np.zeros(len(columns.property_end) + 1, np.int32)
    ends[1:] = columns.property_end
    names = repeated(binaries(data, columns.names), bytes.decode)
    return pa.MapArray.from_arrays(pa.array(ends), names, texts(data, columns.values))


def offset_message_ids(data: Bytes, columns: RowColumns) -> pa.Array:
    """Return each row's offset message id."""
    offsets, out = _offsets(2 * (columns.store_host.length + 8))
    write_message_ids(data, columns.store_host, columns.physical_offset, offsets[1:], out)
    return _as_texts(offsets, out)


def repeated(values: pa.Array, text_of: Callable[[bytes], str]) -> pa.Array:
    """Return the text of each value; few different ones are expected, and each is made once."""
    encoded = values.dictionary_encode()
    texts = pa.array([text_of(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)


@functools.lru_cache(maxsize=1 << 16)
def host_text(raw: bytes) -> str:
    """Return address and port as RocketMQ's logs have them: 10.0.0.1:10911, [fd00::1]:10911."""
    address, port = raw[:-4], int.from_bytes(raw[-4:], "big", signed=True)
    if len(raw) == HOST_V6:
        return f"[{ipaddress.IPv6Address(address)}]:{port}"
    return f"{ipaddress.IPv4Address(address)}:{port}"


def timestamps(milliseconds: NDArray[np.int64]) -> pa.Array:
    """Return ms since 1970 as Spark's timestamps; null beyond its years."""
    shown = (milliseconds >= _EARLIEST_MS) & (milliseconds < _TOO_LATE_MS)
    return pa.array(np.where(shown, milliseconds, 0) * 1000, mask=~shown).cast(
        pa.timestamp("us", tz="UTC")
    )
