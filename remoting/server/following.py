"""Follows what becomes of a served store's files, and of its topics, while clients are answered."""

from __future__ import annotations

import logging
import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import ReputError, StoreError
from reput.remoting.server.topics import topics_of
from reput.stores.query.presence import lost_index

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from reput.remoting.counting.counters import Counters
    from reput.remoting.holding.pulls import Pulls
    from reput.remoting.names.known import Topic
    from reput.stores.query.message_store import MessageStore

LOG = logging.getLogger("reput")

# An output is looked at this often.
_DOUBT_SECONDS = 60.0
# Topics that come later are known after this, in seconds; clients ask for routes each 30 s.
_TOPICS_SECONDS = 5.0


class Topics(NamedTuple):
    """The topics of one store.

    Attributes:
        found: what the store has.
        served: what clients are told; kept up to date.
        told: returns what clients are to be told of what was found.
        changed: is called after what is served has become something else.
    """

    found: dict[str, Topic]
    served: dict[str, Topic]
    told: Callable[[Mapping[str, Topic]], dict[str, Topic]]
    changed: Callable[[], None]


class Following:
    """The files of one store, and its topics."""

    def __init__(
        self,
        store: MessageStore,
        pulls: Pulls,
        topics: Topics,
        counters: Counters,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Look at nothing yet.

        Args:
            store: what is served.
            pulls: are told of what has come.
            topics: as they are now.
            counters: what is told of the store.
            loop: where it is served.
        """
        self._store, self._pulls, self._counters, self._loop = store, pulls, counters, loop
        self._topics, self._found = topics, topics.found
        # Thousands of directories are listed.
        self._thread = ThreadPoolExecutor(1, "topics")
        self._looking: asyncio.Future[dict[str, Topic]] | None = None
        self._looked_at = loop.time()
        self._generation = store.presence.generation
        self._is_away = False
        self._problem = self._lost = self._damage = self._topics_problem = ""
        # A file of the index whose size is wrong, at the last look; one that is being made has the
        # right one soon.
        self._left_out = self._left_out_told = ""
        # Looks whether something is wrong with the output; None if nobody does.
        self._doubt: Callable[[str | None], str | None] | None = None
        self._doubted_at = 0.0
        self._doubted: str | None = None

    def doubt(self, said: str | None, look: Callable[[str | None], str | None]) -> None:
        """Say, and count, that files of the output are missing until they are there again.

        Args:
            said: which are now; None if none is.
            look: looks again, in the same words, and gets what was said last. It is called on a
                thread.
        """
        self._doubt = look
        self._doubted_at = self._loop.time()
        self._tell_of_output(said)

    def tick(self) -> None:
        """Look at the files; call it each second."""
        try:
            self._pulls.look_at_files()
        except StoreError as error:
            self._leave("clients are told to try again", error)
            return
        except (ReputError, OSError) as error:
            # No file descriptors are left, or the disk fails: what is open is served.
            self._leave("the store's files cannot be looked at, and are tried again", error)
            return
        if self._is_away:
            self._is_away = False
            LOG.info("%s: the files are back: clients are served again", self._store.root)
            self._counters.ready(is_ready=True)
        self._tell(self._store.log.problem)
        self._tell_of_damage()
        self._tell_of_index()
        if self._doubt is not None and self._loop.time() - self._doubted_at >= _DOUBT_SECONDS:
            # A disk may not answer for hours: one look at a time.
            self._doubted_at = math.inf
            looking = self._loop.run_in_executor(self._thread, self._doubt, self._doubted)
            looking.add_done_callback(self._take_doubt)
        has_changed = self._store.presence.generation != self._generation
        if has_changed or self._loop.time() - self._looked_at >= _TOPICS_SECONDS:
            self._look_at_topics()

    def _take_doubt(self, done: asyncio.Future[str | None]) -> None:
        if not done.cancelled():
            self._doubted_at = self._loop.time()
            self._tell_of_output(done.result())

    def _tell_of_output(self, said: str | None) -> None:
        """Log once that files of the output are missing, and once that they are back."""
        before, self._doubted = self._doubted, said
        if said is not None and before is None:
            LOG.error("%s", said)
        elif said is None and before is not None:
            LOG.info("%s: the output is whole again", self._store.output)

    def _leave(self, said: str, error: Exception) -> None:
        """Say once that the files are not as they should be; clients had better not come."""
        if not self._is_away:
            self._is_away = True
            LOG.error("%s: %s: %s", self._store.root, said, error)
            self._counters.ready(is_ready=False)

    def _tell(self, problem: ReputError | None) -> None:
        """Log what is wrong once."""
        said = "" if problem is None else str(problem)
        if said and said != self._problem:
            LOG.warning("%s: what was there before is served: %s", self._store.root, said)
        self._problem = said

    def _tell_of_damage(self) -> None:
        """Log once what is missing in the middle of the log; a broker serves the rest, too."""
        damages = self._store.log.damages
        self._counters.gaps(len(damages) + (self._doubted is not None))
        said = ""
        if damages:
            first = damages[0]
            more = f" (and {len(damages) - 1} more such places)" if damages[1:] else ""
            said = f"{first.path}: {first.found}{more}"
        if said and said != self._damage:
            told = "%s: consumers are led past the messages that stood there: %s. %s"
            remedy = "If the log is still being copied, end the server until it is whole"
            LOG.error(told, self._store.root, said, remedy)
        elif self._damage and not said:
            LOG.info("%s: the log has no gaps any longer", self._store.root)
        self._damage = said

    def _tell_of_index(self) -> None:
        """Log once that keys cannot be looked up; messages are served without the index."""
        problem: ReputError | OSError | None
        try:
            problem = lost_index(self._store)
        except OSError as error:
            problem = error
        said = "" if problem is None else str(problem)
        if said and said != self._lost:
            told = "%s: queries by key and unique key fail, all else is served: %s"
            LOG.error(told, self._store.root, said)
        elif self._lost and not said:
            LOG.info("%s: the index is back: keys are looked up again", self._store.root)
        self._lost = said
        if not said:
            self._tell_of_left_out(self._store.index.left_out or "")

    def _tell_of_left_out(self, path: str) -> None:
        """Log once that keys of a file are not found, as if no message had them."""
        before, self._left_out = self._left_out, path
        if path != before or path == self._left_out_told:
            return
        self._left_out_told = path
        if path:
            told = (
                "%s: the index file %s has a wrong size and is left out: queries miss its keys. %s"
            )
            remedy = "Restore it, or see that broker.conf has its maxHashSlotNum and maxIndexNum"
            LOG.error(told, self._store.root, path, remedy)
        else:
            LOG.info("%s: all index files have the right size again", self._store.root)

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
            if str(error) != self._topics_problem:
                LOG.warning("%s: the topics before it are served: %s", self._store.root, error)
            self._topics_problem = str(error)
            return
        self._topics_problem = ""
        if self._store.presence.away is None:
            self._found = done.result()
            self.publish()

    def publish(self) -> None:
        """Tell clients of the topics that were found, and of what has come to them since."""
        served = self._topics.served
        told = self._topics.told(self._found)
        if told != served:
            served.clear()
            served.update(told)
            self._topics.changed()

    def close(self) -> None:
        """End the thread; what it reads is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
