"""What of two texts may differ: times, rates, and the ports of clients. All else has to be equal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tests.remoting.server.verbs.processes import BROKER_PORT, NAMES_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

READ_ONLY = re.compile(
    # Our sentences; and what producers say of a topic that may only be read.
    r"read-only store served by reput|This name server is reput's|No route info of this topic|"
    r"0 +false +\d+\s+Avg RT: NaN"
)
EQUAL, PART, UNKNOWN, REFUSED, DIFFER = "equal", "a part", "unknown", "refused", "differ"
_UNSUPPORTED = re.compile(r"request type \d+ not supported")

_STACK = re.compile(r"\s+at |\s+\.\.\. \d+ (more|common frames)")
_SERVERS = {str(NAMES_PORT), str(BROKER_PORT), str(BROKER_PORT + 1), str(BROKER_PORT - 2), "1"}
_CLIENT = re.compile(r"(127\.0\.0\.1:)(\d+)")
_OBJECT = re.compile(r"(\$\$Lambda\$)\d+/0x[0-9a-f]+@[0-9a-f]+|@[0-9a-f]{5,8}\b")
_MILLIS = re.compile(r"\b1[78]\d{11}\b")
_DATE = re.compile(r"\b20\d\d-?\d\d-?\d\d[ ]?\d\d:?\d\d:?\d\d([,:.]\d{1,3})?")
# The members' own figures, and where a tool put a file.
_TIMES = re.compile(r"\b([a-zA-Z]*Timestamp|spentTimeMills|lastConsumeTime) ?([:=]) ?\d+")
_AGO = re.compile(r"\(-?\d+ s ago\)")


class Verdict(NamedTuple):
    """How two texts compare, and why they differ where they may."""

    kind: str
    reason: str = ""


class Rule(NamedTuple):
    """What of a verb's text may differ.

    Attributes:
        verb: which one; a pattern of verb and options.
        what: pattern of the text that is left out.
        why: the reason, empty for times and rates.
    """

    verb: str
    what: str
    why: str = ""


_RATE = r"\d+\.\d+"
_PERM = "topics of a served store may only be read"
RULES = (
    Rule(r"clusterList( -c.*)?$", rf"{_RATE}\(.*?\)|{_RATE}w, {_RATE}, {_RATE}"),
    Rule(r"clusterList( -c.*)?$", rf"(?<= )\d+ +-?{_RATE} +{_RATE}(?= +true|$)"),
    # In and out since yesterday and today.
    Rule("clusterList -m", r"(\d+ +){3}\d+ *$"),
    Rule("statsAll", rf"{_RATE}( +{_RATE})? +\d+( +\d+)? *$|{_RATE} +\d+ +NO_CONSUMER"),
    Rule("statsAll -a", r"^(T1|TG) .*\n?", "rates are not counted, so no topic is active"),
    Rule("consumerProgress$|consumerProgress -s true$", r"(?<=ING) +\d+(?= )"),
    Rule("consumerProgress -g", rf"(?<=Consume TPS: ){_RATE}"),
    Rule("consumerStatus", rf" +({_RATE} +){{5}}\d+"),
    # The order of members is that of a table of connections.
    Rule("consumerStatus", r"^\d+ +(?=\S+@)"),
    Rule("consumerStatus", r"^consumeTimestamp +: \d+"),
    Rule("consumerStatus .*-s", r"(?s)#Consumer jstack#.*|Consumer jstack.*"),
    # Disks fill meanwhile.
    Rule("brokerStatus", r"(?<=DiskRatio).*: [\d.]+|(?<=commitLogDirCapacity).*"),
    Rule("brokerStatus", r"(?<=Tps) +: .*|(?<=msgGetTotalTodayNow) +: \d+|(?<=runtime) +: .*"),
    Rule("brokerStatus", r"(getMessageEntireTimeMax|timerReadBehind) +: \d+"),
    Rule("exportMetrics", rf'DiskRatio":"{_RATE}"|(?<=Tps":){_RATE}|(?<=Num":)\d+'),
    # A broker tells of changes that it made as it started.
    Rule("exportMetadata .*-g", r'"(counter|timestamp)":\S+'),
    Rule("topicRoute|exportMetadata", r'"perm":\d', _PERM),
    Rule("topicRoute .*-l", r"(?<= )\d(?= *$)", _PERM),
    Rule(
        "(list|copy)Acl",
        r"java\.lang\.IllegalStateException: |, org\.apache\..*?\.java:\d+\)",
        "without the class and the line of Java",
    ),
    Rule("getBrokerLiteInfo", r"(?<= 0 {20})\d+ +\d+(?= )", "a broker counts queues it has open"),
)
_SETTINGS = re.compile("get(Broker|Namesrv)Config")
_SETTING = re.compile(r"(\S+) += *")
_KNOWN_SETTINGS = "only settings that broker.conf says, that tools read, or that are so here"


def judge(words: Sequence[str], real: str, ours: str, since: float) -> Verdict:
    """Compare what a verb printed of a real broker and of ours.

    Args:
        words: the verb and its options.
        real: what it printed of the real ones.
        ours: of ours.
        since: seconds; times after this may differ.
    """
    verb = " ".join(words)
    first, second = (_plain(each, since) for each in (real, ours))
    if first == second:
        return Verdict(EQUAL)
    reason = ""
    if "RemotingTimeoutException" in real:
        return Verdict(PART, "the real one does not answer at all")
    if _SETTINGS.match(verb):
        first, reason = _common_settings(first, second), _KNOWN_SETTINGS
    for rule in RULES:
        if re.match(rule.verb, verb):
            # What one of them lacks is left out; what both have leaves a mark.
            mark = "" if rule.why else "…"
            changed = [_without(rule.what, each, mark) for each in (first, second)]
            if rule.why and changed != [first, second]:
                reason = rule.why
            first, second = changed
    if same(first, second):
        return Verdict(PART, reason) if reason else Verdict(EQUAL)
    return Verdict(UNKNOWN if _UNSUPPORTED.search(ours) else DIFFER, difference(first, second))


def _common_settings(first: str, second: str) -> str:
    """Return the lines of the first that name a setting of the second, or none."""
    known = {found[1] for found in map(_SETTING.match, second.splitlines()) if found}
    kept = []
    for line in first.splitlines():
        found = _SETTING.match(line)
        if found is None or found[1] in known:
            kept.append(line)
    return "\n".join(kept)


def refused(ours: str) -> Verdict:
    """Tell whether a verb that writes was refused with the sentence that says why."""
    return Verdict(REFUSED) if READ_ONLY.search(ours) else Verdict(DIFFER, _plain(ours, 0)[:300])


def same(first: str, second: str) -> bool:
    """Tell whether two texts have the same lines; a broker's tables have an order of hashes."""
    return first == second or sorted(first.splitlines()) == sorted(second.splitlines())


