"""A replica's own consume queues and ours, both against its log, which is read here once more.

RocketMQ cuts a queue by moving its end; the entries after it stay in the file. When that broker is
started again it takes them for its queue's last ones, as long as the log has grown beyond the places
that they name: it has entries of records that are gone. Its queue is ahead of its log then. As a slave it
takes as many of the next records for repeated ones, and has no entry of them; as a master it gives out
queue offsets that leave some out. So in a queue with such entries, of which no record is in the log,
the broker may lack as many others; both are counted. All else has to be the same, and ours have to be
what the log has in any case.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reput.formats.rocketmq import consumequeue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tests.cluster.replicas import Ack

_RECORD, _BLANK = 0xDAA320A7, 0xCBD43194
_QUEUE_AT, _BODY_AT = 12, 84
_SHOWN = 3

Name = tuple[str, str]
Entry = tuple[int, int, int]


@dataclass
class Found:
    """What comparing the queues of a replica gave.

    Attributes:
        entries: of ours.
        same: queues that are the broker's, every entry.
        spoilt: queues of the broker's that its own log contradicts.
        gone: entries of the broker's of records that the log has no more.
        lacking: records of which the broker has no entry, for that reason.
        elsewhere: acknowledged messages whose entry is not at the queue offset that was told.
        differences: a line each.
    """

    entries: int = 0
    same: int = 0
    spoilt: int = 0
    gone: int = 0
    lacking: int = 0
    elsewhere: int = 0
    differences: list[str] = field(default_factory=list)


def compare(
    broker: Path,
    ours: Path,
    said: Mapping[str, Mapping[str, int]],
    end: int,
    acks: Iterable[Ack],
) -> Found:
    """Compares every entry of every queue.

    Args:
        broker: its store.
        ours: our output.
        said: how many entries it says its queues have.
        end: physical offset where it says its log ends.
        acks: of messages that have to be there.
    """
    found = Found()
    records = records_of(broker / "commitlog", end)
    mine = {name: _entries(data) for name, data in _queues(ours / "consumequeue").items()}
    theirs = _queues(broker / "consumequeue")
    names = {(topic, queue) for topic, queues in said.items() for queue in queues}
    for name in sorted(mine.keys() | names | records.keys()):
        label = "/".join(name)
        told = said.get(name[0], {}).get(name[1], 0) * consumequeue.ENTRY_SIZE
        brokers = _entries(theirs.get(name, b"")[:told], cut=False)
        wanted = records.get(name, [])
        real = [entry for entry in mine.get(name, []) if entry != _PRE_BLANK]
        found.entries += len(real)
        if [entry[:2] for entry in real] != wanted:
            found.differences.append(f"{label}: {_first(real, wanted)}, which the log has")
        elif brokers == mine.get(name, []):
            found.same += 1
        else:
            known, has = set(real), set(brokers)
            gone = [entry for entry in brokers if entry not in known]
            lacking = [entry for entry in real if entry not in has]
            found.spoilt += 1
            found.gone += len(gone)
            found.lacking += len(lacking)
            if not gone and not lacking and len(brokers) == len(real):
                found.differences.append(f"{label}: in another order than the broker's")
    _look_for(acks, mine, found)
    return found


def records_of(directory: Path, end: int) -> dict[Name, list[tuple[int, int]]]:
    """Returns place and size of each record before `end`, by topic and queue, in the log's order.

    Raises:
        ValueError: what is there is no log of version 1 records.
    """
    found: dict[Name, list[tuple[int, int]]] = {}
    for path in sorted(directory.iterdir()):
        data, base, at = path.read_bytes(), int(path.name), 0
        while base + at < end and at + 8 <= len(data):
            size, magic = struct.unpack_from(">iI", data, at)
            if magic == _BLANK:
                break
            (place,) = struct.unpack_from(">q", data, at + 28)
            if magic != _RECORD or place != base + at:
                raise ValueError(f"{path}, byte {at}: no record, before the broker's end {end}")
            (queue,) = struct.unpack_from(">i", data, at + _QUEUE_AT)
            (body,) = struct.unpack_from(">i", data, at + _BODY_AT)
            topic_at = at + _BODY_AT + 4 + body
            topic = data[topic_at + 1 : topic_at + 1 + data[topic_at]].decode()
            found.setdefault((topic, str(queue)), []).append((place, size))
            at += size
    return found


_PRE_BLANK = consumequeue.ENTRY_STRUCT.unpack(consumequeue.PRE_BLANK)


def _queues(root: Path) -> dict[Name, bytes]:
    """The bytes of each queue, its files joined."""
    found: dict[Name, bytes] = {}
    for path in sorted(root.glob("*/*/*")):
        name = (path.parent.parent.name, path.parent.name)
        found[name] = found.get(name, b"") + path.read_bytes()
    return found


def _entries(data: bytes, *, cut: bool = True) -> list[Entry]:
    """The entries; `cut`: up to the last one that is not all zeros."""
    size = consumequeue.ENTRY_SIZE
    if cut:
        data = data[: -(-len(data.rstrip(b"\0")) // size) * size]
    return [(e[0], e[1], e[2]) for e in consumequeue.ENTRY_STRUCT.iter_unpack(data)]


def _first(ours: list[Entry], wanted: list[tuple[int, int]] | list[Entry]) -> str:
    """The first difference, in words."""
    for at in range(max(len(ours), len(wanted))):
        one = ours[at] if at < len(ours) else None
        other = wanted[at] if at < len(wanted) else None
        if one is None or other is None or one[: len(other)] != other:
            return f"entry {at} of {len(ours)} is {one}, not {other} of {len(wanted)}"
    return "the same"


def _look_for(acks: Iterable[Ack], mine: Mapping[Name, list[Entry]], found: Found) -> None:
    """Every acknowledged message has an entry, at the queue offset that was told if it can."""
    places = {name: {e[0]: at for at, e in enumerate(entries)} for name, entries in mine.items()}
    missing = []
    for ack in acks:
        at = places.get((ack.topic, str(ack.queue)), {}).get(ack.offset)
        if at is None:
            missing.append(ack)
        elif at != ack.queue_offset:
            found.elsewhere += 1
    if missing:
        found.differences.append(
            f"{len(missing)} acknowledged messages have no entry: {missing[:_SHOWN]}"
        )
