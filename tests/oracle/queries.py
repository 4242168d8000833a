#!/usr/bin/env python3
"""Queries of random stores and of the goldens: the real broker's answers and ours, which must be equal.

    python tests/oracle/queries.py --version 5.5.0 --stores 200 --seed 1
    python tests/oracle/queries.py --version 5.5.0 --cuts --stores 200 --seed 1

For each store: keys of its messages, and keys that it has not, one by one and several at once, with and
without kernels, in windows that begin and end at, before and after times that are there; messages of each queue from every kind of offset, with and without tags;
each time that a queue has, a millisecond before and after it, with both boundaries; ids. The broker opens
the store as it stands; order counts. With --goldens the stores are those of tests/goldens. With --cuts
their logs were cut, by the broker's own classes: messages that are gone are asked for as well, and we
answer twice, from the files as they were before the broker opened them and as it has left them.
"""

from __future__ import annotations

import argparse
import base64
import datetime as dt
import ipaddress
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import oracle  # noqa: E402

from reput.formats.rocketmq import broker, messageid  # noqa: E402
from reput.stores.config.message_filter import MessageFilter, compile_filter  # noqa: E402
from reput.stores.log.records import NoRecordError, is_in_queue  # noqa: E402
from reput.stores.query.index_search import Window  # noqa: E402
from reput.stores.query.message_store import MessageStore  # noqa: E402
from reput.stores.queues.by_time import Boundary  # noqa: E402
from tests.builders import goldens as golden_stores  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.formats.rocketmq.commitlog import Record

FOREVER = (1 << 63) - 1
TIMES_A_QUEUE = 40
KEYS_A_STORE = 60
# The first of the numbers that keys have in logs that are cut, and how many there may be.
CUT_KEYS = 1_000_000, 700
# What a store answers in two ways.
BY_KERNELS = {"OFFSETS", "TAGGED", "KEY"}


@dataclass(frozen=True)
class BrokerTags:
    """What a broker does with tags: hashes only; the tag itself is its client's business."""

    tags: MessageFilter

    def matches_code(self, tags_code):
        return self.tags.matches_code(tags_code)

    def matches_unit(self, unit):
        return self.tags.matches_unit(unit)

    def matches(self, _properties):
        return True


