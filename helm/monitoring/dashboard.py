"""The Grafana dashboard, which asks: keeping up, which store, and why.

Three rows for three questions. The first answers at a glance, over all chosen stores; the second
has a line for each store; the third, folded, is for finding a cause, and one of
Kafka is folded as well.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.builders.common import (
    GraphThresholdsStyleConfig,
    ReduceDataOptions,
    VizLegendOptions,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    GraphTresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
    VariableRefresh,
    VariableSort,
)

from helm.monitoring import series as s
from helm.monitoring.alerts import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Sequence

UID = "reput-dispatch"
TITLE = "RocketMQ dispatch (reput)"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_STORES = f'{s.NODE},cluster=~"$cluster",store=~"$store"'
_NAMED = "{{cluster}} / {{store}}"
_GREEN, _YELLOW, _RED, _GREY = "green", "yellow", "red", "#808080"
# What a tile has in place of a number that cannot be told, because a store's series are gone.
_UNKNOWN = {"-1": ("unknown", _GREY)}
# A store that was dispatched within this time and is not now is gone.
_REMEMBERED = "7d"
_COLUMNS = 24
_TILES_A_LINE = 4
_STAT_HEIGHT, _HEIGHT = 4, 8
_LOG_END = 'which="log_end"'
_RATE = "[$__rate_interval]"

# Unit names of Grafana.
BYTES, BYTES_PER_SECOND, SECONDS, SHORT, RATIO, PER_SECOND, TIME = (
    "bytes", "binBps", "s", "short", "percentunit", "ops", "dateTimeFromNow",
)  # fmt: skip


def one(name: str, *labels: str) -> str:
    """Return the selector of a store's series, with further matchers."""
    return f"{name}{{{','.join([_STORES, *labels])}}}"


def rate(name: str, *labels: str) -> str:
    """Return a counter's rate."""
    return f"rate({one(name, *labels)}{_RATE})"


def more(name: str, window: str) -> str:
    """Return by how much something is more than a window ago, which may get less as well."""
    return f"clamp_min(delta({one(name)}[{window}]), 0)"


def quantile(share: float, name: str, *labels: str) -> str:
    """Return a quantile of a histogram, a store each."""
    buckets = rate(f"{name}_bucket", *labels)
    return f"histogram_quantile({share}, sum by (cluster, store, le) ({buckets}))"


def at(which: str) -> str:
    """Return one of a store's offsets, fit to be subtracted from another."""
    matcher = f'which="{which}"'
    return f"sum by (cluster, store) ({one(s.OFFSET, matcher)})"


def gone() -> str:
    """Return an expression with a result for each store that was dispatched and is not now."""
    seen = f"count by (cluster, store) (last_over_time({one(s.BEHIND_BYTES)}[{_REMEMBERED}]))"
    return f"({seen} unless count by (cluster, store) ({one(s.BEHIND_BYTES)}))"


def if_none_is_gone(expression: str) -> str:
    """Return an expression that is -1 where a store's series are gone, or there are none."""
    return f"({expression} unless on () count({gone()})) or vector(-1)"


def of_stores(metric: str) -> str:
    """Return a process's series, of the dispatchers of the chosen stores."""
    matcher = 'kind="other"'
    return f"{metric} and on (job, instance) {one(s.ERRORS, matcher)}"


def _query(expression: str, legend: str, reference: str) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(expression).legend_format(legend)
    return query.ref_id(reference).datasource(_SOURCE)


