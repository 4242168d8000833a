"""What a verification finds: where an output differs from what its commitlog gives.

A finding names a file and a byte in it. Findings are bounded, because a wrong setting makes
every entry one; their number is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

KEPT = 1000


class Kind(StrEnum):
    """What is wrong, or worth a note; the values are what the command prints."""

    MISSING = "missing"
    SURPLUS = "surplus"
    MISPLACED = "misplaced"
    SHIFTED = "shifted"
    WRONG_BYTES = "wrong bytes"
    BROKEN_CHAIN = "broken chain"
    HEADER = "header"
    SIZE = "size"
    NAME = "name"
    CHECKPOINT = "checkpoint"
    CHECKPOINT_AHEAD = "checkpoint ahead of files"
    PROGRESS = "progress"
    UNREADABLE = "unreadable record"
    INCOMPLETE = "incomplete"
    SKIPPED = "skipped"
    REPEATED = "repeated queue offsets"


def left_out(count: int) -> str:
    """Return that entries are left out because of their queue offsets, as a part of a sentence."""
    if count == 1:
        return "1 entry of a message is left out, as its queue offset had been given before"
    what = f"{count:,} entries of messages are left out"
    return f"{what}, as their queue offsets had been given before"


@dataclass(frozen=True)
class Finding:
    """One difference.

    Attributes:
        kind: see `Kind`.
        path: the file, or the directory that should hold it.
        position: byte in that file.
        detail: what stands there and what should.
    """

    kind: Kind
    path: str
    position: int
    detail: str


class Scope(NamedTuple):
    """Which records an output is checked against, and how strictly.

    Attributes:
        floor: physical offset of the first of them; what points below it cannot be checked.
        end: physical offset after the last one.
        is_ours: written by reput, so that every byte is determined; else a broker's own.
        is_clean: closed in order.
    """

    floor: int
    end: int
    is_ours: bool
    is_clean: bool

    @property
    def tolerates_leftovers(self) -> bool:
        """Tell whether well-formed entries after the last one are tolerated.

        Our killed writer leaves them for its successor to roll back; a broker that recovered
        moves its write position before them and zeroes nothing (`truncateDirtyLogicFiles`).
        """
        return self.is_clean != self.is_ours


@dataclass
class _Run:
    """Units of one kind that stand one after another in a file: reported as one."""

    kind: Kind
    first: int
    end: int
    count: int
    what: str


@dataclass
class Report:
    """What was found, and how much was looked at.

    Attributes:
        findings: the first `KEPT` ones.
        found: all of them.
        shifted: of these, `Kind.SHIFTED` ones.
        lacks: what of the log is out of reach: places that are damaged, or were passed over; the
            first `KEPT` ones. The output may be right nevertheless.
        lacking: all of those.
        skipped: of these, places that were passed over as asked, and still hold no records.
        writer: the process that writes to the output at the moment, "" for none. What it has not
            dispatched yet is not lacking.
        repeated: entries of messages that are left out, as the queue had one at that queue offset
            already. A message may have others, in further queues.
        notes: what is not a finding, as a broker has it too: what a crash or an upgrade leaves, a
            deleted topic, entries that its rebuild leaves out. `handover` may say no for one. The
            first `KEPT` ones.
        noted: all of those.
        messages: records of the log.
        entries: consume queue entries, and units of batch queues.
        units: units of consume queue extensions.
        items: index items.
        unverifiable: entries and items of records that have expired, or are in a place of the log
            that is damaged now.
        files: files of the output.
        bytes: commitlog bytes.
        seconds: wall time.
    """

    findings: list[Finding] = field(default_factory=list)
    found: int = 0
    shifted: int = 0
    lacks: list[Finding] = field(default_factory=list)
    lacking: int = 0
    skipped: int = 0
    writer: str = ""
    repeated: int = 0
    notes: list[Finding] = field(default_factory=list)
    noted: int = 0
    messages: int = 0
    entries: int = 0
    units: int = 0
    items: int = 0
    unverifiable: int = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    _runs: dict[str, _Run] = field(default_factory=dict, repr=False)

    @property
    def ok(self) -> bool:
        """Tell whether nothing is wrong."""
        return self.found == 0

    @property
    def is_complete(self) -> bool:
        """Tell whether nothing of the log is out of reach."""
        return self.lacking == 0

    @property
    def left_by(self) -> str:
        """Return what has put entries and items after the end that an output's record gives."""
        return f"not recorded yet; {self.writer} is writing" if self.writer else "left by a crash"

    def lack(
        self, path: Path | str, position: int, detail: str, kind: Kind = Kind.INCOMPLETE
    ) -> None:
        """Count a place of the log whose messages the output does not have, or cannot prove.

        Args:
            path: the file of the log.
            position: byte in it.
            detail: what is there.
            kind: `Kind.SKIPPED` if it was passed over as asked and still holds no records.
        """
        self.lacking += 1
        self.skipped += kind == Kind.SKIPPED
        if len(self.lacks) < KEPT:
            self.lacks.append(Finding(kind, str(path), position, detail))

    def add(self, kind: Kind, path: Path | str, position: int, detail: str) -> None:
        """Count a finding, and keep it if there is room."""
        self.found += 1
        self.shifted += kind == Kind.SHIFTED
        if len(self.findings) < KEPT:
            self.findings.append(Finding(kind, str(path), position, detail))

    def note(self, kind: Kind, path: Path | str, position: int, detail: str) -> None:
        """Count what looks like a finding and is none."""
        self.noted += 1
        if len(self.notes) < KEPT:
            self.notes.append(Finding(kind, str(path), position, detail))

    def add_to_run(self, kind: Kind, path: Path | str, position: int, size: int, what: str) -> None:
        """Count one of several units in a row as a part of one finding.

        Args:
            kind: see `Kind`.
            path: the file.
            position: the unit's byte in it.
            size: the unit's bytes.
            what: noun phrase for the units.
        """
        run = self._runs.get(str(path))
        if run is not None:
            if run.kind == kind and run.what == what and run.end == position:
                run.end += size
                run.count += 1
                return
            self._end_run(str(path), run)
        self._runs[str(path)] = _Run(kind, position, position + size, 1, what)

    def _end_run(self, path: str, run: _Run) -> None:
        self.add(run.kind, path, run.first, f"{run.count} {run.what}")

    def end_runs(self) -> None:
        """Make findings of what `add_to_run` has gathered."""
        for path, run in self._runs.items():
            self._end_run(path, run)
        self._runs = {}
