"""Two states of this project on one log, in turn: rebuild, a start after a kill, two queries.

    git worktree add ../before COMMIT
    python -m benchmarks.paired --other ../before --gib 2 --pairs 16 [--directory DIR] [--json FILE]

Every second pair begins with the other state. A rebuild is the dispatch core in this process's
Python, without Spark, after a small one that loads the kernels. For a start the log is dispatched,
the process ends without closing, all log files get new times, so that they are read again, and the
output is opened. The queries are the command `reput query`, from its start to its end, by key and
by physical offset. Figures are medians; the ratio is the median of the pairs' own ratios, this
state to the other one. Without --other, this state is compared with itself: what is noise.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.logs import write_log  # noqa: E402
from reput.formats.rocketmq import commitlog  # noqa: E402

# The other state may not have this module: what it runs comes as text, and uses what both have.
_COMMON = """
import os, sys, time
from pathlib import Path
if Path("reput").is_dir():
    from reput.stores.log.tail import find_tail
    from reput.streaming.settings.config import store_config
    from reput.streaming.dispatch.dispatcher import StoreDispatcher, rebuild
else:  # a state before there was one import name
    from stores.tail import find_tail
    from streaming.config import store_config
    from streaming.dispatcher import StoreDispatcher, rebuild

small, log, output = map(Path, sys.argv[1:])
rebuild(small, output / "small", broker_version="5.5", broker_conf={})
"""
_REBUILD = """
began = time.perf_counter()
rebuild(log, output / "log", broker_version="5.5", broker_conf={})
print(time.perf_counter() - began)
"""
_DIE = """
dispatcher = StoreDispatcher(store_config(log, output / "log", broker_version="5.5"))
dispatcher.dispatch(find_tail(dispatcher.log).end)
dispatcher.flush()
os._exit(0)
"""
_START = """
StoreDispatcher(store_config(small, output / "small", broker_version="5.5")).close()
config = store_config(log, output / "log", broker_version="5.5")
began = time.perf_counter()
dispatcher = StoreDispatcher(config)
print(time.perf_counter() - began)
dispatcher.close()
"""
_SMALL_BYTES = 1 << 20


def _python(tree: Path, *words: str) -> str:
    """Run Python with the packages of one state; return what it printed."""
    done = subprocess.run(
        [sys.executable, *words], cwd=tree, check=False,
        env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{tree}: {done.stderr[-2000:]}")
    return done.stdout


def _run(tree: Path, program: str, *paths: Path) -> float:
    """Run a program with the packages of one state; return the seconds that it printed."""
    return float(_python(tree, "-c", _COMMON + program, *map(str, paths)) or "nan")


def _ask(tree: Path, log: Path, output: Path, *words: str) -> float:
    """Return the seconds that `reput query` takes, from its start to its end."""
    package = "reput" if (tree / "reput").is_dir() else "streaming"
    where = ("--store", str(log), "--output", str(output / "log"), "--broker-version", "5.5")
    began = time.perf_counter()
    _python(tree, "-m", package, "query", *words, *where)
    return time.perf_counter() - began


def measure(tree: Path, small: Path, log: Path, work: Path) -> dict[str, float]:
    """Return the seconds of a rebuild, of queries, and of a start after a kill."""
    shutil.rmtree(work, ignore_errors=True)
    rebuilt = _run(tree, _REBUILD, small, log, work)
    topic, key = _first_key(log)
    by_key = _ask(tree, log, work, "key", key, "--topic", topic)
    by_place = _ask(tree, log, work, "offset", "0", "--physical")
    shutil.rmtree(work)
    _run(tree, _DIE, small, log, work)
    shutil.rmtree(work / "small")
    for path in (log / "commitlog").iterdir():
        os.utime(path)
    started = _run(tree, _START, small, log, work)
    shutil.rmtree(work)
    return {
        "rebuild": rebuilt,
        "query key": by_key,
        "query offset": by_place,
        "start after a kill": started,
    }


def _first_key(log: Path) -> tuple[str, str]:
    """Return the topic and a key of a log's first record."""
    first = min((log / "commitlog").iterdir())
    with first.open("rb") as file:
        data = file.read(1 << 20)
    _, record = commitlog.read(data, 0, 0, len(data))
    return record.topic, record.properties["KEYS"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, default=ROOT, help="a checkout (this one)")
    parser.add_argument("--gib", type=float, default=2.0, help="of log (2)")
    parser.add_argument("--body", type=int, default=100, help="bytes on average (100)")
    parser.add_argument("--pairs", type=int, default=16, help="of runs (16)")
    parser.add_argument("--directory", type=Path, default=ROOT / "work" / "bench")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    directory = arguments.directory
    log, small = directory / f"{arguments.gib:g}gib-{arguments.body}b-128q", directory / "small"
    for store, size in ((small, _SMALL_BYTES), (log, int(arguments.gib * (1 << 30)))):
        if not store.is_dir():
            write_log(store / "commitlog", size, arguments.body)
    trees = {"this": ROOT, "other": arguments.other.resolve()}
    pairs: list[dict[str, dict[str, float]]] = []
    for number in range(arguments.pairs):
        order = list(trees)[:: 1 if number % 2 == 0 else -1]
        pairs.append({n: measure(trees[n], small, log, directory / "output") for n in order})
        print(number + 1, pairs[-1], file=sys.stderr, flush=True)
    print(f"{arguments.gib:g} GiB, load average {os.getloadavg()[0]:.2f}, {len(pairs)} pairs")
    print(f"{'seconds':24} {'this':>8} {'other':>8} {'ratio':>8}")
    for kind in pairs[0]["this"]:
        medians = [statistics.median(pair[side][kind] for pair in pairs) for side in trees]
        ratio = statistics.median(pair["this"][kind] / pair["other"][kind] for pair in pairs)
        print(f"{kind:24} {medians[0]:8.3f} {medians[1]:8.3f} {ratio:8.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(pairs))


if __name__ == "__main__":
    main()
