"""Draws the dashboard's main panels from a live Prometheus: `picture.py URL FILE.png [SECONDS]`.

Titles and queries are those of the checked-in dashboard, so what is shown is what Grafana would
get; it needs matplotlib.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from helm.monitoring import generate, panels

MAIN = (
    "Behind, bytes",
    "Behind, seconds",
    "Messages a second",
    "Log, dispatched and written",
    "Stored until visible",
    "Not recorded yet",
    "Batch",
    "Where the time of batches goes",
    "Index items a second",
    "Newest index file",
    "Processors",
    "Up for",
)
_COLUMNS = 3
_POINTS = 240


def _range(server: str, expression: str, seconds: float) -> list[Any]:
    end = time.time()
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


def draw(server: str, path: Path, seconds: float, store: str = "live") -> None:
    """Write a PNG.

    Args:
        server: URL of Prometheus.
        path: of the file.
        seconds: back from now.
        store: which one is shown.
    """
    import matplotlib as mpl  # noqa: PLC0415 - wanted here only

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    board = json.loads(generate.CHART_DASHBOARD.read_text("utf-8"))
    by_title = {panel["title"]: panel for panel in board["panels"]}
    rows = -(-len(MAIN) // _COLUMNS)
    figure, axes = plt.subplots(rows, _COLUMNS, figsize=(15, 2.9 * rows), layout="constrained")
    for axis, title in zip(axes.flat, MAIN, strict=False):
        axis.set_title(title, fontsize=10, loc="left")
        for target in by_title[title]["targets"]:
            expression = panels.fill_variables(target["expr"], store)
            for line in _range(server, expression, seconds):
                if line["metric"].get("pod", store) != store:
                    continue
                points = [(float(at), float(value)) for at, value in line["values"]]
                first = time.time() - seconds
                axis.plot(
                    [at - first for at, _ in points],
                    [value for _, value in points],
                    linewidth=1,
                    label=_short(panels.legend(target["legendFormat"], line["metric"]), store),
                )
        if by_title[title]["fieldConfig"]["defaults"]["unit"] in {"bytes", "binBps"}:
            axis.yaxis.set_major_formatter(lambda value, _: f"{value / (1 << 20):.3g} MiB")
        axis.set_ylim(bottom=0)
        axis.set_xlim(0, seconds)
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=7)
        axis.legend(fontsize=6, loc="upper left")
    figure.savefig(path, dpi=70)
    plt.close(figure)


def _short(label: str, store: str) -> str:
    """Return a legend without what all lines have in common."""
    return label.partition(f"/ {store}")[2].strip() or label


if __name__ == "__main__":
    draw(sys.argv[1].rstrip("/"), Path(sys.argv[2]), float((*sys.argv[3:], "300")[0]))
