"""How far a job got in logs that it was to dispatch to their ends."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from reput.checkpoints import progress
from reput.formats.errors import ReputError
from reput.stores.following.flushed import FlushedEnd
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.streaming.dispatch.log.readable import find_ends
from reput.streaming.dispatch.resuming.first_message import has_no_first_message, is_awaited
from reput.streaming.endings.look import PATIENCE_SECONDS, Look

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reput.streaming.job.summary import StoreSummary, Summary
    from reput.streaming.settings.config import StoreConfig


class Shortfall(NamedTuple):
    """What a job has left undone of one store.

    Attributes:
        name: the store's.
        end: physical offset after what is dispatched, the log's beginning if nothing is.
        log_end: physical offset where the log ends.
        total: bytes that the log has.
        kafka_bytes: of what is dispatched, bytes of log that Kafka does not have yet; None if that
            is not known.
    """

    name: str
    end: int
    log_end: int
    total: int
    kafka_bytes: int | None

    def __str__(self) -> str:
        left = self.log_end - self.end
        said = []
        if left > 0:
            said.append(
                f"dispatched up to physical offset {self.end} of {self.log_end}; {left} of "
                f"{self.total} bytes of the log are left"
            )
        if self.kafka_bytes is None:
            said.append("how much of the log Kafka has is not known")
        if self.kafka_bytes:
            said.append(f"{self.kafka_bytes} bytes of the log have not been sent to Kafka")
        return f"{self.name}: {', and '.join(said)}"


def recorded_ends(configs: Sequence[StoreConfig]) -> list[int]:
    """Return where the records of outputs say that these stand, 0 for a new one.

    Raises:
        ReputError, OSError: one cannot be read, or its disk hangs.
    """
    looks = [
        (Look(partial(progress.load, each.output), PATIENCE_SECONDS), each.output)
        for each in configs
    ]
    found = [look.answer(output) for look, output in looks]
    return [0 if known is None else max(known.end, 0) for known in found]


def shortfalls(
    configs: Sequence[StoreConfig],
    summary: Summary,
    known_ends: Mapping[str, int],
    *,
    is_interrupted: bool,
    only_flushed: bool,
) -> list[Shortfall]:
    """Return the stores of which a job has not dispatched all.

    Args:
        configs: the stores, in the order of the summary.
        summary: what the job has done.
        known_ends: physical offsets where logs ended when the job began, as far as it looked: all
            that a job that was not interrupted has to reach, as a broker may be writing.
        is_interrupted: the logs are looked at once more.
        only_flushed: only what the broker has on disk was to be dispatched.

    Raises:
        ReputError: a log can no longer be opened.
        OSError: a device failed; of a live job, one hangs.
    """
    asked = [
        partial(
            _shortfall, *each, known_ends, is_interrupted=is_interrupted, only_flushed=only_flushed
        )
        for each in zip(configs, summary.stores, strict=True)
    ]
    if summary.is_live:
        # It has to end within a grace period, though a disk may hang by now.
        looks = [
            (Look(look, PATIENCE_SECONDS), config.path)
            for look, config in zip(asked, configs, strict=True)
        ]
        found = [look.answer(place) for look, place in looks]
    else:
        found = [look() for look in asked]
    return [each for each in found if each is not None]


def _shortfall(
    config: StoreConfig,
    store: StoreSummary,
    known_ends: Mapping[str, int],
    *,
    is_interrupted: bool,
    only_flushed: bool,
) -> Shortfall | None:
    """Return what a job has left undone of one store, None for nothing; see `shortfalls`."""
    lag = store.kafka.confirmed_lag if store.kafka is not None else 0
    if not is_interrupted and known_ends.get(store.name, 0) <= store.end and lag == 0:
        return None
    if is_interrupted and has_no_first_message(config):
        return None
    first, end = _ends_of(config, store.end, only_flushed=only_flushed)
    if not is_interrupted:
        end = known_ends.get(store.name, store.end)
    if store.end >= end and lag == 0:
        return None
    return Shortfall(store.name, max(store.end, first), end, end - first, lag)


def may_have_more(config: StoreConfig) -> bool:
    """Tell whether a job that did not begin has left part of a log at rest.

    A log that is being written, or has nothing yet, is left by every job. Of one that cannot be
    looked at nothing is known to be done.
    """
    try:
        return not is_awaited(config) and nobody_writes(config)
    except (ReputError, OSError):
        return True


def nobody_writes(config: StoreConfig) -> bool:
    """Tell whether nothing writes to a log, see `LogFiles.is_quiet`."""
    with contextlib.closing(_log_of(config)) as log:
        return log.is_quiet()


def _log_of(config: StoreConfig) -> CommitLog:
    directories = commitlog_directories(config.path, config.settings)
    return CommitLog(directories, config.settings, config.path)


def _ends_of(config: StoreConfig, done: int, *, only_flushed: bool) -> tuple[int, int]:
    """Return physical offsets where a log begins and ends, as far as that can be told."""
    with contextlib.closing(_log_of(config)) as log:
        try:
            end = find_ends(log).last
            if only_flushed:
                end = FlushedEnd(config.path).before(log, end, done)
        except ReputError:
            # The next run says what is wrong with it, so this is not its end.
            end = log.end_of_files
        # If only a BLANK is left, nothing is.
        return log.min_offset, done if log.after_blank(done) == end else end
