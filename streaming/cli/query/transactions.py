"""`reput query transactions`: half messages, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.formats.errors import UsageError
from reput.stores.query.transactions import TransactionState
from reput.stores.query.transactions import transactions as all_transactions
from reput.streaming.cli.asked import finish_rows, now_ms, open_store
from reput.streaming.settings.model.queries import TransactionOptions
from reput.streaming.show import query_output as out

if TYPE_CHECKING:
    from reput.stores.query.transactions import Transaction


def transactions(options: TransactionOptions) -> None:
    """Show transactions by their half messages: which wait, how long, how often checked.

    Example: `reput query transactions --state pending --store /data/rocketmq/store`
    """
    state = options.state
    states = [str(each) for each in TransactionState]
    if state is not None and state not in states:
        raise UsageError(f"--state {state!r} is not one of {', '.join(states)}")
    now = now_ms()
    with open_store(options) as asked:
        found = (
            each
            for each in all_transactions(asked, is_all=options.everything)
            if state in {None, str(each.state)}
        )
        taken, total = out.take(options.limit, found)
        rows = [_row(each, now) for each in taken]
        finish_rows(asked, "transactions", rows, as_json=options.as_json, total=total)


def _row(each: Transaction, now: int) -> dict[str, Any]:
    return {
        "state": str(each.state),
        "age_s": (now - each.half.born_timestamp) // 1000,
        "checks": each.checks,
        "id": each.id,
        "topic": each.topic,
        "queue": each.queue_id,
        "group": each.half.properties.get("PGROUP", ""),
        "half_offset": each.half_offset,
        "half_at": each.half.physical_offset,
        "op_at": each.op_offset,
        "final_at": each.final_offset,
    }
