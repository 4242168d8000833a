"""Compares index files with the keys of the log, both walked in lockstep.

Where an item is not the one that the log's next key gives, `stores.verify.index.parting` says why
and where to resume.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from reput.formats.kernels.indexfile import State
from reput.formats.rocketmq import indexfile
from reput.formats.rocketmq.indexfile import FIRST_ITEM, ITEM_SIZE
from reput.stores.findings import Kind
from reput.stores.following.lost_places import LostPlaces
from reput.stores.verify.index.kernels import DONE, FULL, PARTED, WINDOW, compare, pass_expired
from reput.stores.verify.index.lost import LostItems
from reput.stores.verify.index.parting import Parting, Place
from reput.stores.verify.index.replay import IndexReplay
from reput.stores.verify.index.tags import TagSwitch, find_change

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.indexfile import Item
    from reput.stores.findings import Report, Scope
    from reput.stores.verify.index.parting import Records


class IndexCheck:
    """All index files of one output root."""

    def __init__(
        self,
        root: Path,
        settings: BrokerSettings,
        scope: Scope,
        report: Report,
        records: Records,
        lost: LostPlaces | None = None,
        end_before: int | None = None,
    ) -> None:
        """Look at the files.

        Args:
            root: the output root.
            settings: slots and items of a file.
            scope: which records count.
            report: gets what is found.
            records: the log.
            lost: places of it that cannot be read.
            end_before: where the oldest file follows one that has expired: its end timestamp, ms,
                0 if there was none, None if nothing tells.
        """
        self._replay = IndexReplay(root, settings, scope, report)
        self._lost = LostItems(self._replay, lost or LostPlaces(), report)
        self._scope = scope
        self._report = report
        self._records = records
        self._parting = Parting(self._replay, scope, report, records, self._lost, end_before)
        self._switch = TagSwitch(self._replay, records, None)

    def run(self) -> list[int]:
        """Compare all files; return the end timestamps of those that are full, oldest first."""
        if not self._scope.is_ours:
            self._find_change()
        self._pass_expired()
        place: Place | None = Place(self._scope.floor)
        while place is not None:
            self._switch.begin_leg()
            place = self._walk(place)
            if self._parting.is_hopeless:
                path, position = self._replay.here()
                self._report.add(Kind.WRONG_BYTES, path, position, "too many differences: given up")
                break
        replay = self._replay
        if replay.has_next() and (self._lost.opens_empty() or self._is_of_expired()):
            replay.open_next()
        replay.close_file()
        for path in replay.files[replay.opened :]:
            if self._scope.is_ours and self._scope.tolerates_leftovers:
                detail = f"a file after the last one, {self._report.left_by}"
                self._report.note(Kind.SURPLUS, path, 0, detail)
            else:
                self._report.add(Kind.SURPLUS, path, 0, "a file after the last one of the log")
        self._report.end_runs()
        return replay.full_ends

    def head(self) -> IndexReplay:
        """Go past the items of expired records; return the index as it was at the log's start."""
        self._pass_expired()
        return self._replay

    @property
    def file_count(self) -> int:
        """Return how many files there are."""
        return len(self._replay.files)

    @property
    def oldest_begin(self) -> int:
        """Return the begin timestamp in the oldest file's header, ms; 0 for no file."""
        return self._replay.oldest_begin

    def _find_change(self) -> None:
        """Look for the place where the broker was upgraded, and say where it is."""
        replay = self._replay
        change = find_change(replay.files, replay.settings, self._scope, self._records)
        self._switch = TagSwitch(replay, self._records, change)
        if change is None:
            return
        begin = f"before item {change.number} of this file, up to physical offset {change.position}"
        if replay.settings.version.indexes_tags:
            kind = Kind.MISSING
            detail = f"{begin}, the index has no items for tags: brokers before 5.4 write none"
        else:
            kind = Kind.SURPLUS
            detail = f"{begin}, the index has items for tags: brokers from 5.4 on write them"
        byte = indexfile.item_position(change.number, replay.settings.index_slots)
        self._report.note(kind, replay.files[change.opened - 1], byte, detail)

    def _pass_expired(self) -> None:
        """Go past the items of records that the log no longer has."""
        floor, replay = self._scope.floor, self._replay
        while (first := replay.peek()) is not None and 0 <= first.physical_offset < floor:
            reader = replay.open_next()
            header = reader.header()
            replay.unknown_begin = True
            # The only witness; the items of records that are there still prove it.
            replay.state[State.BEGIN_TIMESTAMP] = header.begin_timestamp
            while self._pass_window():
                if replay.is_full:
                    break
            self._report.unverifiable += replay.number - FIRST_ITEM
            replay.unknown_end = replay.number - 1
            replay.state[State.END_TIMESTAMP] = header.end_timestamp
            if not replay.is_full:
                return

    def _is_of_expired(self) -> bool:
        """Tell whether the next file has no item because an expired record, without keys, began it.

        A record that is still there would have been compared with it.
        """
        replay, scope = self._replay, self._scope
        return replay.is_full and replay.peek() is None and 0 < scope.floor >= scope.end

    def _pass_window(self) -> bool:
        """Pass the expired items that have been read; False at the first other one."""
        replay = self._replay
        reader = replay.reader
        if reader is None:
            return False
        floor = self._scope.floor
        window = (reader.window, reader.window_first, reader.window_end)
        verdict = pass_expired(*window, floor, replay.slots, replay.state)
        if verdict == WINDOW:
            reader.load(replay.number)
            return True
        item, following = replay.item(replay.number), replay.item(replay.number + 1)
        if verdict == PARTED and item is not None:
            self._parting.differs(Kind.BROKEN_CHAIN, item, replay.expected(item.key_hash, 0, 0))
        elif item is None or following is None or following.physical_offset >= floor:
            return False
        else:
            self._parting.differs(Kind.WRONG_BYTES, item, item)
        replay.advance(item, None)
        return True

    def _walk(self, place: Place) -> Place | None:
        """Compare from a place in the log on; return another one to resume from, if any."""
        skip = place.key
        with closing(self._records.columns(place.position, self._scope.end)) as blocks:
            for columns, count in blocks:
                row, key, skip = 0, skip, 0
                while True:
                    row, key, verdict = self._compare(columns, count, row, key)
                    if verdict == DONE:
                        break
                    if verdict == WINDOW and self._replay.reader is not None:
                        self._replay.reader.load(self._replay.number)
                    elif verdict == FULL:
                        if self._switch.turns():
                            return _place_at(columns, row, key)
                        if not self._open_next(columns, row):
                            return None
                    else:
                        outcome = self._parting.explain(columns, count, row, key)
                        if outcome is None or isinstance(outcome, Place):
                            return outcome
                        row, key = outcome
        return self._after_the_end()

    def _compare(self, columns: Columns, count: int, row: int, key: int) -> tuple[int, int, int]:
        replay = self._replay
        reader = replay.reader
        if reader is None:
            return row, key, FULL if row < count else DONE
        result = compare(
            row,
            key,
            count,
            columns.key_end,
            columns.key_hash,
            columns.physical_offset,
            columns.store_timestamp,
            columns.sys_flag,
            reader.window,
            reader.window_first,
            reader.window_end,
            self._switch.limit(),
            replay.slots,
            replay.state,
        )
        return int(result[0]), int(result[1]), int(result[2])

    def _open_next(self, columns: Columns, row: int) -> bool:
        if self._replay.has_next():
            self._replay.open_next()
            return True
        offset = int(columns.physical_offset[row])
        detail = f"no file for the records from physical offset {offset} on"
        self._report.add(Kind.MISSING, self._replay.directory, 0, detail)
        return False

    def _after_the_end(self) -> Place | None:
        """Look at the items after the log's last key; return a place to resume from, if any."""
        replay = self._replay
        while not self._parting.is_hopeless:
            self._switch.turns()
            if self._lost.begins_next():
                replay.open_next()
            if self._lost.passes():
                continue
            found = replay.item(replay.number)
            if found is None:
                return None
            if not self._scope.is_ours and self._is_again(found):
                if replay.is_full:
                    replay.open_next()
                self._parting.again(found)
                return Place(found.physical_offset)
            if replay.is_full:
                return None
            self._parting.count()
            self._left_over(found)
            replay.advance(found, None)
        return None

    def _is_again(self, found: Item) -> bool:
        keys = self._records.keys_at(found.physical_offset)
        return bool(keys) and keys is not None and keys[0] == found.key_hash

    def _left_over(self, found: Item) -> None:
        path, byte = self._replay.here()
        scope = self._scope
        if scope.is_ours and scope.tolerates_leftovers and found.physical_offset >= scope.end:
            self._replay.unknown_header = True
            detail = f"an item after the last one, {self._report.left_by}"
            self._report.note(Kind.SURPLUS, path, byte, detail)
        else:
            what = "items that the log does not give"
            self._report.add_to_run(Kind.SURPLUS, path, byte, ITEM_SIZE, what)


def _place_at(columns: Columns, row: int, key: int) -> Place:
    """Return the place of a key of a block."""
    first = int(columns.key_end[row - 1]) if row else 0
    return Place(int(columns.physical_offset[row]), max(key - first, 0))
