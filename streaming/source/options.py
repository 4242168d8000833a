"""What a query can be told: the options of the source, read once into frozen values.

The names are those of Spark's own sources where one means the same (`startingOffsets`,
`maxBytesPerTrigger`, `minPartitions`, `failOnDataLoss`, …), and RocketMQ's behind `broker.`.
Spark hands option names over in lower case and adds none of its own, so every name that is not
known here is a mistake, and is refused.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.errors import UsageError
from reput.formats.rocketmq import broker
from reput.streaming.settings import option_values
from reput.streaming.settings.config import read_broker_conf

if TYPE_CHECKING:
    from collections.abc import Mapping

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
BROKER_PREFIX = "broker."
# All settings that `formats.rocketmq.broker` knows, by their own case: options come without it.
BROKER_NAMES = (
    "bitMapLengthConsumeQueueExt",
    "brokerName",
    "enableCalcFilterBitMap",
    "enableConsumeQueueExt",
    "enableDLegerCommitLog",
    "enableLmq",
    "enableMultiDispatch",
    "enabledAppendPropCRC",
    "expectConsumerNumUseFilter",
    "forceVerifyPropCRC",
    "indexFileWriteEnable",
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "mappedFileSizeConsumeQueueExt",
    "mapperFileSizeBatchConsumeQueue",
    "maxErrorRateOfBloomFilter",
    "maxHashSlotNum",
    "maxIndexNum",
    "maxMessageSize",
    "messageDelayLevel",
    "messageIndexEnable",
    "readOnlyCommitLogStorePaths",
    "storePathCommitLog",
    "storeType",
)
_STORE_KEYS = {"path", "output", "brokerVersion", "brokerConf", "broker", "commitlog"}


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
    stores = _Stores(values).read()
    starting = _bounds(values, "starting", [s[0] for s in stores], Bound(EARLIEST))
    ending = _bounds(values, "ending", [s[0] for s in stores], Bound(LATEST))
    known = _known_ends(values, [s[0] for s in stores])
    rows = values.get("rows", MESSAGES).strip().lower()
    if rows not in {MESSAGES, RANGES}:
        raise UsageError(f"rows={rows!r}: it is {MESSAGES} or {RANGES}")
    on_corrupt = option_values.choice(values, "onCorrupt", (STOP, SKIP))
    return SourceOptions(
        stores=tuple(
            Store(
                name,
                path,
                settings,
                starting[name],
                ending[name],
                output,
                known.get(name),
                its_name,
            )
            for name, path, (settings, its_name), output in stores
        ),
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


def _refuse_unknown(values: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in NAMES}
    known |= {f"{BROKER_PREFIX}{name}".lower(): f"{BROKER_PREFIX}{name}" for name in BROKER_NAMES}
    for name in sorted(values):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {known[near[0]]}?" if near else f"known are {', '.join(NAMES)}"
            raise UsageError(f"option {name!r} is not known; {hint}")


class _Stores:
    """Finds out which stores a query reads, and by which settings."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._version = values.get("brokerversion", broker.NEWEST)
        self._conf = values.get("brokerconf")
        self._commitlog = [d.strip() for d in values.get("commitlog", "").split(",") if d.strip()]
        names = {name.lower(): name for name in BROKER_NAMES}
        self._settings = {
            names[key.removeprefix(BROKER_PREFIX)]: value
            for key, value in values.items()
            if key.startswith(BROKER_PREFIX)
        }

    def read(self) -> list[tuple[str, Path, tuple[BrokerSettings, str], Path | None]]:
        """Return name, path, settings with the broker's name, and output of each store.

        Raises:
            UsageError: there is none, or two are called alike.
        """
        stores: list[tuple[str, Path, tuple[BrokerSettings, str], Path | None]] = []
        own = self._values.get("output", "").strip()
        for text in self._paths():
            path = Path(text)
            output = Path(own) if own else None
            stores.append((path.resolve().name, path, self._settings_of({}), output))
        if self._commitlog and len(stores) != 1:
            raise UsageError(
                "commitlog is the log of one path; with several stores each has its own: "
                '{"a": {"path": "/data/a/store", "commitlog": ["/data/a/log"]}, …}'
            )
        if own and len(stores) != 1:
            raise UsageError(
                "output is the output of one path; with several stores each has its own: "
                '{"a": {"path": "/data/a/store", "output": "/data/a/rebuilt"}, …}'
            )
        for name, table in self._tables().items():
            output = Path(str(table["output"])) if table.get("output") else None
            stores.append((name, Path(table["path"]), self._settings_of(table), output))
        if not stores:
            raise UsageError("option path is missing: give the directory of a broker's store")
        seen = set()
        for name, path, _, _ in stores:
            if name in seen:
                raise UsageError(
                    f"path: two stores are called {name!r} ({path} is one); name them by the "
                    'option stores, such as {"a": "/data/a/store", "b": "/data/b/store"}'
                )
            seen.add(name)
        return stores

    def _paths(self) -> list[str]:
        texts = self._values.get("path", "").split(",")
        if "paths" in self._values:
            # What Spark makes of load([…]).
            more = option_values.parse_json("paths", self._values["paths"])
            texts += [str(text) for text in more] if isinstance(more, list) else [str(more)]
        return [text.strip() for text in texts if text.strip()]

    def _tables(self) -> dict[str, dict[str, Any]]:
        text = self._values.get("stores")
        if text is None:
            return {}
        found = option_values.parse_json("stores", text)
        if not isinstance(found, dict) or not found:
            raise UsageError('stores must be JSON such as {"name": "/path/to/store", …}')
        tables = {}
        for name, value in found.items():
            table = value if isinstance(value, dict) else {"path": value}
            unknown = sorted(set(table) - _STORE_KEYS)
            if unknown:
                known = ", ".join(sorted(_STORE_KEYS))
                raise UsageError(f"stores: {name}: unknown key {unknown[0]!r}; known are {known}")
            if not isinstance(table.get("path"), str) or not table["path"]:
                raise UsageError(f"stores: {name}: path is missing")
            tables[str(name)] = table
        return tables

    def _settings_of(self, table: Mapping[str, Any]) -> tuple[BrokerSettings, str]:
        """Return the settings of one store, and its broker's name, empty if they do not say it.

        Its own settings come before the query's, single ones before all.
        """
        conf = table.get("brokerConf", self._conf)
        properties = read_broker_conf(Path(conf)) if conf else {}
        own = {key: str(value) for key, value in (table.get("broker") or {}).items()}
        properties |= self._settings | own
        told = table.get("commitlog", self._commitlog)
        if not isinstance(told, list) or not all(isinstance(path, str) for path in told):
            raise UsageError(f"stores: commitlog={told!r} is not a list of directories")
        version = str(table.get("brokerVersion", self._version))
        return broker.settings_of(version, properties, told), properties.get("brokerName", "")


def _known_ends(values: Mapping[str, str], stores: list[str]) -> dict[str, KnownEnd]:
    """Return where logs ended when somebody last looked."""
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
