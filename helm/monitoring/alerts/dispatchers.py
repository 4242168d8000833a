"""Which dispatcher, or which of its parts, is gone, stuck, or keeps failing? Alerts about those.

Rules about a dispatcher that is gone ask Prometheus itself (`up`) and, where it runs,
kube-state-metrics. They know how many dispatchers there should be.
"""

from __future__ import annotations

from helm.monitoring import series as s
from helm.monitoring.alerts.alert import CRITICAL, STORE, WARNING, Alert
from helm.monitoring.alerts.conditions import BEHIND, DISPATCHER, INSTANCE

_OURS = 'namespace=~"${namespace}",job=~"${job}"'
_START, _UP = f"{s.START}{{{_OURS}}}", f"{s.TARGET}{{{_OURS}}}"
_PRESENT = f"(count({_START}) or vector(0))"
_CONTAINER = 'namespace=~"${namespace}",container="reput"'
_KUBE_WAITS = f"max by (namespace, pod) ({s.KUBE_WAITING}{{{_CONTAINER}}} == 1)"
_RESTARTS = f"{s.KUBE_RESTARTS}{{{_CONTAINER}}}"
# Longer than the longest wait of the kubelet and the longest life that it takes for a crash.
_LATELY = "20m"
# Seconds: past a slow flush, and before /healthz says no, which it does after 120.
SILENT_SECONDS, _UNPLANNED_SECONDS = 30, 60

ALERTS = (
    Alert(
        "Stalled",
        CRITICAL,
        "${stalledFor}",
        f"min_over_time({BEHIND}[5m]) > 0\n"
        f"and {s.WITHOUT_BROKER} increase({s.LOG_BYTES}{DISPATCHER}[5m]) == 0",
        f"Dispatch of {STORE} has stopped, though its log has more",
        "{{ $value | humanize1024 }}B of log wait, and not a byte was dispatched in 5 minutes.",
    ),
    Alert(
        "StoreFailed",
        CRITICAL,
        "1m",
        # A job with a single store ends, and other alerts tell why.
        f"{s.FAILED}{DISPATCHER} == 1",
        f"{STORE} is not dispatched: it has failed",
        "Its writer tries again every half minute or sooner, or it waits at damage. The job's other"
        " stores are dispatched.",
    ),
    Alert(
        "WriterSilent",
        CRITICAL,
        "1m",
        f"{s.SILENT}{DISPATCHER} > {SILENT_SECONDS}",
        f"The writer of {STORE} gives no sign of life",
        "It was last seen to work {{ $value | humanizeDuration }} ago. Its disk or file system"
        " hangs, or its process is stopped.",
    ),
    Alert(
        "PlannerStopped",
        WARNING,
        "0s",
        # A restart by the liveness probe does not hide it.
        f"max_over_time({s.UNPLANNED}[15m]) > {_UNPLANNED_SECONDS}",
        "Spark's planner of {{ $labels.instance }} stands still",
        "For {{ $value | humanizeDuration }}, Spark planned nothing of what the stores' logs got."
        " The stores are dispatched all the same; after two minutes /healthz says no.",
    ),
    Alert(
        "QueryInactive",
        CRITICAL,
        "5m",
        # A broker that has no first message yet leaves nothing to run for.
        f"{s.ACTIVE} == 0\n"
        f"unless on ({INSTANCE}) (min by ({INSTANCE}) ({s.AWAITED}{DISPATCHER}) == 1)",
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
)


def _pods(metric: str) -> str:
    """Return a process's series with the label `pod`, which is the instance outside Kubernetes."""
    return (
        f'({metric}{{{_OURS},pod!=""}}'
        f' or label_replace({metric}{{{_OURS},pod=""}}, "pod", "$1", "instance", "(.+)"))'
    )


def recorded(metric: str) -> str:
    """Return the expression of a recording rule: a process's series, one for each pod."""
    return f"max by (namespace, job, pod) ({_pods(metric)})"
