#!/usr/bin/env python3
"""Pulls of random stores, and the other questions of clients: the real broker's answers and ours.

    python tests/oracle/pulls.py --version 5.5.0 --stores 100 --seed 1

For each store: each queue from every kind of offset, with and without tags, with few and many
messages; its offsets, and those of times; queues that are not there; keys in windows of time;
places in the log. The broker opens the store as it stands, and is asked by `DefaultMessageStore`;
we answer by `remoting.reading`. For every other store nothing counts as in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import oracle  # noqa: E402
import queries  # noqa: E402
from queries import FOREVER, text, word  # noqa: E402

from reput.remoting.names.known import Topic  # noqa: E402
from reput.remoting.reading import messages, offsets  # noqa: E402
from reput.remoting.reading import pull as pulls  # noqa: E402
from reput.remoting.wire.admin_headers import (  # noqa: E402
    QueryMessageRequestHeader,
    ViewMessageRequestHeader,
)
from reput.remoting.wire.pull_headers import (  # noqa: E402
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    SearchOffsetRequestHeader,
)
from reput.stores.reads import at_once  # noqa: E402
from tests.builders.served import request, served  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.remoting.reading.answer import Answer
    from reput.remoting.reading.served import Served
    from reput.stores.query.message_store import MessageStore

COLD = "accessMessageInMemoryMaxRatio"
MANY = 1 << 30
LIMITS = (0, 1, 3, 8, 9, 31, 32, 33, 100, 5000)
# A broker of 4.9 makes a list of that length, and fails.
HUGE = (107_374_183, (1 << 31) - 1)


def requests(store: MessageStore, pick: random.Random) -> Iterator[list[str]]:
    """Yield what is asked of one store."""
    records = list(store.records_from(store.log.min_offset))
    for topic in store.topics():
        tags = sorted({r.properties["TAGS"] for r in records if "TAGS" in r.properties})
        tags = [tag for tag in tags if "||" not in tag and tag.strip()] or ["x"]
        for queue_id in store.queue_ids(topic):
            yield from _of_queue(store, topic, queue_id, pick, tags)
    for queue_id in (0, 7):
        for offset in (-1, 0, 1):
            yield ["GET", word("no-such-topic"), str(queue_id), str(offset), "32", ""]
        yield ["RANGE", word("no-such-topic-2"), str(queue_id)]
        yield ["TIME", word("no-such-topic-3"), str(queue_id), "5", "LOWER"]
    for record in pick.sample(records, min(20, len(records))):
        yield ["AT", str(record.physical_offset)]
        stored = record.store_timestamp
        for key in (record.properties.get("UNIQ_KEY"), "none", record.properties.get("KEYS")):
            for begin, end in ((0, FOREVER), (stored, stored), (stored + 5000, FOREVER)):
                limit = pick.choice([0, 1, 2, 32, 64, 100])
                ends = [str(limit), str(begin), str(end)]
                if key and " " not in key:
                    yield ["ASKED", word(record.topic), word(key), *ends]


def _of_queue(store, topic, queue_id, pick, tags):
    queue = store.queue(topic, queue_id)
    name = [word(topic), str(queue_id)]
    yield ["RANGE", *name]
    low, high = max(queue.min_offset, 0), queue.max_offset
    limits = LIMITS + (HUGE if store.settings.version.has_batch_queues else ())
    edges = {-1, 0, low - 1, low, low + 1, high - 1, high, high + 1, high + 1000}
    for offset in sorted(edges | {pick.randint(low, max(high, low)) for _ in range(8)}):
        for limit in pick.sample(limits, 4):
            some = pick.sample(tags, min(2, len(tags)))
            for expression in ("", "*", " || ".join(some), "none"):
                yield ["GET", *name, str(offset), str(limit), word(expression)]
    times = sorted({r.store_timestamp for _, r in store.messages(topic, queue_id, low)})
    for moment in {0, FOREVER, *pick.sample(times, min(8, len(times)))}:
        for boundary in ("LOWER", "UPPER", "-"):
            yield ["TIME", *name, str(moment), boundary]


def answer(at: Served, words: list[str]) -> object:
    """Return our answer, in the words of the driver's."""
    kind = words[0]
    if kind == "AT":
        found = messages.view_message(ViewMessageRequestHeader(int(words[1])), at)
        return _records(found)[0] if found.code == 0 else None
    topic = text(words[1])
    if kind == "ASKED":
        header = QueryMessageRequestHeader(topic, text(words[2]), *map(int, words[3:]))
        found = at_once(messages.query_message(header, at))
        last = found.header
        said = [last.index_last_update_timestamp, last.index_last_update_phyoffset]
        return [*said, *_records(found)]
    queue_id = int(words[2])
    if kind == "RANGE":
        least = offsets.min_offset(GetMinOffsetRequestHeader(topic, queue_id), at)
        most = offsets.max_offset(GetMaxOffsetRequestHeader(topic, queue_id), at)
        first = offsets.earliest_store_time(
            GetEarliestMsgStoretimeRequestHeader(topic, queue_id), at
        )
        return [least.header.offset, most.header.offset, first.header.timestamp]
    if kind == "TIME":
        boundary = None if words[4] == "-" else words[4]
        header = SearchOffsetRequestHeader(topic, queue_id, int(words[3]), boundary)
        return offsets.search_offset(header, at).header.offset
    asked = request(
        int(words[3]), topic=topic, queue=queue_id, limit=int(words[4]), expression=text(words[5])
    )
    found = pulls.pull(asked, at)
    header = found.header
    return {
        "status": found.remark,
        "next": header.next_begin_offset,
        "min": header.min_offset,
        "max": header.max_offset,
        "messages": _records(found),
    }


