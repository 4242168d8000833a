"""Writes, which a store that is only read refuses with a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.reading.answer import Answer
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.fields import Header

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer | None]

READ_ONLY = "read-only store served by reput"

MESSAGES = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.END_TRANSACTION,
    RequestCode.RESUME_CHECK_HALF_MESSAGE,
    RequestCode.RECALL_MESSAGE,
)
CONFIGURATION = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
    RequestCode.SET_MESSAGE_REQUEST_MODE,
    RequestCode.CLONE_GROUP_OFFSET,
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
    RequestCode.SET_COMMITLOG_READ_MODE,
    RequestCode.SWITCH_TIMER_ENGINE,
    RequestCode.RESET_MASTER_FLUSH_OFFSET,
)
FILES = (
    RequestCode.TRIGGER_DELETE_FILES,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
)
ACCOUNTS = (
    RequestCode.AUTH_CREATE_USER,
    RequestCode.AUTH_UPDATE_USER,
    RequestCode.AUTH_DELETE_USER,
    RequestCode.AUTH_CREATE_ACL,
    RequestCode.AUTH_UPDATE_ACL,
    RequestCode.AUTH_DELETE_ACL,
)


def handlers() -> dict[int, Handler]:
    """Return what refuses writes, by code of the request."""
    return dict.fromkeys((*MESSAGES, *CONFIGURATION, *FILES, *ACCOUNTS), refuse)


def refuse(request: Command, channel: Channel) -> Answer:
    """Refuse a request that writes."""
    del request, channel
    return Answer(ResponseCode.NO_PERMISSION, READ_ONLY, Header())
