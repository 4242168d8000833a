"""Says whether a broker may be started on a store with the files of an output in place of its own.

A broker believes the consume queues that it finds. It fills in what is missing in them by rules of
its own, which lose a message if a store was closed in order and its queues end in the middle of a
commitlog file (5.5.0: exactly one, and its queue stays one off). So the handed-over output must be
complete to the log's end. Source: spec DISPATCH §2.1, docs/reliability.md.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reput.checkpoints import marks, progress
from reput.checkpoints.disk import locks
from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.batchconsumequeue import QUEUE_TYPE
from reput.stores.config.topics import TOPICS, batch_topics_for
from reput.stores.findings import Kind, left_out
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.holes import HoleWatch, flaw_after
from reput.stores.log.places import unmounted
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.live_settings import LiveSettings
from reput.streaming.dispatch.log.damage import explained
from reput.streaming.dispatch.log.passed import Obstacles, readable
from reput.streaming.endings.verdict import Verdict, verdict_of
from reput.streaming.verify.output import obstacle, verify
from reput.streaming.verify.version_seen import of_another_version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reput.checkpoints.progress import Progress
    from reput.formats.errors import FormatError
    from reput.stores.findings import Report
    from reput.streaming.settings.config import StoreConfig


@dataclass
class Handover:
    """The answer, and what it rests on.

    Attributes:
        problems: why not, each with what to do; none: it is safe.
        places: what to put in place of the store's own files.
        commands: for a shell, in this order, if it is safe: they keep the store's own files, put
            the output's in their place, and flush all of it.
        report: of `reput verify`.
        is_damaged: something is wrong; otherwise something is only missing.
        end: physical offset where the log ends; that of a safe output too.
        seconds: that it took.
    """

    problems: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    report: Report | None = None
    is_damaged: bool = False
    end: int = 0
    seconds: float = 0.0

    @property
    def is_safe(self) -> bool:
        """Tell whether nothing speaks against it."""
        return not self.problems

    @property
    def verdict(self) -> Verdict:
        """Return what the problems come to: wrong files, or only missing entries."""
        if self.is_safe:
            return Verdict.SOUND
        return Verdict.DAMAGED if self.is_damaged else Verdict.INCOMPLETE


def _place(flaw: FormatError) -> str:
    return f"{flaw.path} at byte {flaw.position}: {flaw.problem}"


def _passed_over(place: tuple[int, int], *, is_readable: bool) -> str:
    what = f"physical offsets {place[0]} to {place[1]} were passed over as corrupt or missing"
    if is_readable:
        return (
            f"{what}, and records can be read there now: run `reput rebuild --repair`, which puts "
            "them into the output"
        )
    return (
        f"{what}: a broker cuts its log there when it recovers; restore the file from a replica "
        "and run `reput rebuild --repair`"
    )


def _without_entry(report: Report) -> str:
    """Return what a broker that gets the output lacks in its queues, though its log has it."""
    kept = (each for each in report.notes if each.kind == Kind.REPEATED)
    first = next((f" The first queue: {each.path}: {each.detail}." for each in kept), "")
    return (
        f"{left_out(report.repeated)}: a topic was deleted and made again, or a broker gave "
        f"numbers twice.{first} The broker that wrote the messages may have the entries in its own "
        "queues: keep those, or read the messages with spark.read first. Once the messages have "
        "expired this no longer counts"
    )


def _left_open(output: Path) -> str:
    """Return why an output was not closed, and what to do."""
    writer = locks.holder_of(output / progress.STATE_DIRECTORY)
    if writer:
        return f"{writer} is writing; stop it first"
    failure = marks.failure(output)
    if failure:
        return f"its last writer failed: {failure}; see to that, then run reput rebuild once more"
    return "its last writer was killed; run reput rebuild once more"


class _LogSeen(NamedTuple):
    """What the log says.

    Attributes:
        continues_at: physical offset at which dispatch continues.
        is_short: the output ends before the log.
        flaw: what stands after the log's end, None for nothing.
        passed_over: places that the output has passed over, those that have expired left out.
        again: those of them that can be read by now.
        said: files and bytes that verify need not report once more.
    """

    continues_at: int
    is_short: bool
    flaw: FormatError | None
    passed_over: list[tuple[int, int]]
    again: Sequence[tuple[int, int]]
    said: list[tuple[str, int]]


def examine(config: StoreConfig) -> Handover:
    """Examine a store and an output, or a store that was written in place.

    Raises:
        ReputError: the store or the output cannot be read at all.
    """
    began = time.monotonic()
    result = Handover()
    was_killed = _ask_store(config, result)
    found = _ask_record(config, result)
    other = of_another_version(config)
    if other is not None:
        result.problems.append(other)
    seen = _look_at_log(config, found, result)
    stop = _ask_reach(config, found, seen, result)
    wrong = _wrong_types(config)
    result.problems += wrong
    result.report = verify(config)
    verdict = verdict_of(result.report)
    result.is_damaged = bool(wrong or other) or was_killed or verdict == Verdict.DAMAGED
    flaws = [(each.path, each.position) for each in (stop, seen.flaw) if each is not None]
    result.problems += _found_by_verify(result.report, [*seen.said, *flaws])
    if config.output.resolve() != config.path.resolve():
        kinds = (*names.DISPATCHED, names.CHECKPOINT)
        result.places = [kind for kind in kinds if (config.output / kind).exists()]
    if result.is_safe and result.places:
        result.commands = _commands(config, result.places)
    result.seconds = time.monotonic() - began
    return result


def _ask_store(config: StoreConfig, result: Handover) -> bool:
    """Refuse a store that a broker holds; tell whether its broker was killed."""
    store = config.path
    if locks.is_held(store / names.LOCK):
        raise StoreError(
            store / names.LOCK,
            "a broker holds this store's lock",
            "Stop it first: what it appends now would be missing in what is handed over",
        )
    if config.in_place or not (store / names.ABORT).exists():
        return False
    result.problems.append(
        f"{store / names.ABORT} is there: the broker was killed, and will recover when it "
        "starts: it reads the last files again and throws its newest index file away. Remove "
        "abort once this command finds nothing else"
    )
    return True


def _ask_record(config: StoreConfig, result: Handover) -> Progress:
    """Return the output's progress record; an output that was not closed is a problem."""
    output = config.output
    found = progress.load(output)
    if found is None:
        raise StoreError(output, "reput has not written this output", "Run reput rebuild first")
    if not found.clean or marks.has_abort(output):
        result.problems.append(f"{output}: {_left_open(output)}")
    return found


