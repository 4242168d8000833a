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
from typing import TYPE_CHECKING

from reput.checkpoints import marks, progress, quarantine
from reput.checkpoints.disk import changes as disk
from reput.checkpoints.disk import locks, marking, recording
from reput.formats.errors import FormatError, ReputError, StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.sinks.upkeep.exchange import Exchange
from reput.sinks.upkeep.plan import LOST, MADE, REPLACED, Change, apply
from reput.streaming.dispatch.resuming import resume
from reput.streaming.endings.verdict import Verdict, verdict_of
from reput.streaming.settings.dispatching import Dispatching
from reput.streaming.settings.one_disk import refuse_two_disks
from reput.streaming.settings.separate import refuse_outputs_inside
from reput.streaming.verify.output import verify
from reput.streaming.verify.repair_rebuild import RepairRebuild, other_store

if TYPE_CHECKING:
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
    threads: int = Dispatching.threads,
    fail_on_data_loss: bool = Dispatching.fail_on_data_loss,
    skips_corrupt: bool = Dispatching.skips_corrupt,
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
    _check_places(config)
    with contextlib.ExitStack() as opened:
        copy = _lock(config, opened)
        known = _known(config, result)
        reading = {"fail_on_data_loss": fail_on_data_loss, "skips_corrupt": skips_corrupt}
        rebuild = RepairRebuild(config, copy, known, threads, **reading)
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


def _lock(config: StoreConfig, opened: contextlib.ExitStack) -> Path:
    """Lock the output until `opened` ends; return an empty place in it for the rebuild."""
    staging = config.output / progress.STATE_DIRECTORY
    if config.in_place:
        opened.enter_context(locks.lock_store(config.path))
    disk.make_directories(staging)
    disk.sync_names(staging)
    opened.enter_context(locks.lock_output(staging))
    copy = staging / resume.REPAIR
    disk.remove_tree(copy)
    opened.callback(disk.remove_tree, copy)
    return copy


def _check_places(config: StoreConfig) -> None:
    """Refuse an output that cannot be repaired where it is.

    Raises:
        ReputError: the file or directory.
    """
    _refuse_obstacles(config.output)
    _refuse_brokers(config)
    refuse_two_disks(config.output)
    refuse_outputs_inside(config.output)


def _refuse_obstacles(output: Path) -> None:
    """Refuse what stands in the way of our own files, and a place that has none of them.

    Raises:
        StoreError: the file or directory.
    """
    staging = output / progress.STATE_DIRECTORY
    # `_refuse_brokers` refuses a broker's store.
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


def _exchange(config: StoreConfig, rebuild: RepairRebuild, result: Repair) -> None:
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
        raise other_store(config)
    # What is renamed below is on disk already; this is for what the plan has written into it.
    disk.sync_file_system(output)
    marking.set_repairing(staging)
    marking.set_abort(output, staging)
    apply(output, plan)
    _keep_quarantined(copy, output)
    made = rebuild.progress(plan, output)
    longs = StoreCheckpoint(*made.checkpoint)._replace(
        logics_timestamp=made.logics_timestamp, logics_offset=made.logics_offset
    )
    fields = config.settings.version.checkpoint_fields
    before = _read(output / names.CHECKPOINT)
    marking.write_checkpoint(output, staging, longs, fields)
    if before != _read(output / names.CHECKPOINT):
        what = MADE if before is None else REPLACED
        plan.changes.append(Change(what, output / names.CHECKPOINT, "as the queues say"))
    made = replace(made, checkpoint=tuple(longs[:fields]) + (0,) * (len(longs) - fields))
    recording.save(output, made)
    marking.clear_abort(output)
    marking.clear_repairing(staging)
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
