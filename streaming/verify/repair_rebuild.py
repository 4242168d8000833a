"""The rebuild that a repair compares an output with: the output once more, from the log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reput.checkpoints import progress, tails
from reput.checkpoints.disk import changes as disk
from reput.formats.errors import ReputError, StoreError
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.formats.rocketmq.indexfile import Header
from reput.sinks.upkeep.index_head import IndexHead, copy_index_head
from reput.sinks.upkeep.listing import bases_of
from reput.sinks.upkeep.unit_heads import UnitHeads
from reput.stores.following.identity import compare
from reput.stores.log.holes import HoleWatch
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch import live_settings
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.dispatch.resuming import truncation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reput.checkpoints.progress import Progress
    from reput.sinks.upkeep.plan import Plan
    from reput.streaming.settings.config import StoreConfig


class RepairRebuild:
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
        """Open the log, and begin an output in `copy`; `known` is the repaired output's record."""
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
        seen = compare(log, progress.known_log(known), is_thorough=True)
        if seen.damaged is not None:
            path, _ = log.file_of(seen.damaged)
            raise StoreError(
                path,
                "it is not as it was when it was dispatched, though a later file is",
                "Restore it from a replica first: what the output has of it cannot be made from it",
            )
        if not seen.is_same and seen.common is None and not seen.is_related:
            raise other_store(self._config)
        # Queues of which the log has no record keep their ends.
        self._vouched_from = truncation.with_nothing_vouched(known, log).vouched_from
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

        In place, a broker may have continued where the last writer had stopped in order.
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
            values |= self._continued(known)
        return replace(made, **values)

    def _continued(self, known: Progress) -> dict[str, Any]:
        """Return what the output's record said before and the rebuild cannot know."""
        made = self.made
        values: dict[str, Any] = {
            "generation": known.generation + 1,
            "starts": known.starts + 1,
            "recoveries": known.recoveries,
            "truncations": known.truncations + (self._cut is not None),
            "cuts": known.cuts if self._cut is None else truncation.with_cut(known.cuts, self._cut),
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
        return values

    def _expired_places(self, known: Progress) -> list[tuple[int, int]]:
        """Return what was passed over and has expired."""
        floor = self.floor
        return [(start, min(end, floor)) for start, end in known.skipped if start < floor]

    @property
    def restored(self) -> tuple[tuple[int, int], ...]:
        """Return the places that were passed over before and are dispatched now, or in part."""
        skipped = self.known.skipped if self.known is not None else ()
        return tuple(
            (max(start, self.floor), end)
            for start, end in skipped
            if self.floor < end <= self.made.end
            and (max(start, self.floor), end) not in self.made.skipped
        )


def other_store(config: StoreConfig) -> StoreError:
    """Return the error for an output that is of another store."""
    return StoreError(
        config.output,
        f"nothing in it is of the commitlog of {config.path}",
        "It belongs to another store: give that one, or another output",
    )
