"""One store on a thread of its own: opened, served by an event loop there, and closed.

A disk that does not answer stops the loop that asked it something, and with it the clients of that
store. Other stores and the name server have loops of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from reput.remoting.server.ports import Port

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from reput.remoting.holding.sentry import Sentry
    from reput.remoting.server.broker import StoreBroker
    from reput.remoting.server.compiled import Compiled
    from reput.remoting.server.ports import Tls
    from reput.remoting.server.traffic import Traffic

    _Begun = tuple[socket.socket, Tls | None]

LOG = logging.getLogger("reput")

# While pulls wait, or did a moment ago.
_LOOK_SECONDS, _MOMENT_SECONDS = 0.001, 1.0
_TICK_SECONDS = 1.0
# One whose loop has stood still for longer is told of.
_SILENT_SECONDS = 10.0
# What was sent is out by then, or is not sent.
_CLOSE_SECONDS = 1.0


class StoreThread:
    """The thread of one store.

    Attributes:
        opened: gets its broker, or what is wrong with the store.
        ended: is done once all is closed; it has what failed.
    """

    # When the loop was last known to run, and no client to wait for a disk, once it serves.
    _seen: float | None = None
    _is_silent = False

    def __init__(
        self,
        make: Callable[[], StoreBroker],
        new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        """Begin to open the store.

        Args:
            make: opens it and returns its broker; called on the thread, while its loop runs.
            new_loop: returns a loop.

        Raises:
            OSError: no descriptors are left.
            RuntimeError: no threads are left.
        """
        self.opened: Future[StoreBroker] = Future()
        self.ended: Future[None] = Future()
        self._make = make
        self._loop = new_loop()
        self._over, self._held = asyncio.Event(), asyncio.Event()
        self._begun: asyncio.Future[_Begun] = self._loop.create_future()
        self._compiled: Compiled | None = None
        self._sentry: Sentry | None = None
        try:
            threading.Thread(target=self._run, name="store", daemon=True).start()
        except RuntimeError:
            self._loop.close()
            raise

    def begin(self, taken: socket.socket, tls: Tls | None) -> None:
        """Answer the clients that come to a port; the store is open.

        Args:
            taken: listens at the port; closed with this.
            tls: None for plain connections only.
        """
        self._call(self._begun.set_result, (taken, tls))

    def use(self, found: Compiled) -> None:
        """Use what is compiled from now on."""
        self._call(self._use, found)

    def look(self) -> None:
        """Say once that it does not answer, and that it does again; call it each second.

        Raises:
            Exception: it has ended by itself: of what it failed with.
        """
        if self.ended.done():
            self.ended.result()
        is_silent = self._seen is not None and time.monotonic() - self._seen > _SILENT_SECONDS
        if is_silent is self._is_silent:
            return
        self._is_silent = is_silent
        broker = self.opened.result()
        of_store = {"store": broker.described().name}
        if is_silent:
            said = "%s: its clients get no answers: see whether its disk answers"
            LOG.error(said, broker.root, extra=of_store)
        else:
            LOG.info("%s: its clients are answered again", broker.root, extra=of_store)

    def end(self) -> None:
        """Close all, as soon as the loop gets to it."""
        self._call(self._over.set)

    def _call(self, called: Callable[..., object], *given: object) -> None:
        # A closed loop has nothing left to be told.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(called, *given)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._live())
        except BaseException as error:  # noqa: BLE001 - who waits for the end gets it
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)
        finally:
            self._loop.close()

    async def _live(self) -> None:
        try:
            broker = self._make()
        except BaseException as error:  # noqa: BLE001 - who waits for the broker gets it
            self.opened.set_exception(error)
            return
        self.opened.set_result(broker)
        over = self._loop.create_task(self._over.wait())
        try:
            wanted: list[asyncio.Future[Any]] = [over, self._begun]
            await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
            if self._begun.done():
                await self._serve(broker, *self._begun.result(), over)
        finally:
            broker.close()

    async def _serve(
        self,
        broker: StoreBroker,
        taken: socket.socket,
        tls: Tls | None,
        over: asyncio.Task[bool],
    ) -> None:
        port = Port(taken, broker.desk, broker.traffic, tls)
        broker.say_ready(is_ready=True)
        broker.on_hold(self._held.set)
        try:
            with ThreadPoolExecutor(1, "sentry") as resting:
                await self._work(broker, port, over, resting)
        finally:
            # Where the store has failed, too: its clients ask again, and none counts as open.
            await gone(broker.traffic)

    async def _work(
        self,
        broker: StoreBroker,
        port: Port,
        over: asyncio.Task[bool],
        resting: ThreadPoolExecutor,
    ) -> None:
        """Do what is due until the end, and close the port."""
        work = [
            self._loop.create_task(self._tick(broker)),
            self._loop.create_task(self._look(broker, resting)),
        ]
        try:
            done, _ = await asyncio.wait([over, *work], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                # What ends by itself has failed, the wait for the end aside.
                task.result()
        finally:
            for task in work:
                task.cancel()
            if self._sentry is not None:
                self._sentry.stir()
            broker.say_ready(is_ready=False)
            port.close()

    def _use(self, found: Compiled) -> None:
        broker = self.opened.result()
        broker.use_lanes(found.lanes)
        self._sentry = found.sentry()
        broker.watch.on_unwatched = self._sentry.stir

    async def _tick(self, broker: StoreBroker) -> None:
        while True:
            self._seen = time.monotonic() - broker.stuck_seconds
            broker.tick()
            await asyncio.sleep(_TICK_SECONDS)

    async def _look(self, broker: StoreBroker, resting: ThreadPoolExecutor) -> None:
        """Look for what comes, while pulls wait or did a moment ago."""
        until, pause = 0.0, _LOOK_SECONDS
        while True:
            if broker.has_held:
                until = self._loop.time() + _MOMENT_SECONDS
                pause = broker.look()
            elif self._loop.time() >= until:
                self._held.clear()
                await self._held.wait()
                continue
            if not await self._rests(broker, resting):
                await asyncio.sleep(pause)

    async def _rests(self, broker: StoreBroker, resting: ThreadPoolExecutor) -> bool:
        """Rest until something comes for pulls that wait; False where that cannot be."""
        if self._sentry is None or not broker.has_held:
            return False
        self._sentry.begin()
        spots = broker.watch.spots()
        if spots is None:
            return False
        came = await self._loop.run_in_executor(resting, self._sentry.rest, spots)
        if came is not None:
            broker.watch.came(came)
        return True


async def gone(traffic: Traffic) -> None:
    """Close connections, and wait a moment for what was sent to be out; the rest is not sent."""
    traffic.close()
    await _none_is_open(traffic)
    if len(traffic):
        traffic.abort()
        await _none_is_open(traffic)


async def _none_is_open(traffic: Traffic) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            while len(traffic):  # noqa: ASYNC110 - connections tell nobody
                await asyncio.sleep(0.01)
