"""`reput rebuild --repair`: mends an output from its log, and leaves alone what is right in it.

The output is built once more, in `.reput/repair` within it, as far as the log reaches, and compared
file by file: what is missing or different is put in its place by a rename. Until all is done the
output is marked, so that nothing continues from a partial repair; if it is interrupted, run it
again. Source: docs/adr/0015-repair.md.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reput.checkpoints import marks, progress, quarantine, tails
from reput.checkpoints.disk import changes as disk
from reput.checkpoints.disk import locks
from reput.formats.errors import FormatError, ReputError, StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.formats.rocketmq.indexfile import Header
from reput.sinks.upkeep.exchange import Exchange
from reput.sinks.upkeep.index_head import IndexHead, copy_index_head
from reput.sinks.upkeep.listing import bases_of
from reput.sinks.upkeep.plan import LOST, MADE, REPLACED, Change, Plan, apply
from reput.sinks.upkeep.unit_heads import UnitHeads
from reput.stores.following.identity import compare
from reput.stores.log.holes import HoleWatch
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch import live_settings, resume
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.endings.verdict import Verdict, verdict_of
from reput.streaming.settings.one_disk import refuse_two_disks
from reput.streaming.settings.separate import refuse_outputs_inside
from reput.streaming.verify.output import verify

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reput.checkpoints.progress import Progress
    from reput.stores.findings import Report
    from reput.streaming.settings.config import StoreConfig

_PROGRESS = f"{progress.STATE_DIRECTORY}/{progress.FILE_NAME}"


@dataclass
class Repair:
    """What a repair did.

    Attributes:
        changes: files made, replaced and removed, and what of expired records is lost.
        kept: files that were right.
        restored: physical offsets [start, end) that had been passed over and are dispatched now,
            as far as they can be read.
        record: what was wrong with the progress record, "" for nothing.
        settings: what was wrong with the record of types and filters, "" for nothing.
        end: physical offset after the last dispatched record.
        messages: records dispatched, see `Progress.messages`.
        report: of `reput verify`, after it.
        failure: where the log could not be read any further; the output is repaired up to there.
        seconds: wall time.
    """

    changes: list[Change] = field(default_factory=list)
    kept: int = 0
    restored: tuple[tuple[int, int], ...] = ()
    record: str = ""
    settings: str = ""
    end: int = 0
    messages: int = 0
    report: Report | None = None
    failure: ReputError | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Tell whether the output is sound now, and lacks nothing of what its log has."""
        report = self.report
        return report is not None and report.ok and report.is_complete and self.failure is None

    @property
    def verdict(self) -> Verdict:
        """Return what the verification came to; incomplete where it, or the repair, ended early."""
        verdict = Verdict.INCOMPLETE if self.report is None else verdict_of(self.report)
        if verdict != Verdict.DAMAGED and self.failure is not None:
            return Verdict.INCOMPLETE
        return verdict


def repair(
    config: StoreConfig,
    *,
    threads: int = 2,
    fail_on_data_loss: bool = True,
    skips_corrupt: bool = False,
) -> Repair:
    """Make an output hold what its log gives, up to the log's end.

    Args:
        config: the store and the output.
        threads: that parse.
        fail_on_data_loss: see `StoreDispatcher`.
        skips_corrupt: likewise; what the output has passed over before, and still cannot be read,
            is passed over again in any case.

    Raises:
        ReputError: the store or the output cannot be repaired; the output is as it was.
        OSError: no permission, no space, the device failed.
    """
    began = time.monotonic()
    result = Repair()
    staging = config.output / progress.STATE_DIRECTORY
    _check_places(config.output)
    _refuse_brokers(config)
    refuse_two_disks(config.output)
    refuse_outputs_inside(config.output)
    with contextlib.ExitStack() as opened:
        if config.in_place:
            opened.enter_context(locks.lock_store(config.path))
        disk.make_directories(staging)
        disk.sync_names(staging)
        opened.enter_context(locks.lock_output(staging))
        known = _known(config, result)
        copy = staging / resume.REPAIR
        disk.remove_tree(copy)
        opened.callback(disk.remove_tree, copy)
        rebuild = _Rebuild(
            config,
            copy,
            known,
            threads,
            fail_on_data_loss=fail_on_data_loss,
            skips_corrupt=skips_corrupt,
        )
        result.settings = rebuild.lost_settings
        result.failure = rebuild.run()
        _exchange(config, rebuild, result)
    try:
        result.report = verify(config)
    except FormatError as error:
        # An error in the log itself, after the output's end.
        result.failure = result.failure or error
    result.seconds = time.monotonic() - began
    return result


