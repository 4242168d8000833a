"""Which store a command is about: `--store` with its settings, or one of a `reput.toml`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reput.formats.errors import UsageError
from reput.streaming.cli import completions, help_pages
from reput.streaming.endings.verbosity import VERBOSITY
from reput.streaming.settings.config import read_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.streaming.settings.config import StoreConfig

# All options that name a file or a directory.
PATHS = {
    "--store", "--output", "--commitlog", "--config", "--broker-conf", "--to", "--directory",
    "--spark-checkpoint", "--metrics-tls-cert", "--metrics-tls-key", "--metrics-tls-client-ca",
    "--metrics-token-file", "--metrics-basic-auth-file",
}  # fmt: skip
Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        rich_help_panel=help_pages.READING,
        help="A broker's storePathRootDir: the directory above commitlog/.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        rich_help_panel=help_pages.READING,
        help="A reput.toml that names the store, instead of --store and what goes with it.",
    ),
]
LogPlaces = Annotated[
    list[Path] | None,
    typer.Option(
        "--commitlog",
        rich_help_panel=help_pages.READING,
        help="Where the commitlog stands, whatever store and settings say; again for each place.",
    ),
]
StoreName = Annotated[
    str | None,
    typer.Option(
        "--store-name",
        autocompletion=completions.store_names,
        rich_help_panel=help_pages.READING,
        help="Which store of --config, if it has several: its name.",
    ),
]


def of_file(config: Path | None, name: str | None, *others: object) -> StoreConfig | None:
    """Return the store of a `reput.toml` that the options name; None if they name no file.

    Args:
        config: the file.
        name: of the store.
        others: options that the file stands for: None where they are not given.

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
    configs = read_config(config, reads_kafka=False)
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
    from reput.streaming.source.no_such import no_such  # noqa: PLC0415

    raise UsageError(f"{config}: {no_such('store', name, names, '')}")


def tell(name: str, path: Path, output: Path, settings: BrokerSettings) -> None:
    """Log which store is read, and how, for `-v`."""
    if VERBOSITY.more:
        from reput.streaming.show.console import report_store  # noqa: PLC0415 - slow to import

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


def refuse_empty(words: Sequence[str]) -> None:
    """Refuse an empty text in the place of a path, which would be the current directory.

    A script whose variable is not set says that.

    Args:
        words: of the command line.

    Raises:
        UsageError: names the option.
    """
    for word, following in itertools.zip_longest(words, words[1:]):
        name, is_joined, value = word.partition("=")
        if name in PATHS and "" in ((value,) if is_joined else (following,)):
            raise UsageError(f"{name} is empty: is a variable not set? Say `.` for this directory")


def refuse_file(option: str, path: Path) -> None:
    """Refuse a file in the place of a directory.

    Raises:
        UsageError: it is one.
    """
    if path.is_file():
        raise UsageError(f"{option} {path} is a file; name a directory")
