"""Kills the dispatch core thousands of times, and compares what it leaves with an uninterrupted run.

    python -m tests.crash.kill_core --kills 10000 --seed 1

A cycle: a child is forked from this process, which has all kernels loaded, opens the output of a
store whose log grows meanwhile, and dispatches. Half of the children are killed from outside at a
random time. The others kill themselves at a named point: before or after one operation on files,
or with a part of it done; which one is drawn from all that were seen so far, each phase and
operation as likely as the other, so that rare ones come as often as frequent ones. When a store's
log is whole, and now and then before, a child may stop in order, and the output is compared byte for
byte with a rebuild elsewhere, and with the real RocketMQ's own rebuild.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from reput.formats.errors import FormatError
from reput.stores.log.tail import find_tail
from reput.streaming.settings.config import FlushPolicy
from tests.crash.kill_points import (
    AFTER,
    BEFORE,
    BREAKS,
    OPERATIONS,
    PHASES,
    WITHIN,
    Board,
    Instruments,
    Point,
)
from tests.crash.kill_stores import (
    Case,
    HarnessError,
    Material,
    is_half_written,
    oracle_material,
    own_material,
    warm_up,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_RANDOM = "(random time)"
_HANG_SECONDS = 60.0
_MOST_ORDINALS = 12


def _child(case: Case, policy: FlushPolicy, instruments: Instruments, board: Board) -> NoReturn:
    """Dispatch until told to stop or killed; exit code 0 if stopped in order."""
    code = 3
    try:
        instruments.install()
        dispatcher = case.open(policy)
        while True:
            stops = board.stops
            board.phase = PHASES.index("dispatch")
            try:
                dispatcher.dispatch(find_tail(dispatcher.log).end)
            except FormatError as error:
                if not is_half_written(error):
                    raise
                break
            if stops:
                break
        board.phase = PHASES.index("close")
        dispatcher.close()
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent shows it
        (case.directory / "error.txt").write_text(traceback.format_exc())
    finally:
        os._exit(code)


@dataclass
class Result:
    """What a run did.

    Attributes:
        kills: by phase, operation and moment; random ones by phase.
        stores: that were finished.
        comparisons: with an uninterrupted run or the broker's rebuild.
        with_broker: of these, with the broker's.
        stops: children that stopped in order.
        cuts: times that a log was cut and written again.
        seconds: wall time of the loop.
        failure: what was wrong, "" for nothing; the loop ended at it.
        kept: the store and output of it.
    """

    kills: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    stores: int = 0
    comparisons: int = 0
    with_broker: int = 0
    stops: int = 0
    cuts: int = 0
    seconds: float = 0.0
    failure: str = ""
    kept: str = ""

    @property
    def killed(self) -> int:
        return self.kills.total()


class Loop:
    """Goes from store to store until that many children were killed."""

    def __init__(self, kills: int, seed: int, directory: Path, seconds: float) -> None:
        self._wanted = kills
        self._end = time.monotonic() + seconds
        self._pick = random.Random(seed)
        self._directory = directory
        self._board = Board()
        self._seen: dict[tuple[int, int], int] = {}
        self._cycle_seconds = 0.03
        self.result = Result()

    def run(self, materials: Iterator[Material]) -> Result:
        """Kill and compare.

        Args:
            materials: stores; taken one after another.
        """
        began = time.monotonic()
        gc.collect()
        gc.freeze()
        number = 0
        while self.result.killed < self._wanted and time.monotonic() < self._end:
            number += 1
            material = next(materials)
            case = Case(material, self._directory / f"case-{number}", self._pick)
            try:
                self._finish(case)
            except HarnessError as error:
                self.result.failure = f"{material.name}: {error}"
                self.result.kept = str(case.directory)
                shutil.copytree(material.store, case.directory / "material", dirs_exist_ok=True)
                break
            finally:
                case.appender.close()
            self.result.stores += 1
            shutil.rmtree(case.directory)
        self.result.seconds = time.monotonic() - began
        return self.result

    def _finish(self, case: Case) -> None:
        """Kill a store's dispatch again and again until its log is whole, then compare."""
        pick, result = self._pick, self.result
        # A first child that nobody kills shows which operations there are.
        self._cycle(case, None, steps=0, has_to_stop=True)
        while True:
            is_over = case.appender.is_done and pick.random() < 0.1
            if is_over and not case.go_on():
                break
            if is_over:
                result.cuts += 1
            stopped = self._cycle(case, self._draw(), steps=pick.randint(0, 30))
            if stopped and pick.random() < 0.3:
                result.comparisons += case.check(is_final=False)
        self._cycle(case, None, steps=0, has_to_stop=True)
        compared = case.check(is_final=True)
        result.comparisons += compared
        result.with_broker += compared - 1

    def _draw(self) -> Point | None:
        """Return where the next child dies; None: at a random time."""
        pick, kills = self._pick, self.result.kills
        # Not every cycle comes to its point; of those that do, as many as die at a random time.
        at_random = sum(count for (_, name, _), count in kills.items() if name == _RANDOM)
        if at_random < self.result.killed - at_random or not self._seen:
            return None
        phase, operation = pick.choice(sorted(self._seen))
        moments = [BEFORE, AFTER, *([WITHIN] * (OPERATIONS[operation].part is not None))]
        # The first ones rather: others do not come up in every cycle.
        most = pick.randint(1, min(self._seen[phase, operation], _MOST_ORDINALS))
        ordinal = pick.randint(1, most)
        return Point(phase, operation, pick.choice(moments), ordinal)

    def _policy(self) -> FlushPolicy:
        """Return when the next child records its progress: after each batch, or rarely."""
        pick = self._pick
        return FlushPolicy(
            seconds=pick.choice((0.0, 0.002, 1.0)),
            least_pages=pick.choice((0, 1)),
            thorough_seconds=pick.choice((0.0, 0.005, 0.02, 0.05)),
            is_sync=pick.random() < 0.3,
        )

    def _cycle(
        self, case: Case, point: Point | None, *, steps: int, has_to_stop: bool = False
    ) -> bool:
        """Fork a child and see it die; tell whether it stopped in order instead.

        Args:
            case: the store.
            point: where it dies.
            steps: what the appender does while it lives, at most.
            has_to_stop: leave it alone.

        Raises:
            HarnessError: it ended with an error, or not at all.
        """
        pick, board = self._pick, self._board
        board.clear()
        board.stops = has_to_stop
        if not has_to_stop:
            for _ in range(pick.randint(0, 2)):
                case.appender.step()
        policy, seed = self._policy(), pick.getrandbits(32)
        child = os.fork()
        if child == 0:
            _child(case, policy, Instruments(board, point, random.Random(seed)), board)
        kills_at = None
        if point is None and not has_to_stop:
            kills_at = time.monotonic() + pick.uniform(0, 2 * self._cycle_seconds)
        status = self._attend(child, case, kills_at, steps)
        return self._judge(case, point, status, has_to_stop=has_to_stop)

    def _attend(self, child: int, case: Case, kills_at: float | None, steps: int) -> int:
        """Append while a child lives, kill it when it is time; return how it ended."""
        began = time.monotonic()
        left = steps
        while True:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                return status
            now = time.monotonic()
            if now > began + _HANG_SECONDS:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise HarnessError(f"a child did not end within {_HANG_SECONDS} s")
            if kills_at is not None and now >= kills_at:
                os.kill(child, signal.SIGKILL)
                return os.waitpid(child, 0)[1]
            if left:
                case.appender.step()
                left -= 1
            elif kills_at is None:
                self._board.stops = True
            time.sleep(0.0015)

    def _judge(self, case: Case, point: Point | None, status: int, *, has_to_stop: bool) -> bool:
        for phase, operation in np.argwhere(self._board.counts).tolist():
            count = int(self._board.counts[phase, operation])
            known = self._seen.get((phase, operation), 0)
            self._seen[phase, operation] = max(count, known)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and not has_to_stop:
            if point is None:
                self.result.kills[PHASES[self._board.phase], _RANDOM, ""] += 1
            else:
                self.result.kills[(*point.label, point.moment)] += 1
            return False
        if status != 0:
            shown = case.directory / "error.txt"
            text = shown.read_text() if shown.exists() else f"wait status {status}"
            raise HarnessError(f"a child ended with an error:\n{text}")
        self.result.stops += 1
        return True


