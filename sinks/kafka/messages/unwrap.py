"""Rows of batches that a consumer unwraps: a BatchCQ topic's record becomes a row a message.

====== ========= =====================================================
offset size      field of a message in a batch's body
====== ========= =====================================================
     0 4         bytes of the message
     4 4         magic, not used
     8 4         body CRC, not used
    12 4         flag
    16 4 + n     body
20 + n 2 + p     properties, see `formats.rocketmq.properties`
====== ========= =====================================================

Messages have the record's place, times and sysFlag; their queue offsets follow one another from the
record's on. A body that does not add up is left as it is: one message, as it is stored.
Source: RocketMQ `PullAPIWrapper#processPullResult`, `MessageDecoder#decodeMessage`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.rocketmq import properties
from reput.formats.rocketmq.commitlog import INNER_BATCH, NEED_UNWRAP
from reput.formats.rows.columns import RowColumns
from reput.formats.rows.texts import Slices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

_HEAD = struct.Struct(">iiiii")
_LENGTH = struct.Struct(">H")
_WRAPPED = INNER_BATCH | NEED_UNWRAP


class Inner(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: dict[str, str]


def is_wrapped(sys_flags: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Tell by row whether it is a batch."""
    found: NDArray[np.bool_] = (sys_flags & _WRAPPED) == _WRAPPED
    return found


def inner_messages(body: bytes) -> list[Inner]:
    """Return the messages of a batch's body, none if it does not add up."""
    found = []
    at = 0
    try:
        while at < len(body):
            size, _, _, flag, length = _HEAD.unpack_from(body, at)
            body_at = at + _HEAD.size
            properties_at = body_at + length + _LENGTH.size
            (properties_length,) = _LENGTH.unpack_from(body, body_at + length)
            if length < 0 or at + size != properties_at + properties_length:
                return []
            raw = body[properties_at : at + size]
            if len(raw) != properties_length:
                return []
            parsed = properties.parse(raw)
            found.append(Inner(flag, body[body_at : body_at + length], parsed))
            at += size
    except struct.error:
        return []
    return found


def unwrapped(data: Bytes, columns: RowColumns, pad: int) -> tuple[Bytes, RowColumns]:
    """Return rows with each batch's messages in its place.

    Args:
        data: the bytes that the columns have slices of.
        columns: rows.
        pad: bytes to leave after what is added, for kernels that load words.
    """
    batches: dict[int, list[Inner]] = {}
    for row in np.flatnonzero(is_wrapped(columns.sys_flag)).tolist():
        at = int(columns.body.at[row])
        found = inner_messages(data[at : at + int(columns.body.length[row])].tobytes())
        if found:
            batches[row] = found
    if not batches:
        return data, columns
    counts = np.ones(len(columns.size), np.int64)
    counts[list(batches)] = [len(found) for found in batches.values()]
    taken = np.repeat(np.arange(len(counts)), counts)
    rows = _Rows(len(data), _taken(columns, taken))
    firsts = np.cumsum(counts) - counts
    for row, found in batches.items():
        for number, inner in enumerate(found):
            rows.put(int(firsts[row]) + number, number, inner)
    names, values, ends = _properties(columns, taken, rows.pairs)
    pieces = [data, np.frombuffer(bytes(rows.added) + bytes(pad), np.uint8)]
    columns = rows.columns._replace(names=names, values=values, property_end=ends)
    return np.concatenate(pieces), columns


class _Rows:
    """Rows with room for the messages of batches, which are put there one by one.

    Attributes:
        columns: the rows, without properties.
        added: bytes that follow the others.
        pairs: by row: where names and values of its properties are, and how long.
    """

    def __init__(self, start: int, columns: RowColumns) -> None:
        """Begin without any of the messages.

        Args:
            start: where the bytes that are added begin.
            columns: rows, one for each message.
        """
        self._start = start
        self.columns = columns
        self.added = bytearray()
        self.pairs: dict[int, list[tuple[tuple[int, int], tuple[int, int]]]] = {}

    def put(self, row: int, number: int, inner: Inner) -> None:
        """Make a row that of a message.

        Args:
            row: its number.
            number: of the message within its batch.
            inner: the message.
        """
        columns = self.columns
        columns.queue_offset[row] += number
        columns.flag[row] = inner.flag
        columns.body.at[row], columns.body.length[row] = self._add(inner.body)
        self.pairs[row] = [
            (self._add_text(name), self._add_text(value))
            for name, value in inner.properties.items()
        ]
        for slices, name in (
            (columns.tags, properties.TAGS),
            (columns.keys, properties.KEYS),
            (columns.uniq_key, properties.UNIQ_KEY),
        ):
            text = inner.properties.get(name)
            slices.at[row], slices.length[row] = self._add_text(text) if text else (0, 0)

    def _add(self, raw: bytes) -> tuple[int, int]:
        """Add bytes; return where they are and how many."""
        at = self._start + len(self.added)
        self.added += raw
        return at, len(raw)

    def _add_text(self, text: str) -> tuple[int, int]:
        return self._add(text.encode("utf-8", "replace"))


def _taken(columns: RowColumns, taken: NDArray[np.int64]) -> RowColumns:
    """Return the chosen rows, as copies; properties are not rows and stay as they are."""

    def take(name: str, column: NDArray[np.generic] | Slices) -> NDArray[np.generic] | Slices:
        if name in {"names", "values"}:
            return column
        if isinstance(column, Slices):
            return Slices(column.at[taken], column.length[taken])
        return column[taken]

    return RowColumns(*map(take, columns._fields, columns))  # type: ignore[arg-type]


def _properties(
    columns: RowColumns,
    taken: NDArray[np.int64],
    pairs: dict[int, list[tuple[tuple[int, int], tuple[int, int]]]],
) -> tuple[Slices, Slices, NDArray[np.int32]]:
    """Return names and values of all rows in their order, and where each row's end."""
    begins = np.concatenate([[0], columns.property_end[:-1]])
    names: list[NDArray[np.int64]] = []
    values: list[NDArray[np.int64]] = []
    ends = np.zeros(len(taken), np.int32)
    total = 0
    for new, row in enumerate(taken.tolist()):
        if new in pairs:
            own = np.array(pairs[new], np.int64).reshape(-1, 2, 2)
            names.append(own[:, 0])
            values.append(own[:, 1])
            total += len(own)
        else:
            span = slice(int(begins[row]), int(columns.property_end[row]))
            for piles, slices in ((names, columns.names), (values, columns.values)):
                piles.append(np.stack([slices.at[span], slices.length[span]], axis=1))
            total += span.stop - span.start
        ends[new] = total
    return _slices(names), _slices(values), ends


def _slices(piles: list[NDArray[np.int64]]) -> Slices:
    pairs = np.concatenate(piles).reshape(-1, 2)
    return Slices(pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int32))
