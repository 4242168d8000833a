"""Cuts the power under the dispatch core thousands of times, and compares what comes of it.

    python -m tests.crash.power_loss --states 10000 --seed 1

A run dispatches a made-up store in small steps, flushes now and then, closes, is killed, and continues,
while `tests.crash.model` keeps what of it is on disk. At the boundaries between operations states are
drawn that a power cut could leave. Each is written out as a directory and checked as it stands: what
the progress record names is there, and the checkpoint file names nothing that is not. Then it is
opened, dispatched to the end, closed, and compared with an uninterrupted run, byte for byte. That
recovery is modelled too, so there are states of a second and a third power cut.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from reput.checkpoints import marks, progress
from reput.formats.rocketmq import names
from reput.formats.rocketmq.indexfile import HEADER_SIZE, Header
from reput.sinks.upkeep import rollback
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.dispatch.flushing import Flushing
from reput.streaming.dispatch.resuming import truncation
from reput.streaming.settings.config import FlushPolicy, StoreConfig, store_config
from tests.builders.stores import SMALL, Log, Messages, files_of, name_batch_topics
from tests.crash.kill_stores import SAME_PROGRESS
from tests.crash.model import Boundary, Image, Killed, Machine, Rules
from tests.oracle import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.checkpoints.progress import Progress
    from reput.formats.rocketmq.encode import Message

_NEVER = FlushPolicy(seconds=1e9, thorough_seconds=1e9)
# More than one page a file, and entries that lie on two.
LARGER = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": str(450 * 20),
    "mappedFileSizeConsumeQueueExt": "12288",
    "mapperFileSizeBatchConsumeQueue": str(100 * 46),
    "maxHashSlotNum": "301",
    "maxIndexNum": "500",
}
_SAME_PROGRESS = (*SAME_PROGRESS, "skipped")
_LEFT_OVER = {"abort", "abort.new", "new", "progress.json.new", "checkpoint.new"}
_MOST_CUTS = 3
_PROCESSES = itertools.count(100_000)


class PowerLossError(Exception):
    """An output is not what it has to be, or the model is not what the files are."""


class HotMessages(Messages):
    """Messages of which most go to one queue, so that its files roll."""

    def next(self) -> Message:
        made = super().next()
        if self.random.random() < 0.6 or made.sys_flag:
            return made
        offset = self._offset("hot", 0, has_entry=True)
        properties = self._properties()
        return made._replace(topic="hot", queue_id=0, queue_offset=offset, properties=properties)


@dataclass(frozen=True)
class Kind:
    """A kind of store and what is done with it.

    Attributes:
        traits: of its messages.
        conf: settings besides sizes.
        version: of the broker.
        is_cut: the log is replaced from some record on.
        is_corrupt: the log has places that hold no records.
        expires: the log loses its oldest files.
        in_place: the output is the store.
    """

    traits: dict[str, bool] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    version: str = "5.5"
    is_cut: bool = False
    is_corrupt: bool = False
    expires: bool = False
    in_place: bool = False


_EXT = {"enableConsumeQueueExt": "true"}
_MULTI = {"enableMultiDispatch": "true", "enableLmq": "true"}
KINDS = {
    "plain": Kind({"transactions": False, "delays": False}),
    "all": Kind({"out_of_turn": True}),
    "ext": Kind({"out_of_turn": True}, _EXT, "5.3"),
    "batch": Kind({"batches": True}),
    "batch and ext": Kind({"batches": True}, _EXT, "5.4"),
    "multi": Kind({"multi": True}, _MULTI),
    "old": Kind({"wide": False}, version="4.9"),
    "log replaced": Kind({"out_of_turn": True}, is_cut=True),
    "log replaced, ext": Kind({"batches": True}, _EXT, is_cut=True),
    "in place": Kind(in_place=True),
    "corrupt": Kind({"batches": True}, is_corrupt=True),
    "expiring": Kind({"batches": True}, _EXT, expires=True),
}


class Reference:
    """What an uninterrupted run makes of a log."""

    def __init__(self, material: Material, log: int, directory: Path) -> None:
        self.output = directory / "output"
        material.link(directory, log)
        self.config = material.config(directory)
        if material.kind.in_place:
            self.output = self.config.output
        dispatcher = material.open(self.config)
        tail = find_tail(dispatcher.log, skips_corrupt=material.kind.is_corrupt)
        dispatcher.dispatch(tail.end)
        dispatcher.close()
        self.files = files_of(self.output)
        found = progress.load(self.output)
        assert found is not None
        self.progress: Progress = found
        self.checkpoint = (self.output / names.CHECKPOINT).read_bytes()
        self._queues: dict[str, dict[int, bytes]] = {}
        self._index: dict[int, bytes] = {}
        for name, data in self.files.items():
            parent, _, file = name.rpartition("/")
            if parent == names.INDEX:
                self._index[Header.unpack(data).begin_offset] = data
            else:
                self._queues.setdefault(parent, {})[int(file)] = data
        self._positions: dict[int, dict[str, int]] = {}

    def lacks(self, output: Path, queues: dict[str, int], *, is_trimmed: bool) -> str:
        """Say what is missing of queues up to these positions, "" for nothing.

        Args:
            output: what to look at.
            queues: see `Progress.queues`.
            is_trimmed: files may have expired.
        """
        for name, end in queues.items():
            for base, data in self._queues.get(name, {}).items():
                if base >= end:
                    continue
                path = output / name / names.offset_file(base)
                if not path.is_file():
                    if is_trimmed and base + len(data) <= end:
                        continue
                    return f"{name}: no file {base}, {end} bytes are named"
                found = path.read_bytes()
                used = min(end - base, len(data))
                if len(found) != len(data):
                    return f"{name}: file {base} has {len(found)} bytes"
                if found[:used] != data[:used]:
                    return f"{name}: bytes before {end} are others"
            if end > 0 and name not in self._queues:
                return f"{name}: an unknown queue"
        return ""

    def lacks_index(self, output: Path, found: Progress, *, is_trimmed: bool) -> str:
        """Say what is missing of the index up to a record of progress, "" for nothing."""
        if not found.index_name:
            return ""
        header = Header(*found.index_header)
        directory = output / names.INDEX
        standing = sorted(directory.iterdir()) if directory.is_dir() else []
        begins = set()
        for path in standing:
            if path.name < found.index_name:
                data = path.read_bytes()
                begin = Header.unpack(data.ljust(HEADER_SIZE, b"\0")).begin_offset
                if self._index.get(begin) != data:
                    return f"index file {path.name} before the newest one is another"
                begins.add(begin)
        wanted = {b for b in self._index if header.next_item > 1 and b < header.begin_offset}
        if wanted - begins and not is_trimmed:
            return f"index files of {sorted(wanted - begins)} are not there"
        newest = directory / found.index_name
        if not newest.is_file():
            return f"no index file {found.index_name}"
        if header.next_item > 1:
            return self._lacks_items(newest.read_bytes(), header)
        return ""

    def _lacks_items(self, data: bytes, header: Header) -> str:
        expected = self._index.get(header.begin_offset)
        if expected is None:
            return "the newest index file is unknown"
        settings = self.config.settings
        start = HEADER_SIZE + settings.index_slots * 4
        end = start + header.next_item * 20
        if data[start:end] != expected[start:end]:
            return f"index items before {header.next_item} are others"
        return ""

    def lacks_checkpointed(self, output: Path, *, is_trimmed: bool) -> str:
        """Say what the checkpoint file names and the queues have not, "" for nothing."""
        values = marks.read_checkpoint(output)
        if values is None:
            return ""
        offset = values.logics_offset + 1
        if self.config.settings.version.checkpoint_fields < 6:
            offset = self._offset_before(values.logics_timestamp)
        if values.logics_timestamp == 0:
            offset = 0
        problem = self.lacks(output, self._positions_at(offset), is_trimmed=is_trimmed)
        if problem:
            return f"the checkpoint file is ahead: {problem}"
        if values.index_timestamp and not is_trimmed:
            ends = [
                data
                for data in self._index.values()
                if Header.unpack(data).end_timestamp == values.index_timestamp
            ]
            standing = [path.read_bytes() for path in (output / names.INDEX).iterdir()]
            if not any(data in standing for data in ends):
                return "the checkpoint file names an index file that is not there"
        return ""

    def _positions_at(self, offset: int) -> dict[str, int]:
        if offset not in self._positions:
            queues, lasts = dict(self.progress.queues), self.progress.lasts
            self._positions[offset] = {
                name: end
                for name, end in rollback.queues_before(
                    self.output, self.config.settings, queues, offset, lasts
                ).items()
                if not name.startswith(names.CONSUMEQUEUE_EXT)
            }
        return self._positions[offset]

    def _offset_before(self, timestamp: int) -> int:
        """Return the offset after the last record that was stored before a time."""
        offset = 0
        for path in sorted((self.config.path / names.COMMITLOG).iterdir()):
            data, at = path.read_bytes(), 0
            while at + 4 <= len(data) and (size := struct.unpack_from(">i", data, at)[0]) > 0:
                if struct.unpack_from(">I", data, at + 4)[0] != 0xCBD43194:
                    wide = 16 if struct.unpack_from(">i", data, at + 36)[0] & 0x10 else 4
                    (stored,) = struct.unpack_from(">q", data, at + 52 + wide)
                    if stored >= timestamp:
                        return offset
                    offset = int(path.name) + at + 1
                at += size
        return offset


class Material:
    """A store to be dispatched: its log, or several that come one after another."""

    def __init__(
        self, name: str, kind: Kind, directory: Path, seed: int, records: int | None = None
    ) -> None:
        """Make it.

        Args:
            name: what messages call it.
            kind: of store.
            directory: where to.
            seed: decides.
            records: that many, in the smallest files; else many, in files of any size.
        """
        self.name = name
        self.kind = kind
        pick = random.Random(seed)
        is_large = pick.random() < 0.5 and records is None
        self.conf = {**(LARGER if is_large else SMALL), **kind.conf}
        count = records or (pick.randint(350, 700) if is_large else pick.randint(60, 160))
        logs = _logs(self.conf, kind, pick, count)
        self.boundaries = [log.boundaries for log in logs]
        self.stores = []
        self.expired_to = 0
        for number, log in enumerate(logs):
            store = directory / f"store-{number}"
            log.write(store)
            if kind.traits.get("batches"):
                name_batch_topics(store, "batches")
            self.stores.append(store)
        if kind.expires:
            self._expire(directory, pick)
        self.references = [
            Reference(self, number, directory / f"reference-{number}")
            for number in range(len(self.stores))
        ]
        # A file that an uninterrupted run removes in the end is still right until then.
        self.final = self.references[-1]
        if kind.expires:
            self.final = self._expired_reference(directory / "reference-expired")

    def _expire(self, directory: Path, pick: random.Random) -> None:
        whole = self.stores[0]
        trimmed = directory / "store-trimmed"
        shutil.copytree(whole, trimmed)
        files = sorted((trimmed / names.COMMITLOG).iterdir())
        gone = pick.randint(1, max(1, len(files) - 2))
        for path in files[:gone]:
            path.unlink()
        self.expired_to = int(files[gone].name)
        self.stores.append(trimmed)
        self.boundaries.append(self.boundaries[0])

    def _expired_reference(self, directory: Path) -> Reference:
        """Return what is left when the log's files expire after a whole run."""
        whole = self.references[0]
        whole_copy = Reference(self, 0, directory)
        self.link(directory, 1)
        dispatcher = self.open(self.config(directory))
        dispatcher.flush()
        dispatcher.close()
        whole_copy.files = files_of(whole_copy.output)
        found = progress.load(whole_copy.output)
        assert found is not None
        whole_copy.progress = found
        self.references[1] = whole
        return whole_copy

    def link(self, directory: Path, log: int) -> None:
        """Make a store in a directory show one of the logs."""
        store = directory / "store"
        store.mkdir(parents=True, exist_ok=True)
        for part in (names.COMMITLOG, names.CONFIG):
            if (self.stores[log] / part).is_dir():
                fresh = directory / "link"
                fresh.unlink(missing_ok=True)
                fresh.symlink_to(self.stores[log] / part)
                fresh.replace(store / part)

    def config(self, directory: Path) -> StoreConfig:
        """Return the configuration of the store in a directory."""
        return store_config(
            directory / "store",
            None if self.kind.in_place else directory / "output",
            broker_version=self.kind.version,
            broker_conf=self.conf,
            in_place=self.kind.in_place,
        )

    def open(self, config: StoreConfig) -> StoreDispatcher:
        """Open an output."""
        # Each is a process of its own.
        number = next(_PROCESSES)
        with mock.patch.object(os, "getpid", return_value=number):
            return StoreDispatcher(
                config,
                threads=1,
                flush=_NEVER,
                skips_corrupt=self.kind.is_corrupt,
                removes_expired=self.kind.expires,
            )


