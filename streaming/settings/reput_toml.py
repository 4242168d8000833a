"""A `reput.toml`: one `[[store]]` table for each store, and `[kafka]`.

Keys and their types are those of the options that stand for them on the command line.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reput.formats.errors import UsageError
from reput.formats.rocketmq import broker
from reput.streaming.settings.config import StoreConfig, store_config
from reput.streaming.settings.model.stores import store_keys
from reput.streaming.settings.separate import refuse_overlaps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from reput.sinks.kafka.client.settings import KafkaSettings

    # Gets the places of each store; returns the errors of those that do not answer, else None.
    Silent = Callable[[Sequence[Sequence[Path]]], Sequence[OSError | None]]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Errors about it name the option and the key.
_NAMED_AS_BOTH = "any_version"


def _none_is_silent(places: Sequence[Sequence[Path]]) -> Sequence[OSError | None]:
    return [None] * len(places)


def read_config(
    path: Path,
    *,
    reads_kafka: bool = True,
    silent: Silent = _none_is_silent,
    needs_output: bool = True,
) -> list[StoreConfig]:
    """Return the stores of a `reput.toml`; relative paths in it begin at its directory.

    Args:
        path: the file.
        reads_kafka: its [kafka] as well.
        silent: gets the places of each store; returns the errors of those that do not answer: these
            are not compared then.
        needs_output: a store without an output is an error; else its own queues are meant.

    Raises:
        UsageError: it cannot be read, an unknown key, two stores of one name or output.
        OSError: no store's places answer, or a `broker_conf` does not.
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
    kafka = _kafka(path, tables.get("kafka")) if reads_kafka else None
    lost = _lost(path.parent, stores, silent)
    made = (
        _from_table(path, number, table, is_unchecked=is_lost, needs_output=needs_output)
        for number, (table, is_lost) in enumerate(zip(stores, lost, strict=True), 1)
    )
    configs = [replace(config, kafka=kafka) for config in made]
    _refuse_twins(path, configs)
    return configs


def _lost(base: Path, stores: Sequence[Mapping[str, object]], silent: Silent) -> list[bool]:
    """Tell of each store whether its places do not answer.

    Raises:
        OSError: none of them answers, or a `broker_conf` does not.
    """
    for error in filter(None, silent([_places(base, each, "broker_conf") for each in stores])):
        raise error
    found = silent([_places(base, each, "path", "output", "commitlog") for each in stores])
    for error in filter(None, found if all(found) else ()):
        raise error
    return [each is not None for each in found]


def _places(base: Path, table: Mapping[str, object], *keys: str) -> list[Path]:
    """Return the paths of some keys, as far as these are what they should be."""
    values = [table.get(key) for key in keys]
    values += [each for value in values if isinstance(value, list) for each in value]
    return [base / each for each in values if isinstance(each, str) and "\0" not in each]


def _kafka(path: Path, table: object) -> KafkaSettings | None:
    """Return the way to Kafka, None without a table for it.

    Raises:
        UsageError: something is wrong with it.
    """
    if table is None:
        return None
    from reput.streaming.settings.kafka import kafka_settings  # noqa: PLC0415 - a client few need

    if not isinstance(table, dict):
        raise UsageError(f"{path}: kafka is not a table; write [kafka] and its settings below")
    try:
        return kafka_settings(table, path.parent)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _refuse_twins(path: Path, configs: Sequence[StoreConfig]) -> None:
    """Refuse two stores of one name or output, and outputs that are not apart.

    Raises:
        UsageError: says which.
    """
    for attribute in ("name", "output"):
        seen: set[object] = set()
        for config in configs:
            output = config.output.absolute() if config.is_unchecked else config.output.resolve()
            value = output if attribute == "output" else config.name
            if value in seen:
                raise UsageError(f"{path}: two stores have the {attribute} {value}")
            seen.add(value)
    try:
        refuse_overlaps([config for config in configs if not config.is_unchecked])
    except UsageError as error:
        raise UsageError(f"{path}: {in_keys(str(error))}") from error


def in_keys(text: str) -> str:
    """Return what is wrong in the words of a file: its keys in the place of options."""
    for key, field in store_keys().items():
        if key not in {"name", _NAMED_AS_BOTH}:
            said = f"{key} = true" if field.kind is bool else key
            text = text.replace(field.flag, said)
    return text


def _from_table(
    path: Path, number: int, table: dict[str, Any], *, is_unchecked: bool, needs_output: bool
) -> StoreConfig:
    """Return the store of a `[[store]]` table.

    Raises:
        UsageError: names the file, the table and the key.
    """
    name = table.get("name", "")
    named = f" ({name})" if isinstance(name, str) and _NAME.fullmatch(name) else ""
    where = f"{path}, [[store]] number {number}{named}"
    places = _checked(where, table)
    if name and not _NAME.fullmatch(name):
        raise UsageError(f"{where}: name {name!r} may have letters, digits, '.', '_' and '-'")
    base = path.parent
    conf = table.get("broker_conf")
    is_own = not needs_output and "output" not in table
    try:
        return store_config(
            base / table["path"],
            base / table["output"] if "output" in table else None,
            name=name,
            broker_version=table.get("broker_version", broker.NEWEST),
            broker_conf=base / conf if conf else None,
            in_place=table.get("in_place", is_own),
            any_version=table.get("any_version", False),
            commitlog=[base / place for place in places],
            is_unchecked=is_unchecked,
        )
    except UsageError as error:
        raise UsageError(f"{where}: {in_keys(str(error))}") from error


def _checked(where: str, table: dict[str, Any]) -> list[str]:
    """Return the places of the log, once all keys are known and of their types.

    Raises:
        UsageError: one is not.
    """
    keys = store_keys()
    unknown = sorted(set(table) - keys.keys())
    if unknown:
        raise UsageError(
            f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(keys))}"
        )
    if "path" not in table:
        raise UsageError(f"{where}: path is missing")
    places = table.get("commitlog", [])
    places = [places] if isinstance(places, str) else places
    if not isinstance(places, list) or not all(isinstance(place, str) for place in places):
        raise UsageError(f"{where}: commitlog must be a directory, or a list of directories")
    for key, value in table.items():
        wanted = bool if keys[key].kind is bool else str
        if not keys[key].is_list and not isinstance(value, wanted):
            raise UsageError(
                f"{where}: {key} must be a {'truth value' if wanted is bool else 'text'}"
            )
    for key in ("path", "output", "commitlog"):
        if "" in (places if key == "commitlog" else [table.get(key)]):
            raise UsageError(f"{where}: {key} is empty; name a directory, `.` for this file's")
    return places
