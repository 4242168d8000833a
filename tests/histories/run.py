"""Random histories of logs, brokers and outputs: what follows any log ends in the same bytes.

    python -m tests.histories.run --histories 1000 --seed 1
    python -m tests.histories.run --real 5.5.0 --histories 300 --seed 1
    python -m tests.histories.run --seed 1 --history 17
    python -m tests.histories.run --steps FILE

A broker is modelled, or the real store classes of a version play it. Each history has random steps
(`tests/histories/steps.py` has their notation, `world.py` what they do), and after each of them
output, queries and stream are compared with what the log says. A history that fails is made as
short as it can be, and printed; it can be kept in tests/histories/test_kept.py.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.histories import generate
from tests.histories.points import POINTS
from tests.histories.real import BrokerError, Jvm
from tests.histories.shrink import shrink
from tests.histories.steps import Step, parse_history, show
from tests.histories.world import HistoryError, Outcome, carry_out
from tests.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Histories that one JVM serves: its stores leave threads and buffers behind.
_SERVED = 150
_CHUNK = 50
_REAL_CHUNK = 25
# In a long run each of these has to come up.
KINDS = frozenset(
    [
        "start",
        "stop",
        "crash",
        "put",
        "poison",
        "clock",
        "truncate",
        "tear",
        "expire",
        "ahead",
        "open",
        "close",
        "flush",
        "kill",
        "pause",
        "lose",
        "keep",
        "stream",
    ]
)
_NOT_REAL = {"ahead"}
_LONG = 1000


@dataclass(frozen=True)
class Failure:
    """A history that fails, and the shortest one that fails in the same way."""

    seed: int
    number: int
    kind: str
    text: str
    steps: list[Step]
    at: int

    def __str__(self) -> str:
        head = f"seed {self.seed}, history {self.number}: {self.text}"
        return f"{head}\n{_indented(show(self.steps))}"


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


@dataclass
class Result:
    """What a run had in it."""

    histories: int = 0
    outcome: Outcome = field(default_factory=Outcome)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Result) -> None:
        """Add a part of the run."""
        self.histories += other.histories
        self.outcome.add(other.outcome)
        self.failures += other.failures

    def missing(self, *, is_real: bool) -> set[str]:
        """Return the kinds of steps that never came up."""
        return set(KINDS - (_NOT_REAL if is_real else set()) - self.outcome.steps.keys())

    def __str__(self) -> str:
        parts = [f"{self.histories} histories, {sum(self.outcome.steps.values()):,} steps"]
        for name in ("steps", "checks", "events"):
            counts: Counter[str] = getattr(self.outcome, name)
            words = (f"{count:,} {kind}" for kind, count in counts.most_common())
            parts.append(f"{name}: {', '.join(words) or 'none'}")
        kinds = Counter(failure.kind for failure in self.failures)
        parts.append(f"{len(self.failures)} failed {dict(kinds) or ''} ({self.seconds:.0f} s)")
        return "\n".join(parts)


class Brokers:
    """JVMs by version, begun again now and then."""

    def __init__(self) -> None:
        self._jvms: dict[str, tuple[Jvm, int]] = {}

    def of(self, version: str) -> Jvm:
        """Return the JVM that plays a version's broker."""
        jvm, served = self._jvms.pop(version, (None, 0))
        if jvm is not None and served >= _SERVED:
            jvm.close()
            jvm = None
        if jvm is None:
            jvm, served = Jvm(version), 0
        self._jvms[version] = (jvm, served + 1)
        return jvm

    def forget(self, version: str) -> None:
        """Take another JVM the next time: this one is in no good state."""
        jvm, _ = self._jvms.pop(version)
        with contextlib.suppress(Exception):
            jvm.close()

    def close(self) -> None:
        """End all."""
        for jvm, _ in self._jvms.values():
            jvm.close()
        self._jvms = {}


def attempt(
    history: Sequence[Step], root: Path, brokers: Brokers, version: str
) -> tuple[Outcome, HistoryError | None, int]:
    """Carry out a history; what goes wrong in any other way is a failure as well."""
    try:
        return carry_out(history, root, brokers.of(version) if version else None)
    except BrokerError as error:
        brokers.forget(version)
        return Outcome(), HistoryError("broker", str(error)), 0
    except Exception as error:  # noqa: BLE001 - one history's failure must not end the run
        if version:
            brokers.forget(version)
        frames = traceback.format_exception(error)
        return Outcome(), HistoryError(f"crash {type(error).__name__}", "".join(frames)[-2000:]), 0


