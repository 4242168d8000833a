"""The alert rules, built once for the chart and once for a Prometheus without it.

Numbers that an operator may want to change are placeholders, `${name}`, which the chart fills from
its values; `THRESHOLDS` has the defaults. A counter's first step may never be scraped where the
error that it counts ends the process, so alerts on errors also look at the value itself: a process
that has counted one is on its way out, and the next one begins at 0.

A process that crashes takes its series with it, and the kubelet waits up to five minutes before it
starts the next one. So where the cause may break a series, no rule waits for that series to hold
without a break. Rules look back over windows longer than that wait. Those about dispatchers that
are gone count what Prometheus itself knows (`up`), what kube-state-metrics says where it runs, and
how many dispatchers there should be.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helm.monitoring import series as s

if TYPE_CHECKING:
    from collections.abc import Mapping

THRESHOLDS: dict[str, int | float | str] = {
    "behindBytes": 1 << 30,
    "behindBytesCritical": 10 << 30,
    "behindSeconds": 60,
    "behindSecondsCritical": 600,
    "retentionRatio": 0.5,
    "kafkaBehindBytes": 1 << 30,
    "freeRatio": 0.15,
    "freeRatioCritical": 0.05,
    "heapRatio": 0.9,
    "stalledFor": "5m",
    "restarts": 3,
}
# What belongs to this installation: dispatchers in which namespaces and scrape jobs (regular
# expressions), and how many. The chart fills them from what it renders.
SCOPE: dict[str, int | float | str] = {"namespace": ".*", "job": ".*reput.*", "dispatchers": 1}
RUNBOOK = "${runbookUrl}"
WARNING, CRITICAL = "warning", "critical"

_SECONDS = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"(\d+)([smh])\b")
_WINDOW = re.compile(r"\[[^\]]+\]")
_STORE = "{{ $labels.store }} of {{ $labels.cluster }}"
_DISPATCHER = f"{{{s.NODE}}}"


@dataclass(frozen=True)
class Alert:
    """One rule.

    Attributes:
        name: without prefix; the runbook's heading is the whole name in lower case.
        severity: `critical` is for a person now, `warning` for the next working day.
        hold: how long the expression has to hold.
        expression: PromQL.
        summary: a sentence; the runbook says what to do.
        description: what it means, with the value.
    """

    name: str
    severity: str
    hold: str
    expression: str
    summary: str
    description: str

    def as_rule(self) -> dict[str, Any]:
        """Return it as Prometheus reads it."""
        name = f"Reput{self.name}"
        return {
            "alert": name,
            "expr": self.expression,
            "for": self.hold,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{RUNBOOK}#{name.lower()}",
            },
        }


def offset(which: str) -> str:
    """Return one of a store's offsets as last seen, without the label that tells them apart."""
    selector = f'{s.OFFSET}{{{s.NODE},which="{which}"}}'
    return f"sum without (which) (last_over_time({selector}[10m]))"


def errors(kinds: str, window: str = "15m") -> str:
    """Return an expression that holds where such an error was counted within the window."""
    selector = f'{s.ERRORS}{{{s.NODE},kind=~"{kinds}"}}'
    return f"max_over_time({selector}[{window}]) > 0"


def behind(metric: str, threshold: str, long: str, short: str) -> str:
    """Return two windows: the long one says that it matters, the short one that it continues.

    The short one is longer than the kubelet's wait before a restart, so that a job that crashes
    again and again has a value in it at all times.
    """
    series = f"{metric}{_DISPATCHER}"
    return (
        f"avg_over_time({series}[{long}]) > {threshold}\n"
        f"and avg_over_time({series}[{short}]) > {threshold}"
    )


def _step(metric: str, labels: str = "") -> str:
    """Return an expression that holds where a counter of the process has risen within the hour.

    What a process counts before its first scrape is no increase: of one that began within the hour,
    it is the value itself.
    """
    series = f"{metric}{{{s.NODE}{labels}}}"
    return f"increase({series}[1h]) > 0\nor {series} > 0 and on ({_INSTANCE}) {_AGE} < {_HOUR}"


def _more(metric: str, window: str = "1h") -> str:
    """Return an expression that holds where there are more of what may get fewer as well."""
    return f"delta({metric}{_DISPATCHER}[{window}]) > 0"


def _pods(metric: str) -> str:
    """Return a process's series with the label `pod`, which is the instance outside Kubernetes."""
    return (
        f'({metric}{{{_OURS},pod!=""}}'
        f' or label_replace({metric}{{{_OURS},pod=""}}, "pod", "$1", "instance", "(.+)"))'
    )


def _recorded(metric: str) -> str:
    return f"max by (namespace, job, pod) ({_pods(metric)})"


