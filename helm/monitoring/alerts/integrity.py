"""Is the dispatch whole? Alerts about what is lost, damaged, out of turn or not recorded."""

from __future__ import annotations

from helm.monitoring import series as s
from helm.monitoring.alerts.alert import CRITICAL, STORE, WARNING, Alert
from helm.monitoring.alerts.conditions import DISPATCHER, errors, more, offset, step

# A new output has no record at first.
_UNRECORDED = f"({offset('dispatched')} - ({offset('recorded')} or {offset('log_begin')}))"

ALERTS = (
    Alert(
        "OutrunByRetention",
        CRITICAL,
        "1m",
        f"{more(s.LOST_GAPS)}\nor {errors('expired')}\n"
        f"or {offset('dispatched')} < {offset('log_begin')}",
        f"Records of {STORE} expired before they were dispatched",
        "The broker deleted log files that were not dispatched yet. Those messages have no"
        " entries and will never get any.",
    ),
    Alert(
        "CheckpointStale",
        WARNING,
        "5m",
        f"min_over_time({_UNRECORDED}[15m:1m]) > 0\n"
        f"unless changes({offset('recorded')}[15m:1m]) > 0",
        f"Progress of {STORE} is not recorded",
        "{{ $value | humanize1024 }}B are dispatched but not recorded, and progress was not"
        " recorded for 15 minutes. A restart would dispatch these bytes again.",
    ),
    Alert(
        "CorruptRecord",
        CRITICAL,
        "0s",
        f"{more(s.CORRUPT)}\nor {errors('corrupt')}",
        f"The log of {STORE} has a corrupt record",
        "It was passed over and copied to quarantine; or the store is not dispatched past it, and"
        " its job has ended unless it has other stores.",
    ),
    Alert(
        "IndexFailure",
        CRITICAL,
        "0s",
        errors("index"),
        f"The index of {STORE} differs from its record",
        "The store's dispatch stopped at an index file that differs from what was recorded. The"
        " job has ended unless it has other stores.",
    ),
    Alert(
        "ConsumeQueueGap",
        CRITICAL,
        "0s",
        step(s.ENTRIES, labels=',outcome="misplaced"') + f"\nor {errors('consumequeue')}",
        f"A consume queue of {STORE} has a gap or an entry out of turn",
        "A record's queue offset is not the next one of its queue.",
    ),
    Alert(
        "QueueOffsetsShifted",
        WARNING,
        "1m",
        f"last_over_time({s.LOST_GAPS}{DISPATCHER}[10m]) > 0\n"
        f"or last_over_time({s.CORRUPT}{DISPATCHER}[10m]) > 0",
        f"Queues of {STORE} may have messages at other offsets than the broker gave them",
        "Messages are missing in {{ $value | humanize }} places. In each affected queue, every"
        " later message is at a lower queue offset than its record says, and a pull by offset"
        " returns another message. This lasts until a repair restores the places, or you build a"
        " new, empty output.",
    ),
    Alert(
        "RecordWaiting",
        WARNING,
        "10m",
        f"last_over_time({s.WAITING}{DISPATCHER}[10m]) == 1",
        f"Dispatch of {STORE} holds back a record that came out of turn",
        "The queue offset of this record is past the end of its queue, and the records between"
        " have not come for 10 minutes.",
    ),
    Alert(
        "WriteFailure",
        CRITICAL,
        "0s",
        errors("io|store|other"),
        f"Dispatch of {STORE} stopped at an error",
        "A file could not be read or written. The job's log names file and remedy. The job has"
        " ended, or it tries again while it has other stores.",
    ),
)
