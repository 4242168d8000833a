"""What a broker's version and its properties file change in the bytes: one table, one place.

A user names the version of the broker whose files are to be written and, if its settings differ
from RocketMQ's defaults, its own `broker.conf`; the names in it are RocketMQ's
(`MessageStoreConfig`, `BrokerConfig`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reput.formats.errors import UsageError
from reput.formats.java import strings
from reput.formats.rocketmq import (
    batchconsumequeue,
    commitlog,
    consumequeue,
    consumequeue_ext,
    indexfile,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NEWEST = "5.5"
DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_DELAY_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class BrokerVersion:
    """What one family of versions writes.

    Attributes:
        family: major and minor number.
        reads_v2: knows records with a two-byte topic length.
        indexes_tags: makes an index entry of a record's tag.
        checkpoint_fields: longs of the checkpoint file.
        has_batch_queues: knows topics of type BatchCQ.
        multi_dispatches_all: further queues are for records of every topic, and their names may
            hold separators (later ones leave system topics and such names out).
        has_string_operators: filter expressions may say CONTAINS, STARTSWITH, ENDSWITH.
        has_time_boundaries: looks for offsets by time with a lower or an upper boundary, among
            files by what is in them; older ones by the files' times, for the nearest entry.
    """

    family: str
    reads_v2: bool
    indexes_tags: bool
    checkpoint_fields: int
    has_batch_queues: bool
    has_string_operators: bool
    has_time_boundaries: bool
    multi_dispatches_all: bool = False


VERSIONS = {
    version.family: version
    for version in (
        BrokerVersion("4.9", False, False, 3, False, False, False, multi_dispatches_all=True),
        BrokerVersion("5.3", True, False, 5, True, True, True),
        BrokerVersion("5.4", True, True, 5, True, True, True),
        BrokerVersion("5.5", True, True, 6, True, True, True),
    )
}


def version_of(text: str) -> BrokerVersion:
    """Return the family of a version such as "5.5", "5.3.3" or "4.9.8".

    Raises:
        UsageError: none that is known.
    """
    match = re.fullmatch(r"[vV]?(\d+)\.(\d+)(\.\d+)?", text.strip())
    family = f"{match[1]}.{match[2]}" if match else ""
    if family not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise UsageError(f"broker version {text!r} is not known; choose one of {known}")
    return VERSIONS[family]


@dataclass(frozen=True)
class BrokerSettings:
    """A broker's settings as far as they shape its files; names in the comments are RocketMQ's."""

    version: BrokerVersion = VERSIONS[NEWEST]
    commitlog_file_size: int = commitlog.FILE_SIZE  # mappedFileSizeCommitLog
    consumequeue_file_size: int = consumequeue.FILE_SIZE  # mappedFileSizeConsumeQueue
    ext_file_size: int = consumequeue_ext.FILE_SIZE  # mappedFileSizeConsumeQueueExt
    batch_file_size: int = batchconsumequeue.FILE_SIZE  # mapperFileSizeBatchConsumeQueue
    index_slots: int = indexfile.SLOTS  # maxHashSlotNum
    index_items: int = indexfile.ITEMS  # maxIndexNum
    writes_index: bool = True  # messageIndexEnable, indexFileWriteEnable
    writes_ext: bool = False  # enableConsumeQueueExt
    calculates_bitmaps: bool = False  # enableCalcFilterBitMap
    multi_dispatch: bool = False  # enableMultiDispatch
    lmq: bool = False  # enableLmq
    delays: tuple[int, ...] = field(  # messageDelayLevel
        default_factory=lambda: parse_delay_levels(DEFAULT_DELAY_LEVELS)
    )
    max_message_size: int = commitlog.MAX_MESSAGE_SIZE  # maxMessageSize
    checks_property_crc: bool = False  # enabledAppendPropCRC
    requires_property_crc: bool = False  # forceVerifyPropCRC
    bloom_error_rate: int | None = None  # maxErrorRateOfBloomFilter; None: not said
    bloom_consumers: int | None = None  # expectConsumerNumUseFilter; None: not said
    commitlog_paths: tuple[str, ...] = ()  # storePathCommitLog, readOnlyCommitLogStorePaths
    commitlog_read_only: tuple[str, ...] = ()  # those of them that a broker only reads
    commitlog_told: tuple[str, ...] = ()  # the user's own: before all of these
    path_splitter: str = ","

    @property
    def read_rules(self) -> commitlog.ReadRules:
        """Return how records are read."""
        return commitlog.ReadRules(
            accepts_v2=self.version.reads_v2,
            checks_property_crc=self.checks_property_crc,
            requires_property_crc=self.requires_property_crc,
            parses_batches=self.version.has_batch_queues,
        )

    @property
    def max_record_size(self) -> int:
        """Return the most bytes that a record of this broker has."""
        return self.max_message_size + commitlog.RECORD_OVERHEAD

    def fingerprint(self) -> dict[str, object]:
        """Return what makes two outputs incompatible when it differs."""
        return {
            "version": self.version.family,
            "commitlog_file_size": self.commitlog_file_size,
            "consumequeue_file_size": self.consumequeue_file_size,
            "ext_file_size": self.ext_file_size,
            "batch_file_size": self.batch_file_size,
            "index_slots": self.index_slots,
            "index_items": self.index_items,
            "writes_index": self.writes_index,
            "writes_ext": self.writes_ext,
            "calculates_bitmaps": self.calculates_bitmaps,
            "multi_dispatch": self.multi_dispatch,
            "lmq": self.lmq,
            "delays": list(self.delays),
        }


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Return the ms to wait at each delay level (`DefaultMessageStore#parseDelayLevel`).

    Raises:
        UsageError: a level is no number with s, m, h or d.
    """
    delays = []
    for level in text.split(" "):
        unit = _DELAY_UNITS.get(level[-1:])
        # With a digit more, days would not fit into a Java long of ms.
        if unit is None or not re.fullmatch(r"[0-9]{1,11}", level[:-1]):
            raise UsageError(
                f"messageDelayLevel: {level[:40]!r} is no delay such as 10s, 5m, 2h or 1d"
            )
        delays.append(int(level[:-1]) * unit)
    return tuple(delays)


