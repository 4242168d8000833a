"""Keeps outputs apart from what is read, and from one another: no writer works inside a store.

A store is only read. An output in one of its directories would stand among the broker's own files
(`consumequeue/.reput` is a topic to a broker), and an output above a store would have the store in
it when it is moved or removed. Paths are compared as they are once links and `..` are followed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from formats import names
from formats.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.broker import BrokerSettings
    from streaming.config import StoreConfig


def refuse_overlaps(configs: Sequence[StoreConfig]) -> None:
    """Refuse outputs that are inside or above a store, a commitlog or another output.

    Args:
        configs: of one job; an output in place may be its own store and nothing else.

    Raises:
        UsageError: two of these places are not apart; says which.
    """
    for config in configs:
        for other in configs:
            for what, place in read_places(other.path, other.settings):
                if config is other and config.in_place:
                    continue
                _require_apart(f"the output {config.output}", config.output, what, place)
    for number, config in enumerate(configs):
        for other in configs[number + 1 :]:
            what = f"the output {other.output} of store {other.name}"
            _require_apart(f"the output {config.output}", config.output, what, other.output)


def refuse_files(output: Path) -> None:
    """Refuse an output that is a file, or below one.

    Raises:
        UsageError: names the file.
    """
    for path in (output, *output.parents):
        if path.is_dir():
            return
        if path.exists():
            raise UsageError(f"the output {output}: {path} is a file; name a directory")


def read_places(store: Path, settings: BrokerSettings) -> Iterator[tuple[str, Path]]:
    """Yield the directories that a store's records are read from, each with a name for people."""
    yield f"the store {store}", store
    for path in settings.commitlog_told or settings.commitlog_paths:
        yield f"the commitlog {path}", Path(path)
    yield f"the commitlog {store / names.COMMITLOG}", store / names.COMMITLOG


def _require_apart(said: str, output: Path, what: str, place: Path) -> None:
    """Refuse an output that shares a directory with a place.

    Args:
        said: the output, for people.
        output: its path.
        what: the place, for people.
        place: its path.
    """
    inside = place.resolve()
    root = output.resolve()
    remedy = "give a directory of its own, or write into the store itself with --in-place"
    if inside == root:
        raise UsageError(f"{said} is {what} itself; {remedy}")
    if inside.is_relative_to(root):
        raise UsageError(f"{said} has {what} inside it; {remedy}")
    for path in (output, *(output / name for name in (*names.DISPATCHED, names.STATE))):
        written = path.resolve()
        if written.is_relative_to(inside):
            by = "" if path == output else f" by {path}, which leads to {written}"
            raise UsageError(f"{said} is inside {what}{by}; {remedy}")
