"""`reput rebuild` beside the broker's own dispatch, on the same commitlog, in turn.

    python -m benchmarks.rebuild --gib 8 --body 100 --runs 5 [--directory DIR] [--json FILE]

The log is benchmarks/logs.py's: records of many lengths with a key, a unique id and a tag. The
brokers are RocketMQ 4.9.8 as it comes, which makes two index entries of each, and 5.5.0's
ReputMessageService with mapped consume queues, which is 5.5.0's fastest and makes three. After
each run of a broker comes one of ours that writes what that version writes, as many index entries.
A broker's rate is from the first to the last dispatch, its total from load() to there, without the
start of its JVM. A run of ours is the command, through Spark's local[2]; its rate is from the first
batch to the last entry, which is the same, and once more to everything being on disk; its total is
from command to exit. The log is read once before each run, so that no run pays for the disk;
outputs are removed after each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.logs import write_log  # noqa: E402
from benchmarks.processes import Measured, measure  # noqa: E402
from reput.formats.rocketmq import names  # noqa: E402
from reput.formats.rocketmq.indexfile import FIRST_ITEM, HEADER_SIZE, Header  # noqa: E402
from tests.oracle import oracle  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PEERS = {
    "4.9.8": (),
    "5.5.0": ("--mode=reput", "putConsumeQueueDataByFileChannel=false"),
}
FIGURES = ("rate", "total_seconds", "cpu_per_million", "anonymous_mib")
_PIECE = 1 << 24
_HEAP = "3g"


def warm(store: Path) -> None:
    """Bring the log into the page cache."""
    buffer = bytearray(_PIECE)
    for path in sorted((store / "commitlog").iterdir()):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def run_broker(store: Path, work: Path, version: str) -> dict[str, float]:
    """Time the broker on hard links of the log."""
    (work / "commitlog").mkdir(parents=True)
    for path in (store / "commitlog").iterdir():
        os.link(path, work / "commitlog" / path.name)
    warm(store)
    os.environ.update(HEAP=_HEAP, LIMIT="3600")
    done = measure([oracle.HERE / "run.sh", version, "Replay", work, *PEERS[version]])
    shown = json.loads(done.output)
    return _figures(shown["messages"], shown["msg_per_s"], shown["total_s"], done)


def run_ours(store: Path, work: Path, *options: str) -> dict[str, float]:
    """Time the command."""
    warm(store)
    command = [sys.executable, "-m", "reput", "rebuild", "--store", store, "--output", work]
    done = measure([*command, "--json", *options], cwd=ROOT)
    shown = json.loads(done.output)
    rate = shown["messages"] / shown["dispatch_seconds"]
    figures = _figures(shown["messages"], rate, done.seconds, done)
    return figures | {"rate_on_disk": shown["messages_per_second"]}


def _figures(messages: int, rate: float, total: float, done: Measured) -> dict[str, float]:
    return {
        "messages": messages,
        "rate": rate,
        "total_seconds": total,
        "process_seconds": done.seconds,
        "cpu_seconds": done.cpu_seconds,
        "cpu_per_million": done.cpu_seconds / messages * 1e6,
        "anonymous_mib": done.anonymous_mib,
        "anonymous_mib_first_half": done.first,
        "anonymous_mib_second_half": done.last,
        "load": os.getloadavg()[0],
    }


def compare(store: Path, runs: int, peers: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Run each broker and ours, as of its version, in turn."""
    found: dict[str, dict[str, Any]] = {peer: {"rocketmq": [], "reput": []} for peer in peers}
    for _ in range(runs):
        for peer, sides in found.items():
            for side in sides:
                with tempfile.TemporaryDirectory(dir=store.parent) as name:
                    work = Path(name) / "run"
                    if side == "reput":
                        figures = run_ours(store, work, "--broker-version", peer)
                    else:
                        figures = run_broker(store, work, peer)
                    figures["index_entries"] = index_entries(work)
                sides[side].append(figures)
                _say(f"{side} {peer}", figures)
    for sides in found.values():
        (entries,) = {run["index_entries"] for runs in sides.values() for run in runs}
        print(f"{entries:,} index entries on both sides", file=sys.stderr)
        sides["ratios"] = {
            f: median(sides["reput"], f) / median(sides["rocketmq"], f) for f in FIGURES
        }
    return found


