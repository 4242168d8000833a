"""Keeps messages beside the event loop: one thread writes, and clients wait for what is on disk.

What comes while the thread writes is written together, with one flush.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import ReputError, StoreError
from reput.formats.rocketmq.broker import BrokerSettings
from reput.formats.rocketmq.names import DEAD_LETTERS, RETRY
from reput.remoting.keeping.kept import FullError, Kept, Rules
from reput.remoting.keeping.log import FILE_SIZE, FIRST
from reput.remoting.keeping.queues import FILE_SIZE as QUEUE_SIZE
from reput.stores.query.message_store import MessageStore

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, KeysView
    from concurrent.futures import Executor
    from pathlib import Path

    from reput.formats.rocketmq.encode import Message
    from reput.remoting.keeping.log import Placed

    Put = tuple[Message, asyncio.Future[Placed]]

LOG = logging.getLogger("reput")
# Each waiting client has one message here; what others send is not taken.
_MOST_WAITING_BYTES = 64 << 20
_TOGETHER_BYTES = 4 << 20
_EXPIRE_SECONDS = 60.0
# After an error of the disk.
_PAUSE_MS = 5000
# An error that stays is said again after this: many messages may meet it each second.
_SAID_SECONDS = 60.0
_HOUR_MS = 3_600_000
RESERVED_HOURS = 72
"""A broker's own `fileReservedTime`."""


class _Done(NamedTuple):
    """What a turn of the thread has come to.

    Attributes:
        puts: for each message that was to be put, where it is on disk, or why it is not.
        next_due_ms: when the next one is due.
        last_file: where the log's last file begins.
    """

    puts: list[Placed | Exception]
    next_due_ms: int | None
    last_file: int