def word(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


def requests(
    store: MessageStore, pick: random.Random, *, is_cut: bool = False
) -> Iterator[list[str]]:
    """Yield what is asked of one store."""
    records = list(store.records_from(store.log.min_offset))
    if is_cut:
        yield from _cut_off(store, records, pick)
    yield from _by_key(store, records, pick)
    for topic in store.topics():
        for queue_id in store.queue_ids(topic):
            yield from _by_offset(store, topic, queue_id, pick)
            yield from _by_time(store, topic, queue_id, pick)
    for record in pick.sample(records, min(20, len(records))):
        yield ["AT", str(record.physical_offset)]
        yield ["ID", messageid.offset_id(record.store_host, record.physical_offset)]
        uniq_key = record.properties.get("UNIQ_KEY", "")
        if messageid.is_message_id(uniq_key):
            yield ["ID", uniq_key]


def _cut_off(store, records, pick):
    """Ask for what may have been cut: all keys that there were, places past the end of all."""
    first, count = CUT_KEYS
    for number in pick.sample(range(first, first + count), 150):
        topic, ends = word(f"topic-{pick.randrange(3)}"), ["64", "0", str(FOREVER)]
        for key in (f"key{number}", f"U{number}"):
            yield ["OFFSETS", topic, word(key), *ends]
            yield ["KEY", topic, word(key), *ends]
    end = records[-1].physical_offset + records[-1].size if records else store.log.min_offset
    size = records[-1].size if records else 200
    for number in range(40):
        yield ["AT", str(end + number * size)]
    for topic in store.topics():
        for queue_id in store.queue_ids(topic):
            high = store.queue(topic, queue_id).max_offset
            for offset in range(max(high - 3, 0), high + 40):
                yield ["GET", word(topic), str(queue_id), str(offset), "32", ""]


def _by_key(store, records, pick):
    tags = store.settings.version.indexes_tags
    keyed = [r for r in records if r.properties.get("KEYS") or r.properties.get("UNIQ_KEY")]
    times = [r.store_timestamp for r in records] or [0]
    for record in pick.sample(keyed, min(KEYS_A_STORE, len(keyed))):
        keys = [k for k in record.properties.get("KEYS", "").split(" ") if k]
        keys += [k for k in [record.properties.get("UNIQ_KEY")] if k]
        for key in keys[:3]:
            stored = record.store_timestamp
            windows = [(0, FOREVER), (stored, stored), (stored - 1000, stored + 1000)]
            windows += [(stored + 1, FOREVER), (0, stored - 1), (stored - 1, stored + 1)]
            low, high = sorted((pick.choice(times), pick.choice(times)))
            windows += [(low, high), (low, FOREVER), (0, high)]
            for begin, end in windows:
                limit = pick.choice([1, 2, 5, 32, 64, 64, 100])
                ends = [str(limit), str(begin), str(end)]
                yield ["OFFSETS", word(record.topic), word(key), *ends]
                yield ["KEY", word(record.topic), word(key), *ends]
        if tags and record.properties.get("TAGS"):
            tag = record.properties["TAGS"]
            yield ["TAGGED", word(record.topic), word(tag), "64", "0", str(FOREVER)]
    for topic in {r.topic for r in records[:50]}:
        for key in ("", "none", "Aa", "BB", "AaAa", "BBBB"):
            yield ["OFFSETS", word(topic), word(key), "64", "0", str(FOREVER)]


def _by_offset(store, topic, queue_id, pick):
    queue = store.queue(topic, queue_id)
    low, high = max(queue.min_offset, 0), queue.max_offset
    offsets = {-1, 0, low - 1, low, low + 1, high - 1, high, high + 1, high + 1000}
    offsets |= {pick.randint(low, max(high, low)) for _ in range(6)}
    tags = sorted(
        {
            r.properties["TAGS"]
            for _, r in store.messages(topic, queue_id, low)
            if "TAGS" in r.properties
        }
    )
    for offset in sorted(offsets):
        for limit in (1, 3, 32, 100):
            yield ["GET", word(topic), str(queue_id), str(offset), str(limit), ""]
        some = [tag for tag in pick.sample(tags, min(2, len(tags))) if "||" not in tag]
        for expression in {"*", "none", " || ".join(some) or "*"}:
            yield ["GET", word(topic), str(queue_id), str(offset), "32", word(expression)]


def _by_time(store, topic, queue_id, pick):
    times = {r.store_timestamp for _, r in store.messages(topic, queue_id, 0)}
    chosen = sorted(times)
    if len(chosen) > TIMES_A_QUEUE:
        # The first and last ones of files are where the rules differ: these are always in.
        queue = store.queue(topic, queue_id)
        edges = {
            stored
            for base in queue.files.bases
            for at in (base, base + queue.files.file_size - queue.files.unit)
            if (stored := _stored(store, queue, at)) is not None
        }
        chosen = sorted(edges | set(pick.sample(chosen, TIMES_A_QUEUE)))
    asked = {0, 1, FOREVER} | {t + d for t in chosen for d in (-1, 0, 1)}
    for moment in sorted(asked):
        for boundary in ("LOWER", "UPPER", "-"):
            yield ["TIME", word(topic), str(queue_id), str(moment), boundary]


def _stored(store, queue, position):
    entry = next(iter(queue.entries(position // queue.files.unit) or ()), None)
    return store.stored_at(entry) if entry is not None else None


def answer(store: MessageStore, words: list[str]) -> object:  # noqa: PLR0911 - a line for each question
    """Return our answer, in the words of the driver's."""
    kind = words[0]
    if kind in {"OFFSETS", "TAGGED"}:
        key = ("T#" if kind == "TAGGED" else "") + text(words[2])
        limit, begin, end = map(int, words[3:])
        hashed = f"{text(words[1])}#{key}"
        return list(store.index.offsets_of(hashed, Window(begin, end), min(limit, 64)))
    if kind == "KEY":
        limit, begin, end = map(int, words[3:])
        window = Window(begin, end)
        if begin > end:
            return []
        found = store.by_key(
            text(words[1]), text(words[2]), window=window, limit=min(limit, 64), is_raw=True
        )
        return [m.physical_offset for m in found.messages]
    if kind == "GET":
        message_filter = BrokerTags(compile_filter(text(words[5]))) if words[5] else None
        found = store.pull(
            text(words[1]), int(words[2]), int(words[3]), int(words[4]), message_filter
        )
        return {
            "status": found.status,
            "next": found.next_offset,
            "min": found.min_offset,
            "max": found.max_offset,
            "messages": [[record.physical_offset, record.size] for _, record in found.messages],
        }
    if kind == "TIME":
        boundary = None if words[4] == "-" else Boundary(words[4].lower())
        if not store.settings.version.has_time_boundaries:
            boundary = None
        return store.offset_by_time(text(words[1]), int(words[2]), int(words[3]), boundary)
    if kind == "AT":
        try:
            record = store.at(int(words[1]))
        except NoRecordError:
            return None
        identity = messageid.offset_id(record.store_host, record.physical_offset)
        return [record.physical_offset, record.size, identity]
    raise ValueError(kind)


def made_at(milliseconds: int, now: dt.datetime) -> dt.datetime:
    """Return when an id was made, if that is less than a month ago and in the zone of `now`.

    Source: `MessageClientIDSetter#getNearlyTimeFromID`.
    """
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    span = dt.timedelta(milliseconds=milliseconds)
    if month + span >= now:
        month = (month - dt.timedelta(days=1)).replace(day=1)
    return month + span


def same_id(theirs: dict, words: list[str]) -> bool:
    """Tell whether the parts of an id are the same; addresses are written in several ways."""
    unique_id = messageid.parse_unique_id(words[1])
    now = dt.datetime.fromtimestamp(theirs["now"] / 1000).astimezone()
    made = made_at(unique_id.milliseconds, now).timestamp() * 1000
    if theirs["pid"] != unique_id.process or abs(theirs["time"] - made) >= 1:
        return False
    try:
        offset_id = messageid.parse_offset_id(words[1])
    except ValueError:
        return theirs["offset"] is None
    if theirs["offset"] != offset_id.physical_offset:
        return False
    host, _, port = theirs["address"].removeprefix("/").rpartition(":")
    address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    return address == ipaddress.ip_address(offset_id.host) and int(port) == offset_id.port


def together(
    store: MessageStore, asked: list[tuple[list[str], object]]
) -> Iterator[tuple[list[str], object, object]]:
    """Ask for the keys that were asked of one topic and window at once.

    Args:
        store: whom to ask.
        asked: requests and the broker's answers.

    Yields:
        Each request, the broker's answer, and ours.
    """
    groups: dict[tuple[str, ...], list[tuple[list[str], object]]] = {}
    for words, theirs in asked:
        if words[0] == "KEY" and int(words[4]) <= int(words[5]):
            groups.setdefault((words[1], *words[3:]), []).append((words, theirs))
    for (topic, limit, begin, end), group in groups.items():
        keys = [text(words[2]) for words, _ in group]
        answers = store.by_keys(
            text(topic),
            keys,
            window=Window(int(begin), int(end)),
            limit=min(int(limit), 64),
            is_raw=True,
        )
        for (words, theirs), found in zip(group, answers, strict=True):
            yield ["KEYS", *words[1:]], theirs, [m.physical_offset for m in found.messages]


def open_store(
    path: Path, version: str, conf: dict[str, str], *, is_compiled: bool = False
) -> MessageStore:
    settings = broker.settings_of(version, conf)
    return MessageStore.open(path, None, settings, is_compiled=is_compiled)


def compare(  # noqa: C901 - each kind of answer in turn
    paths: list[Path], version: str, seed: int, *, are_cut: bool = False
) -> tuple[Counter, list[str]]:
    """Ask the broker and us; return how much was asked, and what differs."""
    asked: Counter = Counter()
    different = []
    before: dict[Path, Path] = {}
    for path in paths:
        conf = oracle.config_of(path.with_suffix(path.suffix + ".facts"))
        with open_store(path, version, conf) as store:
            _spread_times(store)
            lines = [
                "\t".join(r)
                for r in requests(store, random.Random(f"{seed} {path.name}"), is_cut=are_cut)
            ]
        path.with_suffix(path.suffix + ".requests").write_text("".join(f"{x}\n" for x in lines))
        if are_cut and not (path / "abort").exists():
            # A broker that was killed has not put all into its queues and index.
            before[path] = Path(shutil.copytree(path, path.with_suffix(".before")))
    # A queue that a recovery makes again has another least offset until the next start.
    for _ in range(2 if are_cut else 1):
        oracle.run(version, "Query", *paths, timeout=120 + 5 * len(paths), heap="1g")
    answering = [(path, path) for path in paths]
    # What a broker dispatched when it opened the store was not there before.
    answering += [each for each in before.items() if _dispatched(each[0]) == _dispatched(each[1])]
    if are_cut:
        asked["stores answered from as they were before"] += len(answering) - len(paths)
    for path, files in answering:
        conf = oracle.config_of(path.with_suffix(path.suffix + ".facts"))
        lines = path.with_suffix(path.suffix + ".requests").read_text().splitlines()
        answers = path.with_suffix(path.suffix + ".answers").read_text().splitlines()
        assert len(lines) == len(answers)
        compared: list[tuple[list[str], object, object]] = []
        with (
            open_store(files, version, conf) as store,
            open_store(files, version, conf, is_compiled=True) as fast,
        ):
            whole = {r.physical_offset: r for r in store.records_from(store.log.min_offset)}
            both = zip(lines, map(json.loads, answers), strict=True)
            answered = [
                (line.split("\t"), theirs)
                for line, theirs in both
                if not (are_cut and _is_of_no_record(theirs, line, store, whole))
            ]
            if are_cut:
                asked["answers of the broker's that are not a record's"] += len(lines) - len(
                    answered
                )
            for words, theirs in answered:
                if words[0] == "ID":
                    ours = theirs if same_id(theirs, words) else "other parts"
                    compared.append((words, theirs, ours))
                    continue
                compared.append((words, theirs, answer(store, words)))
                if words[0] in BY_KERNELS:
                    kernel = [f"{words[0]} BY KERNELS", *words[1:]]
                    compared.append((kernel, theirs, answer(fast, words)))
            for each in (store, fast):
                compared += together(each, answered)
        for words, theirs, ours in compared:
            asked[words[0]] += 1
            if ours != theirs:
                shown = " ".join([words[0], *(_shown(w) for w in words[1:])])
                different.append(f"{files}: {shown}\n   broker {theirs}\n   ours   {ours}")
    return asked, different


def _dispatched(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for kind in golden_stores.OUTPUTS
        for file in (path / kind).rglob("*")
        if file.is_file()
    }


def _is_of_no_record(
    theirs: object, line: str, store: MessageStore, whole: dict[int, Record]
) -> bool:
    """Tell whether a broker takes other bytes for a record of a queue, by an entry or item of old.

    A recovery cuts a queue at its first entry past the log's end. What was cut from it before, and
    was not overwritten since, may stand before that; and items stay in an index for good.

    Args:
        theirs: its answer.
        line: the question.
        store: what is asked.
        whole: the log's records by physical offset.
    """

    def is_own(offset: int, size: int) -> bool:
        record = whole.get(offset)
        name = text(topic), int(queue_id)
        return record is not None and record.size == size and is_in_queue(record, *name)

    if line.startswith(("GET", "TIME")):
        kind, topic, queue_id, *_ = line.split("\t")
        if kind == "GET":
            return not all(is_own(offset, size) for offset, size in theirs["messages"])
        queue = store.queue(text(topic), int(queue_id))
        return not all(is_own(e.physical_offset, e.size) for e in queue.all_entries())
    if line.startswith("AT"):
        # In the space of a BLANK; a place where nothing stands is judged.
        return bool(theirs) and theirs[0] not in whole
    return line.startswith("KEY") and not whole.keys() >= set(theirs)


def _spread_times(store: MessageStore) -> None:
    """Let each queue file's time be that of its last message: 4.9 goes by that."""
    for topic in store.topics():
        for queue_id in store.queue_ids(topic):
            queue = store.queue(topic, queue_id)
            for base in queue.files.bases:
                stop = min(base + queue.files.file_size, queue.end)
                stored = _stored(store, queue, stop - queue.files.unit) if stop > base else None
                if stored is not None:
                    os.utime(queue.files.path(base), ns=(stored * 1_000_000,) * 2)


def _shown(encoded: str) -> str:
    try:
        return repr(text(encoded)) if not encoded.lstrip("-").isdigit() else encoded
    except ValueError:
        return encoded


def golden_paths(version: str, target: Path) -> list[Path]:
    """Unpack the goldens of a version, each with its facts, and return the stores."""
    source = golden_stores.unpack(version, target)
    paths = []
    for known, scenario in golden_stores.GOLDENS:
        if known != version:
            continue
        golden = golden_stores.load(version, scenario, source)
        facts = source / f"{scenario}.facts"
        pairs = ", ".join(f"{k}={v}" for k, v in golden.conf.items())
        facts.write_text(f"config={{{pairs}}}\n")
        paths.append(golden.path)
    return paths


def main() -> int:
    """Compare in chunks; the exit code says whether anything differed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", default=oracle.VERSIONS[0], choices=oracle.VERSIONS)
    parser.add_argument("--stores", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chunk", type=int, default=25, help="stores that a JVM opens")
    parser.add_argument("--goldens", action="store_true", help="the goldens too")
    parser.add_argument("--cuts", action="store_true", help="stores whose logs were cut")
    parser.add_argument("--keep", type=Path, help="a directory for stores that differ")
    args = parser.parse_args()
    make_stores = oracle.cut_stores if args.cuts else oracle.fuzz_stores
    oracle.build(args.version)
    start = time.monotonic()
    asked: Counter = Counter()
    bad = stores = 0
    with tempfile.TemporaryDirectory(prefix="queries-", dir=os.environ.get("TMPDIR")) as root:
        chunks = []
        if args.goldens:
            chunks.append(lambda: golden_paths(args.version, Path(root) / "goldens"))
        for seed in range(args.seed, args.seed + args.stores, args.chunk):
            count = min(args.chunk, args.seed + args.stores - seed)
            chunks.append(
                lambda s=seed, n=count: make_stores(args.version, s, n, Path(root) / "random")
            )
        for make in chunks:
            paths = make()
            stores += len(paths)
            found, different = compare(paths, args.version, args.seed, are_cut=args.cuts)
            asked += found
            bad += len(different)
            for line in different[:10]:
                print(line, flush=True)
            if different and args.keep is not None:
                shutil.copytree(paths[0].parent, args.keep, dirs_exist_ok=True)
            shutil.rmtree(paths[0].parent)
    kinds = ", ".join(f"{n:,} {kind.lower()}" for kind, n in sorted(asked.items()))
    print(
        f"{args.version}: {stores} stores, {sum(asked.values()):,} queries ({kinds}): {bad} different "
        f"({time.monotonic() - start:.0f} s)"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
