"""Queues of units that stand one after another: what extensions and batch queues share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from reput.sinks.files.file_queue import FileQueue, require_end

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from reput.formats.rocketmq.names import QueueName


class UnitQueue:
    """The units of one queue; `wrote` counts bytes in the last file."""

    def __init__(self, files: FileQueue, wrote: int, spare: int = 0) -> None:
        """Continue after what is there.

        Args:
            files: the queue's.
            wrote: bytes of units in the last file.
            spare: bytes that no unit may take at a file's end.
        """
        self.files = files
        self.wrote = self.flushed = wrote
        self._spare = spare

    def write(self, raw: bytes) -> int:
        """Append a unit and return its position in the queue's files."""
        files = self.files
        if files.base is None:
            files.add(0)
        elif self.wrote + len(raw) > files.file_size - self._spare:
            self.end_file()
            files.add(files.bases[-1] + files.file_size)
            self.wrote = self.flushed = 0
        files.room(self.wrote, len(raw))
        files.last().write(self.wrote, raw)
        at = files.bases[-1] + self.wrote
        self.wrote += len(raw)
        return at

    def end_file(self) -> None:
        """Leave the last file, whose rest is too small; it needs no mark."""

    @property
    def end(self) -> int:
        """Return the byte after the last unit, from the queue's beginning."""
        return self.files.bases[-1] + self.wrote if self.files.bases else 0

    def flush(self) -> None:
        """Flush every unit that was appended."""
        self.files.flush(self.flushed, self.wrote)
        self.flushed = self.wrote


Queue = TypeVar("Queue", bound=UnitQueue)


class UnitSink(Generic[Queue]):
    """The queues of one kind in an output root, each opened by its first unit."""

    def __init__(
        self,
        directory: Path,
        staging: Path,
        file_size: int,
        open_queue: Callable[[FileQueue], Queue],
    ) -> None:
        """Open no queue yet.

        Args:
            directory: of all queues of the kind.
            staging: see `MappedFile.create`.
            file_size: bytes of each file.
            open_queue: finds the end of a queue's units.
        """
        self._directory = directory
        self._staging = staging
        self._file_size = file_size
        self._open_queue = open_queue
        self._queues: dict[QueueName, Queue] = {}
        # See `Progress.queues`: where queues end that are opened later.
        self.recorded_ends: Mapping[str, int] = {}

    def queue(self, name: QueueName) -> Queue:
        """Return a queue, opened."""
        queue = self._queues.get(name)
        if queue is None:
            path = self._directory / name.topic / str(name.queue_id)
            queue = self._open_queue(FileQueue(path, self._file_size, self._staging))
            require_end(path, queue.end, self.recorded_ends.get(self._directory_of(queue)))
            self._queues[name] = queue
        return queue

    def positions(self) -> dict[str, int]:
        """Return where the queues end that were written to, see `Progress.queues`."""
        return {self._directory_of(queue): queue.end for queue in self._queues.values()}

    def firsts(self) -> dict[str, int]:
        """Return where the oldest files of queues begin, see `Progress.firsts`."""
        return {
            self._directory_of(queue): queue.files.bases[0]
            for queue in self._queues.values()
            if queue.files.bases and queue.files.bases[0]
        }

    def _directory_of(self, queue: Queue) -> str:
        """Return a queue's directory below the output root, as in `Progress.queues`."""
        return queue.files.directory.relative_to(self._directory.parent).as_posix()

    def flush(self) -> None:
        """Flush every unit that was appended."""
        for queue in self._queues.values():
            queue.flush()

    def close(self) -> None:
        """Give all maps back."""
        for queue in self._queues.values():
            queue.files.close()
        self._queues = {}
