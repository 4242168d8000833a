"""Keeps outputs apart from what is read, and from one another: no writer works inside a store.

A store is only read. An output in one of its directories would stand among the broker's own files
(`consumequeue/.reput` is a topic to a broker), and an output above a store would have the store in
it when it is moved or removed. Paths are compared as they are once links and `..` are followed, and
directories by device and inode: a bind mount is another path to the same one.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from reput.formats.errors import UsageError
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.streaming.settings.config import StoreConfig


_OWN_DIRECTORY = "give a directory of its own"
_OWN_DIRECTORY_OR_IN_PLACE = (
    f"{_OWN_DIRECTORY} (run and rebuild can write into the store itself, with --in-place)"
)
# Directories of a store that may be mounted elsewhere one by one.
_PARTS = (names.COMMITLOG, *names.DISPATCHED, names.CONFIG)
# What a broker makes beside its commitlog and `reput` does not: it is a store.
_STORE_MARKS = (names.LOCK, names.CONFIG, names.CHECKPOINT, names.CONSUMEQUEUE)


def refuse_overlaps(configs: Sequence[StoreConfig]) -> None:
    """Refuse outputs that are inside or above a store, a commitlog or another output.

    Outputs of other jobs count too, where their `.reput` is above this output or right below it.

    Args:
        configs: of one job; an output in place may be its own store and nothing else.

    Raises:
        UsageError: two of these places are not apart, or an output is inside a store or an output
            that none of them names; says which.
    """
    for config in configs:
        for other in configs:
            for what, place in read_places(other.path, other.settings):
                if config is other and config.in_place:
                    continue
                _require_apart(f"the output {config.output}", config.output, what, place)
    for number, config in enumerate(configs):
        for other in configs[number + 1 :]:
            # Both ways: either may have a link in it that leads into the other one.
            for one, two in ((config, other), (other, config)):
                what = f"the output {two.output} of store {two.name}"
                said = f"the output {one.output}"
                _require_apart(said, one.output, what, two.output, _OWN_DIRECTORY)
    for config in configs:
        _refuse_nested(config.output)
        if not config.in_place:
            _refuse_foreign_store(config.output)


def refuse_outputs_inside(output: Path) -> None:
    """Refuse an output that has another one anywhere in it: a repair would take that apart.

    Raises:
        UsageError: names both.
    """
    root = output.resolve()
    for directory, names_there, _ in os.walk(root):
        place = Path(directory)
        if place == root:
            # What is in there is this output's own.
            names_there[:] = [name for name in names_there if name != names.STATE]
        elif names.STATE in names_there:
            raise UsageError(_inside_it(output, place))


def refuse_files(output: Path) -> None:
    """Refuse an output that is a file or a link to nothing, or below one.

    Raises:
        UsageError: names the file or the link.
    """
    _require_directories(f"the output {output}", output)


def _require_directories(said: str, directory: Path) -> None:
    for path in (directory, *directory.parents):
        if path.is_dir():
            return
        if path.exists():
            raise UsageError(f"{said}: {path} is a file; name a directory")
        if path.is_symlink():
            raise UsageError(
                f"{said}: {path} is a link to {path.readlink()}, which is not there; make that "
                "directory, or name another one"
            )


def refuse_checkpoint(directory: Path | None, configs: Sequence[StoreConfig]) -> None:
    """Refuse a place for Spark's own record that is a file, or inside a store or an output.

    Args:
        directory: what the user names, None for nothing.
        configs: of the job; `.reput` of an output is ours, and is for that.

    Raises:
        UsageError: names the file, or both places.
    """
    if directory is None:
        return
    _require_directories(f"--spark-checkpoint {directory}", directory)
    place = directory.resolve()
    for config in configs:
        if place.is_relative_to((config.output / names.STATE).resolve()):
            continue
        places = [*read_places(config.path, config.settings)]
        places.append((f"the output {config.output}", config.output))
        for what, other in places:
            if place.is_relative_to(other.resolve()):
                raise UsageError(
                    f"--spark-checkpoint {directory} is inside {what}; give a directory of its own"
                )


def refuse_inside_any(said: str, directory: Path) -> None:
    """Refuse a directory that is inside a store or an output, whatever command knows of these.

    Args:
        said: the directory, for people.
        directory: there or not.

    Raises:
        UsageError: names what tells that it is one.
    """
    place = directory.resolve()
    for path in (place, *place.parents):
        for name in (names.STATE, names.COMMITLOG, names.CONSUMEQUEUE):
            if (path / name).is_dir():
                what = "an output of reput" if name == names.STATE else "a broker's store"
                raise UsageError(
                    f"{said}: this is inside {path}, which is {what}, as {name} is there; "
                    "take a directory elsewhere"
                )


def read_places(store: Path, settings: BrokerSettings) -> Iterator[tuple[str, Path]]:
    """Yield the directories that a store's records are read from, each with a name for people."""
    yield f"the store {store}", store
    for path in settings.commitlog_told or settings.commitlog_paths:
        yield f"the commitlog {path}", Path(path)
    yield f"the commitlog {store / names.COMMITLOG}", store / names.COMMITLOG


