"""What a query can be told: the options of the source, read once into frozen values.

The names are those of Spark's own sources where one means the same (`startingOffsets`,
`maxBytesPerTrigger`, `minPartitions`, `failOnDataLoss`, …), and RocketMQ's after `broker.`.
Spark hands option names over in lower case and adds none of its own, so every name that is not
known here is a mistake, and is refused.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import UsageError
from reput.streaming.settings import option_values
from reput.streaming.source.store_options import BROKER_NAMES, BROKER_PREFIX, StoresRead

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings

EARLIEST = "earliest"
LATEST = "latest"
MESSAGES = "messages"
RANGES = "ranges"
NAMES = (
    "path",
    "paths",
    "stores",
    "rows",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "maxBytesPerTrigger",
    "maxBytesPerStore",
    "maxRecordsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "onCorrupt",
    "tail",
    "brokerVersion",
    "brokerConf",
    "commitlog",
    "output",
    "pushdown",
    "ascendingStoreTime",
    "trustIndex",
    "explain",
    "knownEnds",
)
STOP, SKIP = "stop", "skip"
VISIBLE, FLUSHED = "visible", "flushed"


@dataclass(frozen=True)
class Bound:
    """Where a range begins or ends in one store.

    Attributes:
        kind: `EARLIEST`, `LATEST`, "offset" or "timestamp".
        value: a physical offset, or ms.
    """

    kind: str
    value: int = 0


@dataclass(frozen=True)
class Store:
    """One store of a query; queues and index are in `output`, or in the store itself.

    Attributes:
        name: what offsets and streams call it.
        path: a broker's storePathRootDir.
        settings: the broker's.
        starting: where its range begins.
        ending: where its range ends.
        output: where queues and index are.
        known_end: see `KnownEnd`.
        broker_name: the broker's own, of its settings; empty: the store's name stands for it.
    """

    name: str
    path: Path
    settings: BrokerSettings
    starting: Bound
    ending: Bound
    output: Path | None = None
    known_end: KnownEnd | None = None
    broker_name: str = ""

    @property
    def shown_name(self) -> str:
        """Return what the column brokerName has."""
        return self.broker_name or self.name


class KnownEnd(NamedTuple):
    """Where a log ended a moment ago, and its last record; see `stores.log.tail.KnownEnd`."""

    end: int
    physical_offset: int
    size: int
    hash: int


@dataclass(frozen=True)
class SourceOptions:
    """All that a query was told; see the module `streaming.source.datasource` for what it means."""

    stores: tuple[Store, ...]
    rows: str = MESSAGES
    max_bytes: int | None = None
    max_store_bytes: int | None = None
    max_records: int | None = None
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    skips_corrupt: bool = False
    only_flushed: bool = False
    pushes_down: bool = True
    ascending_store_time: bool = False
    never_cut: bool = False
    explains: bool = False


def parse(options: Mapping[str, str]) -> SourceOptions:
    """Return what the options of a query mean.

    Args:
        options: by name, in any case.

    Raises:
        UsageError: naming the option that is unknown, misspelled, missing or has a bad value.
    """
    values = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(values)
    stores = _stores(values)
    rows = values.get("rows", MESSAGES).strip().lower()
    if rows not in {MESSAGES, RANGES}:
        raise UsageError(f"rows={rows!r}: it is {MESSAGES} or {RANGES}")
    on_corrupt = option_values.choice(values, "onCorrupt", (STOP, SKIP))
    return SourceOptions(
        stores=stores,
        rows=rows,
        max_bytes=option_values.size(values, "maxBytesPerTrigger"),
        max_store_bytes=option_values.size(values, "maxBytesPerStore"),
        max_records=option_values.count(values, "maxRecordsPerTrigger"),
        min_partitions=option_values.count(values, "minPartitions"),
        fail_on_data_loss=option_values.switch(values, "failOnDataLoss", default=True),
        skips_corrupt=on_corrupt == SKIP,
        only_flushed=option_values.choice(values, "tail", (VISIBLE, FLUSHED)) == FLUSHED,
        pushes_down=option_values.switch(values, "pushdown", default=True),
        ascending_store_time=option_values.switch(values, "ascendingStoreTime", default=False),
        never_cut=option_values.switch(values, "trustIndex", default=False),
        explains=option_values.switch(values, "explain", default=False),
    )


def _stores(values: Mapping[str, str]) -> tuple[Store, ...]:
    found = StoresRead(values).read()
    names = [store.name for store in found]
    starting = _bounds(values, "starting", names, Bound(EARLIEST))
    ending = _bounds(values, "ending", names, Bound(LATEST))
    known = _known_ends(values, names)
    return tuple(
        Store(
            each.name,
            each.path,
            each.settings,
            starting[each.name],
            ending[each.name],
            each.output,
            known.get(each.name),
            each.broker_name,
        )
        for each in found
    )


def _refuse_unknown(values: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in NAMES}
    known |= {f"{BROKER_PREFIX}{name}".lower(): f"{BROKER_PREFIX}{name}" for name in BROKER_NAMES}
    for name in sorted(values):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {known[near[0]]}?" if near else f"known are {', '.join(NAMES)}"
            raise UsageError(f"option {name!r} is not known; {hint}")


def _known_ends(values: Mapping[str, str], stores: list[str]) -> dict[str, KnownEnd]:
    """Return where logs ended at the last look."""
    table = option_values.parse_json("knownEnds", values.get("knownends", "{}"))
    wanted = len(KnownEnd._fields)
    if not isinstance(table, dict) or not all(
        name in stores
        and isinstance(row, list)
        and len(row) == wanted
        and all(type(number) is int for number in row)
        for name, row in table.items()
    ):
        raise UsageError(
            'knownEnds must be JSON such as {"name": [end, offset of the last record, its size, '
            "its hash]}, with names of the query's stores"
        )
    return {name: KnownEnd(*row) for name, row in table.items()}


def _bounds(
    values: Mapping[str, str], which: str, stores: list[str], default: Bound
) -> dict[str, Bound]:
    """Return where each store's range begins, or ends."""
    offsets, timestamp = values.get(f"{which}offsets"), values.get(f"{which}timestamp")
    if offsets is not None and timestamp is not None:
        raise UsageError(f"give {which}Offsets or {which}Timestamp, not both")
    name = f"{which}Offsets"
    if timestamp is not None:
        return dict.fromkeys(
            stores, Bound("timestamp", option_values.milliseconds(f"{which}Timestamp", timestamp))
        )
    if offsets is None:
        return dict.fromkeys(stores, default)
    if not offsets.strip().startswith("{"):
        return dict.fromkeys(stores, _bound(name, which, offsets))
    table = option_values.parse_json(name, offsets)
    strange = sorted(set(table) - set(stores))
    if strange:
        raise UsageError(
            f"{name}: no store is called {strange[0]!r}; there are {', '.join(stores)}"
        )
    missing = [store for store in stores if store not in table]
    if missing:
        raise UsageError(f"{name}: store {missing[0]!r} is missing; name every store of the query")
    return {store: _bound(name, which, str(table[store])) for store in stores}


def _bound(name: str, which: str, text: str) -> Bound:
    text = text.strip()
    kind, _, moment = text.partition(":")
    if moment and kind.lower() == "timestamp":
        return Bound("timestamp", option_values.milliseconds(name, moment))
    if re.fullmatch(r"\d+", text):
        return Bound("offset", int(text))
    # As in Spark's Kafka source: a range cannot end at the beginning.
    words = (EARLIEST, LATEST) if which == "starting" else (LATEST,)
    if text.lower() not in words:
        raise UsageError(
            f"{name}={text!r}: it is {' or '.join(words)}, a physical offset, timestamp:MS, or "
            "JSON with one of these for each store"
        )
    return Bound(text.lower())
