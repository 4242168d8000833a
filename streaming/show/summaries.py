"""What a job did, as a table or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.table import Table

from reput.streaming.show.console import OUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.streaming.job.summary import Summary


def summary_document(
    summary: Summary, *, is_complete: bool, has_queues: bool = True
) -> dict[str, object]:
    """Return what `--json` prints of what a job did.

    Args:
        summary: of the job.
        is_complete: it did all that it was to do.
        has_queues: consume queues and index have all that they were to have.
    """
    return {**summary.as_dict(), "complete": is_complete, "queues_complete": has_queues}


def print_summary(
    summary: Summary,
    *,
    as_json: bool,
    left: Sequence[str] = (),
    is_complete: bool = True,
    has_queues: bool = True,
) -> None:
    """Print what a job did.

    Args:
        summary: of the job.
        as_json: as one document.
        left: what it was to do as well, and what to run next; only in the document.
        is_complete: it did all that it was to do.
        has_queues: consume queues and index have all that they were to have.
    """
    values = {
        **summary_document(summary, is_complete=is_complete, has_queues=has_queues),
        **({"error": "; ".join(left)} if left else {}),
    }
    if as_json:
        print(json.dumps(values))
        return
    _print_table(summary)


def _print_table(summary: Summary) -> None:
    table = Table(title="Dispatched", title_justify="left")
    for header in ("store", "messages", "bytes", "messages/s", "files", "next offset"):
        table.add_column(header, justify="left" if header == "store" else "right")
    for store in summary.stores:
        table.add_row(
            store.name,
            f"{store.messages:,}",
            f"{store.bytes:,}",
            f"{summary.rate(store):,.0f}",
            f"{len(store.files):,}",
            str(store.end),
        )
    OUT.print(table)
    rates = f"{summary.busy_seconds:.2f} s of them in batches, which rates count"
    if not summary.is_live:
        rates = "the last flush to the disk included"
    OUT.print(f"in {summary.seconds:.2f} s, without the start of Spark; {rates}")
