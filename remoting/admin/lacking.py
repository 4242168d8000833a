"""What tools ask about that a served store does not have: users, controllers, RocksDB, lite topics.

Each answer is that of a broker of 5.x which does not have them either.

Source: RocketMQ `AdminBrokerProcessor`, `QueryAssignmentProcessor`, `LiteManagerProcessor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.remoting.admin.topics import UNSET, body_of
from reput.remoting.reading.answer import Answer
from reput.remoting.sending.refusals import refuse
from reput.remoting.wire import bodies, fields
from reput.remoting.wire.admin_headers import (
    GetLiteGroupInfoRequestHeader,
    GetLiteTopicInfoRequestHeader,
    GetParentTopicInfoRequestHeader,
)
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.stores.config.config_files import read_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.remoting.groups.requests import GroupState
    from reput.remoting.reading.served import Served
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer]

# The first release with queues in RocksDB beside those in files, and the one with lite topics.
_COMBINED_SINCE, _LITE_SINCE = 493, 513
_CHECK_IN_PROGRESS = 2
_MODES = "messageRequestMode.json"
_LITE, _BOUND_TO = "LITE", "lite.bind.topic"
_NO_USERS = "An system error occurred, please try again later."
_NO_RULES = "java.lang.IllegalStateException: The authorizationMetadataProvider is not configured."
_ACCOUNTS_OF_4_9 = (
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
    RequestCode.DELETE_ACL_CONFIG,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
)
_COLD_LIMITS = {"cgColdReadThreshold": 3145728, "globalColdReadThreshold": 104857600}


class Lacking:
    """Answers what concerns things that are not there."""

    def __init__(self, state: GroupState, served: Served, properties: Mapping[str, str]) -> None:
        """Answer for a store.

        Args:
            state: what is known of groups.
            served: how the store is served.
            properties: its broker.conf.
        """
        self._state = state
        self._served = served
        self._properties = properties

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        release = self._served.release
        if not release.is_5:
            return dict.fromkeys(_ACCOUNTS_OF_4_9, refuse)
        found: dict[int, Handler] = {
            RequestCode.GET_BROKER_EPOCH_CACHE: _says("this request only for controllerMode "),
            RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: self.cold_data,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.modes,
            RequestCode.AUTH_GET_USER: _says(_NO_USERS),
            RequestCode.AUTH_LIST_USER: _says(_NO_USERS),
            RequestCode.AUTH_GET_ACL: _says(_NO_USERS),
            RequestCode.AUTH_LIST_ACL: _says(_NO_RULES),
            RequestCode.POP_ROLLBACK: refuse,
        }
        if release.version >= _COMBINED_SINCE:
            found |= {
                RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _checks,
                RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: _exports,
            }
        if release.version >= _LITE_SINCE:
            found |= {
                RequestCode.GET_BROKER_LITE_INFO: self.lite,
                RequestCode.GET_PARENT_TOPIC_INFO: self.lite_parent,
                RequestCode.GET_LITE_TOPIC_INFO: self.lite_topic,
                RequestCode.GET_LITE_CLIENT_INFO: self.lite_topic,
                RequestCode.GET_LITE_GROUP_INFO: self.lite_group,
                RequestCode.TRIGGER_LITE_DISPATCH: self.lite_group,
            }
        return found

    def cold_data(self, request: Command, channel: Channel) -> Answer:
        """Answer that no group is slowed down for reading cold data."""
        del request, channel
        limits = {name: self._number(name, default) for name, default in _COLD_LIMITS.items()}
        return body_of({"runtimeTable": {}, "configTable": {}} | limits | {"globalAcc": 0})

    def modes(self, request: Command, channel: Channel) -> Answer:
        """Answer which groups pull and which pop, by the broker's file."""
        del request, channel
        text = read_config(self._served.store.root, _MODES)
        said = bodies.loads(text.encode()) if text else {"messageRequestModeMap": {}}
        return body_of(said)

    def lite(self, request: Command, channel: Channel) -> Answer:
        """Answer that there are no lite topics."""
        del request, channel
        store = self._served.store
        reached = self._state.offsets.document()["offsetTable"]
        said: dict[str, Any] = {
            "cqTableSize": sum(len(store.queue_ids(topic)) for topic in store.topics()),
            "currentLmqNum": 0,
            "eventMapSize": 0,
            "groupMeta": {},
            "liteSubscriptionCount": 0,
            "maxLmqNum": self._number("maxLmqConsumeQueueNum", 20000),
            "offsetTableSize": len(reached),
            "orderInfoCount": 0,
            "storeType": self._properties.get("storeType", "default"),
            "topicMeta": {},
        }
        return body_of(said)

    def lite_parent(self, request: Command, channel: Channel) -> Answer:
        """Answer that a topic has no lite topics.

        Raises:
            FieldError: the topic is missing.
        """
        del channel
        header = fields.read(GetParentTopicInfoRequestHeader, request.fields)
        return self._no_parent(header.topic) or _unsupported(request)

    def lite_topic(self, request: Command, channel: Channel) -> Answer:
        """Answer that a topic has no lite topics."""
        del channel
        header = fields.read(GetLiteTopicInfoRequestHeader, request.fields)
        return self._no_parent(header.parent_topic or "") or _unsupported(request)

    def lite_group(self, request: Command, channel: Channel) -> Answer:
        """Answer that a group does not consume lite topics."""
        del channel
        group = fields.read(GetLiteGroupInfoRequestHeader, request.fields).group
        configs = self._state.consumers.configs
        if group not in configs:
            code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            return Answer(code, f"Group [{group}] not exist.")
        said = configs.documents.get(group, {}).get("attributes")
        if not isinstance(said, dict) or not said.get(_BOUND_TO):
            return Answer(ResponseCode.INVALID_PARAMETER, f"Group [{group}] is not a LITE group.")
        return _unsupported(request)

    def _no_parent(self, name: str) -> Answer | None:
        """Return what is said of a topic that has no lite topics, None for one that may have."""
        topic = self._served.topics.get(name)
        if topic is None:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, f"Topic [{name}] not exist.")
        if dict(topic.attributes).get("message.type") == _LITE:
            return None
        return Answer(ResponseCode.INVALID_PARAMETER, f"Topic [{name}] type not match.")

    def _number(self, name: str, default: int) -> int:
        said = self._properties.get(name, "").strip()
        return int(said) if said.isdigit() else default


def _says(remark: str) -> Handler:
    def answer(request: Command, channel: Channel) -> Answer:
        del request, channel
        return Answer(ResponseCode.SYSTEM_ERROR, remark)

    return answer


def _checks(request: Command, channel: Channel) -> Answer:
    """Answer as a broker does that has begun to look: the result is in its log."""
    del request, channel
    return body_of({"checkStatus": _CHECK_IN_PROGRESS}, UNSET)


def _exports(request: Command, channel: Channel) -> Answer:
    """Answer that what is in RocksDB is exported: nothing is, and nothing is written."""
    del request, channel
    return Answer(ResponseCode.SUCCESS, "export done.")


def _unsupported(request: Command) -> Answer:
    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    return Answer(code, f" request type {request.code} not supported")