def _thresholds(*steps: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    values = [Threshold(value=value, color=color) for value, color in steps]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(values)


def _stat(
    title: str,
    why: str,
    expression: str,
    unit: str,
    *steps: tuple[float | None, str],
    words: dict[str, tuple[str, str]] | None = None,
    is_neutral: bool = False,
) -> stat.Panel:
    """Return a panel of one number.

    Args:
        title: a question or a quantity.
        why: what it tells, shown at the title.
        expression: PromQL with one result.
        unit: one of Grafana's.
        *steps: from which value on which colour.
        words: what to show in place of a value, and its colour.
        is_neutral: the number is neither good nor bad, so it has no colour.
    """
    panel = stat.Panel().title(title).description(why).datasource(_SOURCE).unit(unit)
    panel = panel.with_target(_query(expression, "", "A").instant())
    panel = panel.thresholds(_thresholds(*(steps or ((None, _GREEN),))))
    mode = BigValueColorMode.NONE if is_neutral else BigValueColorMode.BACKGROUND
    panel = panel.color_mode(mode).graph_mode(BigValueGraphMode.NONE)
    panel = panel.reduce_options(ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    if words:
        options = {
            value: ValueMappingResult(text=text, color=color, index=number)
            for number, (value, (text, color)) in enumerate(words.items())
        }
        panel = panel.mappings([ValueMap(options=options)])
    return panel.height(_STAT_HEIGHT).no_value("no data")


def _graph(
    title: str,
    why: str,
    unit: str,
    queries: Sequence[tuple[str, str]],
    width: int = 12,
    *steps: tuple[float | None, str],
) -> timeseries.Panel:
    """Return a panel with a line for each result of each (expression, legend).

    Args:
        title: a quantity.
        why: what it tells, shown at the title.
        unit: one of Grafana's; all lines have it.
        queries: what is drawn.
        width: of 24.
        *steps: lines across the panel, from which value on which colour.
    """
    panel = timeseries.Panel().title(title).description(why).datasource(_SOURCE).unit(unit)
    for number, (expression, legend) in enumerate(queries):
        panel = panel.with_target(_query(expression, legend, chr(ord("A") + number)))
    legend_options = VizLegendOptions().display_mode(LegendDisplayMode.TABLE).show_legend(True)
    legend_options = legend_options.placement(LegendPlacement.BOTTOM).calcs(["lastNotNull", "max"])
    panel = panel.legend(legend_options).fill_opacity(10).line_width(1).min(0)
    if steps:
        style = GraphThresholdsStyleConfig().mode(GraphTresholdsStyleMode.DASHED)
        panel = panel.thresholds(_thresholds((None, "transparent"), *steps)).thresholds_style(style)
    return panel.height(_HEIGHT).span(width)


def _variable(name: str, label: str, query: str) -> dashboard.QueryVariable:
    variable = dashboard.QueryVariable(name).label(label).query(query).datasource(_SOURCE)
    variable = variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    return (
        variable.sort(VariableSort.ALPHABETICAL_ASC).multi(True).include_all(True).all_value(".*")
    )


def _overview() -> list[stat.Panel]:
    behind_bytes, _behind_seconds = one(s.BEHIND_BYTES), one(s.BEHIND_SECONDS)
    limit, far = float(THRESHOLDS["behindBytes"]), float(THRESHOLDS["behindBytesCritical"])
    late, very = float(THRESHOLDS["behindSeconds"]), float(THRESHOLDS["behindSecondsCritical"])
    is_stuck = (
        f"({behind_bytes} > bool 0)"
        f" * {s.WITHOUT_BROKER} (increase({one(s.LOG_BYTES)}[5m]) == bool 0)"
    )
    is_late = f"{behind_bytes} > bool {limit:.0f}"
    is_behind = f"max(2 * ({is_stuck}) + {s.WITHOUT_BROKER} ({is_late}))"
    panels = [
        _stat(
            "Keeping up?",
            "The worst of all chosen stores: 0 yes, 1 behind, 2 nothing moves, 4 gone: it was"
            f" dispatched within {_REMEMBERED} and is not now. Leave out a store that you removed"
            " on purpose by choosing the others above.",
            f"max(4 * ({gone()} > bool 0)) or {is_behind} or vector(-1)",
            SHORT,
            words={
                "0": ("yes", _GREEN),
                "1": ("behind", _YELLOW),
                "2": ("stalled", _RED),
                "3": ("stalled", _RED),
                "4": ("gone", _RED),
                **_UNKNOWN,
            },
        ),
        _dispatchers(),
        _stat(
            "Furthest behind",
            "Bytes of log not dispatched yet, for the store with the most. Unknown while a store"
            " is gone.",
            if_none_is_gone(f"max({behind_bytes})"),
            BYTES,
            (None, _GREEN), (limit, _YELLOW), (far, _RED),
            words=_UNKNOWN,
        ),
        _stat(
            "Longest wait",
            "How long the oldest undispatched record has waited, for the store with the oldest"
            " one. Unknown while a store is gone.",
            if_none_is_gone(f"max({one(s.AGE)})"),
            SECONDS,
            (None, _GREEN), (late, _YELLOW), (very, _RED),
            words=_UNKNOWN,
        ),
        _stat(
            "Messages",
            "Messages dispatched a second, over all chosen stores.",
            f"sum({rate(s.MESSAGES)})",
            PER_SECOND,
            is_neutral=True,
        ),
        _stat(
            "Room before retention",
            "Share of the retained log that is dispatched, for the worst store. At 0 % the broker "
            "deletes what was not dispatched. Unknown while a store is gone.",
            if_none_is_gone(
                f"min(1 - sum by (cluster, store) ({behind_bytes})"
                f" / clamp_min({at('log_end')} - {at('log_begin')}, 1))"
            ),
            RATIO,
            (None, _RED), (1 - float(THRESHOLDS["retentionRatio"]), _YELLOW), (0.9, _GREEN),
            words=_UNKNOWN,
        ),
        _stat(
            "Room on disk",
            "Free share of the output's file system, for the fullest one. Unknown while a store"
            " is gone.",
            if_none_is_gone(f"min({one(s.FREE)} / {one(s.SIZE)})"),
            RATIO,
            (None, _RED), (float(THRESHOLDS["freeRatioCritical"]), _YELLOW),
            (float(THRESHOLDS["freeRatio"]), _GREEN),
            words=_UNKNOWN,
        ),
        _stat(
            "Things to look at",
            "Errors, corrupt records, entries out of turn and expired records in 24 hours, and"
            " stores that are gone.",
            " + ".join(
                f"(sum({each}) or vector(0))"
                for each in (
                    f"increase({one(s.ERRORS)}[24h])",
                    more(s.CORRUPT, "24h"),
                    "increase(" + one(s.ENTRIES, 'outcome="misplaced"') + "[24h])",
                    more(s.LOST_GAPS, "24h"),
                    f"{gone()} > bool 0",
                )
            )
            + f" unless on () absent({behind_bytes}) or vector(-1)",
            SHORT,
            (None, _GREEN), (0.5, _RED),
            words=_UNKNOWN,
        ),
    ]  # fmt: skip
    return [panel.span(_COLUMNS // _TILES_A_LINE) for panel in panels]


def _dispatchers() -> stat.Panel:
    """Return the tile that counts dispatchers: of all stores, as the expected number is."""
    up = f"(count(max by (namespace, job, pod, instance) ({s.STARTED})) or vector(0))"
    seen = f"count(max by (namespace, job, pod) (last_over_time({s.STARTED}[{_REMEMBERED}])))"
    expected = f"(sum({s.EXPECTED}) or {seen} or vector(0))"
    panel = _stat(
        "Dispatchers up / expected",
        "Over all clusters and stores, whatever you choose above. The alert rules say how many"
        f" there should be; without them, it is how many there were within {_REMEMBERED}.",
        up,
        SHORT,
    )
    missing = f"clamp_min({expected} - {up}, 0)"
    panel = panel.targets(
        [
            _query(expression, name, reference).instant()
            for expression, name, reference in (
                (up, "up", "A"), (expected, "expected", "B"), (missing, "missing", "C"),
            )
        ]
    )  # fmt: skip
    panel = panel.thresholds(_thresholds((None, _GREEN), (0.5, _RED)))
    for name in ("up", "expected"):
        color = {"mode": "fixed", "fixedColor": _GREY}
        panel = panel.override_by_name(name, [DynamicConfigValue(id_val="color", value=color)])
    return panel


def _limits(warning: str, critical: str) -> tuple[tuple[float, str], tuple[float, str]]:
    """Return lines across a panel where alerts begin."""
    return (float(THRESHOLDS[warning]), _YELLOW), (float(THRESHOLDS[critical]), _RED)


def _stores() -> list[timeseries.Panel]:
    return [
        _graph(
            "Behind, bytes",
            "Log that is not dispatched yet. It rises if the log grows faster than it is"
            " dispatched. The lines are where the alerts begin.",
            BYTES,
            [(one(s.BEHIND_BYTES), _NAMED)],
            12,
            *_limits("behindBytes", "behindBytesCritical"),
        ),
        _graph(
            "Oldest undispatched record",
            "How long it has waited, by the dispatcher's clock: how late consumers see messages."
            " The lines are where the alerts begin.",
            SECONDS,
            [(one(s.AGE), _NAMED)],
            12,
            *_limits("behindSeconds", "behindSecondsCritical"),
        ),
        _graph(
            "Behind, seconds",
            "Store time between the log's last record and the last dispatched one. It does not grow"
            " while the log is idle.",
            SECONDS,
            [(one(s.BEHIND_SECONDS), _NAMED)],
        ),
        _graph(
            "Free space of the output",
            "Free bytes of the output's file system.",
            BYTES,
            [(one(s.FREE), _NAMED)],
        ),
        _graph(
            "Messages a second",
            "Records dispatched.",
            PER_SECOND,
            [(rate(s.MESSAGES), _NAMED)],
        ),
        _graph(
            "Log, dispatched and written",
            "Bytes a second: what is dispatched, and what the broker writes.",
            BYTES_PER_SECOND,
            [
                (rate(s.LOG_BYTES), f"{_NAMED} dispatched"),
                (f"clamp_min(deriv({one(s.OFFSET, _LOG_END)}[5m]), 0)", f"{_NAMED} written"),
            ],
        ),
        _graph(
            "Stored until visible",
            "From a record's store timestamp to its consume queue entry.",
            SECONDS,
            [
                (quantile(0.5, s.LATENCY), f"{_NAMED} p50"),
                (quantile(0.99, s.LATENCY), f"{_NAMED} p99"),
            ],
        ),
        _graph(
            "Not recorded yet",
            "Dispatched bytes that a restart would dispatch again. Falls to 0 each time that"
            " progress is recorded, once a minute as in a broker.",
            BYTES,
            [
                (
                    f"clamp_min({at('dispatched')} - ({at('recorded')} or {at('log_begin')}), 0)",
                    _NAMED,
                )
            ],
        ),
    ]


def _internals() -> list[timeseries.Panel]:
    return [
        _graph(
            "Batch",
            "99 of 100 batches, flushes included, take no longer.",
            SECONDS,
            [
                (quantile(0.99, s.BATCH_SECONDS, f'phase="{phase}"'), f"{_NAMED} {phase}")
                for phase in ("total", "flush")
            ],
            8,
        ),
        _graph(
            "Where the time of batches goes",
            "Seconds of work a second: waiting for parsed records, writing queues and index,"
            " syncing to disk, recording progress.",
            SECONDS,
            [
                (
                    "sum by (cluster, store, phase) ("
                    + rate(f"{s.BATCH_SECONDS}_sum", 'phase!="total"')
                    + ")",
                    f"{_NAMED} {{{{phase}}}}",
                )
            ],
            8,
        ),
        _graph(
            "Batches a second",
            "Many small ones at the log's end, few large ones in a backlog.",
            PER_SECOND,
            [(rate(s.BATCHES), _NAMED)],
            8,
        ),
        _graph(
            "Since the last batch",
            "Grows while nothing is written to the log, or nothing is dispatched.",
            SECONDS,
            [(f"time() - ({one(s.LAST_BATCH)} > 0)", _NAMED)],
            8,
        ),
        _graph(
            "Consume queue entries a second",
            "put: new. repeated: already there. misplaced: out of turn; an alert fires.",
            PER_SECOND,
            [(rate(s.ENTRIES), f"{_NAMED} {{{{outcome}}}}")],
            8,
        ),
        _graph(
            "Index items a second",
            "A message has one for its id and one for each key.",
            PER_SECOND,
            [(rate(s.INDEX_ITEMS), _NAMED)],
            8,
        ),
        _graph(
            "Newest index file",
            "How full it is. At 100 % the next one begins.",
            RATIO,
            [(one(s.INDEX_FILL), _NAMED)],
            8,
        ),
        _graph(
            "Age of the checkpoint",
            "By the store timestamps in it. It grows for an idle store. The index's also grows, as"
            " it counts whole files only.",
            SECONDS,
            [(f"time() - ({one(s.CHECKPOINT)} > 0)", f"{_NAMED} {{{{kind}}}}")],
            8,
        ),
        _graph(
            "Events in an hour",
            "All of them are rare; the runbook has a section for each.",
            SHORT,
            [
                (f"increase({one(s.ERRORS)}[1h])", f"{_NAMED} error {{{{kind}}}}"),
                (more(s.CORRUPT, "1h"), f"{_NAMED} corrupt, passed over"),
                (more(s.LOST_GAPS, "1h"), f"{_NAMED} expired"),
                (f"increase({one(s.TRUNCATIONS)}[1h])", f"{_NAMED} log cut"),
                (f"increase({one(s.STARTS)}[1h])", f"{_NAMED} start"),
                (f"increase({one(s.RECOVERIES)}[1h])", f"{_NAMED} recovery"),
                (f"increase({one(s.INDEX_FILES)}[1h])", f"{_NAMED} index file begun"),
                (one(s.WAITING), f"{_NAMED} record waits"),
            ],
            8,
        ),
        _graph(
            "Records that expired",
            "Bytes of log that the broker deleted before they were dispatched, in a day.",
            BYTES,
            [(more(s.LOST_BYTES, "24h"), _NAMED)],
            8,
        ),
        _graph(
            "Processors",
            "Cores of the driver's Python. The JVM beside it only plans batches.",
            SHORT,
            [(of_stores(f"rate({s.CPU}{_RATE})"), "{{instance}}")],
            8,
        ),
        _graph(
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
        _graph(
            "Heap of the JVM",
            "In use, and what it may grow to. It falls with each collection.",
            BYTES,
            [
                (of_stores(s.HEAP_USED), "{{instance}} in use"),
                (of_stores(s.HEAP_MAX), "{{instance}} most"),
            ],
            8,
        ),
        _graph(
            "Up for",
            "Time since the process began. A saw-tooth means that it restarts.",
            SECONDS,
            [(of_stores(f"time() - {s.STARTED}"), "{{instance}}")],
            8,
        ),
        _graph(
            "Open files",
            "Of the driver's Python: files of the log, queues and index.",
            SHORT,
            [(of_stores(s.OPEN_FILES), "{{instance}}")],
            8,
        ),
        _graph(
            "What runs",
            "1: the query runs; the store's first message is awaited; this version is up.",
            SHORT,
            [
                (of_stores(s.ACTIVE), "{{instance}} query runs"),
                (one(s.AWAITED), f"{_NAMED} first message awaited"),
                (
                    of_stores(s.BUILD),
                    "{{instance}} {{version}} Spark {{spark}} Python {{python}}",
                ),
            ],
            8,
        ),
    ]


def _kafka() -> list[timeseries.Panel]:
    return [
        _graph(
            "Kafka behind, bytes",
            "Log that is dispatched and not committed to Kafka. Dispatch does not wait for it.",
            BYTES,
            [(one(s.KAFKA_LAG_BYTES), _NAMED)],
            8,
        ),
        _graph(
            "Kafka behind, seconds",
            "How much later Kafka's consumers see messages than RocketMQ's.",
            SECONDS,
            [(one(s.KAFKA_LAG_SECONDS), _NAMED)],
            8,
        ),
        _graph(
            "To Kafka a second",
            "Messages and arrival notices sent, and the log's offset moving.",
            PER_SECOND,
            [(rate(s.KAFKA_MESSAGES), f"{_NAMED} {{{{product}}}}")],
            8,
        ),
        _graph(
            "Transactions",
            "99 of 100, and half of them, take no longer than this.",
            SECONDS,
            [
                (quantile(0.99, s.KAFKA_SECONDS), f"{_NAMED} p99"),
                (quantile(0.5, s.KAFKA_SECONDS), f"{_NAMED} p50"),
            ],
            8,
        ),
        _graph(
            "Bytes to Kafka a second",
            "Records sent, and log committed.",
            BYTES_PER_SECOND,
            [
                (rate(s.KAFKA_BYTES), f"{_NAMED} records"),
                (f"clamp_min(deriv({one(s.KAFKA_OFFSET)}[5m]), 0)", f"{_NAMED} log"),
            ],
            8,
        ),
        _graph(
            "On the way to Kafka",
            "Bytes sent and not acknowledged yet.",
            BYTES,
            [(one(s.KAFKA_IN_FLIGHT), _NAMED)],
            8,
        ),
        _graph(
            "Trouble with Kafka, in an hour",
            "Repeated attempts, dead letters, logs that were cut.",
            SHORT,
            [
                (f"increase({one(s.KAFKA_RETRIES)}[1h])", f"{_NAMED} retries"),
                (f"increase({one(s.KAFKA_DEAD)}[1h])", f"{_NAMED} dead letters"),
                (f"increase({one(s.KAFKA_TRUNCATIONS)}[1h])", f"{_NAMED} log cut"),
            ],
            8,
        ),
        _graph(
            "Kafka held back",
            "1: nothing is sent until you act and restart the job. The job's log names topic,"
            " record and remedy.",
            SHORT,
            [(one(s.KAFKA_HELD), _NAMED)],
            8,
            (1.0, _RED),
        ).max(1),
        _graph(
            "Kafka connected",
            "1: the last attempt succeeded. 0: it failed, and the job tries again.",
            SHORT,
            [(one(s.KAFKA_CONNECTED), _NAMED)],
            8,
        ).max(1),
    ]


def build() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    source = dashboard.DatasourceVariable("datasource").label("Source").type("prometheus")
    behind = s.BEHIND_BYTES
    board = (
        dashboard.Dashboard(TITLE)
        .uid(UID)
        .description("Does dispatch keep up with the commitlog, and if not, why?")
        .tags(["rocketmq", "reput"])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(source)
        .with_variable(
            _variable("cluster", "Cluster", f"label_values({behind}{{{s.NODE}}}, cluster)")
        )
        .with_variable(
            _variable(
                "store",
                "Store",
                f'label_values({behind}{{{s.NODE},cluster=~"$cluster"}}, store)',
            )
        )
    )
    rows: tuple[tuple[str, Sequence[stat.Panel | timeseries.Panel], bool], ...] = (
        ("Overview", _overview(), False),
        ("Stores", _stores(), False),
        ("Internals", _internals(), True),
        ("Kafka", _kafka(), True),
    )
    for title, panels, is_folded in rows:
        row = dashboard.Row(title)
        if is_folded:
            for panel in panels:
                row = row.with_panel(panel)
            board = board.with_row(row.collapsed(True))
            continue
        board = board.with_row(row)
        for panel in panels:
            board = board.with_panel(panel)
    text = json.dumps(board.build(), cls=JSONEncoder, sort_keys=True)
    built: dict[str, Any] = json.loads(text)
    return built


def all_panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a dashboard, those of folded rows among them."""
    panels = [p for top in board["panels"] for p in (top, *(top.get("panels") or ()))]
    return [panel for panel in panels if panel["type"] != "row"]


def expressions(board: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (panel title, PromQL) of every query of a dashboard."""
    panels = all_panels(board)
    return [
        (str(panel["title"]), str(target["expr"]))
        for panel in panels
        for target in panel.get("targets", ())
    ]
