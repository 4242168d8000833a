"""What a writer process has done stays to be answered until the job has seen it."""

from __future__ import annotations

from reput.streaming.dispatch.batch import Batch
from reput.streaming.writers.executors.untold import _KEPT, Untold


def test_batches_that_follow_one_another_are_answered_as_one():
    untold = Untold()
    untold.fresh += [Batch(0, 100, messages=2), Batch(100, 150, messages=1)]
    untold.fresh.append(Batch(400, 500, messages=5))
    untold.put_apart()

    assert [(b.start, b.end, b.messages) for b in untold.batches] == [(0, 150, 3), (400, 500, 5)]
    assert untold.fresh == []


def test_a_batch_is_answered_until_the_job_has_seen_it():
    """
    An answer that a killed task did not carry back comes again, and nothing twice.
    """
    untold = Untold()
    untold.fresh += [Batch(0, 100), Batch(200, 300), Batch(400, 500)]
    untold.put_apart()
    untold.forget(2)
    assert (untold.first, [b.start for b in untold.batches]) == (2, [400])
    # An older order, which says less than the one before.
    untold.forget(1)
    assert (untold.first, [b.start for b in untold.batches]) == (2, [400])
    untold.forget(3)
    assert (untold.first, untold.batches) == (3, [])


def test_an_event_is_told_with_a_batch_of_nothing():
    untold = Untold()
    untold.report(100, [])
    assert untold.fresh == []
    untold.report(100, ["rolled back"])
    (batch,) = untold.fresh
    assert (batch.start, batch.end, batch.events) == (100, 100, ["rolled back"])


def test_much_that_is_fresh_is_put_together():
    untold = Untold()
    untold.fresh += [Batch(n, n + 1, messages=1) for n in range(_KEPT)]
    untold.put_together()
    assert untold.batches == []
    untold.fresh.append(Batch(_KEPT, _KEPT + 1, messages=1))
    untold.put_together()
    (batch,) = untold.batches
    assert (batch.start, batch.end, batch.messages) == (0, _KEPT + 1, _KEPT + 1)