_INSTANCE = "job, namespace, pod, instance"
_AGE = f"time() - {s.STARTED}"
_OURS = 'namespace=~"${namespace}",job=~"${job}"'
_START, _UP = f"{s.START}{{{_OURS}}}", f"{s.TARGET}{{{_OURS}}}"
_PRESENT = f"(count({_START}) or vector(0))"
_CONTAINER = 'namespace=~"${namespace}",container="reput"'
_RETAINED = f"({offset('log_end')} - {offset('log_begin')})"
# A new output has no record at first.
_UNRECORDED = f"({offset('dispatched')} - ({offset('recorded')} or {offset('log_begin')}))"
_FREE_SHARE = (
    f"last_over_time({s.FREE}{_DISPATCHER}[10m]) / last_over_time({s.SIZE}{_DISPATCHER}[10m])"
)
_BEHIND = f"{s.BEHIND_BYTES}{_DISPATCHER}"
_KUBE_WAITS = f"max by (namespace, pod) ({s.KUBE_WAITING}{{{_CONTAINER}}} == 1)"
_RESTARTS = f"{s.KUBE_RESTARTS}{{{_CONTAINER}}}"
# Longer than the longest wait of the kubelet and the longest life that it takes for a crash.
_LATELY = "20m"
# Seconds: how old a process may be; how far ahead free space is foretold.
_HOUR, _DAY = 3600, 86400
_FULL_IN_A_DAY = f"predict_linear({s.FREE}{_DISPATCHER}[1h], {_DAY}) < 0"