def _require_apart(
    said: str, output: Path, what: str, place: Path, remedy: str = _OWN_DIRECTORY_OR_IN_PLACE
) -> None:
    """Refuse an output that shares a directory with a place.

    Args:
        said: the output, for people.
        output: its path.
        what: the place, for people.
        place: its path.
        remedy: what to do instead.
    """
    inside = place.resolve()
    root = output.resolve()
    if inside == root:
        raise UsageError(f"{said} is {what} itself; {remedy}")
    if inside.is_relative_to(root):
        raise UsageError(f"{said} has {what} inside it; {remedy}")
    written = [output, *(output / name for name in (*names.DISPATCHED, names.STATE))]
    for path in written:
        leads_to = path.resolve()
        if leads_to.is_relative_to(inside):
            by = "" if path == output else f" by {path}, which leads to {leads_to}"
            raise UsageError(f"{said} is inside {what}{by}; {remedy}")
    output_id = _identity(root)
    if output_id is not None and output_id == _identity(inside):
        raise UsageError(f"{said} is {what} itself, by a mount; {remedy}")
    if output_id is not None and output_id in _identities_above(inside):
        raise UsageError(f"{said} has {what} inside it, by a mount; {remedy}")
    parts = (inside, *(inside / name for name in _PARTS))
    shared = {_identity(part): part for part in parts if _identity(part) is not None}
    for path in written:
        for found in _identities_above(path.resolve()):
            if found in shared:
                by = "" if path == output else f" by {path}"
                raise UsageError(
                    f"{said} is inside {what}{by}: a mount leads to {shared[found]}; {remedy}"
                )


def _identities_above(path: Path) -> list[tuple[int, int]]:
    """Return what tells a path's directory from others, and all that are above it, as far as there.

    Args:
        path: with its links followed.
    """
    found = (_identity(each) for each in (path, *path.parents))
    return [each for each in found if each is not None]


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a directory, which are the same through a bind mount."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _refuse_nested(output: Path) -> None:
    """Refuse an output inside another one of whatever job, and one that has another one in it.

    To the outer one, the inner one's files are unknown queues: its repair removes them.
    How deep another one may be below is for `refuse_outputs_inside`, which reads all directories.

    Raises:
        UsageError: names both.
    """
    root = output.resolve()
    for path in (output, *(output / name for name in names.DISPATCHED)):
        for place in path.resolve().parents:
            if place != root and (place / names.STATE).is_dir():
                by = "" if path == output else f" by {path}, which leads to {path.resolve()}"
                raise UsageError(
                    f"the output {output} is inside {place}{by}, which is another output of reput, "
                    f"as {names.STATE} is there; {_OWN_DIRECTORY}"
                )
    if not root.is_dir():
        return
    for below in sorted(root.iterdir()):
        if below.name != names.STATE and not below.is_symlink() and _is_output(below):
            raise UsageError(_inside_it(output, below))


def _inside_it(output: Path, other: Path) -> str:
    return (
        f"the output {output} has {other} inside it, which is another output of reput, as "
        f"{names.STATE} is there; {_OWN_DIRECTORY}, or move that one away"
    )


def _is_output(directory: Path) -> bool:
    # Nothing of ours is where we may not look.
    return os.access(directory, os.X_OK) and (directory / names.STATE).is_dir()


def _refuse_foreign_store(output: Path) -> None:
    """Refuse an output that is inside a broker's store which the command does not name.

    A commitlog alone does not make a store: the setting of its path may lead beside the output. An
    output that is such a store is refused by those that write, see
    `streaming.dispatch.resuming.resume`: its queues may be compared with a log.

    Raises:
        UsageError: names the store.
    """
    for place in output.resolve().parents:
        marks = [name for name in _STORE_MARKS if (place / name).exists()]
        if (place / names.COMMITLOG).is_dir() and marks:
            raise UsageError(
                f"the output {output} is inside {place}, which is a broker's store: it holds "
                f"{names.COMMITLOG}/ and {marks[0]}; {_OWN_DIRECTORY}"
            )
