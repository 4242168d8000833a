"""Which stores does a query read, and by which settings? The options that name them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.errors import UsageError
from reput.formats.rocketmq import broker
from reput.streaming.settings import option_values
from reput.streaming.settings.config import read_broker_conf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.formats.rocketmq.broker import BrokerSettings

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


class NamedStore(NamedTuple):
    """A store of a query.

    Attributes:
        name: what offsets and streams call it.
        path: a broker's storePathRootDir.
        output: where queues and index are, None for the store itself.
        settings: the broker's.
        broker_name: the broker's own, "" if the settings do not say it.
    """

    name: str
    path: Path
    output: Path | None
    settings: BrokerSettings
    broker_name: str


class StoresRead:
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

    def read(self) -> list[NamedStore]:
        """Return the stores of `path` and of `stores`, in this order.

        Raises:
            UsageError: there is no store, or two have one name.
        """
        stores: list[NamedStore] = []
        own = self._values.get("output", "").strip()
        for text in self._paths():
            path = Path(text)
            output = Path(own) if own else None
            stores.append(NamedStore(path.resolve().name, path, output, *self._settings_of({})))
        self._refuse_shared(len(stores))
        for name, table in self._tables().items():
            output = Path(str(table["output"])) if table.get("output") else None
            stores.append(NamedStore(name, Path(table["path"]), output, *self._settings_of(table)))
        if not stores:
            raise UsageError("option path is missing: give the directory of a broker's store")
        seen = set()
        for store in stores:
            if store.name in seen:
                raise UsageError(
                    f"path: two stores are called {store.name!r} ({store.path} is one); name them "
                    'by the option stores, such as {"a": "/data/a/store", "b": "/data/b/store"}'
                )
            seen.add(store.name)
        return stores

    def _refuse_shared(self, paths: int) -> None:
        """Refuse options of one path where there are several."""
        if self._commitlog and paths != 1:
            raise UsageError(
                "commitlog is the log of one path; with several stores each has its own: "
                '{"a": {"path": "/data/a/store", "commitlog": ["/data/a/log"]}, …}'
            )
        if self._values.get("output", "").strip() and paths != 1:
            raise UsageError(
                "output is the output of one path; with several stores each has its own: "
                '{"a": {"path": "/data/a/store", "output": "/data/a/rebuilt"}, …}'
            )

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