def _logs(conf: dict[str, str], kind: Kind, pick: random.Random, count: int) -> list[Log]:
    seed = pick.getrandbits(30)
    common = pick.randrange(5, count) if kind.is_cut else count
    logs = []
    for tail in range(2 if kind.is_cut else 1):
        log = Log(int(conf["mappedFileSizeCommitLog"]))
        messages = HotMessages(seed, **kind.traits)
        for _ in range(common):
            log.append(messages.next())
        messages.random = random.Random(seed + 1 + tail)
        for _ in range(pick.randint(1, count - common) if count > common else 0):
            log.append(messages.next())
        logs.append(log)
    if kind.is_corrupt:
        for place in pick.sample(logs[0].places[2:-2], 3):
            logs[0].data[place.position + 4 : place.position + 8] = b"junk"
    return logs


@dataclass
class State:
    """One state after a power cut, and where it comes from.

    Attributes:
        image: the files.
        log: which of the material's logs is there.
        has_progress: a record of progress was on disk.
        phase: what the writer was at.
        boundary: between which operations.
        cuts: power cuts so far, this one among them.
    """

    image: Image
    log: int
    has_progress: bool
    phase: str
    boundary: Boundary
    cuts: int


class Watch:
    """Draws states at the boundaries of a modelled run."""

    def __init__(
        self, machine: Machine, output: Path, pick: random.Random, share: float, cuts: int
    ) -> None:
        self.machine = machine
        self.output = output
        self.phase = "open"
        self.log = 0
        self.states: list[State] = []
        self.boundaries: Counter[tuple[str, str, str]] = Counter()
        self._share = share
        self._cuts = cuts
        self._pick = pick
        machine.on_boundary = self._at

    def _at(self, boundary: Boundary) -> None:
        key = (self.phase, *boundary)
        self.boundaries[key] += 1
        # Rare ones always, frequent ones now and then.
        if self._pick.random() < self._share / (1 + self.boundaries[key] / 4):
            self.draw(boundary)

    def draw(self, boundary: Boundary) -> None:
        """Draw a state here."""
        record = self.output / progress.STATE_DIRECTORY / progress.FILE_NAME
        self.states.append(
            State(
                image=self.machine.image(self._pick),
                log=self.log,
                has_progress=self.machine.is_durable(record),
                phase=self.phase,
                boundary=boundary,
                cuts=self._cuts,
            )
        )

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Put the model and the phases in place for a while."""
        with self.machine.installed(), contextlib.ExitStack() as undone:
            for owner, name, phase in (
                (rollback, "restore", "roll back"),
                (truncation, "_rolled_back", "go back"),
                (Flushing, "flush", "flush"),
                (StoreDispatcher, "dispatch", "dispatch"),
                (StoreDispatcher, "close", "close"),
            ):
                inner = getattr(owner, name)
                setattr(owner, name, self._phased(inner, phase))
                undone.callback(setattr, owner, name, inner)
            yield

    def _phased(self, inner: Callable[..., Any], phase: str) -> Callable[..., Any]:
        @wraps(inner)
        def phased(*args: Any, **options: Any) -> Any:
            before = self.phase
            if not (before == "close" and phase == "flush"):
                self.phase = phase
            try:
                return inner(*args, **options)
            finally:
                # Going back lasts until its caller rolls back.
                if phase != "go back":
                    self.phase = before

        return phased


class Run:
    """One modelled life of an output: from nothing to the log's end."""

    def __init__(self, material: Material, directory: Path, pick: random.Random, rules: Rules):
        self.material = material
        self.directory = directory
        self.kills = 0
        self._pick = pick
        material.link(directory, 0)
        self._config = material.config(directory)
        self.watch = Watch(Machine(directory, rules), self._config.output, pick, 1.0, 1)

    def go(self) -> None:
        """Dispatch everything, with whatever comes between."""
        watch, machine = self.watch, self.watch.machine
        with watch.installed():
            is_over = False
            while not is_over:
                if self._pick.random() < 0.5 and self.kills < 6:
                    machine.kill_at = machine.operations + self._pick.randint(1, 500)
                is_over = self._life()
        if machine.seen().files != _files_below(self.directory):
            raise PowerLossError("the model has other files than the file system")

    def _life(self) -> bool:
        """Open, dispatch, close or be killed; True if everything is done."""
        pick, watch, machine = self._pick, self.watch, self.watch.machine
        dispatcher = None
        watch.phase = "open"
        try:
            dispatcher = self.material.open(self._config)
            while True:
                self._change_log(dispatcher)
                wanted = self._next_end(dispatcher)
                dispatcher.dispatch(wanted)
                is_done = wanted == self.material.boundaries[-1][-1] and self._is_last_log
                chance = pick.random()
                if is_done or chance < 0.06:
                    dispatcher.close()
                    dispatcher = None
                    return is_done
                if chance < 0.25:
                    dispatcher.flush()
                elif chance < 0.45:
                    watch.phase = "flush"
                    dispatcher.parts.output.entries.flush(pick.choice((0, 1)))
                    watch.phase = "open"
        except Killed:
            self.kills += 1
            return False
        finally:
            if dispatcher is not None:
                dispatcher.abandon()
            machine.revive()

    @property
    def _is_last_log(self) -> bool:
        return self.watch.log == len(self.material.stores) - 1

    def _next_end(self, dispatcher: StoreDispatcher) -> int:
        boundaries = self.material.boundaries[self.watch.log]
        later = [b for b in boundaries if b > max(dispatcher.progress.end, 0)]
        if not later:
            return boundaries[-1]
        step = self._pick.choice((1, 2, 5, 12, 30))
        return later[min(step, len(later)) - 1]

    def _change_log(self, dispatcher: StoreDispatcher) -> None:
        """Put the next log in the place of this one, when it is time."""
        if self._is_last_log:
            return
        if self.material.kind.expires:
            if dispatcher.recorded_end < self.material.expired_to:
                return
        elif dispatcher.progress.end < self.material.boundaries[0][-1] and (
            self._pick.random() < 0.98
        ):
            return
        self.watch.log += 1
        self.material.link(self.directory, self.watch.log)