def _check_places(output: Path) -> None:
    """Refuse what stands in the way of our own files, and a place that has none of them.

    Raises:
        StoreError: the file or directory.
    """
    staging = output / progress.STATE_DIRECTORY
    # A broker's store is refused for what it is.
    there = (staging.name, names.COMMITLOG, *names.DISPATCHED)
    if not any(os.path.lexists(output / kind) for kind in there):
        raise StoreError(
            output,
            "there is no output to repair",
            "Check the path; `reput rebuild` makes a new one",
        )
    directories = (output, staging, staging / resume.REPAIR, staging / quarantine.DIRECTORY)
    files = (output / names.CHECKPOINT, output / names.ABORT, output / _PROGRESS)
    for path in directories:
        if os.path.lexists(path) and not path.is_dir():
            raise StoreError(path, "a file stands where a directory belongs", "Move it away")
    for path in files:
        if path.is_dir():
            raise StoreError(path, "a directory stands where a file belongs", "Move it away")


def _refuse_brokers(config: StoreConfig) -> None:
    """Refuse a broker's own files, before anything is made beside them.

    Raises:
        StoreError: they are not ours, or nothing says that they are.
    """
    output = config.output
    if not config.in_place and (output / names.COMMITLOG).exists():
        raise StoreError(
            output / names.COMMITLOG,
            "the output is a broker's store, not one that reput wrote",
            "Give the directory that reput wrote to, or --in-place for the store itself",
        )
    if (
        config.in_place
        and not os.path.lexists(output / _PROGRESS)
        and any((output / kind).exists() for kind in names.DISPATCHED)
        and not marks.is_repairing(output / progress.STATE_DIRECTORY)
    ):
        raise StoreError(
            output / _PROGRESS,
            "no such file: these may be the broker's own queues",
            "Move consumequeue, index and the other dispatched directories away, and rebuild",
        )


def _known(config: StoreConfig, result: Repair) -> Progress | None:
    """Return the output's progress record, None if it has none that can be read.

    Raises:
        StoreError: it was written with other settings.
    """
    output = config.output
    try:
        found = progress.load(output)
    except FormatError as error:
        result.record = str(error)
        return None
    if found is not None:
        resume.check_settings(config, found)
        return found
    if not any((output / kind).exists() for kind in names.DISPATCHED):
        return None
    result.record = "no such file"
    return None


