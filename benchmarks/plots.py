"""Draws docs/performance.md's pictures from what the benchmarks wrote with --json.

python -m benchmarks.plots docs/images small.json large.json
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="where the pictures go")
    parser.add_argument("files", type=Path, nargs="+", help="of benchmarks.rebuild --json")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    documents = [json.loads(path.read_text()) for path in arguments.files]
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
    plt.savefig(arguments.directory / "rebuild.png", dpi=110)


if __name__ == "__main__":
    main()