def run(
    kills: int,
    seed: int,
    directory: Path,
    *,
    fuzz: int = 0,
    broken: str = "",
    cuts: bool = True,
    seconds: float = math.inf,
) -> Result:
    """Run the loop.

    Args:
        kills: of children.
        seed: decides everything but the times.
        directory: for stores and outputs; that of a failure is kept.
        fuzz: stores of the real RocketMQ among the others; 0 needs no JVM.
        broken: see `BREAKS`.
        cuts: cut logs and continue with others, in some stores.
        seconds: begin no further store after this long.
    """
    fuzzed = oracle_material(directory, seed * 1_000_003 % 900_000, fuzz) if fuzz else []
    warm_up(directory)
    own = own_material(directory / "own", seed, cuts=cuts)
    loop = Loop(kills, seed, directory, seconds)
    with contextlib.ExitStack() as stack:
        if broken:
            owner, attribute, instead = BREAKS[broken]
            stack.callback(partial(setattr, owner, attribute, getattr(owner, attribute)))
            setattr(owner, attribute, instead)
        return loop.run(_mixed(own, fuzzed))


def _mixed(own: Iterator[Material], fuzzed: list[Material]) -> Iterator[Material]:
    while True:
        for material in fuzzed:
            yield material
            yield next(own)
        if not fuzzed:
            yield next(own)