ALERTS = (
    Alert(
        "Stalled",
        CRITICAL,
        "${stalledFor}",
        f"min_over_time({_BEHIND}[5m]) > 0\n"
        f"and {s.WITHOUT_BROKER} increase({s.LOG_BYTES}{_DISPATCHER}[5m]) == 0",
        f"Dispatch of {_STORE} has stopped, though its log has more",
        "{{ $value | humanize1024 }}B of log wait, and not a byte was dispatched in 5 minutes.",
    ),
    Alert(
        "QueryInactive",
        CRITICAL,
        "5m",
        # A broker that has no first message yet leaves nothing to run for.
        f"{s.ACTIVE} == 0\n"
        f"unless on ({_INSTANCE}) (min by ({_INSTANCE}) ({s.AWAITED}{_DISPATCHER}) == 1)",
        "The streaming query of {{ $labels.instance }} is not running",
        "The process answers, but its query has not been active for 5 minutes.",
    ),
    Alert(
        "Missing",
        CRITICAL,
        "5m",
        # A target that does not answer, or seldom; one that was there and has no target now; a
        # container that mostly waits; and what was said, as long as a dispatcher is short.
        f"max by (namespace, pod) ({_UP}) == 0\n"
        f"or max by (namespace, pod) (avg_over_time({_UP}[15m])) < 0.5\n"
        f"or max by (namespace, pod) (max_over_time({_START}[6h]))"
        f" unless max by (namespace, pod) ({_START})\n"
        f"or count_over_time(({_KUBE_WAITS})[15m:30s]) >= 15\n"
        'or max by (namespace, pod) (ALERTS{alertname="ReputMissing",alertstate="firing"})'
        f" unless max by (namespace, pod) ({_START}) and on () {_PRESENT} < ${{dispatchers}}",
        "The dispatcher {{ $labels.pod }} is gone",
        "It answers its scrapes rarely or never: it was removed, it does not start, or it"
        " keeps crashing.",
    ),
    Alert(
        "TooFew",
        CRITICAL,
        "10m",
        f"quantile_over_time(0.5, {_PRESENT}[10m:30s]) < ${{dispatchers}}",
        "There are fewer dispatchers than there should be",
        "{{ $value | humanize }} answered for most of the last 10 minutes; ${dispatchers} should."
        " One that was never scraped counts as missing.",
    ),
    Alert(
        "RestartLoop",
        CRITICAL,
        "1m",
        f"max by (namespace, pod) (changes({_START}[90m])) > ${{restarts}}\n"
        f"and max by (namespace, pod) (changes({_START}[{_LATELY}])) > 0\n"
        f"or max by (namespace, pod) (increase({_RESTARTS}[90m])) > ${{restarts}}\n"
        f"and max by (namespace, pod) (increase({_RESTARTS}[{_LATELY}])) > 0",
        "The dispatcher {{ $labels.pod }} keeps restarting",
        "It started {{ $value | humanize }} times within 90 minutes.",
    ),
    Alert(
        "BehindBytes",
        WARNING,
        "2m",
        behind(s.BEHIND_BYTES, "${behindBytes}", "30m", "10m"),
        f"Dispatch of {_STORE} is behind its log",
        "On average {{ $value | humanize1024 }}B were not dispatched over 30 minutes; the last 10"
        " minutes are above the threshold too.",
    ),
    Alert(
        "BehindBytesCritical",
        CRITICAL,
        "2m",
        behind(s.BEHIND_BYTES, "${behindBytesCritical}", "30m", "10m"),
        f"Dispatch of {_STORE} is far behind its log",
        "On average {{ $value | humanize1024 }}B were not dispatched over 30 minutes; the last 10"
        " minutes are above the threshold too.",
    ),
    Alert(
        "BehindSeconds",
        WARNING,
        "2m",
        behind(s.AGE, "${behindSeconds}", "30m", "10m"),
        f"Consumers of {_STORE} see messages late",
        "Dispatch was {{ $value | humanizeDuration }} late on average over 30 minutes; the last 10"
        " minutes are above the threshold too.",
    ),
    Alert(
        "BehindSecondsCritical",
        CRITICAL,
        "2m",
        behind(s.AGE, "${behindSecondsCritical}", "15m", "10m"),
        f"Consumers of {_STORE} see messages very late",
        "Dispatch was {{ $value | humanizeDuration }} late on average over 15 minutes; the last 10"
        " minutes are above the threshold too.",
    ),
    Alert(
        "RetentionNear",
        CRITICAL,
        "15m",
        f"last_over_time({_BEHIND}[10m])"
        f" > {s.WITHOUT_BROKER} ${{retentionRatio}} * {_RETAINED}\n"
        f"and {s.WITHOUT_BROKER} delta({_BEHIND}[30m]) >= 0",
        f"Retention may outrun the dispatch of {_STORE}",
        "{{ $value | humanize1024 }}B are not dispatched. This is a large part of what the broker"
        " keeps, and it is not shrinking. The broker deletes by age, dispatched or not.",
    ),
    Alert(
        "OutputFilling",
        WARNING,
        "10m",
        f"{_FREE_SHARE} < ${{freeRatio}}\n"
        # A burst such as a first rebuild or a repair also shows in the hour after it. Only lasting
        # growth shows in each half hour of three hours.
        f"or {_FREE_SHARE} < 0.5\n"
        f"and count_over_time(({_FULL_IN_A_DAY})[3h:30m]) >= 6",
        f"The output disk of {_STORE} is filling up",
        "Less than ${freeRatio} of its file system is free, or the free space will be used up"
        " within a day at the rate of each of the last three hours.",
    ),
    Alert(
        "OutputFull",
        CRITICAL,
        "5m",
        f"{_FREE_SHARE} < ${{freeRatioCritical}}",
        f"The output disk of {_STORE} is nearly full",
        "{{ $value | humanizePercentage }} of its file system is free. The job ends at the first"
        " file that it cannot write.",
    ),
    Alert(
        "HeapFull",
        WARNING,
        "10m",
        f"min_over_time({s.HEAP_USED}[15m]) / {s.HEAP_MAX} > ${{heapRatio}}",
        "The heap of the JVM of {{ $labels.instance }} is nearly full",
        "Its lowest use within 15 minutes was {{ $value | humanizePercentage }}.",
    ),
    Alert(
        "OutrunByRetention",
        CRITICAL,
        "1m",
        f"{_more(s.LOST_GAPS)}\nor {errors('expired')}\n"
        f"or {offset('dispatched')} < {offset('log_begin')}",
        f"Records of {_STORE} expired before they were dispatched",
        "The broker deleted log files that were not dispatched yet. Those messages have no"
        " entries and will never get any.",
    ),
    Alert(
        "CheckpointStale",
        WARNING,
        "5m",
        f"min_over_time({_UNRECORDED}[15m:1m]) > 0\n"
        f"unless changes({offset('recorded')}[15m:1m]) > 0",
        f"Progress of {_STORE} is not recorded",
        "{{ $value | humanize1024 }}B are dispatched but not recorded, and progress was not"
        " recorded for 15 minutes. A restart would dispatch these bytes again.",
    ),
    Alert(
        "CorruptRecord",
        CRITICAL,
        "0s",
        f"{_more(s.CORRUPT)}\nor {errors('corrupt')}",
        f"The log of {_STORE} has a corrupt record",
        "It was passed over and copied to quarantine, or the job stopped or waits there.",
    ),
    Alert(
        "IndexFailure",
        CRITICAL,
        "0s",
        errors("index"),
        f"The index of {_STORE} differs from its record",
        "The job stopped at an index file that differs from what it had recorded.",
    ),
    Alert(
        "ConsumeQueueGap",
        CRITICAL,
        "0s",
        _step(s.ENTRIES, labels=',outcome="misplaced"') + f"\nor {errors('consumequeue')}",
        f"A consume queue of {_STORE} has a gap or an entry out of turn",
        "A record's queue offset is not the next one of its queue.",
    ),
    Alert(
        "QueueOffsetsShifted",
        WARNING,
        "1m",
        f"last_over_time({s.LOST_GAPS}{_DISPATCHER}[10m]) > 0\n"
        f"or last_over_time({s.CORRUPT}{_DISPATCHER}[10m]) > 0",
        f"Queues of {_STORE} may have messages at other offsets than the broker gave them",
        "Messages are missing in {{ $value | humanize }} places. In each affected queue, every"
        " later message is at a lower queue offset than its record says, and a pull by offset"
        " returns another message. This lasts until a repair restores the places, or you build a"
        " new, empty output.",
    ),
    Alert(
        "RecordWaiting",
        WARNING,
        "10m",
        f"last_over_time({s.WAITING}{_DISPATCHER}[10m]) == 1",
        f"Dispatch of {_STORE} holds back a record that came out of turn",
        "The queue offset of this record is past the end of its queue, and the records between"
        " have not come for 10 minutes.",
    ),
    Alert(
        "WriteFailure",
        CRITICAL,
        "0s",
        errors("io|store|other"),
        f"The dispatcher of {_STORE} stopped at an error",
        "A file could not be read or written. The last line of its log names file and remedy.",
    ),
    Alert(
        "KafkaBehind",
        WARNING,
        "2m",
        behind(s.KAFKA_LAG_BYTES, "${kafkaBehindBytes}", "30m", "10m"),
        f"Kafka is behind the dispatch of {_STORE}",
        "On average {{ $value | humanize1024 }}B were not sent over 30 minutes; the last 10"
        " minutes are above the threshold too.",
    ),
    Alert(
        "KafkaAway",
        WARNING,
        "3m",
        f"{s.KAFKA_CONNECTED}{_DISPATCHER} == 0",
        f"Kafka does not take messages of {_STORE}",
        "All attempts of the last minutes failed. Consume queues and index are not affected. Kafka"
        " gets the rest when it is back, unless the log expires first.",
    ),
    Alert(
        "KafkaDeadLetters",
        WARNING,
        "0s",
        _step(s.KAFKA_DEAD),
        f"Kafka has refused messages of {_STORE}",
        "{{ $value | humanize }} of the last hour are in the dead-letter topic.",
    ),
    Alert(
        "KafkaStopped",
        CRITICAL,
        "0s",
        f"{errors('kafka')}\nor {_step(s.KAFKA_TRUNCATIONS)}\nor {s.KAFKA_HELD}{_DISPATCHER} == 1",
        f"Kafka may not have what is in the log of {_STORE}",
        "Kafka is held back until you act, because it refuses a message or another job sends this"
        " store; or the log was cut or expired below what Kafka was to have; or the job was"
        " configured to stop when Kafka fails.",
    ),
)


