"""Why does a store not keep up? Graphs of batches, files and processes show the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helm.monitoring import series as s
from helm.monitoring.dashboard.promql import RATE, more, of_stores, one, quantile, rate
from helm.monitoring.dashboard.visualizations import (
    BYTES,
    NAMED,
    PER_SECOND,
    RATIO,
    SECONDS,
    SHORT,
    graph,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import timeseries


def panels() -> list[timeseries.Panel]:
    """Return the row's graphs."""
    return [*_batches(), *_files(), *_events(), *_resources(), *_processes()]


def _batches() -> list[timeseries.Panel]:
    """Graph where the time of batches goes."""
    work = rate(f"{s.BATCH_SECONDS}_sum", 'phase!="total"')
    return [
        graph(
            "Batch",
            "99 of 100 batches, flushes included, take no longer.",
            SECONDS,
            [
                (quantile(0.99, s.BATCH_SECONDS, f'phase="{phase}"'), f"{NAMED} {phase}")
                for phase in ("total", "flush")
            ],
            8,
        ),
        graph(
            "Where the time of batches goes",
            "Seconds of work a second: waiting for parsed records, writing queues and index,"
            " syncing to disk, recording progress.",
            SECONDS,
            [(f"sum by (cluster, store, phase) ({work})", f"{NAMED} {{{{phase}}}}")],
            8,
        ),
        graph(
            "Batches a second",
            "In a live job, what a writer did since the job last heard of it is one batch: five a"
            " second at most.",
            PER_SECOND,
            [(rate(s.BATCHES), NAMED)],
            8,
        ),
        graph(
            "Since the last batch",
            "Grows while nothing is written to the log, or nothing is dispatched.",
            SECONDS,
            [(f"time() - ({one(s.LAST_BATCH)} > 0)", NAMED)],
            8,
        ),
    ]


def _files() -> list[timeseries.Panel]:
    """Graph how queues and index grow, and how old the checkpoint is."""
    return [
        graph(
            "Consume queue entries a second",
            "put: new. repeated: already there. misplaced: out of turn; an alert fires.",
            PER_SECOND,
            [(rate(s.ENTRIES), f"{NAMED} {{{{outcome}}}}")],
            8,
        ),
        graph(
            "Index items a second",
            "A message has one for its id and one for each key.",
            PER_SECOND,
            [(rate(s.INDEX_ITEMS), NAMED)],
            8,
        ),
        graph(
            "Newest index file",
            "How full it is. At 100 % the next one begins.",
            RATIO,
            [(one(s.INDEX_FILL), NAMED)],
            8,
        ),
        graph(
            "Age of the checkpoint",
            "By the store timestamps in it. It grows for an idle store. The index's also grows, as"
            " it counts whole files only.",
            SECONDS,
            [(f"time() - ({one(s.CHECKPOINT)} > 0)", f"{NAMED} {{{{kind}}}}")],
            8,
        ),
    ]


def _events() -> list[timeseries.Panel]:
    """Graph what is rare: errors, starts, and records that expired."""
    return [
        graph(
            "Events in an hour",
            "All of them are rare; the runbook has a section for each.",
            SHORT,
            [
                (f"increase({one(s.ERRORS)}[1h])", f"{NAMED} error {{{{kind}}}}"),
                (more(s.CORRUPT, "1h"), f"{NAMED} corrupt, passed over"),
                (more(s.LOST_GAPS, "1h"), f"{NAMED} expired"),
                (f"increase({one(s.TRUNCATIONS)}[1h])", f"{NAMED} log cut"),
                (f"increase({one(s.STARTS)}[1h])", f"{NAMED} start"),
                (f"increase({one(s.RECOVERIES)}[1h])", f"{NAMED} recovery"),
                (f"increase({one(s.INDEX_FILES)}[1h])", f"{NAMED} index file begun"),
                (one(s.WAITING), f"{NAMED} record waits"),
            ],
            8,
        ),
        graph(
            "Records that expired",
            "Bytes of log that the broker deleted before they were dispatched, in a day.",
            BYTES,
            [(more(s.LOST_BYTES, "24h"), NAMED)],
            8,
        ),
    ]


def _resources() -> list[timeseries.Panel]:
    """Graph what a process takes of processors and memory."""
    return [
        graph(
            "Processors",
            "Cores of the driver's Python. The JVM beside it only plans batches.",
            SHORT,
            [(of_stores(f"rate({s.CPU}{RATE})"), "{{instance}}")],
            8,
        ),
        graph(
            "Memory",
            "Resident memory of Python and of Spark's JVM. Python's includes mapped pages of queues"
            " and index, which the kernel can reclaim.",
            BYTES,
            [
                (of_stores(s.RESIDENT), "{{instance}} Python"),
                (of_stores(s.JVM_RESIDENT), "{{instance}} JVM"),
            ],
            8,
        ),
        graph(
            "Heap of the JVM",
            "In use, and what it may grow to. It falls with each collection.",
            BYTES,
            [
                (of_stores(s.HEAP_USED), "{{instance}} in use"),
                (of_stores(s.HEAP_MAX), "{{instance}} most"),
            ],
            8,
        ),
    ]


def _processes() -> list[timeseries.Panel]:
    """Graph what runs, since when, and whether Spark plans."""
    return [
        graph(
            "Not planned yet",
            "For how long stores have been dispatched past what Spark has planned: some seconds. It"
            " rises while Spark's planner or JVM stands still.",
            SECONDS,
            [(of_stores(s.UNPLANNED), "{{instance}}")],
            8,
        ),
        graph(
            "Up for",
            "Time since the process began. A saw-tooth means that it restarts.",
            SECONDS,
            [(of_stores(f"time() - {s.STARTED}"), "{{instance}}")],
            8,
        ),
        graph(
            "Open files",
            "Of the driver's Python: files of the log, queues and index.",
            SHORT,
            [(of_stores(s.OPEN_FILES), "{{instance}}")],
            8,
        ),
        graph(
            "What runs",
            "1: the query runs; the store's first message is awaited; this version is up.",
            SHORT,
            [
                (of_stores(s.ACTIVE), "{{instance}} query runs"),
                (one(s.AWAITED), f"{NAMED} first message awaited"),
                (
                    of_stores(s.BUILD),
                    "{{instance}} {{version}} Spark {{spark}} Python {{python}}",
                ),
            ],
            8,
        ),
    ]
