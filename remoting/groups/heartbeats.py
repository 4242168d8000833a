"""What a client says of itself in a heartbeat (34), or in a check of its subscription (46).

    {"clientID":"ip@instance","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",
    "consumeType":"CONSUME_PASSIVELY","groupName":"G","messageModel":"CLUSTERING",
    "subscriptionDataSet":[{"codeSet":[2598919],"expressionType":"TAG","subString":"TagA",
    "subVersion":1795312657789,"tagsSet":["TagA"],"topic":"T1"}],"unitMode":false}],
    "producerDataSet":[{"groupName":"PG"}],"heartbeatFingerprint":0,"withoutSub":false}

Clients in other languages leave sets out, or write null. Hashes of tags are not read: Go writes
them as strings, and they follow from the expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.filters.tag_expression import SEPARATOR
from reput.remoting.reading.served import Subscription
from reput.remoting.wire import bodies
from reput.remoting.wire.errors import FieldError, JsonError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.remoting.wire.command import Bytes

BROADCASTING = "BROADCASTING"
PASSIVELY, ACTIVELY = "CONSUME_PASSIVELY", "CONSUME_ACTIVELY"

_NULL = "java.lang.NullPointerException"
_JSON = "com.alibaba.fastjson.JSONException"
# Java's clients write the clock in milliseconds, Go's in nanoseconds: no clock is there before
# the year 33658 in the former, and none is below it in the latter since 1970-01-12.
_NANOSECONDS_FROM = 10**15
_NANOSECONDS_PER_MILLISECOND = 10**6


class Consumer(NamedTuple):
    """A group that a client is a member of.

    Attributes:
        group: its name.
        consume_type: `CONSUME_PASSIVELY` (push), `CONSUME_ACTIVELY` (pull), `CONSUME_POP`.
        model: `CLUSTERING` or `BROADCASTING`.
        from_where: where a new group begins, `CONSUME_FROM_LAST_OFFSET`.
        subscriptions: by topic; None where the heartbeat does not say (`withoutSub`).
    """

    group: str
    consume_type: str
    model: str
    from_where: str
    subscriptions: Mapping[str, Subscription] | None


class Heartbeat(NamedTuple):
    """What a client says of itself.

    Attributes:
        client_id: `ip@instance`, with Go's clients maybe without the address.
        consumers: the groups that it consumes for.
        producers: the groups that it produces for.
    """

    client_id: str
    consumers: tuple[Consumer, ...]
    producers: tuple[str, ...]


def parse(body: Bytes) -> Heartbeat:
    """Return what a heartbeat says.

    Raises:
        FieldError: not a heartbeat; a broker answers 1.
    """
    said = read_object(body)
    # Only a fingerprint makes it a heartbeat that may leave its subscriptions out.
    is_short = bool(said.get("heartbeatFingerprint")) and said.get("withoutSub") is True
    return Heartbeat(
        text(said, "clientID"),
        tuple(_consumer(each, is_short=is_short) for each in objects(said, "consumerDataSet")),
        tuple(text(each, "groupName") for each in objects(said, "producerDataSet")),
    )


def subscription(said: Mapping[str, Any]) -> Subscription:
    """Return what a client subscribes to a topic with.

    Raises:
        FieldError: it is not of the types that a client writes.
    """
    expression = said.get("subString")
    if expression is None:
        tags = said.get("tagsSet") or []
        expression = SEPARATOR.join(map(str, tags)) if isinstance(tags, list) else ""
    if not isinstance(expression, str):
        raise _wrong("subString")
    kind = said.get("expressionType")
    version = said.get("subVersion") or 0
    if type(version) is not int:
        raise _wrong("subVersion")
    if version >= _NANOSECONDS_FROM:
        version //= _NANOSECONDS_PER_MILLISECOND
    return Subscription(expression, "TAG" if kind is None else str(kind), version)


def read_object(body: Bytes) -> dict[str, Any]:
    """Return a body that is an object.

    Raises:
        FieldError: it is not.
    """
    try:
        said = bodies.loads(body)
    except JsonError as error:
        raise FieldError(_JSON, str(error)) from None
    if not isinstance(said, dict):
        raise FieldError(_NULL, "the body is not an object")
    return said


def objects(said: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a set of objects, empty where it is null or not there.

    Raises:
        FieldError: it is something else.
    """
    found = said.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise _wrong(name)
    return found


def text(said: Mapping[str, Any], name: str) -> str:
    """Return a text that has to be there.

    Raises:
        FieldError: it is not.
    """
    found = said.get(name)
    if not isinstance(found, str):
        raise _wrong(name)
    return found


def _consumer(said: Mapping[str, Any], *, is_short: bool) -> Consumer:
    subscriptions = {
        text(each, "topic"): subscription(each) for each in objects(said, "subscriptionDataSet")
    }
    return Consumer(
        text(said, "groupName"),
        str(said.get("consumeType") or PASSIVELY),
        str(said.get("messageModel") or "CLUSTERING").upper(),
        str(said.get("consumeFromWhere") or ""),
        None if is_short else subscriptions,
    )


def _wrong(name: str) -> FieldError:
    return FieldError(_NULL, f"the body's <{name}> is missing, or not what a client writes")