class _Properties:
    """Typed access to a broker's properties; a bad value names its key."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def whole(self, name: str, default: int, smallest: int = 1) -> int:
        text = self.values.get(name, "").strip()
        if not text:
            return default
        # Java's int; more digits than it has are not worth reading.
        value = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else -1
        if not smallest <= value <= strings.INT_MAX:
            raise UsageError(
                f"{name}={text[:40]!r} is no whole number from {smallest} to {strings.INT_MAX}"
            )
        return value

    def switch(self, name: str, *, default: bool) -> bool:
        text = self.values.get(name, "").strip().lower()
        if text not in {"", "true", "false"}:
            raise UsageError(f"{name}={text!r} is neither true nor false")
        return text == "true" if text else default


def whole(properties: Mapping[str, str], name: str, default: int) -> int:
    """Return a setting that is a whole number, 0 or more.

    Raises:
        UsageError: it is none.
    """
    return _Properties(properties).whole(name, default, 0)


def settings_of(
    version: str, properties: Mapping[str, str] | None = None, told: Sequence[str] = ()
) -> BrokerSettings:
    """Return the settings of a broker of `version` with `properties` as its broker.conf.

    Args:
        version: such as "5.5" or "4.9.8".
        properties: by RocketMQ's names.
        told: the directories of the log, whatever the store and the properties say.

    Raises:
        UsageError: an unknown version, a value out of range, a kind of store without files of
            consume queues.
    """
    values = _Properties(properties or {})
    family = version_of(version)
    refuse_other_stores(values.values)
    splitter = ","
    paths, read_only = _commitlog_paths(values.values, splitter)
    if any("\0" in path for path in told):
        raise UsageError("--commitlog holds a NUL, which no path can have")
    writes_index = values.switch("messageIndexEnable", default=True)
    if family.indexes_tags:
        writes_index = writes_index and values.switch("indexFileWriteEnable", default=True)
    return BrokerSettings(
        version=family,
        commitlog_file_size=values.whole(
            "mappedFileSizeCommitLog", commitlog.FILE_SIZE, commitlog.MIN_SIZE
        ),
        consumequeue_file_size=consumequeue.round_file_size(
            values.whole("mappedFileSizeConsumeQueue", consumequeue.FILE_SIZE)
        ),
        ext_file_size=values.whole(
            "mappedFileSizeConsumeQueueExt", consumequeue_ext.FILE_SIZE, consumequeue_ext.UNIT.size
        ),
        batch_file_size=values.whole(
            "mapperFileSizeBatchConsumeQueue",
            batchconsumequeue.FILE_SIZE,
            batchconsumequeue.UNIT_SIZE,
        ),
        index_slots=values.whole("maxHashSlotNum", indexfile.SLOTS),
        index_items=values.whole("maxIndexNum", indexfile.ITEMS, 2),
        writes_index=writes_index,
        writes_ext=values.switch("enableConsumeQueueExt", default=False),
        calculates_bitmaps=values.switch("enableCalcFilterBitMap", default=False),
        multi_dispatch=values.switch("enableMultiDispatch", default=False),
        lmq=values.switch("enableLmq", default=False),
        delays=parse_delay_levels(
            values.values.get("messageDelayLevel", "").strip() or DEFAULT_DELAY_LEVELS
        ),
        max_message_size=values.whole("maxMessageSize", commitlog.MAX_MESSAGE_SIZE),
        checks_property_crc=values.switch("enabledAppendPropCRC", default=False),
        requires_property_crc=values.switch("forceVerifyPropCRC", default=False),
        bloom_error_rate=values.whole("maxErrorRateOfBloomFilter", 0) or None,
        bloom_consumers=values.whole("expectConsumerNumUseFilter", 0) or None,
        commitlog_paths=paths,
        commitlog_read_only=read_only,
        commitlog_told=tuple(told),
        path_splitter=splitter,
    )


def _commitlog_paths(
    properties: Mapping[str, str], splitter: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the directories of the commitlog, and those of them that a broker only reads.

    A broker looks at `readOnlyCommitLogStorePaths` only if `storePathCommitLog` names several
    directories (`CommitLog#CommitLog`, `MultiPathMappedFileQueue#load`).

    Raises:
        UsageError: a path that cannot be one.
    """
    paths = properties.get("storePathCommitLog", "").strip()
    read_only = properties.get("readOnlyCommitLogStorePaths", "").strip()
    for name, text in (("storePathCommitLog", paths), ("readOnlyCommitLogStorePaths", read_only)):
        if "\0" in text:
            raise UsageError(f"{name} holds a NUL, which no path can have")
    written = [path for path in paths.split(splitter) if path]
    read = [path for path in read_only.split(splitter) if path] if splitter in paths else []
    found = tuple(dict.fromkeys(written + read))
    return found, tuple(path for path in found if path not in written)


def refuse_other_stores(properties: Mapping[str, str]) -> None:
    """Refuse settings of stores that have no file consume queues or no plain commitlog.

    Raises:
        UsageError: the setting and what it means.
    """
    kind = properties.get("storeType", "default").strip()
    if "rocksdb" in kind.lower():
        raise UsageError(
            f"storeType={kind}: this broker keeps its consume queues in RocksDB and has no "
            "consume queue files; set storeType=default or leave it out to write them anyway"
        )
    if properties.get("enableDLegerCommitLog", "false").strip().lower() == "true":
        raise UsageError(
            "enableDLegerCommitLog=true: records in a DLedger log have entry headers between "
            "them and cannot be read; only plain commitlogs can"
        )
