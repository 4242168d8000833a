"""Shows each verb of mqadmin, and each captured request, at a real broker and at ours.

    python -m tests.remoting.server.verbs --version 5.5.0 [--fresh]

Both have the same store, ports and members of groups, one after the other. What they print and
answer has to be equal but for times, rates and the ports of clients. Verbs that write are asked of
ours alone: each is refused, and the store's files stay as they are.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.remoting.server.verbs import rig
from tests.remoting.server.verbs.text import DIFFER, UNKNOWN

if TYPE_CHECKING:
    from tests.remoting.server.verbs.rig import Row


def main() -> int:
    """Print the table; 1 if something differs, or is not answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", choices=rig.VERSIONS, default=rig.VERSIONS[0])
    parser.add_argument("--fresh", action="store_true", help="make the store again")
    parser.add_argument("--directory", type=Path, help="for the store and all that is written")
    parser.add_argument("--verbs", help="a pattern: only verbs that match, and no requests")
    parser.add_argument("--requests", action="store_true", help="no verbs, only requests")
    parser.add_argument("--reuse", action="store_true", help="take the real ones' last answers")
    parser.add_argument("--quiet", action="store_true", help="only what is not equal")
    asked = parser.parse_args()
    directory = asked.directory or rig.HERE / "target" / f"store-{asked.version}"
    only = r"\b\B" if asked.requests else asked.verbs
    what = rig.Asked(only, not asked.verbs)
    rows = rig.run(asked.version, directory, what, fresh=asked.fresh, reuse=asked.reuse)
    show(rows, quiet=asked.quiet)
    return int(any(row.verdict.kind in {DIFFER, UNKNOWN} for row in rows))


def show(rows: list[Row], *, quiet: bool) -> None:
    """Print a line for each, and how many there are of each kind."""
    for row in rows:
        if row.verdict.kind == "equal" and quiet:
            continue
        reason = row.verdict.reason.replace("\n", "\n" + " " * 12)
        print(f"{row.verdict.kind:<8}  {row.name}{': ' if reason else ''}{reason}")
    for what in dict.fromkeys(row.what for row in rows):
        counts = Counter(row.verdict.kind for row in rows if row.what == what)
        print(f"{what}: " + ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))


if __name__ == "__main__":
    sys.exit(main())
