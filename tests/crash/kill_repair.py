"""Kills `reput rebuild --repair` at its operations on files, and runs it again.

    python -m tests.crash.kill_repair --kills 500 --seed 1

A child repairs a damaged output and kills itself before or after one operation on files, or with a
part of it done. What is left is either refused at a start or as it was; the next repair, which may
be killed as well, ends with the bytes of a rebuild.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from reput.formats.errors import ReputError
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.verify import repair as repairing
from reput.streaming.verify.output import verify
from tests.builders.stores import Log, Messages, config_of, name_batch_topics
from tests.crash.kill_points import AFTER, BEFORE, OPERATIONS, WITHIN
from tests.oracle import compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.streaming.settings.config import StoreConfig

_MOMENTS = (BEFORE, WITHIN, AFTER)


@dataclass
class Result:
    """What a run did.

    Attributes:
        kills: by operation and moment.
        repairs: that ended in order, and were compared with a rebuild.
        refused: starts between that were refused.
        failure: what was wrong, "" for nothing; the loop ended at it.
    """

    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    repairs: int = 0
    refused: int = 0
    failure: str = ""


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class _Killer:
    """Wraps the operations in a child; counts them, and dies at one."""

    def __init__(self, counts: np.ndarray, at: tuple[int, int], pick: random.Random) -> None:
        self._counts = counts
        self._at = at
        self._moment = pick.choice(_MOMENTS)
        self._pick = pick

    def install(self) -> None:
        for number, operation in enumerate(OPERATIONS):
            inner = getattr(operation.owner, operation.attribute)
            setattr(operation.owner, operation.attribute, self._wrapped(number, inner))

    def _wrapped(self, number: int, inner: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(inner)
        def wrapped(*args: Any, **options: Any) -> Any:
            self._counts[number] += 1
            if (number, self._counts[number]) != self._at:
                return inner(*args, **options)
            part = OPERATIONS[number].part
            if self._moment == AFTER:
                inner(*args, **options)
            elif self._moment == WITHIN and part is not None:
                part(self._pick, *args, **options)
            self._counts[-1] = _MOMENTS.index(self._moment)
            _die()

        return wrapped


def _damage(output: Path, pick: random.Random) -> None:
    """Damage some files of an output."""
    for _ in range(pick.choice([1, 2, 5])):
        files = sorted(
            path
            for path in output.rglob("*")
            if path.is_file() and path.name not in {"writer.lock", "abort"}
        )
        path = pick.choice(files)
        kind = pick.randrange(3)
        raw = bytearray(path.read_bytes())
        if kind == 0:
            path.unlink()
        elif kind == 1 and raw:
            raw[pick.randrange(len(raw))] ^= 1 << pick.randrange(8)
            path.write_bytes(raw)
        elif path.parent != output:
            shutil.rmtree(path.parent)


def _store(directory: Path, pick: random.Random) -> StoreConfig:
    log, messages = Log(), Messages(pick.randrange(1 << 30), batches=True)
    for _ in range(pick.choice([30, 80])):
        log.append(messages.next())
    store = log.write(directory / "store", ahead=1)
    name_batch_topics(store, "batches")
    conf = pick.choice([{}, {"enableConsumeQueueExt": "true"}])
    return config_of(store, directory / "output", **conf)


def _dispatch(config: StoreConfig) -> None:
    dispatcher = StoreDispatcher(config)
    try:
        dispatcher.dispatch(find_tail(dispatcher.log).end)
    finally:
        dispatcher.close()


def _run_child(config: StoreConfig, killer: _Killer) -> int:
    child = os.fork()
    if child == 0:
        code = 3
        try:
            killer.install()
            repairing.repair(config, threads=1)
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the parent shows it
            (config.path / "error.txt").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


class _Loop:
    def __init__(self, directory: Path, seed: int) -> None:
        self._directory = directory
        self._pick = random.Random(seed)
        self._counts = np.frombuffer(mmap.mmap(-1, 8 * (len(OPERATIONS) + 1)), np.int64)
        self._seen: dict[int, int] = {}
        self.result = Result()

    def one(self) -> None:
        """Take one output through kills of its repair to the end."""
        pick = self._pick
        shutil.rmtree(self._directory, ignore_errors=True)
        config = _store(self._directory, pick)
        _dispatch(config)
        anew = config_of(config.path, self._directory / "anew")
        anew = type(config)(**{**vars(config), "output": anew.output})
        _dispatch(anew)
        _damage(config.output, pick)
        while True:
            number = pick.choice(sorted(self._seen) or [0])
            at = (number, pick.randint(1, min(self._seen.get(number, 0), 400) + 1))
            self._counts[:] = 0
            self._counts[-1] = -1
            status = _run_child(config, _Killer(self._counts, at, pick))
            for i in np.flatnonzero(self._counts[:-1]).tolist():
                self._seen[i] = max(self._seen.get(i, 0), int(self._counts[i]))
            if os.WIFEXITED(status):
                break
            self.result.kills[OPERATIONS[number].name, _MOMENTS[int(self._counts[-1])]] += 1
            self._look(config)
        if os.WEXITSTATUS(status):
            self.result.failure = (config.path / "error.txt").read_text()
            return
        self.result.repairs += 1
        found = compare.differences(config.output, anew.output)
        if found or not verify(config).ok:
            self.result.failure = "\n".join([*found[:8], *map(str, verify(config).findings[:8])])
            return
        _dispatch(config)

    def _look(self, config: StoreConfig) -> None:
        """See that a start refuses what is left, or leaves nothing wrong that `verify` passes."""
        copy = self._directory / "tried"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(config.output, copy)
        tried = type(config)(**{**vars(config), "output": copy})
        try:
            _dispatch(tried)
        except ReputError:
            self.result.refused += 1
            return
        found = compare.differences(copy, self._directory / "anew")
        if found and verify(tried).ok:
            self.result.failure = "extended, and verify says clean:\n" + "\n".join(found[:8])


def run(kills: int, seed: int, directory: Path) -> Result:
    """Kill that many repairs, or until something is wrong.

    Args:
        kills: how many.
        seed: of everything random.
        directory: where stores are made.
    """
    loop = _Loop(directory / "kill-repair", seed)
    while loop.result.kills.total() < kills and not loop.result.failure:
        loop.one()
    return loop.result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        result = run(arguments.kills, arguments.seed, Path(directory))
        for (operation, moment), count in sorted(result.kills.items()):
            print(f"{operation:32}{moment:8}{count:6}")
        print(
            f"{result.kills.total()} kills, {result.repairs} repairs equal to a rebuild, "
            f"{result.refused} starts refused between"
        )
        if result.failure:
            sys.exit(result.failure)


if __name__ == "__main__":
    main()
