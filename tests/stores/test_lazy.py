"""Modules that run with their first use, also where several threads use them first."""

from __future__ import annotations

import sys
import threading

import pytest

from reput.stores.lazy import lazy_module

SLOW = """
import time
first = 1
time.sleep(0.2)
last = 2
"""


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """Return the name of a module that takes a while to run."""
    (tmp_path / "slow_to_run.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    yield "slow_to_run"
    sys.modules.pop("slow_to_run", None)


def test_it_runs_with_its_first_use(slow):
    module = lazy_module(slow)
    assert slow not in sys.modules
    assert module.first == 1
    assert slow in sys.modules


def test_all_threads_that_use_it_first_see_it_whole(slow):
    module = lazy_module(slow)
    seen: list[object] = []
    threads = [
        threading.Thread(target=lambda: seen.append(getattr(module, "last", None)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [2] * 8


def test_one_that_is_not_there_is_refused_at_once():
    with pytest.raises(ModuleNotFoundError):
        lazy_module("no_such_module")
