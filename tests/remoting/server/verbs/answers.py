"""Compares answers of both servers, field by field: code, remark, each field, the body."""

from __future__ import annotations

import json
import re
from typing import Any

from reput.remoting.wire import bodies
from reput.remoting.wire.codes import ResponseCode
from reput.remoting.wire.errors import WireError
from tests.remoting.server.verbs.text import (
    DIFFER,
    EQUAL,
    PART,
    READ_ONLY,
    REFUSED,
    UNKNOWN,
    Verdict,
)

# What a broker says of the minute before is "null" in its first one.
_RATE = re.compile(
    r"(?i)tps$|DiskRatio|Capacity$|TotalTodayNow|^runtime$|EntireTimeMax|timerReadBehind"
    r"|^putMessageDistributeTime$"
)
_TIME = re.compile(r"(?i)timestamp$|^delayTime$|^subVersion$|^clientVersion$")
_PORT = re.compile(r"(127\.0\.0\.1:)(?!9876|10911)\d+")
_JAVA = re.compile(r"java\.lang\.IllegalStateException: |, org\.apache\.[\w.]+\(\w+\.java:\d+\)")
_ONE_PAGE = "a version that never changes, of what no file says"
# A place where a captured store had a record.
_WITHIN = ("VIEW_MESSAGE_BY_ID offset=1120 topic=T1", "VIEW_MESSAGE_BY_ID offset=1120")
_RETRIES_LATER = "a broker has a group's retry topic with its first heartbeat, ours a second later"
# What only a part of is told, by the name of the request: where, and why.
_PARTS = (
    ("", "perm", "topics of a served store may only be read"),
    ("", "%RETRY%TOOLS_CONSUMER", _RETRIES_LATER),
    ("GET_ALL_TOPIC_CONFIG", "totalTopicNum", _RETRIES_LATER),
    ("GET_ALL_PRODUCER_INFO", "CLIENT_INNER_PRODUCER", "tools say each 30 s that they are there"),
    ("GET_ALL_", "dataVersion", _ONE_PAGE),
    ("GET_ALL_", "mappingDataVersion", _ONE_PAGE),
    ("GET_ALL_CONSUMER_OFFSET", "groupTopicMap", "only offsets, without what follows from them"),
    ("GET_ALL_CONSUMER_OFFSET", "pullOffsetTable", "only offsets, without what follows from them"),
    ("HEART_BEAT", "IS_SUPPORT_HEART_BEAT_V2", "clients send whole heartbeats"),
    ("GET_BROKER_LITE_INFO", "cqTableSize", "a broker counts queues it has open"),
    ("GET_BROKER_LITE_INFO", "offsetTableSize", "a broker counts queues it has open"),
)


def compare(
    name: str, real: dict[str, Any] | None, ours: dict[str, Any] | None, since: float
) -> Verdict:
    """Compare the answers to a request.

    Args:
        name: of the request.
        real: the answer of RocketMQ's server; None for none.
        ours: the answer of ours.
        since: seconds; times after this may differ.
    """
    if real is None or ours is None or "closed" in real or "closed" in ours:
        return Verdict(EQUAL) if real == ours else Verdict(DIFFER, f"{real} {ours}"[:300])
    if real["code"] == ResponseCode.REQUEST_CODE_NOT_SUPPORTED != ours["code"]:
        return Verdict(PART, "a broker of 4.9 does not know it; ours answers tools of 5.x")
    first, second = _flat(name, real, since), _flat(name, ours, since)
    if first == second:
        return Verdict(EQUAL)
    if name.endswith(_WITHIN):
        return Verdict(PART, "a broker sends whatever stands there; ours wants a record's place")
    reasons = [
        why
        for request, place, why in _PARTS
        if request in name and _taken(first, place) != _taken(second, place)
    ]
    if first == second:
        return Verdict(PART, "; ".join(dict.fromkeys(reasons)))
    kind = DIFFER
    if ours["code"] == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        kind = UNKNOWN
    places = [each for each in sorted({*first, *second}) if first.get(each) != second.get(each)]
    said = [f"{each}: {first.get(each)!r} {second.get(each)!r}" for each in places]
    return Verdict(kind, "\n".join(said)[:1500])


def refused(ours: dict[str, Any] | None) -> Verdict:
    """Tell whether a request that writes was refused with the sentence that says why."""
    if ours is None:
        return Verdict(REFUSED, "one-way")
    is_refused = ours["code"] == ResponseCode.NO_PERMISSION and bool(
        READ_ONLY.search(ours["remark"] or "") or "takes no brokers" in (ours["remark"] or "")
    )
    return Verdict(REFUSED) if is_refused else Verdict(DIFFER, str(ours)[:300])


def _flat(name: str, answer: dict[str, Any], since: float) -> dict[str, Any]:
    """Return an answer as values by place; a place is what leads to it."""
    found: dict[str, Any] = {"code": answer["code"], "remark": _text(answer["remark"] or "")}
    for key, value in (answer["fields"] or {}).items():
        if key == "version" and value.startswith("{"):
            _walk("fields/version", json.loads(value), found, since)
            continue
        found[f"fields/{key}"] = _value(key, value, since)
    raw = answer["body"].encode("latin-1")
    body = raw.decode("utf-8", "replace")
    if "_CONFIG" in name and "=" in body and not body.startswith("{"):
        found["body"] = "settings"
        return found
    try:
        said = bodies.loads(raw) if raw[:1] in {b"{", b"["} else None
    except WireError:
        said = None
    if said is None:
        found["body"] = raw.hex()
    else:
        _walk("body", said, found, since)
    return found


def _walk(place: str, value: Any, found: dict[str, Any], since: float) -> None:
    if isinstance(value, dict):
        for key, each in value.items():
            _walk(f"{place}/{key}", each, found, since)
        if not value:
            found[place] = "{}"
    elif isinstance(value, list):
        # The order is that of a broker's tables of hashes.
        if all(isinstance(each, str) for each in value):
            found.update({f"{place}/{each}": "listed" for each in value})
            return
        keyed = sorted(value, key=lambda each: json.dumps(_plain(each, since), sort_keys=True))
        for number, each in enumerate(keyed):
            _walk(f"{place}/{number}", each, found, since)
        if not value:
            found[place] = "[]"
    else:
        # A disk's name has a path in it.
        name = "DiskRatio" if "DiskRatio" in place else place.rpartition("/")[2]
        found[place] = _value(name, value, since)


def _plain(value: Any, since: float) -> Any:
    found: dict[str, Any] = {}
    _walk("", value if isinstance(value, dict) else {"": value}, found, since)
    return found


def _value(name: str, value: Any, since: float) -> Any:
    if _RATE.search(name):
        return "RATE"
    number = (
        int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdigit()) else 0
    )
    if _TIME.search(name) and number / 1000 >= since:
        return "TIME"
    if name == "delayTime":
        return "TIME"
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    return _JAVA.sub("", _PORT.sub(r"\1PORT", text))


def _taken(found: dict[str, Any], name: str) -> dict[str, Any]:
    """Take what a name leads to, or is a part of, out of an answer, and return it."""
    places = [each for each in found if f"/{name}/" in f"{each}/"]
    return {each: found.pop(each) for each in places}
