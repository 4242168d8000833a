"""Looks whether the log and the queues are still there, while a server answers from them.

Files go at any time: they expire, topics are deleted, a broker cuts its log, an operator puts a
copy in their place. What was opened is still read as if nothing had happened, so a server has
to look. It does so each second, and closes what it has of files that went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import FileSizeError, StoreError

if TYPE_CHECKING:
    from reput.stores.following.log_end import EndedLog
    from reput.stores.query.message_store import MessageStore
    from reput.stores.queues.open_queues import OpenQueues


class Presence:
    """What is there of one store, as of the last look.

    Attributes:
        away: why nothing can be read; None if it can.
        cuts: how often the log was cut, or is another one now.
    """

    def __init__(self, log: EndedLog, queues: OpenQueues) -> None:
        """Take it that all is there: it was opened just now."""
        self._log = log
        self._queues = queues
        self.away: StoreError | None = None
        self.cuts = 0

    @property
    def generation(self) -> int:
        """Return a number that grows when files are closed because they went or are others now.

        What else is kept of queues and files, such as descriptors and mappings, is void then.
        """
        return self._queues.dropped + self._log.dropped

    def look(self) -> None:
        """Look at the files again; call it each second.

        Raises:
            StoreError: the log, or all queues, are not there, or what is in their place is not
                whole. What is asked of queues raises it too, until they are back.
        """
        try:
            self._look_at_both()
        except (StoreError, FileSizeError) as error:
            if self.away is None:
                self._queues.drop_all()
                self._log.leave()
            self.away = self._queues.away = _as_away(error)
            raise self.away from error
        if self.away is not None:
            self.away = self._queues.away = None
            self.cuts += 1

    def _look_at_both(self) -> None:
        if self._log.is_uncut_now():
            self._queues.close_gone()
        else:
            # They may have entries of what was cut.
            self._queues.drop_all()
            self.cuts += 1


def _as_away(error: StoreError | FileSizeError) -> StoreError:
    if isinstance(error, StoreError):
        return error
    return StoreError(error.path, f"byte {error.position}: {error.problem}", error.remedy)


def lost_index(store: MessageStore) -> StoreError | None:
    """Return why no key can be found though a store's broker keeps an index, None if it can.

    Raises:
        OSError: the directory cannot be read.
    """
    if not store.settings.writes_index or store.index.files():
        return None
    if store.log.known_end <= store.log.min_offset:
        # A broker makes its first file with the first message.
        return None
    return StoreError(
        store.index.directory,
        "no index file of the right size is there",
        "Restore the files, or have `reput rebuild` make an output with an index",
    )