def _records(found: Answer) -> list[list[int]]:
    """Return physical offset and size of each record in a body."""
    body = b"".join(found.pieces)
    places, at = [], 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        places.append([int.from_bytes(body[at + 28 : at + 36], "big"), size])
        at += size
    assert at == len(body)
    return places


def compare(paths: list[Path], version: str, seed: int) -> tuple[Counter, list[str]]:
    """Ask the broker and us; return how much was asked, and what differs."""
    asked: Counter = Counter()
    different = []
    for number, path in enumerate(paths):
        facts = path.with_suffix(path.suffix + ".facts")
        if number % 2:
            facts.write_text(facts.read_text().replace("config={", f"config={{{COLD}=0, ", 1))
        with queries.open_store(path, version, oracle.config_of(facts)) as store:
            lines = ["\t".join(r) for r in requests(store, random.Random(f"{seed} {path.name}"))]
        path.with_suffix(path.suffix + ".requests").write_text("".join(f"{x}\n" for x in lines))
    oracle.run(version, "Query", *paths, timeout=120 + 5 * len(paths), heap="1g")
    for number, path in enumerate(paths):
        conf = oracle.config_of(path.with_suffix(path.suffix + ".facts"))
        lines = path.with_suffix(path.suffix + ".requests").read_text().splitlines()
        answers = path.with_suffix(path.suffix + ".answers").read_text().splitlines()
        assert len(lines) == len(answers)
        with queries.open_store(path, version, conf) as store:
            at = served(
                store, [Topic(name, MANY, 1) for name in ("no-such-topic", *store.topics())]
            )
            at = at if number % 2 == 0 else replace(at, memory=0)
            for line, theirs in zip(lines, map(json.loads, answers), strict=True):
                words = line.split("\t")
                wanted = theirs[:2] if words[0] == "AT" and theirs else theirs
                ours = answer(at, words)
                asked[words[0]] += 1
                if words[0] == "GET" and wanted["messages"]:
                    asked["GET with messages"] += 1
                if ours != wanted:
                    shown = " ".join([words[0], *(queries._shown(w) for w in words[1:])])
                    different.append(f"{path}: {shown}\n   broker {wanted}\n   ours   {ours}")
    return asked, different


def main() -> int:
    """Compare in chunks; the exit code says whether anything differed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", default=oracle.VERSIONS[0], choices=oracle.VERSIONS)
    parser.add_argument("--stores", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chunk", type=int, default=20, help="stores that a JVM opens")
    args = parser.parse_args()
    oracle.build(args.version)
    asked: Counter = Counter()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="pulls-", dir=os.environ.get("TMPDIR")) as root:
        for seed in range(args.seed, args.seed + args.stores, args.chunk):
            count = min(args.chunk, args.seed + args.stores - seed)
            paths = oracle.fuzz_stores(args.version, seed, count, Path(root) / "random")
            found, different = compare(paths, args.version, args.seed)
            asked += found
            bad += len(different)
            for line in different[:10]:
                print(line, flush=True)
            shutil.rmtree(paths[0].parent)
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in sorted(asked.items()))
    print(f"{args.version}: {args.stores} stores ({kinds}): {bad} different")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
