"""Opens ports, and tells TLS from plain frames by the first byte of a connection.

A frame is shorter than 2^24 bytes, so it begins with a zero; a client that wants TLS begins with
`TLS_HELLO`. Where TLS is spoken, the byte is looked at while it is still in the socket
(`MSG_PEEK`), and the connection is then handed to the loop, with TLS or without.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from typing import TYPE_CHECKING, NamedTuple

from reput.remoting.access.tls import Mode
from reput.remoting.server.connection import Connection
from reput.remoting.wire.frames import TLS_HELLO

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine

    from reput.remoting.server.connection import Desk
    from reput.remoting.server.traffic import Traffic

LOG = logging.getLogger("reput")

_BACKLOG = 1024
# Connections taken in one turn of the loop.
_ACCEPTED_AT_ONCE = 64
# A client that says nothing for this long is not asked what it wants, in seconds.
_HELLO_SECONDS = 120.0
_HANDSHAKE_SECONDS = 10.0
# After this many seconds it is tried again where there are no more file descriptors.
_NO_FILES_SECONDS = 1.0
_NO_FILES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Place(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as an option has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Tls(NamedTuple):
    """TLS of all ports.

    Attributes:
        context: returns what the next connection is wrapped in; any thread may ask.
        mode: whether plain connections are taken too.
        tick: reads renewed files; returns why they are not in force.
        is_broken: tells whether the newest files are not in force.
    """

    context: Callable[[], ssl.SSLContext]
    mode: Mode
    tick: Callable[[], str | None]
    is_broken: Callable[[], bool] = lambda: False


def listening(place: Place) -> socket.socket:
    """Return a socket that clients may connect to.

    Args:
        place: port 0 is any that is free.

    Raises:
        OSError: the port is taken, or the address is not ours; the error names it.
    """
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        return socket.create_server(place, family=family, backlog=_BACKLOG)
    except OSError as error:
        error.filename = str(place)
        raise


class Port:
    """A port whose connections the running event loop takes.

    Attributes:
        refused: connections without TLS where it is a must, and those whose handshake failed.
    """

    def __init__(
        self, taken: socket.socket, desk: Desk, traffic: Traffic, tls: Tls | None = None
    ) -> None:
        """Take connections from the next turn of the loop on.

        Args:
            taken: listens; closed with this.
            desk: takes the requests.
            traffic: of the server.
            tls: None for plain connections only.
        """
        self._desk, self._traffic = desk, traffic
        self._mode = Mode.DISABLED if tls is None else tls.mode
        self._tls = None if tls is None or tls.mode is Mode.DISABLED else tls.context
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused = 0
        self._socket = taken
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Take no more connections; those that are open stay."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_FILES:
                    raise
                LOG.warning(
                    "no more connections for now: %s; raise the limit of open files (ulimit -n, or "
                    "LimitNOFILE of a service)",
                    error.strerror,
                )
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_NO_FILES_SECONDS, self._go_on)
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._run(self._serve(accepted))

    def _go_on(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        is_handed_over = False
        try:
            wants_tls: bool | None = False
            if self._tls is not None:
                async with asyncio.timeout(_HELLO_SECONDS):
                    wants_tls = await self._wants_tls(accepted)
            if wants_tls is None:
                return
            if self._mode is Mode.ENFORCING and not wants_tls:
                self.refused += 1
                return
            is_handed_over = True
            await self._loop.connect_accepted_socket(
                lambda: Connection(self._desk, self._traffic),
                accepted,
                ssl=self._tls() if wants_tls and self._tls is not None else None,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if wants_tls else None,
            )
        except (TimeoutError, OSError) as error:
            # A client that went, or whose handshake fails: its own affair.
            self.refused += 1
            LOG.debug("a connection did not begin: %s", error)
        finally:
            if not is_handed_over:
                accepted.close()

    async def _wants_tls(self, accepted: socket.socket) -> bool | None:
        """Tell what a client's first byte is; None if it has closed before."""
        while True:
            with contextlib.suppress(BlockingIOError, InterruptedError):
                first = accepted.recv(1, socket.MSG_PEEK)
                return first[0] == TLS_HELLO if first else None
            await self._readable(accepted)

    async def _readable(self, accepted: socket.socket) -> None:
        came = self._loop.create_future()

        def take() -> None:
            if not came.done():
                came.set_result(None)

        self._loop.add_reader(accepted, take)
        try:
            await came
        finally:
            self._loop.remove_reader(accepted)
