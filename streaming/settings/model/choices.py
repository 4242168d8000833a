"""Options that have one of a few words as their value."""

from __future__ import annotations

from enum import StrEnum


class FlushMode(StrEnum):
    """When what is written has to be on disk."""

    SYNC = "sync"
    ASYNC = "async"


class LogMode(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


class TailMode(StrEnum):
    """Where a live log ends."""

    VISIBLE = "visible"
    FLUSHED = "flushed"


class CorruptMode(StrEnum):
    """What to do at what is corrupt or missing in a log."""

    STOP = "stop"
    SKIP = "skip"


class BodyMode(StrEnum):
    """How bodies are shown."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    NONE = "none"


class FileFormat(StrEnum):
    """What files an export writes."""

    PARQUET = "parquet"
    JSON = "json"


class FilterMode(StrEnum):
    """How an export takes filter expressions."""

    BROKER = "broker"
    STRICT = "strict"


class Placement(StrEnum):
    """Where the writers of stores run."""

    DRIVER = "driver"
    EXECUTORS = "executors"
