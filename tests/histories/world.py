"""Carries out a history: the broker's steps, ours, and what must hold whenever all is at rest."""

from __future__ import annotations

import contextlib
import random
import shutil
import traceback
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.checkpoints import progress
from reput.formats.errors import FormatError, ReputError, StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import MIN_SIZE
from reput.formats.rocketmq.indexfile import Header
from reput.stores.findings import Kind
from reput.stores.log import broker_lock
from reput.streaming.dispatch.dispatcher import rebuild
from reput.streaming.settings.config import store_config
from reput.streaming.source.pushdown import choosing
from reput.streaming.verify.output import verify
from tests.builders.slow_twins import differences
from tests.histories import checks
from tests.histories.follower import (
    Follower,
    Stream,
    batch_options,
    stream_options,
)
from tests.histories.messages import Put, Traits, make, poison
from tests.histories.modelled import Modelled, with_fan_out
from tests.histories.points import POINTS, Killed
from tests.histories.real import BrokerError, Real
from tests.histories.steps import step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reput.checkpoints.progress import Progress
    from reput.stores.findings import Report
    from tests.histories.checks import SlowStore
    from tests.histories.logs import Rec
    from tests.histories.real import Jvm
    from tests.histories.steps import Step

_START = 1_700_000_000_000
# Looks until all is at rest: at least, and at most.
_LOOKS = 3
_STREAM_LOOKS = 4
_STREAM_LIVES = 3
_POLLS = 8
_MOST_GONE = 12
_MOST_CUT = 200


