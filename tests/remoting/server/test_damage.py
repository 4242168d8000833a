"""A short run of damaged frames, and that the rig would see a server that fails."""

from __future__ import annotations

import struct
import threading

import pytest

from reput.remoting.wire import frames
from tests.builders.served import dispatched, messages
from tests.remoting.server import damage
from tests.remoting.server.damaged_frames import Streams
from tests.remoting.server.served_process import ServedProcess


def test_damaged_frames_harm_neither_the_server_nor_a_good_client(tmp_path):
    found = damage.run(3000, 1, tmp_path, storm_seconds=0.5)

    assert found.faults == []
    assert found.damaged >= 3000
    assert found.pulls > 0


def test_a_server_that_keeps_memory_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(damage, "MOST_GROWTH", -(1 << 40))
    found = damage.run(100, 1, tmp_path, storm_seconds=0.1)

    assert any("MiB of memory" in fault for fault in found.faults)


def test_a_server_that_dies_is_seen(tmp_path, monkeypatch):
    started = []
    start = damage.ServedProcess.start

    def keep(server):
        started.append(server)
        start(server)

    def kill(*_args):
        started[0]._process.kill()
        started[0]._process.wait()
        return 0, 0.0

    monkeypatch.setattr(damage.ServedProcess, "start", keep)
    monkeypatch.setattr(damage, "_storm", kill)
    found = damage.run(100, 1, tmp_path)

    assert "the server has ended" in found.faults
    assert any("of the good client" in fault for fault in found.faults)


def test_the_largest_frames_leave_no_memory_behind(tmp_path):
    """
    Several at once, which are whole but for their last bytes.
    """
    dispatched(messages(8), tmp_path).close()
    server = ServedProcess(tmp_path)
    server.start()
    server.settle()
    largest = struct.pack(">iI", frames.MAX_FRAME_LENGTH - 4, 2) + b"{}"
    largest += bytes(frames.MAX_FRAME_LENGTH - len(largest) - 1)
    try:
        before = server.rss()
        for _ in range(3):
            senders = [
                threading.Thread(target=damage._say_all, args=(server.broker, largest[: -1 - less]))
                for less in range(4)
            ]
            for sender in senders:
                sender.start()
            for sender in senders:
                sender.join()
        assert server.rss() - before < 12 << 20
    finally:
        assert server.end() == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_draws_the_same_frames(seed):
    first, second = Streams(seed), Streams(seed)
    drawn = [first.draw() for _ in range(20)]

    assert drawn == [second.draw() for _ in range(20)]
    assert all(damaged >= 0 for _, damaged in drawn)
