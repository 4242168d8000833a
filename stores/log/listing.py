"""Which files stand in a commitlog's directories, and what is missing between them."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import FileSizeError, StoreError
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Length and magic of a file's first record.
_HEAD_BYTES = 8
# Linux takes times of files from a clock that ticks a few hundred times a second.
_YOUNG_NS = 50_000_000
# A broker writes to its last file, and makes the next one ahead.
_LAST_FILES = 3
# All files are looked at this often, whatever the directories say.
_LISTED_SECONDS = 1.0


class Stamp(NamedTuple):
    """Tells whether a file was touched: its inode, and when content and inode changed, ns."""

    inode: int
    modified: int
    changed: int


def _stamp(stat: os.stat_result) -> Stamp:
    return Stamp(stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)


def stamp_of(path: Path) -> Stamp | None:
    """Return a file's or directory's stamp as it is now; None if it is not there."""
    try:
        return _stamp(path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return None


def settled_stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of a file or directory; None where another change may have the same."""
    stamp = stamp_of(path)
    return None if stamp is None or _is_young(stamp) else stamp


def _is_young(stamp: Stamp) -> bool:
    """Tell whether a time says nothing yet: two changes may have the same."""
    return stamp.modified >= time.time_ns() - _YOUNG_NS


def signs_of(directories: Sequence[Path]) -> tuple[Stamp | None, ...]:
    """Return what changes where a file comes or goes in one of the directories."""
    return tuple(stamp_of(directory) for directory in directories)


class Listed(NamedTuple):
    """When all files were looked at, and the directories as they were then.

    Attributes:
        at: by a steady clock.
        signs: stamps of the directories.
    """

    at: float
    signs: tuple[Stamp | None, ...]

    @classmethod
    def now(cls, directories: Sequence[Path]) -> Listed:
        """Return this of a look that begins now."""
        return cls(time.monotonic(), signs_of(directories))

    def grown(
        self, files: Mapping[int, Path], stamps: Mapping[int, Stamp], directories: Sequence[Path]
    ) -> dict[int, Stamp] | None:
        """Return the files' stamps as they are now, if they have only grown; else None.

        Args:
            files: by where they begin, in order.
            stamps: of the files, before.
            directories: where the files stand.
        """
        is_due = time.monotonic() - self.at > _LISTED_SECONDS
        if is_due or any(sign is None or _is_young(sign) for sign in self.signs):
            return None
        if self.signs != signs_of(directories):
            return None
        found = dict(stamps)
        for base in list(files)[-_LAST_FILES:]:
            stamp = stamp_of(files[base])
            if stamp is None or stamp.inode != stamps[base].inode:
                return None
            found[base] = stamp
        return found


class Damage(NamedTuple):
    """Bytes of a log that are in no file: one is missing, empty or too short.

    Attributes:
        path: the file.
        byte: where in it they should be.
        start: physical offset of the first one.
        end: physical offset after the last one: where the next file begins that has any.
        found: what is wrong, for messages.
    """

    path: Path
    byte: int
    start: int
    end: int
    found: str


class LogFile(NamedTuple):
    """A file as a directory shows it."""

    path: Path
    inode: tuple[int, int]
    size: int
    stamp: Stamp


def list_files(directories: Sequence[Path], file_size: int) -> dict[int, LogFile]:
    """Return the files of all directories, by where they begin.

    A broker makes files ahead. If a cut removes the file before such a file, the empty file is left
    out. The broker makes the removed one again with its next record.

    Args:
        directories: where a commitlog's files stand.
        file_size: of each, bytes.

    Raises:
        StoreError: a file that does not belong to a commitlog, or two of the same name.
    """
    found: dict[int, LogFile] = {}
    for directory in directories:
        for base, file in _files_in(directory, file_size).items():
            other = found.get(base)
            if other is not None and other.inode != file.inode and other.size and file.size:
                raise StoreError(
                    file.path,
                    f"{other.path} has the same name",
                    "A broker with several paths has each file once: move one of the two away",
                )
            if other is None or file.size:
                found[base] = file
    return _without_ahead(found, file_size)


