"""Follows what becomes of a served store's files, and of its topics, while clients are answered."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError, StoreError
from reput.remoting.server.topics import topics_of

if TYPE_CHECKING:
    import asyncio

    from reput.remoting.counting.counters import Counters
    from reput.remoting.holding.pulls import Pulls
    from reput.remoting.names.known import Topic
    from reput.stores.query.message_store import MessageStore

LOG = logging.getLogger("reput")

# Topics that come later are known after this, in seconds; clients ask for routes each 30 s.
_TOPICS_SECONDS = 5.0


class Following:
    """The files of one store, and its topics.

    Attributes:
        topics: by name, as of the last look.
    """

    def __init__(
        self,
        store: MessageStore,
        pulls: Pulls,
        topics: dict[str, Topic],
        counters: Counters,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Look at nothing yet.

        Args:
            store: what is served.
            pulls: are told of what has come.
            topics: as they are now; kept up to date.
            counters: what is told of the store.
            loop: where it is served.
        """
        self._store, self._pulls, self._counters, self._loop = store, pulls, counters, loop
        self.topics = topics
        # Thousands of directories are listed.
        self._thread = ThreadPoolExecutor(1, "topics")
        self._looking: asyncio.Future[dict[str, Topic]] | None = None
        self._looked_at = loop.time()
        self._generation = store.presence.generation
        self._is_away = False
        self._problem = ""

    def tick(self) -> None:
        """Look at the files; call it each second."""
        try:
            self._pulls.follow()
        except StoreError as error:
            if not self._is_away:
                self._is_away = True
                LOG.error("clients are told to try again: %s", error)  # noqa: TRY400 - no traceback
                self._counters.ready(is_ready=False)
            return
        if self._is_away:
            self._is_away = False
            LOG.info("the store's files are back: clients are served again")
            self._counters.ready(is_ready=True)
        self._tell(self._store.log.problem)
        has_changed = self._store.presence.generation != self._generation
        if has_changed or self._loop.time() - self._looked_at >= _TOPICS_SECONDS:
            self._look_at_topics()

    def _tell(self, problem: ReputError | None) -> None:
        """Log what is wrong once."""
        said = "" if problem is None else str(problem)
        if said and said != self._problem:
            LOG.warning("what was there before is served: %s", said)
        self._problem = said

    def _look_at_topics(self) -> None:
        if self._looking is not None:
            return
        self._generation = self._store.presence.generation
        self._looked_at = self._loop.time()
        self._looking = self._loop.run_in_executor(self._thread, topics_of, self._store)
        self._looking.add_done_callback(self._take_topics)

    def _take_topics(self, done: asyncio.Future[dict[str, Topic]]) -> None:
        self._looking = None
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            if not isinstance(error, (ReputError, OSError)):
                raise error
            LOG.warning("the topics before it are served: %s", error)
            return
        found = done.result()
        if found != self.topics and self._store.presence.away is None:
            self.topics.clear()
            self.topics.update(found)

    def close(self) -> None:
        """End the thread; what it reads is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