def _look_at_log(config: StoreConfig, found: Progress, result: Handover) -> _LogSeen:
    """Look for the log's end, and at the places that the output has passed over."""
    store, settings = config.path, config.settings
    log = CommitLog(commitlog_directories(store, settings), settings, store)
    try:
        floor = log.min_offset
        result.problems += [f"{path}: {said}" for path, said in unmounted(store, settings, floor)]
        result.end = find_tail(log, skips_corrupt=True, holes=HoleWatch(log)).end
        flaw = flaw_after(log, result.end)
        live = LiveSettings(store, config.output, settings)
        live.begin(found.store_timestamp if found.messages else None)
        with contextlib.closing(Obstacles(log, live, settings)) as obstacles:
            again = readable(log, found.skipped, obstacles)
        # No broker meets what has expired since; verify finds what it did to queues.
        passed_over = [place for place in found.skipped if place[1] > floor]
        said = [log.file_of(max(start, floor)) for start, _ in passed_over]
        # The end is -1 if nothing is dispatched.
        continues_at = max(found.end, floor)
        is_short = log.after_blank(found.end) < result.end
        if is_short:
            said.append(log.file_of(continues_at))
        names_said = [(str(path), byte) for path, byte in said]
        return _LogSeen(continues_at, is_short, flaw, passed_over, again, names_said)
    finally:
        log.close()


