"""Which store a command reads: `--store` with its settings, or one of a `reput.toml`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import UsageError
from reput.formats.rocketmq import broker
from reput.streaming.endings.verbosity import VERBOSITY
from reput.streaming.settings.config import store_config
from reput.streaming.settings.reput_toml import read_config

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.settings.model.stores import StoreOptions


def of_file(config: Path | None, name: str | None, *others: object) -> StoreConfig | None:
    """Return the store of a `reput.toml` that the options name; None if they name no file.

    It is only read: without an output it holds its own files.

    Args:
        config: the file.
        name: of the store.
        others: options that the file replaces: None where they are not given.

    Raises:
        UsageError: such an option is given as well; the file cannot be read, or has no such store,
            or several and none is named.
    """
    if config is None:
        if name is not None:
            raise UsageError("--store-name is for a store of --config FILE")
        return None
    if any(each is not None for each in others):
        raise UsageError(
            "--config names the store: leave --store, --output, --broker-version, --broker-conf "
            "and --commitlog out; each has its key there"
        )
    configs = read_config(config, reads_kafka=False, needs_output=False)
    names = [each.name for each in configs]
    if name is None:
        if len(configs) > 1:
            raise UsageError(
                f"{config} has {len(configs)} stores, {', '.join(names)}: say which with "
                "--store-name"
            )
        return configs[0]
    for each in configs:
        if each.name == name:
            return each
    # It brings difflib.
    from reput.streaming.source.no_such import no_such

    raise UsageError(f"{config}: {no_such('store', name, names, '')}")


def named_in_file(options: StoreOptions) -> StoreConfig | None:
    """Return the store of the `reput.toml` that a command's options name; see `of_file`.

    Raises:
        UsageError: as `of_file`.
    """
    return of_file(
        options.config,
        options.store_name,
        options.store,
        options.output,
        options.broker_version,
        options.broker_conf,
        options.commitlog,
    )


def one_store(options: StoreOptions) -> StoreConfig:
    """Return the store that a command's options name; without an output it holds its own files.

    Raises:
        UsageError: none, several, or something wrong with them.
    """
    chosen = named_in_file(options)
    if chosen is None:
        chosen = store_config(
            required(options.store),
            options.output,
            broker_version=broker.NEWEST
            if options.broker_version is None
            else options.broker_version,
            broker_conf=options.broker_conf,
            in_place=options.output is None,
            commitlog=options.commitlog or (),
        )
    tell(chosen.name, chosen.path, chosen.output, chosen.settings)
    return chosen


def tell(name: str, path: Path, output: Path, settings: BrokerSettings) -> None:
    """Log which store is read, and how, for `-v`."""
    if VERBOSITY.more:
        from reput.streaming.show.log_lines import report_store

        report_store(name, path, output, settings)


def required(store: Path | None) -> Path:
    """Return the store that is given.

    Raises:
        UsageError: none is.
    """
    if store is None:
        raise UsageError("say what to read with --store DIR, or name it with --config FILE")
    refuse_file("--store", store)
    return store


def refuse_file(option: str, path: Path) -> None:
    """Refuse a file in the place of a directory.

    Raises:
        UsageError: it is one.
    """
    if path.is_file():
        raise UsageError(f"{option} {path} is a file; name a directory")
