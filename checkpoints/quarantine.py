"""What was passed over in a log as corrupt: a report and a copy of the bytes, for each place.

Files are named by the place's physical offset, so passing over it again, after a crash, writes the
same ones.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from reput.checkpoints.disk import changes
from reput.checkpoints.progress import STATE_DIRECTORY
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DIRECTORY = "quarantine"


@dataclass(frozen=True)
class Skipped:
    """A place that was passed over.

    Attributes:
        store: the store's name.
        file: the commitlog file.
        byte: where in it.
        start: physical offset of the first byte.
        end: physical offset where records resume.
        problem: what is wrong there.
    """

    store: str
    file: str
    byte: int
    start: int
    end: int
    problem: str


def keep(root: Path, skipped: Skipped, pieces: Iterable[bytes]) -> Path | None:
    """Keep the bytes of a place, if it has any, and say why; both are on disk when this returns.

    Args:
        root: the output root.
        skipped: the place.
        pieces: its bytes.

    Returns:
        The file with the bytes, None for a place that is in no file.

    Raises:
        OSError: no space, no permission.
    """
    directory = root / STATE_DIRECTORY / DIRECTORY
    changed = changes.make_directories(directory)
    copy = directory / f"{names.offset_file(skipped.start)}.bin"
    there = (piece for piece in pieces if piece)
    first = next(there, None)
    if first is not None:
        # A place may be a whole file of the log: never all of it in memory.
        changes.write_pieces(copy, itertools.chain([first], there))
    report = json.dumps(asdict(skipped), indent=1)
    changes.write_file(copy.with_suffix(".json"), report.encode())
    for path in [*changed, directory]:
        changes.sync_directory(path)
    return copy if first is not None else None


def load(root: Path) -> list[Skipped]:
    """Return the places that were passed over, in log order."""
    directory = root / STATE_DIRECTORY / DIRECTORY
    reports = sorted(directory.glob("*.json")) if directory.is_dir() else []
    return [Skipped(**json.loads(report.read_text("utf-8"))) for report in reports]
