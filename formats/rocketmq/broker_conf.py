"""What does a broker's broker.conf say? Reads its values, and refuses bad ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from reput.formats.errors import UsageError
from reput.formats.java import strings

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
PATH_SPLITTER = ","
_DELAY_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def as_texts(given: Mapping[str, str | int]) -> Mapping[str, str]:
    """Return settings as they stand in a broker.conf, where a program gives numbers or switches.

    Texts come back as they were given.

    Raises:
        UsageError: a value is neither, nor text.
    """
    for name, value in given.items():
        if not isinstance(value, str | int):
            raise UsageError(f"{name}={value!r} is neither text nor a whole number")
    if all(isinstance(value, str) for value in given.values()):
        return cast("Mapping[str, str]", given)
    # A switch is true or false in a broker.conf.
    return {n: v if isinstance(v, str) else str(v).lower() for n, v in given.items()}


class BrokerConf:
    """Typed access to a broker's properties; a bad value names its key."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def text(self, name: str, default: str = "") -> str:
        """Return a text without the blanks around it."""
        return self.values.get(name, default).strip()

    def whole(self, name: str, default: int, smallest: int = 1) -> int:
        """Return a whole number.

        Raises:
            UsageError: it is not one, or below `smallest`.
        """
        text = self.text(name)
        if not text:
            return default
        # Java's int; more digits than it has are not worth reading.
        value = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else -1
        if not smallest <= value <= strings.INT_MAX:
            raise UsageError(
                f"{name}={text[:40]!r} is not a whole number from {smallest} to {strings.INT_MAX}"
            )
        return value

    def switch(self, name: str, *, default: bool) -> bool:
        """Return a switch.

        Raises:
            UsageError: it is neither true nor false.
        """
        text = self.text(name).lower()
        if text not in {"", "true", "false"}:
            raise UsageError(f"{name}={text!r} is neither true nor false")
        return text == "true" if text else default

    def delays(self) -> tuple[int, ...]:
        """Return the ms to wait at each delay level.

        Raises:
            UsageError: see `parse_delay_levels`.
        """
        return parse_delay_levels(self.text("messageDelayLevel") or DEFAULT_DELAY_LEVELS)

    def commitlog_paths(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the directories of the commitlog, and those of them that a broker only reads.

        A broker looks at `readOnlyCommitLogStorePaths` only if `storePathCommitLog` names several
        directories (`CommitLog#CommitLog`, `MultiPathMappedFileQueue#load`).

        Raises:
            UsageError: a path that cannot be one.
        """
        for name in ("storePathCommitLog", "readOnlyCommitLogStorePaths"):
            refuse_nul(name, self.text(name))
        paths = self.text("storePathCommitLog")
        written = _split(paths)
        has_several = PATH_SPLITTER in paths
        read = _split(self.text("readOnlyCommitLogStorePaths")) if has_several else []
        found = tuple(dict.fromkeys(written + read))
        return found, tuple(path for path in found if path not in written)

    def refuse_other_stores(self) -> None:
        """Refuse settings of stores that have no file consume queues or no plain commitlog.

        Raises:
            UsageError: the setting and what it means.
        """
        kind = self.text("storeType", "default")
        if "rocksdb" in kind.lower():
            raise UsageError(
                f"storeType={kind}: this broker keeps its consume queues in RocksDB and has no "
                "consume queue files; set storeType=default or leave it out to write them anyway"
            )
        if self.text("enableDLegerCommitLog").lower() == "true":
            raise UsageError(
                "enableDLegerCommitLog=true: records in a DLedger log have entry headers between "
                "them and cannot be read; only plain commitlogs can"
            )


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Return the ms to wait at each delay level (`DefaultMessageStore#parseDelayLevel`).

    Raises:
        UsageError: a level is not a number with s, m, h or d.
    """
    delays = []
    for level in text.split(" "):
        unit = _DELAY_UNITS.get(level[-1:])
        # With a digit more, days would not fit into a Java long of ms.
        if unit is None or not re.fullmatch(r"[0-9]{1,11}", level[:-1]):
            raise UsageError(
                f"messageDelayLevel: {level[:40]!r} is not a delay such as 10s, 5m, 2h or 1d"
            )
        delays.append(int(level[:-1]) * unit)
    return tuple(delays)


def refuse_nul(name: str, text: str) -> None:
    """Refuse a path with a NUL.

    Raises:
        UsageError: it has one.
    """
    if "\0" in text:
        raise UsageError(f"{name} holds a NUL, which no path can have")


def _split(paths: str) -> list[str]:
    return [path for path in paths.split(PATH_SPLITTER) if path]
