"""Rows whose texts slices cannot show: decoded as Java does, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.java import strings
from reput.formats.rocketmq import properties
from reput.formats.rows.columns import RowColumns
from reput.formats.rows.texts import Slices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes


def with_decoded_rows(data: Bytes, columns: RowColumns) -> tuple[Bytes, RowColumns]:
    """Decode the texts of rows that need it, and append them to the other bytes."""
    columns = RowColumns(*(_copy(column) for column in columns))  # type: ignore[arg-type]
    added = bytearray()
    names: list[list[tuple[int, int]]] = []
    values: list[list[tuple[int, int]]] = []

    def put(text: str) -> tuple[int, int]:
        raw = text.encode()
        added.extend(raw)
        return len(data) + len(added) - len(raw), len(raw)

    def raw(slices: Slices, row: int) -> bytes:
        return data[slices.at[row] : slices.at[row] + slices.length[row]].tobytes()

    rows = np.flatnonzero(columns.needs_decoding).tolist()
    for row in rows:
        found = properties.parse(raw(columns.raw_properties, row))
        names.append([put(name) for name in found])
        values.append([put(value) for value in found.values()])
        columns.topic.at[row], columns.topic.length[row] = put(
            strings.decode(raw(columns.topic, row))
        )
        for slices, name in (
            (columns.tags, properties.TAGS),
            (columns.keys, properties.KEYS),
            (columns.uniq_key, properties.UNIQ_KEY),
        ):
            if name in found:
                slices.at[row], slices.length[row] = values[-1][list(found).index(name)]
    # Properties go in before those of the next row: such a row has none of its own yet.
    places = np.repeat(columns.property_end[rows], [len(pairs) for pairs in names])
    more = np.zeros(len(columns.property_end), np.int32)
    more[rows] = [len(pairs) for pairs in names]
    return np.concatenate([data, np.frombuffer(bytes(added), np.uint8)]), columns._replace(
        property_end=(columns.property_end + np.cumsum(more)).astype(np.int32),
        names=_insert(columns.names, places, names),
        values=_insert(columns.values, places, values),
    )


def _copy(column: NDArray[np.generic] | Slices) -> NDArray[np.generic] | Slices:
    if isinstance(column, Slices):
        return Slices(column.at.copy(), column.length.copy())
    return column


def _insert(slices: Slices, places: NDArray[np.int32], more: list[list[tuple[int, int]]]) -> Slices:
    pairs = np.array([pair for row in more for pair in row], np.int64).reshape(-1, 2)
    return Slices(
        np.insert(slices.at, places, pairs[:, 0]), np.insert(slices.length, places, pairs[:, 1])
    )
