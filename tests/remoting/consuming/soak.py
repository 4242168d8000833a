"""`reput serve` for an hour beside a log that grows, with stock consumers that come and go.

    python -m tests.remoting.consuming.soak --seconds 3600 --rate 100

Of each client there is a group with two members, of which one is changed each two minutes. Each message
is compared with the log, and the server's memory and files are looked at each minute: in the last
quarter it may have no more than in the second one, but for `MOST_GROWTH`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.builders.rigs import conclude
from tests.remoting.consuming import members, rig, stored
from tests.remoting.consuming.feeding import Feed, Groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.remoting.consuming.checking import Shared

MOST_GROWTH = 4 << 20
"""Bytes of memory."""
_MOST_FILES = 8


class Look(NamedTuple):
    """The server at one moment.

    Attributes:
        memory: bytes that it has.
        own: bytes of them that are not of files.
        files: how many are open, sockets included.
    """

    memory: int
    own: int
    files: int


class Found(NamedTuple):
    """What a run has seen.

    Attributes:
        messages: of the log in the end.
        received: by all groups.
        looks: at the server, in equal distances.
        groups: what was found, by client.
    """

    messages: int
    received: int
    looks: list[Look]
    groups: dict[str, Shared]

    def growth(self, name: str) -> float:
        """Return how much more of something the server has in the last quarter than in the second."""
        values = [getattr(each, name) for each in self.looks]
        quarter = max(len(values) // 4, 1)
        return statistics.median(values[-quarter:]) - statistics.median(
            values[quarter : 2 * quarter] or values[:1]
        )

    @property
    def faults(self) -> list[str]:
        """Return what should not be."""
        found = [
            f"{client}: {each}" for client, group in self.groups.items() for each in group.faults
        ]
        if self.growth("own") > MOST_GROWTH:
            found.append("memory has grown")
        if self.growth("files") > _MOST_FILES:
            found.append("more files are open")
        return found


def run(
    seconds: float,
    rate: float,
    directory: Path,
    *,
    clients: Sequence[str] = members.CLIENTS,
    look: float = 60.0,
    change: int = 2,
    said: Callable[[str], None] = lambda _: None,
) -> Found:
    """Serve for this long.

    Args:
        seconds: how long.
        rate: messages a second that are appended.
        directory: for all files.
        clients: a group of each.
        look: seconds between two looks at the server.
        change: a member is changed after this many looks.
        said: gets a line for each look.
    """
    written = stored.compose(directory / "store", int(seconds * rate * 1.5) + 1000)
    feed = Feed(written, directory / "out", rate)
    server = rig.serve(directory)
    groups = Groups(clients, server, feed, directory)
    looks: list[Look] = []
    try:
        groups.begin()
        feed.start()
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            time.sleep(min(look, seconds - passed))
            groups.look()
            looks.append(Look(server.rss(), server.own_memory(), server.files()))
            changed = groups.change() if len(looks) % change == 0 else ""
            memory, own, files = looks[-1]
            said(
                f"{time.monotonic() - began:.0f} s: {memory / 1048576:.1f} MiB, {own / 1048576:.1f} of "
                f"its own, {files} files, {groups.received()} received. {changed}"
            )
        feed.stop()
        found = groups.finish(said)
        return Found(feed.count, groups.received(), looks, found)
    finally:
        groups.end()
        server.end()


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--rate", type=float, default=100, help="messages a second")
    parser.add_argument("--client", choices=members.CLIENTS, action="append")
    parser.add_argument("--directory", type=Path, help="where the files are")
    said = parser.parse_args(words)
    work = Path(tempfile.mkdtemp(prefix="soak-", dir=said.directory))
    found = run(
        said.seconds,
        said.rate,
        work,
        clients=said.client or members.CLIENTS,
        said=lambda line: print(line, flush=True),
    )
    again = sum(group.again for group in found.groups.values())
    first, last = found.looks[0], found.looks[-1]
    print(
        f"{said.seconds:.0f} s, {found.messages} messages, {found.received} received by "
        f"{len(found.groups)} groups, {again} of them again; memory of its own {first.own / 1048576:.1f} "
        f"MiB first, {last.own / 1048576:.1f} last, {found.growth('own') / 1048576:+.1f} from the "
        f"second quarter to the last; {len(found.faults)} faults"
    )
    return conclude(work, found.faults)


if __name__ == "__main__":
    sys.exit(main())
