"""Our own record of how far an output root is: enough to resume without Spark's checkpoint.

One JSON file in a sub-directory that a broker ignores, replaced as a whole and on disk before
anything relies on it. It is written only after a flush, so all that it names is on disk too; what
the files hold beyond it is rolled back when the output is opened again
(`streaming.dispatch.resuming.resume`). A CRC tells a damaged record from a good one. Readers load
this module too, so what writes the record is elsewhere: `checkpoints.disk.recording`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reput.checkpoints import checked_line
from reput.formats.errors import FormatError
from reput.formats.rocketmq import names
from reput.stores.following.known import FileHeads, Known
from reput.stores.log.listing import Stamp
from reput.stores.log.trail import Fingerprint, Point

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STATE_DIRECTORY = names.STATE
FILE_NAME = names.PROGRESS
FORMAT = 3
_NO_LONGS = (0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Progress:
    """Where an output root stands.

    Attributes:
        end: physical offset after the last dispatched record.
        generation: counts records of progress.
        clean: the writer stopped in order; nothing is beyond this record.
        messages: records dispatched so far.
        settings: what would make the output different, see `BrokerSettings.fingerprint`.
        files: what was read of each log file, from the bytes that were parsed.
        trail: some of the records, oldest first; the last one ends at `end`.
        queues: by directory below the root ("consumequeue/TopicTest/0"): bytes, from the queue's
            very beginning, of what is in it.
        firsts: where the oldest file of a queue begins, bytes from the queue's very beginning; 0
            for a queue that is not named. Recorded before files that have expired are removed.
        lasts: by consume queue: physical offset where the record of its last entry ends.
        ahead: of these, those whose last file has nothing in it yet: a record that was repeated
            may have had it made.
        tails: by queue of any kind: CRC-32 of the last bytes before its end, see
            `checkpoints.tails`. Recorded when the writer stops in order; none is known while it
            runs, of an output in place, or in a record of an earlier build.
        index_name: the newest index file, "" for none.
        index_header: its header.
        index_before: names and headers of the older index files, oldest first; those whose records
            have all expired need not be there.
        checkpoint: the longs of the broker's checkpoint file, as last written.
        logics_timestamp: store timestamp of the last record put into a consume queue.
        logics_offset: where that record starts.
        repeated: records that had their place in a queue taken already, and got no entry.
        store_timestamp: of the last dispatched record, ms.
        skipped: physical offsets [start, end) that hold no records, and were passed over as asked.
        passed: of these, places where a whole record stood that could not be dispatched: physical
            offset, and its hash. None is known in a record of an earlier build.
        lost: physical offsets [start, end) that expired before they were dispatched.
        cuts: each time the log was found cut: a number, and the physical offset that the output
            went back to. Numbers rise, also over outputs: they are a clock's ns where that can be.
        vouched_from: physical offset from which on the log is known to be the one that was
            dispatched. What had been dispatched before it had all expired when the log was looked
            at, so nothing said whether it was cut there. 0 if that never was so, and in a record of
            an earlier build.
        starts: times that the output was opened since it was begun, and the next two likewise:
            so that counters survive the end of a process.
        recoveries: openings at which something was rolled back.
        truncations: times that the log had other records than before.
    """

    end: int
    generation: int
    clean: bool
    messages: int
    settings: dict[str, Any]
    files: tuple[FileHeads, ...] = ()
    trail: tuple[Point, ...] = ()
    queues: dict[str, int] = field(default_factory=dict)
    firsts: dict[str, int] = field(default_factory=dict)
    lasts: dict[str, int] = field(default_factory=dict)
    ahead: tuple[str, ...] = ()
    tails: dict[str, int] = field(default_factory=dict)
    index_name: str = ""
    index_header: tuple[int, ...] = _NO_LONGS
    index_before: tuple[tuple[str, tuple[int, ...]], ...] = ()
    checkpoint: tuple[int, ...] = _NO_LONGS
    logics_timestamp: int = 0
    logics_offset: int = 0
    repeated: int = 0
    store_timestamp: int = 0
    skipped: tuple[tuple[int, int], ...] = ()
    passed: tuple[tuple[int, int], ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
    cuts: tuple[tuple[int, int], ...] = ()
    vouched_from: int = 0
    starts: int = 0
    recoveries: int = 0
    truncations: int = 0
    format: int = field(default=FORMAT)


def load(root: Path) -> Progress | None:
    """Return the progress of an output root, None if it has none.

    Raises:
        FormatError: it is damaged, or of another format.
    """
    path = root / STATE_DIRECTORY / FILE_NAME
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    remedy = "`reput rebuild --repair` with the same store and output makes another one."
    try:
        line = checked_line.parted(raw)
        values = json.loads("{" + line.rest.decode("utf-8", "replace"))
        found = values.pop("format")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(path, 0, f"not a progress record ({error})", remedy) from error
    if not line.is_whole:
        raise FormatError(path, 0, "the progress record does not match its CRC", remedy)
    if found != FORMAT:
        raise FormatError(path, 0, f"format {found}, this is {FORMAT}", remedy)
    try:
        return _progress(values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise FormatError(
            path, 0, f"not a progress record of this format ({why})", remedy
        ) from error


def _progress(values: dict[str, Any]) -> Progress:
    """Return what the fields of a record say."""
    files = tuple(_file(*file) for file in values.pop("files"))
    trail = tuple(_point(point) for point in values.pop("trail"))
    for name in ("ahead", "index_header", "checkpoint"):
        values[name] = tuple(values[name])
    older = values.pop("index_before")
    values["index_before"] = tuple((name, tuple(header)) for name, header in older)
    for name in ("skipped", "passed", "lost", "cuts"):
        pairs = values.get(name, ())
        values[name] = tuple((first, second) for first, second in pairs)
    return Progress(**values, files=files, trail=trail)


def _file(base: int, first: int, heads: int, stamp: list[int] | None) -> FileHeads:
    return FileHeads(base, first, heads, None if stamp is None else Stamp(*stamp))


def _point(values: dict[str, Any]) -> Point:
    record = Fingerprint(**values.pop("record"))
    header = tuple(values.pop("index_header"))
    return Point(record=record, index_header=header, **values)


def known_log(found: Progress) -> Known:
    """Return what an output has read of its log."""
    return Known(found.files, found.trail, found.end, dict(found.skipped), dict(found.passed))


def shortened(found: Progress, queues: Mapping[str, int], index_name: str) -> dict[str, Any]:
    """Return what is known of files, as fields, where some of the queues end earlier.

    Args:
        found: what was known before.
        queues: where queues end now; those that are not named are gone.
        index_name: the newest index file now.
    """
    same = {name for name, end in queues.items() if found.queues.get(name) == end}
    return {
        "queues": dict(queues),
        "firsts": {name: base for name, base in found.firsts.items() if name in queues},
        "lasts": {name: end for name, end in found.lasts.items() if name in same},
        "ahead": tuple(name for name in found.ahead if name in same),
        "tails": {name: crc for name, crc in found.tails.items() if name in same},
        "index_before": tuple(older for older in found.index_before if older[0] < index_name),
    }