class _Rebuild:
    """The output once more, in a directory of its own.

    Attributes:
        copy: its root.
        floor: physical offset where it begins.
        head: what the output has of expired records in its index.
        made: its progress record.
        messages: records dispatched in all, see `Progress.messages`.
        known: the output's own progress record.
        lost_settings: what was wrong with its record of types and filters, "" for nothing.
    """

    def __init__(
        self,
        config: StoreConfig,
        copy: Path,
        known: Progress | None,
        threads: int,
        *,
        fail_on_data_loss: bool,
        skips_corrupt: bool,
    ) -> None:
        self._config = config
        self._skips_corrupt = skips_corrupt
        self.copy = copy
        self.known = known
        self.head = IndexHead()
        self.messages = 0
        # Where the output's log was found cut, None if it was not.
        self._cut: int | None = None
        # See `Progress.vouched_from`.
        self._vouched_from = 0
        disk.make_directories(copy / progress.STATE_DIRECTORY)
        # Records get the types and filters that the broker had when it dispatched them.
        self.lost_settings = live_settings.copy(config.path, config.output, copy, config.settings)
        self._dispatcher = StoreDispatcher(
            replace(config, output=copy, in_place=False, kafka=None),
            threads=threads,
            fail_on_data_loss=fail_on_data_loss,
            skips_corrupt=skips_corrupt,
        )
        self.floor = self._dispatcher.log.min_offset
        self.made = self._dispatcher.progress

    def run(self) -> ReputError | None:
        """Dispatch all that the log has; return what ended it early.

        Raises:
            ReputError: it ended before the place that the output has reached.
        """
        dispatcher, known = self._dispatcher, self.known
        failure: ReputError | None = None
        try:
            if known is not None:
                self._check_log(known)
            passed = known.skipped if known is not None else ()
            dispatcher.begin_with(self._beginning(), passed)
            try:
                holes = HoleWatch(dispatcher.log) if passed or self._skips_corrupt else None
                end = find_tail(dispatcher.log, skips_corrupt=True, holes=holes).end
                if known is not None and self.floor:
                    restored = self._dispatch_places(passed, min(known.end, end))
                    dispatcher.dispatch(min(known.end, end))
                    # Messages that have expired since.
                    found = dispatcher.progress.messages - restored
                    self.messages = max(known.messages - found, 0)
                dispatcher.dispatch(end)
            except ReputError as error:
                if known is None or dispatcher.progress.end < known.end:
                    raise
                failure = error
        finally:
            dispatcher.close()
        self.made = dispatcher.progress
        self.messages += self.made.messages
        return failure

    def _dispatch_places(self, places: tuple[tuple[int, int], ...], end: int) -> int:
        """Dispatch up to the last place that had been passed over; return the messages in them."""
        dispatcher = self._dispatcher
        count = 0
        for start, stop in places:
            if stop <= end:
                dispatcher.dispatch(start)
                before = dispatcher.progress.messages
                dispatcher.dispatch(stop)
                count += dispatcher.progress.messages - before
        return count

    def _check_log(self, known: Progress) -> None:
        """Refuse a log from which the output's entries cannot be made again."""
        log = self._dispatcher.log
        seen = compare(log, resume.known_log(known), is_thorough=True)
        if seen.damaged is not None:
            path, _ = log.file_of(seen.damaged)
            raise StoreError(
                path,
                "it is not as it was when it was dispatched, though a later file is",
                "Restore it from a replica first: what the output has of it cannot be made from it",
            )
        if not seen.is_same and seen.common is None and not seen.is_related:
            raise _other_store(self._config)
        # Queues of which the log has no record keep their ends.
        self._vouched_from = resume.with_nothing_vouched(known, log).vouched_from
        if not seen.is_same:
            self._cut = max(seen.common.end, 0) if seen.common is not None else 0

    def _beginning(self) -> Progress:
        """Return where the rebuild begins, with what is left of expired records in its files."""
        begins = self._dispatcher.progress
        known, output, settings = self.known, self._config.output, self._config.settings
        if known is not None:
            begins = replace(
                begins,
                end=min(known.end, self.floor) if known.end >= 0 else -1,
            )
        if not self.floor:
            return begins
        staging = self.copy / progress.STATE_DIRECTORY
        if settings.writes_index and (self.recorded or not self._is_complete):
            self.head = copy_index_head(
                output, self.copy, staging, settings, self.floor, self.recorded
            )
        heads = UnitHeads(output, self.copy, staging, settings, self.floor, self.is_beyond)
        heads.copy_batches()
        if settings.writes_ext:
            heads.copy_extensions(self.ends)
        longs = StoreCheckpoint()._replace(index_timestamp=self._index_end_before())
        return replace(begins, checkpoint=tuple(longs))

    @property
    def ends(self) -> Mapping[str, int]:
        """Return where queues should end, as far as that was recorded."""
        return self.known.queues if self.known is not None else {}

    @property
    def _is_complete(self) -> bool:
        """Tell whether the record names all that was dispatched.

        In place, a broker may have gone on where the last writer had stopped in order.
        """
        known = self.known
        return known is not None and not (known.clean and self._config.in_place)

    def is_beyond(self, name: str) -> bool:
        """Tell whether a queue is beyond the record: nothing says that the log had its entries.

        As at a start (`sinks.upkeep.rollback.restore`), nothing of it is kept. Whatever has expired
        of it may be of a log that was cut, or records after it may have expired as well.
        """
        return self._is_complete and name not in self.ends

    def _index_end_before(self) -> int:
        """Return when the index file ended that the copied one follows, ms; 0 if nothing says it.

        As at a start: the file before it says so, or else the record does.
        """
        known, copied = self.known, self.head.copied
        if self.head.flushed_timestamp or known is None or not copied:
            return self.head.flushed_timestamp
        if copied == known.index_name:
            return StoreCheckpoint(*known.checkpoint).index_timestamp
        older = max((name for name in self.recorded if name < copied), default="")
        return self.recorded[older].end_timestamp if older else 0

    @property
    def recorded(self) -> dict[str, Header]:
        """Return the index files that were recorded."""
        known = self.known
        if known is None:
            return {}
        found = {name: Header(*values) for name, values in known.index_before}
        if known.index_name:
            found[known.index_name] = Header(*known.index_header)
        return found

    def progress(self, plan: Plan, root: Path) -> Progress:
        """Return the record of the output, once the files are exchanged."""
        made, known = self.made, self.known
        called, settings = plan.index_names, self._config.settings
        queues = plan.queues | made.queues
        lasts = known.lasts if known is not None else {}
        older = known.queues if known is not None else {}
        lasts = {n: lasts[n] for n in plan.queues if n in lasts and older.get(n) == plan.queues[n]}
        firsts = {name: bases[0] for name in queues if (bases := bases_of(root / name))}
        values: dict[str, Any] = {
            "clean": True,
            "messages": self.messages,
            "queues": queues,
            "lasts": made.lasts | lasts,
            "firsts": {name: first for name, first in firsts.items() if first},
            "tails": {} if self._config.in_place else tails.read(root, queues, settings),
            "index_name": called.get(made.index_name, made.index_name),
            "index_before": tuple((called[name], header) for name, header in made.index_before),
            "trail": tuple(
                replace(point, index_name=called.get(point.index_name, "")) for point in made.trail
            ),
            "generation": made.generation,
        }
        if known is not None:
            values |= {
                "generation": known.generation + 1,
                "starts": known.starts + 1,
                "recoveries": known.recoveries,
                "truncations": known.truncations + (self._cut is not None),
                "cuts": (
                    known.cuts if self._cut is None else resume.with_cut(known.cuts, self._cut)
                ),
                "repeated": max(known.repeated, made.repeated) if self.floor else made.repeated,
                "skipped": (*self._expired_places(known), *made.skipped),
                "lost": (*known.lost, *made.lost),
                "vouched_from": max(known.vouched_from, self._vouched_from),
            }
            if not made.logics_timestamp:
                values |= {
                    "logics_timestamp": known.logics_timestamp,
                    "logics_offset": known.logics_offset,
                }
        return replace(made, **values)

    def _expired_places(self, known: Progress) -> list[tuple[int, int]]:
        """Return what was passed over and has expired."""
        floor = self.floor
        return [(start, min(end, floor)) for start, end in known.skipped if start < floor]

    @property
    def restored(self) -> tuple[tuple[int, int], ...]:
        """Return what was passed over before and is not any longer, or only in part."""
        skipped = self.known.skipped if self.known is not None else ()
        return tuple(
            (max(start, self.floor), end)
            for start, end in skipped
            if self.floor < end <= self.made.end
            and (max(start, self.floor), end) not in self.made.skipped
        )


