"""What queries show: messages with their bodies as text, JSON or hex, for people or for programs.

All text that comes from messages goes through `printable`, or is escaped in JSON: the sender of a
message chooses its bytes.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq import bodies, messageid
from reput.stores.inspect.printable import printable
from reput.streaming.settings.model.choices import BodyMode
from reput.streaming.show.moments import Moment, for_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.findings import Report

_WIDTH = 28
_NOTES = 20


def body_fields(record: Record, mode: BodyMode, limit: int) -> dict[str, Any]:
    """Return what is shown of a body: its size, how it was compressed, and `limit` bytes of it."""
    body = bodies.decompressed(record.body, record.sys_flag)
    fields: dict[str, Any] = {"body_size": len(body.data)}
    if body.compression != bodies.Compression.NONE:
        fields["compression"] = f"{body.compression}, {len(record.body)} bytes stored"
    if body.problem is not None:
        fields["body_problem"] = body.problem
    if mode == BodyMode.NONE:
        return fields
    data = body.data[:limit]
    if mode == BodyMode.JSON:
        try:
            fields["body_json"] = json.loads(body.data)
        except (ValueError, RecursionError) as error:
            problem = f"no JSON: {error}"
            fields["body_problem"] = f"{body.problem}; {problem}" if body.problem else problem
        else:
            return fields
    if mode == BodyMode.HEX or (mode == BodyMode.AUTO and not _is_text(data)):
        fields["body_hex"] = data.hex()
    else:
        fields["body"] = data.decode("utf-8", "replace")
    if len(data) < len(body.data):
        fields["body_shown"] = len(data)
    return fields


def _is_text(data: bytes) -> bool:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        # The limit may have cut a character.
        if error.start < len(data) - 3:
            return False
        text = data[: error.start].decode()
    return all(c.isprintable() or c in "\t\r\n" for c in text)


# A record's fields whose names are others in what is shown: those that other rows have.
SHOWN_AS = {"queue_id": "queue", "born_timestamp": "born", "store_timestamp": "stored"}
_TIMES = {"born", "stored"}


def message_fields(record: Record, mode: BodyMode, limit: int) -> dict[str, Any]:
    """Return all of a message by name."""
    fields: dict[str, Any] = {}
    for name, value in record._asdict().items():
        shown = SHOWN_AS.get(name, name)
        fields[shown] = Moment(value) if shown in _TIMES else value
    del fields["body"]
    properties = fields.pop("properties")
    fields["offset_id"] = messageid.offset_id(record.store_host, record.physical_offset)
    return {**fields, "properties": properties, **body_fields(record, mode, limit)}


def print_json(document: object) -> None:
    """Print one JSON document; what is not ASCII is escaped in it."""
    print(json.dumps(for_json(document)))


def print_fields(fields: dict[str, Any]) -> None:
    """Print names and values, one a line."""
    for name, value in fields.items():
        if isinstance(value, Moment):
            shown = str(value)
        elif isinstance(value, dict) and name == "properties":
            for key, text in value.items():
                print(f"{name:>{_WIDTH}}  {printable(str(key))}={printable(str(text))}")
            continue
        elif isinstance(value, dict | list):
            shown = printable(json.dumps(value, ensure_ascii=False))
        else:
            shown = printable(str(value))
        print(f"{name:>{_WIDTH}}  {shown}")


def print_messages(messages: Iterable[dict[str, Any]]) -> None:
    """Print messages, each below an empty line."""
    for fields in messages:
        print()
        print_fields(fields)


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows that have the same fields as columns."""
    if not rows:
        return
    names = list(rows[0])
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    left = [isinstance(rows[0][name], str | Moment) for name in names]
    for line in (names, *cells):
        aligned = (
            text.ljust(width) if is_left else text.rjust(width)
            for text, width, is_left in zip(line, widths, left, strict=True)
        )
        print("  ".join(aligned).rstrip())


def _cell(value: object) -> str:
    return "-" if value is None else printable(str(value))


def print_notes(report: Report) -> None:
    """Say on standard error what was not as it should be."""
    for finding in report.findings[:_NOTES]:
        path, detail = printable(finding.path), printable(finding.detail)
        print(f"reput: {path} at byte {finding.position}: {detail}", file=sys.stderr)
    more = report.found - min(len(report.findings), _NOTES)
    if more:
        print(f"reput: and {more} more like these", file=sys.stderr)


def notes(report: Report) -> list[dict[str, Any]]:
    """Return what was not as it should be, for JSON."""
    return [
        {"kind": f.kind, "file": f.path, "byte": f.position, "detail": f.detail}
        for f in report.findings
    ]


def take(limit: int, values: Iterable[Any]) -> tuple[list[Any], int]:
    """Return the first values, and how many there are in all.

    Args:
        limit: at most as many; 0 for all.
        values: that come one by one.
    """
    taken: list[Any] = []
    total = 0
    for total, value in enumerate(values, 1):
        if not limit or total <= limit:
            taken.append(value)
    return taken, total
