"""What tools ask about a broker itself: its state, its settings, its rates.

Source: RocketMQ `AdminBrokerProcessor`.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq.broker_conf import DEFAULT_DELAY_LEVELS
from reput.remoting.admin.runtime import DELAYS, runtime_table
from reput.remoting.admin.topics import body_of, data_version
from reput.remoting.keeping.keeper import RESERVED_HOURS
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

# What tools read of the settings, as a broker has it that is not told otherwise.
_DEFAULTS = {
    "autoCreateSubscriptionGroup": "true",
    "autoCreateTopicEnable": "true",
    "brokerId": "0",
    "brokerRole": "ASYNC_MASTER",
    "fileReservedTime": str(RESERVED_HOURS),
    "flushDiskType": "ASYNC_FLUSH",
    "maxMessageSize": "4194304",
    "messageDelayLevel": DEFAULT_DELAY_LEVELS,
    "msgTraceTopicName": "RMQ_SYS_TRACE_TOPIC",
    "slaveReadEnable": "false",
    "traceOn": "true",
    "traceTopicEnable": "false",
    "useTLS": "false",
}
_MORE_OF_4_9 = {"filterServerNums": "0"}
# A broker has as many of these as there are cores, and tools take it for their number.
_CORES = "clientCallbackExecutorThreads"


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
        """Answer with texts by name."""
        del request, channel
        return body_of({"table": runtime_table(self._served, self._properties, self._began)})

    def config(self, request: Command, channel: Channel) -> Answer:
        """Answer with the settings that are known, as Java properties."""
        del request, channel
        name, cluster = self._named
        defaults = _DEFAULTS | {_CORES: str(os.cpu_count() or 1)}
        if not self._served.release.is_5:
            defaults |= _MORE_OF_4_9
        said = defaults | {**self._properties, "brokerName": name, "brokerClusterName": cluster}
        text = "".join(f"{key}={said[key]}\n" for key in sorted(said))
        began = {"timestamp": int(self._began * 1000)}
        version = json.dumps({**data_version(self._served), **began}, separators=(",", ":"))
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
        text = read_config(self._served.store.root, DELAYS)
        if text is None:
            return Answer(ResponseCode.SYSTEM_ERROR, f"{DELAYS}: the broker has not written it")
        return Answer(ResponseCode.SUCCESS, None, None, (memoryview(text.encode()),))


@dataclass(frozen=True)
class _ConfigHeader(Header):
    """What stands beside the settings."""

    version: str
