"""What tools ask about groups: who is in them, what they want, how they are configured.

Source: RocketMQ `AdminBrokerProcessor`, `ConsumerManageProcessor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq.messageid import parse_offset_id
from reput.remoting.admin.subscriptions import subscribed
from reput.remoting.admin.topics import body_of, data_version
from reput.remoting.groups.forwarding import forward
from reput.remoting.reading.answer import Answer
from reput.remoting.wire import fields
from reput.remoting.wire.admin_headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetAllSubscriptionGroupResponseHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetProducerConnectionListRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
)
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.stores.log.records import NoRecordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.groups.members import Member
    from reput.remoting.groups.requests import GroupState
    from reput.remoting.reading.served import Served
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer | None]

_DEFAULTS_4_9: dict[str, Any] = {
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "groupName": "",
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}
_MORE_OF_5: dict[str, Any] = {
    "attributes": {},
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
}


class Groups:
    """Answers what concerns the members of groups."""

    def __init__(self, state: GroupState, served: Served, broker_name: str) -> None:
        """Answer for a store.

        Args:
            state: what is known of groups.
            served: how the store is served.
            broker_name: what clients are told that a message comes from.
        """
        self._broker_name = broker_name
        self._state = state
        self._served = served
        self._members = state.consumers.members
        self._is_5 = served.release.is_5

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return {
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all_configs,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.config,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume,
        }

    def all_configs(self, request: Command, channel: Channel) -> Answer:
        """Answer with the configurations of all groups; see `Topics.all_configs`."""
        del request, channel
        configs = self._state.consumers.configs
        names = {**configs.documents, **configs.made}
        said: dict[str, Any] = {"dataVersion": configs.data_version or data_version(self._served)}
        if self._is_5:
            said["forbiddenTable"] = configs.forbidden
        table = {name: self._document(name) for name in names}
        answer = body_of(said | {"subscriptionGroupTable": table})
        if not self._served.release.counts_pages:
            return answer
        return answer._replace(header=GetAllSubscriptionGroupResponseHeader(len(table)))

    def config(self, request: Command, channel: Channel) -> Answer:
        """Answer with one configuration.

        Raises:
            FieldError: the group is missing.
        """
        del channel
        name = fields.read(GetSubscriptionGroupConfigRequestHeader, request.fields).group
        configs = self._state.consumers.configs
        # Tools of 5.x ask a store of 4.9 as well, whose broker would make nothing here.
        if name not in configs and not (self._is_5 and configs.find(name)):
            code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            return Answer(code, f"No group in this broker. group: {name}")
        return body_of(self._document(name))

    def _document(self, name: str) -> dict[str, Any]:
        defaults = _DEFAULTS_4_9 | (_MORE_OF_5 if self._is_5 else {})
        said = self._state.consumers.configs.documents.get(name, {})
        return {**defaults, "groupName": name, **said}

    def connections(self, request: Command, channel: Channel) -> Answer:
        """Answer who consumes for a group, and what.

        Raises:
            FieldError: the group is missing.
        """
        del channel
        name = fields.read(GetConsumerConnectionListRequestHeader, request.fields).consumer_group
        group = self._members.groups.get(name)
        if group is None:
            code = ResponseCode.CONSUMER_NOT_ONLINE
            return Answer(code, f"the consumer group[{name}] not online")
        table = {topic: subscribed(topic, each) for topic, each in group.subscriptions.items()}
        return body_of(
            {
                "connectionSet": [_connection(each) for each in group.members.values()],
                "consumeFromWhere": group.from_where,
                "consumeType": group.consume_type,
                "messageModel": group.model,
                "subscriptionTable": table,
            }
        )

    def producers(self, request: Command, channel: Channel) -> Answer:
        """Answer who produces for a group, by heartbeats.

        Raises:
            FieldError: the group is missing.
        """
        del channel
        name = fields.read(GetProducerConnectionListRequestHeader, request.fields).producer_group
        group = self._members.producers.get(name)
        if group is None:
            return Answer(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        return body_of({"connectionSet": [_connection(each) for each in group.values()]})

    def all_producers(self, request: Command, channel: Channel) -> Answer:
        """Answer who produces, by heartbeats."""
        del request, channel
        data = {
            name: [
                {
                    "clientId": each.client_id,
                    "language": each.language.name if each.language is not None else None,
                    "lastUpdateTimestamp": self._members.heard_at(each),
                    "remoteIP": f"/{each.channel.peer}",
                    "version": each.version,
                }
                for each in members.values()
            ]
            for name, members in self._members.producers.items()
        }
        return body_of({"data": data})

    def subscription(self, request: Command, channel: Channel) -> Answer:
        """Answer what of a topic a group wants; null where it has no member.

        Raises:
            FieldError: a field is missing.
        """
        del channel
        header = fields.read(QuerySubscriptionByConsumerRequestHeader, request.fields)
        online = self._members.groups.get(header.group)
        said: dict[str, Any] = {"group": header.group}
        if online is not None and header.topic in online.subscriptions:
            wanted = online.subscriptions[header.topic]
            said["subscriptionData"] = subscribed(header.topic, wanted)
        if header.topic is not None:
            said["topic"] = header.topic
        return body_of(said)

    def running(self, request: Command, channel: Channel) -> Answer | None:
        """Ask a member what it does, and hand on its answer.

        Raises:
            FieldError: a field is missing.
        """
        header = fields.read(GetConsumerRunningInfoRequestHeader, request.fields)
        version = self._served.release.version
        who = header.consumer_group, header.client_id
        return forward(request, channel, self._members, *who, version)

    def consume(self, request: Command, channel: Channel) -> Answer | None:
        """Send a member a message that it is to consume at once, and hand on how that went.

        Raises:
            FieldError: the group is missing.
        """
        header = fields.read(ConsumeMessageDirectlyResultRequestHeader, request.fields)
        try:
            offset = parse_offset_id(header.msg_id or "").physical_offset
            store = self._served.store_at(offset)
            record = store.at(offset)
        except (ValueError, NoRecordError) as error:
            remark = f"there is no message {header.msg_id}: {error}"
            return Answer(ResponseCode.SYSTEM_ERROR, remark)
        said = {**(request.fields or {}), "brokerName": self._broker_name}
        if self._is_5:
            said |= self._flags(header)
        raw = memoryview(store.log.bytes_at(record.physical_offset, record.size))
        body = b"".join(self._served.leaving([raw]))
        version = self._served.release.version
        who = header.consumer_group, header.client_id or ""
        asked = request._replace(fields=said, body=body)
        return forward(asked, channel, self._members, *who, version)

    def _flags(self, header: ConsumeMessageDirectlyResultRequestHeader) -> dict[str, str]:
        """Return the flags of topic and group, of those that are known."""
        topic = self._served.topics.get(header.topic or "")
        said = {} if topic is None else {"topicSysFlag": str(topic.sys_flag)}
        group = self._served.groups.config(header.consumer_group)
        return said if group is None else said | {"groupSysFlag": str(group.sys_flag)}


def _connection(member: Member) -> dict[str, Any]:
    return {
        "clientAddr": member.channel.peer,
        "clientId": member.client_id,
        "language": member.language.name if member.language is not None else None,
        "version": member.version,
    }
