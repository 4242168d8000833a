"""What a verification's report comes to in one word, and as an exit code.

Damage goes before all else: an output that is wrong is not put right by adding what it lacks.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from reput.streaming.endings.exit_codes import FINDINGS, INCOMPLETE, OK

if TYPE_CHECKING:
    from reput.stores.findings import Report


class Verdict(StrEnum):
    """The word that `reput verify` ends with; the values are what the command prints."""

    SOUND = "sound"
    DAMAGED = "damaged"
    INCOMPLETE = "incomplete"
    SKIPPED = "skipped"


_CODES = {
    Verdict.SOUND: OK,
    Verdict.DAMAGED: FINDINGS,
    Verdict.INCOMPLETE: INCOMPLETE,
    Verdict.SKIPPED: INCOMPLETE,
}


def verdict_of(report: Report) -> Verdict:
    """Return what a report comes to.

    Returns:
        `DAMAGED` where something is wrong; else `INCOMPLETE` where something of the log is missing
        that was not passed over on purpose; else `SKIPPED` where places were passed over.
    """
    if not report.ok:
        return Verdict.DAMAGED
    if report.is_complete:
        return Verdict.SOUND
    return Verdict.SKIPPED if report.lacking == report.skipped else Verdict.INCOMPLETE


def code_of(verdict: Verdict) -> int:
    """Return the exit code of a verdict."""
    return _CODES[verdict]
