"""Places of a log that an output has passed over: whether they can be read by now.

A file that was missing or damaged may come back from a replica. What has been dispatched since
stands at other queue offsets than it would with the file's messages, so an output cannot take them
in by itself: `reput rebuild --repair` builds it again, from the log as it is then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.errors import FormatError, ReputError
from reput.formats.rocketmq.batchconsumequeue import inner_batch
from reput.formats.rocketmq.commitlog import Verdict
from reput.formats.rocketmq.further_entries import multi_queues
from reput.sinks.files.queues import QueueDirectory
from reput.stores.log.commitlog import LogChangedError
from reput.stores.log.unreadable import next_record, unfit
from reput.streaming.dispatch.blocks.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.live_settings import LiveSettings

READABLE = "records can be read there now; `reput rebuild --repair` puts them into the output"


class Obstacles:
    """Says why dispatch cannot continue at places of a log."""

    def __init__(self, log: CommitLog, live: LiveSettings, settings: BrokerSettings) -> None:
        """Look at nothing yet.

        Args:
            log: the files.
            live: what the broker's files say of topics.
            settings: the broker's.
        """
        self._log = log
        self._live = live
        self._settings = settings
        self._queues = QueueDirectory(live.needs_slow_path)
        self._pipeline = Pipeline(log, self._queues, settings)

    def at(self, position: int) -> FormatError | None:
        """Return why dispatch cannot continue at a physical offset before the log's end.

        Raises:
            ReputError: the log has changed meanwhile.
            OSError: the device failed.
        """
        try:
            for block in self._pipeline.blocks(position, position + 1):
                for row in np.flatnonzero(block.columns.special[: block.count]).tolist():
                    self.require_queues(block.columns, row)
        except FormatError as error:
            return error
        return None

    def require_queues(self, columns: Columns, row: int) -> None:
        """Refuse a record that cannot be put into all of its queues.

        Args:
            columns: of records of this log.
            row: the record's.

        Raises:
            FormatError: it cannot.
        """
        position, settings = int(columns.physical_offset[row]), self._settings
        record = self._pipeline.record_at(position, int(columns.size[row]))
        system, nested = settings.version.multi_dispatches_system, settings.version.nests_queues
        try:
            if self._live.is_batch(record.topic, record.store_timestamp):
                inner_batch(record.properties)
            elif settings.multi_dispatch:
                further = multi_queues(record, lmq=settings.lmq, system=system, nested=nested)
                for name, _ in further:
                    self._queues.number(*name, nested=nested)
        except (ValueError, ReputError) as error:
            raise unfit(self._log, position, error) from error

    def close(self) -> None:
        """Give its threads back."""
        self._pipeline.close()


def readable(
    log: CommitLog, places: Iterable[tuple[int, int]], obstacles: Obstacles
) -> list[tuple[int, int]]:
    """Return the places of which something can be dispatched now.

    A place that is as it was costs the look at one record.

    Args:
        log: the files, looked at again just now.
        places: physical offsets [start, end) that were passed over.
        obstacles: of this log.

    Raises:
        OSError: the device failed.
    """
    return [place for place in places if _is_readable(log, *place, obstacles)]


def _is_readable(log: CommitLog, start: int, end: int, obstacles: Obstacles) -> bool:
    position = max(start, log.min_offset)
    try:
        while position < min(end, log.end_of_files):
            damage = log.damage_at(position)
            if damage is not None:
                # A place may have several files, of which one is back.
                position = damage.end
                continue
            if not _leads_to(log, position, end):
                return False
            if obstacles.at(position) is None:
                return True
            verdict, following = log.hop(position, position + 1, log.rules)
            if verdict != Verdict.RECORD:
                return False
            position = following
    except LogChangedError:
        # Said by the next look, at what is there then.
        return False
    return False


def _leads_to(log: CommitLog, position: int, end: int) -> bool:
    """Tell whether whole records follow one another from `position` up to `end` exactly.

    Or up to a file that is missing or too short, which is passed over again.
    """
    while position < end:
        if position >= log.end_of_files:
            return False
        if log.damage_at(position) is not None:
            return True
        file_end = log.base_of(position) + log.file_size
        verdict, reached = log.hop(position, min(end, file_end), log.rules)
        if verdict == Verdict.ROLL:
            position = file_end
        elif verdict == Verdict.RECORD:
            position = reached
        else:
            return reached > position and log.damage_at(reached) is not None
    return position == end


def next_after(log: CommitLog, places: Iterable[tuple[int, int]], position: int) -> int | None:
    """Return where records resume after bytes that are not one, within a known place.

    Args:
        log: the files.
        places: physical offsets [start, end) that an output has passed over before.
        position: physical offset at which dispatch cannot continue.

    Returns:
        None if the position is in none of them, or what is wrong there goes beyond it.
    """
    for start, end in places:
        if start <= position < end:
            following = next_record(log, position)
            if following <= end:
                return following
    return None
