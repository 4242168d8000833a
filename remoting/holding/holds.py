"""Pulls that wait: by queue, each until a message that it wants comes, or its time is up.

A broker looks at times only when it sweeps, each 5 s; here they are looked at with each `tick`, so
that a pull waits as long as it says. Source: RocketMQ `PullRequestHoldService`, `ManyPullRequest`,
`ExpressionMessageFilter#isMatchedByConsumeQueue`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.stores.queues.pull import may_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from reput.remoting.reading.pull_checks import Filter
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command
    from reput.remoting.wire.pull_headers import PullMessageRequestHeader
    from reput.stores.queues.reader import QueueEntry

    Key = tuple[str, int]
    Properties = Callable[[QueueEntry], Mapping[str, str] | None]

# Clients wait for 30 s, and have to get the answer within.
MOST_SECONDS = 25.0
SWEEP_SECONDS = 5.0
# Pulls that are answered in one turn of the loop.
_WOKEN_AT_ONCE = 64


def _nothing() -> None:
    pass


@dataclass(frozen=True, eq=False, slots=True)
class Held:
    """A pull that waits. Two of the same client are two.

    Attributes:
        request: what is answered in the end.
        header: its fields.
        channel: where the answer goes.
        wanted: the filter, None for every message.
        until: when its time is up, by the clock of `Holds`.
    """

    request: Command
    header: PullMessageRequestHeader
    channel: Channel
    wanted: Filter
    until: float


class Holds:
    """The pulls that wait for messages of one store.

    Attributes:
        woken: how many were answered because something had come.
        expired: how many because their time was up.
        left: how many were forgotten because their connection had closed.
        on_hold: called with each pull that begins to wait.
    """

    def __init__(
        self,
        wake: Callable[[Held], None],
        now: Callable[[], float],
        short_polling: float | None = None,
    ) -> None:
        """Hold nothing yet.

        Args:
            wake: runs the pull once more, and sends whatever comes.
            now: seconds, of a clock that never goes back.
            short_polling: seconds that every pull waits (`shortPollingTimeMills`); None to wait as
                long as each says (`longPollingEnable`).
        """
        self._wake = wake
        self._now = now
        self._short_polling = short_polling
        self._held: dict[Key, list[Held]] = {}
        self._ready: deque[Held] = deque()
        self._count = 0
        self._swept_at = now()
        self.woken = self.expired = self.left = 0
        self.on_hold: Callable[[], None] = _nothing

    def __len__(self) -> int:
        """Return how many wait, with those that are about to be answered."""
        return self._count + len(self._ready)

    @property
    def is_ready(self) -> bool:
        """Tell whether some are about to be answered."""
        return bool(self._ready)

    def __iter__(self) -> Iterator[Key]:
        """Yield the queues, topic and id, that pulls wait for."""
        return iter(self._held)

    def __contains__(self, key: object) -> bool:
        """Tell whether a pull waits for a queue."""
        return key in self._held

    def hold(
        self, request: Command, header: PullMessageRequestHeader, channel: Channel, wanted: Filter
    ) -> None:
        """Let a pull wait that was answered with `PULL_NOT_FOUND`.

        Args:
            request: the pull.
            header: its fields.
            channel: where the answer goes.
            wanted: its filter, None for every message.
        """
        seconds = self._short_polling
        if seconds is None:
            seconds = min(header.suspend_timeout_millis / 1000, MOST_SECONDS)
        held = Held(request, header, channel, wanted, self._now() + seconds)
        self._held.setdefault((header.topic, header.queue_id), []).append(held)
        self._count += 1
        self.on_hold()

    def arrived(
        self,
        key: Key,
        max_offset: int,
        entry: QueueEntry | None = None,
        properties: Properties | None = None,
    ) -> None:
        """Wake those that wait for what has come (`notifyMessageArriving`).

        Args:
            key: topic and queue id.
            max_offset: of the queue.
            entry: what has come; None wakes whatever is wanted: a consumer whose tag never comes
                moves on by that.
            properties: returns those of an entry's message, None if it is gone; for SQL92.
        """
        held = self._held.get(key)
        if held is None:
            return

        def is_awaited(each: Held) -> bool:
            if max_offset <= each.header.queue_offset:
                return False
            return entry is None or _is_wanted(each.wanted, entry, properties)

        self.woken += self._take(key, held, is_awaited)

    def _take(self, key: Key, held: list[Held], is_due: Callable[[Held], bool]) -> int:
        """Move those that are due to the ones that are answered; return how many."""
        due = [each for each in held if is_due(each)]
        if due:
            chosen = set(map(id, due))
            left = [each for each in held if id(each) not in chosen]
            self._ready += due
            self._count -= len(due)
            if left:
                self._held[key] = left
            else:
                del self._held[key]
        return len(due)

    def is_sweep_due(self) -> bool:
        """Tell whether it is time to say `arrived` of every queue, without an entry."""
        return self._now() - self._swept_at >= SWEEP_SECONDS

    def sweep(self, max_offset: Callable[[Key], int]) -> None:
        """Wake all that could be answered, whatever they want (`checkHoldRequest`).

        Args:
            max_offset: returns that of a queue.
        """
        self._swept_at = self._now()
        for key in list(self._held):
            self.arrived(key, max_offset(key))

    def tick(self) -> None:
        """Take those whose time is up, and forget those whose connection has closed."""
        now = self._now()
        for key, all_held in list(self._held.items()):
            if all(each.until > now and each.channel.is_open for each in all_held):
                continue
            held = [each for each in all_held if each.channel.is_open]
            left = len(all_held) - len(held)
            self.left += left
            self._count -= left
            if not held:
                del self._held[key]
                continue
            self._held[key] = held
            self.expired += self._take(key, held, lambda each: each.until <= now)

    def answer(self) -> None:
        """Answer those that are ready, some of them where there are very many."""
        for _ in range(min(len(self._ready), _WOKEN_AT_ONCE)):
            held = self._ready.popleft()
            if held.channel.is_open:
                self._wake(held)
            else:
                self.left += 1


def _is_wanted(
    wanted: Filter,
    entry: QueueEntry,
    properties: Properties | None,
) -> bool:
    if wanted is None:
        return True
    if not may_match(wanted, entry):
        return False
    if properties is None or wanted.kind == "TAG":
        return True
    found = properties(entry)
    # A broker whose dispatch has no properties takes the message for a wanted one.
    return found is None or wanted.matches(found)
