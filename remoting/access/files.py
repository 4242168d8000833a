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
    """What tells a file from what it was: another inode is a file that was put in its place.

    The last one also changes with the mode: a file that is made readable is read again.
    """

    path: Path
    inode: int
    size: int
    modified_ns: int
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
        found.append(State(path, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))
    return tuple(found)


def contents(paths: list[Path]) -> list[tuple[Path, bytes]]:
    """Return what is in the files.

    Raises:
        OSError: one of them cannot be read; it is named.
    """
    found = []
    for path in paths:
        try:
            found.append((path, path.read_bytes()))
        except OSError as error:
            # A disk that fails names none.
            error.filename = str(path)
            raise
    return found


def unreadable(error: OSError, otherwise: Path) -> str:
    """Return which file cannot be read, and why.

    Args:
        error: what came of the attempt.
        otherwise: what is named if the error names no file.
    """
    return f"{error.filename or otherwise}: {error.strerror or error}"


def _below(folder: Path) -> Iterator[Path]:
    # Not `rglob`: a mounted ConfigMap has its files twice, once in a folder whose name has a dot.
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith(".."):
            continue
        if path.is_dir():
            yield from _below(path)
        else:
            yield path
