"""Stores whose logs are let grow while their dispatch is killed, and what has to come of it."""

from __future__ import annotations

import itertools
import random
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.checkpoints import marks, progress
from reput.formats.errors import FormatError, UnreadableError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher, rebuild
from reput.streaming.settings.config import FlushPolicy, store_config
from tests.builders.stores import SMALL, Log, Messages, name_batch_topics
from tests.crash.appender import Appender, Frame, frames_of
from tests.oracle import compare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORACLE_VERSION = "5.5.0"
# What two outputs of one log have in common, however they came about.
SAME_PROGRESS = (
    "end",
    "messages",
    "queues",
    "index_header",
    "checkpoint",
    "logics_timestamp",
    "logics_offset",
    "repeated",
    "store_timestamp",
)


def is_half_written(error: FormatError) -> bool:
    """Tell whether a number is cut away of a record that is being written: no lock says so here.

    The numbers of `INNER_MULTI_QUEUE_OFFSET` are read last, where queues take the record.
    """
    return isinstance(error, UnreadableError) or "cannot be dispatched" in error.problem


class HarnessError(Exception):
    """An output is not what it has to be, or a child did not end as it has to."""


@dataclass(frozen=True)
class Material:
    """A finished store, whose log is let grow.

    Attributes:
        name: what messages call it.
        store: with its commitlog, and config.
        conf: the broker's settings.
        version: of the broker.
        expected: the real broker's own rebuild of it; None if there is none.
        before: a log that it parted from at some place, to be shown first.
    """

    name: str
    store: Path
    conf: dict[str, str]
    version: str = "5.5"
    expected: Path | None = None
    before: tuple[Frame, ...] = ()


class Case:
    """One store while it grows and its dispatch is killed."""

    def __init__(self, material: Material, directory: Path, pick: random.Random) -> None:
        self.material = material
        self.directory = directory
        self.store, self.output = directory / "store", directory / "output"
        if (material.store / names.CONFIG).is_dir():
            shutil.copytree(material.store / names.CONFIG, self.store / names.CONFIG)
        else:
            self.store.mkdir(parents=True)
        self.config = store_config(
            self.store, self.output, broker_version=material.version, broker_conf=material.conf
        )
        file_size = self.config.settings.commitlog_file_size
        self._final = frames_of(material.store)
        self._is_before_cut = bool(material.before)
        first = material.before or self._final
        self.appender = Appender(first, self.store, file_size, pick)
        self._file_size = file_size

    def open(self, policy: FlushPolicy) -> StoreDispatcher:
        """Open the output as it is."""
        return StoreDispatcher(self.config, threads=1, flush=policy)

    def go_on(self) -> bool:
        """Cut the log and continue with the final one, if that is still to be done."""
        if self._is_before_cut:
            self.appender.cut(self._final)
            self._is_before_cut = False
            return True
        return False

    def check(self, *, is_final: bool) -> int:
        """Compare with a rebuild elsewhere of the log as it is now.

        Returns:
            How many outputs it was compared with.

        Raises:
            HarnessError: it is different.
        """
        anew = self.directory / "anew"
        shutil.rmtree(anew, ignore_errors=True)
        version, conf = self.material.version, self.material.conf
        try:
            rebuild(self.store, anew, broker_version=version, broker_conf=conf)
        except FormatError as error:
            if is_final or not is_half_written(error):
                raise
            return 0
        self._compare("an uninterrupted run", anew)
        self._compare_own(anew)
        compared = 1
        if is_final and self.material.expected is not None:
            self._compare("the broker's own rebuild", self.material.expected)
            compared += 1
        shutil.rmtree(anew)
        return compared

    def _compare(self, what: str, other: Path) -> None:
        found = compare.differences(self.output, other)
        if found:
            lines = "\n    ".join(found[:12])
            raise HarnessError(f"{len(found)} differences from {what} ({other}):\n    {lines}")

    def _compare_own(self, anew: Path) -> None:
        """Compare what no broker's store has: our record, and what is left lying about."""
        mine, theirs = progress.load(self.output), progress.load(anew)
        assert mine is not None
        assert theirs is not None
        for name in SAME_PROGRESS:
            values = getattr(mine, name), getattr(theirs, name)
            if values[0] != values[1]:
                raise HarnessError(f"progress has {name} = {values[0]}, expected {values[1]}")
        if not mine.clean or marks.has_abort(self.output):
            raise HarnessError("it was stopped in order and does not say so")
        checkpoints = [(root / names.CHECKPOINT).read_bytes() for root in (self.output, anew)]
        if checkpoints[0] != checkpoints[1]:
            raise HarnessError("the checkpoint file is not that of an uninterrupted run")
        kinds = {path.name for path in self.output.iterdir()}
        unknown = kinds - {path.name for path in anew.iterdir()}
        if unknown:
            raise HarnessError(f"it has {sorted(unknown)}, an uninterrupted run has not")


