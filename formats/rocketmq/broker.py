"""What a broker's version and its properties file change in the bytes: one table, one place.

A user names the version of the broker whose files are to be written and, if its settings differ
from RocketMQ's defaults, its own `broker.conf`; the names in it are RocketMQ's
(`MessageStoreConfig`, `BrokerConfig`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from reput.formats.errors import UsageError
from reput.formats.rocketmq import (
    batchconsumequeue,
    commitlog,
    consumequeue,
    consumequeue_ext,
    indexfile,
)
from reput.formats.rocketmq.broker_conf import PATH_SPLITTER, BrokerConf, as_texts, refuse_nul

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NEWEST = "5.5"


@dataclass(frozen=True, kw_only=True)
class BrokerVersion:
    """What one family of versions does: a column per difference, never one for another.

    `docs/formats/differences.md` has the table with all families side by side.

    Attributes:
        family: major and minor number.
        reads_v2: reads records with a two-byte topic length (`MessageVersion#getTopicLength`).
        parses_batches: parses INNER_BASE and INNER_NUM of each record, whatever its topic
            (`CommitLog#setBatchSizeIfNeeded`).
        has_batch_queues: gives topics of type BatchCQ their own queues
            (`QueueTypeUtils#getCQType`).
        multi_dispatches_system: puts records of system topics into further queues too
            (`MultiDispatchUtils#isNeedHandleMultiDispatch` leaves them out).
        nests_queues: makes nested directories for further queues whose names hold separators
            (`ConsumeQueue#multiDispatchLmqQueue` passes over them).
        indexes_tags: makes an index item of a record's tag (`IndexService#buildIndex`).
        has_index_file_switch: obeys indexFileWriteEnable
            (`DefaultMessageStore.CommitLogDispatcherBuildIndex#dispatch`).
        counts_empty_index: at a clean stop gives a file without items a count of 1
            (`IndexService#shutdown`, `IndexHeader#updateByteBuffer`).
        checkpoint_fields: longs of the checkpoint file (`StoreCheckpoint#flush`).
        has_string_operators: filter expressions may say CONTAINS, STARTSWITH, ENDSWITH
            (`SelectorParser`).
        has_time_boundaries: looks for offsets by time with a lower or an upper boundary, among
            files by what is in them (`ConsumeQueue#getOffsetInQueueByTime`); else by the files'
            times, for the nearest entry.
        bisects_queue_floor: finds a queue's lowest offset by bisection
            (`ConsumeQueue#correctMinOffset`); else by reading its first file.
        pull_counts_removed: a pull checks its limits before it passes over an entry whose file is
            removed (`DefaultMessageStore#getMessage`); else after.
    """

    family: str
    reads_v2: bool
    parses_batches: bool
    has_batch_queues: bool
    multi_dispatches_system: bool
    nests_queues: bool
    indexes_tags: bool
    has_index_file_switch: bool
    counts_empty_index: bool
    checkpoint_fields: int
    has_string_operators: bool
    has_time_boundaries: bool
    bisects_queue_floor: bool
    pull_counts_removed: bool


_4_9 = BrokerVersion(
    family="4.9",
    reads_v2=False,
    parses_batches=False,
    has_batch_queues=False,
    multi_dispatches_system=True,
    nests_queues=True,
    indexes_tags=False,
    has_index_file_switch=False,
    counts_empty_index=False,
    checkpoint_fields=3,
    has_string_operators=False,
    has_time_boundaries=False,
    bisects_queue_floor=False,
    pull_counts_removed=False,
)
# Each family is the one before it, but for what it changes.
_5_3 = replace(
    _4_9,
    family="5.3",
    reads_v2=True,
    parses_batches=True,
    has_batch_queues=True,
    multi_dispatches_system=False,
    nests_queues=False,
    counts_empty_index=True,
    checkpoint_fields=5,
    has_string_operators=True,
    has_time_boundaries=True,
    bisects_queue_floor=True,
    pull_counts_removed=True,
)
_5_4 = replace(_5_3, family="5.4", indexes_tags=True, has_index_file_switch=True)
_5_5 = replace(_5_4, family="5.5", checkpoint_fields=6)
VERSIONS = {version.family: version for version in (_4_9, _5_3, _5_4, _5_5)}


def version_of(text: str) -> BrokerVersion:
    """Return the family of a version such as "5.5", "5.3.3" or "4.9.8".

    Raises:
        UsageError: the version is not known.
    """
    match = re.fullmatch(r"[vV]?(\d+)\.(\d+)(\.\d+)?", text.strip())
    family = f"{match[1]}.{match[2]}" if match else ""
    if family not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise UsageError(f"broker version {text!r} is not known; choose one of {known}")
    return VERSIONS[family]


def _whole(name: str, default: int, smallest: int = 1) -> Any:
    """Return a field that a whole number of broker.conf sets."""
    return field(
        default=default,
        metadata={"name": name, "read": lambda conf: conf.whole(name, default, smallest)},
    )


def _whole_or_none(name: str) -> Any:
    """Return a field that a whole number of broker.conf sets; None where it says nothing."""
    return field(
        default=None, metadata={"name": name, "read": lambda conf: conf.whole(name, 0) or None}
    )


def _switch(name: str, *, default: bool = False) -> Any:
    """Return a field that a switch of broker.conf sets."""
    return field(
        default=default,
        metadata={"name": name, "read": lambda conf: conf.switch(name, default=default)},
    )


@dataclass(frozen=True)
class BrokerSettings:
    """A broker's settings as far as they shape its files, with RocketMQ's name for each."""

    version: BrokerVersion = VERSIONS[NEWEST]
    commitlog_file_size: int = _whole(
        "mappedFileSizeCommitLog", commitlog.FILE_SIZE, commitlog.MIN_SIZE
    )
    consumequeue_file_size: int = _whole("mappedFileSizeConsumeQueue", consumequeue.FILE_SIZE)
    ext_file_size: int = _whole(
        "mappedFileSizeConsumeQueueExt", consumequeue_ext.FILE_SIZE, consumequeue_ext.UNIT.size
    )
    batch_file_size: int = _whole(
        "mapperFileSizeBatchConsumeQueue",
        batchconsumequeue.FILE_SIZE,
        batchconsumequeue.UNIT_SIZE,
    )
    index_slots: int = _whole("maxHashSlotNum", indexfile.SLOTS)
    index_items: int = _whole("maxIndexNum", indexfile.ITEMS, 2)
    # And indexFileWriteEnable, of a version that has it.
    writes_index: bool = _switch("messageIndexEnable", default=True)
    writes_ext: bool = _switch("enableConsumeQueueExt")
    calculates_bitmaps: bool = _switch("enableCalcFilterBitMap")
    multi_dispatch: bool = _switch("enableMultiDispatch")
    lmq: bool = _switch("enableLmq")
    delays: tuple[int, ...] = field(
        default_factory=BrokerConf({}).delays,
        metadata={"name": "messageDelayLevel", "read": BrokerConf.delays},
    )
    max_message_size: int = _whole("maxMessageSize", commitlog.MAX_MESSAGE_SIZE)
    checks_property_crc: bool = _switch("enabledAppendPropCRC")
    requires_property_crc: bool = _switch("forceVerifyPropCRC")
    bloom_error_rate: int | None = _whole_or_none("maxErrorRateOfBloomFilter")
    bloom_consumers: int | None = _whole_or_none("expectConsumerNumUseFilter")
    commitlog_paths: tuple[str, ...] = ()  # storePathCommitLog, readOnlyCommitLogStorePaths
    commitlog_read_only: tuple[str, ...] = ()  # those of them that a broker only reads
    commitlog_told: tuple[str, ...] = ()  # the user's own: before all of these
    path_splitter: str = PATH_SPLITTER

    @property
    def read_rules(self) -> commitlog.ReadRules:
        """Return how records are read."""
        return commitlog.ReadRules(
            accepts_v2=self.version.reads_v2,
            checks_property_crc=self.checks_property_crc,
            requires_property_crc=self.requires_property_crc,
            parses_batches=self.version.parses_batches,
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


def whole(properties: Mapping[str, str], name: str, default: int) -> int:
    """Return a setting that is a whole number, 0 or more.

    Raises:
        UsageError: it is not one.
    """
    return BrokerConf(properties).whole(name, default, 0)


def settings_of(
    version: str, properties: Mapping[str, str | int] | None = None, told: Sequence[str] = ()
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
    conf = BrokerConf(as_texts(properties or {}))
    family = version_of(version)
    conf.refuse_other_stores()
    paths, read_only = conf.commitlog_paths()
    for path in told:
        refuse_nul("--commitlog", path)
    values = {
        each.name: each.metadata["read"](conf)
        for each in fields(BrokerSettings)
        if "read" in each.metadata
    }
    values["consumequeue_file_size"] = consumequeue.round_file_size(
        values["consumequeue_file_size"]
    )
    if values["writes_index"] and family.has_index_file_switch:
        values["writes_index"] = conf.switch("indexFileWriteEnable", default=True)
    return BrokerSettings(
        version=family,
        commitlog_paths=paths,
        commitlog_read_only=read_only,
        commitlog_told=tuple(told),
        **values,
    )
