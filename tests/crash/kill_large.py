"""Kills the dispatch core among files of their real size, where other threads work ahead of it.

    python -m tests.crash.kill_large --kills 100 --seed 1 [--mib 200] [--directory DIR]

Files of a few records, as `kill_core` has them, are prepared at once and flushed in a moment. In
those of a broker's default size pages are prepared by another thread, and the device begins with what
is flushed later. A child dispatches a log, flushing all the time, and is killed at a random moment;
the next one continues, until one comes to the end. Its files have to be an uninterrupted run's.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

from benchmarks.logs import write_log
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.config import FlushPolicy, store_config
from tests.oracle import compare

_STEP = 16 << 20
# As often as it can be: a killed writer loses little, and most moments are within a flush.
_POLICY = FlushPolicy(seconds=0.02, thorough_seconds=0.05)
_MOST_TRIES = 8


class Result(NamedTuple):
    """What was done, and what differed.

    Attributes:
        kills: children that were killed before they had ended.
        outputs: compared.
        differences: what the first output that was wrong has otherwise.
    """

    kills: int
    outputs: int
    differences: list[str]


def dispatch(store: Path, output: Path, end: int) -> None:
    """Dispatch a log to its end, from where the output stands."""
    dispatcher = StoreDispatcher(store_config(store, output), flush=_POLICY)
    try:
        at = max(dispatcher.progress.end, 0)
        while at < end:
            at = min(at + _STEP, end)
            dispatcher.dispatch(at)
    finally:
        dispatcher.close()


def _has_ended(store: Path, output: Path, end: int, seconds: float | None) -> bool:
    """Make a child dispatch, and kill it after a while; tell whether it had come to the end."""
    child = os.fork()
    if child == 0:
        try:
            dispatch(store, output, end)
        except BaseException:  # noqa: BLE001 - a child says what it is and ends, whatever it is
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    if status != 0:
        raise RuntimeError(f"{output}: a writer failed")
    return True


def run(kills: int, seed: int, directory: Path, mib: int = 200) -> Result:
    """Kill this often; stop at the first output that is not what it has to be."""
    store, expected = directory / "store", directory / "expected"
    write_log(store / "commitlog", mib << 20, 90)
    config = store_config(store, expected)
    log = CommitLog(commitlog_directories(store, config.settings), config.settings)
    end = find_tail(log).end
    log.close()
    began = time.monotonic()
    dispatch(store, expected, end)
    seconds = time.monotonic() - began
    pick = random.Random(seed)
    killed = outputs = 0
    while killed < kills:
        output = directory / f"output-{outputs}"
        for _ in range(_MOST_TRIES):
            if _has_ended(store, output, end, pick.uniform(0, seconds)):
                break
            killed += 1
        else:
            _has_ended(store, output, end, None)
        outputs += 1
        differences = compare.differences(expected, output)
        if differences:
            return Result(killed, outputs, differences)
        _remove(output)
    return Result(killed, outputs, [])


def _remove(directory: Path) -> None:
    """Remove what is as it has to be."""
    shutil.rmtree(directory)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mib", type=int, default=200, help="of log")
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="kill-large-", dir=arguments.directory))
    result = run(arguments.kills, arguments.seed, work, arguments.mib)
    print(f"{result.kills} kills, {result.outputs} outputs, "
          f"{len(result.differences)} differences, seed {arguments.seed}")  # fmt: skip
    for line in result.differences:
        print(line)
    if result.differences:
        print(f"kept: {work}")
        return 1
    _remove(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
