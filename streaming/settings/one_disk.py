"""An output on one file system: files are made in its `.reput` and renamed into their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import StoreError
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from pathlib import Path


def refuse_two_disks(output: Path) -> None:
    """Refuse an output of which a directory is on another file system: a rename ends there.

    Args:
        output: there or not; links in it are followed.

    Raises:
        StoreError: names the directory.
    """
    if not output.is_dir():
        return
    device = output.stat().st_dev
    for kind in (names.STATE, *names.DISPATCHED):
        path = output / kind
        if path.is_dir() and path.stat().st_dev != device:
            raise StoreError(
                path,
                f"it leads to {path.resolve()}, on another file system than {output}: files are "
                f"made in {names.STATE} and renamed into their place, which needs one",
                "Link or mount the output as a whole, or move this directory back into it",
            )
