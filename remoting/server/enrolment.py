"""One of our brokers at one name server of others: registered, and kept so while it is served."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from typing import TYPE_CHECKING

from reput.remoting.counting.counters import NotRegistered
from reput.remoting.names import enrolling
from reput.remoting.reading.replies import Replies
from reput.remoting.server.connection import Connection
from reput.remoting.server.desks import BrokerDesk
from reput.remoting.wire.codes import ResponseCode
from reput.remoting.wire.errors import JsonError
from reput.remoting.wire.registration import DataVersion

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.names.known import Broker, Topic
    from reput.remoting.names.release import Release
    from reput.remoting.server.broker import StoreBroker
    from reput.remoting.server.traffic import Traffic
    from reput.remoting.wire.command import Command

LOG = logging.getLogger("reput")

# As brokers do it; a name server forgets one that is silent for 120 s.
AGAIN_SECONDS = 30.0
# After a name server could not be reached, doubled each time up to `AGAIN_SECONDS`.
FIRST_PAUSE_SECONDS = 1.0
# How often is looked whether there are other topics, or the connection is closed.
LOOK_SECONDS = 1.0
# A name server answers within this.
_ANSWER_SECONDS = 5.0


class AwayError(Exception):
    """A name server cannot be reached, or does not answer like one."""


class Enrolment:
    """One of our brokers at one name server.

    Attributes:
        is_registered: as far as is known.
    """

    def __init__(
        self,
        place: tuple[str, int],
        broker: StoreBroker,
        traffic: Traffic,
        changed: Callable[[StoreBroker], None],
    ) -> None:
        """Say nothing yet.

        Args:
            place: host and port of the name server.
            broker: ours.
            traffic: of the connections to name servers.
            changed: is called when `is_registered` has changed.
        """
        self._place, self._broker, self._traffic = place, broker, traffic
        self._changed = changed
        self._numbers = itertools.count()
        self._may_be_in = False
        self._connection: Connection | None = None
        self._told: dict[str, Topic] = {}
        self._problem: str | None = None
        self.is_registered = False

    @property
    def place(self) -> str:
        """Return where the name server is, for people."""
        host, port = self._place
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def broker(self) -> StoreBroker:
        """Return the broker."""
        return self._broker

    async def other_address(self) -> str | None:
        """Return the address of another broker that the name server knows by our broker's name.

        Raises:
            AwayError: the name server does not say.
        """
        answer = await self._ask(enrolling.all_brokers(self._release))
        try:
            return enrolling.other_address(answer, self._described)
        except (JsonError, AttributeError) as error:
            raise AwayError(f"it is not a name server: {error}") from None

    async def keep(self) -> None:
        """Register, again and again, until it is cancelled."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._register()
                pause, wait = FIRST_PAUSE_SECONDS, AGAIN_SECONDS
            except AwayError as error:
                why = f"cannot be reached: {error}; it is tried again: is --register right, and up?"
                self._failed(NotRegistered.AWAY, why)
                wait, pause = pause, min(2 * pause, AGAIN_SECONDS)
            await self._pause(wait)

    async def end(self) -> None:
        """Take our broker out of the name server, if it is in."""
        with contextlib.suppress(AwayError):
            await self._leave()
        if self._connection is not None:
            self._connection.close()

    async def _register(self) -> None:
        other = await self.other_address()
        if other is not None:
            await self._leave()
            why = (
                f"has a broker {self._described.name} at {other}: clients would go to and fro; "
                "give --broker-name, or stop that one"
            )
            self._failed(NotRegistered.TAKEN, why)
            return
        broker, topics = self._described, dict(self._described.topics)
        is_first = not self.is_registered
        # From now on, though its answer may not be seen: a store can fail before.
        self._may_be_in = True
        for request in enrolling.registrations(
            broker, self._release, self._next_version, is_first=is_first
        ):
            answer = await self._ask(request)
            if answer.code != ResponseCode.SUCCESS:
                why = f"refuses it with code {answer.code}: {answer.remark}"
                self._failed(NotRegistered.REFUSED, why)
                return
        self._told = topics
        self._problem = None
        self._set(is_registered=True)

    async def _leave(self) -> None:
        if self._may_be_in:
            await self._ask(enrolling.goodbye(self._described, self._release))
            self._may_be_in = False
            self._set(is_registered=False)

    async def _pause(self, seconds: float) -> None:
        """Wait; less if the connection is closed, or other topics are there."""
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(min(seconds, LOOK_SECONDS))
            if not self.is_registered:
                continue
            if self._connection is None or not self._connection.is_open:
                # Name servers forget brokers whose connection closes.
                self._set(is_registered=False)
                return
            if self._described.topics != self._told:
                return

    async def _ask(self, command: Command) -> Command:
        connection = await self._connected()
        answered: asyncio.Future[Command | None] = asyncio.get_running_loop().create_future()

        def take(answer: Command | None) -> None:
            if not answered.done():
                answered.set_result(answer)

        connection.ask(command, take)
        try:
            # `wait_for` of Python 3.11 may drop a cancellation that comes with the answer.
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await answered
        except TimeoutError:
            # An answer that comes late is to nobody.
            connection.abort()
            raise AwayError(f"no answer within {_ANSWER_SECONDS:g} s") from None
        if answer is None:
            raise AwayError("the connection is closed")
        return answer._replace(body=bytes(answer.body))

    async def _connected(self) -> Connection:
        if self._connection is not None and self._connection.is_open:
            return self._connection
        self._set(is_registered=False)
        desk = BrokerDesk({}, Replies(self._release))
        opening = asyncio.get_running_loop().create_connection(
            lambda: Connection(desk, self._traffic), *self._place
        )
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                _, connection = await opening
        except TimeoutError:
            raise AwayError(f"no connection within {_ANSWER_SECONDS:g} s") from None
        except OSError as error:
            raise AwayError(error.strerror or str(error)) from None
        self._connection = connection
        return connection

    def _set(self, *, is_registered: bool) -> None:
        if is_registered is self.is_registered:
            return
        self.is_registered = is_registered
        self._changed(self._broker)
        if is_registered:
            LOG.info("broker %s is registered at name server %s", self._described.name, self.place)

    def _failed(self, reason: NotRegistered, why: str) -> None:
        """Count each time, and say it once."""
        self._set(is_registered=False)
        self._broker.counters.not_registered(reason)
        # The ways in which one cannot be reached are one problem.
        problem = reason.value if reason is NotRegistered.AWAY else why
        if problem != self._problem:
            self._problem = problem
            name = self._described.name
            LOG.error("broker %s is not registered: name server %s %s", name, self.place, why)

    def _next_version(self) -> DataVersion:
        return DataVersion(next(self._numbers), time.time_ns() // 1_000_000)

    @property
    def _described(self) -> Broker:
        return self._broker.described()

    @property
    def _release(self) -> Release:
        return self._broker.release
