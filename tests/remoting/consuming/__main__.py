"""Stock consumers take a served store, and what they got is compared with the log.

    python -m tests.remoting.consuming --client 5.5.0 --way clustering --messages 1000000

Each message that a consumer gets is compared with the log: its place, the CRC of its body, tag,
key, ids, times. It has to come once, in the order of its queue; again only around an event, and
each such case is matched with one (`checking`).

clustering: three members, of which others join, leave and are killed; so are orderly, tags, sql92
and lite-subscribe (in Go: `Poll`). broadcasting: three members that get everything, one of which
is closed and returns, and one is killed and returns. lite-assign (Java alone): assigned queues in
whole, then from the middle on, then from a time on; pull: the same with the client that pulls, in
Go without the time.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from pathlib import Path

from tests.builders.rigs import conclude
from tests.remoting.consuming import members, rig
from tests.remoting.consuming.members import Asked

MOST_PAUSE = 20_000
"""Milliseconds that a queue may have no owner after a close."""


def one(client: str, way: str, said: argparse.Namespace) -> bool:
    """Run one client in one way; tell whether all was right."""
    work = Path(tempfile.mkdtemp(prefix=f"consuming-{client}-{way}-", dir=said.directory))
    asked = Asked(client, way, 0, "", f"g-{way}", rate=said.rate)
    say = print if said.verbose else (lambda _: None)
    found = rig.run(asked, said.messages, work, said=say)
    faults = list(found.shared.faults)
    longest = {kind: max(each) / 1000 for kind, each in found.pauses.items() if each}
    if max(found.pauses.get("close", []), default=0) > MOST_PAUSE:
        faults.append("a queue had no owner for too long after a close")
    print(
        f"{client} {way}: {found.messages} messages, {found.received} received in "
        f"{found.seconds:.0f} s, {found.shared.again} of them again, at most "
        f"{found.shared.back / 1000:.1f} s back; "
        + "".join(
            f"{len(found.pauses[kind])} x {kind}, a queue without owner for {most:.2f} s at most; "
            for kind, most in longest.items()
        )
        + f"{len(faults)} faults",
        flush=True,
    )
    return conclude(work, faults) == 0


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--client", choices=members.CLIENTS, action="append")
    parser.add_argument("--way", choices=rig.WAYS, action="append")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=2000, help="messages a second of a member")
    parser.add_argument("--directory", type=Path, help="where the files are")
    parser.add_argument("--verbose", action="store_true", help="say what happens")
    said = parser.parse_args(words)
    pairs = [
        pair
        for pair in itertools.product(said.client or members.CLIENTS, said.way or rig.WAYS)
        if pair != ("go", "lite-assign")
    ]
    for client in {client for client, _ in pairs}:
        members.prepare(client)
    # All run, whichever fails.
    results = [one(*pair, said) for pair in pairs]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
