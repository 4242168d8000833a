"""What a group wants of a topic, as clients and brokers write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.formats.java.strings import hash_code
from reput.remoting.wire import bodies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reput.formats.filters.consumerfilter import ConsumerFilter
    from reput.remoting.reading.served import Subscription


def subscribed(topic: str, wanted: Subscription) -> dict[str, Any]:
    """Return a subscription as its client writes it (`SubscriptionData`)."""
    tags: Iterable[str] = ()
    if wanted.kind == "TAG" and wanted.expression.strip() not in {"", "*"}:
        tags = [tag.strip() for tag in wanted.expression.split("||") if tag.strip()]
    return {
        "classFilterMode": False,
        "codeSet": [hash_code(tag) for tag in tags],
        "expressionType": wanted.kind,
        "subString": wanted.expression,
        "subVersion": wanted.version,
        "tagsSet": list(tags),
        "topic": topic,
    }


def filter_text(topic: str, registered: ConsumerFilter | None) -> str:
    """Return a filter as a broker prints it (`ConsumerFilterData`), over several lines."""
    if registered is None:
        return "null"
    said: dict[str, Any] = {}
    if registered.bit_count:
        bits = {"bitNum": registered.bit_count, "bitPos": list(registered.bit_positions)}
        said["bloomFilterData"] = bits
    return _lines(
        said
        | {
            "bornTime": registered.born_time,
            "clientVersion": registered.client_version,
            "consumerGroup": registered.group,
            "dead": registered.dead,
            "deadTime": registered.dead_time,
            "expression": registered.expression,
            "expressionType": registered.expression_type,
            "topic": topic,
        }
    )


def _lines(value: Mapping[str, Any], depth: int = 1) -> str:
    """Return an object with a line for each of its fields; lists stand in one line."""
    indent = "\t" * depth
    fields = [
        f'{indent}"{name}":'
        + (_lines(each, depth + 1) if isinstance(each, dict) else bodies.dumps(each).decode())
        for name, each in value.items()
    ]
    return "{\n" + ",\n".join(fields) + "\n" + "\t" * (depth - 1) + "}"