def _ask_reach(
    config: StoreConfig, found: Progress, seen: _LogSeen, result: Handover
) -> FormatError | None:
    """Add what the output lacks of the log; return what stops dispatch, None for nothing."""
    stop = None
    if seen.is_short:
        stop = obstacle(config, seen.continues_at)
        reach = f"ends at {found.end}" if found.end >= 0 else "has nothing of the log yet"
        result.problems.append(
            f"the output {reach}, the log ends at {result.end}: a broker may lose what is missing; "
            + ("run reput rebuild once more" if stop is None else _stopped_at(config, stop))
        )
    if seen.flaw is not None:
        result.problems.append(
            f"{_place(seen.flaw)}: restore the file from a replica, then run reput rebuild"
        )
    result.problems += [
        _passed_over(place, is_readable=place in seen.again) for place in seen.passed_over
    ]
    return stop


def _found_by_verify(report: Report, said: list[tuple[str, int]]) -> list[str]:
    """Return the problems that verify has found, but for places that were said already."""
    problems = [
        f"{lack.path} at byte {lack.position}: {lack.detail}: restore the file from a replica, "
        "then run reput rebuild"
        for lack in report.lacks
        if (lack.path, lack.position) not in said
    ]
    problems += [
        f"{finding.path}, byte {finding.position}: {finding.detail}. A broker cuts its log there "
        "when it recovers, and what comes after it is lost: set the store up from a replica, or "
        "read the messages with spark.read first"
        for finding in report.findings
        if finding.kind == Kind.UNREADABLE
    ]
    if report.shifted:
        # The report keeps only the first of many findings.
        kept = (each for each in report.findings if each.kind == Kind.SHIFTED)
        first = next((f". The first: {e.path}, byte {e.position}: {e.detail}" for e in kept), "")
        problems.append(
            "queues whose entries stand before the places that their records name: "
            f"{report.shifted}{first}"
        )
    if report.repeated:
        problems.append(_without_entry(report))
    others = report.found - report.shifted
    if others:
        problems.append(f"reput verify has {others} findings; look at them, then rebuild")
    return problems


def _commands(config: StoreConfig, places: Sequence[str]) -> list[str]:
    """Return what to type to put an output's files in place of a store's own, which are kept."""
    store = config.path.resolve()
    own = [kind for kind in (*names.DISPATCHED, names.CHECKPOINT) if (store / kind).exists()]
    kept, number = store / "before-reput", 1
    while kept.exists():
        number += 1
        kept = store / f"before-reput-{number}"
    lines = []
    if own:
        lines.append(["mkdir", kept])
        lines.append(["mv", "-n", *(store / kind for kind in own), kept])
    lines.append(["mv", "-n", *(config.output.resolve() / kind for kind in places), store])
    # The broker may run as another user than reput does.
    owner = f"--reference={store / names.COMMITLOG}"
    lines.append(["chown", "-R", owner, *(store / kind for kind in places)])
    lines.append(["sync", "-f", store])
    return [shlex.join(map(str, line)) for line in lines]


def _stopped_at(config: StoreConfig, stop: FormatError) -> str:
    """Return where dispatch cannot continue, and what to do about it."""
    said = explained(stop, config)
    remedy = said.remedy if said is not None else "Restore the file from a replica"
    return (
        f"{_place(stop)}. {remedy.rstrip('.')}. A broker that recovers cuts away what is left out "
        "there, with all that follows. So such an output is for queries and DataFrames, and is not "
        "handed over"
    )


def _wrong_types(config: StoreConfig) -> list[str]:
    """Return the queues that a broker would refuse to start on: their type is not their topic's.

    RocketMQ `ConsumeQueueStore#queueTypeShouldBe`. A broker removes a topic's queues when the topic
    is deleted; in an output they stay.
    """
    if not config.settings.version.has_batch_queues:
        return []
    batch = batch_topics_for(config.path, config.settings)
    problems = []
    for kind, is_batch in ((names.CONSUMEQUEUE, False), (names.BATCH_CONSUMEQUEUE, True)):
        directory = config.output / kind
        topics = sorted(path for path in directory.iterdir()) if directory.is_dir() else []
        problems += [
            f"{path}: the topic is {'not ' if is_batch else ''}of type {QUEUE_TYPE} by "
            f"{config.path / names.CONFIG / TOPICS}, and a broker does not start on such a "
            "queue. If the topic was deleted and made again, remove this directory; else rebuild"
            for path in topics
            if (path.name in batch) != is_batch
        ]
    return problems
