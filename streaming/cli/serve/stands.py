"""The stores of a server: those that can be served are, and the others are tried again.

A store that is alone ends the server with its error. Among several, one whose log is missing or
damaged, or whose files of ours cannot be used, is said and waited for: the others are served. So is
one that fails later.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import FIRST_COMPLETED, wait
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import ReputError, StoreError, UsageError
from reput.remoting.access.errors import AccessError
from reput.remoting.server.descriptors import queues_kept_open
from reput.remoting.server.ports import Place
from reput.remoting.server.store_thread import StoreThread
from reput.streaming.cli.asked import open_reader
from reput.streaming.cli.serve.belongs import doubts, refuse_strangers, touched
from reput.streaming.cli.serve.brokers import broker_of, cluster_of, counters_of, name_of
from reput.streaming.events import CURRENT_STORE
from reput.streaming.settings.config import refuse_places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.remoting.counting.counters import Counters
    from reput.remoting.server.broker import StoreBroker
    from reput.remoting.server.server import Server
    from reput.stores.query.message_store import MessageStore
    from reput.streaming.cli.serve.places import Address, Places
    from reput.streaming.observe.serving import ServeMetrics
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.settings.model.serving import ServeOptions

LOG = logging.getLogger("reput")

_TICK_SECONDS = 1.0
_AGAIN_TICKS = 5
# At the start, for stores that take longer than another one.
_PATIENCE_SECONDS = 5.0
# Errors that end the server.
_OF_OPTIONS = (UsageError, AccessError)
# At the start, while no store is open: what is waited for is said then.
_SILENT_SECONDS = 10.0


class Stand(NamedTuple):
    """One store of a server.

    Attributes:
        name: of its broker, and so of the store in metrics and log lines.
        config: of the store.
        listened: where its broker listens.
        advertised: what clients dial.
    """

    name: str
    config: StoreConfig
    listened: Address
    advertised: Address

    def tell(self, port: int) -> None:
        """Say where it is served, on the port that it got."""
        dialled = self.advertised._replace(port=self.advertised.port or port)
        place = self.listened._replace(port=port)
        LOG.info(
            "store %s: %s on %s, clients dial %s",
            self.config.name,
            self.config.path,
            place,
            dialled,
            extra={"store": self.name},
        )


class Stands:
    """The stores of one server, those that are served and those that are waited for."""

    def __init__(
        self,
        options: ServeOptions,
        configs: Sequence[StoreConfig],
        places: Places,
        metrics: ServeMetrics | None,
    ) -> None:
        """Open nothing yet."""
        self._options, self._metrics = options, metrics
        each = zip(configs, places.brokers, places.advertised, strict=True)
        stands = [Stand(name_of(options, config), config, *two) for config, *two in each]
        self._stands = {stand.name: stand for stand in stands}
        # By the broker's name, what was wrong at the last try.
        self._missing: dict[str, Exception] = {}
        # Of stores that are being opened, and of those that were open and are closed again.
        self._threads: dict[str, StoreThread] = {}
        self._closing: dict[str, StoreThread] = {}

    def missing(self) -> frozenset[str]:
        """Return the names of the brokers of stores that are not served."""
        return frozenset(self._missing)

    def lost(self, thread: StoreThread, error: Exception) -> bool:
        """Take a store that has failed while it was served; False if there is no other one.

        It is tried again like one that could not be served at the start.
        """
        if len(self._stands) == 1:
            return False
        name = thread.opened.result().described().name
        self._missing[name] = error
        said = "store %s has failed, and is tried again"
        LOG.error(said, self._stands[name].config.name, exc_info=error, extra={"store": name})
        return True

    def begin(self) -> list[tuple[Stand, StoreThread]]:
        """Return all stores that can be served now.

        Raises:
            ReputError: an option is wrong.
            AccessError: an ACL cannot be used.
            Exception: no store can be served; it is of the first one.
        """
        begun = []
        self._threads = {name: self._thread(stand) for name, stand in self._stands.items()}
        self._wait()
        for name, stand in self._stands.items():
            try:
                begun.append((stand, self._opened(name)))
            except _OF_OPTIONS:
                raise
            except Exception as error:  # noqa: BLE001 - one store must not end all
                self._missing[name] = error
        if not begun:
            self.require_all()
        for name, wrong in self._missing.items():
            # So that the metrics have the store, which is not ready.
            self._counters(name)
            _say(self._stands[name], wrong)
        return begun

    def _wait(self) -> None:
        """Wait until all are open or fail; less if that no longer decides what follows.

        From the first one on that is open, others are waited for a while. An error of the options
        ends the server.
        """
        pending = {each.opened for each in self._threads.values()}
        is_open, has_said = False, False
        while pending and not is_open:
            pause = None if has_said else _SILENT_SECONDS
            done, pending = wait(pending, pause, FIRST_COMPLETED)
            wrong = [each.exception() for each in done]
            if any(isinstance(each, _OF_OPTIONS) for each in wrong):
                return
            is_open = None in wrong
            if not done:
                has_said = True
                self._tell_opening()
        wait(pending, _PATIENCE_SECONDS)

    def _tell_opening(self) -> None:
        """Say why no store is served yet."""
        for name, thread in self._threads.items():
            shown = self._stands[name].config.name
            if not thread.opened.done():
                LOG.error("store %s is waited for: %s", shown, self._still_opened(name))
            elif (wrong := thread.opened.exception()) is not None:
                LOG.error("store %s cannot be served: %s", shown, wrong)

    def _still_opened(self, name: str) -> StoreError:
        path = self._stands[name].config.path
        return StoreError(path, "it is still being opened", "See whether its disk answers")

    def _opened(self, name: str) -> StoreThread:
        """Return the thread of a store that is open.

        Raises:
            ReputError: it cannot be read, or is still being opened.
            AccessError: its ACL cannot be used.
            OSError: as the first one.
        """
        thread = self._threads[name]
        if not thread.opened.done():
            raise self._still_opened(name)
        del self._threads[name]
        thread.opened.result()
        return thread

    def require_all(self) -> None:
        """Pass if all are served; else say which are not, where there are several.

        Raises:
            Exception: of the first one that is not.
        """
        if len(self._missing) > 1:
            for name, wrong in self._missing.items():
                said = self._stands[name].config.name
                LOG.error("store %s cannot be served: %s", said, wrong, extra={"store": name})
        for error in self._missing.values():
            raise error

    async def run(self, server: Server) -> None:
        """Serve the others as soon as they can be, until it is cancelled.

        Each is tried by itself: one whose disk does not answer keeps no other one waiting.
        """
        ticks = 0
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            ticks += 1
            for name in list(self._missing):
                thread = self._threads.get(name)
                if name in self._closing:
                    if self._closing[name].ended.done():
                        del self._closing[name]
                elif thread is None and ticks % _AGAIN_TICKS == 0:
                    self._open_again(name)
                elif thread is not None and thread.opened.done():
                    self._try(name, server)

    def _open_again(self, name: str) -> None:
        try:
            self._threads[name] = self._thread(self._stands[name])
        except (OSError, RuntimeError) as error:
            # No descriptors are left for its loop, or no threads.
            self._missed(name, error)

    def _missed(self, name: str, error: Exception) -> None:
        if str(error) != str(self._missing[name]):
            _say(self._stands[name], error)
        self._missing[name] = error

    def _try(self, name: str, server: Server) -> None:
        try:
            port = self._joined(name, server)
        except Exception as error:  # noqa: BLE001 - as at the start
            self._missed(name, error)
            return
        del self._missing[name]
        self._stands[name].tell(port)

    def _joined(self, name: str, server: Server) -> int:
        """Let the server answer for a store, and return the port.

        Raises:
            ReputError: the store cannot be read, or the port is taken.
            AccessError: its ACL cannot be used.
            OSError: as the first one.
        """
        thread = self._opened(name)
        try:
            return server.join(Place(*self._stands[name].listened), thread)
        except OSError as error:
            # It has the file of offsets until it is closed.
            self._closing[name] = thread
            thread.end()
            raise ReputError(cannot_listen(error)) from error

    def _counters(self, name: str) -> Counters:
        cluster = cluster_of(self._options, self._stands[name].config)
        return counters_of(self._metrics, cluster, name)

    def _thread(self, stand: Stand) -> StoreThread:
        return StoreThread(lambda: self._broker(stand), new_loop)

    def _broker(self, stand: Stand) -> StoreBroker:
        """Open a store, on its thread."""
        CURRENT_STORE.set(stand.name)
        store = opened(stand.config)
        store.keep_open(queues_kept_open(len(self._stands)))

        def look(known: str | None) -> str | None:
            return touched(stand.config, store.log.min_offset, known)

        try:
            said = look(None)
            broker = broker_of(self._options, stand.config, store, stand.advertised, self._metrics)
        except BaseException:
            store.close()
            raise
        broker.doubt(said, look)
        return broker


def new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop where that is installed, else Python's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def opened(config: StoreConfig) -> MessageStore:
    """Return a reader of a store, once the output is known to be of it.

    Raises:
        ReputError: it is not, or it cannot be read.
    """
    if config.is_unchecked:
        refuse_places(config)
    store = open_reader(config.path, config.output, config.settings)
    try:
        refuse_strangers(config, store)
        doubt = doubts(config)
        # It is searched for in the last file, which takes a while: not while clients wait.
        store.log.end()
    except BaseException:
        store.close()
        raise
    if doubt is not None:
        LOG.warning("%s", doubt)
    return store


def cannot_listen(error: OSError) -> str:
    """Return why a port cannot be opened, and what to do."""
    # The event loop adds the address once more.
    why = (error.strerror or str(error)).partition(" (while")[0]
    return (
        f"{error.filename}: cannot listen there: {why}; name an address of this machine, and a "
        "port that is free, with --listen and --namesrv-listen"
    )


def _say(stand: Stand, error: Exception) -> None:
    is_foreseen = isinstance(error, (ReputError, AccessError, OSError))
    LOG.error(
        "store %s is not served, the others are: %s (it is tried again every %d s, with the "
        "settings of the start)",
        stand.config.name,
        error if is_foreseen else f"{type(error).__name__}: {error}",
        _AGAIN_TICKS,
        exc_info=None if is_foreseen else error,
        extra={"store": stand.name},
    )
