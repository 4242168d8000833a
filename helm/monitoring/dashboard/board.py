"""Does dispatch keep up, which store does not, and why? The Grafana dashboard answers.

Its row Overview answers at a glance, over all chosen stores. Stores has a line for each store.
Internals, Kafka and Clients are folded: the first is for finding a cause, and few have the others.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    VariableRefresh,
    VariableSort,
)

from helm.monitoring import series as s
from helm.monitoring.dashboard import internals, kafka, overview, serving, stores
from helm.monitoring.dashboard.visualizations import SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grafana_foundation_sdk.builders import stat, timeseries

UID = "reput-dispatch"
TITLE = "RocketMQ dispatch (reput)"


def build() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    board = _empty()
    rows: tuple[tuple[str, Sequence[stat.Panel | timeseries.Panel], bool], ...] = (
        ("Overview", overview.panels(), False),
        ("Stores", stores.panels(), False),
        ("Internals", internals.panels(), True),
        ("Kafka", kafka.panels(), True),
        ("Clients", serving.panels(), True),
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


def _empty() -> dashboard.Dashboard:
    """Return a dashboard that has its variables and no row yet."""
    source = dashboard.DatasourceVariable("datasource").label("Source").type("prometheus")
    clusters = f"label_values({s.BEHIND_BYTES}{{{s.NODE}}}, cluster)"
    stores_of = f'label_values({s.BEHIND_BYTES}{{{s.NODE},cluster=~"$cluster"}}, store)'
    return (
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
        .with_variable(_variable("cluster", "Cluster", clusters))
        .with_variable(_variable("store", "Store", stores_of))
    )


def _variable(name: str, label: str, query: str) -> dashboard.QueryVariable:
    variable = dashboard.QueryVariable(name).label(label).query(query).datasource(SOURCE)
    variable = variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    return (
        variable.sort(VariableSort.ALPHABETICAL_ASC).multi(True).include_all(True).all_value(".*")
    )


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
