"""Runs the fuzz targets, each in a process of its own, and reports what they found.

`python -m tests.fuzz.run --cases 1000000 --seed 1` is a long run. `--target NAME` runs one,
`--replay TARGET/SEED/NUMBER` runs one batch in this process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.fuzz import corpus, targets
from tests.fuzz.worker import STATE, run_batch

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_SECONDS = 0.05
# Compiling and making the corpus, on a busy machine.
_START_SECONDS = 300.0
_ROOT = Path(__file__).parent.parent.parent
_MOST_DEATHS = 20
_SHOWN_VERDICTS = 6


@dataclass
class Result:
    """What a target gave."""

    target: str
    cases: int = 0
    seconds: float = 0.0
    verdicts: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def take(self, outcome: dict[str, Any]) -> None:
        """Add what a worker has written down."""
        for verdict, count in outcome["verdicts"].items():
            self.verdicts[verdict] = self.verdicts.get(verdict, 0) + count
        for signature, found in outcome["failures"].items():
            self.failures.append({"signature": signature, **found})


@dataclass
class Options:
    """What a run is asked for.

    `memory` is in MiB: of address space beyond what is mapped at the start, and of resident memory
    beyond that of a worker that has just begun.
    """

    seed: int = 1
    memory: int = 2048
    keep: Path = Path("fuzz-failures")
    seconds: float = 0.0
    scratch: Path | None = None


class Run:
    """One target's run: workers one after another, as often as one dies."""

    def __init__(self, name: str, cases: int, options: Options) -> None:
        self.name = name
        self.cases = cases
        self.options = options
        self.result = Result(name)

    def run(self, observe: Callable[[int], None]) -> Result:
        """Run until all cases are done; `observe` is told how many are."""
        began = time.monotonic()
        until = time.time() + self.options.seconds if self.options.seconds else 1e18
        with tempfile.TemporaryDirectory(dir=self.options.scratch) as directory:
            first, deaths = 0, 0
            while self.result.cases < self.cases and deaths < _MOST_DEATHS:
                # Named again each time: a killed worker leaves its files behind.
                scratch = Path(directory) / uuid.uuid4().hex
                scratch.mkdir()
                number, why = self._work(scratch, first, until, observe)
                if why is None:
                    break
                deaths += 1
                first = number + 1
                self.result.cases += 1
                self._died(number, why, scratch)
        self.result.seconds = round(time.monotonic() - began, 1)
        return self.result

    def _work(
        self, scratch: Path, first: int, until: float, observe: Callable[[int], None]
    ) -> tuple[int, str | None]:
        """Run one worker; return the batch that it ended in, and how it died if it did."""
        order = {
            "target": self.name,
            "seed": self.options.seed,
            "first": first,
            "done": self.result.cases,
            "cases": self.cases,
            "until": until,
            "memory": self.options.memory,
            "scratch": str(scratch),
            "keep": str(self.options.keep.resolve()),
        }
        (scratch / "state").write_bytes(STATE.pack(-1, self.result.cases, 0.0, 0))
        environment = {**os.environ, "TMPDIR": str(scratch)}
        command = [sys.executable, "-m", "tests.fuzz.worker", json.dumps(order)]
        with (scratch / "output").open("wb") as output:
            worker = subprocess.Popen(
                command, cwd=_ROOT, env=environment, stdout=output, stderr=output
            )
            try:
                why = self._watch(worker, scratch, observe)
            finally:
                worker.kill()
                worker.wait()
        with contextlib.suppress(FileNotFoundError):
            self.result.take(json.loads((scratch / "outcome.json").read_text("utf-8")))
        number, cases, _, _ = STATE.unpack((scratch / "state").read_bytes())
        self.result.cases = cases
        observe(cases)
        return number, why

    def _watch(
        self, worker: subprocess.Popen[bytes], scratch: Path, observe: Callable[[int], None]
    ) -> str | None:
        """Wait for a worker's end; return how it died, None if it did not."""
        limit = targets.TARGETS[self.name].seconds
        begun = time.monotonic()
        resident = 0
        with (scratch / "state").open("rb") as file:
            state = mmap.mmap(file.fileno(), STATE.size, access=mmap.ACCESS_READ)
            while worker.poll() is None:
                time.sleep(_POLL_SECONDS)
                number, cases, since, _ = STATE.unpack(state[:])
                observe(cases)
                is_started = since > 0.0
                waited = time.monotonic() - (since if is_started else begun)
                if waited > (limit if is_started else _START_SECONDS) and number >= -1:
                    # Has it say where it stands.
                    worker.send_signal(signal.SIGABRT)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        worker.wait(5)
                    return f"no end within {limit:.0f} s"
                used = _resident(worker.pid)
                resident = resident or (used if is_started else 0)
                if resident and used > resident + (self.options.memory << 20):
                    return f"{used >> 20} MiB of memory, {resident >> 20} at its start"
        code = worker.returncode
        if code == 0:
            return None
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def _died(self, number: int, why: str, scratch: Path) -> None:
        """Write the batch down that a worker died in: made again, not run again."""
        seed = targets.seed_of(self.options.seed, self.name, number)
        output = (scratch / "output").read_text("utf-8", "replace")[-4000:]
        self.result.failures.append(
            {"signature": why, "count": 1, "seeds": [seed], "message": why, "traceback": output}
        )
        if number >= 0:
            # A target that dies of its own making cannot make it again.
            with contextlib.suppress(Exception):
                target = targets.load(self.name)
                kept = self.options.keep / seed.replace("/", "-")
                target.keep(target.make(corpus.source(seed)), kept)


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1]) * mmap.PAGESIZE
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return 0


