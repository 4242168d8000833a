"""Writes blocks to consume queues: entries in turn by a kernel, all other records one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import ReputError, StoreError

if TYPE_CHECKING:
    from reput.sinks.files.consumequeue import ConsumeQueueSink
    from reput.sinks.files.special import SpecialSink
    from reput.sinks.sink import Rows
    from reput.streaming.dispatch.admission import Admission
    from reput.streaming.dispatch.blocks.parser import Parser


class QueueWriter:
    """All queues of an output as one sink: plain ones, extensions, and those of batches."""

    name = "consumequeue"

    def __init__(
        self,
        entries: ConsumeQueueSink,
        special: SpecialSink,
        parser: Parser,
        admission: Admission,
    ) -> None:
        """Write nothing yet.

        Args:
            entries: takes plain entries.
            special: takes records that are more than one plain entry.
            parser: reads those.
            admission: decides whether a record that is out of turn is put, or has to wait.
        """
        self._entries = entries
        self._special = special
        self._parser = parser
        self._admission = admission

    def write(self, block: Rows) -> None:
        """Put the records of a block; end it before one that cannot be put, or has to wait.

        Raises:
            StoreError: a queue is not as the output's record says; somebody has touched it.
            OSError: no space, no permission.
        """
        entries, columns = self._entries, block.columns
        entries.begin_block()
        row = entries.put(columns, 0, block.count)
        while row < block.count:
            try:
                if columns.special[row]:
                    self._put_special(block, row)
                elif entries.is_out_of_turn(columns, row) and not self._is_settled(block, row):
                    block.end_before(row)
                    return
                else:
                    entries.put_row(columns, row)
            except StoreError:
                # The record is right, and the next one would be put into the same files.
                raise
            except ReputError as error:
                block.end_before(row, error)
                return
            row = entries.put(columns, row + 1, block.count)

    def _put_special(self, block: Rows, row: int) -> None:
        columns = block.columns
        position, size = int(columns.physical_offset[row]), int(columns.size[row])
        if not self._special.put(self._parser.record_at(position, size)):
            block.without_entry.add(row)

    def _is_settled(self, block: Rows, row: int) -> bool:
        columns = block.columns
        return self._admission.is_settled(int(columns.physical_offset[row]), int(columns.size[row]))

    def flush(self) -> None:
        """Sync all queues to disk."""
        self._entries.flush()
        self._special.flush()

    def close(self) -> None:
        """Give all maps back."""
        self._entries.close()
        self._special.close()