def _files_below(directory: Path) -> dict[str, bytes]:
    found = {}
    for path in directory.rglob("*"):
        relative = path.relative_to(directory)
        if path.is_file() and not {names.COMMITLOG, names.CONFIG} & set(relative.parts):
            found[relative.as_posix()] = path.read_bytes()
    return found


@dataclass
class Result:
    """What was done.

    Attributes:
        runs: modelled lives of outputs.
        kills: of the process, in them.
        states: that were drawn, checked, and recovered from; by phase, operation and moment.
        kinds: the same, by kind of store.
        cuts: the same, by power cuts in a row.
        boundaries: between operations, in all modelled runs.
        failures: what was wrong.
        seconds: wall time.
    """

    runs: int = 0
    kills: int = 0
    states: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    cuts: Counter[int] = field(default_factory=Counter)
    boundaries: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "runs": self.runs,
            "kills": self.kills,
            "states": self.states.total(),
            "boundaries": self.boundaries.total(),
            "by_operation": {" ".join(key): n for key, n in sorted(self.states.items())},
            "by_kind": dict(sorted(self.kinds.items())),
            "by_cuts": dict(sorted(self.cuts.items())),
            "failures": self.failures,
            "seconds": round(self.seconds, 1),
        }


class PowerLoss:
    """Makes states and recovers from them, until there were enough."""

    def __init__(self, directory: Path, seed: int, rules: Rules, most_failures: int = 5) -> None:
        self.result = Result()
        self._directory = directory
        self._pick = random.Random(seed)
        self._seed = seed
        self._rules = rules
        self._number = 0
        self._most_failures = most_failures

    def run(self, states: int, kinds: list[str], a_run: int | None = None) -> Result:
        """Continue until that many states were recovered from, or too much was wrong.

        Args:
            states: in all.
            kinds: of stores, taken in turn.
            a_run: states of one run at most.
        """
        began = time.monotonic()
        while self.result.states.total() < states and not self._is_enough():
            name = kinds[self.result.runs % len(kinds)]
            done = self.result.states.total()
            self._one(name, states if a_run is None else min(states, done + a_run))
        self.result.seconds = time.monotonic() - began
        return self.result

    def _is_enough(self) -> bool:
        return len(self.result.failures) >= self._most_failures

    def _one(self, name: str, states: int) -> None:
        """Carry out one run, and recover from the states in it."""
        number = self.result.runs
        self.result.runs += 1
        home = self._directory / f"run-{number}"
        seed = self._seed * 1_000_003 + number
        material = Material(name, KINDS[name], home / "material", seed)
        run = Run(material, home / "life", self._pick, self._rules)
        try:
            run.go()
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            self._fail(f"{name} (seed {seed}), the run itself: {traceback.format_exc()}")
        self.result.kills += run.kills
        self.result.boundaries += run.watch.boundaries
        waiting = run.watch.states
        self._pick.shuffle(waiting)
        while waiting and not self._is_enough() and self.result.states.total() < states:
            state = waiting.pop()
            more = self._recover(material, state, home, f"{name} (seed {seed})")
            waiting.extend(more)
        if not self.result.failures:
            shutil.rmtree(home)

    def _fail(self, problem: str) -> None:
        self.result.failures.append(problem)

    def _recover(self, material: Material, state: State, home: Path, label: str) -> list[State]:
        """Check a state and recover from it; return states from within the recovery."""
        self._number += 1
        directory = home / f"state-{self._number}"
        directory.mkdir()
        state.image.write(directory)
        material.link(directory, state.log)
        kept = len(self.result.failures)
        where = f"{label}, {state.phase}, {' '.join(state.boundary)}, cut {state.cuts}: "
        more: list[State] = []
        try:
            problem = check_state(material, state, directory)
            if problem:
                self._fail(f"{where}as it stands: {problem} [{directory}]")
            more = self._go_on(material, state, directory)
            problem = check_end(material, directory)
            if problem:
                self._fail(f"{where}in the end: {problem} [{directory}]")
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            self._fail(f"{where}{traceback.format_exc()} [{directory}]")
        self.result.states[(state.phase, *state.boundary)] += 1
        self.result.kinds[material.name] += 1
        self.result.cuts[state.cuts] += 1
        if len(self.result.failures) == kept:
            shutil.rmtree(directory)
        elif len(self.result.failures) < 3:
            # As it was found.
            state.image.write(directory.with_name(f"{directory.name}-found"))
        return more

    def _go_on(self, material: Material, state: State, directory: Path) -> list[State]:
        """Dispatch a state's output to the end, now and then under the model."""
        pick = self._pick
        if state.cuts >= _MOST_CUTS or pick.random() < 0.7:
            _finish(material, directory, state.log, pick)
            return []
        machine = Machine(directory, self._rules)
        output = material.config(directory).output
        watch = Watch(machine, output, pick, 0.15, state.cuts + 1)
        watch.log = state.log
        try:
            with watch.installed():
                _finish(material, directory, state.log, pick, watch)
        finally:
            machine.revive()
        self.result.boundaries += watch.boundaries
        pick.shuffle(watch.states)
        return watch.states[:3]


