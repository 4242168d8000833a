"""`reput query delayed` and `timer`: messages that wait for their time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from reput.stores.query import waiting
from reput.streaming.cli.asked import finish_rows, now_ms, open_store
from reput.streaming.settings.model.queries import DelayedOptions, TimerOptions
from reput.streaming.show import query_output as out
from reput.streaming.show.moments import Moment

if TYPE_CHECKING:
    from reput.stores.query.waiting import DelayLevel


def delayed(options: DelayedOptions) -> None:
    """Show the messages that wait by delay level, against the broker's delayOffset.json.

    Example: `reput query delayed --level 3 --store /data/rocketmq/store`
    """
    now = now_ms()
    with open_store(options) as asked:
        if options.level is None:
            rows = [_level_row(each, now) for each in waiting.delay_levels(asked)]
            finish_rows(asked, "levels", rows, as_json=options.as_json)
        waits, total = out.take(options.limit, waiting.delayed(asked, options.level or 0))
        rows = [_waiting_row(each, now) for each in waits]
        finish_rows(asked, "messages", rows, as_json=options.as_json, total=total)


def timer(options: TimerOptions) -> None:
    """Show the messages on the timer wheel that wait for their time.

    Example: `reput query timer --store /data/rocketmq/store`
    """
    now = now_ms()
    waits = {waiting.TimerState.NEW, waiting.TimerState.WAITING}
    with open_store(options) as asked:
        shown = (
            each for each in waiting.timers(asked, now) if options.everything or each.state in waits
        )
        taken, total = out.take(options.limit, shown)
        rows = [_waiting_row(each, now) for each in taken]
        finish_rows(asked, "timers", rows, as_json=options.as_json, total=total)


def _level_row(each: DelayLevel, now: int) -> dict[str, Any]:
    due = each.next_due
    return {
        "level": each.level,
        "delay_s": each.delay // 1000 if each.delay is not None else None,
        "waiting": each.waiting,
        "next_offset": each.next_offset,
        "max_offset": each.max_offset,
        "next_due": Moment(due),
        "overdue_s": max((now - due) // 1000, 0) if due is not None else None,
    }


def _waiting_row(each: waiting.Waiting, now: int) -> dict[str, Any]:
    row = {
        "queue_offset": each.queue_offset,
        "due": Moment(each.due),
        "overdue_s": max((now - each.due) // 1000, 0),
        "topic": each.topic,
        "queue": _number(each.queue_id),
        "id": each.record.properties.get("UNIQ_KEY", ""),
        "physical_offset": each.record.physical_offset,
    }
    return row if each.state is None else {"state": str(each.state), **row}


def _number(text: str) -> int | None:
    """Return a number that a property holds, None for another text."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,10}", text) else None