class HistoryError(AssertionError):
    """What must hold does not."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


@dataclass
class Outcome:
    """What a history had in it.

    Attributes:
        steps: by name, those that were carried out.
        checks: comparisons by kind.
        events: seen, by kind.
    """

    steps: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        """Add another one."""
        self.steps += other.steps
        self.checks += other.checks
        self.events += other.events


class World:
    """One store, one output, one stream, and what is known of them.

    Attributes:
        truth: the records of the log as the broker knows it, and those that have expired.
        outcome: what was done.
    """

    def __init__(self, root: Path, settings: Step, jvm: Jvm | None = None) -> None:  # noqa: PLR0915 - a model's whole state
        self.root = root
        self.store, self.output = root / "store", root / "output"
        version = jvm.version if jvm is not None else settings.text("version", "5.5.0")
        is_five = not version.startswith("4")
        # A real store's buffers ask for files of some size.
        log_file = 65536 if jvm is not None else settings.number("log", 8192)
        self._is_live = bool(settings.number("live"))
        self.traits = Traits(
            version,
            log_file,
            fans_out=bool(settings.number("fan")),
            has_batches=bool(settings.number("batch")) and is_five,
            is_quiet=bool(settings.number("quiet")),
        )
        conf = {
            "mappedFileSizeCommitLog": str(log_file),
            "mappedFileSizeConsumeQueue": str(20 * settings.number("queue", 8)),
            "mappedFileSizeConsumeQueueExt": "2048" if jvm is not None else "160",
            "maxHashSlotNum": "13",
            "maxIndexNum": str(settings.number("items", 20)),
        }
        if settings.number("ext"):
            conf["enableConsumeQueueExt"] = "true"
        if self.traits.fans_out:
            conf["enableMultiDispatch"] = "true"
        if is_five:
            conf["mapperFileSizeBatchConsumeQueue"] = str(4 * 46)
        self.config = store_config(
            self.store, self.output, name="store", broker_version=version, broker_conf=conf
        )
        self.store.mkdir(parents=True)
        self.shadow: Modelled | None = None
        self.broker: Modelled | Real
        if jvm is not None:
            self.broker = Real(jvm, self.store, self.traits, conf)
            self.shadow = Modelled(root / "model", self.traits)
        else:
            self.broker = Modelled(self.store, self.traits)
            (self.store / names.COMMITLOG).mkdir()
            if self.traits.has_batches:
                from tests.builders.stores import name_batch_topics

                name_batch_topics(self.store, checks.BATCHES)
        self.is_real = jvm is not None
        self.truth: list[Rec] = []
        self.gone: list[Rec] = []
        self._cut: list[Rec] = []
        self._cut_to = 0
        self.taken: list[Put] = []
        self.now = _START
        self.follower: Follower | None = None
        self.stream: Stream | None = None
        self.outcome = Outcome()
        # Where the output's first record stands, None while it has none.
        self.origin: int | None = None
        self.is_damaged = False
        self._first: Rec | None = None
        # What the output had of the log when it was looked at last.
        self._had: set[Rec] = set()
        self._stream_origin = 0
        self._puts: dict[Rec, Put] = {}
        # Bytes that are not a record, with good ones after them, until the broker has written over them.
        self._hole = -1
        # Where a file begins that a broker has taken for the log's again, after a hole.
        self._left_base = -1
        # The log's records before the first such place came.
        self._before_hole: list[Rec] = []
        self._has_begun_again = False
        self._said_corrupt = 0
        # The records that the stream had delivered when it was compared last.
        self._delivered: list[Rec] = []
        self._snapshot: Path | None = None
        # Cut, and nothing was written over that; times have to tell of it; our job was stopped for it.
        self._is_cut = self._is_told = self._starts_again = False
        self._is_paused = False
        self._salt = 0
        self._compared = ""

    # The broker's steps.

    def do(self, step: Step) -> None:
        """Carry out a step; one that makes no sense now does nothing.

        Raises:
            HistoryError: what does not hold.
        """
        act = getattr(self, f"_do_{step.name}", None)
        if act is None:
            raise ValueError(f"no step is called {step.name!r}")
        if act(step) is not False:
            self.outcome.steps[step.name] += 1
        self._salt = zlib.crc32(str(step).encode(), self._salt)

    def _brokers(self) -> list[Modelled | Real]:
        return [self.broker, self.shadow] if self.shadow is not None else [self.broker]

    def _mark_running(self) -> None:
        if not self.is_real:
            change = POINTS.brokers.add if self.broker.is_running else POINTS.brokers.discard
            change(self.store)

    def _do_start(self, _: Step) -> bool | None:
        if self.broker.is_running:
            return False
        left = self._left_behind()
        try:
            for each in self._brokers():
                each.start()
        except BrokerError as error:
            if "load failed" not in str(error):
                raise
            self.outcome.events["a broker that does not start with its own files"] += 1
            return False
        self._mark_running()
        if left and self.broker.end > left[0]:
            self._take_left_behind(left[0])
        self._look_again("recovery")
        return None

    def _keeps_expired(self) -> bool:
        return isinstance(self.broker, Real) and self.broker.keeps_expired

    def _left_behind(self) -> list[int]:
        """Return where files begin that the broker could not remove with a cut."""
        return self.broker.left_behind() if isinstance(self.broker, Real) else []

    def _take_left_behind(self, base: int) -> None:
        """Note that a broker's recovery began in a file that it had left behind: a hole is before.

        Entries that still lead there are why (`CommitLog#recoverNormally`). The model does not.
        """
        self.outcome.events["a file left behind became the log's"] += 1
        if self._hole < 0:
            self._before_hole = [*self.truth, *self._stale()]
        self._hole = self.broker.files.scan(self.broker.begin)[1]
        self._left_base = base
        self.shadow = None

    def _do_stop(self, _: Step) -> bool | None:
        if not self.broker.is_running:
            return False
        for each in self._brokers():
            each.stop()
        self._mark_running()
        return None

    def _do_crash(self, _: Step) -> bool | None:
        if not self.broker.is_running:
            return False
        for each in self._brokers():
            each.crash()
        self._mark_running()
        return None

    def _do_put(self, step: Step) -> bool | None:
        if not self.broker.is_running:
            return False
        kind = step.text("kind", "mixed")
        is_again = kind in {"twin", "longer", "shorter"} and bool(self.taken)
        puts = make(kind, step.number("count", 1), step.number("seed"), self.traits, self.taken)
        if is_again:
            self.taken = self.taken[len(puts) :]
        self._put(puts, keeps_time=is_again)
        self.outcome.events[
            f"put {kind}" if is_again or kind not in {"twin", "longer", "shorter"} else "put same"
        ] += 1
        return None

    def _do_poison(self, step: Step) -> bool | None:
        if not self.broker.is_running or (self.is_real and self.traits.version.startswith("4")):
            # A 4.9 store reads the DELAY itself, and refuses.
            return False
        self._put([poison(self.traits.version, step.number("seed"))])
        return None

    def _put(self, puts: Sequence[Put], *, keeps_time: bool = False) -> None:
        for put in puts:
            if not (keeps_time and put.stored):
                self.now += put.ticks
                put = put._replace(stored=self.now)
            sent = put
            if put.fans_out and put.sys_flag & 0xC in {0, 8}:
                sent = with_fan_out(put, self.broker.fan_offset(put.queue_id))
            if self._is_cut:
                self._let_go()
            before = self.broker.end
            self.broker.put([sent])
            (rec,) = self.broker.files.records(before, self.broker.end)
            self.truth.append(rec)
            self._puts[rec] = put
            if self.shadow is not None:
                # What a broker counts from after a cut are the entries in its queues' files.
                self.shadow.put([sent], rec.record.queue_offset)
        # Old records that line up with the log's end may have been read.
        self._is_cut = self.traits.is_quiet and bool(self._stale())
        if self._is_told:
            for base in self.broker.files.bases:
                self.broker.files.touch(base)
            self._is_told = False
        if self.broker.end > self._hole + 8 and self._left_base < 0:
            self._hole = -1
        self._touched()

    def _do_clock(self, step: Step) -> None:
        self.now += step.number("delta")

    def _do_truncate(self, step: Step) -> bool | None:
        if not self.broker.is_running:
            return False
        cut = self._cut_place(step.number("back", 1))
        if cut is None or (self.is_real and cut.is_poison(self.traits.version)):
            # A broker refuses where it cannot read a record (`DefaultMessageStore#isOffsetAligned`).
            return False
        if self._keeps_expired():
            # It may be left without any file of which it knows.
            return False
        self.broker.truncate(cut.position)
        if self.broker.end <= self._left_base:
            self._left_base = -1
        if self.shadow is not None:
            # A broker of 5.x cannot remove a file that its look before an earlier cut has open.
            self.shadow.truncate(cut.position, self.broker.files.bases)
        self._look_again("truncation")
        return None

    def _cut_place(self, back: int) -> Rec | None:
        """Return the record that is to be the first one cut; the log keeps one at least."""
        live = self._live()
        back = min(back, len(live) - 1)
        return live[-back] if back > 0 else None

    def _do_tear(self, step: Step) -> bool | None:
        """Lose what the machine had not on disk: from within a record on."""
        if self.broker.is_running:
            return False
        cut = self._cut_place(step.number("back", 1))
        if cut is None:
            return False
        at = cut.position + step.number("byte") % len(cut.raw)
        if self.is_real and step.text("rest", "zero") != "zero" and at < cut.position + MIN_SIZE:
            # A broker takes a record whose head is wrong but for size, magic and CRC
            # (`CommitLog#checkMessageAndReturnSize`); we do not.
            at = cut.position
        if at >= cut.uncovered:
            # Nothing tells of what is lost there after it was dispatched, to a broker neither.
            at = cut.position
        before = [*self.truth, *self._stale()]
        for each in self._brokers():
            files = each.files
            if step.text("rest", "zero") == "zero":
                files.write(at, bytes(files.file_size - at % files.file_size))
                files.remove_behind(at)
            else:
                # A page of it only: what stands after it is whole, and newer.
                fill = b"\xff" if step.text("rest") == "ones" else b"\0"
                files.write(at, fill * min(64, cut.end - at))
        if step.text("rest", "zero") != "zero":
            # What is after an earlier hole may still have been read.
            after = before[-1].end if before else 0
            past = [r for r in self._before_hole if r.position >= after] if self._hole >= 0 else []
            self._before_hole = [*before, *past]
            self._hole = at
        self._files_changed("tear")
        return None

    def _do_expire(self, step: Step) -> bool | None:
        gone = [each.expire(step.number("count", 1)) for each in self._brokers()]
        self._touched()
        self._forget_what_nothing_tells()
        return None if gone[0] else False

    def _forget_what_nothing_tells(self) -> None:
        """Begin the output again if what was cut while nobody wrote it has expired since."""
        if self._is_paused or self.follower is not None or not self.output.is_dir():
            return
        found = progress.load(self.output)
        if not self._has_cut_expired(None if found is None else found.end):
            return
        records = None if found is None else self._expected_of_stopped(found.end)
        if records is None or checks.output_differs(self.output, self._twin(records)):
            self.outcome.events["what was cut has expired, and nothing tells of it"] += 1
            self._reset_output()

    def _do_ahead(self, _: Step) -> bool | None:
        """Make the next file before it is needed, as a broker does."""
        if self.is_real or not self.broker.is_running or not self.broker.files.bases:
            return False
        self.broker.files.make(self.broker.files.bases[-1] + self.broker.files.file_size)
        return None

    def _look_again(self, why: str) -> None:
        """Find out what the log has after the broker has cut it, if it has."""
        before = self.truth
        begin, end = self.broker.begin, self.broker.end
        self.truth = [r for r in before if r.position < begin]
        if self._left_base > begin:
            self.truth += self.broker.files.scan(begin)[0]
            begin = self._left_base
        self.truth += self.broker.files.records(begin, end)
        if self.shadow is not None:
            mine = self.shadow.files.records(self.shadow.begin, self.shadow.end)
            # To the broker a file that has expired is gone, though it is still there.
            first = self.shadow.begin if self._keeps_expired() else begin
            theirs = [r for r in self.truth if r.position >= first]
            if mine != theirs or self.shadow.end != end:
                raise HistoryError(
                    "model",
                    f"after {why} the broker's log ends at {end}, the model's at {self.shadow.end}",
                )
            self.outcome.checks["model's log"] += 1
        self._account(before, why)

    def _files_changed(self, why: str) -> None:
        """Take for the log what a broker would find in the files."""
        before = self.truth
        begin = self.broker.begin
        found, end = self.broker.files.scan(begin, self.traits.version)
        self.truth = [r for r in before if r.position < begin] + found
        for each in self._brokers():
            each.end = end
        self._account(before, why)

    def _account(self, before: list[Rec], why: str) -> None:
        there = set(self.truth)
        cut = [r for r in before if r not in there]
        if cut:
            self.outcome.events[f"cut by {why}"] += 1
            self._is_cut = self.traits.is_quiet
            self.taken = [self._puts[r] for r in cut if r in self._puts]
            self.gone = (self.gone + cut)[-_MOST_GONE:]
            self._cut = (self._cut + cut)[-_MOST_CUT:]
            self._cut_to = max(self._cut_to, *(r.end for r in cut))
        if len(self.truth) > len(before):
            self.outcome.events["stale records became real"] += 1
        self._touched()

    def _touched(self) -> None:
        self._compared = ""

    # Our steps.

    def _do_open(self, _: Step) -> bool | None:
        if self.follower is not None:
            return False
        self._open()
        return None

    def _open(self) -> None:
        if not self.broker.files.bases:
            # No store yet: the job waits for it.
            return
        if self.origin is None:
            self.origin = self.broker.begin
        try:
            self.follower = Follower(self.config, is_live=self._is_live)
        except StoreError as error:
            if self.is_damaged:
                self.outcome.events["damaged output refused"] += 1
            elif self._is_replaced():
                self.outcome.events["log replaced as a whole refused"] += 1
            else:
                raise HistoryError("refused", f"{type(error).__name__}: {error}") from error
            self._reset_output()
            self.follower = Follower(self.config, is_live=self._is_live)
        except (ReputError, OSError, ValueError, KeyError, IndexError, AssertionError) as error:
            raise HistoryError("open", f"{type(error).__name__}: {error}") from error
        self._note_events()

    def _reset_output(self) -> None:
        shutil.rmtree(self.output, ignore_errors=True)
        if self._snapshot is not None:
            shutil.rmtree(self._snapshot, ignore_errors=True)
            self._snapshot = None
        self.is_damaged = False
        self.origin = self.broker.begin
        self._first = None

    def _note_events(self) -> None:
        if self.follower is not None:
            for event in self.follower.events:
                kind = getattr(event, "kind", None) or "event"
                self._has_begun_again |= "the output begins again" in event
                self.outcome.events[f"said {kind}"] += 1
            self.follower.events = []

    def _do_close(self, _: Step) -> bool | None:
        if self.follower is None:
            return False
        self._stop_follower()
        return None

    def _stop_follower(self) -> None:
        if self.follower is not None:
            follower, self.follower = self.follower, None
            follower.close()

    def _do_flush(self, _: Step) -> bool | None:
        if self.follower is None:
            return False
        self.follower.dispatcher.flush()
        return None

    def _do_kill(self, step: Step) -> bool | None:
        """Kill our process at a point of what it does, or else after that."""
        if not self.broker.files.bases:
            return False
        POINTS.arm(
            step.text("at"), step.number("number", 1), POINTS.die, step.text("moment", "before")
        )
        try:
            self._run_phase(step.text("during", "poll"))
            POINTS.is_dead = True
            self.outcome.events["killed between"] += 1
        except Killed:
            self.outcome.events[f"killed at {step.text('at')}"] += 1
        finally:
            POINTS.disarm()
        if self.follower is not None:
            self.follower.abandon()
            self.follower = None
        POINTS.is_dead = False
        # A killed process holds no lock, wherever in its start it was.
        for name in [name for name in broker_lock.HELD if name.startswith(str(self.root))]:
            del broker_lock.HELD[name]
        return None

    def _run_phase(self, during: str) -> None:
        if self.follower is None:
            self._open()
            if during == "open":
                return
        if during == "close":
            if self.follower is not None:
                self.follower.close()
            return
        self._poll()

    def _do_pause(self, step: Step) -> bool | None:
        """Make our process stand still at a point, for some seconds, while the broker continues."""
        if not self.broker.files.bases:
            return False
        done: list[int] = []
        failure: list[HistoryError] = []

        def inner() -> None:
            done.append(1)
            self._is_paused = True
            POINTS.clock += step.number("seconds")
            try:
                for each in step.inner:
                    self.do(each)
            except HistoryError as error:
                failure.append(error)
            finally:
                self._is_paused = False

        if step.text("at") == "planned":
            if self.stream is None:
                return False
            self._poll_stream(inner)
        else:
            POINTS.arm(step.text("at"), step.number("number", 1), inner)
            during = step.text("during", "poll")
            try:
                self._run_phase(during)
            finally:
                POINTS.disarm()
            if during == "close":
                self.follower = None
        if failure:
            raise failure[0]
        self.outcome.events["paused" if done else "pause not reached"] += 1
        if not done:
            inner()
        self._forget_what_nothing_tells()
        return None

    def _do_lose(self, step: Step) -> bool | None:  # noqa: PLR0911 - each loss in turn
        """Remove a file of the output, or set it back, while nobody writes it."""
        if self.follower is not None or not self.output.is_dir() or self.is_damaged:
            return False
        pick = random.Random(step.number("seed"))
        what = step.text("what", "file")
        trees = [self.output / kind for kind in names.DISPATCHED if (self.output / kind).is_dir()]
        files = sorted(p for tree in trees for p in tree.rglob("*") if p.is_file())
        if not files:
            return False
        chosen = pick.choice(files)
        if what == "tree":
            shutil.rmtree(pick.choice(trees))
        elif what == "queue" and chosen.parent.name != names.INDEX:
            shutil.rmtree(chosen.parent)
        elif what == "back":
            kept = (self._snapshot or self.root / "none") / chosen.relative_to(self.output)
            before = chosen.read_bytes()
            if not kept.exists() or kept.read_bytes() == before:
                return False
            shutil.copyfile(kept, chosen)
            last = max(p for p in files if p.parent == chosen.parent)
            is_index = chosen.parent.name == names.INDEX
            if chosen != last and not is_index and kept.stat().st_size == len(before):
                self._check_older_file(chosen, before)
                return None
        else:
            first = min(p for p in files if p.parent == chosen.parent)
            if chosen == first and any(p.parent == first.parent for p in files if p != first):
                # Gone as if it had expired: a broker starts like that, too.
                return False
            if chosen.parent.name == names.INDEX and self._has_expired(chosen):
                # Only records that nobody can look at tell that it was there.
                return False
            chosen.unlink()
        self.is_damaged = True
        self._touched()
        return None

    def _has_expired(self, index: Path) -> bool:
        return Header.unpack(index.read_bytes()).end_offset < self.broker.begin

    def _check_older_file(self, path: Path, before: bytes) -> None:
        """Make verify find that a file was set back which a start does not look at; mend it."""
        try:
            report = verify(self.config)
        except ReputError:
            report = None
        path.write_bytes(before)
        if report is not None and report.ok and report.is_complete and not report.unverifiable:
            raise HistoryError("verify", f"nothing is found of {path}, which was set back")
        self.outcome.events["an older file set back, found by verify"] += 1

    def _do_keep(self, _: Step) -> bool | None:
        """Keep a copy of the output, for files that are set back to it later."""
        if not self.output.is_dir():
            return False
        self._snapshot = self.root / "snapshot"
        shutil.rmtree(self._snapshot, ignore_errors=True)
        shutil.copytree(self.output, self._snapshot)
        return None

    def _do_stream(self, _: Step) -> bool | None:
        """Begin a stream; or, if there is one, begin another process with its checkpoint."""
        if not self.broker.files.bases:
            return False
        if self.stream is None:
            self._new_stream()
        else:
            self.stream.restart()
        return None

    def _new_stream(self) -> None:
        self.stream = Stream(stream_options(self.config))
        self._stream_origin = self.broker.begin
        self._delivered = []

    # What must hold.

    def rest(self) -> None:  # noqa: C901 - each promise in turn
        """Let everybody come to rest, and compare.

        Raises:
            HistoryError: what does not hold.
        """
        if self._starts_again:
            self._starts_again = False
            if self.follower is None:
                self._open()
        if self.follower is not None:
            self._poll()
        if self.stream is not None:
            for _ in range(_STREAM_LIVES):
                began = self.stream
                for _ in range(_STREAM_LOOKS):
                    self._poll_stream()
                if self.stream is began:
                    break
                # One that began again looks as often as any other.
            self._check_stream()
        if self.follower is not None:
            self._check_output()
        if not self.truth or not self.broker.files.bases:
            return
        state = f"{self._salt}"
        if self._compared == state:
            return
        self._compared = state
        pick = random.Random(self._salt)
        self._check_queries(pick)
        if self.follower is None:
            self._check_verify()
        if self.is_real and self.broker.is_running:
            self._check_answers(pick)

    def _let_go(self) -> None:
        """Stop what runs before records come over a cut that no time tells of.

        A running job sees that with a later record, or with its scrub; each start has to see it.
        """
        self._is_cut = False
        if self._is_paused:
            # It cannot stop in the middle of what it does: then times tell.
            self._is_told = True
            return
        if self.follower is not None:
            self._stop_follower()
            self._starts_again = True
        if self.stream is not None:
            self.stream.restart()
        self.outcome.events["started again after a cut that no time tells of"] += 1

    def end(self) -> None:
        """Stop the broker, let our side finish, and compare everything once more."""
        self._do_stop(step("stop"))
        if not self.broker.files.bases:
            return
        if self.broker.files.bases and self.truth:
            if self.follower is None:
                self._open()
            self.rest()
        self._stop_follower()
        if not self.truth:
            return
        self._check_queries(random.Random(1))
        self._check_verify(is_last=True)
        self._check_fresh()

    def close(self) -> None:
        """Give everything back."""
        POINTS.disarm()
        if self.follower is not None:
            self.follower.abandon()
            self.follower = None
        POINTS.is_dead = False
        POINTS.brokers.discard(self.store)
        if self.is_real and self.broker.is_running:
            self.broker.stop()

    def _live(self) -> list[Rec]:
        begin = self.broker.begin
        return [r for r in self.truth if r.position >= begin]

    def _stale(self) -> list[Rec]:
        """Return the records past the log's end that line up with it."""
        return self.broker.files.scan(self.broker.end)[0]

    def _old_roll(self) -> int:
        """Return the end of the file in which old records lead to an old BLANK, -1 if none do.

        A follower that saw the next file has continued to it; a cut has removed that since.
        """
        files = self.broker.files
        end = files.scan(self.broker.end)[1]
        base = files.base_of(end)
        if end == base:
            # The next file was made ahead.
            return end
        return base + files.file_size if files.is_blank(end) else -1

    def _looks_torn(self) -> bool:
        """Tell whether whole records stand after something that is not one, and are not older.

        After a hole they are the log's; after a cut that was written over with records as old as
        those they are not. The files alone do not tell which it is.
        """
        if self._hole >= 0:
            return True
        if not self.broker.is_running and self._left_behind():
            # The next start removes such a file, or takes it for the log's again.
            return True
        live, stale = self._live(), self._stale()
        # Old records that line up with the log's end are the log's for all that the files say.
        if self._goes_on_after(self.broker.end, live[-1:]):
            return True
        return bool(stale) and self._goes_on_after(stale[-1].end, stale[-1:])

    def _goes_on_after(self, end: int, last: Sequence[Rec]) -> bool:
        """Tell whether cut records stand in a file after an end, and are not older than the last.

        What stands at the end itself is not a record.
        """
        newest = last[0].record.store_timestamp if last else 0
        base = self.broker.files.base_of(end)
        data = self.broker.files.read(base)
        return any(
            end < r.position < base + self.broker.files.file_size
            and r.record.store_timestamp >= newest
            and data[r.position - base : r.end - base] == r.raw
            for r in self._cut
        )

    def _ends_with_zero(self, *, is_killed: bool = False) -> bool:
        """Tell whether the last record may seem torn for as long as a broker runs.

        Args:
            is_killed: or for 3 s after it was killed: a host whose lock is not seen may run it.
        """
        live = self._live()
        may_write = self.broker.is_running or (is_killed and (self.store / names.ABORT).exists())
        return may_write and bool(live) and live[-1].raw[-1] == 0

    def _poison_at(self) -> int | None:
        # Behind a cut, too, it lines up with the log.
        there = [*self.truth, *self._stale()]
        places = [r.position for r in there if r.is_poison(self.traits.version)]
        return min(places, default=None)

    def _poll(self) -> None:  # noqa: C901, PLR0912 - each error that may be right
        """Look and dispatch until nothing is new; an error that is right ends our process."""
        for number in range(_POLLS):
            follower = self.follower
            if follower is None:
                return
            begin = self.broker.begin
            if follower.end < 0:
                # Nothing of it was recorded: it begins where the log does.
                self.origin, self._first = begin, None
            try:
                try:
                    follower.poll()
                finally:
                    if self.origin == begin and self._first is None:
                        self._find_origin(follower)
            except Killed:
                raise
            except ReputError as error:
                if "expired" not in str(error) or isinstance(error, FormatError):
                    self._end_with(error)
                    return
                if follower.end >= self.broker.begin:
                    raise HistoryError("expired", str(error)) from error
                self.outcome.events["expired before it was dispatched"] += 1
                self._stop_follower()
                self._reset_output()
                self._open()
            except Exception as error:  # noqa: BLE001 - judged there
                self._end_with(error)
                return
            if self.follower is not None:
                origin, end = self.origin or 0, self.follower.end
                self._had = {r for r in self.truth if origin <= r.position < end}
            if self._first is None and self.follower is not None:
                places = [r for r in self.truth if r.position >= (self.origin or 0)]
                if self.follower.dispatcher.progress.messages and places:
                    self._first = places[0]
            if number + 1 >= _LOOKS and follower.end == self.broker.end:
                break
        self._note_events()

    def _find_origin(self, follower: Follower) -> None:
        """Make the output begin where the log does now, if files went while the first look came."""
        count = follower.dispatcher.progress.messages
        now = [r for r in self._live() if r.position < follower.end]
        if self.origin != self.broker.begin and count == len(now):
            self.origin = self.broker.begin

    def _end_with(self, error: Exception) -> None:
        """Make our process end with an error, if that is right."""
        self._judge(error)
        self._note_events()
        with contextlib.suppress(ReputError):
            self._stop_follower()

    def _judge(self, error: Exception) -> None:
        """Tell whether an error of the dispatch is right.

        Raises:
            HistoryError: it is not.
        """
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, ReputError) and self._poison_at() is not None:
            self.outcome.events["refused a record that no broker can parse"] += 1
        elif isinstance(error, FormatError) and self._looks_torn():
            self.outcome.events["refused what looks like a hole in the log"] += 1
        elif self.is_damaged and isinstance(error, StoreError):
            self.outcome.events["damaged output refused"] += 1
        elif isinstance(error, StoreError) and self._is_replaced():
            self.outcome.events["log replaced as a whole refused"] += 1
        else:
            raise HistoryError("dispatch", text) from error

    def _is_replaced(self) -> bool:
        """Tell whether no record is left in the log by which an output could know it again."""
        if self._first is None:
            return False
        return self._first not in set(self.truth) or self._had.isdisjoint(self._live())

    def _expected(self, end: int) -> list[Rec] | None:  # noqa: PLR0911 - each state of an output
        """Return the records that an output has that ends there; None if none may."""
        origin = self.origin or 0
        stale = self._stale()
        if end > self.broker.end:
            is_stale = any(r.end == end for r in stale)
            if self._hole >= 0 and self._is_end_before_hole(end) and not is_stale:
                # What it read before the page was lost stays, until a broker cuts the log there.
                self.outcome.events["an output keeps what stood past a hole"] += 1
                # What was put since, after a cut before the hole, is the log's as anywhere.
                kept_from = self.broker.end if self._left_base < 0 else self._hole
                kept = [r for r in self.truth if r.position < kept_from]
                kept += [r for r in self._before_hole if r.position >= kept_from]
                return [r for r in kept if origin <= r.position < end]
            if end != self._old_roll() and end not in {r.end for r in stale} | {
                r.position for r in stale
            }:
                return None
            with_stale = [r for r in (*self.truth, *stale) if origin <= r.position < end]
            return self._with_hole(with_stale) or with_stale
        found = [r for r in self.truth if origin <= r.position < end]
        with_lost = self._with_hole(found)
        if with_lost is not None:
            return with_lost
        missing = [r for r in self.truth if r.position >= max(end, origin)]
        if not missing:
            return found
        follower = self.follower
        is_held = follower is not None and follower.dispatcher.holds
        if missing[0].is_poison(self.traits.version) or (is_held and self.broker.is_running):
            return found
        # What has expired before it is passed over with the next record that is dispatched.
        left = [r for r in missing if r.position >= self.broker.begin]
        if len(left) == 1 and self._ends_with_zero():
            self.outcome.events["a record that ends with a zero waits while a broker runs"] += 1
            return found
        return found if self._looks_torn() else None

    def _with_hole(self, found: list[Rec]) -> list[Rec] | None:
        """Return records with what stood in a hole, if an output has as many; else None.

        It had read them before the page was lost; the log continues in a file left behind.
        """
        if self._left_base <= self.broker.begin or self.follower is None:
            return None
        lost = [r for r in self._before_hole if self._hole <= r.position < self._left_base]
        with_lost = sorted({*found, *lost}, key=lambda r: r.position)
        if self.follower.dispatcher.progress.messages != len(with_lost):
            return None
        self.outcome.events["an output keeps what stood in a hole"] += 1
        return with_lost

    def _is_end_before_hole(self, end: int) -> bool:
        """Tell whether an output may still have all that stood there before the page was lost.

        It may end where a file begins: after the BLANK of the one before. Not once a broker has
        written other records before the hole: it follows those.
        """
        places = {place for r in self._before_hole for place in (r.position, r.end)}
        return end in places and set(self.truth) <= set(self._before_hole)

    def _check_output(self) -> None:
        follower = self.follower
        if follower is None or (follower.end < 0 and not self._live()):
            return
        self.outcome.checks["end"] += 1
        expected = self._expected(follower.end)
        state = f"{follower.end} of {self.broker.end}"
        if expected is None:
            raise HistoryError("end", f"dispatched up to {state}")
        poisoned = self._poison_at()
        if poisoned is not None and poisoned < follower.end:
            # Brokers differ in what they leave out after such a record.
            self.outcome.events["dispatched beyond what no broker can parse"] += 1
            return
        count = follower.dispatcher.progress.messages
        left = [r for r in expected if r.position >= self.broker.begin]
        if count != len(expected) and count == len(left) and self._has_begun_again:
            # It went back before the log's begin, and has said that it lost what expired.
            self.origin, expected = self.broker.begin, left
            self.outcome.events["an output began again"] += 1
        made = self._twin(expected)
        is_right = count == len(expected) and not checks.output_differs(self.output, made)
        if not is_right and self._is_damage_by_twins():
            self.outcome.events["a cut before a twin in a later file was called damage"] += 1
            self._stop_follower()
            self._reset_output()
            self._open()
            self._poll()
            return
        self._said_corrupt = self.outcome.events["said corrupt"]
        if count != len(expected):
            raise HistoryError(
                "messages", f"{count} dispatched, the log has {len(expected)} ({state})"
            )
        self.outcome.checks["output"] += 1
        if not is_right:
            self._differ("output", checks.output_differs(self.output, made))
        self.is_damaged = False
        self._has_begun_again = False
        if (
            isinstance(self.broker, Real)
            and self.broker.is_running
            and follower.end == self.broker.end
        ):
            self._differ(
                "broker's queues",
                checks.broker_queues_differ(
                    self.broker,
                    self.config,
                    self.output,
                    made,
                    self.outcome.checks,
                    {r.position: r for r in self._live()},
                    cut_to=self._cut_to,
                ),
            )

    def _is_damage_by_twins(self) -> bool:
        """Tell whether a cut was called damage because a later file begins as it did before.

        A twin is put again with its old time, which no broker does; no head tells it from the
        first one. Where files note no times either, nothing tells of the cut.
        """
        said = self.outcome.events["said corrupt"] - self._said_corrupt
        if not said and not self.traits.is_quiet:
            return False
        size = self.broker.files.file_size
        begins = {
            (r.position, r.record.store_timestamp) for r in self.truth if r.position % size == 0
        }
        return any((r.position, r.record.store_timestamp) in begins for r in self._cut)

    def _twin(self, records: Sequence[Rec]) -> SlowStore:
        return checks.twin(self.config, records, has_batches=self.traits.has_batches)

    def _differ(self, kind: str, lines: list[str]) -> None:
        if lines:
            raise HistoryError(kind, "\n  ".join(lines[:6]))

    def _check_queries(self, pick: random.Random) -> None:
        """Ask for messages by the output's queues and index, and by the log."""
        if self._poison_at() is not None or self._looks_torn() or self.is_damaged:
            return
        now = [r for r in self._live() if r.position >= (self.origin or 0)]
        if self._stale() or self._ends_with_zero(is_killed=True):
            # By the files alone they are records.
            return
        is_complete = False
        if (self.output / names.CONSUMEQUEUE).is_dir() and self.origin is not None:
            everything = [r for r in self.truth if r.position >= self.origin]
            is_complete = not checks.output_differs(self.output, self._twin(everything))
            with _as_failure("queries"):
                wrong = checks.queries_differ(
                    self.config,
                    self.output,
                    now,
                    [r for r in self.truth if self.origin <= r.position < self.broker.begin],
                    self.gone,
                    self._cut,
                    pick,
                    is_complete=is_complete,
                    counts=self.outcome.checks,
                )
            self._differ("queries", wrong)
            if pick.randrange(2):
                self._filters(now, pick, self.output)
        if self.is_real:
            self._filters(self._live(), pick, None)

    def _filters(self, now: Sequence[Rec], pick: random.Random, output: Path | None) -> None:
        live = self._live()
        if len(now) != len(live):
            now = live
        options = batch_options(self.config, output)
        with _small_steps(), _as_failure("push-down"):
            wrong = checks.filters_differ(options, now, pick, self.outcome.checks)
        self._differ("push-down", wrong)

    def _check_answers(self, pick: random.Random) -> None:
        if self._poison_at() is not None or self._stale() or self._looks_torn():
            return
        if self._ends_with_zero():
            # It is not in the log for us, as long as a broker may still be writing it.
            return
        assert isinstance(self.broker, Real)
        if self.broker.keeps_expired:
            # To the broker its records are gone; the files do not say so.
            self.outcome.events["an expired file is still there"] += 1
            return
        there = set(self.truth)
        gone = [r for r in self.gone if r not in there]
        with _as_failure("answers"):
            wrong = checks.answers_differ(
                self.broker,
                self.config,
                self._live(),
                gone,
                pick,
                self.outcome.checks,
                was_cut=bool(self._cut),
            )
        self._differ("answers", wrong)

    def _check_verify(self, *, is_last: bool = False) -> None:
        """Make verify say of an output that nobody writes what the comparison says.

        Args:
            is_last: our job has looked at the log since it changed, and continues to its end.
        """
        if (
            not (self.output / ".reput").is_dir()
            or self._poison_at() is not None
            or self._looks_torn()
            or not self._is_settled_output()
        ):
            return
        self.outcome.checks["verify"] += 1
        try:
            with _as_failure("verify"):
                report = verify(self.config)
        except HistoryError as error:
            if self.is_damaged:
                return
            if "none of its records" in str(error) and self._has_nothing_in_common():
                self.outcome.events["nothing of an output is in the log, and verify says so"] += 1
                return
            raise
        found = progress.load(self.output)
        if found is None:
            # Killed before it had recorded anything.
            return
        records = self._expected_of_stopped(found.end)
        is_same = records is not None and not checks.output_differs(
            self.output, self._twin(records)
        )
        if report.ok and report.is_complete and not is_same:
            raise HistoryError("verify", "finds nothing in an output that is not the log's")
        lacking = [r.position for r in self._live() if r.position >= found.end]
        if (
            report.ok
            and report.is_complete
            and lacking
            and not self._ends_with_zero(is_killed=True)
        ):
            raise HistoryError("verify", f"misses nothing, and {lacking[:6]} are not dispatched")
        # By the files alone, records that were cut and line up with the end are records.
        has_all = is_same and found.end == self.broker.end and not self._stale()
        if not report.is_complete and has_all:
            lines = "\n  ".join(map(str, list(report.lacks)[:5]))
            raise HistoryError("verify", f"misses something in an output that has all: {lines}")
        if (
            not report.ok
            and is_same
            and not self.is_damaged
            and (is_last or not self._is_of_twins(found, report))
            # The cut has taken the file in which it continues: it is not right up to there.
            and found.end != self._old_roll()
        ):
            lines = "\n  ".join(map(str, list(report.findings)[:5]))
            raise HistoryError("verify", f"finds in an output that is right: {lines}")

    def _has_nothing_in_common(self) -> bool:
        """Tell whether all that an output has was cut, or has expired: no start continues with it."""
        found = progress.load(self.output)
        if found is None or self.broker.begin == 0:
            return False
        cut = {r.position for r in self._cut}
        return all(file.base in cut for file in found.files if file.base >= self.broker.begin)

    def _has_cut_expired(self, end: int | None) -> bool:
        """Tell whether all that was cut has expired, or stands there again as it was.

        Args:
            end: of an output, None for one that has none. Where the log begins there, nothing of
                what the output has is left to be compared.
        """
        left = {r for r in self._cut if r.end > self.broker.begin}
        return bool(self._cut) and (left <= set(self.truth) or end == self.broker.begin)

    def _is_of_twins(self, found: Progress, report: Report) -> bool:
        """Tell whether an output with the log's entries was made of cut records, by its times.

        Records that differ in what no queue has give the same entries, and another checkpoint.
        """
        kinds = {finding.kind for finding in report.findings}
        times = {r.record.store_timestamp for r in self._cut if r.position < found.end}
        # Those of a clock that has gone back since are newer than what the log gives.
        kinds -= {Kind.PROGRESS, Kind.CHECKPOINT, Kind.CHECKPOINT_AHEAD}
        return not kinds and found.logics_timestamp in times

    def _is_settled_output(self) -> bool:
        """Tell whether our last process ended in order: else verify says that it did not."""
        return not (self.output / names.ABORT).exists()

    def _expected_of_stopped(self, end: int) -> list[Rec] | None:
        if end > self.broker.end:
            stale = self._stale()
            if end != self._old_roll() and end not in {r.end for r in stale}:
                return None
            return [r for r in (*self.truth, *stale) if (self.origin or 0) <= r.position < end]
        boundary = {r.position for r in self.truth} | {self.broker.end}
        if end not in boundary and any(r.position < end < r.end for r in self.truth):
            return None
        return [r for r in self.truth if (self.origin or 0) <= r.position < end]

    def _poll_stream(self, pause: Callable[[], None] | None = None) -> None:
        stream = self.stream
        assert stream is not None
        try:
            stream.poll(pause)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if not isinstance(error, ReputError):
                raise HistoryError("stream", text) from error
            if self._looks_torn() or self._poison_at() is not None:
                self.outcome.events["stream stopped at what is not a record"] += 1
                if not self._is_delivered_right():
                    self._new_stream()
                return
            is_right = self._is_delivered_right()
            has_expired = "expired" in str(error)
            there = set(self.truth)
            if is_right and "been cut" in text and any(r not in there for r in self._delivered):
                # What a row shows is the same, but properties, which have no CRC, are others.
                self.outcome.events["stream said cut for what its rows do not show"] += 1
                self._new_stream()
                return
            if is_right and "been cut" in text and self._is_after_old_blank(stream.position):
                self.outcome.events["stream had continued after an old BLANK"] += 1
                self._new_stream()
                return
            if is_right and not has_expired:
                raise HistoryError("stream", f"an error though all is well: {text}") from error
            if not is_right and isinstance(error, FormatError):
                raise HistoryError("stream", f"the wrong reason: {text}") from error
            self.outcome.events["stream said why not"] += 1
            self._new_stream()
            self._poll_stream()

    def _is_after_old_blank(self, position: int) -> bool:
        """Tell whether a stream stands where the next file begins after the one of the log's end.

        It was led there by a BLANK that stood before the records that the log ends with were put.
        """
        size = self.broker.files.file_size
        return position % size == 0 and position - size < self.broker.end < position

    def _stream_expected(self) -> list[tuple[Any, ...]]:
        return [checks.identity(r) for r in self.truth if r.position >= self._stream_origin]

    def _is_delivered_right(self) -> bool:
        assert self.stream is not None
        rows = [checks.row_identity(row) for row in self.stream.rows]
        expected = self._stream_expected()
        return rows == expected[: len(rows)]

    def _check_stream(self) -> None:
        assert self.stream is not None
        self.outcome.checks["stream"] += 1
        rows = [checks.row_identity(row) for row in self.stream.rows]
        expected = self._stream_expected()
        if rows == expected:
            # As each was when it was delivered.
            delivered = [r for r in self.truth if r.position >= self._stream_origin]
            self._delivered += delivered[len(self._delivered) :]
            return
        extra = [checks.identity(r) for r in self._stale()]
        if self._hole >= 0:
            before = self._before_hole
            past = [checks.identity(r) for r in before if r.position >= self.broker.end]
            if len(rows) >= len(expected) and rows == (expected + past)[: len(rows)]:
                self.outcome.events["a stream had read what stood past a hole"] += 1
                return
            torn = {checks.identity(r) for r in before} - set(expected)
            now = {each[0]: each for each in expected}
            kept = [now.get(row[0]) if row in torn else row for row in rows]
            kept = [row for row in kept if row is not None]
            if kept == (expected + extra)[: len(kept)]:
                # The log continues past the hole, in a file that the broker had left behind, or the
                # hole is in properties, which have no CRC.
                self.outcome.events["a stream had read what stood in a hole"] += 1
                return
        if (
            rows[: len(expected)] == expected
            and rows[len(expected) :] == extra[: len(rows) - len(expected)]
        ):
            return
        if rows == expected[: len(rows)] and (
            self._looks_torn()
            or self._poison_at() is not None
            or (len(rows) == len(expected) - 1 and self._ends_with_zero())
        ):
            return
        wrong = [row[0] for row in rows if row not in set(expected)]
        missing = [row[0] for row in expected if row not in set(rows)]
        if not wrong and not missing:
            places = [row[0] for row in rows]
            raise HistoryError("stream", f"delivered twice, or in another order: {places}")
        if self._is_cut_before_its_file(wrong + missing):
            self.outcome.events["a stream's own file has the same bytes after a cut before it"] += 1
            self._new_stream()
            return
        raise HistoryError(
            "stream",
            f"{len(rows)} delivered, the log has {len(expected)}: missing {missing[:6]}, "
            f"not in the log {wrong[:6]}, log ends at {self.broker.end}",
        )

    def _is_cut_before_its_file(self, different: list[int]) -> bool:
        """Tell whether a cut before the file in which a stream reads was written over up to there.

        An offset vouches for its own file. There all bytes are the same again, the times in the
        store too, which no broker makes.
        """
        assert self.stream is not None
        base = self.broker.files.base_of(self.stream.position)
        again = {r for r in self._cut if base <= r.position < self.stream.position}
        return max(different) < base and bool(again) and again <= set(self.truth)

    def _check_fresh(self) -> None:
        """Rebuild what the files have into an empty directory, by us and by the broker."""
        if self._poison_at() is not None:
            return
        if self._left_base > self.broker.begin:
            self._require_loud()
        if self._looks_torn():
            return
        records = [*self._live(), *self._stale()]
        made = self._twin(records)
        fresh = self.root / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        conf = self.config.properties
        try:
            batch = rebuild(self.store, fresh, broker_version=self.traits.version, broker_conf=conf)
        except Exception as error:
            raise HistoryError("rebuild", f"{type(error).__name__}: {error}") from error
        self.outcome.checks["fresh rebuild"] += 1
        if batch.messages != len(records):
            raise HistoryError("rebuild", f"{batch.messages} messages, the log has {len(records)}")
        self._differ("rebuild", checks.output_differs(fresh, made))
        if isinstance(self.broker, Real):
            theirs = self.root / "theirs"
            shutil.rmtree(theirs, ignore_errors=True)
            self.broker.rebuild(theirs)
            self.outcome.checks["broker's rebuild"] += 1
            self._differ("broker's rebuild", _against(theirs, fresh))

    def _require_loud(self) -> None:
        """Require that a rebuild refuses a log with a hole in it."""
        self.outcome.checks["refused a hole"] += 1
        version, conf = self.traits.version, self.config.properties
        fresh = self.root / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            rebuild(self.store, fresh, broker_version=version, broker_conf=conf)
        except FormatError:
            return
        raise HistoryError("rebuild", f"says nothing of the hole at {self._hole}")


