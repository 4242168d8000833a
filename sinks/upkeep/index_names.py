"""What a rebuild's index files are called in the output that they go into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.rocketmq import names
from reput.sinks.upkeep.differences import is_same

if TYPE_CHECKING:
    from pathlib import Path


def index_names(
    directory: Path, copy: Path, there: list[str], gone: list[str], before: str
) -> dict[str, str]:
    """Return the output's name for each index file of the rebuild; only their order counts.

    A file that is right keeps its name. Between two of these, others take the names of files that
    are damaged or were recorded, as far as there are any.

    Args:
        directory: the output's index.
        copy: the rebuild's.
        there: names of the output's files that may be replaced.
        gone: names that were recorded and have no file.
        before: all names are after this one.
    """
    called: dict[str, str] = {}
    waiting: list[str] = []
    left = there
    for name in index_files_of(copy):
        same = next((e for e in left if is_same(directory / e, copy / name)), None)
        if same is None:
            waiting.append(name)
            continue
        pool = sorted(e for e in {*left, *gone} if before < e < same)
        given = _names_between(before, same, pool, len(waiting))
        if given is None:
            # No name is free before it: it gets a later one.
            waiting.append(name)
            continue
        called |= dict(zip(waiting, given, strict=True))
        waiting = []
        called[name] = before = same
        left = [e for e in left if e > same]
    pool = sorted(e for e in {*left, *gone} if e > before)
    for name in waiting:
        called[name] = before = pool.pop(0) if pool else max(name, _after(before))
    return called


def index_files_of(directory: Path) -> list[str]:
    """Return the names of a rebuild's index files, oldest first; none without a directory."""
    return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []


def _names_between(before: str, after: str, pool: list[str], count: int) -> list[str] | None:
    """Return `count` names between two, from a pool if it has enough; None if there is no room."""
    if len(pool) >= count:
        return pool[:count]
    low, high = int(before or 0), int(after)
    if high - low <= count:
        return None
    return [f"{high - count + i:0{names.INDEX_DIGITS}d}" for i in range(count)]


def _after(name: str) -> str:
    return f"{int(name or 0) + 1:0{names.INDEX_DIGITS}d}"
