"""The process that runs one target's batches: it may die, and tells by a shared page how far it is.

`python -m tests.fuzz.worker` is started by `tests.fuzz.run`, not by people.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fuzz import corpus, targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fuzz.target import Target

# Batch under way, cases done, when it began (monotonic seconds), failures.
STATE = struct.Struct("<qqdq")
_SIGNATURE_FRAMES = 2
_ROOT = Path(__file__).parent.parent.parent
_KEPT_PER_SIGNATURE = 2
_SAVE_SECONDS = 0.5
_PR_SET_PDEATHSIG = 1
# The worker may be killed by what comes next.
_SAVED_AT_ONCE = 100


class Outcome:
    """Verdicts and failures of a worker, saved now and then for the runner to read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.verdicts: Counter[str] = Counter()
        self.failures: dict[str, dict[str, Any]] = {}
        self._saved_at = 0.0

    def fail(self, seed: str, error: BaseException) -> bool:
        """Count a failure; tell whether its case is worth keeping."""
        signature = signature_of(error)
        found = self.failures.setdefault(
            signature, {"count": 0, "seeds": [], "message": f"{error!r:.600}"}
        )
        found["count"] += 1
        if len(found["seeds"]) < _KEPT_PER_SIGNATURE:
            found["seeds"].append(seed)
            found.setdefault("traceback", "".join(traceback.format_exception(error))[-4000:])
            return True
        return False

    def save(self, *, force: bool = False) -> None:
        """Write everything down."""
        if not force and time.monotonic() - self._saved_at < _SAVE_SECONDS:
            return
        self._saved_at = time.monotonic()
        text = json.dumps({"verdicts": self.verdicts, "failures": self.failures})
        made = self.path.with_suffix(".new")
        made.write_text(text, "utf-8")
        made.replace(self.path)


def signature_of(error: BaseException) -> str:
    """Return what makes two failures the same one: the error's type and its last places."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(_ROOT) and "site-packages" not in frame.filename
    ]
    places = [f"{Path(f.filename).name}:{f.lineno}" for f in frames[-_SIGNATURE_FRAMES:]]
    return f"{type(error).__name__} {' < '.join(reversed(places))}"


def run_batch(target: Target, seed: str) -> list[str]:
    """Make and check the batch of a seed."""
    return target.check(target.make(corpus.source(seed)))


def _limit_memory(megabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if megabytes:
        # What is mapped by libraries comes on top: gigabytes that are never touched.
        mapped = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * mmap.PAGESIZE
        limit = mapped + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _batches(order: dict[str, Any]) -> Iterator[int]:
    number: int = order["first"]
    while True:
        yield number
        number += 1


def work(order: dict[str, Any]) -> None:
    """Run batches until enough cases are done.

    Args:
        order: what the runner wants: target, seed, first batch, cases, time, where to write.
    """
    name, seed = order["target"], order["seed"]
    scratch = Path(order["scratch"])
    from tests.fuzz import guard, target_stores

    guard.install()
    target_stores.without_waiting()
    target = targets.load(name)
    # Compiled and warm before the clock and the limits are on.
    for number in range(2):
        # If it fails it will fail again where it counts.
        with contextlib.suppress(Exception):
            run_batch(target, targets.seed_of(seed, f"{name}-warm", number))
    _limit_memory(order["memory"])
    outcome = Outcome(scratch / "outcome.json")
    cases = order["done"]
    failures = 0
    with (scratch / "state").open("r+b") as file, mmap.mmap(file.fileno(), STATE.size) as state:
        for number in _batches(order):
            if cases >= order["cases"] or time.time() >= order["until"]:
                break
            label = targets.seed_of(seed, name, number)
            state[:] = STATE.pack(number, cases, time.monotonic(), failures)
            batch = target.make(corpus.source(label))
            failed = False
            try:
                verdicts = target.check(batch)
                cases += len(verdicts)
                outcome.verdicts.update(verdicts)
            except Exception as error:  # noqa: BLE001 - this is what we look for
                failed = True
                failures += 1
                cases += 1
                if outcome.fail(label, error):
                    target.keep(batch, Path(order["keep"]) / label.replace("/", "-"))
            outcome.save(force=failed and failures < _SAVED_AT_ONCE)
        state[:] = STATE.pack(-1, cases, time.monotonic(), failures)
    outcome.save(force=True)


def _end_with_the_runner() -> None:
    """Let the kernel kill this process when the runner dies, however it does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    faulthandler.enable()
    _end_with_the_runner()
    work(json.loads(sys.argv[1]))
    # Threads of an abandoned pipeline shall not hold us up.
    sys.stdout.flush()
    os._exit(0)
