"""Locks on queues: of the members of a group, one at a time consumes a queue in order (41, 42).

A lock is a client id's, not a connection's, and ends 60 s after its holder last asked for it; the
client asks every 20 s, and gives up consuming after 30 s without an answer. After a restart there
are none, and all are granted to those that ask first.

Source: RocketMQ `RebalanceLockManager`, `AdminBrokerProcessor#lockBatchMQ`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reput.remoting.groups import heartbeats
from reput.remoting.reading.answer import Answer
from reput.remoting.wire import bodies
from reput.remoting.wire.bodies import MessageQueue
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.errors import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer | None]

LIFE_SECONDS = 60.0
SCAN_SECONDS = 60.0
# Any peer can name queues, so the number of locks is bounded.
_MOST = 1 << 18


class Lock(NamedTuple):
    """The holder of a queue.

    Attributes:
        client_id: what it calls itself.
        until: when it ends, by the clock of `Locks`.
    """

    client_id: str
    until: float


class Locks:
    """The locks of all groups."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin without any.

        Args:
            now: seconds, of a clock that never goes back.
        """
        self._now = now
        self._locks: dict[tuple[str, MessageQueue], Lock] = {}
        self._next_scan = now() + SCAN_SECONDS

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client_id: str
    ) -> list[MessageQueue]:
        """Return the queues that a client has from now on, those that it had included."""
        now = self._now()
        granted = []
        for queue in queues:
            held = self._locks.get((group, queue))
            if held is None and len(self._locks) >= _MOST:
                continue
            if held is None or held.client_id == client_id or held.until < now:
                self._locks[group, queue] = Lock(client_id, now + LIFE_SECONDS)
                granted.append(queue)
        return granted

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Give up the queues that a client has."""
        for queue in queues:
            held = self._locks.get((group, queue))
            if held is not None and held.client_id == client_id:
                del self._locks[group, queue]

    def has(self, group: str) -> bool:
        """Tell whether a member of a group has a lock: it consumes in order."""
        now = self._now()
        return any(of == group and lock.until >= now for (of, _), lock in self._locks.items())

    def tick(self, now: float) -> None:
        """Forget locks that have ended; call it every second or so."""
        if now < self._next_scan:
            return
        self._next_scan = now + SCAN_SECONDS
        self._locks = {key: lock for key, lock in self._locks.items() if lock.until >= now}

    def __len__(self) -> int:
        """Return how many there are, those that have ended since the last scan included."""
        return len(self._locks)

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return {
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._unlock,
        }

    def _lock(self, request: Command, channel: Channel) -> Answer:
        del channel
        named = [
            {"brokerName": name, "queueId": number, "topic": topic}
            for name, number, topic in self.lock(*_asked(request))
        ]
        body = bodies.dumps({"lockOKMQSet": named})
        return Answer(ResponseCode.SUCCESS, pieces=(memoryview(body),))

    def _unlock(self, request: Command, channel: Channel) -> Answer:
        del channel
        self.unlock(*_asked(request))
        return Answer(ResponseCode.SUCCESS)


def _asked(request: Command) -> tuple[str, list[MessageQueue], str]:
    """Return group, queues and client id of a request.

    Raises:
        FieldError: they are not there.
    """
    said = heartbeats.read_object(request.body)
    queues = [_queue(each) for each in heartbeats.objects(said, "mqSet")]
    client_id = heartbeats.text(said, "clientId")
    return heartbeats.text(said, "consumerGroup"), list(dict.fromkeys(queues)), client_id


def _queue(said: Mapping[str, Any]) -> MessageQueue:
    number = said.get("queueId")
    if type(number) is not int:
        raise FieldError("java.lang.NullPointerException", "a queue without a number")
    return MessageQueue(heartbeats.text(said, "brokerName"), number, heartbeats.text(said, "topic"))
