"""Draws docs/performance.md's pictures from what the benchmarks wrote with --json.

python -m benchmarks.plots docs/images --rebuild small.json large.json
python -m benchmarks.plots docs/images --beside 1000.json 20000.json
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

_BROKER, _OURS = "#9a9a9a", "#1f77b4"
_SIDES = {
    "broker": ("the broker's own dispatch", _BROKER),
    "reput": ("reput run", _OURS),
    "other": ("reput run before stores were followed between batches", "#d98c3f"),
}
_LEAST_MS = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="where the pictures go")
    parser.add_argument("--rebuild", type=Path, nargs="+", help="of benchmarks.rebuild --json")
    parser.add_argument("--beside", type=Path, nargs="+", help="of benchmarks.live.beside --json")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    if arguments.rebuild:
        documents = [json.loads(path.read_text()) for path in arguments.rebuild]
        draw_rebuild(documents, arguments.directory / "rebuild.png")
    if arguments.beside:
        documents = [json.loads(path.read_text()) for path in arguments.beside]
        draw_beside(documents, arguments.directory / "latency.png")


def put_together(documents: list[dict]) -> dict[str, dict[str, list[dict]]]:
    """Return the runs of all documents, by rate and side; the lowest rate first."""
    found: dict[str, dict[str, list[dict]]] = {}
    for document in documents:
        for rate, sides in document["rates"].items():
            for side, runs in sides.items():
                found.setdefault(rate, {}).setdefault(side, []).extend(runs)
    return dict(sorted(found.items(), key=lambda each: int(each[0])))


def draw_beside(documents: list[dict], path: Path) -> None:
    """Draw, for each rate, what share of the messages is slower than each number of ms."""
    rates = put_together(documents)
    _, axes = plt.subplots(1, len(rates), figsize=(15, 4.4), layout="constrained", squeeze=False)
    shares = documents[0]["slower_percent"]
    for axis, (rate, sides) in zip(axes[0], rates.items(), strict=True):
        for side, runs in sides.items():
            label, colour = _SIDES[side]
            for number, run in enumerate(runs):
                # No clock here tells less.
                late = [max(each, _LEAST_MS) for each in run["slower"]]
                axis.plot(late, shares, color=colour, lw=1, label=None if number else label)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("ms from the return of the broker's put to the entry in the queue")
        axis.set_ylabel("percent of the messages that are slower")
        axis.set_title(
            f"{int(rate):,} messages a second, a line for each run", loc="left", fontsize=9
        )
        axis.grid(visible=True, alpha=0.3)
        axis.legend(loc="lower left")
    plt.savefig(path, dpi=110)


def draw_rebuild(documents: list[dict], path: Path) -> None:
    """Draw rates, processor time and memory of both sides."""
    figures = (
        ("rate", 1e6, "million messages a second"),
        ("cpu_per_million", 1, "CPU seconds a million messages"),
        ("anonymous_mib", 1, "MiB of memory, without page cache"),
    )
    pairs = []
    for document in documents:
        _, size, each = document["title"].split(", ")
        for peer, sides in document["peers"].items():
            pairs.append((f"{size}\n{each.removesuffix('ytes each').upper()}\n{peer}", sides))
    _, axes = plt.subplots(1, len(figures), figsize=(15, 4.4), layout="constrained")
    for axis, (figure, unit, label) in zip(axes, figures, strict=True):
        for place, (_, sides) in enumerate(pairs):
            for number, (name, colour) in enumerate((("rocketmq", _BROKER), ("reput", _OURS))):
                values = [run[figure] / unit for run in sides[name]]
                middle = statistics.median(values)
                error = [[middle - min(values)], [max(values) - middle]]
                axis.bar(place + 0.38 * number, middle, 0.36, yerr=error, color=colour, capsize=3)
        axis.set_ylabel(label)
        axis.set_xticks(
            [place + 0.19 for place in range(len(pairs))], [title for title, _ in pairs]
        )
    axes[0].set_title(
        "grey: the broker, blue: reput; median, lowest, highest", loc="left", fontsize=9
    )
    plt.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
