"""What a query's filters say of the records that it wants: topic, queue, offsets, time, keys.

Spark applies every filter again to the rows that come, so filters only say here what may be left
out. Filters on other columns are passed over.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes
    from reput.formats.rows.columns import RowColumns
    from reput.formats.rows.texts import Slices

LONG = 1 << 63
_TEXTS = {
    "brokerName": "stores",
    "topic": "topics",
    "keys": "keys",
    "uniqKey": "uniq_keys",
    "msgId": "message_ids",
    "offsetMsgId": "offset_ids",
}
_NUMBERS = {
    "queueId": "queue_ids",
    "queueOffset": "queue_offsets",
    "physicalOffset": "offsets",
    "storeTimestamp": "store_times",
}
_OFFSET_ID = re.compile(r"(?:[0-9A-F]{16}|[0-9A-F]{40})([0-9A-F]{16})")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


@dataclass(frozen=True)
class Span:
    """Whole numbers from `low` to `high`, both included."""

    low: int = -LONG
    high: int = LONG - 1

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high

    def within(self, other: Span) -> Span:
        """Return what is in both."""
        return Span(max(self.low, other.low), min(self.high, other.high))


ANY = Span()


@dataclass(frozen=True)
class Wanted:
    """What the filters leave; None for texts, and `ANY` for numbers, mean no condition.

    Attributes:
        stores: values of brokerName.
        topics: names.
        keys: values of KEYS, whole.
        uniq_keys: values of UNIQ_KEY.
        message_ids: unique keys, or offset ids.
        offset_ids: message ids that hold an offset.
        queue_ids: numbers.
        queue_offsets: entries.
        offsets: physical offsets.
        store_times: ms.
        filters: those that these came of, for people.
    """

    stores: frozenset[str] | None = None
    topics: frozenset[str] | None = None
    keys: frozenset[str] | None = None
    uniq_keys: frozenset[str] | None = None
    message_ids: frozenset[str] | None = None
    offset_ids: frozenset[str] | None = None
    queue_ids: Span = ANY
    queue_offsets: Span = ANY
    offsets: Span = ANY
    store_times: Span = ANY
    filters: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, filters: Sequence[Filter]) -> Wanted:
        """Return what all of the filters leave together."""
        wanted = cls()
        for each in filters:
            wanted = wanted._and(each)
        return wanted

    def _and(self, condition: Filter) -> Wanted:
        column, values = _values(condition)
        if column in _TEXTS and values is not None:
            name = _TEXTS[column]
            texts = frozenset(value for value in values if isinstance(value, str))
            before = getattr(self, name)
            return self._with(name, texts if before is None else before & texts, condition)
        if column in _NUMBERS:
            name = _NUMBERS[column]
            span = _span(condition, values)
            if span is not None:
                return self._with(name, getattr(self, name).within(span), condition)
        return self

    def _with(self, name: str, value: Any, condition: Filter) -> Wanted:
        return replace(self, **{name: value}, filters=(*self.filters, _shown(condition)))

    @property
    def possible_offsets(self) -> Span:
        """Return the physical offsets that are wanted, by the ids that hold one as well."""
        if self.offset_ids is None:
            return self.offsets
        found = [offset for id_ in self.offset_ids if (offset := offset_of(id_)) is not None]
        # No record has an id of another form.
        return self.offsets.within(Span(min(found, default=0), max(found, default=-1)))

    def indexed(self) -> tuple[frozenset[str], frozenset[int]] | None:
        """Return words that a wanted record is indexed by, and offsets that are wanted besides.

        Returns:
            None where the filters name no key.
        """
        if self.uniq_keys is not None:
            return self.uniq_keys, frozenset()
        if self.message_ids is not None:
            offsets = {o for id_ in self.message_ids if (o := offset_of(id_)) is not None}
            return self.message_ids, frozenset(offsets)
        if self.keys is not None:
            # Each word of KEYS is indexed, so any of them finds the record.
            words = {next((w for w in keys.split(" ") if w), "") for keys in self.keys}
            return None if "" in words else (frozenset(words), frozenset())
        return None

    def rows(self, data: Bytes, columns: RowColumns, count: int) -> NDArray[np.bool_] | None:
        """Return which of the first `count` rows may be wanted, None for all.

        Args:
            data: what the columns have slices of.
            columns: see `formats.rows.columns`.
            count: rows.
        """
        masks = [
            (column[:count] >= span.low) & (column[:count] <= span.high)
            for column, span in (
                (columns.queue_id, self.queue_ids),
                (columns.queue_offset, self.queue_offsets),
                (columns.physical_offset, self.possible_offsets),
                (columns.store_timestamp, self.store_times),
            )
            if span != ANY
        ]
        # Their bytes cannot be compared.
        undecoded = columns.needs_decoding[:count] != 0
        masks += [
            _is_one_of(data, slices, count, texts) | undecoded
            for slices, texts in (
                (columns.topic, self.topics),
                (columns.keys, self.keys),
                (columns.uniq_key, self.uniq_keys),
            )
            if texts is not None
        ]
        return np.logical_and.reduce(masks) if masks else None


def _is_one_of(data: Bytes, slices: Slices, count: int, texts: frozenset[str]) -> NDArray[np.bool_]:
    at, length = slices.at[:count], slices.length[:count]
    found = np.zeros(count, np.bool_)
    for text in texts:
        raw = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        (same,) = np.nonzero((length == len(raw)) & ~found)
        # An empty text compares no bytes: every text of length 0 equals it.
        places = at[same].astype(np.int64)[:, None] + np.arange(len(raw))
        found[same] = (data[places] == raw).all(axis=1)
    return found


def offset_of(id_: str) -> int | None:
    """Return the physical offset in an offset id (`MessageDecoder#decodeMessageId`), or None."""
    match = _OFFSET_ID.fullmatch(id_)
    offset = int(match[1], 16) if match else LONG
    return offset if offset < LONG else None


def _values(condition: Filter) -> tuple[str, tuple[Any, ...] | None]:
    """Return the column that a filter is of, and the values it has to be one of."""
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    column = attribute[0] if len(attribute) == 1 else ""
    if isinstance(condition, EqualTo):
        return column, (condition.value,)
    if isinstance(condition, EqualNullSafe):
        # Null has no range.
        return column, None if condition.value is None else (condition.value,)
    if isinstance(condition, In):
        return column, tuple(condition.value)
    return column, None


def _span(condition: Filter, values: tuple[Any, ...] | None) -> Span | None:
    """Return the numbers that a filter leaves; times as ms, rounded so that none is lost."""
    if values is not None:
        return _span_of([value for value in values if value is not None])
    if not isinstance(condition, GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
        return None
    number = _number(condition.value)
    if number is None:
        return None
    low, high = number
    # A time between two ms leaves the second one.
    if isinstance(condition, GreaterThan):
        return Span(low=low + 1 if low == high else high)
    if isinstance(condition, GreaterThanOrEqual):
        return Span(low=high)
    return Span(high=high - 1 if isinstance(condition, LessThan) and low == high else low)


def _span_of(values: list[Any]) -> Span | None:
    """Return the numbers from the least to the greatest of some, None if one is not a number."""
    numbers = [number for value in values if (number := _number(value))]
    if len(numbers) != len(values):
        return None
    if not numbers:
        return Span(0, -1)
    return Span(min(low for low, _ in numbers), max(high for _, high in numbers))


def _number(value: Any) -> tuple[int, int] | None:
    """Return a number as it is, a time as the ms before and after it."""
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        whole, rest = divmod(moment - _EPOCH, _MILLISECOND)
        return whole, whole + bool(rest)
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value
    return None


def _shown(condition: Filter) -> str:
    name = {"EqualNullSafe": "<=>", "EqualTo": "=", "GreaterThan": ">", "GreaterThanOrEqual": ">="}
    name |= {"LessThan": "<", "LessThanOrEqual": "<=", "In": "in"}
    value = getattr(condition, "value", "")
    shown = value.isoformat() if isinstance(value, dt.datetime) else repr(value)
    column = ".".join(getattr(condition, "attribute", ()))
    return f"{column} {name.get(type(condition).__name__, '?')} {shown[:80]}"
