"""Where the next bytes come: the log's end, and the ends of queues that pulls wait for.

Nothing stands at such a spot until a record is appended, or an entry is written.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import ReputError
from reput.stores.log.files import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput.stores.query.message_store import MessageStore
    from reput.stores.queues.open_queues import AnyQueue

    Key = tuple[str, int]

# Queues that are watched this way; others are looked at in turn.
MOST_SPOTS = 256


class Spot(NamedTuple):
    """A place in a file.

    Attributes:
        descriptor: of the file.
        position: where nothing stands yet.
        key: topic and queue id; None for the log.
    """

    descriptor: int
    position: int
    key: Key | None


class Spots:
    """The spots of one store, with descriptors of its own."""

    def __init__(self, store: MessageStore) -> None:
        """Open nothing yet."""
        self._store = store
        self._log: tuple[tuple[int, int, int], int] | None = None
        # By queue: the file, with what tells that it is still the same queue.
        self._files: dict[Key, tuple[object, int, int]] = {}

    def of_log(self, position: int) -> Spot | None:
        """Return the spot at a physical offset, None where the file is not there."""
        log = self._store.log
        known = log.base_of(position), log.taken, self._store.presence.cuts
        if self._log is None or self._log[0] != known:
            self._close_log()
            try:
                self._log = known, log.open_file(known[0])
            except (LogChangedError, OSError):
                return None
        return Spot(self._log[1], position - known[0], None)

    def of_queues(self, keys: Iterable[Key]) -> list[Spot]:
        """Return the spots of queues; those whose file is not there, or not readable, have none."""
        found = []
        files: dict[Key, tuple[object, int, int]] = {}
        for key in keys:
            queue = self._queue(key)
            if queue is None:
                continue
            base = queue.end - queue.end % queue.files.file_size
            known = self._files.pop(key, None)
            if known is not None and known[:2] != (queue, base):
                os.close(known[2])
                known = None
            if known is None:
                try:
                    descriptor = os.open(queue.files.path(base), os.O_RDONLY | os.O_CLOEXEC)
                except OSError:
                    continue
                known = queue, base, descriptor
            files[key] = known
            found.append(Spot(known[2], queue.end - base, key))
        self._close_files()
        self._files = files
        return found

    def position_of(self, key: Key) -> int | None:
        """Return where in its file a queue ends now, None where that cannot be told."""
        queue = self._queue(key)
        return None if queue is None else queue.end % queue.files.file_size

    def _queue(self, key: Key) -> AnyQueue | None:
        try:
            return self._store.queue(*key)
        except (ReputError, OSError):
            # The looks of `Watch` meet it too, and say it.
            return None

    def _close_log(self) -> None:
        if self._log is not None:
            os.close(self._log[1])
        self._log = None

    def _close_files(self) -> None:
        for _, _, descriptor in self._files.values():
            os.close(descriptor)
        self._files = {}

    def close(self) -> None:
        """Close the files."""
        self._close_log()
        self._close_files()
