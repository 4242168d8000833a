"""From a request to the room that answers it, and from the answer to the connection."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from reput.remoting.names import answers
from reput.remoting.reading.answer import Answer
from reput.remoting.wire.codes import ResponseCode

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Mapping, Sequence

    from reput.remoting.counting.counters import Counters
    from reput.remoting.lanes.lanes import Lanes
    from reput.remoting.names.known import Known
    from reput.remoting.names.registry import Registry
    from reput.remoting.names.release import Release
    from reput.remoting.reading.replies import Replies
    from reput.remoting.server.connection import Connection
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer | Future[Answer] | None]
    Check = Callable[[Command, Channel], Answer | None]

LOG = logging.getLogger("reput")


class BrokerDesk:
    """Answers as a broker: each request by the room that has its code.

    Attributes:
        lanes: see `Desk`.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        replies: Replies,
        *,
        checks: Sequence[Check] = (),
        on_close: Sequence[Callable[[Channel], None]] = (),
    ) -> None:
        """Answer nothing yet.

        Args:
            handlers: by request code.
            replies: send what these say.
            checks: asked first; the first one's answer refuses the request.
            on_close: called with each connection that is gone.
        """
        self._handlers = handlers
        self._replies = replies
        self._checks = checks
        self._on_close = on_close
        self.lanes: Lanes | None = None

    def closed(self, connection: Connection) -> None:
        """Tell the rooms that keep something of a connection."""
        for tell in self._on_close:
            tell(connection)

    def take(self, request: Command, connection: Connection) -> None:
        """Answer a request."""
        said = self._said(request, connection)
        if said is None:
            return
        if isinstance(said, Answer):
            self._replies.send(request, connection, said)
            return

        def then(done: Future[Answer]) -> None:
            found = self._replies.result_of(done, request, connection)
            self._replies.send(request, connection, found)

        said.add_done_callback(then)

    def _said(self, request: Command, connection: Connection) -> Answer | Future[Answer] | None:
        handler = self._handlers.get(request.code)
        try:
            for check in self._checks:
                refusal = check(request, connection)
                if refusal is not None:
                    return refusal
            if handler is None:
                return _unsupported(request)
            return handler(request, connection)
        except Exception as error:  # noqa: BLE001 - one request must not end all connections
            return self._replies.failed(request, connection, error)


class NameDesk:
    """Answers as a name server."""

    lanes: Lanes | None = None

    def __init__(
        self,
        known: Callable[[], Known],
        release: Release,
        counters: Counters,
        registry: Registry | None = None,
    ) -> None:
        """Answer nothing yet.

        Args:
            known: returns what there is to tell, as it is now.
            release: whose name server it answers like.
            counters: what is told of requests.
            registry: where brokers of others register; None if they may not.
        """
        self._registry = registry
        self._known = known
        self._release = release
        self._counters = counters

    def closed(self, connection: Connection) -> None:
        """Forget the brokers that registered over it."""
        if self._registry is not None:
            self._registry.closed(connection)

    def take(self, request: Command, connection: Connection) -> None:
        """Answer a request."""
        at = None if self._registry is None else (self._registry, connection)
        try:
            self._send(
                request, connection, answers.answer(request, self._known(), self._release, at)
            )
        except Exception as error:  # as above
            LOG.exception("request %d of %s failed", request.code, connection.peer)
            remark = f"{type(error).__name__}: {error}"
            said = None
            if not request.is_oneway:
                said = request.answer(ResponseCode.SYSTEM_ERROR, self._release.version, remark)
            self._send(request, connection, said)

    def _send(self, request: Command, connection: Connection, said: Command | None) -> None:
        if said is None:
            self._counters.oneway(request.code)
            return
        connection.send(said)
        self._counters.answered(request.code, said.code, len(said.body))


def _unsupported(request: Command) -> Answer:
    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    return Answer(code, f" request type {request.code} not supported")
