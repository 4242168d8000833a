"""A connection of a client: frames in, answers out, in the order in which requests arrive.

Requests are taken one after the other while the client reads its answers. If more than
`HIGH_WATER` bytes wait to be sent, nothing further is read or answered until it has taken most of
them: a client that does not read costs what one answer takes, and no more.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from typing import TYPE_CHECKING, Protocol, cast

from reput.remoting.lanes.places import TURN
from reput.remoting.wire import frames
from reput.remoting.wire.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reput.remoting.lanes.lanes import Lanes
    from reput.remoting.lanes.rounds import Rounds
    from reput.remoting.server.traffic import Traffic
    from reput.remoting.wire.command import Command

HIGH_WATER = 1 << 20
_LOW_WATER = HIGH_WATER // 4
# Requests of one piece that are answered one by one, so that lanes may have those after them.
_TIMES = 8
# Bytes of a frame that has begun; lanes look at those again when more has come.
_SHORT = 4096
# Pieces that lanes answered, one after the other, after which a connection joins the rounds.
_PLAIN = 4
# A client answers our requests within this, in seconds; Java's own limit is 3.
_ASK_SECONDS = 10.0


class Desk(Protocol):
    """What takes the requests of a port.

    Attributes:
        lanes: answer some of what comes before it is taken apart; None where there are none.
    """

    lanes: Lanes | None

    def take(self, request: Command, connection: Connection) -> None:
        """Answer a request, now or later, by `connection.send`. It does not raise."""

    def closed(self, connection: Connection) -> None:
        """Take that a connection is gone, whichever side has closed it."""


class Connection(asyncio.Protocol):
    """Implements `wire.channel.Channel`.

    Attributes:
        active_at: when it last sent or received, by the loop's clock.
        stuck_since: since when the client does not take what is sent; None while it does.
    """

    def __init__(self, desk: Desk, traffic: Traffic) -> None:
        """Belong to no socket yet.

        Args:
            desk: takes the requests.
            traffic: of the server.
        """
        self._desk = desk
        self._traffic = traffic
        self._loop = asyncio.get_running_loop()
        self._decoder = frames.FrameDecoder()
        self._requests: deque[Command] = deque()
        self._came: Iterator[Command] = iter(())
        self._opaques = itertools.count(1)
        self._asked: dict[int, tuple[float, Callable[[Command | None], None]]] = {}
        self._transport: asyncio.Transport | None = None
        self._is_broken = False
        self._has_turn = False
        self._pending = 0
        self._peer = ""
        self._socket = -1
        self._plain = 0
        self._rounds: Rounds | None = None
        self.active_at = self._loop.time()
        self.stuck_since: float | None = None

    @property
    def peer(self) -> str:
        """Return the client's address, "127.0.0.1:4711"."""
        return self._peer

    @property
    def is_open(self) -> bool:
        """Tell whether something can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(HIGH_WATER, _LOW_WATER)
        host, port, *_ = transport.get_extra_info("peername") or ("", 0)
        self._peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        # With TLS, what goes out is not what is said.
        socket = transport.get_extra_info("socket")
        if socket is not None and transport.get_extra_info("sslcontext") is None:
            self._socket = socket.fileno()
        self._traffic.opened(self)

    @property
    def outlet(self) -> int:
        """Return the socket that may be written to at once; below 0 where others are before."""
        if self._transport is None or self._transport.get_write_buffer_size():
            return -1
        return self._socket

    def write(self, data: bytes) -> None:
        """Send bytes after those that were sent before."""
        self._leave_rounds()
        if self._transport is not None:
            self._transport.write(data)

    def _waits(self) -> bool:
        """Tell whether what comes has to wait for what came before, or is taken no longer."""
        is_busy = self.stuck_since is not None or self._has_turn or self._has_request()
        return is_busy or self._is_broken or self._desk.lanes is None or not self.is_open

    def _in_lanes(self, data: bytes) -> bytes:
        """Answer requests that need no further look; return what is left."""
        lanes = self._desk.lanes
        if lanes is None or self._waits():
            return data
        if self._pending:
            if self._pending > _SHORT:
                return data
            data = self._decoder.take_back() + data
            self._keep(0)
        return lanes.take(data, self)

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        self.active_at = self._loop.time()
        data = self._in_lanes(data)
        if not data:
            self._repeat()
            return
        self._plain = 0
        for _ in range(_TIMES):
            length = frames.first_length(data)
            if not length or self._waits():
                break
            self._feed(data[:length])
            data = self._in_lanes(data[length:])
            if not data:
                return
        self._feed(data)

    def _repeat(self) -> None:
        """Let lanes read, too, where they have answered all that came for some time."""
        self._plain += 1
        lanes, transport = self._desk.lanes, self._transport
        if self._plain >= _PLAIN and lanes is not None and transport is not None:
            self._plain = 0
            if self.is_open and lanes.rounds.join(self):
                self._rounds = lanes.rounds
                transport.pause_reading()

    def _leave_rounds(self) -> None:
        if self._rounds is not None:
            self._rounds.leave(self, self._socket)

    def left(self) -> None:
        """Read from the socket again."""
        self._rounds, self._plain = None, 0
        if self._transport is not None and self.is_open:
            self._transport.resume_reading()

    def _feed(self, data: bytes) -> None:
        """Take apart what has come."""
        if self._is_broken or self._transport is None:
            return
        self._came = itertools.chain(self._came, self._decoder.feed(data))
        if not self._has_turn:
            self._work()

    def _has_request(self) -> bool:
        """Tell whether there is one to take.

        What has come is taken apart no further: hundreds of requests stand in what one read brings,
        and as commands they take ten times as much.
        """
        if not self._requests:
            try:
                self._requests.extend(itertools.islice(self._came, 1))
            except FrameError as error:
                # What came before it is answered.
                self._came = iter(())
                self._break(error)
            if not self._requests:
                self._keep(self._decoder.pending)
                if self._traffic.is_full and self._pending and not self._is_broken:
                    self._break(FrameError("no memory for more frames that are not whole"))
                    self.abort()
        return bool(self._requests)

    def _break(self, error: FrameError) -> None:
        self._is_broken = True
        self._traffic.broken(self, error)

    def _keep(self, pending: int) -> None:
        self._traffic.pending += pending - self._pending
        self._pending = pending

    def _work(self) -> None:
        """Take requests, some at once, while the client takes the answers."""
        self._has_turn = False
        for _ in range(TURN):
            if self.stuck_since is not None or not self._has_request():
                break
            self._take(self._requests.popleft())
        if self._transport is None:
            return
        if self._has_request():
            self._transport.pause_reading()
            if self.stuck_since is None:
                self._has_turn = True
                self._loop.call_soon(self._work)
        elif self._is_broken:
            self.close()
        elif self.stuck_since is None:
            self._transport.resume_reading()

    def _take(self, command: Command) -> None:
        if not command.is_response:
            self._desk.take(command, self)
        elif (asked := self._asked.pop(command.opaque, None)) is not None:
            asked[1](command)

    def send(self, command: Command, pieces: Sequence[memoryview] = ()) -> None:
        """Send a command with its body, or with one in pieces."""
        if self._transport is None or self._transport.is_closing():
            return
        self._leave_rounds()
        head = frames.encode(command, sum(map(len, pieces)))
        if pieces:
            self._transport.writelines((head, *pieces))
        elif command.body:
            self._transport.writelines((head, command.body))
        else:
            self._transport.write(head)
        self.active_at = self._loop.time()

    def next_opaque(self) -> int:
        """Return the number of the next request of ours."""
        return next(self._opaques)

    def ask(self, command: Command, then: Callable[[Command | None], None]) -> None:
        """Send a request of ours; `then` gets the answer, or None."""
        if not self.is_open:
            then(None)
            return
        opaque = self.next_opaque()
        self._asked[opaque] = self._loop.time() + _ASK_SECONDS, then
        self.send(command._replace(opaque=opaque))

    def tick(self, now: float) -> None:
        """Give up on answers that are late.

        Args:
            now: by the loop's clock.
        """
        for opaque in [each for each, (until, _) in self._asked.items() if until <= now]:
            self._asked.pop(opaque)[1](None)

    def close(self) -> None:
        """Close it once what was sent is out."""
        self._leave_rounds()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close it at once."""
        self._leave_rounds()
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        """Hold back: the client does not take what is sent."""
        self.stuck_since = self._loop.time()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Send again."""
        self.stuck_since = None
        if not self._has_turn:
            self._work()

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget the client."""
        self._transport = None
        self._leave_rounds()
        self._requests.clear()
        self._came = iter(())
        self._keep(0)
        self._traffic.closed(self)
        asked, self._asked = self._asked, {}
        for _, then in asked.values():
            then(None)
        self._desk.closed(self)
