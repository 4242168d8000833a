"""Compares an output with a rebuild of it, file by file, and plans what to exchange.

The rebuild stands in a directory of its own in the output, on disk. `Exchange.plan` changes
nothing but the rebuild: it copies what the output still has of expired records into its files.
`plan.apply` renames and removes. If it is interrupted anywhere and run again with another rebuild,
it ends the same: what was exchanged before is then equal.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.sinks.upkeep.differences import first_difference, is_alike
from reput.sinks.upkeep.expired import ExpiredUnits
from reput.sinks.upkeep.index_names import index_names
from reput.sinks.upkeep.listing import bases_of, kinds, queue_directories, size_of
from reput.sinks.upkeep.plan import LOST, MADE, REMOVED, REPLACED, Plan
from reput.stores.findings import Report
from reput.stores.verify.index.reader import index_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.indexfile import Header
    from reput.sinks.upkeep.index_head import IndexHead


class Exchange:
    """Compares an output with a rebuild of it."""

    def __init__(
        self,
        root: Path,
        copy: Path,
        settings: BrokerSettings,
        floor: int,
        known: Mapping[str, int],
        is_beyond: Callable[[str], bool],
    ) -> None:
        """Look at nothing yet.

        Args:
            root: the output root.
            copy: the rebuild's.
            settings: file sizes.
            floor: physical offset where the log begins, and the rebuild.
            known: where the output's queues should end, as far as that was recorded.
            is_beyond: tells whether a queue is beyond the output's record: nothing of it is kept.
        """
        self._root = root
        self._copy = copy
        self._settings = settings
        self._floor = floor
        self._known = known
        self._is_beyond = is_beyond
        self._plan = Plan()
        self._expired = ExpiredUnits(root, copy, settings, floor, known, self._plan)
        self._common = self._compared = 0

    def plan(
        self, queues: Mapping[str, int], index: IndexHead, recorded: Mapping[str, Header]
    ) -> Plan:
        """Compare all files.

        Args:
            queues: where those of the rebuild end, by directory below the root.
            index: what the output has of expired records in its index.
            recorded: index files that the output should have, as far as that was recorded.

        Raises:
            StoreError: something stands where a file or a directory has to come.
            OSError: the device failed.
        """
        self._expired.made = frozenset(queues)
        for name in sorted(queues):
            self._compare_queue(name)
            follows = name.startswith((names.CONSUMEQUEUE_EXT, names.BATCH_CONSUMEQUEUE))
            if self._floor and follows and queues[name] < self._known.get(name, 0):
                detail = "units of expired records are damaged: it begins with the log's first"
                self._plan.add(LOST, self._root / name, detail)
        for kind in kinds(self._settings):
            for path in sorted(queue_directories(self._root / kind)):
                name = path.relative_to(self._root).as_posix()
                if name not in queues:
                    self._compare_other(name, path)
        self._compare_index(index, recorded)
        self._plan.has_common = self._common > 0 or self._compared == 0
        return self._plan

    def _compare_queue(self, name: str) -> None:
        path, copy = self._root / name, self._copy / name
        self._clear_way(path)
        size = kinds(self._settings)[name.partition("/")[0]][0]
        there, made = set(bases_of(path)), bases_of(copy)
        older = [base for base in sorted(there) if made and base < made[0]]
        keeps = self._keeps(name)
        if keeps and name.startswith(f"{names.CONSUMEQUEUE}/") and made:
            older = self._expired.keep_head(path, copy, made[0], size)
        elif older and (not keeps or not self._leads_on(path, older, made, size)):
            self._plan.remove(path, older, "files before the queue's first record")
            older = []
        self._plan.kept += len(older)
        for base in made:
            file = names.offset_file(base)
            self._compare_file(path / file, copy / file, has_entries=True)
        beyond = [base for base in sorted(there) if made and base > made[-1]]
        self._plan.remove(path, beyond, "a file beyond the queue's end")

    def _keeps(self, name: str) -> bool:
        """Tell whether what is sound of a queue's expired records stays."""
        return bool(self._floor) and not self._is_beyond(name)

    def _leads_on(self, path: Path, older: list[int], made: list[int], size: int) -> bool:
        """Tell whether the files before those of the rebuild have no gap, and their size."""
        wanted = list(range(older[0], made[0], size))
        return older == wanted and all(size_of(path, base) == size for base in older)

    def _clear_way(self, path: Path) -> None:
        """Remove what stands in the place of a directory, or of one above it."""
        above = [each for each in path.parents if each.is_relative_to(self._root)][:-1]
        for each in (path, *above):
            # A link to nowhere is in the way too.
            if os.path.lexists(each) and not each.is_dir() and each not in self._plan.in_the_way:
                self._plan.in_the_way.append(each)
                self._plan.add(REMOVED, each, "it stands where a directory belongs")

    def _compare_file(self, target: Path, source: Path, *, has_entries: bool = False) -> None:
        if not target.exists():
            self._plan.add(MADE, target, "no such file", source)
            return
        if target.is_dir():
            raise StoreError(target, "a directory stands where a file belongs", "Move it away")
        self._compared += 1
        size, expected = target.stat().st_size, source.stat().st_size
        if size != expected:
            detail = f"the file had {size} bytes, expected {expected}"
            self._plan.add(REPLACED, target, detail, source)
            self._common += has_entries and is_alike(target, source)
            return
        at = first_difference(target, source)
        if at is None:
            self._plan.kept += 1
            self._common += 1
            return
        self._common += has_entries and is_alike(target, source)
        self._plan.add(REPLACED, target, f"different from byte {at} on", source)

    def _compare_other(self, name: str, path: Path) -> None:
        """Look at a queue that no record of the log is in."""
        bases = bases_of(path)
        if not bases:
            return
        keeps = self._keeps(name)
        end = self._expired.end_of(name, path, bases) if keeps else 0
        if end:
            self._plan.queues[name] = end
            self._plan.kept += len(bases)
            return
        detail = "no record of the log is in this queue"
        if self._is_beyond(name):
            detail += ", nor is the queue in the progress record"
        for base in bases:
            if keeps:
                self._plan.add(LOST, path / names.offset_file(base), "of expired records, damaged")
            self._plan.add(REMOVED, path / names.offset_file(base), detail)

    def _compare_index(self, head: IndexHead, recorded: Mapping[str, Header]) -> None:
        directory, copy = self._root / names.INDEX, self._copy / names.INDEX
        if self._settings.writes_index:
            self._clear_way(directory)
        for name, header in sorted(recorded.items()):
            has_both = header.begin_offset < self._floor <= header.end_offset
            if has_both and name not in {*head.broken, *head.kept, head.copied}:
                self._plan.add(LOST, directory / name, "items of expired records, not there")
        for name in head.broken:
            self._plan.add(LOST, directory / name, "items of expired records, damaged")
        there = [path.name for path in index_files(directory, self._settings, Report())]
        there = [name for name in there if name not in head.kept]
        self._plan.kept += len(head.kept)
        gone = sorted(set(recorded) - set(there))
        called = index_names(directory, copy, there, gone, max(head.kept, default=""))
        self._plan.index_names = called
        for name in sorted(called):
            self._compare_file(directory / called[name], copy / name)
        for name in there:
            if name not in called.values():
                self._plan.add(REMOVED, directory / name, "no item of the log is in this file")
