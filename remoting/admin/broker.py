"""What tools ask about a broker itself: its state, its settings, its rates.

Source: RocketMQ `AdminBrokerProcessor#prepareRuntimeInfo`.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reput.remoting.admin.topics import body_of, data_version
from reput.remoting.reading.answer import Answer
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.fields import Header
from reput.stores.config.config_files import read_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.remoting.reading.served import Served
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer]

_VERSIONS = {409: "V4_9_8", 479: "V5_3_3", 493: "V5_4_0", 513: "V5_5_0"}
_DELAYS = "delayOffset.json"
# Tools read each of them, and fail where one is missing; only a broker that writes has others.
_ZEROS = (
    "EndTransactionQueueSize",
    "dispatchBehindBytes",
    "getMessageEntireTimeMax",
    "msgGetTotalTodayMorning",
    "msgGetTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgPutTotalYesterdayMorning",
    "pageCacheLockTimeMills",
    "putMessageEntireTimeMax",
    "putMessageFailedTimes",
    "putMessageSizeTotal",
    "putMessageTimesTotal",
    "remainTransientStoreBufferNumbs",
    "startAcceptSendRequestTimeStamp",
    "timerCongestNum",
    "timerOffsetBehind",
    "timerReadBehind",
)
_RATES = ("putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferredTps")
_QUEUES = ("send", "pull", "litePull", "query", "ack")


class RuntimeInfo:
    """Answers what concerns the broker itself."""

    def __init__(
        self, served: Served, properties: Mapping[str, str], named: tuple[str, str]
    ) -> None:
        """Answer for a store.

        Args:
            served: how it is served.
            properties: its broker.conf.
            named: the broker's name and its cluster's.
        """
        self._served = served
        self._properties = properties
        self._named = named
        self._began = time.time()

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime,
            RequestCode.GET_BROKER_CONFIG: self.config,
            RequestCode.VIEW_BROKER_STATS_DATA: self.rates,
            RequestCode.GET_BROKER_HA_STATUS: self.replicas,
            RequestCode.GET_ALL_DELAY_OFFSET: self.delays,
        }

    def runtime(self, request: Command, channel: Channel) -> Answer:
        """Answer with texts by name. What only a broker that writes can have is 0."""
        del request, channel
        return body_of({"table": self._zeros() | self._known()})

    def _zeros(self) -> dict[str, str]:
        zeros = dict.fromkeys(_ZEROS, "0")
        zeros |= dict.fromkeys(_RATES, "0.0 0.0 0.0")
        for queue in _QUEUES:
            zeros[f"{queue}ThreadPoolQueueSize"] = "0"
            zeros[f"{queue}ThreadPoolQueueCapacity"] = "0"
            zeros[f"{queue}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        zeros |= dict.fromkeys(("timerEnqueueTps", "timerDequeueTps"), "0.0")
        zeros |= dict.fromkeys(("putLatency99", "putLatency999"), "0.0")
        return zeros | {
            "EndTransactionThreadPoolQueueCapacity": "0",
            "dispatchMaxBuffer": "0",
            "msgGetTotalTodayNow": "0",
            "putMessageAverageSize": "0.0",
            "putMessageDistributeTime": "null",
            "remainHowManyDataToCommit": "0 B",
            "remainHowManyDataToFlush": "0 B",
        }

    def _known(self) -> dict[str, str]:
        """Return what a reader knows."""
        store = self._served.store
        log, began = store.log, self._began
        disk = shutil.disk_usage(store.root)
        ratio = str((disk.total - disk.free) / disk.total if disk.total else 0.0)
        first = store.first_since(0, ascending=True)
        earliest = -1
        if first is not None:
            earliest = store.at(first).store_timestamp
        version = _VERSIONS.get(self._served.release.version, str(self._served.release.version))
        return {
            "bootTimestamp": str(int(began * 1000)),
            "brokerActive": "true",
            "brokerVersion": str(self._served.release.version),
            "brokerVersionDesc": version,
            "commitLogDirCapacity": f"Total : {_size(disk.total)}, Free : {_size(disk.free)}.",
            "commitLogDiskRatio": ratio,
            "commitLogMaxOffset": str(log.end()),
            "commitLogMinOffset": str(log.min_offset),
            "consumeQueueDiskRatio": ratio,
            "earliestMessageTimeStamp": str(earliest),
            "runtime": _since(began),
        }

    def config(self, request: Command, channel: Channel) -> Answer:
        """Answer with the settings that are known, as Java properties."""
        del request, channel
        name, cluster = self._named
        said = {**self._properties, "brokerName": name, "brokerClusterName": cluster}
        text = "".join(f"{key}={said[key]}\n" for key in sorted(said))
        version = json.dumps(data_version(self._served), separators=(",", ":"))
        return Answer(
            ResponseCode.SUCCESS, None, _ConfigHeader(version), (memoryview(text.encode()),)
        )

    def rates(self, request: Command, channel: Channel) -> Answer:
        """Answer that no such figure is kept, as a broker does of one that it never counted."""
        del channel
        asked = request.fields or {}
        remark = f"The stats <{asked.get('statsName')}> <{asked.get('statsKey')}> not exist"
        return Answer(ResponseCode.SYSTEM_ERROR, remark)

    def replicas(self, request: Command, channel: Channel) -> Answer:
        """Answer as a master without slaves."""
        del request, channel
        client = {
            "lastReadTimestamp": 0,
            "lastWriteTimestamp": 0,
            "masterFlushOffset": 0,
            "maxOffset": 0,
            "transferredByteInSecond": 0,
        }
        said: dict[str, Any] = {
            "haClientRuntimeInfo": client,
            "haConnectionInfo": [],
            "inSyncSlaveNums": 0,
            "master": True,
            "masterCommitLogMaxOffset": self._served.store.log.end(),
        }
        return body_of(said)

    def delays(self, request: Command, channel: Channel) -> Answer:
        """Answer with the broker's file of how far delayed messages are."""
        del request, channel
        text = read_config(self._served.store.root, _DELAYS)
        if text is None:
            return Answer(ResponseCode.SYSTEM_ERROR, f"{_DELAYS}: the broker has not written it")
        return Answer(ResponseCode.SUCCESS, None, None, (memoryview(text.encode()),))


@dataclass(frozen=True)
class _ConfigHeader(Header):
    """What stands beside the settings."""

    version: str


def _size(size: int) -> str:
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    value, unit = float(size), 0
    while value >= 1024 and unit < len(units) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {units[unit]}"


def _since(began: float) -> str:
    seconds = int(time.time() - began)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"
