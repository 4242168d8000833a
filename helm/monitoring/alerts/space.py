"""Is there space? Alerts about the disk of the output and the heap of the JVM."""

from __future__ import annotations

from helm.monitoring import series as s
from helm.monitoring.alerts.alert import CRITICAL, STORE, WARNING, Alert
from helm.monitoring.alerts.conditions import DAY, DISPATCHER

_FREE_SHARE = (
    f"last_over_time({s.FREE}{DISPATCHER}[10m]) / last_over_time({s.SIZE}{DISPATCHER}[10m])"
)
_FULL_IN_A_DAY = f"predict_linear({s.FREE}{DISPATCHER}[1h], {DAY}) < 0"

ALERTS = (
    Alert(
        "OutputFilling",
        WARNING,
        "10m",
        f"{_FREE_SHARE} < ${{freeRatio}}\n"
        # A burst such as a first rebuild or a repair also shows in the hour after it. Only lasting
        # growth shows in each half hour of three hours.
        f"or {_FREE_SHARE} < 0.5\n"
        f"and count_over_time(({_FULL_IN_A_DAY})[3h:30m]) >= 6",
        f"The output disk of {STORE} is filling up",
        "Less than ${freeRatio} of its file system is free, or the free space will be used up"
        " within a day at the rate of each of the last three hours.",
    ),
    Alert(
        "OutputFull",
        CRITICAL,
        "5m",
        f"{_FREE_SHARE} < ${{freeRatioCritical}}",
        f"The output disk of {STORE} is nearly full",
        "{{ $value | humanizePercentage }} of its file system is free. Dispatch stops at the first"
        " file that cannot be written.",
    ),
    Alert(
        "HeapFull",
        WARNING,
        "10m",
        f"min_over_time({s.HEAP_USED}[15m]) / {s.HEAP_MAX} > ${{heapRatio}}",
        "The heap of the JVM of {{ $labels.instance }} is nearly full",
        "Its lowest use within 15 minutes was {{ $value | humanizePercentage }}.",
    ),
)
