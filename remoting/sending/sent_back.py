"""Messages that consumers send back (36), because they could not process them.

A broker writes such a message again, to be consumed later. A store that is only read cannot, so the
operator chooses:

* *refuse*: clients keep the message, and try it again every five seconds. The group's offset does
  not move past it. A client that fails at everything sends back hundreds of messages a second;
  beyond a few a second of a connection, each is refused after two seconds, for which the client's
  thread waits.
* *accept*: clients take the message for kept. It is dropped, counted and logged.
* *keep*: it is kept in a log of our own, and consumed again, as with a broker (`remoting.keeping`).

Source: RocketMQ `AbstractSendMessageProcessor#consumerSendMsgBack`.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq import messageid
from reput.remoting.keeping import records
from reput.remoting.keeping.kept import FullError
from reput.remoting.keeping.records import Wanted
from reput.remoting.reading.answer import Answer
from reput.remoting.reading.replies import Replies
from reput.remoting.sending.refusals import READ_ONLY
from reput.remoting.wire import fields
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.pull_headers import ConsumerSendMsgBackRequestHeader
from reput.stores.log.records import NoRecordError
from reput.stores.reads import patiently

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from reput.formats.rocketmq.commitlog import Record
    from reput.formats.rocketmq.encode import Message
    from reput.remoting.keeping.keeper import Keeper
    from reput.remoting.keeping.log import Placed
    from reput.remoting.reading.hosts import Host
    from reput.remoting.reading.served import Served
    from reput.remoting.reading.turns import Turns
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command
    from reput.stores.query.message_store import MessageStore

    Handler = Callable[[Command, Channel], Answer | Future[Answer] | None]

LOG = logging.getLogger("reput")
AT_ONCE = 10
"""How many are refused without a wait, each second and connection."""
WAIT_SECONDS = 2.0
"""How long all others wait; a Java client closes the connection after five."""
# Each thread of a stock client waits for its answer; other clients get no more memory than this.
_MOST_WAITING = 1 << 14


class OnSentBack(enum.StrEnum):
    """What happens to messages that are sent back."""

    REFUSE = "refuse"
    ACCEPT = "accept"
    KEEP = "keep"


class Keeping(NamedTuple):
    """What keeps messages.

    Attributes:
        keeper: writes them.
        turns: of the event loop: what is not in memory is waited for elsewhere.
        host: returns what ids of kept messages lead to.
    """

    keeper: Keeper
    turns: Turns
    host: Callable[[], Host]


class _Waiting(NamedTuple):
    due: float
    request: Command
    channel: Channel


class SentBack:
    """The messages that were sent back.

    Attributes:
        refused: how many were refused.
        accepted: how many were accepted, and dropped.
        kept: how many are kept.
    """

    def __init__(
        self,
        choice: OnSentBack,
        served: Served,
        now: Callable[[], float],
        keeping: Keeping | None = None,
        replies: Replies | None = None,
    ) -> None:
        """Begin to count.

        Args:
            choice: the operator's.
            served: the store.
            now: seconds, of a clock that never goes back.
            keeping: for those that are kept.
            replies: send refusals that have waited; None for ones that nobody counts.
        """
        self._keeping = keeping
        self._replies = replies or Replies(served.release)
        self._choice = choice
        self._served = served
        self._now = now
        self._waiting: deque[_Waiting] = deque()
        self._second = 0
        self._in_second: dict[Channel, int] = {}
        self.refused = 0
        self.accepted = 0
        self.kept = 0

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self.take}

    def take(self, request: Command, channel: Channel) -> Answer | Future[Answer] | None:
        """Answer a message that is sent back; None if its refusal has to wait.

        Raises:
            FieldError: a field is missing.
        """
        header = fields.read(ConsumerSendMsgBackRequestHeader, request.fields)
        config = self._served.groups.config(header.group)
        if config is None:
            return self.no_group(header.group)
        if self._choice is OnSentBack.ACCEPT:
            return self._accept(header, channel)
        if self._keeping is not None:
            if config.retry_queues <= 0:
                return Answer(ResponseCode.SUCCESS)
            most = header.max_reconsume_times
            wanted = Wanted(
                header.group, header.delay_level, config.retries if most is None else most
            )
            return asyncio.ensure_future(self._keep(self._keeping, header.offset, wanted, channel))
        self.refused += 1
        if self._may_refuse_now(channel) or len(self._waiting) >= _MOST_WAITING:
            return Answer(ResponseCode.NO_PERMISSION, READ_ONLY)
        # A late answer needs neither its fields nor its body.
        kept = request._replace(fields=None, body=b"")
        self._waiting.append(_Waiting(self._now() + WAIT_SECONDS, kept, channel))
        return None

    async def _keep(
        self, keeping: Keeping, offset: int, wanted: Wanted, channel: Channel
    ) -> Answer:
        """Keep the record at a physical offset."""
        store = self._served.store_at(offset)
        found = keeping.turns.run(patiently(lambda: _record_at(store, offset)))
        record = await found if isinstance(found, asyncio.Future) else found
        if record is None:
            return Answer(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")
        origin = messageid.offset_id(record.store_host, record.physical_offset)
        message = records.sent_back(record, wanted, origin, keeping.host())
        kept = await self.put(message, channel)
        return kept if isinstance(kept, Answer) else Answer(ResponseCode.SUCCESS)

    def no_group(self, group: str) -> Answer:
        """Return what is answered about a group that is not there."""
        remark = f"subscription group not exist, {group} "
        remark += f"\nSee {self._served.release.help_page} for further details."
        return Answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)

    async def put(self, message: Message, channel: Channel) -> Placed | Answer:
        """Write a message and flush it; return where it stands, or an answer that refuses it.

        Args:
            message: for a group's topic, or its dead letters.
            channel: who sent it.
        """
        assert self._keeping is not None
        keeper, topic = self._keeping.keeper, str(message.topic)
        host = self._keeping.host()
        others = self._served.topics.get(topic)
        queue_id = keeper.queue_of(topic, others.read_queues if others is not None else 0)
        placed = message._replace(queue_id=queue_id, store_host=host.address, store_port=host.port)
        try:
            kept = await keeper.put(placed)
        except (FullError, OSError, ValueError) as error:
            self.refused += 1
            if not self._may_refuse_now(channel):
                await asyncio.sleep(WAIT_SECONDS)
            return Answer(ResponseCode.SYSTEM_ERROR, str(error))
        self.kept += 1
        return kept

    def _accept(self, header: ConsumerSendMsgBackRequestHeader, channel: Channel) -> Answer:
        self.accepted += 1
        LOG.warning(
            "message %s of topic %s, at %d of the log, was sent back by %s of group %s: it is "
            "accepted and dropped, and will not be consumed again",
            header.origin_msg_id,
            header.origin_topic,
            header.offset,
            channel.peer,
            header.group,
        )
        return Answer(ResponseCode.SUCCESS)

    def _may_refuse_now(self, channel: Channel) -> bool:
        second = int(self._now())
        if second != self._second:
            self._second, self._in_second = second, {}
        count = self._in_second.get(channel, 0)
        self._in_second[channel] = count + 1
        return count < AT_ONCE

    def tick(self, now: float) -> None:
        """Refuse those that have waited; call it every second or so.

        Args:
            now: as of the clock.
        """
        while self._waiting and self._waiting[0].due <= now:
            _, request, channel = self._waiting.popleft()
            self._replies.send(request, channel, Answer(ResponseCode.NO_PERMISSION, READ_ONLY))


def _record_at(store: MessageStore, offset: int) -> Record | None:
    try:
        return store.at(offset)
    except NoRecordError:
        return None
