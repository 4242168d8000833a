"""`kill -9` of `reput serve`, again and again, while stock consumers take a log that grows.

    python -m tests.remoting.consuming.kills --kills 100

Of each client there is a group with two members. Each `--change`-th time a member is changed as well, so
that another begins where the server says. Nothing may be lost, and offsets that a server begins with
may be those of 5 s before the kill at most: a witness asks for them all the time, and what it has
heard is compared with the file that the next server reads.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reput.remoting.wire.codes import RequestCode, ResponseCode
from tests.builders.rigs import conclude
from tests.builders.servers import Client
from tests.remoting.consuming import members, rig, stored
from tests.remoting.consuming.feeding import Feed, Groups, group_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.remoting.consuming.checking import Shared
    from tests.remoting.server.served_process import ServedProcess

MOST_BACK = 5.0
"""Seconds."""
_ASK_SECONDS = 0.1

Place = tuple[str, int]


class Found(NamedTuple):
    """What a run has seen.

    Attributes:
        messages: of the log in the end.
        received: by all groups.
        back: seconds that offsets were set back, of each kill the most.
        groups: what was found, by client.
    """

    messages: int
    received: int
    back: list[float]
    groups: dict[str, Shared]

    @property
    def faults(self) -> list[str]:
        """Return what should not be."""
        found = [
            f"{client}: {each}" for client, group in self.groups.items() for each in group.faults
        ]
        late = [each for each in self.back if each > MOST_BACK]
        return found + [f"offsets were {each:.2f} s back" for each in late]


class Witness:
    """Asks for the offsets of groups all the time, and keeps when it heard which."""

    def __init__(self, port: int, groups: Sequence[str]) -> None:
        self._port, self._groups = port, groups
        self._heard: dict[Place, list[tuple[float, int]]] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            client = Client(self._port)
            while not self._is_over.wait(_ASK_SECONDS):
                for group in self._groups:
                    for queue in range(stored.QUEUES):
                        self._ask(client, group, queue)
        except (OSError, EOFError):
            # The server is gone, which ends this.
            return

    def _ask(self, client: Client, group: str, queue: int) -> None:
        answer = client.ask(
            RequestCode.QUERY_CONSUMER_OFFSET,
            consumerGroup=group,
            topic=stored.TOPIC,
            queueId=str(queue),
        )
        if answer.code == ResponseCode.SUCCESS:
            heard = self._heard.setdefault((group, queue), [])
            offset = int(answer.fields["offset"])
            if not heard or heard[-1][1] != offset:
                heard.append((time.monotonic(), offset))

    def back(self, file: Path, killed: float) -> float:
        """Return for how many seconds before a kill the file lacks what was said.

        Args:
            file: of the offsets, as the kill left it.
            killed: when.
        """
        self._is_over.set()
        self._thread.join()
        table = json.loads(file.read_text())["offsetTable"] if file.exists() else {}
        longest = 0.0
        for (group, queue), heard in self._heard.items():
            kept = int(table.get(f"{stored.TOPIC}@{group}", {}).get(str(queue), -1))
            longest = max(longest, killed - _since(heard, kept, killed))
        return longest


def _since(heard: Sequence[tuple[float, int]], kept: int, killed: float) -> float:
    """Return since when other offsets than the kept one were told; the time of the kill if none was.

    Offsets also become smaller: a member that still has a queue, and the next one, may both say
    how far they are. So it is the last time at which the kept one can have been the offset.
    """
    offsets = [offset for _, offset in heard]
    if kept == offsets[-1] or kept > max(offsets):
        return killed
    for number in range(len(heard) - 1, 0, -1):
        least, most = sorted(offsets[number - 1 : number + 1])
        if least <= kept <= most:
            return heard[number][0]
    return heard[0][0]


def _kill(server: ServedProcess, groups: Groups, offsets: Path, seconds: float) -> float:
    """Let the server run for a while, kill it and start it; return how far offsets went back."""
    witness = Witness(server.broker, [group_of(client) for client in groups.crews])
    time.sleep(seconds)
    began, killed = rig.now(), time.monotonic()
    server.kill()
    back = witness.back(offsets, killed)
    server.start()
    groups.server_event(began, rig.now())
    return back


def run(
    kills: int,
    rate: float,
    directory: Path,
    *,
    clients: Sequence[str] = members.CLIENTS,
    change: int = 5,
    seed: int = 1,
    seconds: tuple[float, float] = (0.5, 7.0),
    said: Callable[[str], None] = lambda _: None,
) -> Found:
    """Kill the server this often.

    Args:
        kills: how often.
        rate: messages a second that are appended.
        directory: for all files.
        clients: a group of each.
        change: a member is changed after this many kills.
        seed: of the moments of kills.
        seconds: the least and the most that a server runs.
        said: gets a line now and then.
    """
    count = int((kills + 10) * (seconds[1] + 20) * rate) + 1000
    feed = Feed(stored.compose(directory / "store", count, seed), directory / "out", rate)
    server = rig.serve(directory)
    groups = Groups(clients, server, feed, directory)
    pick, back = random.Random(seed), []
    try:
        groups.begin()
        feed.start()
        for number in range(kills):
            back.append(
                _kill(server, groups, directory / "offsets" / "reput.json", pick.uniform(*seconds))
            )
            groups.look()
            changed = groups.change() if (number + 1) % change == 0 else ""
            said(f"kill {number + 1}: {back[-1]:.2f} s back, {feed.count} messages. {changed}")
        feed.stop()
        found = groups.finish(said)
        return Found(feed.count, groups.received(), back, found)
    finally:
        groups.end()
        server.end()


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--rate", type=float, default=200, help="messages a second")
    parser.add_argument("--client", choices=members.CLIENTS, action="append")
    parser.add_argument("--change", type=int, default=5, help="kills until a member is changed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where the files are")
    parser.add_argument("--verbose", action="store_true", help="say what happens")
    said = parser.parse_args(words)
    work = Path(tempfile.mkdtemp(prefix="kills-", dir=said.directory))
    began = time.monotonic()
    found = run(
        said.kills,
        said.rate,
        work,
        clients=said.client or members.CLIENTS,
        change=said.change,
        seed=said.seed,
        said=print if said.verbose else lambda _: None,
    )
    again = sum(group.again for group in found.groups.values())
    print(
        f"{said.kills} kills in {time.monotonic() - began:.0f} s, {found.messages} messages, "
        f"{found.received} received by {len(found.groups)} groups, {again} of them again, offsets "
        f"at most {max(found.back):.2f} s back, {len(found.faults)} faults, seed {said.seed}"
    )
    return conclude(work, found.faults)


if __name__ == "__main__":
    sys.exit(main())