def _finish(
    material: Material, directory: Path, log: int, pick: random.Random, watch: Watch | None = None
) -> None:
    """Open an output and dispatch what is left, through all logs that are to come."""
    dispatcher = material.open(material.config(directory))
    try:
        for number in range(log, len(material.stores)):
            if number > log:
                if material.kind.expires:
                    dispatcher.flush()
                if watch is not None:
                    watch.log = number
                material.link(directory, number)
            end = material.boundaries[number][-1]
            if pick.random() < 0.5:
                dispatcher.dispatch(pick.choice(material.boundaries[number]))
                if pick.random() < 0.5:
                    dispatcher.flush()
            dispatcher.dispatch(end)
        dispatcher.close()
    except BaseException:
        dispatcher.abandon()
        raise


def check_state(material: Material, state: State, directory: Path) -> str:
    """Say what is wrong with an output after a power cut, "" for nothing."""
    output = material.config(directory).output
    found = progress.load(output) if output.is_dir() else None
    if found is None:
        return "there is no progress, though it was on disk" if state.has_progress else ""
    is_trimmed = material.kind.expires
    problems = []
    for reference in material.references:
        problem = (
            reference.lacks(output, found.queues, is_trimmed=is_trimmed)
            or reference.lacks_index(output, found, is_trimmed=is_trimmed)
            or reference.lacks_checkpointed(output, is_trimmed=is_trimmed)
        )
        if not problem:
            return ""
        problems.append(problem)
    return "; or ".join(problems)


