"""Which files are a broker's ACL, and have they changed? `PlainPermissionManager#load`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.remoting.access.errors import AccessError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ENDINGS = {".yml", ".yaml"}
_DEFAULT = "plain_acl.yml"


class State(NamedTuple):
    """What tells a file from what it was: another inode is a file that was put in its place."""

    path: Path
    inode: int
    size: int
    changed_ns: int


def listed(place: Path) -> list[Path]:
    """Return the files of an ACL in the order in which they count.

    Args:
        place: one file; or a broker's `conf`, with `acl/` and what lies below it, and
            `plain_acl.yml`. A broker takes the files of `acl/` in the order of its file system,
            this is by name.

    Raises:
        AccessError: there is none.
    """
    if not place.is_dir():
        return [place]
    found = [path for path in _below(place / "acl") if path.suffix in _ENDINGS]
    default = place / _DEFAULT
    found += [default] if default.exists() else []
    if not found:
        raise AccessError(
            f"{place} has neither {_DEFAULT} nor a .yml file in acl/: give the file itself, or the "
            "`conf` of the broker"
        )
    return found


def states(paths: list[Path]) -> tuple[State, ...]:
    """Return what the files are now.

    Raises:
        OSError: one of them is gone, or not to be read.
    """
    found = []
    for path in paths:
        now = path.stat()
        found.append(State(path, now.st_ino, now.st_size, now.st_mtime_ns))
    return tuple(found)


def _below(folder: Path) -> Iterator[Path]:
    # Not `rglob`: a mounted ConfigMap has its files twice, once in a folder whose name has a dot.
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith(".."):
            continue
        if path.is_dir():
            yield from _below(path)
        else:
            yield path
