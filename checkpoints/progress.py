"""Our own record of how far an output root is: enough to resume without Spark's checkpoint.

One JSON file in a sub-directory that a broker ignores, replaced as a whole (temporary file,
rename) after the data of a batch is written, and synced after the data is. Its last field is a
CRC of the rest, so that a damaged one is noticed and not believed.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from formats.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

STATE_DIRECTORY = ".reput"
FILE_NAME = "progress.json"
FORMAT = 1


@dataclass(frozen=True)
class Fingerprint:
    """What identifies one record: found again at its offset, the log is still the same one."""

    physical_offset: int
    size: int
    crc: int


@dataclass(frozen=True)
class Progress:
    """Where an output root stands.

    Attributes:
        end: physical offset behind the last dispatched record.
        flushed_end: the same, of what is on disk for certain.
        generation: counts records of progress; a writer with an older one has been overtaken.
        boot_id: the machine's at the time; another one means that unsynced data may be lost.
        clean: the writer stopped in order, everything flushed.
        messages: records dispatched so far.
        settings: what would make the output different, see `BrokerSettings.fingerprint`.
        last: the last dispatched record, None before the first.
        index_name: the newest index file, "" for none.
        index_header: its header.
        checkpoint: the longs of the broker's checkpoint file, as last written.
        logics_timestamp: store timestamp of the last record put into a consume queue.
        logics_offset: where that record starts.
        repeated: records that had their place in a queue taken already, and got no entry.
    """

    end: int
    flushed_end: int
    generation: int
    boot_id: str
    clean: bool
    messages: int
    settings: dict[str, Any]
    last: Fingerprint | None = None
    index_name: str = ""
    index_header: tuple[int, ...] = (0, 0, 0, 0, 0, 0)
    checkpoint: tuple[int, ...] = (0, 0, 0, 0, 0, 0)
    logics_timestamp: int = 0
    logics_offset: int = 0
    repeated: int = 0
    format: int = field(default=FORMAT)


def load(root: Path) -> Progress | None:
    """Return the progress of an output root, None if it has none.

    Raises:
        FormatError: it is damaged, or of a later format.
    """
    path = root / STATE_DIRECTORY / FILE_NAME
    try:
        text = path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return None
    remedy = "Remove the output and rebuild it."
    try:
        values = json.loads(text)
        crc = values.pop("crc")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FormatError(path, 0, f"not a progress record ({error})", remedy) from error
    if crc != _crc(values):
        raise FormatError(path, 0, "the progress record does not match its CRC", remedy)
    if values.get("format") != FORMAT:
        raise FormatError(path, 0, f"format {values.get('format')}, this is {FORMAT}", remedy)
    last = values.pop("last")
    for name in ("index_header", "checkpoint"):
        values[name] = tuple(values[name])
    return Progress(**values, last=Fingerprint(**last) if last else None)


def save(root: Path, progress: Progress, *, sync: bool) -> None:
    """Replace the progress of an output root.

    Args:
        root: the output root.
        progress: what to record.
        sync: have it on disk before returning; without, it survives the process only.

    Raises:
        OSError: no space, no permission, the device failed.
    """
    directory = root / STATE_DIRECTORY
    values = asdict(progress)
    values = json.loads(json.dumps(values))
    text = json.dumps({**values, "crc": _crc(values)}, indent=1)
    temporary = directory / f"{FILE_NAME}.new"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    temporary.replace(directory / FILE_NAME)
    if sync:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _crc(values: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())
