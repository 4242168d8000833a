"""A name server on one event loop, with stores that have threads of their own beside it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import StoreError, UsageError
from reput.remoting.names.known import Known
from reput.remoting.names.registry import Registry
from reput.remoting.server import compiled
from reput.remoting.server.desks import NameDesk
from reput.remoting.server.ports import Port, listening
from reput.remoting.server.registrar import Registrar
from reput.remoting.server.store_thread import gone
from reput.remoting.server.traffic import Traffic

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Coroutine, Sequence
    from typing import Any

    from reput.remoting.counting.counters import Counters
    from reput.remoting.names.release import Release
    from reput.remoting.server.broker import StoreBroker
    from reput.remoting.server.compiled import Compiled
    from reput.remoting.server.ports import Place, Tls
    from reput.remoting.server.store_thread import StoreThread

LOG = logging.getLogger("reput")

_TICK_SECONDS = 1.0
# Stores that are not closed by then have a disk that does not answer.
_END_SECONDS = 10.0


class Others(NamedTuple):
    """Brokers and name servers of others.

    Attributes:
        may_register: brokers may, at our name server.
        name_servers: at which our brokers register.
        missing: returns the names of our brokers that are not served now: nobody else gets them.
        lost: takes a store that has failed, and why; False where the server has to end for it.
    """

    may_register: bool = False
    name_servers: Sequence[Place] = ()
    missing: Callable[[], Collection[str]] = tuple
    lost: Callable[[StoreThread, Exception], bool] = lambda *_: False


NO_OTHERS = Others()


class Server:
    """All that one process serves.

    Attributes:
        ports: numbers of those that were opened: the name server's, then each store's.
    """

    def __init__(
        self,
        stores: Sequence[tuple[Place, StoreThread]],
        names: tuple[Place, Release, Counters] | None,
        tls: Tls | None = None,
        others: Others = NO_OTHERS,
    ) -> None:
        """Open the ports: clients may connect, and are answered once this runs.

        Args:
            stores: where each listens; all are open.
            names: where the name server listens, whose it answers like, and what is told of it;
                None for none.
            tls: None for plain connections only.
            others: who registers where.

        Raises:
            OSError: a port is taken, or an address is not ours; the error names it.
        """
        self._tls = tls
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._names: tuple[Counters, Traffic] | None = None
        self._names_port: Port | None = None
        self._compiled: Compiled | None = None
        self._missing, self._lost = others.missing, others.lost
        self._registry = Registry(self._own_names, self._loop.time) if others.may_register else None
        self._threads: list[StoreThread] = []
        # Those of stores that do not answer yet.
        self._taken: list[tuple[StoreThread, socket.socket]] = []
        self.ports: list[int] = []
        try:
            if names is not None:
                self._open_names(*names)
            for place, store in stores:
                self._listen(place, store)
        except OSError:
            self._close_ports()
            raise
        self._registrar = Registrar(others.name_servers, self._brokers)

    @property
    def _brokers(self) -> list[StoreBroker]:
        return [each.opened.result() for each in self._threads]

    def _open_names(self, place: Place, release: Release, counters: Counters) -> None:
        desk = NameDesk(self._known, release, counters, self._registry)
        taken = listening(place)
        traffic = Traffic(counters)
        self._names = counters, traffic
        self._names_port = Port(taken, desk, traffic, self._tls)
        self.ports.append(taken.getsockname()[1])

    def _listen(self, place: Place, store: StoreThread) -> int:
        taken = listening(place)
        port: int = taken.getsockname()[1]
        store.opened.result().listens_on(port)
        self._taken.append((store, taken))
        self._threads.append(store)
        self.ports.append(port)
        return port

    def _begin(self) -> None:
        """Let the stores that do not yet answer."""
        for store, taken in self._taken:
            store.begin(taken, self._tls)
            if self._compiled is not None:
                store.use(self._compiled)
        self._taken.clear()

    def join(self, place: Place, store: StoreThread) -> int:
        """Serve one more store, while it runs; return the port that it got.

        Raises:
            OSError: the port is taken, or the address is not ours; the error names it.
        """
        port = self._listen(place, store)
        self._begin()
        self._registrar.add(store.opened.result())
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

        Raises:
            OSError: offsets of a store's groups could not be saved.
            StoreError: a store does not end.
        """
        self._begin()
        if self._names is not None:
            self._names[0].ready(is_ready=True)
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
        return [self._tick(), self._registrar.run(), self._compile()]

    async def _compile(self) -> None:
        """Use what is compiled, or loaded; until then all is answered without."""
        found = await self._loop.run_in_executor(None, compiled.load)
        if found is not None:
            self._compiled = found
            for store in self._threads:
                store.use(found)
            LOG.info("pulls that repeat are answered by compiled code")
        await self._over.wait()

    async def _tick(self) -> None:
        while True:
            for store in tuple(self._threads):
                self._look(store)
            if self._names is not None:
                self._tick_names(*self._names)
            if self._tls is not None:
                self._tick_tls(self._tls)
            await asyncio.sleep(_TICK_SECONDS)

    def _look(self, store: StoreThread) -> None:
        """Look whether a store answers; leave it out where it has failed by itself.

        Raises:
            Exception: it has, and the server ends for it.
        """
        try:
            store.look()
        except Exception as error:
            if not self._lost(store, error):
                raise
            self._threads.remove(store)
            self._registrar.remove(store.opened.result())

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
        if self._names_port is not None:
            self._names_port.close()
        for _, taken in self._taken:
            taken.close()

    def _all_counters(self) -> list[Counters]:
        own = [] if self._names is None else [self._names[0]]
        return [*(broker.counters for broker in self._brokers), *own]

    async def _close(self) -> None:
        for counters in self._all_counters():
            counters.ready(is_ready=False)
        # Before the ports are closed: clients that ask where a topic is are not sent here.
        await self._registrar.close()
        self._close_ports()
        for store in self._threads:
            store.end()
        if self._names is not None:
            await gone(self._names[1])
        await self._all_ended()

    async def _all_ended(self) -> None:
        """Wait until all stores are closed, also if one cannot be.

        Raises:
            OSError: offsets of the first one that failed could not be saved.
            StoreError: it does not end.
        """
        ends = [asyncio.wrap_future(each.ended) for each in self._threads]
        if ends:
            await asyncio.wait(ends, timeout=_END_SECONDS)
        wrong = [
            end.exception() if end.done() else _not_ended(store)
            for store, end in zip(self._threads, ends, strict=True)
        ]
        errors = [each for each in wrong if each is not None]
        # The first one is the server's.
        for error in errors[1:]:
            LOG.error("%s", error)
        for error in errors:
            raise error


def _not_ended(store: StoreThread) -> StoreError:
    return StoreError(
        store.opened.result().root,
        "it does not end",
        "Its disk does not answer: offsets that were committed after that are not saved; see which "
        "disk it is, and serve it again once it answers",
    )
