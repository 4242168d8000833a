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
    from collections.abc import Callable, Collection, Coroutine, Sequence
    from typing import Any

    from reput.remoting.counting.counters import Counters
    from reput.remoting.holding.sentry import Sentry
    from reput.remoting.lanes.lanes import Lanes
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
        missing: returns the names of our brokers that are not served yet: nobody else gets them.
    """

    may_register: bool = False
    name_servers: Sequence[Place] = ()
    missing: Callable[[], Collection[str]] = tuple


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
        self._names: tuple[Counters, Traffic] | None = None
        self._lanes: type[Lanes] | None = None
        self._sentry: Sentry | None = None
        self._resting = ThreadPoolExecutor(1, "sentry")
        self._traffics = [broker.traffic for broker in self._brokers]
        self._missing = others.missing
        self._registry = Registry(self._own_names, self._loop.time) if others.may_register else None
        self._registrar = Registrar(others.name_servers, self._brokers)
        self.ports: list[Port] = []
        try:
            if names is not None:
                self._open_names(*names)
            for place, broker in brokers:
                broker.listens_on(self._open(place, broker.desk, broker.traffic))
        except OSError:
            self._close_ports()
            raise

    def _open_names(self, place: Place, release: Release, counters: Counters) -> None:
        desk = NameDesk(self._known, release, counters, self._registry)
        traffic = Traffic(counters)
        self._names = counters, traffic
        self._traffics.append(traffic)
        self._open(place, desk, traffic)

    def _open(self, place: Place, desk: Any, traffic: Traffic) -> int:
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
        number: int = port.number
        return number

    def join(self, place: Place, broker: StoreBroker) -> int:
        """Serve one more broker, while it runs; return the port that it got.

        Raises:
            OSError: the port is taken, or the address is not ours; the error names it.
        """
        port = self._open(place, broker.desk, broker.traffic)
        broker.listens_on(port)
        self._brokers.append(broker)
        self._traffics.append(broker.traffic)
        self._use_lanes(broker)
        broker.say_ready(is_ready=True)
        self._registrar.add(broker)
        return port

    def _own_names(self) -> set[str]:
        return {*(broker.described().name for broker in self._brokers), *self._missing()}

    def _known(self) -> Known:
        others = () if self._registry is None else self._registry.brokers()
        return Known((*(broker.described() for broker in self._brokers), *others))

    def end(self) -> None:
        """Ask it to end; may be called from a handler of signals of the loop."""
        self._over.set()

    async def check(self) -> None:
        """See that the brokers may be registered, where this is wanted; `end` ends it early.

        Raises:
            UsageError: another broker has the name of one.
        """
        checking = self._loop.create_task(self._registrar.check())
        over = self._loop.create_task(self._over.wait())
        try:
            await asyncio.wait([checking, over], return_when=asyncio.FIRST_COMPLETED)
            if checking.done():
                checking.result()
        except UsageError:
            await self._registrar.close()
            self._close_ports()
            raise
        finally:
            checking.cancel()
            over.cancel()

    async def run(self, *beside: Coroutine[Any, Any, None]) -> None:
        """Answer until `end`; then close all.

        Args:
            beside: what else runs until then; what fails of it ends the server.
        """
        self._say_ready(is_ready=True)
        tasks = [self._loop.create_task(each) for each in (*self._work(), *beside)]
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
            self._lanes, self._sentry = found
            for broker in self._brokers:
                self._use_lanes(broker)
            LOG.info("pulls that repeat are answered by compiled code")
        await self._over.wait()

    def _use_lanes(self, broker: StoreBroker) -> None:
        if self._lanes is not None and self._sentry is not None:
            broker.use_lanes(self._lanes)
            broker.watch.on_unwatched = self._sentry.stir

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
                self._tick_names(*self._names)
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
        for counters in self._all_counters():
            counters.tls_read(is_broken=tls.is_broken())

    def _tick_names(self, counters: Counters, traffic: Traffic) -> None:
        traffic.tick(self._loop.time())
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
            self._names[0].ready(is_ready=is_ready)

    def _all_counters(self) -> list[Counters]:
        own = [] if self._names is None else [self._names[0]]
        return [*(broker.counters for broker in self._brokers), *own]

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
        with contextlib.ExitStack() as closed:
            # Each saves what its groups have consumed, also if another one cannot.
            for broker in self._brokers:
                closed.callback(broker.close)

    async def _gone(self) -> None:
        while any(map(len, self._traffics)):  # noqa: ASYNC110 - connections tell nobody
            await asyncio.sleep(0.01)
