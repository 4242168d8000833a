"""What an output holds once its log was cut: everything up to the last point that both have.

A broker that recovers, or a replica, cuts its log and writes other records at the same offsets. The
output rolls back to the last point of its trail that the log still has. Where all that the trail
knows has expired, the numbers of the next records tell which queues have entries of messages that
are gone. Source: docs/adr/0011-following-the-log.md.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from reput.checkpoints import progress
from reput.checkpoints.disk import marking, recording
from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.sinks.upkeep import rollback
from reput.stores.following.identity import Comparison, compare
from reput.stores.following.known import gone_back, settled
from reput.stores.following.other_store import nothing_in_common
from reput.stores.verify.queue_entries import first_entry
from reput.streaming.dispatch.resuming import recovery
from reput.streaming.events import CORRUPT, GAP, TRUNCATION, Event

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reput.checkpoints.progress import Progress
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.trail import Point
    from reput.streaming.dispatch.resuming.recovery import Recovery
    from reput.streaming.settings.config import StoreConfig

_CUTS = 32


def follow(config: StoreConfig, log: CommitLog, found: Progress, done: Recovery) -> Progress:
    """Return progress that the log agrees with: as it is, or rolled back to where both agree.

    Args:
        config: the store.
        log: its log, looked at again just now.
        found: where the output is; the files hold that, and nobody has them mapped.
        done: gets what was rolled back.

    Raises:
        StoreError: the output is of another log.
    """
    seen = compare(log, progress.known_log(found))
    bases = log.bases
    if not seen.is_same:
        log.refresh()
        if log.bases != bases:
            # Files expired meanwhile: what was in them says nothing of the log.
            seen = compare(log, progress.known_log(found))
    if seen.is_same:
        return still_same(log, found, seen, done.reasons)
    return roll_back(config, log, found, seen, done)


def still_same(log: CommitLog, found: Progress, seen: Comparison, events: list[str]) -> Progress:
    """Return the progress with what is certain now of the log's files; say what is damaged."""
    _say_damage(log, seen, events)
    known = replace(found, files=settled(found.files, seen.certain, log.min_offset))
    return with_nothing_vouched(known, log)


def with_nothing_vouched(found: Progress, log: CommitLog) -> Progress:
    """Return the progress; once all that it knows has expired, with where the log continues.

    See `Progress.vouched_from`.
    """
    if not found.messages or any(file.base >= log.min_offset for file in found.files):
        return found
    return replace(found, vouched_from=max(found.end, log.min_offset))


def _say_damage(log: CommitLog, seen: Comparison, events: list[str]) -> None:
    if seen.damaged is not None:
        path, _ = log.file_of(seen.damaged)
        text = (
            f"{path} is not as it was when it was dispatched, though a later file is: it is "
            "damaged. The output has what was dispatched of it; restore the file from a replica"
        )
        events.append(Event(text, CORRUPT))


def roll_back(
    config: StoreConfig, log: CommitLog, found: Progress, seen: Comparison, done: Recovery
) -> Progress:
    """Roll an output back to where its log is still the same.

    Args:
        config: the store.
        log: its log, as it is now.
        found: where the output is; the files hold that, and nobody has them mapped.
        seen: what has become of the log.
        done: gets what was rolled back.

    Raises:
        StoreError: the output is of another log.
    """
    done.truncations += 1
    _say_damage(log, seen, done.reasons)
    older = _rolled_back(config, log, found, seen, done)
    older = replace(older, cuts=with_cut(found.cuts, max(older.end, 0)))
    text = (
        f"the log was cut and rewritten somewhere after {max(older.end, 0)}; "
        f"what was dispatched of it up to {found.end} is dispatched again"
    )
    done.reasons.append(Event(text, TRUNCATION))
    # Until it is done, no broker may be started on the files.
    marking.set_abort(config.output, config.output / progress.STATE_DIRECTORY)
    # Recorded first: if this is interrupted, the next start continues it. And a checkpoint that is
    # ahead of the queues would make a broker skip what is missing in them.
    recovery.write_checkpoint(config, older)
    recording.save(config.output, older)
    recovery.roll_back_to(config, older, done)
    return older


def with_cut(cuts: tuple[tuple[int, int], ...], position: int) -> tuple[tuple[int, int], ...]:
    """Return the cuts with one more; the two oldest become one where there are many."""
    number = max(time.time_ns(), cuts[-1][0] + 1 if cuts else 0)
    if len(cuts) >= _CUTS:
        (_, first), (later, second), *rest = cuts
        cuts = ((later, min(first, second)), *rest)
    return (*cuts, (number, position))