class Keeper:
    """What consumers of one store have sent back; a `remoting.reading.served.KeptStore`."""

    def __init__(
        self,
        kept: Kept,
        store: MessageStore,
        loop: asyncio.AbstractEventLoop,
        beside: Executor,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Deliver what is due from the first `tick` on.

        Args:
            kept: the messages; closed with this.
            store: reads them; closed with this.
            loop: where questions are answered.
            beside: a single thread that writes.
            clock: seconds since 1970.
        """
        self._kept = kept
        self._store = store
        self._loop = loop
        self._beside = beside
        self._clock = clock
        self._puts: list[Put] = []
        self._put_bytes = 0
        self._job: asyncio.Future[_Done] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._next_due_ms = kept.next_due_ms
        self._expired_at = loop.time()
        self._last_file = kept.last_file
        self._is_away = False
        # By what failed and how, when it was said last.
        self._said_at: dict[tuple[str, int | None], float] = {}
        # By topic, the queue of it that is ours.
        self._ids: dict[str, int] = {}
        for topic, queue_id in kept.queues.ends:
            if topic.startswith((RETRY, DEAD_LETTERS)):
                self._ids[topic] = max(queue_id, self._ids.get(topic, 0))

    @property
    def store(self) -> MessageStore:
        """Return what reads the messages."""
        return self._store

    def has(self, topic: str, queue_id: int) -> bool:
        """Tell whether a queue is one of its own."""
        return self._ids.get(topic) == queue_id

    def holds(self, physical_offset: int) -> bool:
        """Tell whether an offset is one of its log."""
        return physical_offset >= FIRST

    def topics(self) -> KeysView[str]:
        """Return the topics in which it has a queue."""
        return self._ids.keys()

    def id_in(self, topic: str) -> int:
        """Return the id of its queue of one of its topics."""
        return self._ids[topic]

    def queue_of(self, topic: str, others: int) -> int:
        """Return the id of its queue of a topic; the same one from then on.

        Args:
            topic: of a group.
            others: queues that the store itself has of it.
        """
        return self._ids.setdefault(topic, max(others, 1))

    def put(self, message: Message) -> asyncio.Future[Placed]:
        """Keep a message; the future ends once it is on disk, with its place.

        The future's error is a `FullError`, ValueError or OSError.
        """
        future: asyncio.Future[Placed] = self._loop.create_future()
        if self._put_bytes > _MOST_WAITING_BYTES:
            future.set_exception(FullError("the disk takes messages too slowly"))
            return future
        self._puts.append((message, future))
        self._put_bytes += len(message.body)
        self._go()
        return future

    def tick(self) -> None:
        """Do what is due; call it every second or so."""
        self._tell_away()
        self._go()

    def _tell_away(self) -> None:
        """Say once that the files are gone: what needs them fails, and the store is served."""
        away = self._store.presence.away
        if away is not None and not self._is_away:
            LOG.error(
                "%s: messages that were sent back cannot be read, nor others kept: %s: %s. Put the "
                "directory back; or start the server again, without them",
                self._store.root,
                away.path,
                away.problem,
            )
        elif self._is_away and away is None:
            LOG.info("%s: messages that were sent back are there again", self._store.root)
        self._is_away = away is not None

    def _go(self) -> None:
        """Let the thread write, if there is something to write and it is idle."""
        if self._job is not None:
            return
        now_ms = int(self._clock() * 1000)
        expires = self._loop.time() - self._expired_at >= _EXPIRE_SECONDS
        is_due = self._next_due_ms is not None and self._next_due_ms <= now_ms
        if not (self._puts or is_due or expires):
            self._wait(now_ms)
            return
        if expires:
            self._expired_at = self._loop.time()
        puts = self._next_puts()
        messages = [message for message, _ in puts]
        self._job = self._loop.run_in_executor(
            self._beside, lambda: self._turn(messages, now_ms, expires=expires)
        )
        self._job.add_done_callback(lambda job: self._after(job, puts))

    def _next_puts(self) -> list[Put]:
        count, size = 0, 0
        for message, _ in self._puts:
            size += len(message.body)
            count += 1
            if size >= _TOGETHER_BYTES:
                break
        puts, self._puts = self._puts[:count], self._puts[count:]
        self._put_bytes -= size
        return puts

    def _wait(self, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._next_due_ms is not None:
            seconds = max(self._next_due_ms - now_ms, 1) / 1000
            self._timer = self._loop.call_later(seconds, self._go)

    def _turn(self, messages: list[Message], now_ms: int, *, expires: bool) -> _Done:
        """Write; on the thread."""
        kept = self._kept
        puts = self._put_all(messages, now_ms)
        has_failed = any(isinstance(each, OSError) for each in puts)
        try:
            kept.deliver(now_ms)
            if expires:
                kept.expire(now_ms)
        except OSError as error:
            self._say("delivered, and are tried again", error)
            has_failed = True
        due = kept.next_due_ms
        if has_failed and due is not None:
            due = max(due, now_ms + _PAUSE_MS)
        return _Done(puts, due, kept.last_file)

    def _put_all(self, messages: list[Message], now_ms: int) -> list[Placed | Exception]:
        try:
            return [*self._kept.put(messages, now_ms)]
        except (ValueError, ReputError) as error:
            if len(messages) == 1:
                return [error]
            # One of them is to blame, or there is room for some.
            return [each for one in messages for each in self._put_all([one], now_ms)]
        except OSError as error:
            self._say("kept, and their consumers try them again", error)
            return [error] * len(messages)

    def _say(self, what: str, error: OSError) -> None:
        """Log an error of the disk; where the files are gone, only a new start makes others."""
        kind, now = (what, error.errno), time.monotonic()
        if now - self._said_at.get(kind, -math.inf) < _SAID_SECONDS:
            return
        self._said_at[kind] = now
        LOG.error(
            "%s: messages that were sent back could not be %s: %s. Give the disk room, or mend it; "
            "where files were removed, start the server again",
            self._store.root,
            what,
            error,
        )

    def _after(self, job: asyncio.Future[_Done], puts: list[Put]) -> None:
        """Take in what the thread did; on the event loop."""
        self._job = None
        error = job.exception()
        if error is not None:
            LOG.error("%s: what was sent back could not be kept", self._store.root, exc_info=error)
            for _, future in puts:
                _end(future, RuntimeError(str(error)))
            self._next_due_ms = int(self._clock() * 1000) + _PAUSE_MS
            return
        done = job.result()
        self._next_due_ms = done.next_due_ms
        if done.last_file != self._last_file:
            self._last_file = done.last_file
            # The look of each second tells what is not there.
            with contextlib.suppress(StoreError):
                self._store.presence.look()
        for (_, future), each in zip(puts, done.puts, strict=True):
            _end(future, each)
        self._go()

    def close(self) -> None:
        """Close the files; what waits is kept. The thread has to be idle, or to be waited for."""
        if self._timer is not None:
            self._timer.cancel()
        self._beside.shutdown(wait=True, cancel_futures=True)
        self._store.close()
        self._kept.close()


def _end(future: asyncio.Future[Placed], result: Placed | Exception) -> None:
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def keeper_of(
    directory: Path,
    most_bytes: int,
    settings: BrokerSettings,
    consumed: Callable[[str, int], int | None],
    loop: asyncio.AbstractEventLoop,
    beside: Executor,
    reserved_hours: int = RESERVED_HOURS,
) -> Keeper:
    """Open what is kept of one store's consumers, or begin to keep it.

    Args:
        directory: where it is.
        most_bytes: of the log.
        settings: of the store's broker.
        consumed: see `Kept`.
        loop: where questions are answered.
        beside: a single thread that writes.
        reserved_hours: age at which files go (`fileReservedTime`).

    Raises:
        ReputError: another process has it, or it is damaged.
        OSError: it cannot be read or made.
    """
    rules = Rules(most_bytes, settings.delays, reserved_hours * _HOUR_MS)
    kept = Kept(directory, rules, consumed)
    if kept.cut:
        LOG.warning(
            "%s: the last %d bytes of the log were not whole and are removed; nobody was told that "
            "they are kept",
            directory,
            kept.cut,
        )
    try:
        store = MessageStore.open(directory, settings=own_settings(settings))
        store.log.end()
        return Keeper(kept, store, loop, beside)
    except BaseException:
        kept.close()
        raise


def own_settings(settings: BrokerSettings) -> BrokerSettings:
    """Return the settings of what is kept, as of a broker of the same release."""
    return BrokerSettings(
        settings.version,
        commitlog_file_size=FILE_SIZE,
        consumequeue_file_size=QUEUE_SIZE,
        writes_index=False,
        delays=settings.delays,
    )
