"""Name server and brokers on one event loop, until they are asked to end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import UsageError
from reput.remoting.access.tls import Mode
from reput.remoting.names.known import Known
from reput.remoting.names.registry import Registry
from reput.remoting.server import compiled
from reput.remoting.server.desks import NameDesk
from reput.remoting.server.ports import Port
from reput.remoting.server.registrar import Registrar
from reput.remoting.server.traffic import Traffic

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from reput.remoting.counting.counters import Counters
    from reput.remoting.holding.sentry import Sentry
    from reput.remoting.names.release import Release
    from reput.remoting.server.broker import StoreBroker

LOG = logging.getLogger("reput")

# While pulls wait, or did a moment ago, and else.
_LOOK_SECONDS, _REST_SECONDS = 0.001, 0.02
_MOMENT_SECONDS = 1.0
_TICK_SECONDS = 1.0
# What was sent is out by then, or is not sent.
_CLOSE_SECONDS = 1.0


class Place(NamedTuple):
    """Where a server listens."""

    host: str
    port: int


class Tls(NamedTuple):
    """TLS of all ports.

    Attributes:
        context: returns what the next connection is wrapped in.
        mode: whether plain connections are taken too.
        tick: reads renewed files; returns why they are not in force.
        is_broken: tells whether the newest files are not in force.
    """

    context: Callable[[], ssl.SSLContext]
    mode: Mode
    tick: Callable[[], str | None]
    is_broken: Callable[[], bool] = lambda: False


class Others(NamedTuple):
    """Brokers and name servers of others.

    Attributes:
        may_register: brokers may, at our name server.
        name_servers: at which our brokers register.
    """

    may_register: bool = False
    name_servers: Sequence[Place] = ()


NO_OTHERS = Others()


class Server:
    """All that one process serves.

    Attributes:
        ports: that are open: the name server's, then each broker's.
    """

    def __init__(
        self,
        brokers: Sequence[tuple[Place, StoreBroker]],
        names: tuple[Place, Release, Counters] | None,
        tls: Tls | None = None,
        others: Others = NO_OTHERS,
    ) -> None:
        """Open the ports: clients may connect, and are answered once the loop runs.

        Args:
            brokers: where each listens.
            names: where the name server listens, whose it answers like, and what is told of it;
                None for none.
            tls: None for plain connections only.
            others: who registers where.

        Raises:
            OSError: a port is taken, or an address is not ours; the error names it.
        """
        self._brokers = [broker for _, broker in brokers]
        self._tls = tls
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._names: Counters | None = None
        self._sentry: Sentry | None = None
        self._resting = ThreadPoolExecutor(1, "sentry")
        self._traffics = [broker.traffic for broker in self._brokers]
        own = {broker.described().name for broker in self._brokers}
        self._registry = Registry(lambda: own, self._loop.time) if others.may_register else None
        self._registrar = Registrar(others.name_servers, self._brokers)
        self.ports: list[Port] = []
        try:
            if names is not None:
                self._open_names(*names)
            for place, broker in brokers:
                self._open(place, broker.desk, broker.traffic)
                broker.listens_on(self.ports[-1].number)
        except OSError:
            self._close_ports()
            raise

    def _open_names(self, place: Place, release: Release, counters: Counters) -> None:
        self._names = counters
        desk = NameDesk(self._known, release, counters, self._registry)
        traffic = Traffic(counters)
        self._traffics.append(traffic)
        self._open(place, desk, traffic)

    def _open(self, place: Place, desk: Any, traffic: Traffic) -> None:
        tls = self._tls
        try:
            port = Port(
                place.host,
                place.port,
                desk,
                traffic,
                tls=None if tls is None else tls.context,
                mode=Mode.DISABLED if tls is None else tls.mode,
            )
        except OSError as error:
            error.filename = f"{place.host}:{place.port}"
            raise
        self.ports.append(port)

    def _known(self) -> Known:
        others = () if self._registry is None else self._registry.brokers()
        return Known((*(broker.described() for broker in self._brokers), *others))

    def end(self) -> None:
        """Ask it to end; may be called from a handler of signals of the loop."""
        self._over.set()

    async def check(self) -> None:
        """See that the brokers may be registered, where this is wanted.

        Raises:
            UsageError: another broker has the name of one.
        """
        try:
            await self._registrar.check()
        except UsageError:
            await self._registrar.close()
            self._close_ports()
            raise

    async def run(self) -> None:
        """Answer until `end`; then close all."""
        self._say_ready(is_ready=True)
        tasks = [self._loop.create_task(each) for each in self._work()]
        tasks.append(self._loop.create_task(self._over.wait()))  # type: ignore[arg-type]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                # What ends by itself has failed, the wait for the end aside.
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await self._close()

    def _work(self) -> list[Coroutine[Any, Any, None]]:
        return [self._look(), self._tick(), self._registrar.run(), self._open_lanes()]

    async def _open_lanes(self) -> None:
        """Use lanes once they are compiled, or loaded; until then all is answered without."""
        found = await self._loop.run_in_executor(None, compiled.load)
        if found is not None:
            kind, self._sentry = found
            for broker in self._brokers:
                broker.use_lanes(kind)
                broker.watch.on_unwatched = self._sentry.stir
            LOG.info("pulls that repeat are answered by compiled code")
        await self._over.wait()

    async def _look(self) -> None:
        until, pause = 0.0, _LOOK_SECONDS
        while True:
            held = [broker for broker in self._brokers if broker.has_held]
            if held:
                until = self._loop.time() + _MOMENT_SECONDS
                pause = min([broker.look() for broker in held])
            is_awaited = self._loop.time() < until
            if not is_awaited or not await self._rests(held):
                await asyncio.sleep(pause if is_awaited else _REST_SECONDS)

    async def _rests(self, held: Sequence[StoreBroker]) -> bool:
        """Rest until something comes for pulls that wait; False where that cannot be."""
        if self._sentry is None or not held:
            return False
        self._sentry.begin()
        spots = [each.watch.spots() for each in held]
        if None in spots:
            return False
        owners = {
            id(spot): each for each, found in zip(held, spots, strict=True) for spot in found or ()
        }
        wanted = sorted(chain(*filter(None, spots)), key=lambda spot: spot.key is not None)
        came = await self._loop.run_in_executor(self._resting, self._sentry.rest, wanted)
        if came is not None:
            owners[id(came)].watch.came(came)
        return True

    async def _tick(self) -> None:
        while True:
            for broker in self._brokers:
                broker.tick()
            if self._names is not None:
                self._tick_names(self._names)
            if self._tls is not None:
                self._tick_tls(self._tls)
            await asyncio.sleep(_TICK_SECONDS)

    def _tick_tls(self, tls: Tls) -> None:
        before = tls.context()
        problem = tls.tick()
        if problem is not None:
            LOG.error("%s; the certificate before it stays in force", problem)
        elif tls.context() is not before:
            LOG.info("the new certificate is in force for connections that come from now on")
        for counters in (*(broker.counters for broker in self._brokers), self._names):
            if counters is not None:
                counters.tls_read(is_broken=tls.is_broken())

    def _tick_names(self, counters: Counters) -> None:
        self._traffics[-1].tick(self._loop.time())
        if self._registry is not None:
            self._registry.tick()
            counters.registered(len(self._registry))
        counters.alive()

    def _close_ports(self) -> None:
        for port in self.ports:
            port.close()

    def _say_ready(self, *, is_ready: bool) -> None:
        for broker in self._brokers:
            broker.say_ready(is_ready=is_ready)
        if self._names is not None:
            self._names.ready(is_ready=is_ready)

    async def _close(self) -> None:
        self._say_ready(is_ready=False)
        # Before the ports are closed: clients that ask where a topic is are not sent here.
        await self._registrar.close()
        self._close_ports()
        if self._sentry is not None:
            self._sentry.stir()
        self._resting.shutdown()
        for traffic in self._traffics:
            traffic.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._gone(), _CLOSE_SECONDS)
        for broker in self._brokers:
            broker.close()

    async def _gone(self) -> None:
        while any(map(len, self._traffics)):  # noqa: ASYNC110 - connections tell nobody
            await asyncio.sleep(0.01)