def run_part(seed: int, numbers: Sequence[int], version: str, *, shrinks: bool = True) -> Result:
    """Carry out some histories of a seed, one after the other, in this process."""
    result = Result()
    brokers = Brokers()
    with _scratch() as root, POINTS.installed(), _quiet():
        try:
            for number in numbers:
                history = generate.history(seed, number, is_real=bool(version))
                outcome, failure, at = attempt(history, root / "w", brokers, version)
                result.histories += 1
                result.outcome.add(outcome)
                if failure is None:
                    continue
                text, short = str(failure), history
                if shrinks:
                    short, text = _shortest(history, failure, root, brokers, version)
                result.failures.append(Failure(seed, number, failure.kind, text, short, at))
        finally:
            brokers.close()
    return result


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Make the log say nothing: each stream that is told of a loss says so."""
    log = logging.getLogger("reput")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _shortest(
    history: list[Step], failure: HistoryError, root: Path, brokers: Brokers, version: str
) -> tuple[list[Step], str]:
    texts = {show(history): str(failure)}

    def fails(candidate: list[Step]) -> bool:
        _, found, _ = attempt(candidate, root / "w", brokers, version)
        if found is None or found.kind != failure.kind:
            return False
        texts[show(candidate)] = str(found)
        return True

    short = shrink(history, fails, 100 if version else 300)
    return short, texts[show(short)]


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """Yield a directory in memory, where there is one: thousands of stores are made in it."""
    memory = Path("/dev/shm")
    parent = str(memory) if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="histories-", dir=parent) as name:
        yield Path(name)


def run(  # noqa: C901 - one loop over histories, with what ends it
    seed: int,
    numbers: Sequence[int],
    version: str = "",
    *,
    workers: int = 1,
    shrinks: bool = True,
    most: int = 20,
) -> Result:
    """Carry out histories of a seed.

    Args:
        seed: decides all of them.
        numbers: which.
        version: whose real classes play the broker; the model if empty.
        workers: processes.
        shrinks: failures are made short.
        most: failures, before the run ends early.
    """
    began = time.monotonic()
    result = Result()
    size = _REAL_CHUNK if version else _CHUNK
    if workers == 1:
        size = len(numbers) or 1
    parts = [numbers[i : i + size] for i in range(0, len(numbers), size)]
    if version:
        oracle.build(version)
    if workers == 1:
        for part in parts:
            result.add(run_part(seed, part, version, shrinks=shrinks))
    else:
        with ProcessPoolExecutor(workers) as pool:
            futures = [
                pool.submit(run_part, seed, part, version, shrinks=shrinks) for part in parts
            ]
            for done, future in enumerate(futures):
                if future.cancelled():
                    continue
                part_result = future.result()
                result.add(part_result)
                for failure in part_result.failures:
                    print(failure, flush=True)
                if (done + 1) % 20 == 0:
                    print(
                        f"… {result.histories:,} histories, {len(result.failures)} failed, "
                        f"{time.monotonic() - began:.0f} s",
                        flush=True,
                    )
                if len(result.failures) >= most:
                    for waiting in futures:
                        waiting.cancel()
                    break
    result.seconds = time.monotonic() - began
    return result


def main() -> int:
    """Run; the exit code says whether anything failed, or never came up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first history")
    parser.add_argument("--history", type=int, help="only this one")
    parser.add_argument("--steps", type=Path, help="a file of steps, instead of random ones")
    parser.add_argument("--real", default="", choices=("", *oracle.VERSIONS), metavar="VERSION")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--most", type=int, default=20, help="failures that end the run")
    parser.add_argument("--no-shrink", action="store_true")
    args = parser.parse_args()
    if args.steps is not None:
        return _replay(parse_history(args.steps.read_text("utf-8")), args.real)
    numbers = range(args.first, args.first + args.histories)
    if args.history is not None:
        numbers = range(args.history, args.history + 1)
        print(show(generate.history(args.seed, args.history, is_real=bool(args.real))))
    result = run(
        args.seed,
        numbers,
        args.real,
        workers=args.workers,
        shrinks=not args.no_shrink,
        most=args.most,
    )
    if args.workers == 1:
        for failure in result.failures:
            print(failure)
    broker = f"real {args.real}" if args.real else "modelled"
    print(f"seed {args.seed}, broker {broker}: {result}")
    missing = result.missing(is_real=bool(args.real)) if result.histories >= _LONG else set()
    if missing:
        print(f"never came up: {', '.join(sorted(missing))}")
    return 1 if result.failures or missing else 0


def _replay(history: list[Step], version: str) -> int:
    brokers = Brokers()
    with _scratch() as root, POINTS.installed():
        try:
            outcome, failure, at = attempt(history, root / "w", brokers, version)
        finally:
            brokers.close()
    print(outcome)
    print(f"failed after step {at}: {failure}" if failure else "all holds")
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
