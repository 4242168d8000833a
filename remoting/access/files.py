"""Which files are a broker's ACL, and which files have changed? `PlainPermissionManager#load`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.remoting.access.errors import AccessError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Take = Callable[[list[Path]], None]

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


class News(NamedTuple):
    """What a look at files has found out.

    Attributes:
        error: why they cannot be used; None if they are in force.
        was_broken: those before them could not be used.
    """

    error: str | None
    was_broken: bool


class Renewal:
    """Files that others renew: those before stay in force until the new ones can be used.

    Attributes:
        error: why the newest ones are not in force; None while they are.
    """

    def __init__(self, place: Path, listed: Callable[[], list[Path]], take: Take) -> None:
        """Take the files as they are.

        Args:
            place: is named by an error that names no file.
            listed: returns the files.
            take: reads them, and puts them in force.

        Raises:
            AccessError: they cannot be used.
            OSError: one of them is not there, or not to be read.
        """
        self._place, self._listed, self._take = place, listed, take
        self._known: tuple[State, ...] = ()
        self.error: str | None = None
        self._read(())

    def _read(self, before: tuple[State, ...]) -> bool:
        """Take the files if they are not as before; a file that is being written changes again."""
        paths = self._listed()
        self._known = states(paths)
        if self._known == before:
            return False
        self._take(paths)
        return True

    def look(self) -> News | None:
        """Take the files if they have changed; return what is new, each error once."""
        before, self._known = self._known, ()
        error = None
        try:
            if not self._read(before):
                return None
        except AccessError as problem:
            error = str(problem)
        except OSError as problem:
            # They may come back as they were.
            self._known = ()
            error = unreadable(problem, self._place)
        said, self.error = self.error, error
        return None if error is not None and error == said else News(error, said is not None)


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