def index_entries(output: Path) -> int:
    """Return how many entries the index of an output has."""
    headers = []
    for path in (output / names.INDEX).iterdir():
        with path.open("rb") as file:
            headers.append(Header.unpack(file.read(HEADER_SIZE)))
    return sum(header.next_item - FIRST_ITEM for header in headers)


def _say(name: str, figures: Mapping[str, float]) -> None:
    shown = ", ".join(f"{figure} {figures[figure]:,.2f}" for figure in FIGURES)
    print(f"{name}: {shown}", file=sys.stderr, flush=True)


def median(runs: list[dict[str, float]], figure: str) -> float:
    return statistics.median(run[figure] for run in runs)


def report(title: str, found: dict[str, dict[str, Any]]) -> None:
    """Print a table and ratios for each broker."""
    print(f"{title}; load average {os.getloadavg()[0]:.2f}")
    for peer, sides in found.items():
        print(f"{'':16} {'msg/s median':>14} {'min':>12} {'max':>12} {'total s':>9} "
              f"{'CPU s/M':>8} {'anon MiB':>9}")  # fmt: skip
        for name in ("rocketmq", "reput"):
            runs = sides[name]
            rates = sorted(run["rate"] for run in runs)
            print(f"{name + ' ' + peer:16} {statistics.median(rates):14,.0f} {rates[0]:12,.0f} "
                  f"{rates[-1]:12,.0f} {median(runs, 'total_seconds'):9.1f} "
                  f"{median(runs, 'cpu_per_million'):8.2f} "
                  f"{median(runs, 'anonymous_mib'):9,.0f}")  # fmt: skip
        ratios = sides["ratios"]
        print(f"until all is on disk: {median(sides['reput'], 'rate_on_disk'):,.0f} msg/s")
        print(
            f"rate {ratios['rate']:.2f} times the broker's, whole process 1/"
            f"{1 / ratios['total_seconds']:.2f} of its time, "
            f"CPU {ratios['cpu_per_million']:.2f}, memory {ratios['anonymous_mib']:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=1.0, help="of commitlog")
    parser.add_argument(
        "--body", type=int, default=90, help="bytes on average; records have 195 more"
    )
    parser.add_argument("--queues", type=int, default=128)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", default=",".join(PEERS), help="versions of RocketMQ")
    parser.add_argument("--directory", type=Path, default=ROOT / "work" / "bench",
                        help="logs are kept here, so that they are written once")  # fmt: skip
    parser.add_argument("--json", type=Path, help="write all figures there")
    arguments = parser.parse_args()
    peers = arguments.peers.split(",")
    for version in peers:
        oracle.build(version)
    name = f"{arguments.gib:g}gib-{arguments.body}b-{arguments.queues}q"
    store = arguments.directory / name
    if not store.is_dir():
        size = int(arguments.gib * (1 << 30))
        count = write_log(store / "commitlog", size, arguments.body, arguments.queues)
        print(f"wrote {count:,} records", file=sys.stderr)
    found = compare(store, arguments.runs, peers)
    # Not what the files have: the last one is a hole after its records.
    size = int(arguments.gib * (1 << 30))
    count = int(found[peers[0]]["reput"][0]["messages"])
    title = f"{count:,} messages, {arguments.gib:g} GiB, {size // max(count, 1)} bytes each"
    report(title, found)
    if arguments.json:
        arguments.json.write_text(json.dumps({"title": title, "peers": found}))


if __name__ == "__main__":
    main()