def rule_file(speed: int = 1, *, has_links: bool = True) -> dict[str, Any]:
    """Return the rule file with its placeholders.

    Args:
        speed: divides windows, holds, ages and the distance of predictions, so that a test does not
            wait for hours; the expressions stay what they are.
        has_links: each alert links to its section, under the placeholder `runbookUrl`.
    """
    rules = [alert.as_rule() for alert in ALERTS]
    if not has_links:
        for rule in rules:
            del rule["annotations"]["runbook_url"]
    if speed > 1:
        for rule in rules:
            rule["for"] = _shortened(rule["for"], speed)
            rule["expr"] = _WINDOW.sub(lambda w: _shortened(w[0], speed), rule["expr"])
            rule["expr"] = rule["expr"].replace(f", {_DAY})", f", {_DAY // speed})")
            rule["expr"] = rule["expr"].replace(f"{_AGE} < {_HOUR}", f"{_AGE} < {_HOUR // speed}")
    recorded = [
        {"record": s.START, "expr": _recorded(s.STARTED)},
        {"record": s.TARGET, "expr": _recorded(s.UP)},
        {
            "record": s.EXPECTED,
            "expr": "vector(${dispatchers})",
            "labels": {"scope": "${namespace}/${job}"},
        },
    ]
    return {
        "groups": [
            {"name": "reput-dispatchers", "rules": recorded},
            {"name": "reput", "rules": rules},
        ]
    }


def _shortened(text: str, speed: int) -> str:
    """Return a text with its durations divided."""

    def divided(match: re.Match[str]) -> str:
        seconds = int(match[1]) * _SECONDS[match[2]]
        return f"{max(round(1000 * seconds / speed), 1000 * bool(seconds))}ms"

    return _DURATION.sub(divided, text)


def fill(text: str, values: Mapping[str, object]) -> str:
    """Return the text with its placeholders filled."""
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", str(value))
    return text
