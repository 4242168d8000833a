"""Clients that pull one queue, and note when what came."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import NamedTuple

from reput.remoting.wire import frames
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.command import Command
from reput.remoting.wire.fields import write
from reput.remoting.wire.pull_headers import PullMessageRequestHeader

_SUBSCRIPTION, _SUSPEND_AND_SUBSCRIPTION = 4, 6
_SUSPEND_MS = 15_000
_LENGTHS = struct.Struct(">iI")


class Pulled(NamedTuple):
    """An answer.

    Attributes:
        code: of it.
        next_offset: where the next pull begins.
        body: bytes of it.
        at: when it was there, by the monotonic clock.
    """

    code: int
    next_offset: int
    body: int
    at: float


class Puller:
    """A connection with one pull at a time."""

    def __init__(self, port: int, topic: str, queue: int, *, waits: bool = False) -> None:
        """Connect.

        Args:
            port: of the broker.
            topic: what is pulled.
            queue: its queue.
            waits: a pull that finds nothing is held.
        """
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._place = topic, queue
        self._flags = _SUSPEND_AND_SUBSCRIPTION if waits else _SUBSCRIPTION
        self._buffer = bytearray(1 << 20)

    def pull(self, offset: int, messages: int = 32) -> Pulled:
        """Pull once, and wait for the answer."""
        header = PullMessageRequestHeader(
            "peer", *self._place, offset, messages, self._flags, 0, _SUSPEND_MS, 1, "*", "TAG"
        )
        self._socket.sendall(
            frames.encode(Command(RequestCode.PULL_MESSAGE, 1, fields=write(header)))
        )
        view = memoryview(self._buffer)
        got = 0
        while got < _LENGTHS.size or got < self._length():
            more = self._socket.recv_into(view[got:])
            if not more:
                raise ConnectionError("the server has closed the connection")
            got += more
        at = time.monotonic()
        size = _LENGTHS.unpack_from(self._buffer)[1] & 0xFFFFFF
        said = json.loads(bytes(view[8 : 8 + size]))
        following = said.get("extFields", {}).get("nextBeginOffset", offset)
        return Pulled(said["code"], int(following), got - 8 - size, at)

    def _length(self) -> int:
        return 4 + int(_LENGTHS.unpack_from(self._buffer)[0])

    def close(self) -> None:
        """Disconnect."""
        self._socket.close()
