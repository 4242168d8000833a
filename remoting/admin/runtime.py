"""What a broker tells of its state, as texts by name: disks, log, delayed messages, queues.

What only a broker that writes has is 0. Tools read each name, and fail where one is missing.

Source: RocketMQ `AdminBrokerProcessor#prepareRuntimeInfo`, `StoreStatsService#getRuntimeInfo`,
`DefaultMessageStore#getRuntimeInfo`, `ScheduleMessageService#buildRunningStats`.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from reput.formats.java import fastjson
from reput.formats.rocketmq.consumequeue import SCHEDULE_TOPIC
from reput.stores.config.config_files import read_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from reput.remoting.reading.served import Served

DELAYS = "delayOffset.json"
_TIMERS = "timermetrics"
_VERSIONS = {409: "V4_9_8", 479: "V5_3_3", 493: "V5_4_0", 513: "V5_5_0"}
_NO_BUFFERS = "2147483647"
_ZEROS = (
    "EndTransactionQueueSize",
    "dispatchBehindBytes",
    "dispatchMaxBuffer",
    "getMessageEntireTimeMax",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgPutTotalYesterdayMorning",
    "pageCacheLockTimeMills",
    "putMessageEntireTimeMax",
    "putMessageFailedTimes",
    "putMessageSizeTotal",
    "startAcceptSendRequestTimeStamp",
)
_TIMER_ZEROS = ("timerReadBehind", "timerOffsetBehind")
_RATES = ("putTps", "getFoundTps", "getMissTps", "getTotalTps")
_NO_RATES = "0.0 0.0 0.0"
# Threads that answer, and how many requests wait for them at most.
_POOLS_4_9 = {"send": 10000, "pull": 100000, "query": 20000}
_MORE_POOLS_OF_5 = {"litePull": 100000, "ack": 100000}
_TRANSACTIONS, _MOST_TRANSACTIONS = "endTransactionPoolQueueCapacity", 100000


def runtime_table(served: Served, properties: Mapping[str, str], began: float) -> dict[str, str]:
    """Return the texts by name, in the order of names.

    Args:
        served: the store.
        properties: its broker.conf.
        began: when serving began, in seconds since 1970.
    """
    is_5 = served.release.is_5
    table = dict.fromkeys(_ZEROS, "0") | dict.fromkeys(_RATES, _NO_RATES)
    table |= {
        # The word is misspelt in 4.9.
        "getTransferredTps" if is_5 else "getTransferedTps": _NO_RATES,
        "putLatency99": "0.00",
        "putLatency999": "0.00",
        "putMessageAverageSize": "0.0",
        "putMessageDistributeTime": "null",
        # A broker says 1 of none: it divides by it.
        "putMessageTimesTotal": "1",
        "remainHowManyDataToFlush": "0 B",
        "remainTransientStoreBufferNumbs": _NO_BUFFERS,
        "bootTimestamp": str(int(began * 1000)),
        "runtime": _since(began),
    }
    table |= _pools(properties, _POOLS_4_9 | (_MORE_POOLS_OF_5 if is_5 else {}))
    table |= _of_release(served.release.version, is_5=is_5)
    table |= _of_log(served) | _of_disks(served.store.root, properties, is_5=is_5)
    table |= dict(_delayed(served))
    if is_5:
        table["timerCongestNum"] = str(_timers(served.store.root))
    return dict(sorted(table.items()))


def _pools(properties: Mapping[str, str], pools: Mapping[str, int]) -> dict[str, str]:
    most = properties.get(_TRANSACTIONS, str(_MOST_TRANSACTIONS))
    found = {"EndTransactionThreadPoolQueueCapacity": most}
    for name, capacity in pools.items():
        pool = f"{name}ThreadPoolQueue"
        found[f"{pool}Size"] = found[f"{pool}HeadWaitTimeMills"] = "0"
        found[f"{pool}Capacity"] = properties.get(f"{pool}Capacity", str(capacity))
    return found


def _of_release(version: int, *, is_5: bool) -> dict[str, str]:
    found = {"brokerVersionDesc": _VERSIONS.get(version, str(version))}
    if not is_5:
        return found | {"brokerVersion": str(version)}
    rates = dict.fromkeys(("timerEnqueueTps", "timerDequeueTps"), "0.0")
    return found | {"brokerActive": "true"} | dict.fromkeys(_TIMER_ZEROS, "0") | rates


def _of_log(served: Served) -> dict[str, str]:
    store = served.store
    first = store.first_since(0, ascending=True)
    earliest = store.at(first).store_timestamp if first is not None else -1
    return {
        "commitLogMaxOffset": str(store.log.end()),
        "commitLogMinOffset": str(store.log.min_offset),
        "earliestMessageTimeStamp": str(earliest),
    }


def _of_disks(root: Path, properties: Mapping[str, str], *, is_5: bool) -> dict[str, str]:
    said = properties.get("storePathCommitLog") or str(root / "commitlog")
    ratios = {each: _ratio(each) for each in said.split(",")}
    disk = os.statvfs(root)
    total = disk.f_blocks * disk.f_frsize
    free = (disk.f_bfree if is_5 else disk.f_bavail) * disk.f_frsize
    return {
        "commitLogDirCapacity": f"Total : {_size(total)}, Free : {_size(free)}.",
        "commitLogDiskRatio": str(min(ratios.values())),
        "consumeQueueDiskRatio": str(_ratio(str(root))),
        **{f"commitLogDiskRatio_{path}": str(ratio) for path, ratio in ratios.items()},
    }


def _ratio(path: str) -> float:
    """Return how full a disk is, rounded up to hundredths; -1.0 where there is none."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return -1.0
    used = disk.f_blocks - disk.f_bfree
    whole = used + disk.f_bavail
    return -(-used * 100 // whole) / 100 if whole else -1.0


def _delayed(served: Served) -> Iterator[tuple[str, str]]:
    """Yield how far delayed messages of each level are, and how far they reach."""
    table = _read(served.store.root, DELAYS).get("offsetTable")
    for level, done in table.items() if isinstance(table, dict) else ():
        queue = served.queue_now(SCHEDULE_TOPIC, int(level) - 1)
        reached = queue.max_offset if queue is not None else 0
        yield f"scheduleMessageOffset_{level}", f"{done},{reached}"


def _timers(root: Path) -> int:
    """Return how many timers were pending when the broker last said so."""
    counts = _read(root, _TIMERS).get("timingCount")
    found = counts.values() if isinstance(counts, dict) else ()
    return sum(int(each.get("count", 0)) for each in found if isinstance(each, dict))


def _read(root: Path, name: str) -> dict[str, Any]:
    text = read_config(root, name)
    said = fastjson.loads(text) if text else {}
    return said if isinstance(said, dict) else {}


def _size(size: int) -> str:
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    if size < 1024:
        return f"{size} B"
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
