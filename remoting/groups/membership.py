"""Answers clients that join, leave and ask who else is there: 34, 35, 38, 46.

Source: RocketMQ `ClientManageProcessor`, `ConsumerManageProcessor#getConsumerListByGroup`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.remoting.groups import heartbeats
from reput.remoting.reading.answer import Answer, success
from reput.remoting.reading.filters import is_tag
from reput.remoting.wire import bodies, fields
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.fields import Header, named
from reput.remoting.wire.pull_headers import (
    GetConsumerListByGroupRequestHeader,
    UnregisterClientRequestHeader,
)
from reput.stores.config.message_filter import FilterError, compile_filter

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.groups.consumers import Consumers
    from reput.remoting.reading.served import Served
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer | None]


@dataclass(frozen=True)
class HeartbeatResponseHeader(Header):
    """What a broker of 5.x says to a heartbeat. Ours wants whole ones, so it knows none of V2."""

    knows_short_ones: bool = named("IS_SUPPORT_HEART_BEAT_V2", default=False)
    is_changed: bool = named("IS_SUB_CHANGE", default=True)


class Membership:
    """Answers what concerns the members of groups."""

    def __init__(self, consumers: Consumers, served: Served) -> None:
        """Answer for a store.

        Args:
            consumers: its groups.
            served: how it is served.
        """
        self._consumers = consumers
        self._members = consumers.members
        self._served = served

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.client_ids,
            RequestCode.CHECK_CLIENT_CONFIG: self.check,
        }

    def heartbeat(self, request: Command, channel: Channel) -> Answer:
        """Take over what a client says of itself. Its groups are told before it is answered.

        Raises:
            FieldError: the body is not a heartbeat.
        """
        said = heartbeats.parse(request.body)
        configs = self._consumers.configs
        for consumer in said.consumers:
            if configs.find(consumer.group) is None:
                continue
            is_changed = self._members.join(consumer, request, channel, said.client_id)
            if is_changed and configs.tells(consumer.group):
                self._members.tell(consumer.group)
        self._members.produce(said, request, channel)
        says_more = self._served.release.heartbeat_says_more
        return Answer(ResponseCode.SUCCESS, header=HeartbeatResponseHeader() if says_more else None)

    def unregister(self, request: Command, channel: Channel) -> Answer:
        """Remove a client from a group of consumers, of producers, or both.

        Raises:
            FieldError: the client does not say who it is.
        """
        header = fields.read(UnregisterClientRequestHeader, request.fields)
        group = header.consumer_group
        is_known = self._members.leave(channel, group, header.producer_group)
        if is_known and group is not None and self._consumers.configs.tells(group):
            self._members.tell(group)
        return success(Header())

    def client_ids(self, request: Command, channel: Channel) -> Answer:
        """Answer who consumes for a group.

        Raises:
            FieldError: the group is missing.
        """
        del channel
        name = fields.read(GetConsumerListByGroupRequestHeader, request.fields).consumer_group
        group = self._members.groups.get(name)
        if group is None:
            remark = f"no consumer for this group, {name}"
            return Answer(ResponseCode.SYSTEM_ERROR, remark, Header())
        body = bodies.dumps({"consumerIdList": group.client_ids})
        return Answer(ResponseCode.SUCCESS, None, Header(), (memoryview(body),))

    def check(self, request: Command, channel: Channel) -> Answer:
        """Answer whether a client may subscribe with an expression; it does not start if not.

        Raises:
            FieldError: the body does not say what it subscribes with.
        """
        del channel
        said = heartbeats.read_object(request.body).get("subscriptionData")
        wanted = heartbeats.subscription(said) if isinstance(said, dict) else None
        if wanted is None or is_tag(wanted.kind):
            return Answer(ResponseCode.SUCCESS)
        if not self._served.filters_properties:
            remark = f"The broker does not support consumer to filter message by {wanted.kind}"
            return Answer(ResponseCode.SYSTEM_ERROR, remark)
        operators = self._served.store.settings.version.has_string_operators
        try:
            compile_filter(wanted.expression, wanted.kind, string_operators=operators)
        except FilterError as error:
            return Answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
        return Answer(ResponseCode.SUCCESS)
