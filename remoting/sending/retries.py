"""Messages that members send to their group's retry topic themselves (10, 310), as producers do.

Java's consumers do so where `CONSUMER_SEND_MSG_BACK` has failed, and those that consume in order
once they give a message up. Where messages are kept, these are kept like all that is sent back.

========================= =============================== ====================================
                          4.9                             5.x
========================= =============================== ====================================
for the dead letters      tried as often as it may be     tried more often, or the group has
                                                          locks: it consumes in order
a dead letter's `DELAY`   as it came: it waits for that   -1
`TIMER_…`                 stays                           goes where there is a delay
========================= =============================== ====================================

Source: RocketMQ `SendMessageProcessor#handleRetryAndDLQ`, `#sendMessage`, `HookUtils`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.formats.rocketmq import messageid, properties
from reput.formats.rocketmq.encode import Message
from reput.formats.rocketmq.names import DEAD_LETTERS, RETRY
from reput.remoting.reading.answer import Answer, success
from reput.remoting.reading.hosts import address_of
from reput.remoting.sending.refusals import refuse
from reput.remoting.wire import fields
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.fields import named
from reput.remoting.wire.send_headers import (
    LONG_NAMES,
    SendMessageRequestHeader,
    SendMessageResponseHeader,
)

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from reput.remoting.reading.served import Served
    from reput.remoting.sending.sent_back import SentBack
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer | Future[Answer] | None]

_REGION, _TRACES, _CLUSTER = "MSG_REGION", "TRACE_ON", "CLUSTER"
_HALF, _POPPED, _WAIT = "TRAN_MSG", "POP_CK", "WAIT"
_TIMERS = ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")
# Bits of the system flag that say how the body is compressed; the others are the broker's.
_COMPRESSION = 0x701


@dataclass(frozen=True)
class _Taken(SendMessageResponseHeader):
    region: str = named(_REGION, default="DefaultRegion")
    traces: str = named(_TRACES, default="true")


class Retries:
    """Keeps what members send to their retry topic."""

    def __init__(
        self, sent_back: SentBack, served: Served, has_locks: Callable[[str], bool], cluster: str
    ) -> None:
        """Keep nothing yet.

        Args:
            sent_back: keeps these, too.
            served: the store.
            has_locks: tells whether a group has some: it consumes in order.
            cluster: of the broker; messages name it.
        """
        self._sent_back, self._served = sent_back, served
        self._has_locks, self._cluster = has_locks, cluster
        self._is_5 = served.release.is_5

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return dict.fromkeys((RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2), self.take)

    def take(self, request: Command, channel: Channel) -> Answer | Future[Answer]:
        """Keep a message for a retry topic; refuse all others.

        Raises:
            FieldError: a field is missing.
        """
        given = request.fields or {}
        if request.code == RequestCode.SEND_MESSAGE_V2:
            given = {LONG_NAMES.get(name, name): value for name, value in given.items()}
        sent = fields.read(SendMessageRequestHeader, given)
        said = properties.of_text(sent.properties or "")
        if not sent.topic.startswith(RETRY) or sent.batch or said.get(_HALF) == "true":
            return refuse(request, channel)
        group = sent.topic.removeprefix(RETRY)
        config = self._served.groups.config(group)
        if config is None:
            return self._sent_back.no_group(group)
        most = config.retries if sent.max_reconsume_times is None else sent.max_reconsume_times
        topic = DEAD_LETTERS + group if self._is_dead(sent, group, most) else sent.topic
        born = address_of(channel.peer)
        message = Message(
            topic,
            bytes(request.body),
            self._properties(said, topic),
            born_timestamp=sent.born_timestamp,
            flag=sent.flag,
            sys_flag=sent.sys_flag & _COMPRESSION,
            born_host=born.address,
            born_port=born.port,
            reconsume_times=sent.reconsume_times or 0,
        )
        # Producers of 5.x are told the id that they gave.
        unique = said.get(properties.UNIQ_KEY) if self._is_5 else None
        return asyncio.ensure_future(self._keep(message, channel, unique))

    def _is_dead(self, sent: SendMessageRequestHeader, group: str, most: int) -> bool:
        times = sent.reconsume_times or 0
        if not self._is_5:
            return times >= most
        return times > most or self._has_locks(group)

    def _properties(self, said: dict[str, str], topic: str) -> dict[str, str]:
        """Return what the copy has, after what came."""
        if self._is_5:
            said.pop(_POPPED, None)
            if topic.startswith(DEAD_LETTERS):
                said[properties.DELAY] = "-1"
            elif properties.DELAY in said:
                for name in _TIMERS:
                    said.pop(name, None)
        else:
            said.pop(_WAIT, None)
        said.setdefault(_REGION, "DefaultRegion")
        said.setdefault(_TRACES, "true")
        return said | {_CLUSTER: self._cluster}

    async def _keep(self, message: Message, channel: Channel, unique: str | None) -> Answer:
        kept = await self._sent_back.put(message, channel)
        if isinstance(kept, Answer):
            return kept
        stored = kept.message
        host = f"[{stored.store_host}]:{stored.store_port}"
        return success(
            _Taken(
                messageid.offset_id(host, kept.position),
                stored.queue_id,
                stored.queue_offset,
                unique,
            )
        )