def shares(cases: int, names: list[str]) -> dict[str, int]:
    """Return how many cases each target gets; one alone gets all."""
    total = max(sum(targets.TARGETS[name].share for name in names), 1)
    return {name: -(-cases * targets.TARGETS[name].share // total) for name in names}


def run_all(cases: dict[str, int], options: Options, console: Console) -> list[Result]:
    """Run targets one after another, with a bar each on a terminal."""
    results = []
    columns = (
        TextColumn("{task.description:12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        for name, count in cases.items():
            bar = bars.add_task(name, total=count)

            def observe(done: int, bar: Any = bar) -> None:
                bars.update(bar, completed=done)

            results.append(Run(name, count, options).run(observe))
    return results


def table_of(results: list[Result]) -> Table:
    """Return the results as a table."""
    table = Table("target", "cases", "seconds", "verdicts", "failures")
    for result in results:
        counts = sorted(result.verdicts.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{name} {count:,}" for name, count in counts[:_SHOWN_VERDICTS])
        more = f", {len(counts) - _SHOWN_VERDICTS} more" if len(counts) > _SHOWN_VERDICTS else ""
        failed = sum(failure["count"] for failure in result.failures)
        table.add_row(
            result.target, f"{result.cases:,}", f"{result.seconds:.1f}", shown + more, str(failed)
        )
    total = sum(result.cases for result in results)
    table.add_section()
    table.add_row("all", f"{total:,}", f"{sum(result.seconds for result in results):.1f}", "", "")
    return table


def replay(label: str) -> int:
    """Run one batch in this process, as a debugger likes it."""
    from tests.fuzz import guard

    name = label.split("/", 1)[0]
    guard.install()
    print("\n".join(run_batch(targets.load(name), label)))
    return 0


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000, help="of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append", choices=sorted(targets.TARGETS))
    parser.add_argument("--seconds", type=float, default=0.0, help="of each target, at most")
    parser.add_argument("--memory", type=int, default=2048, help="MiB that a worker may take")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="for failed cases")
    parser.add_argument("--scratch", type=Path, help="for the stores that are written")
    parser.add_argument("--replay", metavar="TARGET/SEED/NUMBER")
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    if wanted.replay:
        return replay(wanted.replay)
    options = Options(wanted.seed, wanted.memory, wanted.keep, wanted.seconds, wanted.scratch)
    cases = shares(wanted.cases, wanted.target or list(targets.NAMES))
    console = Console(stderr=wanted.json)
    results = run_all(cases, options, console)
    if wanted.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        console.print(table_of(results))
        for result in results:
            for failure in result.failures:
                console.rule(f"{result.target}: {failure['signature']}")
                console.print(f"{failure['count']} times, seeds {', '.join(failure['seeds'])}")
                console.print(failure.get("traceback", failure["message"]), markup=False)
    return 1 if any(result.failures for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
