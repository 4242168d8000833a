"""Stores' turns come one after another, and none waits long for one that stays in its turn."""

from __future__ import annotations

import threading
import time

import pytest

from reput.streaming.writers import turnstile as turnstile_module
from reput.streaming.writers.turnstile import Turnstile

_LONG_SECONDS = 30


def test_turns_come_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    # However loaded the machine is.
    monkeypatch.setattr(turnstile_module, "_PATIENCE_SECONDS", _LONG_SECONDS)
    turnstile, inside, most = Turnstile(), [0], [0]

    def take_turns() -> None:
        for _ in range(200):
            with turnstile.turn():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                # Others would come in here: a look at a file gives Python's lock up, too.
                time.sleep(0)
                inside[0] -= 1

    threads = [threading.Thread(target=take_turns) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_LONG_SECONDS)
    assert inside == [0]
    assert most == [1]


def test_nobody_waits_for_one_that_stays_in_its_turn() -> None:
    turnstile, in_turn, may_leave = Turnstile(), threading.Event(), threading.Event()

    def stay() -> None:
        with turnstile.turn():
            in_turn.set()
            may_leave.wait(_LONG_SECONDS)

    stuck = threading.Thread(target=stay)
    stuck.start()
    assert in_turn.wait(_LONG_SECONDS)
    try:
        # The first one finds out, and the next ones go another way at once.
        with turnstile.turn():
            pass
        with turnstile.turn():
            assert stuck.is_alive()
    finally:
        may_leave.set()
        stuck.join(_LONG_SECONDS)
    with turnstile.turn():
        assert not stuck.is_alive()


def test_an_error_ends_a_turn() -> None:
    turnstile = Turnstile()
    with pytest.raises(OSError, match="full"), turnstile.turn():
        raise OSError("full")
    done: list[bool] = []
    other = threading.Thread(target=lambda: done.append(_takes_turn(turnstile)))
    other.start()
    other.join(_LONG_SECONDS)
    assert done == [True]


def _takes_turn(turnstile: Turnstile) -> bool:
    with turnstile.turn():
        return turnstile._lock.locked()
