"""Which places of the log give an output nothing, and what to do about each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.checkpoints import progress
from reput.formats.rocketmq.commitlog import Record
from reput.stores.findings import Kind
from reput.stores.log.commitlog import active_file
from reput.stores.log.holes import damage_error, flaw_after
from reput.stores.log.places import unmounted
from reput.stores.log.records import read_at
from reput.stores.log.unreadable import next_record, place_of
from reput.streaming.dispatch.log import passed

if TYPE_CHECKING:
    from reput.streaming.verify.subject import Subject


def report_lacks(subject: Subject) -> None:
    """Report the places of the log that give the output nothing.

    These are: what was passed over; what expired before it was dispatched (what the output has
    there may be of a log that was cut); what was met; where dispatch stopped; what follows the
    log's end.
    """
    log, readable = subject.log, subject.readable
    _report_passed_over(subject)
    floor = log.min_offset
    if subject.progress is not None and 0 <= subject.progress.end < floor:
        path, byte = log.file_of(floor)
        detail = f"physical offsets {subject.progress.end} to {floor} expired before dispatch"
        subject.report.lack(path, byte, detail)
    _report_rest(subject)
    for directory, detail in unmounted(subject.config.path, subject.settings, floor):
        subject.report.note(Kind.MISSING, directory, 0, detail)
    if subject.stop is not None:
        end = subject.scope.end
        readable.lack(subject.stop, end, next_record(log, end))
    _read_on(subject)
    flaw = subject.ends.flaw
    if subject.tail > subject.ends.first:
        flaw = flaw_after(log, subject.tail)
    if flaw is not None:
        place = place_of(log, flaw)
        readable.lack(flaw, subject.tail if place is None else place)
    for _, error in sorted(readable.lacks.items()):
        subject.report.lack(error.path, error.position, error.problem)


def _read_on(subject: Subject) -> None:
    """Look for damage after what was dispatched: in the last file, and missing bytes.

    Dispatch reads the other files.
    """
    end = subject.scope.end
    for _ in subject.readable.blocks(max(end, active_file(subject.log)), subject.tail):
        pass
    for damage in subject.log.damages:
        if damage.end > end:
            subject.readable.lack(damage_error(damage), damage.start, damage.end)


def _report_rest(subject: Subject) -> None:
    """Report how much of the log is not dispatched; it is lacking unless a writer is at work."""
    if subject.progress is None or subject.log.after_blank(subject.progress.end) >= subject.tail:
        return
    at = subject.scope.end
    rest = (
        f"{subject.tail - at} of {subject.tail - subject.log.min_offset} bytes of the log, from "
        f"physical offset {at} on, are not dispatched"
    )
    if subject.report.writer or subject.stop is not None:
        # What it has stopped at is lacking, and says more.
        path = subject.config.output / progress.STATE_DIRECTORY / progress.FILE_NAME
        who = f"; {subject.report.writer} is writing" if subject.report.writer else ""
        subject.report.note(Kind.PROGRESS, path, 0, f"{rest} yet{who}")
        return
    path, byte = subject.log.file_of(at)
    remedy = "`reput rebuild` with the same store and output resumes there"
    if _waits_for_broker(subject, at, subject.progress.store_timestamp):
        remedy = (
            "what stands there is older than the record before, and may have been cut away: it "
            "counts once the broker has written after it, or has stopped"
        )
    subject.report.lack(path, byte, f"{rest}, and nothing is writing: {remedy}")


def _waits_for_broker(subject: Subject, position: int, newest: int) -> bool:
    """Tell whether a record is out of turn, which dispatch holds back while a broker runs."""
    if not subject.log.is_held():
        return False
    _, record = read_at(subject.log, position)
    return isinstance(record, Record) and record.store_timestamp < newest


def _report_passed_over(subject: Subject) -> None:
    """Report what the output passed over, and what of that can be read by now."""
    log = subject.log
    again = passed.readable(log, subject.passed.items(), subject.obstacles)
    for start, end in subject.passed.items():
        if end > log.min_offset:
            path, byte = log.file_of(max(start, log.min_offset))
            detail = f"physical offsets {start} to {end} were passed over"
            kind = Kind.SKIPPED
            if (start, end) in again:
                detail += f"; {passed.READABLE}"
                kind = Kind.INCOMPLETE
            subject.report.lack(path, byte, detail, kind)