def table(result: Result) -> str:
    """Return kills by point, and what was compared, to be read."""
    moments = (BEFORE, WITHIN, AFTER, "")
    points = sorted({(phase, name) for phase, name, _ in result.kills})
    points.sort(key=lambda point: (PHASES.index(point[0]), point[1]))
    lines = [f"{'phase':10}{'operation':34}{'before':>8}{'within':>8}{'after':>8}{'any':>8}"]
    for phase, name in points:
        counts = [result.kills[phase, name, moment] for moment in moments]
        lines.append(f"{phase:10}{name:34}" + "".join(f"{count or '':>8}" for count in counts))
    rate = result.killed / result.seconds if result.seconds else 0.0
    lines += [
        "",
        (
            f"{result.killed} kills in {result.seconds:.0f} s ({rate:.1f} a second), "
            f"{result.stops} stops in order, {result.cuts} logs cut"
        ),
        (
            f"{result.stores} stores finished, {result.comparisons} comparisons, "
            f"{result.with_broker} of them with the broker's own rebuild"
        ),
        f"FAILED: {result.failure}\nkept: {result.kept}" if result.failure else "no differences",
    ]
    return "\n".join(lines)


def main() -> int:
    """Run the loop; the exit code says whether anything differed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--fuzz", type=int, default=20, help="stores of the real RocketMQ; 0 needs no JVM"
    )
    parser.add_argument("--directory", type=Path, help="for stores; a temporary one by default")
    parser.add_argument("--break", dest="broken", default="", choices=("", *BREAKS))
    parser.add_argument("--no-cuts", dest="cuts", action="store_false")
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after this long")
    parser.add_argument("--json", dest="as_json", action="store_true")
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kill-core-", dir=args.directory))
    result = run(
        args.kills,
        args.seed,
        directory,
        fuzz=args.fuzz,
        broken=args.broken,
        cuts=args.cuts,
        seconds=args.seconds,
    )
    if args.as_json:
        kills = [[*point, count] for point, count in sorted(result.kills.items())]
        values = {**vars(result), "killed": result.killed, "kills": kills}
        print(json.dumps(values))
    else:
        print(table(result), flush=True)
    if not result.failure:
        shutil.rmtree(directory)
    return 1 if result.failure else 0


if __name__ == "__main__":
    sys.exit(main())
