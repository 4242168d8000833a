"""The directory that an export writes: held for one export, empty before it begins."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
from typing import TYPE_CHECKING

from reput.formats.errors import UsageError
from reput.streaming.settings.separate import refuse_inside_any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LOG = logging.getLogger("reput")
# Spark writes there first; a killed export leaves it.
_UNFINISHED = "_temporary"
# What Spark leaves of an export, with the checksums beside it.
_EXPORTED = re.compile(r"_temporary|_SUCCESS|day=[^/]*|part-[^/]*|\.(_SUCCESS|part-[^/]*)\.crc")


def check(target: Path, *, overwrite: bool, sources: Iterable[Path] = ()) -> None:
    """Check that nothing would be lost.

    Args:
        target: a directory, there or not.
        overwrite: what is there may be removed.
        sources: what is exported, which may neither be in it nor around it.

    Raises:
        UsageError: there is something already, other than what a killed export leaves; or, with
            `overwrite`, other than what an export writes; or it is inside a store or an output.
    """
    for source in sources:
        if source.resolve().is_relative_to(target.resolve()):
            raise UsageError(f"--to {target}: {source}, which is to be read, is inside it")
        if target.resolve().is_relative_to(source.resolve()):
            raise UsageError(f"--to {target}: this is inside {source}, which is only read")
    if target.exists() and not target.is_dir():
        raise UsageError(f"--to {target}: this is a file; name a directory")
    if not overwrite and target.is_dir() and any(p.name != _UNFINISHED for p in target.iterdir()):
        raise UsageError(f"--to {target}: there is something already; take another, or --overwrite")
    if overwrite and target.is_dir():
        for path in sorted(target.iterdir()):
            if not _EXPORTED.fullmatch(path.name):
                raise UsageError(
                    f"--to {target}: an export has not written {path.name}, and --overwrite would "
                    "remove it; take another directory, or move it away"
                )
    refuse_inside_any(f"--to {target}", target)


@contextlib.contextmanager
def held(target: Path, *, overwrite: bool) -> Iterator[None]:
    """Make the directory and lock it, so that two exports do not mix their files.

    Args:
        target: the directory.
        overwrite: what is there may be removed; see `clear`.

    Raises:
        UsageError: as `check`; or another export holds it.
    """
    check(target, overwrite=overwrite)
    target.mkdir(parents=True, exist_ok=True)
    directory = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"--to {target}: another export is writing there") from None
        except OSError as error:
            # Some network file systems cannot lock directories.
            LOG.warning("%s is not held against a second export: %s", target, error.strerror)
        check(target, overwrite=overwrite)
        yield
    finally:
        os.close(directory)


def clear(target: Path) -> None:
    """Empty the directory; Spark would make another one, without the lock."""
    for path in target.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
