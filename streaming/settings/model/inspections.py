"""Options of `reput inspect …`: which file, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from reput.streaming.settings.model.choices import BodyMode
from reput.streaming.settings.model.option import SHOWING, Option
from reput.streaming.settings.model.queries import BODY_BYTES, ROWS, BodyBytes
from reput.streaming.settings.model.saying import Json
from reput.streaming.settings.model.stores import Conf, StoreFile, StoreName, Version


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Which file `reput inspect …` shows."""

    file: Annotated[
        Path,
        Option(is_argument=True, help="The file; for queues a directory shows all its files."),
    ]
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class _Rows(FileOptions):
    limit: Annotated[int, Option(least=0, panel=SHOWING, help="Rows to show; 0: all.")] = ROWS


@dataclass(frozen=True, kw_only=True)
class QueueOptions(_Rows):
    """Options of `reput inspect consumequeue`."""

    first: Annotated[int, Option(flag="--from", help="Queue offset: number of an entry.")] = 0


@dataclass(frozen=True, kw_only=True)
class ExtOptions(_Rows):
    """Options of `reput inspect ext`."""

    first: Annotated[
        int, Option(flag="--from", unit="bytes", help="Byte position in the extension.")
    ] = 0


@dataclass(frozen=True, kw_only=True)
class BatchOptions(_Rows):
    """Options of `reput inspect batch`."""

    first: Annotated[int, Option(flag="--from", help="Number of a unit.")] = 0


@dataclass(frozen=True, kw_only=True)
class ByBroker(_Rows):
    """By whose rules a file is read."""

    broker_version: Version = None
    broker_conf: Conf = None
    config: StoreFile = None
    store_name: StoreName = None


@dataclass(frozen=True, kw_only=True)
class LogOptions(ByBroker):
    """Options of `reput inspect commitlog`."""

    first: Annotated[
        int,
        Option(
            flag="--from",
            unit="bytes",
            help="Physical offset: the record there, or the next one.",
        ),
    ] = 0
    body: Annotated[
        BodyMode,
        Option(
            panel=SHOWING,
            help="Show bodies too, decompressed. auto: text, or hex if it is not text.",
        ),
    ] = BodyMode.NONE
    body_bytes: BodyBytes = BODY_BYTES


@dataclass(frozen=True, kw_only=True)
class IndexOptions(ByBroker):
    """Options of `reput inspect index`."""

    first: Annotated[int, Option(flag="--from", help="Number of an item, or of a slot.")] = 1
    slots: Annotated[bool, Option(panel=SHOWING, help="Show used slots, not items.")] = False
