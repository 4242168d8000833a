"""Messages that wait for their time: by delay level, and on the timer wheel.

Source: RocketMQ `ScheduleMessageService` with `config/delayOffset.json`, `TimerMessageStore` with
`config/timercheck`.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import StoreError
from reput.formats.java import fastjson, strings
from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import SCHEDULE_TOPIC
from reput.stores.config.config_files import read_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.query.message_store import MessageStore

TIMER_TOPIC = "rmq_sys_wheel_timer"
_DELAY_OFFSETS = "delayOffset.json"
_TIMER_CHECK = "timercheck"
# ms of a slot by default (timerPrecisionMs).
_SLOT = 1000
_NEVER = 1 << 63
_TIMER_LONGS = struct.Struct(">qqq")


class DelayLevel(NamedTuple):
    """One level's queue.

    Attributes:
        level: 1 is the first.
        delay: ms; None for a level that the settings do not have.
        next_offset: queue offset of the first message that waits, by `delayOffset.json`.
        max_offset: after the last one.
        next_due: when the first one is due, ms; None if none waits.
    """

    level: int
    delay: int | None
    next_offset: int
    max_offset: int
    next_due: int | None

    @property
    def waiting(self) -> int:
        """Return how many wait."""
        return max(self.max_offset - self.next_offset, 0)


class Waiting(NamedTuple):
    """A message that waits.

    Attributes:
        level: of the delay, 0 for one on the timer wheel.
        queue_offset: in the topic that it waits in.
        due: ms.
        record: as it waits.
        state: of one on the timer wheel.
    """

    level: int
    queue_offset: int
    due: int
    record: Record
    state: TimerState | None = None

    @property
    def topic(self) -> str:
        """Return the topic that it will be delivered to."""
        return self.record.properties.get("REAL_TOPIC", "")

    @property
    def queue_id(self) -> str:
        """Return the queue that it will be delivered to."""
        return self.record.properties.get("REAL_QID", "")


class TimerState(StrEnum):
    """What became of a message on the timer wheel.

    NEW: the wheel has not read it yet. ROLLED: a later record stands for it.
    """

    NEW = "new"
    WAITING = "waiting"
    ROLLED = "rolled"
    CANCELLED = "cancelled"
    DELIVERED = "delivered"


def delay_levels(store: MessageStore) -> Iterator[DelayLevel]:
    """Yield the levels that have a queue, in their order.

    Raises:
        StoreError: `delayOffset.json` cannot be read.
    """
    offsets = _delay_offsets(store)
    delays = store.settings.delays
    for queue_id in store.queue_ids(SCHEDULE_TOPIC):
        queue = store.queue(SCHEDULE_TOPIC, queue_id)
        if queue is None:
            continue
        level = queue_id + 1
        first = max(offsets.get(level, 0), queue.min_offset)
        entry = next(queue.all_entries(first), None) if first < queue.max_offset else None
        delay = delays[level - 1] if level <= len(delays) else None
        due = entry.tags_code if entry is not None else None
        yield DelayLevel(level, delay, first, queue.max_offset, due)


def _delay_offsets(store: MessageStore) -> dict[int, int]:
    text = read_config(store.root, _DELAY_OFFSETS)
    if text is None:
        return {}
    try:
        table = fastjson.loads(text).get("offsetTable") or {}
        return {strings.parse_int(level): int(offset) for level, offset in table.items()}
    except (ValueError, AttributeError, TypeError) as error:
        path = store.root / names.CONFIG / _DELAY_OFFSETS
        raise StoreError(path, f"not readable: {error}", "Restore it, or its .bak") from error


def delayed(store: MessageStore, level: int | None = None) -> Iterator[Waiting]:
    """Yield the messages that wait by delay level, each level's in the order of their due times.

    Args:
        store: the store.
        level: only this one.

    Raises:
        StoreError: `delayOffset.json` cannot be read.
    """
    for each in delay_levels(store):
        if level is not None and each.level != level:
            continue
        for entry, record in store.entries_with_messages(
            SCHEDULE_TOPIC, each.level - 1, each.next_offset
        ):
            yield Waiting(each.level, entry.queue_offset, entry.tags_code or 0, record)


class TimerProgress(NamedTuple):
    """How far the wheel has come, by `config/timercheck`.

    Attributes:
        read_until: messages due before this have been delivered, ms.
        next_offset: queue offset of the first message that the wheel has not read.
    """

    read_until: int
    next_offset: int


def timer_progress(store: MessageStore) -> TimerProgress | None:
    """Return how far the wheel has come, None where the broker has not written it."""
    path = store.root / names.CONFIG / _TIMER_CHECK
    try:
        data = path.read_bytes()[: _TIMER_LONGS.size]
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(data) < _TIMER_LONGS.size:
        return None
    read_until, _, next_offset = _TIMER_LONGS.unpack(data)
    return TimerProgress(read_until, next_offset)


def timers(store: MessageStore, now: int) -> Iterator[Waiting]:
    """Yield the messages of the timer's topic with what became of them, oldest first.

    Args:
        store: the store.
        now: ms; stands for the wheel's own clock where that is not known.
    """
    progress = timer_progress(store)
    read_until = progress.read_until if progress else now
    records = []
    last: dict[str, int] = {}
    # Recalls by (key of the message, slot of the wheel): when the first was stored.
    recalls: dict[tuple[str, int], int] = {}
    for queue_id in store.queue_ids(TIMER_TOPIC):
        for offset, record in store.messages(TIMER_TOPIC, queue_id, 0):
            properties = record.properties
            if "TIMER_DEL_UNIQKEY" in properties:
                due = _milliseconds(properties.get("TIMER_OUT_MS"))
                recall = properties["TIMER_DEL_UNIQKEY"], due
                recalls[recall] = min(recalls.get(recall, _NEVER), record.store_timestamp)
                continue
            records.append((offset, record))
            last[properties.get("UNIQ_KEY", "")] = offset
    for offset, record in records:
        properties = record.properties
        due = _milliseconds(properties.get("TIMER_OUT_MS"))
        uniq_key = properties.get("UNIQ_KEY", "")
        if progress is not None and offset >= progress.next_offset:
            state = TimerState.NEW
        elif _is_recalled(record, due, recalls):
            state = TimerState.CANCELLED
        elif uniq_key and last[uniq_key] > offset:
            state = TimerState.ROLLED
        else:
            state = TimerState.WAITING if due > read_until else TimerState.DELIVERED
        yield Waiting(0, offset, due, record, state)


def _is_recalled(record: Record, due: int, recalls: Mapping[tuple[str, int], int]) -> bool:
    """Tell whether a recall was there in the message's slot of the wheel before that was due.

    A broker refuses a recall whose time has passed, and one of another slot does nothing. Source:
    `TimerMessageStore#buildDeleteKey`, which from 5.3.2 on may have the topic before the key,
    `TimerMessageStore#dequeue`, `HookUtils#transformTimerMessage`.
    """
    uniq_key = record.properties.get("UNIQ_KEY", "")
    if not uniq_key:
        return False
    names_of_it = (uniq_key, f"{record.properties.get('REAL_TOPIC', '')}+{uniq_key}")
    # The time in the property is up to a slot earlier than the sender's.
    return any(recalls.get((name, due), _NEVER) < due + _SLOT for name in names_of_it)


def _milliseconds(text: str | None) -> int:
    try:
        return strings.parse_long(text or "")
    except ValueError:
        return 0
