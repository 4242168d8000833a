"""Writes consume queue extensions: units appended one after another, by queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.rocketmq import consumequeue_ext, names
from reput.formats.rocketmq.consumequeue_ext import END_MARK, MAX_UNIT_SIZE, SPARE, TRIES, Unit
from reput.sinks.files.unit_queue import UnitQueue, UnitSink

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.names import QueueName
    from reput.sinks.files.file_queue import FileQueue


class ExtSink(UnitSink["_ExtQueue"]):
    """All extensions of one output root."""

    def __init__(self, root: Path, staging: Path, file_size: int) -> None:
        """Open no queue yet; see `UnitSink`."""
        super().__init__(root / names.CONSUMEQUEUE_EXT, staging, file_size, _ExtQueue)

    def append(self, name: QueueName, unit: Unit) -> int | None:
        """Append a unit and return its address; None if it is too large to be stored.

        Raises:
            OSError: no space, no permission.
        """
        if unit.size > MAX_UNIT_SIZE:
            return None
        if unit.size > self._file_size - SPARE:
            self.queue(name).give_up()
            return None
        return consumequeue_ext.address(self.queue(name).write(unit.pack()))


class _ExtQueue(UnitQueue):
    """The units of one queue; a file that is left says so."""

    def __init__(self, files: FileQueue) -> None:
        data = b"" if files.base is None else files.path(files.base).read_bytes()
        wrote = end_of_units(data)
        is_ended = data[wrote:].startswith(END_MARK)
        super().__init__(files, files.file_size if is_ended else wrote, SPARE)

    def end_file(self) -> None:
        if self.wrote + len(END_MARK) <= self.files.file_size:
            self.files.room(self.wrote, len(END_MARK))
            self.files.last().write(self.wrote, END_MARK)

    def give_up(self) -> None:
        """End this file and the next ones for a unit that fits into none, as a broker does.

        Each try finds too little room, says that the file has ended and continues in the next one
        (`ConsumeQueueExt#put`). Files this small take an odd setting.
        """
        for _ in range(TRIES):
            if self.files.base is None or self.wrote == self.files.file_size:
                self.files.add(self.end)
                self.wrote = self.flushed = 0
            self.end_file()
            self.wrote = self.files.file_size


def end_of_units(data: bytes) -> int:
    """Return the byte after the last unit of a file.

    Raises:
        ValueError: the sizes of some unit do not add up.
    """
    at = 0
    while (unit := consumequeue_ext.unpack(data, at)) is not None:
        at += unit.size
    return at
