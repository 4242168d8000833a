"""Kernels that are loaded by a thread beside the start of a job."""

from __future__ import annotations

import threading

from reput.streaming.dispatch import warm


def test_what_fails_in_the_thread_is_left_to_the_first_batch(monkeypatch, capsys):
    """
    A process that ends early takes the thread's directory away: that is not an error of the job.
    """
    begun = threading.Event()

    def fail(*_, **__):
        begun.set()
        raise FileNotFoundError("gone")

    monkeypatch.setattr(warm, "rebuild", fail)
    warm.warm_up().join()

    assert begun.is_set()
    assert capsys.readouterr().err == ""


def test_kernels_are_loaded(monkeypatch):
    batches = []
    rebuild = warm.rebuild
    monkeypatch.setattr(warm, "rebuild", lambda *a, **kw: batches.append(rebuild(*a, **kw)))
    warm.warm_up().join()

    assert [batch.messages for batch in batches] == [1]
