"""What programs get back: how far a dispatch came, and what a verification comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.streaming.endings.verdict import Verdict, code_of, verdict_of

if TYPE_CHECKING:
    from reput.stores.findings import Finding, Report


@dataclass(frozen=True)
class Dispatched:
    """What a call of `rebuild` did.

    Attributes:
        start: physical offset where it began.
        end: where it ended; the next record's.
        log_end: where the log ends.
        messages: records dispatched.
        entries: put into consume queues.
        items: inserted into the index.
        skipped: corrupt places passed over.
        events: what an operator should know of, in words.
    """

    start: int
    end: int
    log_end: int
    messages: int
    entries: int
    items: int
    skipped: int
    events: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Tell whether the log's end is reached: else a record waits, as a broker is writing."""
        return self.end >= self.log_end


@dataclass(frozen=True)
class Verification:
    """What a call of `verify` found. Except for `ok`, names are those of `reput verify --json`.

    Attributes:
        verdict: "sound", "damaged", "incomplete" or "skipped", as the command says it.
        findings: what is wrong; the first 1,000.
        found: all of those.
        lacks: what of the log the output does not have, or cannot prove; the first 1,000.
        lacking: all of those.
        notes: what a broker has too, and is not wrong; the first 1,000.
        noted: all of those.
        writer: the process that writes to the output at the moment, "" for none. What it has not
            dispatched yet is not lacking.
        messages: records of the log.
        entries: consume queue entries, and units of batch queues.
        units: units of consume queue extensions.
        items: index items.
        unverifiable: entries and items of records that the log does not have.
        files: files of the output.
        bytes: commitlog bytes.
        seconds: wall time.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    found: int
    lacks: tuple[Finding, ...]
    lacking: int
    notes: tuple[Finding, ...]
    noted: int
    writer: str
    messages: int
    entries: int
    units: int
    items: int
    unverifiable: int
    files: int
    bytes: int
    seconds: float

    @classmethod
    def of(cls, report: Report) -> Verification:
        """Return what a report comes to."""
        return cls(
            verdict=verdict_of(report),
            findings=tuple(report.findings),
            found=report.found,
            lacks=tuple(report.lacks),
            lacking=report.lacking,
            notes=tuple(report.notes),
            noted=report.noted,
            writer=report.writer,
            messages=report.messages,
            entries=report.entries,
            units=report.units,
            items=report.items,
            unverifiable=report.unverifiable,
            files=report.files,
            bytes=report.bytes,
            seconds=report.seconds,
        )

    @property
    def ok(self) -> bool:
        """Tell whether the verdict is "sound": nothing is wrong, and nothing is missing."""
        return self.verdict == Verdict.SOUND

    @property
    def exit_code(self) -> int:
        """Return what `reput verify` exits with: 0 sound, 1 damaged, 4 incomplete or skipped."""
        return code_of(self.verdict)