def check_end(material: Material, directory: Path) -> str:
    """Say where an output differs from an uninterrupted run, "" for nowhere."""
    output, final = material.config(directory).output, material.final
    if files_of(output) != final.files:
        lines = compare.differences(output, final.output)
        return "; ".join(lines[:6]) or "files differ"
    mine = progress.load(output)
    assert mine is not None
    for name in _SAME_PROGRESS:
        if getattr(mine, name) != getattr(final.progress, name):
            return f"progress has {name} {getattr(mine, name)}, not {getattr(final.progress, name)}"
    if (output / names.CHECKPOINT).read_bytes() != final.checkpoint:
        return "the checkpoint file is another"
    if not mine.clean or marks.has_abort(output):
        return "it was closed in order and does not say so"
    unknown = {path.name for path in output.rglob("*")} - {
        path.name for path in final.output.rglob("*")
    }
    unknown -= _LEFT_OVER
    indexes = {name for name in unknown if names.is_index_file(name)}
    return f"it has {sorted(unknown - indexes)}" if unknown - indexes else ""


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS))
    parser.add_argument("--scratch", type=Path, help="where to write; memory is fastest")
    parser.add_argument("--keeps-sizes", action="store_true", help="as in a journal")
    parser.add_argument("--orders-names", action="store_true", help="as in a journal")
    parser.add_argument("--ignore", action="append", default=[], help="an operation: break it")
    options = parser.parse_args()
    rules = Rules(
        loses_sizes=not options.keeps_sizes,
        orders_names=options.orders_names,
        ignores=frozenset(options.ignore),
    )
    directory = Path(tempfile.mkdtemp(prefix="power-", dir=options.scratch))
    result = PowerLoss(directory, options.seed, rules).run(
        options.states, options.kind or list(KINDS)
    )
    if options.json:
        print(json.dumps(result.document(), indent=1))
    else:
        _show(result)
    if result.failures:
        print(f"states that failed are kept in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    return 0


def _show(result: Result) -> None:
    found = result.document()
    print(f"{'phase, operation, moment':<44}states")
    for name, number in found["by_operation"].items():
        print(f"{name:<44}{number:>6}")
    for title in ("by_kind", "by_cuts"):
        print(", ".join(f"{name}: {number}" for name, number in found[title].items()))
    print(
        f"{found['states']} states of {found['boundaries']} boundaries in {found['runs']} runs "
        f"with {found['kills']} kills, {found['seconds']} s: {len(result.failures)} wrong"
    )
    for failure in result.failures:
        print(failure, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
