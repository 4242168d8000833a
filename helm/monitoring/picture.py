"""Draws the dashboard's tiles and main panels, or its row of Kafka, from a live Prometheus.

`picture.py URL FILE.png [SECONDS]`. Titles, queries, units and limits are those of the checked-in
dashboard, so what is shown is what Grafana would get; it is drawn with matplotlib and not by
Grafana. A line ends where its series does.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from helm.monitoring import generate, panels
from helm.monitoring.dashboard.board import all_panels

if TYPE_CHECKING:
    from collections.abc import Sequence

MAIN = (
    "Behind, bytes",
    "Oldest undispatched record",
    "Messages a second",
    "Log, dispatched and written",
    "Stored until visible",
    "Not recorded yet",
    "Batch",
    "Where the time of batches goes",
    "Index items a second",
    "Newest index file",
    "Memory",
    "Up for",
)
KAFKA = (
    "Kafka behind, bytes",
    "Kafka behind, seconds",
    "To Kafka a second",
    "Transactions",
    "Bytes to Kafka a second",
    "On the way to Kafka",
    "Trouble with Kafka, in an hour",
    "Kafka held back",
    "Kafka connected",
)
_COLUMNS = 3
_POINTS = 240
_KILO, _KIBI = 1000, 1024
_MINUTES = 120
_LINES = 6
# Inches of a row of panels, and of the tiles; entries of a legend side by side.
_ROW, _TILES, _LEGENDS = 3.2, 1.1, 3
_BELOW = (-0.02, -0.1)
_BINARY = {"bytes": "B", "binBps": "B/s"}
# Grafana takes four scrapes or more: what happens within minutes is not smeared over them.
_RATE_INTERVAL = "10s"
_COLORS = {"green": "#9fd69f", "yellow": "#f2d974", "red": "#e88a8a"}
_LINE_COLORS = {"yellow": "#c99700", "red": "#c4162a"}


class _Line(NamedTuple):
    """A line of a graph; its times are seconds from the graph's left edge."""

    label: str
    times: list[float]
    values: list[float]


def _range(server: str, expression: str, seconds: float, end: float) -> list[Any]:
    values = {
        "query": expression,
        "start": end - seconds,
        "end": end,
        "step": max(seconds / _POINTS, 1.0),
    }
    text = urllib.parse.urlencode(values)
    with urllib.request.urlopen(f"{server}/api/v1/query_range?{text}", timeout=30) as answer:  # noqa: S310
        found: list[Any] = json.load(answer)["data"]["result"]
        return found


def draw(
    server: str,
    path: Path,
    seconds: float,
    store: str = "live",
    at: float | None = None,
    titles: Sequence[str] = MAIN,
) -> None:
    """Write a PNG.

    Args:
        server: URL of Prometheus.
        path: of the file.
        seconds: how far back.
        store: the one that is shown.
        at: Unix time that the picture ends with; now by default.
        titles: of the panels; the tiles stand above `MAIN` only.
    """
    import matplotlib as mpl  # noqa: PLC0415 - wanted here only

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    end = time.time() if at is None else at
    shown = _checked_in()
    rows = -(-len(titles) // _COLUMNS)
    above = _TILES if titles == MAIN else 0.0
    figure = plt.figure(figsize=(15, above + _ROW * rows), layout="constrained")
    heights = [above, _ROW * rows] if above else [_ROW * rows]
    *top, below = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False).flat
    for tiles in top:
        _draw_tiles(tiles, server, [each for each in shown.values() if each["type"] == "stat"], end)
    axes = below.subplots(rows, _COLUMNS)
    for axis, title in zip(axes.flat, titles, strict=False):
        lines = _lines(server, shown[title], store, seconds, end)
        _draw_graph(axis, shown[title], lines, seconds)
    for axis in axes[-1]:
        axis.set_xlabel("minutes:seconds", fontsize=8, loc="right", labelpad=0)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _checked_in() -> dict[str, dict[str, Any]]:
    """Return the panels of the checked-in dashboard by their titles."""
    board = json.loads(generate.CHART_DASHBOARD.read_text("utf-8"))
    return {panel["title"]: panel for panel in all_panels(board)}


def _lines(
    server: str, panel: dict[str, Any], store: str, seconds: float, end: float
) -> list[_Line]:
    """Return the lines of a panel: those of the store, and of the process that dispatches it."""
    found = []
    for target in panel["targets"]:
        for line in _range(server, _filled(target["expr"], store), seconds, end):
            if line["metric"].get("pod", store) != store:
                continue
            times, values = _broken([(float(at), float(v)) for at, v in line["values"]])
            label = _short(target["legendFormat"], store, line["metric"])
            found.append(_Line(label, [at - end + seconds for at in times], values))
    return found


def _draw_graph(axis: Any, panel: dict[str, Any], lines: Sequence[_Line], seconds: float) -> None:
    """Draw a panel's lines, and the limits that are not far above them."""
    defaults = panel["fieldConfig"]["defaults"]
    unit = defaults["unit"]
    axis.set_title(panel["title"], fontsize=10, loc="left")
    for line in lines:
        axis.plot(line.times, line.values, linewidth=1, label=line.label)
    known = (value for line in lines for value in line.values if not math.isnan(value))
    highest = max([0.0, *known])
    for step in defaults.get("thresholds", {}).get("steps", ()):
        if step["value"] and step["value"] < 2 * highest:
            axis.axhline(
                step["value"],
                color=_LINE_COLORS.get(step["color"], step["color"]),
                linestyle="--",
                linewidth=1,
                label=f"alert from {readable(step['value'], unit)}",
            )
    _scale(axis, unit, highest, seconds)
    # Below, as in Grafana: over the lines it would hide some.
    axis.legend(
        fontsize=7,
        loc="upper left",
        bbox_to_anchor=_BELOW,
        ncols=_LEGENDS,
        frameon=False,
    )


