"""Sound records and stores to begin with: made up, and a real broker's."""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.kernels import frames
from reput.formats.rocketmq import commitlog, names
from reput.formats.rocketmq.commitlog import ACCEPT_V2, BORN_HOST_V6, STORE_HOST_V6, Record, Verdict
from reput.formats.rocketmq.encode import Message, encode
from tests.builders import goldens as golden_stores
from tests.builders.stores import Log, Messages, config_of, fill, name_batch_topics
from tests.fuzz.mutate import Parts

if TYPE_CHECKING:
    from reput.streaming.settings.config import StoreConfig

EXT = {"enableConsumeQueueExt": "true"}
MULTI = {"enableMultiDispatch": "true", "enableLmq": "true"}
BITMAPS = {"enableCalcFilterBitMap": "true", **EXT}
FILTERS = """{"filterDataByTopic":{"orders":{"consumerGroup":"","groupFilterData":{"g1":{
"bloomFilterData":{"bitNum":112,"bitPos":[47,102,45]},"bornTime":1,"clientVersion":1,
"consumerGroup":"g1","deadTime":0,"expression":"TAGS = 'TagA' OR a BETWEEN 1 AND 5",
"expressionType":"SQL92","topic":"orders"}},"topic":"orders"}}}"""


def parts_of(raw: bytes) -> Parts:
    """Take a sound record apart."""
    position = int.from_bytes(raw[28:36], "big")
    verdict, found = commitlog.read(raw, 0, position, position + len(raw))
    assert isinstance(found, Record), verdict
    sys_flag = found.sys_flag
    born = 20 if sys_flag & BORN_HOST_V6 else 8
    stored = 20 if sys_flag & STORE_HOST_V6 else 8
    data = np.frombuffer(raw, np.uint8).copy()
    verdict_number, _, timestamp_at, _, _, topic_at, topic_length, properties_at = frames.check(
        data, 0, len(raw), position, position + len(raw), ACCEPT_V2
    )
    assert verdict_number == Verdict.RECORD
    return Parts(
        magic=int.from_bytes(raw[4:8], "big", signed=True),
        queue_id=found.queue_id,
        flag=found.flag,
        queue_offset=found.queue_offset,
        sys_flag=sys_flag,
        born_timestamp=found.born_timestamp,
        born_host=raw[48 : 48 + born],
        store_timestamp=found.store_timestamp,
        store_host=raw[timestamp_at + 8 : timestamp_at + 8 + stored],
        reconsume_times=found.reconsume_times,
        prepared=found.prepared_transaction_offset,
        body=found.body,
        topic=raw[topic_at : topic_at + topic_length],
        properties=raw[properties_at:],
    )


@functools.cache
def records() -> tuple[Parts, ...]:
    """Return some hundreds of records, taken apart."""
    found = []
    for seed in range(6):
        maker = Messages(seed, out_of_turn=True, multi=seed % 2 == 0, batches=seed % 3 == 0)
        found += [parts_of(encode(maker.next(), 0)) for _ in range(60)]
    odd = (
        Message("t", b"x" * 300, {"TAGS": "a" * 200, "KEYS": " ".join("k" * i for i in range(40))}),
        Message("p" * 60, b"", {"UNIQ_KEY": "0" * 32}, property_crc=True),
        Message("SCHEDULE_TOPIC_XXXX", b"d", {"DELAY": "3", "TAGS": "x"}),
        Message("empty"),
    )
    found += [parts_of(encode(message, 0)) for message in odd]
    return tuple(found)


@functools.cache
def golden_records() -> tuple[Parts, ...]:
    """Return the first records of each kind of store that real brokers wrote."""
    found = []
    with tempfile.TemporaryDirectory() as directory:
        for version in golden_stores.VERSIONS[1:]:
            root = golden_stores.unpack(version, Path(directory) / version)
            for scenario in golden_stores.SCENARIOS:
                store = golden_stores.load(version, scenario, root)
                found += _first_records(store.path / names.COMMITLOG, 25)
    return tuple(found)


def _first_records(directory: Path, most: int) -> list[Parts]:
    found: list[Parts] = []
    path = min(directory.iterdir())
    raw, base = path.read_bytes(), int(path.name)
    at = 0
    while len(found) < most:
        verdict, record = commitlog.read(raw, at, base + at, base + len(raw))
        if not isinstance(record, Record):
            break
        assert verdict == Verdict.RECORD
        found.append(parts_of(raw[at : at + record.size]))
        at += record.size
    return found


class Sound(NamedTuple):
    """A store and its outputs as a writer leaves them: stopped in order, and killed.

    Files by path; `killed` has the progress of half the log and the files of most of it.
    """

    version: str
    conf: dict[str, str]
    store: dict[str, bytes]
    clean: dict[str, bytes]
    killed: dict[str, bytes]


# What a store's settings and records have in it; seed by place.
_KINDS: tuple[tuple[str, dict[str, str], dict[str, bool]], ...] = (
    ("5.5", {}, {}),
    ("5.5", EXT, {"out_of_turn": True}),
    ("5.5", MULTI, {"multi": True}),
    ("5.5", BITMAPS, {}),
    ("5.3", {}, {"batches": True, "out_of_turn": True}),
    ("5.3", {**EXT, **MULTI}, {"multi": True, "batches": True}),
    ("4.9", MULTI, {"multi": True, "wide": False}),
    ("4.9", {**EXT, "messageIndexEnable": "false"}, {"wide": False}),
)


@functools.cache
def sound_stores() -> tuple[Sound, ...]:
    """Return small stores of every kind and their outputs."""
    return tuple(_sound(number) for number in range(len(_KINDS)))


def _sound(number: int) -> Sound:
    version, conf, traits = _KINDS[number]
    with tempfile.TemporaryDirectory() as directory:
        store, output = Path(directory) / "store", Path(directory) / "output"
        log = fill(Log(), number, 40, **traits)
        log.write(store)
        if traits.get("batches"):
            name_batch_topics(store, "batches")
        if "enableCalcFilterBitMap" in conf:
            (store / names.CONFIG).mkdir(exist_ok=True)
            (store / names.CONFIG / "consumerFilter.json").write_text(FILTERS, "utf-8")
        config = config_of(store, output, version, **conf)
        clean = _dispatch(config, None)
        shutil.rmtree(output)
        middle = log.places[len(log.places) // 2].position
        return Sound(version, conf, files_below(store), clean, _dispatch(config, middle))


def _dispatch(config: StoreConfig, middle: int | None) -> dict[str, bytes]:
    """Return an output; with `middle`, as one whose writer was killed after its record there."""
    from reput.stores.log.tail import find_tail
    from reput.streaming.dispatch.dispatcher import StoreDispatcher

    dispatcher = StoreDispatcher(config, threads=1)
    try:
        if middle is None:
            dispatcher.dispatch(find_tail(dispatcher.log).end)
            dispatcher.close()
            return files_below(config.output)
        dispatcher.dispatch(middle)
        dispatcher.flush()
        recorded = files_below(config.output / ".reput", ".reput/")
        dispatcher.dispatch(find_tail(dispatcher.log).end)
        return files_below(config.output) | recorded
    finally:
        if middle is not None:
            dispatcher.close()


def files_below(root: Path, prefix: str = "") -> dict[str, bytes]:
    """Return the files below a directory by their paths."""
    return {
        prefix + path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def source(seed: str) -> random.Random:
    """Return the random source of a seed."""
    return random.Random(seed)
