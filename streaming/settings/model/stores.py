"""Options that say which store a command reads, and by which rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from reput.formats.rocketmq import broker
from reput.streaming.settings.model.option import (
    READING,
    WRITING,
    Chart,
    Field,
    Option,
    options_of,
)


def _made_of(path: str) -> Chart:
    return Chart(path, is_value=False)


StoreRoot = Annotated[
    Path | None,
    Option(
        panel=READING,
        key="path",
        chart=_made_of("stores"),
        help="A broker's storePathRootDir: the directory above commitlog/.",
    ),
]
LogPlaces = Annotated[
    list[Path] | None,
    Option(
        panel=READING,
        key="commitlog",
        chart=_made_of("stores[].brokerConf.storePathCommitLog"),
        help="Where the commitlog is, whatever the store and its settings say. Repeat it for each "
        "directory.",
    ),
]
AnyVersion = Annotated[
    bool,
    Option(
        panel=READING,
        key="any_version",
        chart=_made_of("stores[].anyVersion"),
        help="Accept the version as given although the store's own index looks like another "
        "one's: the broker was upgraded since it wrote that index.",
    ),
]
Version = Annotated[
    str | None,
    Option(
        panel=READING,
        key="broker_version",
        completes="versions",
        chart=_made_of("stores[].brokerVersion"),
        help=f"The broker whose rules count: {', '.join(broker.VERSIONS)} (or 5.3.3, 4.9.8 …). "
        f"[default: {broker.NEWEST}]",
    ),
]
Conf = Annotated[
    Path | None,
    Option(
        panel=READING,
        key="broker_conf",
        chart=_made_of("stores[].brokerConf"),
        help="The broker's own properties file. Its sizes, delay levels and switches count.",
    ),
]
StoreName = Annotated[
    str | None,
    Option(
        panel=READING,
        completes="store_names",
        help="Which store of --config, if it has several: its name.",
    ),
]
StoreFile = Annotated[
    Path | None,
    Option(
        panel=READING,
        help="A reput.toml that names the store, instead of --store and what goes with it.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """One store that is read: given by options, or one of a `reput.toml`."""

    store: StoreRoot = None
    output: Annotated[
        Path | None,
        Option(
            panel=READING,
            help="Where reput wrote the queues and the index, if that is not the store itself.",
        ),
    ] = None
    broker_version: Version = None
    broker_conf: Conf = None
    commitlog: LogPlaces = None
    config: StoreFile = None
    store_name: StoreName = None


@dataclass(frozen=True, kw_only=True)
class JobStores:
    """The stores of a job: one that options give, or those of a `reput.toml`."""

    store: StoreRoot = None
    output: Annotated[
        Path | None,
        Option(
            panel=WRITING,
            key="output",
            chart=_made_of("output"),
            help="Where to write: a directory of its own, made if it is not there.",
        ),
    ] = None
    broker_version: Version = None
    broker_conf: Conf = None
    commitlog: LogPlaces = None
    config: Annotated[
        Path | None,
        Option(
            panel=READING,
            chart=_made_of("stores"),
            help="A reput.toml with [[store]] tables: several stores in one job.",
        ),
    ] = None
    any_version: AnyVersion = False
    in_place: Annotated[
        bool,
        Option(
            panel=WRITING,
            key="in_place",
            chart=_made_of("output"),
            help="Write into the store itself: only without an abort file, and under the broker's "
            "lock.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class StoreTable(JobStores):
    """What may be in a `[[store]]` table: what the command line knows, and a name."""

    name: Annotated[
        str,
        Option(
            key="name",
            chart=_made_of("stores[].name"),
            help="What logs and metrics call the store.",
        ),
    ] = ""


def store_keys() -> dict[str, Field]:
    """Return the keys of a `[[store]]` table, with their options."""
    return {each.option.key: each for each in options_of(StoreTable) if each.option.key}
