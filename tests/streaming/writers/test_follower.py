"""A store that is followed turn by turn: the same bytes, whatever the log does between two turns."""

from __future__ import annotations

import time

import pytest

from reput.checkpoints import progress
from reput.formats.errors import FormatError
from reput.streaming.dispatch.batch import Batch, joined
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.writers import follower as follower_module
from reput.streaming.writers.counted import Counted
from reput.streaming.writers.follower import Follower
from tests.builders.slow_twins import differences
from tests.builders.stores import LOG_FILE, files_of
from tests.stores.log.test_tail import change


def turn(follower: Follower) -> list[Batch]:
    batches: list[Batch] = []
    follower.turn(batches, lambda _: None, lambda: False)
    return batches


def turns(follower: Follower, count: int = 4) -> list[Batch]:
    """Take turns until a last record has settled; return what was dispatched."""
    found = []
    for _ in range(count):
        found += turn(follower)
        time.sleep(0.005)
    return found


def until_it_fails(follower: Follower, batches: list[Batch]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        follower.turn(batches, lambda _: None, lambda: False)


@pytest.fixture
def followed(made):
    """Return what opens a broker's store and follows it."""
    opened = []

    def follow(seed: int = 1, *, skips_corrupt: bool = False, **conf):
        broker, config = made(seed, **conf)
        broker.append(30)
        dispatcher = StoreDispatcher(config, skips_corrupt=skips_corrupt)
        opened.append(dispatcher)
        return broker, dispatcher, Follower(dispatcher, skips_corrupt=skips_corrupt)

    yield follow
    for dispatcher in opened:
        dispatcher.close()


def test_a_log_that_grows_is_dispatched_as_at_once(followed):
    broker, dispatcher, follower = followed()
    for count in (1, 3, 60, 1, 2):
        turns(follower)
        broker.append(count)
    turns(follower)

    assert dispatcher.progress.end == broker.log.end
    assert not differences(
        files_of(dispatcher.config.output), broker.expected(dispatcher.config.settings)
    )


def test_nothing_is_done_while_nothing_comes_and_the_pauses_grow(followed):
    _, _, follower = followed()
    turns(follower)

    assert follower.pause() < follower_module._LONGEST_PAUSE
    follower._moved_at -= 2
    assert turn(follower) == []
    assert follower.pause() == follower_module._LONGEST_PAUSE


def test_a_backlog_is_told_piece_by_piece(followed, monkeypatch):
    monkeypatch.setattr(follower_module, "_MOST_BYTES", 2000)
    broker, dispatcher, follower = followed()
    batches = turns(follower, 12)

    assert dispatcher.progress.end == broker.log.end
    assert len([batch for batch in batches if batch.messages]) > 2
    assert sum(batch.messages for batch in batches) == 30


def test_what_stands_before_a_corrupt_record_is_dispatched_first(followed):
    broker, dispatcher, follower = followed()
    turns(follower)
    broker.append(12)
    place = broker.log.places[36].position
    change(broker.store, place + 4, b"\x00\x01")

    batches: list[Batch] = []
    with pytest.raises(FormatError) as error:
        until_it_fails(follower, batches)
    # The batch that the error has ended is told as well.
    batches += dispatcher.take_ended()
    assert sum(batch.messages for batch in batches) == 6
    assert dispatcher.take_ended() == []
    assert error.value.position == place % LOG_FILE
    assert dispatcher.progress.end == place


def test_a_cut_is_followed_also_at_rest(followed):
    broker, dispatcher, follower = followed()
    turns(follower)
    broker.recover(broker.log.places[10].position)
    broker.append(3, now=broker.messages.now + 10_000)
    deadline = time.monotonic() + 10
    while dispatcher.progress.end != broker.log.end:
        turns(follower)
        assert time.monotonic() < deadline

    assert dispatcher.progress.truncations == 1
    assert not differences(
        files_of(dispatcher.config.output), broker.expected(dispatcher.config.settings)
    )


@pytest.fixture
def failed(made):
    """A broker, its store and how far that is counted: its writer had 30 messages, and failed."""

    def fail(*, is_recorded: bool = False):
        broker, config = made()
        broker.append(30)
        dispatcher, counted = StoreDispatcher(config), Counted()
        follower = Follower(dispatcher, skips_corrupt=False, counted=counted)
        for place in (broker.log.places[4], broker.log.places[19], broker.log.places[-1]):
            if place is broker.log.places[19]:
                dispatcher.flush()
            follower.dispatch([], place.end, lambda: False)
        dispatcher.close() if is_recorded else dispatcher.abandon()
        assert counted.mark[:2] == (broker.log.end, 30)
        return broker, config, counted

    return fail


def follow_again(config, counted: Counted) -> list[Batch]:
    dispatcher = StoreDispatcher(config)
    try:
        batches = counted.begin(dispatcher)
        return batches + turns(Follower(dispatcher, skips_corrupt=False, counted=counted), 8)
    finally:
        dispatcher.close()


def test_what_was_told_before_a_failure_is_not_counted_again(failed):
    """
    A failed output is left as that of a killed writer: all that was not flushed goes.
    """
    broker, config, counted = failed()
    end = broker.append(7)

    assert sum(batch.messages for batch in follow_again(config, counted)) == 7
    assert counted.mark.end == progress.load(config.output).end == end


@pytest.mark.parametrize("is_recorded", [True, False])
def test_what_a_cut_log_has_instead_is_counted(failed, is_recorded):
    """
    The log was cut and written on while its store had failed, and not a byte of it was told: where
    the output goes back for it, and where it was cut past what was recorded.
    """
    broker, config, counted = failed(is_recorded=is_recorded)
    broker.recover(broker.log.places[20].position)
    broker.append(25, now=broker.messages.now + 10_000)

    # Both logs have a point after 20 messages.
    assert sum(batch.messages for batch in follow_again(config, counted)) == 25
    assert counted.mark.end == broker.log.end
    assert progress.load(config.output).messages == 45


def test_what_was_recorded_and_not_told_is_counted(failed):
    broker, config, counted = failed()
    end = broker.append(7)
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(end)
    dispatcher.close()

    assert sum(batch.messages for batch in follow_again(config, counted)) == 7


def test_of_a_batch_that_goes_past_what_was_told_the_rest_is_counted(failed):
    broker, config, counted = failed()
    told, end = broker.log.end, broker.append(7)
    dispatcher = StoreDispatcher(config)
    counted.begin(dispatcher)
    try:
        (batch,) = counted.take([dispatcher.dispatch(end)], dispatcher.progress)
    finally:
        dispatcher.close()
    assert (batch.start, batch.end, batch.messages) == (told, end, 7)
    assert counted.mark[:2] == (end, 37)


def test_an_order_counts_what_was_told_once_too(failed):
    broker, config, counted = failed()
    end = broker.append(7)
    dispatcher = StoreDispatcher(config)
    batches = counted.begin(dispatcher)
    try:
        Follower(dispatcher, skips_corrupt=False, counted=counted).dispatch(
            batches, end, lambda: False
        )
    finally:
        dispatcher.close()
    assert sum(batch.messages for batch in batches) == 7
    assert dispatcher.progress.end == end


def test_turns_that_wait_for_a_processor_come_less_often(followed):
    _, _, follower = followed()
    for _ in range(10):
        follower._space(0.01, 0.001)
    assert follower._spacing == follower_module._LONGEST_SPACING
    for _ in range(20):
        follower._space(0.001, 0.001)
    assert follower._spacing == follower_module._SHORTEST_PAUSE


def test_batches_that_follow_one_another_are_told_as_one():
    """
    After a cut there is another one: it begins before the last one's end.
    """
    batches = [
        Batch(0, 100, messages=2, seconds=1.0, phases={"parse": 0.5}, events=["a"]),
        Batch(100, 300, messages=3, seconds=2.0, phases={"parse": 0.5, "index": 1.0}),
        Batch(200, 250, messages=1, events=["b"], truncations=1),
    ]
    first, second = joined(batches)

    assert (first.start, first.end, first.messages, first.seconds) == (0, 300, 5, 3.0)
    assert first.phases == {"parse": 1.0, "index": 1.0}
    assert (second.start, second.end, second.events, second.truncations) == (200, 250, ["b"], 1)
    assert first.events == ["a"]
