#!/usr/bin/env python3
"""compare.py A B: whether two stores have the same consume queues and the same index.

Every byte counts: a queue file is always as long as configured, and what follows its last unit is
zero in a store that was never cut back, so a difference there is a difference in what was written.
An index file is named by the wall clock of its creation; only the order of the names means anything.
"""

from __future__ import annotations

import sys
from pathlib import Path

QUEUES = ("consumequeue", "consumequeue_ext", "batchconsumequeue")
"""Trees whose paths (topic, queue, first offset) are part of the format."""


def _files(root: Path) -> dict[str, Path]:
    return {str(p.relative_to(root)): p for p in root.rglob("*") if p.is_file()}


def _difference(a: Path, b: Path) -> str | None:
    p, q = a.read_bytes(), b.read_bytes()
    if p == q:
        return None
    if len(p) != len(q):
        return f"{len(p)} bytes against {len(q)}"
    at = [i for i, (x, y) in enumerate(zip(p, q, strict=True)) if x != y]
    window = slice(at[0] - at[0] % 4, at[0] - at[0] % 4 + 32)
    return (
        f"{len(at)} bytes differ, {at[0]} to {at[-1]}: {p[window].hex()} against {q[window].hex()}"
    )


def differences(a: Path, b: Path) -> list[str]:
    """What differs, a line for each file; empty when the two stores are the same."""
    found = []
    for tree in QUEUES:
        mine, theirs = _files(a / tree), _files(b / tree)
        for name in sorted(mine.keys() | theirs.keys()):
            if name not in mine or name not in theirs:
                found.append(f"{tree}/{name}: only in {'A' if name in mine else 'B'}")
            elif difference := _difference(mine[name], theirs[name]):
                found.append(f"{tree}/{name}: {difference}")
    ours = [p for _, p in sorted(_files(a / "index").items())]
    theirs_ = [p for _, p in sorted(_files(b / "index").items())]
    if len(ours) != len(theirs_):
        found.append(f"index: {len(ours)} files against {len(theirs_)}")
    for i, (x, y) in enumerate(zip(ours, theirs_, strict=False)):
        if difference := _difference(x, y):
            found.append(f"index file {i} ({x.name}, {y.name}): {difference}")
    return found


def main() -> int:
    """Prints the differences of the two stores given."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    found = differences(Path(sys.argv[1]), Path(sys.argv[2]))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
