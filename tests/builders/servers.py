"""Servers of stores on a loop of their own thread, and a plain client of them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import TYPE_CHECKING

from reput.remoting.counting.counters import Uncounted
from reput.remoting.groups.offset_file import OffsetFile
from reput.remoting.names.release import RELEASES
from reput.remoting.sending.sent_back import OnSentBack
from reput.remoting.server.broker import Identity, StoreBroker
from reput.remoting.server.ports import Place
from reput.remoting.server.rules import GroupSettings
from reput.remoting.server.server import Others, Server
from reput.remoting.server.store_thread import StoreThread
from reput.remoting.wire import frames
from reput.remoting.wire.command import Command
from tests.builders.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reput.remoting.counting.counters import Counters
    from reput.stores.query.message_store import MessageStore

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        return taken.getsockname()[1]


class Client:
    """One connection; requests and answers by turns, or as a test likes it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((LOOPBACK, port), 10)
        self._decoder = frames.FrameDecoder()
        self._opaque = 0
        self._came: list[Command] = []
        self.told: list[Command] = []

    def send(self, code: int, body: bytes = b"", **fields: str) -> int:
        """Send a request; return its opaque."""
        self._opaque += 1
        command = Command(code, self._opaque, fields=fields, body=body)
        self.socket.sendall(frames.encode(command) + body)
        return self._opaque

    def answer(self, seconds: float = 10) -> Command:
        """Return the next answer; what the server asks or tells meanwhile goes to `told`."""
        self.socket.settimeout(seconds)
        while not self._came:
            data = self.socket.recv(1 << 20)
            if not data:
                raise EOFError
            for each in self._decoder.feed(data):
                came = self._came if each.is_response else self.told
                came.append(each._replace(body=bytes(each.body)))
        return self._came.pop(0)

    def ask(self, code: int, body: bytes = b"", **fields: str) -> Command:
        """Return the answer to a request."""
        opaque = self.send(code, body, **fields)
        found = self.answer()
        assert found.opaque == opaque
        assert found.is_response
        return found

    def is_closed(self, seconds: float = 10) -> bool:
        """Tell whether the server closes the connection within a time."""
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(1 << 20):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()


class Running:
    """A server that runs.

    Attributes:
        names: the port of its name server.
        broker: the port of its first broker.
        server: itself; for its own thread.
        store: its first broker; likewise.
        store_loop: of that thread.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.names, self.broker = server.ports[:2]
        thread = server._threads[0]
        self.store, self.store_loop = thread.opened.result(), thread._loop

    def wait_for(self, is_so: Callable[[int], bool], seconds: float = 30) -> None:
        """Return once a condition holds for the number of connections to the broker."""
        wait_until(lambda: is_so(len(self.store.traffic)), seconds)


@contextlib.contextmanager
def serving(
    store: MessageStore,
    *,
    name: str = "b0",
    counters: Counters | None = None,
    accepts_brokers: bool = False,
    register_at: Sequence[Place] = (),
    names_port: int = 0,
    rewrites_hosts: bool = False,
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    **conf: str,
) -> Iterator[Running]:
    """Serve a store until the block ends; the server has to end then."""
    loop = new_loop()
    release = RELEASES[store.settings.version.family]

    async def begin() -> Server:
        place = Place(LOOPBACK, free_port())
        identity = Identity(name, "cl0", f"{LOOPBACK}:{place.port}", release, conf, rewrites_hosts)
        file = store.output.parent / "offsets" / f"{name}.json"

        def made_broker() -> StoreBroker:
            kept = GroupSettings(OffsetFile(file, store.root), OnSentBack.REFUSE)
            own_loop = asyncio.get_running_loop()
            return StoreBroker(store, identity, counters or Uncounted(), own_loop, kept)

        thread = StoreThread(made_broker, new_loop)
        await asyncio.wrap_future(thread.opened)
        names = Place(LOOPBACK, names_port), release, Uncounted()
        made = Server([(place, thread)], names, None, Others(accepts_brokers, register_at))
        await made.check()
        return made

    server = loop.run_until_complete(begin())
    ended: list[BaseException | None] = []

    async def run() -> None:
        try:
            await server.run()
        except BaseException as error:
            ended.append(error)
            raise
        ended.append(None)

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    try:
        yield Running(server)
    finally:
        loop.call_soon_threadsafe(server.end)
        thread.join(10)
        assert not thread.is_alive()
        assert ended == [None]
        loop.close()
