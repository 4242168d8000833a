"""How does a rule look at series that a crash may break? Back over windows that outlast it.

A counter's first step may never be scraped where the error that it counts ends the process. So
alerts on errors look at the value itself. But an error of one store does not end a job that has
others: its process keeps the value after the store is dispatched again. So they leave out what a
process counted before the window, unless the store has failed still.

A process that crashes takes its series with it, and the kubelet waits up to five minutes before it
starts the next one. So where the cause may break a series, no rule waits for that series to hold
without a break: rules look back over windows longer than that wait.
"""

from __future__ import annotations

from helm.monitoring import series as s

DISPATCHER = f"{{{s.NODE}}}"
INSTANCE = "job, namespace, pod, instance"
AGE = f"time() - {s.STARTED}"
BEHIND = f"{s.BEHIND_BYTES}{DISPATCHER}"
# Seconds: how old a process may be; how far ahead free space is predicted.
QUARTER, HOUR, DAY = 900, 3600, 86400


def offset(which: str) -> str:
    """Return one of a store's offsets as last seen, without the label that tells them apart."""
    selector = f'{s.OFFSET}{{{s.NODE},which="{which}"}}'
    return f"sum without (which) (last_over_time({selector}[10m]))"


def errors(kinds: str) -> str:
    """Return an expression that holds where such an error was counted within 15 minutes.

    It also holds while the store has failed, however long ago the error was counted.
    """
    counted = f'{s.ERRORS}{{{s.NODE},kind=~"{kinds}"}}[15m]'
    return (
        f"(max_over_time({counted}) > 0\n"
        f"unless (increase({counted}) == 0 and ignoring (kind) {s.FAILED}{DISPATCHER} == 0"
        f" and on ({INSTANCE}) {AGE} >= {QUARTER}))"
    )


def behind(metric: str, threshold: str, long: str, short: str) -> str:
    """Return two windows: the long one says that it matters, the short one that it continues.

    The short one is longer than the kubelet's wait before a restart, so that a job that crashes
    again and again has a value in it at all times.
    """
    series = f"{metric}{DISPATCHER}"
    return (
        f"avg_over_time({series}[{long}]) > {threshold}\n"
        f"and avg_over_time({series}[{short}]) > {threshold}"
    )


def step(metric: str, labels: str = "") -> str:
    """Return an expression that holds where a counter of the process has risen within the hour.

    What a process counts before its first scrape is not an increase. Where the process began
    within the hour, it is the value itself.
    """
    series = f"{metric}{{{s.NODE}{labels}}}"
    return f"increase({series}[1h]) > 0\nor {series} > 0 and on ({INSTANCE}) {AGE} < {HOUR}"


def more(metric: str, window: str = "1h") -> str:
    """Return an expression that holds where there are more of what may get fewer as well."""
    return f"delta({metric}{DISPATCHER}[{window}]) > 0"