_KINDS: dict[str, tuple[dict[str, bool], dict[str, str], str]] = {
    "plain": ({"transactions": False, "delays": False}, {}, "5.5"),
    "all": ({"out_of_turn": True}, {}, "5.5"),
    "ext": ({"out_of_turn": True}, {"enableConsumeQueueExt": "true"}, "5.3"),
    "batch": ({"batches": True}, {}, "5.5"),
    "batch-ext": ({"batches": True}, {"enableConsumeQueueExt": "true"}, "5.4"),
    "multi": ({"multi": True}, {"enableMultiDispatch": "true", "enableLmq": "true"}, "5.5"),
    "multi-ext": (
        {"multi": True, "batches": True},
        {"enableMultiDispatch": "true", "enableLmq": "true", "enableConsumeQueueExt": "true"},
        "5.5",
    ),
    "old": ({"wide": False}, {}, "4.9"),
}
_LARGER = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": str(300 * ENTRY_SIZE),
    "mappedFileSizeConsumeQueueExt": "4096",
    "mapperFileSizeBatchConsumeQueue": str(100 * 46),
    "maxHashSlotNum": "101",
    "maxIndexNum": "300",
}


def own_material(directory: Path, seed: int, *, cuts: bool) -> Iterator[Material]:
    """Make up stores of all kinds, with tiny files and with small ones; for ever others."""
    pick = random.Random(seed)
    number = 0
    while True:
        for kind, (traits, settings, version) in _KINDS.items():
            number += 1
            conf = {**(SMALL if number % 3 else _LARGER), **settings}
            count = pick.randint(60, 260) if number % 3 else pick.randint(300, 900)
            log, before = _logs(conf, traits, pick, count, is_cut=cuts and number % 5 < 2)
            store = directory / str(number)
            log.write(store)
            if traits.get("batches"):
                name_batch_topics(store, "batches")
            name = f"{kind}{'' if number % 3 else ', larger'}{', cut' if before else ''}"
            yield Material(f"{name} ({number})", store, conf, version, before=before)
            shutil.rmtree(store)


def _logs(
    conf: dict[str, str], traits: dict[str, bool], pick: random.Random, count: int, *, is_cut: bool
) -> tuple[Log, tuple[Frame, ...]]:
    seed = pick.getrandbits(30)
    common = pick.randrange(5, count) if is_cut else count
    made = []
    for tail in range(2 if is_cut else 1):
        log = Log(int(conf["mappedFileSizeCommitLog"]))
        messages = Messages(seed, **traits)
        for _ in range(common):
            log.append(messages.next())
        messages.random = random.Random(seed + 1 + tail)
        for _ in range(count - common):
            log.append(messages.next())
        made.append(log)
    return made[0], tuple(_frames(made[1])) if is_cut else ()


def _frames(log: Log) -> Iterator[Frame]:
    bounds = [*log.boundaries, log.end]
    for start, end in itertools.pairwise(bounds):
        if end > start:
            yield Frame(start, bytes(log.data[start:end]))


def oracle_material(directory: Path, first_seed: int, count: int) -> list[Material]:
    """Let the real RocketMQ make random stores, and rebuild each by itself."""
    from tests.oracle import oracle

    oracle.build(ORACLE_VERSION)
    stores, outputs = directory / "fuzz", directory / "rebuilt"
    oracle.fuzz_stores(ORACLE_VERSION, first_seed, count, stores)
    arguments = (str(first_seed), str(count), stores, outputs, "--mode=reput")
    oracle.run(ORACLE_VERSION, "Rebuild", *arguments, timeout=60 + 3 * count)
    found = []
    for seed in range(first_seed, first_seed + count):
        conf = oracle.config_of(stores / f"{seed}.facts")
        store, output = stores / str(seed), outputs / str(seed)
        found.append(Material(f"fuzz {seed}", store, conf, ORACLE_VERSION, output))
    return found


def warm_up(directory: Path) -> None:
    """Load every kernel: dispatch a store of each kind, and roll back what is beyond."""
    materials = own_material(directory / "warm", 0, cuts=False)
    for number, material in zip(range(len(_KINDS)), materials, strict=False):
        case = Case(material, directory / f"warm-{number}", random.Random(0))
        while not case.appender.is_done:
            case.appender.append(20)
            dispatcher = case.open(FlushPolicy(is_sync=number % 2 == 0))
            dispatcher.dispatch(find_tail(dispatcher.log).end)
            # As one that was killed.
            dispatcher.abandon()
        dispatcher = case.open(FlushPolicy())
        dispatcher.dispatch(find_tail(dispatcher.log).end)
        dispatcher.close()
        case.check(is_final=True)
        case.appender.close()
        shutil.rmtree(case.directory)