def difference(first: str, second: str) -> str:
    """Return the lines that only one of both has."""
    lines = [each.splitlines() for each in (first, second)]
    only = [f"- {line}" for line in lines[0] if line not in lines[1]]
    only += [f"+ {line}" for line in lines[1] if line not in lines[0]]
    return "\n".join(only)


def _plain(text: str, since: float) -> str:
    kept = [line.rstrip() for line in text.splitlines() if not _STACK.match(line)]
    text = "\n".join(kept)
    text = _CLIENT.sub(lambda at: at[0] if at[2] in _SERVERS else f"{at[1]}PORT", text)
    text = _OBJECT.sub("@OBJECT", text)
    text = _TIMES.sub(r"\1\2TIME", text)
    text = _MILLIS.sub(_later(since, lambda said: int(said) / 1000), text)
    text = _AGO.sub("(AGO)", text)
    return _DATE.sub(_later(since, _seconds), text)


def _later(since: float, seconds: Callable[[str], float]) -> Callable[[re.Match[str]], str]:
    return lambda found: "TIME" if seconds(found[0]) >= since else found[0]


def _seconds(said: str) -> float:
    import datetime as dt

    digits = re.sub(r"\D", "", said)[:14]
    when = dt.datetime.strptime(digits, "%Y%m%d%H%M%S").astimezone()
    return when.timestamp() + 1


def _without(what: str, text: str, mark: str) -> str:
    return re.sub(what, mark, text, flags=re.MULTILINE)