def _files_in(directory: Path, file_size: int) -> dict[int, LogFile]:
    files: dict[int, LogFile] = {}
    try:
        entries = sorted(directory.iterdir())
    except FileNotFoundError:
        return files
    for path in entries:
        base = names.parse_offset_file(path.name)
        if path.is_dir():
            continue
        # Its end has to be a Java long as well.
        if base is None or base + file_size >= 1 << 63:
            raise StoreError(
                path, "not the name of a commitlog file", "Move it away; no broker wrote it"
            )
        try:
            files[base] = file_at(path)
        except FileNotFoundError:
            # It went between the two looks.
            continue
    return files


def file_at(path: Path) -> LogFile:
    """Return a file as it is now.

    Raises:
        FileNotFoundError: it is not there.
    """
    stat = path.stat()
    return LogFile(path, (stat.st_dev, stat.st_ino), stat.st_size, _stamp(stat))


def _without_ahead(found: dict[int, LogFile], file_size: int) -> dict[int, LogFile]:
    there = [base for base in sorted(found) if found[base].size]
    for before, after in pairwise(there):
        if after != before + file_size:
            if all(_is_blank(found[base].path) for base in there if base >= after):
                return {base: file for base, file in found.items() if base < after}
            return found
    return found


def _is_blank(path: Path) -> bool:
    """Tell whether a file has gone, or nothing stands where it begins."""
    try:
        with path.open("rb") as file:
            return not any(file.read(_HEAD_BYTES))
    except FileNotFoundError:
        return True


def has_gap(found: Mapping[int, LogFile], file_size: int) -> bool:
    """Tell whether files are missing between those that have any bytes."""
    there = [base for base, file in found.items() if file.size]
    return bool(there) and max(there) - min(there) != (len(there) - 1) * file_size


def is_damaged(found: Mapping[int, LogFile], file_size: int) -> bool:
    """Tell whether a file is missing in between, or one that has any bytes is not whole."""
    is_whole = all(file.size in {0, file_size} for file in found.values())
    return not is_whole or has_gap(found, file_size)


def damages_of(
    found: Mapping[int, LogFile], there: Sequence[int], file_size: int
) -> tuple[tuple[Damage, ...], Damage | None]:
    """Return what is missing between the files, and at the end of the last one.

    Args:
        found: the files.
        there: where those with any bytes begin, in order.
        file_size: of each, bytes.
    """
    end_of_files = there[-1] + file_size
    damages = []
    for base, following in zip(there, [*there[1:], end_of_files], strict=True):
        path, _, size, _ = found[base]
        start = base + size
        if start == following:
            continue
        if size < file_size:
            lack = f"the file ends here, expected {file_size} bytes"
            byte = size
        else:
            empty = found.get(start)
            path = empty.path if empty else path.with_name(names.offset_file(start))
            lack = "the file is empty" if empty else "the file is missing"
            lack += f", expected {file_size} bytes"
            byte = 0
        if following - base > 2 * file_size or (byte and following > base + file_size):
            lack += f", and the next one with any is {names.offset_file(following)}"
        damages.append(Damage(path, byte, start, following, lack))
    is_unfinished = bool(damages) and damages[-1].end == end_of_files
    return (tuple(damages[:-1]), damages[-1]) if is_unfinished else (tuple(damages), None)


def require_files(
    found: Mapping[int, LogFile], directories: Sequence[Path], file_size: int
) -> None:
    """Refuse directories without a file of a commitlog with this file size.

    Raises:
        StoreError: no file has any bytes.
        FileSizeError: a file has another size than the settings say.
    """
    if not any(file.size for file in found.values()):
        where = ", ".join(str(d) for d in directories)
        raise StoreError(
            where,
            "no commitlog file is here",
            "Point --store at a broker's storePathRootDir, the directory that holds commitlog/",
        )
    is_sure = any(file.size == file_size for file in found.values())
    for base, file in sorted(found.items()):
        if file.size and (base % file_size or file.size > file_size or not is_sure):
            raise FileSizeError(
                file.path,
                file.size,
                f"the file ends here, expected {file_size} bytes",
                "Give the broker's mappedFileSizeCommitLog in --broker-conf. If that size is "
                "right, all files are damaged: restore them from the broker.",
            )
