"""What stands in one file, as a table or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from reput.stores.inspect.printable import printable
from reput.streaming.show.console import OUT
from reput.streaming.show.moments import Moment, for_json, local_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reput.stores.inspect.queues import Inspection

# Fields of files whose names are others in what is shown: those that rows of queries have.
_SHOWN_AS = {"queue_id": "queue", "timestamp": "stored", "store_timestamp": "stored"}
_TIMESTAMP = "_timestamp"


def _shown_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return facts or a row of a file as they are shown: names as in queries, times as such."""
    shown: dict[str, object] = {}
    for name, value in row.items():
        title = _SHOWN_AS.get(name, name.removesuffix(_TIMESTAMP))
        is_time = isinstance(value, int) and name.endswith(("timestamp", _TIMESTAMP))
        shown[title] = Moment(value) if is_time and isinstance(value, int) else value
    if "field" in row and "value" in row:
        # A checkpoint has longs of two kinds in one column.
        value = row["value"]
        is_time = str(row["field"]).endswith(_TIMESTAMP) and isinstance(value, int)
        shown["time"] = local_time(value) if is_time and isinstance(value, int) else None
    return shown


def print_inspection(
    shown: Inspection, limit: int, *, as_json: bool, as_blocks: bool = False
) -> None:
    """Print what stands in a file.

    Args:
        shown: facts and rows, one more than `limit` if there are.
        limit: rows to show; 0 for all.
        as_json: as one document.
        as_blocks: rows have too many fields for a table.
    """
    rows = [_shown_row(row) for row in shown.rows]
    facts = _shown_row(shown.facts)
    is_more = bool(limit) and len(rows) > limit
    rows = rows[:limit] if is_more else rows
    if as_json:
        document = {"file": facts, "rows": rows, "truncated": is_more}
        print(json.dumps(for_json(document), default=_json_value))
        return
    OUT.print(", ".join(f"{k} {text_of(v)}" for k, v in facts.items()), markup=False)
    _print_rows(rows, as_blocks=as_blocks)
    if is_more:
        OUT.print(f"{limit} rows shown, there are more; --limit 0 shows all")


def _print_rows(rows: Sequence[Mapping[str, object]], *, as_blocks: bool) -> None:
    if as_blocks:
        for row in rows:
            OUT.print()
            for name, value in row.items():
                OUT.print(f"{name:>28}  {text_of(value)}", markup=False, soft_wrap=True)
        return
    if not rows:
        OUT.print("no rows")
        return
    table = Table()
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(escape(text_of(row.get(name, ""))) for name in rows[0]))
    OUT.print(table)


def text_of(value: object) -> str:
    """Return a value as text that is safe to print, whatever a message's sender put into it."""
    if isinstance(value, bytes):
        return printable(value.decode("utf-8", "backslashreplace"))
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{text_of(k)}={text_of(v)}" for k, v in value.items())
    return printable(str(value))


def _json_value(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else str(value)
