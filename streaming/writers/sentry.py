"""Looks after the logs at rest of one process: one thread wakes up for all of them.

A wake-up costs more than the look at eight bytes that it is for, and each store's thread would have
fifty a second of its own. A second thread sees to it that the first one looks: a hanging disk holds
that one, too, and the stores then have to look for themselves.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError

if TYPE_CHECKING:
    from reput.streaming.writers.live_tail import LiveTail

_LOOK_SECONDS = 0.02
_DOUBT_SECONDS = 0.05
_LATE_SECONDS = 3 * _LOOK_SECONDS


class Post:
    """Where one store's thread rests; the sentry reads its log only meanwhile."""

    def __init__(self) -> None:
        """Rest not yet."""
        self.lock = threading.Lock()
        self.woken = threading.Event()
        self.tail: LiveTail | None = None

    def look(self) -> None:
        """Wake the thread if something new stands at the end of its log."""
        with self.lock:
            if self.tail is not None and _has_news(self.tail):
                self.woken.set()


class Sentry:
    """One thread that looks and one that sees to it, and a post for each store."""

    def __init__(self) -> None:
        """Look at nothing yet."""
        self._posts: list[Post] = []
        self._over = threading.Event()
        self._looked_at = time.monotonic()

    def start(self) -> None:
        """Begin to look."""
        self._looked_at = time.monotonic()
        for run, name in ((self._look, "sentry"), (self._doubt, "sentry's watch")):
            threading.Thread(target=run, name=name, daemon=True).start()

    def end(self) -> None:
        """Look no more; returns at once."""
        self._over.set()

    def post(self) -> Post:
        """Return a new post."""
        self._posts.append(post := Post())
        return post

    def rest(self, post: Post, tail: LiveTail, seconds: float) -> None:
        """Wait until something new stands at a log's end, or some time has passed.

        Where the sentry hangs at a store, the others look for themselves as often as it would.

        Args:
            post: the store's.
            tail: of its log.
            seconds: at most.
        """
        with post.lock:
            post.tail = tail
            post.woken.clear()
        post.woken.wait(min(seconds, _LOOK_SECONDS) if self._is_late() else seconds)
        with post.lock:
            post.tail = None

    def _look(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            for post in self._posts:
                post.look()
            self._looked_at = time.monotonic()

    def _doubt(self) -> None:
        while not self._over.wait(_DOUBT_SECONDS):
            if self._is_late():
                for post in self._posts:
                    post.woken.set()

    def _is_late(self) -> bool:
        return time.monotonic() - self._looked_at > _LATE_SECONDS


def _has_news(tail: LiveTail) -> bool:
    try:
        return tail.has_news()
    except (ReputError, OSError):
        # The store's own thread finds it, and tells it.
        return True
