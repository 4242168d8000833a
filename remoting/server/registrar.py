"""Our brokers at the name servers of others."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from reput.formats.errors import UsageError
from reput.remoting.counting.counters import Uncounted
from reput.remoting.server.enrolment import AwayError, Enrolment
from reput.remoting.server.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.remoting.server.broker import StoreBroker

# What is registered is taken out by then, or expires there.
_END_SECONDS = 2.0
_TICK_SECONDS = 1.0


class Registrar:
    """Registers each broker at each name server.

    Each pair has a connection of its own: a name server forgets one broker of a connection that
    closes, and not the others.
    """

    def __init__(self, places: Sequence[tuple[str, int]], brokers: Sequence[StoreBroker]) -> None:
        """Say nothing yet.

        Args:
            places: host and port of each name server.
            brokers: that are registered.
        """
        self._places = places
        self._traffic = Traffic(Uncounted())
        self._enrolments: list[Enrolment] = []
        self._kept: dict[Enrolment, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        for broker in brokers:
            self.add(broker)

    def add(self, broker: StoreBroker) -> None:
        """Register one more broker, from now on if the others are."""
        broker.counters.wanted_at_name_servers(len(self._places))
        for place in self._places:
            each = Enrolment(place, broker, self._traffic, self._tell)
            self._enrolments.append(each)
            if self._group is not None:
                self._kept[each] = self._group.create_task(each.keep())

    def remove(self, broker: StoreBroker) -> None:
        """Take a broker out of the name servers, as far as these answer soon."""
        gone = [each for each in self._enrolments if each.broker is broker]
        self._enrolments = [each for each in self._enrolments if each.broker is not broker]
        for each in gone:
            if self._group is not None:
                self._kept.pop(each).cancel()
                self._group.create_task(_leave([each]))

    async def check(self) -> None:
        """See that no other broker lives under a name of ours, as far as name servers answer.

        Raises:
            UsageError: one does; nothing is registered.
        """
        await asyncio.gather(*map(_check, self._enrolments))

    async def run(self) -> None:
        """Keep the brokers registered, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for each in self._enrolments:
                self._kept[each] = group.create_task(each.keep())
            while True:
                self._traffic.tick(asyncio.get_running_loop().time())
                await asyncio.sleep(_TICK_SECONDS)

    async def close(self) -> None:
        """Take the brokers out of the name servers, as far as these answer soon."""
        await _leave(self._enrolments)
        self._traffic.close()

    def _tell(self, broker: StoreBroker) -> None:
        own = [each for each in self._enrolments if each.broker is broker]
        broker.counters.at_name_servers(sum(each.is_registered for each in own))


async def _leave(enrolments: Sequence[Enrolment]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await asyncio.gather(*(each.end() for each in enrolments))


async def _check(enrolment: Enrolment) -> None:
    try:
        other = await enrolment.other_address()
    except AwayError:
        # It is said, and tried again, when the brokers are registered.
        return
    if other is not None:
        name = enrolment.broker.described().name
        raise UsageError(
            f"--register {enrolment.place}: a broker {name} lives there already, at {other}, and "
            "clients would go to and fro between the two; serve this store with another "
            "--broker-name"
        )
