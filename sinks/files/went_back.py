"""A queue whose entries may be of a log that is gone: its next record tells."""

from __future__ import annotations

from reput.formats.errors import ReputError


class WentBackError(ReputError):
    """A record's number is that of an entry, and nothing says that the log still had its record.

    Attributes:
        queue: the record's queue, as in `Progress.queues`.
        queue_offset: the record's.
    """

    def __init__(self, queue: str, queue_offset: int) -> None:
        """Take both over."""
        super().__init__(f"{queue}: {queue_offset} is the number of an entry that may be stale")
        self.queue = queue
        self.queue_offset = queue_offset