def _other_store(config: StoreConfig) -> StoreError:
    return StoreError(
        config.output,
        f"nothing in it is of the commitlog of {config.path}",
        "It belongs to another store: give that one, or another output",
    )


def _exchange(config: StoreConfig, rebuild: _Rebuild, result: Repair) -> None:
    """Put the rebuild's files in place of what is missing or different, and record it."""
    output, copy = config.output, rebuild.copy
    staging = output / progress.STATE_DIRECTORY
    known = rebuild.known
    work = Exchange(
        output,
        copy,
        config.settings,
        rebuild.floor,
        rebuild.ends,
        rebuild.is_beyond,
    )
    plan = work.plan(rebuild.made.queues, rebuild.head, rebuild.recorded)
    if known is None and not plan.has_common and not marks.is_repairing(staging):
        raise _other_store(config)
    # What is renamed below is on disk already; this is for what the plan has written into it.
    disk.sync_file_system(output)
    marks.set_repairing(staging)
    marks.set_abort(output, staging)
    apply(output, plan)
    _keep_quarantined(copy, output)
    made = rebuild.progress(plan, output)
    longs = StoreCheckpoint(*made.checkpoint)._replace(
        logics_timestamp=made.logics_timestamp, logics_offset=made.logics_offset
    )
    fields = config.settings.version.checkpoint_fields
    before = _read(output / names.CHECKPOINT)
    marks.write_checkpoint(output, staging, longs, fields)
    if before != _read(output / names.CHECKPOINT):
        what = MADE if before is None else REPLACED
        plan.changes.append(Change(what, output / names.CHECKPOINT, "as the queues say"))
    made = replace(made, checkpoint=tuple(longs[:fields]) + (0,) * (len(longs) - fields))
    progress.save(output, made)
    marks.clear_abort(output)
    marks.clear_repairing(staging)
    result.changes = plan.changes
    result.kept = plan.kept
    result.restored = rebuild.restored
    result.end, result.messages = made.end, made.messages


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _keep_quarantined(copy: Path, output: Path) -> None:
    """Keep the copies of what was passed over in the log."""
    source = copy / progress.STATE_DIRECTORY / quarantine.DIRECTORY
    target = output / progress.STATE_DIRECTORY / quarantine.DIRECTORY
    if source.is_dir():
        disk.make_directories(target)
        for path in sorted(source.iterdir()):
            disk.rename(path, target / path.name)
        disk.sync_directory(target)
        disk.sync_directory(target.parent)


__all__ = ["LOST", "Change", "Repair", "repair"]