def _scale(axis: Any, unit: str, highest: float, seconds: float) -> None:
    """Give a graph its ranges, and round values beside them."""
    axis.yaxis.set_major_formatter(lambda value, _: readable(value, unit))
    axis.xaxis.set_major_formatter(lambda value, _: f"{int(value // 60)}:{int(value % 60):02d}")
    # A line of zeros has to be seen above the axis.
    top = 1.1 * highest or 1
    axis.set_ylim(-0.02 * (highest or 1), top)
    axis.set_xlim(0, seconds)
    axis.set_yticks(_ticks(top, _KIBI if unit in _BINARY else 10, _LINES))
    axis.set_xticks(range(0, int(seconds) + 1, 60))
    axis.grid(alpha=0.3)
    axis.tick_params(labelsize=8)


def _draw_tiles(figure: Any, server: str, tiles: Sequence[dict[str, Any]], end: float) -> None:
    for axis, panel in zip(figure.subplots(1, len(tiles)), tiles, strict=True):
        text, color = _tile(server, panel, end)
        axis.set_facecolor(color)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_title(panel["title"], fontsize=9, loc="left")
        axis.text(0.5, 0.5, text, ha="center", va="center", fontsize=12)


def readable(value: float, unit: str) -> str:
    """Return a value in a unit of Grafana's as its axes have it: two digits and a prefix."""
    if unit in _BINARY:
        for prefix in ("", "Ki", "Mi", "Gi", "Ti"):
            if abs(value) < _KIBI or prefix == "Ti":
                return f"{value:.3g} {prefix}{_BINARY[unit]}"
            value /= _KIBI
    if unit == "s":
        if 0 < abs(value) < 1:
            return f"{value * 1000:.3g} ms"
        return f"{value:.3g} s" if abs(value) < _MINUTES else f"{value / 60:.3g} min"
    if unit == "percentunit":
        return f"{value:.0%}"
    for prefix in ("", "k", "M"):
        if abs(value) < _KILO or prefix == "M":
            return f"{value:.3g}{prefix}" + ("/s" if unit == "ops" else "")
        value /= _KILO
    return f"{value:g}"


def _ticks(highest: float, base: int, most: int) -> list[float]:
    """Return round values from 0 up: 1, 2 or 5 times a power of ten, or powers of two."""
    power = float(base) ** math.floor(math.log(highest, base))
    factors = [2**n for n in range(-4, 11)] if base == _KIBI else [0.1, 0.2, 0.5, 1, 2, 5, 10]
    step = next(power * each for each in factors if highest / (power * each) <= most)
    return [step * number for number in range(int(highest / step) + 1)]


def _tile(server: str, panel: dict[str, Any], at: float) -> tuple[str, str]:
    """Return a tile's text and colour, as Grafana makes them of thresholds and mappings."""
    defaults = panel["fieldConfig"]["defaults"]
    steps = defaults["thresholds"]["steps"]
    words = {k: v for each in defaults.get("mappings") or () for k, v in each["options"].items()}
    texts, color = [], "#eeeeee"
    for target in panel["targets"]:
        found = panels.query(server, _filled(target["expr"], ".*"), at)
        if not found:
            return "no data", color
        value = float(found[0]["value"][1])
        word = words.get(f"{value:g}")
        color = next(s["color"] for s in reversed(steps) if (s["value"] or -math.inf) <= value)
        if word:
            color = word["color"]
        text = word["text"] if word else readable(value, defaults["unit"])
        texts.append(f"{target['legendFormat']} {text}".strip())
    if panel["options"]["colorMode"] == "none":
        color = "#eeeeee"
    return "\n".join(texts), _COLORS.get(color, color)


def _broken(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return times and values, with no value between points that are far from each other."""
    steps = [b - a for (a, _), (b, _) in itertools.pairwise(points)]
    usual = min(steps, default=1.0)
    times, values = [], []
    for (at, value), gap in zip(points, [*steps, 0.0], strict=True):
        times.append(at)
        values.append(value)
        if gap > 1.5 * usual:
            times.append(at + usual)
            values.append(math.nan)
    return times, values


def _filled(expression: str, store: str) -> str:
    """Return an expression of the dashboard with its variables filled."""
    return panels.fill_variables(expression.replace("$__rate_interval", _RATE_INTERVAL), store)


def _short(template: str, store: str, labels: dict[str, str]) -> str:
    """Return a legend without what all lines have in common: the store, and the process."""
    label = panels.legend(template, labels)
    named = label.partition(f"/ {store}")[2].strip() or label
    return named.removeprefix(labels.get("instance", "")).strip() or store


if __name__ == "__main__":
    draw(sys.argv[1].rstrip("/"), Path(sys.argv[2]), float((*sys.argv[3:], "300")[0]))
