"""How does a number or a line look? As a tile or a graph, built with Grafana's own types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.builders.common import (
    GraphThresholdsStyleConfig,
    ReduceDataOptions,
    VizLegendOptions,
)
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    GraphTresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)

from helm.monitoring.alerts.placeholders import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
NAMED = "{{cluster}} / {{store}}"
GREEN, YELLOW, RED, GREY = "green", "yellow", "red", "#808080"
# What a tile shows in place of a number that is unknown because a store's series are gone.
UNKNOWN = {"-1": ("unknown", GREY)}
_TILE_HEIGHT, _HEIGHT = 4, 8

# Unit names of Grafana.
BYTES, BYTES_PER_SECOND, SECONDS, SHORT, RATIO, PER_SECOND, TIME = (
    "bytes", "binBps", "s", "short", "percentunit", "ops", "dateTimeFromNow",
)  # fmt: skip


def query(expression: str, legend: str, reference: str) -> prometheus.Dataquery:
    """Return a query of a panel; its reference is a letter."""
    made = prometheus.Dataquery().expr(expression).legend_format(legend)
    return made.ref_id(reference).datasource(SOURCE)


def thresholds(*steps: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    """Return the steps: from which value on which colour."""
    values = [Threshold(value=value, color=color) for value, color in steps]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(values)


def limits(warning: str, critical: str) -> tuple[tuple[float, str], tuple[float, str]]:
    """Return the steps where alerts begin: a warning, and a critical one."""
    return (float(THRESHOLDS[warning]), YELLOW), (float(THRESHOLDS[critical]), RED)


def tile(
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
    panel = stat.Panel().title(title).description(why).datasource(SOURCE).unit(unit)
    panel = panel.with_target(query(expression, "", "A").instant())
    panel = panel.thresholds(thresholds(*(steps or ((None, GREEN),))))
    mode = BigValueColorMode.NONE if is_neutral else BigValueColorMode.BACKGROUND
    panel = panel.color_mode(mode).graph_mode(BigValueGraphMode.NONE)
    panel = panel.reduce_options(ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    if words:
        options = {
            value: ValueMappingResult(text=text, color=color, index=number)
            for number, (value, (text, color)) in enumerate(words.items())
        }
        panel = panel.mappings([ValueMap(options=options)])
    return panel.height(_TILE_HEIGHT).no_value("no data")


def graph(
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
    panel = timeseries.Panel().title(title).description(why).datasource(SOURCE).unit(unit)
    for number, (expression, legend) in enumerate(queries):
        panel = panel.with_target(query(expression, legend, chr(ord("A") + number)))
    legend_options = VizLegendOptions().display_mode(LegendDisplayMode.TABLE).show_legend(True)
    legend_options = legend_options.placement(LegendPlacement.BOTTOM).calcs(["lastNotNull", "max"])
    panel = panel.legend(legend_options).fill_opacity(10).line_width(1).min(0)
    if steps:
        style = GraphThresholdsStyleConfig().mode(GraphTresholdsStyleMode.DASHED)
        panel = panel.thresholds(thresholds((None, "transparent"), *steps)).thresholds_style(style)
    return panel.height(_HEIGHT).span(width)
