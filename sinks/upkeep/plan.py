"""The plan that makes an output hold what a rebuild of it holds, and how it is carried out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reput.checkpoints.disk import changes as disk
from reput.formats.rocketmq import names
from reput.sinks.upkeep.listing import remove_empty

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


MADE, REPLACED, REMOVED, LOST = "made", "replaced", "removed", "lost"


class Change(NamedTuple):
    """What is done about a file.

    Attributes:
        what: one of the constants above; lost: what it held of expired records is in no file.
        path: of the output.
        detail: why.
        source: the rebuild's file that replaces it.
    """

    what: str
    path: Path
    detail: str
    source: Path | None = None


@dataclass
class Plan:
    """What has to be done.

    Attributes:
        changes: to files of the output.
        kept: files that are right.
        in_the_way: files and the like that stand where a directory belongs; removed first.
        queues: where queues of only expired records end, by directory below the root.
        index_names: names in the output, by name of the rebuild's index file.
        has_common: something in the output is of this log, or nothing was there.
    """

    changes: list[Change] = field(default_factory=list)
    kept: int = 0
    in_the_way: list[Path] = field(default_factory=list)
    queues: dict[str, int] = field(default_factory=dict)
    index_names: dict[str, str] = field(default_factory=dict)
    has_common: bool = True

    def add(self, what: str, path: Path, detail: str, source: Path | None = None) -> None:
        """Add a change; see `Change`."""
        self.changes.append(Change(what, path, detail, source))

    def remove(self, path: Path, bases: Sequence[int], detail: str) -> None:
        """Remove some files of a queue."""
        for base in bases:
            self.add(REMOVED, path / names.offset_file(base), detail)


def apply(root: Path, plan: Plan) -> None:
    """Exchange the files, and flush that.

    Raises:
        OSError: the device failed; the next try does what is left.
    """
    for path in plan.in_the_way:
        disk.remove_file(path)
    for change in plan.changes:
        if change.source is not None:
            disk.make_directories(change.path.parent)
            disk.rename(change.source, change.path)
    for change in plan.changes:
        if change.what == REMOVED and change.path not in plan.in_the_way:
            disk.remove_file(change.path)
    for kind in names.DISPATCHED:
        remove_empty(root / kind)
    disk.sync_file_system(root)
