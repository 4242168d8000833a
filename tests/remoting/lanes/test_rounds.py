"""One round after the other, without a server: who has a turn, and when."""

from __future__ import annotations

import asyncio
import socket

from tests.builders.served import dispatched, messages, request, served
from tests.remoting.lanes.test_lanes import Rig, frame, slowly


class Rider:
    """A connection, and the client at its other end."""

    def __init__(self) -> None:
        self.ours, self.client = socket.socketpair()
        self.ours.setblocking(False)
        self.client.settimeout(0.05)
        self.outlet, self.active_at = self.ours.fileno(), 0.0

    def came(self):
        """Return what has come to the client by now."""
        data = b""
        try:
            while True:
                data += self.client.recv(1 << 20)
        except TimeoutError:
            return data

    def left(self):
        raise AssertionError("it stays")

    def write(self, data):
        raise AssertionError("its client reads all")

    def data_received(self, data):
        raise AssertionError("all is answered by lanes")

    def abort(self):
        raise AssertionError("nothing fails")


def test_clients_that_always_ask_do_not_keep_others_waiting(tmp_path):
    """
    Two ask so much that each fills a round, and a third one asks once.
    """

    async def run():
        with dispatched(messages(200), tmp_path, mappedFileSizeConsumeQueue="20000") as store:
            rig = Rig(served(store))
            assert rig.known(request(0))
            riders = [Rider() for _ in range(3)]
            assert all(rig.lanes.rounds.join(rider) for rider in riders)
            *busy, other = riders
            asked = b"".join(frame(request(n), n) for n in range(20))
            turns = 0
            came = b""
            while not came:
                for rider in busy:
                    rider.client.sendall(asked)
                if not turns:
                    # Its turn comes after theirs.
                    other.client.sendall(frame(request(3), 3))
                rig.lanes.rounds._run()
                for rider in busy:
                    rider.came()
                came = other.came()
                turns += 1
                assert turns < 4
            assert came == slowly(rig.at, frame(request(3), 3))
            for rider in riders:
                rider.left = lambda: None
            rig.lanes.close()

    asyncio.run(run())