def _rolled_back(
    config: StoreConfig, log: CommitLog, found: Progress, seen: Comparison, done: Recovery
) -> Progress:
    generation, common = found.generation + 1, seen.common
    if common is None:
        if not seen.is_related:
            raise nothing_in_common(config.output, config.path)
        return _begun_again(config, log, found, done)
    if found.repeated and config.settings.writes_ext:
        # A repeated record has a unit and no entry: nothing says which units are its own.
        return _begun_again(config, log, found, done)
    _require_index(config.output / names.INDEX, found, common.index_name)
    queues = rollback.queues_before(
        config.output, config.settings, found.queues, common.end, found.lasts
    )
    return replace(
        found,
        end=common.end,
        generation=generation,
        clean=False,
        messages=common.messages,
        files=gone_back(found.files, common, config.settings.commitlog_file_size),
        trail=found.trail[: found.trail.index(common) + 1],
        **progress.shortened(found, queues, common.index_name),
        index_name=common.index_name,
        index_header=common.index_header,
        checkpoint=_checkpoint_at(found, common),
        logics_timestamp=common.logics_timestamp,
        logics_offset=common.logics_offset,
        repeated=common.repeated,
        store_timestamp=common.store_timestamp,
        skipped=tuple(gap for gap in found.skipped if gap[0] < common.end),
        passed=tuple(place for place in found.passed if place[0] < common.end),
        lost=tuple(gap for gap in found.lost if gap[0] < common.end),
        vouched_from=min(found.vouched_from, common.end),
    )


def _checkpoint_at(found: Progress, common: Point) -> tuple[int, ...]:
    """Return the longs of the broker's checkpoint file for an output that ends at a point."""
    source = StoreCheckpoint(*found.checkpoint)
    return tuple(
        source._replace(
            logics_timestamp=common.logics_timestamp,
            # Not known without a look at all files; 0 has a broker index from the log's beginning.
            index_timestamp=0,
            logics_offset=common.logics_offset,
        )
    )


def _require_index(directory: Path, found: Progress, name: str) -> None:
    """Refuse to roll back to an index file that was removed since its records had expired.

    One whose records are there was looked for before (`checkpoints.untouched`).

    Raises:
        StoreError: the file.
    """
    known = {found.index_name, *(older for older, _ in found.index_before)}
    if not name or name in known or (directory / name).exists():
        return
    raise StoreError(
        directory / name,
        "this index file was removed when its records had expired, and the log, which was set back "
        "or cut since, ends in them now",
        "`reput rebuild --repair` with the same store and output makes it again from the log",
    )


def _begun_again(config: StoreConfig, log: CommitLog, found: Progress, done: Recovery) -> Progress:
    """Return the progress of an empty output; what cannot be dispatched again is lost, and said."""
    again = replace(
        recovery.beginning(config, found.generation + 1),
        lost=found.lost,
        starts=found.starts,
        recoveries=found.recoveries,
        truncations=found.truncations,
    )
    # The output began in one of these files at the latest: the first that is known, the one in
    # which its first batch ended, or that of its first entry. Those that expired are not known.
    places = [point.record.physical_offset for point in found.trail[:1]]
    places += [file.base for file in found.files[:1]]
    entry = first_entry(config.output, config.settings.consumequeue_file_size)
    places += [entry] if entry is not None else []
    start = min(map(log.base_of, places), default=log.min_offset)
    if start < log.min_offset:
        gap = (start, log.min_offset)
        text = (
            f"the entries of physical offsets {gap[0]} to {gap[1]} are lost: the output begins "
            "again, and these records have expired"
        )
        done.reasons.append(Event(text, GAP))
        again = replace(again, lost=(*again.lost, gap))
    return again


def roll_back_queues(
    config: StoreConfig, found: Progress, numbers: Mapping[str, int], done: Recovery
) -> Progress:
    """Remove entries of messages that are gone from queues whose numbers have gone back.

    The record that shows it is the first of its queue in the log, so the queue continues as in a
    rebuild. All entries that go are of records that have expired.

    Args:
        config: the store.
        found: where the output is; the files hold that, and nobody has them mapped.
        numbers: by queue: queue offset of the first entry that goes.
        done: gets what was rolled back.
    """
    queues = rollback.queues_up_to(config.output, config.settings, found.queues, numbers)
    shorter = replace(
        found,
        generation=found.generation + 1,
        clean=False,
        truncations=found.truncations + 1,
        **progress.shortened(found, queues, found.index_name),
    )
    name, number = min(numbers.items())
    done.truncations += 1
    done.reasons.append(
        Event(
            f"queue offsets go back after physical offset {found.vouched_from}, before which all "
            "that was dispatched has expired: the log was cut there, or topics were made again. "
            f"Entries of messages that are gone were rolled back, in queues: {len(numbers)}. The "
            "first: "
            f"{config.output / name}, from queue offset {number} on",
            TRUNCATION,
        )
    )
    # Recorded first, as in `roll_back`.
    recording.save(config.output, shorter)
    recovery.roll_back_to(config, shorter, done)
    return shorter
