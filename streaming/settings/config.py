"""What a user can set, parsed once into frozen values: stores, outputs, the broker's settings."""

from __future__ import annotations

import errno
import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.formats.errors import UsageError
from reput.formats.java import properties as javaproperties
from reput.formats.rocketmq import broker
from reput.formats.rocketmq.broker import BrokerSettings
from reput.stores.log.places import refuse_led_away
from reput.streaming.settings.separate import refuse_files, refuse_overlaps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reput.sinks.kafka.client.settings import KafkaSettings

_STORE_KEYS = {
    "any_version",
    "broker_conf",
    "broker_version",
    "commitlog",
    "in_place",
    "name",
    "output",
    "path",
}
_KEYS = {
    "--store": "path",
    "--commitlog": "commitlog",
    "--in-place": "in_place = true",
    "--output": "output",
    "--broker-version": "broker_version",
    "--broker-conf": "broker_conf",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class StoreConfig:
    """One store and where its dispatch goes.

    Attributes:
        name: what logs and metrics call it.
        path: a broker's storePathRootDir.
        output: the root that is written to.
        settings: the broker's.
        in_place: `output` is the store itself.
        properties: the broker.conf that `settings` came from.
        kafka: how its messages go to Kafka; None: they do not.
        any_version: the version counts though the store's own index looks like another's.
    """

    name: str
    path: Path
    output: Path
    settings: BrokerSettings = field(default_factory=BrokerSettings)
    in_place: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    kafka: KafkaSettings | None = None
    any_version: bool = False

    def kafka_access(self) -> dict[str, Any]:
        """Return what Kafka's client needs beside our own settings, secrets in it: not to be shown.

        Raises:
            UsageError: a secret is not where it should be.
        """
        from reput.streaming.settings.kafka import access_of  # noqa: PLC0415 - a client few need
        from reput.streaming.settings.kafka_pass_through import client_settings  # noqa: PLC0415 - as above

        if self.kafka is None:
            return {}
        return {**client_settings(self.kafka.client), **access_of(self.kafka.security)}


@dataclass(frozen=True)
class FlushPolicy:
    """When what is written has to be on disk.

    Attributes:
        seconds: queues with enough new pages are flushed so often (`flushIntervalConsumeQueue`).
        least_pages: enough new pages (`flushConsumeQueueLeastPages`).
        thorough_seconds: everything is, and is recorded (`flushConsumeQueueThoroughInterval`).
        is_sync: everything is flushed and recorded after each batch.
    """

    seconds: float = 1.0
    least_pages: int = 2
    thorough_seconds: float = 60.0
    is_sync: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> FlushPolicy:
        """Return the policy of a broker.conf, the broker's own defaults for what it leaves out.

        Raises:
            UsageError: a value that is no number.
        """
        milliseconds = 1000
        return cls(
            seconds=broker.whole(properties, "flushIntervalConsumeQueue", 1000) / milliseconds,
            least_pages=broker.whole(properties, "flushConsumeQueueLeastPages", 2),
            thorough_seconds=(
                broker.whole(properties, "flushConsumeQueueThoroughInterval", 60_000) / milliseconds
            ),
        )


def store_config(
    path: Path,
    output: Path | None,
    *,
    name: str = "",
    broker_version: str = broker.NEWEST,
    broker_conf: Path | Mapping[str, str] | None = None,
    in_place: bool = False,
    commitlog: Sequence[Path] = (),
    any_version: bool = False,
) -> StoreConfig:
    """Return the configuration of one store.

    Args:
        path: a broker's storePathRootDir.
        output: where its dispatch goes.
        name: what logs and metrics call it.
        broker_version: such as "5.5".
        broker_conf: the broker's properties file, or the properties.
        in_place: the output is the store itself.
        commitlog: where the log stands, whatever the store and its broker.conf say.
        any_version: see `StoreConfig`.

    Raises:
        UsageError: what does not go together, or a setting that cannot be.
    """
    if in_place and output not in {None, path}:
        raise UsageError("--in-place writes into the store itself: leave --output out")
    if output is None and not in_place:
        raise UsageError("--output is missing: say where to write, or give --in-place")
    target = path if in_place or output is None else output
    if "\0" in f"{path}{target}":
        raise UsageError("a path holds a NUL, which no path can have")
    properties = (
        read_broker_conf(broker_conf) if isinstance(broker_conf, Path) else broker_conf or {}
    )
    config = StoreConfig(
        name=name or path.resolve().name,
        path=path,
        output=target,
        settings=broker.settings_of(broker_version, properties, [str(each) for each in commitlog]),
        in_place=in_place,
        properties=properties,
        any_version=any_version,
    )
    try:
        refuse_led_away(path, config.settings)
        refuse_files(target)
        refuse_overlaps([config])
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise UsageError(f"{error.filename}: no path can be that long") from error
    return config


def read_broker_conf(path: Path) -> dict[str, str]:
    """Return the properties of a broker.conf, as the broker reads them.

    Its bytes are ISO 8859-1, whatever their writer meant (`BrokerStartup`, by `Properties#load`): a
    comment may be in any encoding, and a value in UTF-8 is another one to the broker, too. Other
    characters are written as escapes.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return javaproperties.load(path.read_bytes())
    except (OSError, ValueError, UsageError) as error:
        # ValueError: a NUL in the path.
        raise UsageError(f"broker_conf {path} cannot be read: {error}") from error


def read_config(path: Path, *, reads_kafka: bool = True) -> list[StoreConfig]:
    """Return the stores of a `reput.toml`; relative paths in it begin at its directory.

    Args:
        path: the file.
        reads_kafka: its [kafka] as well.

    Raises:
        UsageError: it cannot be read, an unknown key, two stores of one name or output.
    """
    try:
        tables: Any = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    unknown = set(tables) - {"store", "kafka"}
    stores = tables.get("store")
    is_list = isinstance(stores, list) and all(isinstance(table, dict) for table in stores)
    if unknown or not is_list or not stores:
        what = f"unknown key {min(unknown)!r}" if unknown else "no [[store]] table"
        raise UsageError(f"{path}: {what}; it holds one [[store]] table for each store")
    kafka = tables.get("kafka") if reads_kafka else None
    if kafka is not None:
        from reput.streaming.settings.kafka import kafka_settings  # noqa: PLC0415 - a client few need

        if not isinstance(kafka, dict):
            raise UsageError(f"{path}: kafka is not a table; write [kafka] and its settings below")
        try:
            kafka = kafka_settings(kafka, path.parent)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
    configs = [
        replace(_from_table(path, number, table), kafka=kafka)
        for number, table in enumerate(stores, 1)
    ]
    for attribute in ("name", "output"):
        seen: set[object] = set()
        for config in configs:
            value = config.output.resolve() if attribute == "output" else config.name
            if value in seen:
                raise UsageError(f"{path}: two stores have the {attribute} {value}")
            seen.add(value)
    try:
        refuse_overlaps(configs)
    except UsageError as error:
        raise UsageError(f"{path}: {in_keys(str(error))}") from error
    return configs


def in_keys(text: str) -> str:
    """Return what is wrong in the words of a file: its keys in the place of options."""
    for option, key in _KEYS.items():
        text = text.replace(option, key)
    return text


def _from_table(path: Path, number: int, table: dict[str, Any]) -> StoreConfig:
    name = table.get("name")
    named = f" ({name})" if isinstance(name, str) and _NAME.fullmatch(name) else ""
    where = f"{path}, [[store]] number {number}{named}"
    unknown = sorted(set(table) - _STORE_KEYS)
    if unknown:
        known = ", ".join(sorted(_STORE_KEYS))
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; known are {known}")
    if "path" not in table:
        raise UsageError(f"{where}: path is missing")
    places = table.pop("commitlog", [])
    places = [places] if isinstance(places, str) else places
    if not isinstance(places, list) or not all(isinstance(place, str) for place in places):
        raise UsageError(f"{where}: commitlog must be a directory, or a list of directories")
    for key, value in table.items():
        wanted = bool if key in {"in_place", "any_version"} else str
        if not isinstance(value, wanted):
            raise UsageError(
                f"{where}: {key} must be a {'truth value' if wanted is bool else 'text'}"
            )
    for key, value in (*table.items(), *(("commitlog", place) for place in places)):
        if key in {"path", "output", "commitlog"} and value == "":
            raise UsageError(f"{where}: {key} is empty; name a directory, `.` for this file's")
    name = table.get("name", "")
    if name and not _NAME.fullmatch(name):
        raise UsageError(f"{where}: name {name!r} may have letters, digits, '.', '_' and '-'")
    base = path.parent
    conf = table.get("broker_conf")
    try:
        return store_config(
            base / table["path"],
            base / table["output"] if "output" in table else None,
            name=name,
            broker_version=table.get("broker_version", broker.NEWEST),
            broker_conf=base / conf if conf else None,
            in_place=table.get("in_place", False),
            any_version=table.get("any_version", False),
            commitlog=[base / place for place in places],
        )
    except UsageError as error:
        raise UsageError(f"{where}: {in_keys(str(error))}") from error
