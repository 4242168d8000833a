"""What a request needs, and what an account has: `Permission`, `PlainAccessResource#parse`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.rocketmq.names import RETRY
from reput.remoting.wire import bodies
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.remoting.wire.command import Command

DENY, PUB, SUB = 1, 4, 8
TRACES = "RMQ_SYS_TRACE_TOPIC"
"""Every account may send to it."""
FOR_ADMINS = {
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
}

# What Java's `trim` removes.
_BLANKS = "".join(map(chr, range(33)))
_TEXTS = {"PUB": PUB, "SUB": SUB, "PUB|SUB": PUB | SUB, "SUB|PUB": PUB | SUB}


class NeedsError(ValueError):
    """A heartbeat does not say what it needs."""


def parse(text: str | None) -> int:
    """Return a permission; what is not one is `DENY`."""
    return DENY if text is None else _TEXTS.get(text.strip(_BLANKS), DENY)


def parse_rules(topics: list[str | None], groups: list[str | None]) -> dict[str, int]:
    """Return the permissions of `topicPerms` and `groupPerms`, groups under `RETRY`.

    Raises:
        ValueError: one of them is not a name, = and a permission.
    """
    rules = {}
    for kind, prefix, texts in (("group", RETRY, groups), ("topic", "", topics)):
        for text in texts:
            items = [each for each in (text or "").split("=") if each]
            if len(items) != 2:
                raise ValueError(f"{kind}Perms has {text!r}, which is not a name, = and PUB or SUB")
            rules[prefix + items[0].strip(_BLANKS)] = parse(items[1])
    return rules


def allows(needed: int, owned: int) -> bool:
    """Tell whether a permission is enough."""
    return not owned & DENY and bool(needed & owned)


def needs(request: Command, *, has_batches: bool) -> dict[str, int]:
    """Return the topics that a request is about, groups under `RETRY`, and what it needs of each.

    Requests that are not here need an account and no permission. `LITE_PULL_MESSAGE` and
    `VIEW_MESSAGE_BY_ID` are among them, so an account that is denied a topic reads it by those.

    Args:
        request: it has fields.
        has_batches: `SEND_BATCH_MESSAGE` needs what other messages do, as in 5.x.

    Raises:
        NeedsError: what it is about cannot be read.
    """
    if request.code == RequestCode.SEND_BATCH_MESSAGE and not has_batches:
        return {}
    find = _NEEDS.get(request.code)
    return {} if find is None else find(request)


def _sent(topic: str, group: str) -> Callable[[Command], dict[str, int]]:
    def find(request: Command) -> dict[str, int]:
        given = request.fields or {}
        name = given.get(topic)
        if name is not None and name.startswith(RETRY):
            return _group(given.get(group))
        return _topic(name, PUB)

    return find


def _of_fields(topic: str | None, group: str | None) -> Callable[[Command], dict[str, int]]:
    def find(request: Command) -> dict[str, int]:
        given = request.fields or {}
        about_topic = _topic(given.get(topic), SUB) if topic else {}
        return about_topic | (_group(given.get(group)) if group else {})

    return find


def _of_heartbeat(request: Command) -> dict[str, int]:
    found: dict[str, int] = {}
    try:
        beat = bodies.loads(request.body)
        for consumer in beat.get("consumerDataSet", ()):
            found |= _group(_text(consumer.get("groupName")))
            for subscription in consumer.get("subscriptionDataSet", ()):
                found |= _topic(_text(subscription.get("topic")), SUB)
    except (WireError, AttributeError, TypeError):
        # Java's own text for it depends on the release of fastjson.
        raise NeedsError from None
    return found


def _text(value: object) -> str | None:
    """Return a name, which fastjson also makes of a number."""
    return None if value is None else str(value)


def _topic(name: str | None, needed: int) -> dict[str, int]:
    return {} if name is None else {name: needed}


def _group(name: str | None) -> dict[str, int]:
    return {} if name is None else {RETRY + name: SUB}


_NEEDS: Mapping[int, Callable[[Command], dict[str, int]]] = {
    RequestCode.SEND_MESSAGE: _sent("topic", "group"),
    RequestCode.SEND_MESSAGE_V2: _sent("b", "a"),
    RequestCode.SEND_BATCH_MESSAGE: _sent("b", "a"),
    RequestCode.CONSUMER_SEND_MSG_BACK: _of_fields(None, "group"),
    RequestCode.PULL_MESSAGE: _of_fields("topic", "consumerGroup"),
    RequestCode.QUERY_MESSAGE: _of_fields("topic", None),
    RequestCode.HEART_BEAT: _of_heartbeat,
    RequestCode.UNREGISTER_CLIENT: _of_fields(None, "consumerGroup"),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _of_fields(None, "consumerGroup"),
    RequestCode.UPDATE_CONSUMER_OFFSET: _of_fields("topic", "consumerGroup"),
}
