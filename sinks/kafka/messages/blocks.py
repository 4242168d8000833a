"""Reads a range of the log for Kafka: rows of its records, a block at a time, in log order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.errors import BodyError
from reput.formats.rocketmq import bodies
from reput.formats.rocketmq.commitlog import COMPRESSED, Verdict
from reput.formats.rows import columns as rows
from reput.formats.rows.columns import RowColumns
from reput.formats.rows.malformed import with_decoded_rows
from reput.formats.rows.texts import Slices
from reput.sinks.kafka.client.settings import DECOMPRESSED
from reput.sinks.kafka.messages.unwrap import is_wrapped, unwrapped
from reput.stores.log.commitlog import PAD
from reput.stores.log.unreadable import corruption

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes
    from reput.sinks.kafka.client.settings import KafkaSettings
    from reput.stores.log.commitlog import CommitLog

_ROWS = 20_000
_PROPERTIES = 16 * _ROWS
_BLOCK_BYTES = 4 << 20
# Decompressed bytes in a block at most; a single larger body is the only compressed one of its
# block.
_DECOMPRESSED_BYTES = 16 << 20


class RowBlock(NamedTuple):
    """Rows, and how far the log is read with them.

    Attributes:
        data: the bytes that the columns have slices of.
        columns: of the rows.
        reached: physical offset after the last one, or after a BLANK there.
    """

    data: Bytes
    columns: RowColumns
    reached: int


class RowReader:
    """Reads one store's log into columns that are used again for each block."""

    def __init__(self, log: CommitLog, *, decompresses: bool, block_bytes: int) -> None:
        self._log = log
        self._block_bytes = min(block_bytes, _BLOCK_BYTES)
        self._columns = RowColumns.of(_ROWS, _PROPERTIES)
        self._decompresses = decompresses

    @classmethod
    def of_messages(cls, log: CommitLog, settings: KafkaSettings) -> RowReader:
        """Return a reader of what goes to Kafka as an operator's settings say."""
        return cls(
            log,
            decompresses=settings.body == DECOMPRESSED,
            block_bytes=settings.transaction_bytes,
        )

    def blocks(self, start: int, end: int, gaps: Mapping[int, int]) -> Iterator[RowBlock]:
        """Yield the records that start in [`start`, `end`); a block counts until the next one.

        Args:
            start: physical offset of a record, or of a file's beginning.
            end: physical offset.
            gaps: where something stands that is not a record, and where to resume, as dispatch has
                passed over it.

        Raises:
            FormatError: something else is not a record.
        """
        log, position, length = self._log, start, self._block_bytes
        while position < end:
            if position in gaps:
                position = gaps[position]
                yield RowBlock(np.zeros(1, np.uint8), _first(self._columns, 0), position)
                continue
            file_end = log.base_of(position) + log.file_size
            data = log.read(position, min(length, file_end - position))
            verdict, reached = Verdict.FULL, position
            while verdict == Verdict.FULL:
                verdict, reached, count = self._parse(data, position, reached, end)
                following = file_end if verdict == Verdict.ROLL else reached
                if count or verdict == Verdict.ROLL:
                    block = self._block(data, count, following)
                    if block.reached != following:
                        verdict, reached = Verdict.FULL, block.reached
                    yield block
            if verdict == Verdict.ROLL:
                position = file_end
            elif verdict == Verdict.SHORT and position + length < file_end:
                # A record that is longer than the block, or only its last one.
                length = length * 2 if reached == position else self._block_bytes
                position = reached
            elif verdict == Verdict.RECORD or reached in gaps:
                position = reached
            else:
                raise corruption(log, reached, verdict)

    def _parse(
        self, data: Bytes, position: int, reached: int, end: int
    ) -> tuple[Verdict, int, int]:
        log = self._log
        file_end = log.base_of(position) + log.file_size
        verdict, at, count = rows.read_rows(
            data,
            PAD + reached - position,
            PAD + min(end, file_end) - position,
            len(data) - PAD,
            position - PAD,
            file_end,
            log.rules,
            self._columns,
        )
        return Verdict(verdict), int(at) - PAD + position, int(count)

    def _block(self, data: Bytes, count: int, reached: int) -> RowBlock:
        """Return rows, or the first of them where their bodies become large."""
        columns = _first(self._columns, count)
        if columns.needs_decoding.any():
            data, columns = with_decoded_rows(data, columns)
        if self._decompresses and (columns.sys_flag & COMPRESSED).any():
            data, columns, following = self._decompressed(data, columns)
            reached = reached if following is None else following
        if self._decompresses and is_wrapped(columns.sys_flag).any():
            data, columns = unwrapped(data, columns, PAD)
        return RowBlock(data, columns, reached)

    def _decompressed(
        self, data: Bytes, columns: RowColumns
    ) -> tuple[Bytes, RowColumns, int | None]:
        """Lay the bodies after the other bytes as their producers had them.

        Some kilobytes can stand for 64 MiB: the rows end where `_DECOMPRESSED_BYTES` are reached.

        Returns:
            Bytes and columns, and the physical offset of the first row that is left out.
        """
        following = None
        body = Slices(columns.body.at.copy(), columns.body.length.copy())
        added: list[bytes] = []
        end = len(data)
        for row in np.flatnonzero(columns.sys_flag & COMPRESSED).tolist():
            at = int(body.at[row])
            raw = data[at : at + int(body.length[row])].tobytes()
            found = bodies.decompressed(raw, int(columns.sys_flag[row]))
            if found.problem is not None:
                path, byte = self._log.file_of(int(columns.physical_offset[row]))
                raise BodyError(
                    path,
                    byte,
                    f"the body of this record is {found.problem}",
                    'Send bodies as they are stored: body = "stored".',
                )
            plain = found.data
            if added and end - len(data) + len(plain) > _DECOMPRESSED_BYTES:
                following = int(columns.physical_offset[row])
                columns = _first(columns, row)
                body = Slices(body.at[:row], body.length[:row])
                break
            body.at[row], body.length[row] = end, len(plain)
            added.append(plain)
            end += len(plain)
        # Kernels load whole words: as many bytes as follow the log's own.
        pieces = [data, np.frombuffer(b"".join(added) + bytes(PAD), np.uint8)]
        return np.concatenate(pieces), columns._replace(body=body), following


def _first(columns: RowColumns, count: int) -> RowColumns:
    """Return the columns cut to their first rows, and to the properties of these."""
    total = int(columns.property_end[count - 1]) if count else 0

    def cut(name: str, column: NDArray[np.generic] | Slices) -> NDArray[np.generic] | Slices:
        length = total if name in {"names", "values"} else count
        if isinstance(column, Slices):
            return Slices(column.at[:length], column.length[:length])
        return column[:length]

    return RowColumns(*map(cut, columns._fields, columns))  # type: ignore[arg-type]
