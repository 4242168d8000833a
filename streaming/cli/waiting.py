"""`reput query …`: what waits in a store: transactions, delayed messages, timers, consumers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reput.formats.errors import UsageError
from reput.stores.query import consumers as consumer_lags
from reput.stores.query import waiting
from reput.stores.query.transactions import TransactionState
from reput.stores.query.transactions import transactions as all_transactions
from reput.streaming.cli import completions
from reput.streaming.cli.query_options import (
    ROWS,
    Conf,
    Json,
    OptionalTopic,
    Output,
    RowLimit,
    Version,
    finish_rows,
    now_ms,
    open_store,
)
from reput.streaming.cli.store_choice import Config, LogPlaces, Store, StoreName
from reput.streaming.show import query_output as out
from reput.streaming.show.moments import Moment
from reput.streaming.source.no_such import no_such

if TYPE_CHECKING:
    from reput.stores.query.message_store import MessageStore


def transactions(
    store: Store = None,
    output: Output = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            autocompletion=lambda: [str(each) for each in TransactionState],
            help="pending, committed, rolled back, discarded or ended: only these.",
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="From the oldest one; else from where the broker checks."),
    ] = False,
    limit: RowLimit = ROWS,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """Show transactions by their half messages: which wait, how long, how often checked.

    Example: `reput query transactions --state pending --store /data/rocketmq/store`
    """
    states = [str(each) for each in TransactionState]
    if state is not None and state not in states:
        raise UsageError(f"--state {state!r} is none of {', '.join(states)}")
    now = now_ms()
    with open_store(
        store, output, broker_version, broker_conf, commitlog, config, store_name
    ) as asked:
        found = (
            each
            for each in all_transactions(asked, is_all=everything)
            if state in {None, str(each.state)}
        )
        taken, total = out.take(limit, found)
        rows = [
            {
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
            for each in taken
        ]
        finish_rows(asked, "transactions", rows, as_json=as_json, total=total)


def delayed(
    store: Store = None,
    level: Annotated[
        int | None, typer.Option("--level", min=1, help="Show the messages of this level.")
    ] = None,
    output: Output = None,
    limit: RowLimit = ROWS,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """Show the messages that wait by delay level, against the broker's delayOffset.json.

    Example: `reput query delayed --level 3 --store /data/rocketmq/store`
    """
    now = now_ms()
    with open_store(
        store, output, broker_version, broker_conf, commitlog, config, store_name
    ) as asked:
        total = None
        if level is None:
            rows = [
                {
                    "level": each.level,
                    "delay_s": each.delay // 1000 if each.delay is not None else None,
                    "waiting": each.waiting,
                    "next_offset": each.next_offset,
                    "max_offset": each.max_offset,
                    "next_due": Moment(each.next_due),
                    "overdue_s": max((now - each.next_due) // 1000, 0)
                    if each.next_due is not None
                    else None,
                }
                for each in waiting.delay_levels(asked)
            ]
        else:
            waits, total = out.take(limit, waiting.delayed(asked, level))
            rows = [_waiting_row(each, now) for each in waits]
        name = "levels" if level is None else "messages"
        finish_rows(asked, name, rows, as_json=as_json, total=total)


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


def timer(
    store: Store = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Delivered, rolled and cancelled ones too.")
    ] = False,
    output: Output = None,
    limit: RowLimit = ROWS,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """Show the messages on the timer wheel that wait for their time.

    Example: `reput query timer --store /data/rocketmq/store`
    """
    now = now_ms()
    waits = {waiting.TimerState.NEW, waiting.TimerState.WAITING}
    with open_store(
        store, output, broker_version, broker_conf, commitlog, config, store_name
    ) as asked:
        shown = (each for each in waiting.timers(asked, now) if everything or each.state in waits)
        taken, total = out.take(limit, shown)
        rows = [_waiting_row(each, now) for each in taken]
        finish_rows(asked, "timers", rows, as_json=as_json, total=total)


def consumers(
    store: Store = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", autocompletion=completions.groups, help="Only this group."),
    ] = None,
    topic: OptionalTopic = None,
    output: Output = None,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """Show how far consumer groups are behind, by the broker's consumerOffset.json.

    Example: `reput query consumers --group billing --store /data/rocketmq/store`
    """
    now = now_ms()
    with open_store(
        store, output, broker_version, broker_conf, commitlog, config, store_name
    ) as asked:
        rows = [
            {
                "group": each.group,
                "topic": each.topic,
                "queue": each.queue_id,
                "offset": each.offset,
                "min_offset": each.min_offset,
                "max_offset": each.max_offset,
                "lag": each.lag,
                "behind_s": (now - each.waiting_since) // 1000
                if each.waiting_since is not None
                else None,
            }
            for each in consumer_lags.lags(asked, group=group, topic=topic)
        ]
        missing = None if rows else _no_such_consumer(asked, group, topic)
        finish_rows(asked, "consumers", rows, as_json=as_json, missing=missing)


def _no_such_consumer(asked: MessageStore, group: str | None, topic: str | None) -> str | None:
    """Return which of group and topic has no offsets, and which have."""
    pairs = list(asked.consumer_offsets())
    none = "config/consumerOffset.json has none"
    groups, topics = {each for each, _ in pairs}, {each for _, each in pairs}
    if group is not None and group not in groups:
        return no_such("group", group, groups, none)
    if topic is not None and topic not in topics:
        return no_such("topic", topic, topics, none)
    return None
