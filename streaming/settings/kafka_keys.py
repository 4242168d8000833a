"""The keys of `[kafka]`: what each of them takes, for a `reput.toml`, `--kafka` and the chart.

Names and defaults are the fields of `KafkaSettings` and `KafkaSecurity`. A key's kind reads its
value and says what JSON schema the value has, so the job and the chart take the same.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Protocol

from reput.formats.errors import UsageError
from reput.sinks.kafka.client import settings as known
from reput.sinks.kafka.client.settings import KafkaSecurity, KafkaSettings
from reput.streaming.settings.option_values import SIZE_PATTERN, size

MOST_PARTITIONS = 30_000
MOST_SECONDS = 1e9


class Kind(Protocol):
    """What a key takes."""

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of its value."""

    def read(self, name: str, value: Any) -> Any:
        """Return a setting's value, from TOML's or from a text.

        Raises:
            UsageError: it is not one.
        """


@dataclass(frozen=True)
class Items:
    """A list of texts, or one text with commas."""

    schema = {"type": ["string", "array"], "items": {"type": "string"}}  # noqa: RUF012 - not changed

    def read(self, name: str, value: Any) -> tuple[str, ...]:
        """Return the texts."""
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise UsageError(f"[kafka] {name}: {value!r} is not a list of texts")
        return tuple(item.strip() for item in items if item.strip())


@dataclass(frozen=True)
class Size:
    """Bytes, such as 4096 or 64m.

    Attributes:
        least: 0 where that stands for "no limit", else 1.
    """

    least: int = 1

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return {"type": ["string", "integer"], "pattern": SIZE_PATTERN, "minimum": self.least}

    def read(self, name: str, value: Any) -> int | None:
        """Return the bytes."""
        if not self.least and str(value).strip() == "0":
            return 0
        return size({name: str(value)}, name)


@dataclass(frozen=True)
class Count:
    """A whole number; 0 is the broker's default."""

    schema = {"type": "integer", "minimum": 0, "maximum": MOST_PARTITIONS}  # noqa: RUF012 - not changed

    def read(self, name: str, value: Any) -> int:
        """Return the number."""
        if not str(value).isdecimal() or int(value) > MOST_PARTITIONS:
            raise UsageError(
                f"[kafka] {name}: {value!r} is not a whole number up to {MOST_PARTITIONS}"
            )
        return int(value)


@dataclass(frozen=True)
class Switch:
    """True or false."""

    schema = {"type": "boolean"}  # noqa: RUF012 - not changed

    def read(self, name: str, value: Any) -> bool:
        """Return which."""
        text = str(value).lower()
        if text not in {"true", "false"}:
            raise UsageError(f"[kafka] {name}: {value!r} is neither true nor false")
        return text == "true"


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return {"enum": list(self.words)}

    def read(self, name: str, value: Any) -> str:
        """Return the word."""
        wanted = str(value).strip()
        if wanted not in self.words:
            shown = " or ".join(word or '""' for word in self.words)
            raise UsageError(f"[kafka] {name}: {value!r}; it is {shown}")
        return wanted


@dataclass(frozen=True)
class Seconds:
    """A number of seconds, fractions too."""

    least: float = 0.01

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return {"type": "number", "minimum": self.least, "maximum": MOST_SECONDS}

    def read(self, name: str, value: Any) -> float:
        """Return the number."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = -1.0
        # NaN compares with nothing.
        if not self.least <= number <= MOST_SECONDS:
            raise UsageError(f"[kafka] {name}: {value!r} is not a number of seconds")
        return number


@dataclass(frozen=True)
class Text:
    """A text.

    Attributes:
        pattern: that the chart checks: a pod has its files at absolute paths.
    """

    pattern: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return {"type": "string", **({"pattern": self.pattern} if self.pattern else {})}

    def read(self, name: str, value: Any) -> str:
        """Return the text."""
        if not isinstance(value, str):
            raise UsageError(f"[kafka] {name}: {value!r} is not a text")
        return value


_FILE = Text("^/[^\\s]+$")
_VARIABLE = Text("^[A-Za-z_][A-Za-z0-9_]*$")
# What a field's type does not say.
_KINDS: dict[str, Kind] = {
    "new_topic_partitions": Count(),
    "new_topic_replication": Count(),
    "max_lag": Size(least=0),
    "retry_seconds": Seconds(least=0.0),
    "partition_by": Choice((known.QUEUE, known.KEY)),
    "key": Choice((known.KEYS, known.UNIQ_KEY, known.NONE)),
    "body": Choice((known.DECOMPRESSED, known.STORED)),
    "headers": Choice((known.ALL, known.COORDINATES, known.NONE)),
    "mode": Choice((known.TRANSACTIONS, known.IDEMPOTENT)),
    "start": Choice((known.EARLIEST, known.LATEST)),
    "on_failure": Choice((known.HOLD, known.STOP)),
    "on_refusal": Choice((known.STOP, known.DEAD_LETTER)),
    "on_truncation": Choice((known.STOP, known.CONTINUE)),
    "on_rename": Choice((known.STOP, known.CONTINUE, known.BEGIN)),
    "compression": Choice(("none", "gzip", "snappy", "lz4", "zstd")),
    "protocol": Choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    "mechanism": Choice(("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")),
}
# By the type of a field, as it is annotated; every other whole number is a size.
_BY_TYPE: dict[str, Kind] = {
    "bool": Switch(),
    "float": Seconds(),
    "int": Size(),
    "tuple[str, ...]": Items(),
}


def _kind_of(field: dataclasses.Field[Any]) -> Kind:
    if field.name in _KINDS:
        return _KINDS[field.name]
    if field.name.endswith("_file"):
        return _FILE
    if field.name.endswith("_env"):
        return _VARIABLE
    return _BY_TYPE.get(str(field.type), Text())


_FIELDS = (*dataclasses.fields(KafkaSettings), *dataclasses.fields(KafkaSecurity))
# Tables of their own.
_TABLES = {"client", "security"}
SECURITY = {each.name for each in dataclasses.fields(KafkaSecurity)}
KINDS = {each.name: _kind_of(each) for each in _FIELDS if each.name not in _TABLES}
LISTS = {name for name, kind in KINDS.items() if isinstance(kind, Items)}
FILES = {name for name, kind in KINDS.items() if kind is _FILE}
