"""What our output has to be equal to: the broker's own queues, and a rebuild from the log alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reput.formats.rocketmq import consumequeue

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CHUNK = 1 << 20


@dataclass
class QueueReport:
    """What comparing the consume queues of two stores gave.

    Attributes:
        files: compared.
        entries: written ones.
        differences: a line each.
        stale: bytes of the broker's that are not zero after the written end.
    """

    files: int = 0
    entries: int = 0
    differences: list[str] = field(default_factory=list)
    stale: int = 0


def compare_queues(broker: Path, ours: Path, said: Mapping[str, Mapping[str, int]]) -> QueueReport:
    """Compares every byte of the consume queues up to the written end.

    A broker that was killed cuts its queues back by moving their end: what it had written after that
    that stays until it is written over. Ours has zeros there. So the end is where ours stops being
    anything but zeros, and what the broker says is the check that this is not too soon.

    Args:
        broker: its store.
        ours: our output.
        said: how many messages it said it has, by topic and queue.
    """
    report = QueueReport()
    theirs, mine = (_queues(root / "consumequeue") for root in (broker, ours))
    for name in sorted(theirs.keys() | mine.keys()):
        files = mine.get(name, {})
        end = _written_end(files)
        report.entries += end // consumequeue.ENTRY_SIZE
        topic, queue = name
        least = said.get(topic, {}).get(queue, 0) * consumequeue.ENTRY_SIZE
        if end < least:
            report.differences.append(f"{topic}/{queue}: {end} bytes, the broker has {least}")
        _compare_queue(f"{topic}/{queue}", theirs.get(name, {}), files, end, report)
    for topic, queues in said.items():
        for queue in queues:
            if (topic, queue) not in mine:
                report.differences.append(f"{topic}/{queue}: missing")
    return report


def _compare_queue(
    name: str, theirs: Mapping[int, Path], mine: Mapping[int, Path], end: int, report: QueueReport
) -> None:
    for base in sorted(theirs.keys() | mine.keys()):
        if base not in theirs or (base not in mine and base < end):
            who = "the broker" if base in theirs else "us"
            report.differences.append(f"{name} file {base}: only with {who}")
            continue
        report.files += 1
        data = theirs[base].read_bytes()
        own = mine[base].read_bytes() if base in mine else b""
        written = max(0, min(len(data), end - base))
        if own and len(own) != len(data):
            report.differences.append(f"{name} file {base}: {len(own)} bytes, {len(data)}")
        if data[:written] != own[:written]:
            first = next(i for i in range(written) if data[i : i + 1] != own[i : i + 1])
            report.differences.append(f"{name} file {base}: differs from byte {first} on")
        report.stale += len(data) - written - data.count(0, written)


def _queues(root: Path) -> dict[tuple[str, str], dict[int, Path]]:
    """The files of each queue by their first byte."""
    found: dict[tuple[str, str], dict[int, Path]] = {}
    for path in root.glob("*/*/*"):
        name = (path.parent.parent.name, path.parent.name)
        found.setdefault(name, {})[int(path.name)] = path
    return found


def _written_end(files: Mapping[int, Path]) -> int:
    """The byte after the last entry that is not zero."""
    for base in sorted(files, reverse=True):
        used = len(files[base].read_bytes().rstrip(b"\0"))
        if used:
            # An entry ends with its tags code, which may be zero.
            return base + -(-used // consumequeue.ENTRY_SIZE) * consumequeue.ENTRY_SIZE
    return 0


def compare_index(one: Path, other: Path) -> list[str]:
    """Compares index files in the order of their names; these are times of day and may differ."""
    ones, others = (sorted((root / "index").glob("*")) for root in (one, other))
    if len(ones) != len(others):
        return [f"{len(ones)} index files against {len(others)}"]
    return [
        f"index files {a.name} and {b.name}: differ from byte {at} on"
        for a, b in zip(ones, others, strict=True)
        if (at := _first_difference(a, b)) is not None
    ]


def _first_difference(a: Path, b: Path) -> int | None:
    """Where two files begin to differ; index files are too large to be read as a whole."""
    with a.open("rb") as x, b.open("rb") as y:
        at = 0
        while True:
            p, q = x.read(_CHUNK), y.read(_CHUNK)
            if p != q:
                return at + next(
                    (i for i, pair in enumerate(zip(p, q, strict=False)) if pair[0] != pair[1]),
                    min(len(p), len(q)),
                )
            if not p:
                return None
            at += len(p)
