"""Whether this process stood still, and what tells it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

from reput.stores.following import heartbeat
from reput.stores.following.heartbeat import Heartbeat, shared

# Says that it is up, then how many pauses it had by the time a line comes.
ASKED = """
import sys
from reput.stores.following.heartbeat import shared
with shared() as beating:
    for line in sys.stdin:
        print(beating.pauses, flush=True)
"""


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "heartbeat"}


def test_beats_that_come_in_time_are_no_pause():
    clock = Clock()
    beating = Heartbeat(clock)
    for _ in range(100):
        clock.seconds += 0.2
        beating.beat()

    assert beating.pauses == 0


def test_a_gap_counts_once_whether_it_is_seen_by_a_beat_or_by_a_question():
    clock = Clock()
    beating = Heartbeat(clock)
    clock.seconds += 5
    beating.beat()
    assert beating.pauses == 1

    clock.seconds += 5
    assert beating.pauses == 2
    beating.beat()
    assert beating.pauses == 2


def test_a_process_that_was_stopped_knows_it():
    """
    Stopped by a signal for longer than a pause takes; while it waits for a line, nothing counts.
    """
    command = [sys.executable, "-c", ASKED]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def ask() -> int:
            child.stdin.write("\n")
            child.stdin.flush()
            return int(child.stdout.readline())

        before = ask()
        os.kill(child.pid, signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        time.sleep(heartbeat._PAUSE_SECONDS + 0.5)
        os.kill(child.pid, signal.SIGCONT)

        assert ask() > before


def test_one_thread_for_all_and_none_after_the_last(monkeypatch):
    monkeypatch.setattr(heartbeat, "_shared", heartbeat._Shared())
    before = threads()
    with shared() as one:
        with shared() as other:
            assert one is other
            assert len(threads() - before) == 1
        assert len(threads() - before) == 1
    assert threads() == before


def test_a_forked_process_has_one_of_its_own():
    with shared() as before:
        child = os.fork()
        if child == 0:
            with shared() as found:
                os._exit(0 if found is not before and threads() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_user_that_never_gives_it_back_costs_one_thread(monkeypatch):
    """
    Whatever number the process has meanwhile: one heartbeat is enough.
    """
    monkeypatch.setattr(heartbeat, "_shared", heartbeat._Shared())
    before = threads()
    kept = [shared() for _ in range(5)]
    for number, each in enumerate(kept):
        monkeypatch.setattr(os, "getpid", lambda number=number: number)
        each.__enter__()
    assert len(threads() - before) == 1
    for each in kept:
        each.__exit__(None, None, None)
    assert threads() == before
