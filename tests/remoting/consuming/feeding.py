"""A log that grows at some rate while it is served, and groups of each client that take it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from tests.remoting.consuming import checking, members, rig, stored
from tests.remoting.consuming.checking import SERVER, Event, Expected
from tests.remoting.consuming.members import Asked
from tests.remoting.consuming.rig import Crew

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.remoting.consuming.stored import Written
    from tests.remoting.server.served_process import ServedProcess

_STEP_SECONDS = 0.1


def group_of(client: str) -> str:
    """Return the name of a client's group; dots are not allowed in it."""
    return f"g-{client.replace('.', '-')}"


class Feed:
    """Appends messages to a log in a thread of its own, and dispatches them.

    Attributes:
        count: how many are there.
    """

    def __init__(self, written: Written, output: Path, rate: float) -> None:
        """Begin with one message for each queue, so that clients find the topic."""
        self.written = written
        self._rate = rate
        self._grower = stored.Grower(written, output)
        self._is_over = threading.Event()
        self._error: BaseException | None = None
        self.count = 0
        self._grow(min(100, len(written.place)))
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _grow(self, count: int) -> None:
        is_all = count == len(self.written.place)
        self._grower.grow(self.written.end if is_all else int(self.written.place[count]))
        self.count = count

    def _run(self) -> None:
        began, first = time.monotonic(), self.count
        try:
            while not self._is_over.wait(_STEP_SECONDS):
                due = first + int((time.monotonic() - began) * self._rate)
                self._grow(min(due, len(self.written.place)))
        except BaseException as error:
            self._error = error
            raise

    def stop(self) -> None:
        """Append nothing further."""
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._grower.close()
        if self._error is not None:
            raise RuntimeError("the log did not grow to its end") from self._error

    def so_far(self) -> Written:
        """Return what is there of the log."""
        columns = ("queue", "offset", "place", "kind", "body_crc", "facts_crc", "stored")
        cut = {name: getattr(self.written, name)[: self.count] for name in columns}
        return self.written._replace(**cut)


class Groups:
    """A group of two members for each client; one of a group is changed now and then."""

    def __init__(
        self, clients: Sequence[str], server: ServedProcess, feed: Feed, work: Path
    ) -> None:
        expected = Expected(feed.written, "clustering")
        self.crews: dict[str, Crew] = {}
        self._feed = feed
        self._turn = 0
        for client in clients:
            members.prepare(client)
            asked = Asked(client, "clustering", server.names, stored.TOPIC, group_of(client))
            self.crews[client] = Crew(asked, work / f"members-{client}", expected)

    def begin(self) -> None:
        """Start all of them."""
        for crew in self.crews.values():
            crew.begin(["m1", "m2"])

    def change(self) -> str:
        """Close or kill the eldest member of the next group, let another join; return who it was."""
        client = list(self.crews)[self._turn % len(self.crews)]
        crew, number = self.crews[client], self._turn // len(self.crews) + 1
        kind = "kill" if number % 2 else "close"
        crew.do(kind, f"m{number}")
        crew.do("join", f"m{number + 2}")
        self._turn += 1
        return f"{kind} m{number} of {client}"

    def server_event(self, began: int, ended: int) -> None:
        """Tell all groups that the server was gone."""
        for crew in self.crews.values():
            crew.events.append(Event(began, SERVER, "", ended))

    def look(self) -> None:
        """Read what has been written."""
        for crew in self.crews.values():
            crew.look()

    def finish(self, said: Callable[[str], None]) -> dict[str, checking.Shared]:
        """Let all take what is there, close them, and return what was found in each group."""
        found = {}
        count, written = self._feed.count, self._feed.so_far()
        for crew in self.crews.values():
            if not rig.wait(crew, lambda: crew.seen() / count, 1.0, said, rig.STUCK_SECONDS):  # noqa: B023 - called at once
                crew.faults.append(f"nothing came for {rig.STUCK_SECONDS:g} s")
        time.sleep(1)
        expected = Expected(written, "clustering")
        for client, crew in self.crews.items():
            crew.close()
            crew.look()
            shared = checking.check_shared(
                expected, checking.rows_of(expected, crew.taken()), crew.events
            )
            wrong = [
                fault
                for name, rows in zip(crew.names, crew.taken(), strict=True)
                for fault in expected.wrong(rows, name)
            ]
            found[client] = shared._replace(faults=[*crew.faults, *wrong, *shared.faults])
        return found

    def end(self) -> None:
        """Kill all of them."""
        for crew in self.crews.values():
            crew.end()

    def received(self) -> int:
        """Return how many messages came in all."""
        return sum(crew.received for crew in self.crews.values())