def _against(theirs: Path, ours: Path) -> list[str]:
    return differences(checks.files_of(ours), checks.files_of(theirs))


@contextlib.contextmanager
def _as_failure(kind: str) -> Iterator[None]:
    """Take an error where there may be none for a failure of that kind.

    Raises:
        HistoryError: in place of any other.
    """
    try:
        yield
    except (HistoryError, BrokerError):
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        raise HistoryError(kind, f"{type(error).__name__}: {error} ({where})") from error


@contextlib.contextmanager
def _small_steps() -> Iterator[None]:
    before = {name: getattr(choosing, name) for name in checks.SMALL_STEPS}
    for name, value in checks.SMALL_STEPS.items():
        setattr(choosing, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(choosing, name, value)


def carry_out(
    history: Sequence[Step], root: Path, jvm: Jvm | None = None
) -> tuple[Outcome, HistoryError | None, int]:
    """Carry out a history in an empty directory.

    Args:
        history: the first step may be `settings`.
        root: the directory; removed after it.
        jvm: whose store classes play the broker; the model if None.

    Returns:
        What was in it, what did not hold, and the number of the step after which that showed.
    """
    settings = history[0] if history and history[0].name == "settings" else step("settings")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    world = World(root, settings, jvm)
    failure: HistoryError | None = None
    done = 0
    try:
        for each in history:
            if each.name != "settings":
                world.do(each)
                world.rest()
            done += 1
        world.end()
    except HistoryError as error:
        failure = error
    finally:
        world.close()
        shutil.rmtree(root, ignore_errors=True)
    return world.outcome, failure, done
