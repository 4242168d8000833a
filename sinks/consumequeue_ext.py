"""Writes consume queue extensions: units appended one after another, by queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats import consumequeue_ext, names
from formats.consumequeue_ext import END_MARK, MAX_UNIT_SIZE, SPARE, Unit
from sinks.file_queue import FileQueue

if TYPE_CHECKING:
    from pathlib import Path

    from sinks.queues import QueueName


class ExtSink:
    """All extensions of one output root."""

    def __init__(self, root: Path, staging: Path, file_size: int) -> None:
        """Open no queue yet.

        Args:
            root: the output root.
            staging: see `MappedFile.create`.
            file_size: bytes of each file.
        """
        self._directory = root / names.CONSUMEQUEUE_EXT
        self._staging = staging
        self._file_size = file_size
        self._queues: dict[QueueName, _ExtQueue] = {}

    def append(self, name: QueueName, unit: Unit) -> int | None:
        """Append a unit and return its address; None if it is too large to be stored.

        Raises:
            OSError: no space, no permission.
        """
        if unit.size > min(MAX_UNIT_SIZE, self._file_size - SPARE):
            return None
        queue = self._queues.get(name)
        if queue is None:
            path = self._directory / name.topic / str(name.queue_id)
            queue = _ExtQueue(FileQueue(path, self._file_size, self._staging))
            self._queues[name] = queue
        return consumequeue_ext.address(queue.append(unit.pack()))

    def flush(self) -> None:
        """Have every unit on disk that was appended."""
        for queue in self._queues.values():
            queue.flush()

    def close(self) -> None:
        """Give all maps back."""
        for queue in self._queues.values():
            queue.files.close()
        self._queues = {}


class _ExtQueue:
    """The units of one queue; `wrote` counts bytes in the last file."""

    def __init__(self, files: FileQueue) -> None:
        self.files = files
        self.wrote = 0 if files.base is None else _end_of_units(files.last().data.tobytes())
        self.flushed = self.wrote

    def append(self, raw: bytes) -> int:
        files = self.files
        if files.base is None:
            files.add(0)
        elif self.wrote + len(raw) > files.file_size - SPARE:
            self._mark_end()
            files.add(files.bases[-1] + files.file_size)
            self.wrote = self.flushed = 0
        files.room(self.wrote, len(raw))
        files.last().write(self.wrote, raw)
        at = files.bases[-1] + self.wrote
        self.wrote += len(raw)
        return at

    def _mark_end(self) -> None:
        if self.wrote + len(END_MARK) <= self.files.file_size:
            self.files.room(self.wrote, len(END_MARK))
            self.files.last().write(self.wrote, END_MARK)

    def flush(self) -> None:
        self.files.flush(self.flushed, self.wrote)
        self.flushed = self.wrote


def _end_of_units(data: bytes) -> int:
    at = 0
    while (unit := consumequeue_ext.unpack(data, at)) is not None:
        at += unit.size
    return at
