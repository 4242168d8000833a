"""What `verify`, `handover` and `rebuild --repair` found and did, as tables or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from reput.stores.inspect.printable import printable
from reput.streaming.endings.verdict import Verdict, verdict_of
from reput.streaming.show.console import OUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.stores.findings import Finding, Report
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.verify.handover import Handover
    from reput.streaming.verify.repair import Repair

_SHOWN = 40


def print_report(report: Report, *, as_json: bool) -> None:
    """Print what `verify` found."""
    if as_json:
        print(json.dumps(report_as_dict(report)))
        return
    tables = (
        ("Findings", report.findings),
        ("Out of reach", report.lacks),
        ("Notes", report.notes),
    )
    counts = {"Out of reach": report.lacking, "Notes": report.noted}
    for title, findings in tables:
        if findings:
            table = Table(title=title, title_justify="left")
            for header in ("kind", "file", "byte", "what"):
                table.add_column(header, overflow="fold")
            for finding in findings[:_SHOWN]:
                cells = (finding.kind, finding.path, str(finding.position), finding.detail)
                table.add_row(*(escape(printable(cell)) for cell in cells))
            OUT.print(table)
            if len(findings) > _SHOWN and title in counts:
                OUT.print(f"{_SHOWN} of {counts[title]} shown; --json has more")
    shown = min(len(report.findings), _SHOWN)
    more = f" ({shown} of them shown)" if report.found > shown else ""
    verdict = verdict_of(report)
    noun = "finding" if report.found == 1 else "findings"
    said = f"{verdict}, {report.found} {noun}{more}" if verdict == Verdict.DAMAGED else verdict
    OUT.print(
        f"{said}: {report.messages:,} messages, {report.entries:,} queue entries, "
        f"{report.units:,} extension units, {report.items:,} index items in {report.files:,} files "
        f"in {report.seconds:.2f} s"
        + (
            f"; {report.unverifiable:,} of records that the log does not have"
            if report.unverifiable
            else ""
        )
    )


def print_handover(result: Handover, *, as_json: bool) -> None:
    """Print whether a broker may be started, and what to do."""
    if as_json:
        values = {
            "verdict": result.verdict,
            "safe": result.is_safe,
            "problems": result.problems,
            "places": result.places,
            "commands": result.commands,
            "end": result.end,
            "verify": report_as_dict(result.report) if result.report else None,
            "seconds": round(result.seconds, 3),
        }
        print(json.dumps(values))
        return
    for problem in result.problems:
        OUT.print(f"- {problem}", markup=False, soft_wrap=True)
    if not result.is_safe:
        OUT.print(f"not safe yet: {result.verdict}")
        return
    messages = result.report.messages if result.report else 0
    OUT.print(f"safe: {messages:,} messages up to physical offset {result.end:,}")
    if result.commands:
        OUT.print("With the broker stopped:")
        # One that fails ends all of them.
        for line in [f"{each} &&" for each in result.commands[:-1]] + result.commands[-1:]:
            OUT.print(f"    {line}", markup=False, soft_wrap=True)


def print_repairs(results: Sequence[tuple[StoreConfig, Repair]], *, as_json: bool) -> None:
    """Print what was done to outputs, file by file."""
    if as_json:
        stores = [_repair_as_dict(config, result) for config, result in results]
        print(json.dumps({"ok": all(result.ok for _, result in results), "stores": stores}))
        return
    for config, result in results:
        if result.record:
            OUT.print(f"progress record made again: {result.record}", markup=False, soft_wrap=True)
        if result.settings:
            OUT.print(
                f"record of topics' types and filters made again, by those of today: "
                f"{result.settings}",
                markup=False,
                soft_wrap=True,
            )
        for start, end in result.restored:
            OUT.print(
                f"physical offsets {start} to {end} had been passed over, and are dispatched now "
                "as far as they can be read",
                soft_wrap=True,
            )
        if result.changes:
            table = Table(title=config.name, title_justify="left")
            for header in ("what", "file", "why"):
                table.add_column(header, overflow="fold")
            for change in result.changes[:_SHOWN]:
                cells = (change.what, str(change.path), change.detail)
                table.add_row(*(escape(printable(cell)) for cell in cells))
            OUT.print(table)
        more = len(result.changes) - _SHOWN
        OUT.print(
            f"{len(result.changes)} change{'s' if len(result.changes) != 1 else ''}"
            f"{f', {_SHOWN} of them shown' if more > 0 else ''}; "
            f"{result.kept:,} files were right and stay; {result.messages:,} messages up to "
            f"physical offset {result.end:,}, in {result.seconds:.2f} s"
        )
        if result.report is not None:
            print_report(result.report, as_json=False)


def _repair_as_dict(config: StoreConfig, result: Repair) -> dict[str, object]:
    return {
        "name": config.name,
        "output": str(config.output),
        "verdict": result.verdict,
        "ok": result.ok,
        "changes": [
            {"what": change.what, "file": str(change.path), "detail": change.detail}
            for change in result.changes
        ],
        "kept": result.kept,
        "restored": [list(place) for place in result.restored],
        "progress": result.record or "read",
        "settings": result.settings or "read",
        "end": result.end,
        "messages": result.messages,
        "failure": str(result.failure) if result.failure is not None else None,
        "verify": report_as_dict(result.report) if result.report is not None else None,
        "seconds": round(result.seconds, 3),
    }


def report_as_dict(report: Report) -> dict[str, object]:
    """Return what `verify --json` prints."""

    def rows(findings: list[Finding]) -> list[dict[str, object]]:
        return [
            {"kind": f.kind, "file": f.path, "byte": f.position, "detail": f.detail}
            for f in findings
        ]

    return {
        "verdict": verdict_of(report),
        "ok": report.ok,
        "complete": report.is_complete,
        "lacks": rows(report.lacks),
        "found": report.found,
        "findings": rows(report.findings),
        "notes": rows(report.notes),
        "writer": report.writer or None,
        "lacking": report.lacking,
        "noted": report.noted,
        "truncated": report.found > len(report.findings)
        or report.lacking > len(report.lacks)
        or report.noted > len(report.notes),
        "messages": report.messages,
        "entries": report.entries,
        "units": report.units,
        "items": report.items,
        "unverifiable": report.unverifiable,
        "files": report.files,
        "bytes": report.bytes,
        "seconds": round(report.seconds, 3),
    }
