"""While nothing comes, compiled looks at a few spots of files take the place of the loop's own."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from reput.remoting.holding.sentry import Sentry
from reput.remoting.names.known import Topic
from tests.builders.live import Live


@pytest.fixture(scope="module")
def sentry():
    return Sentry()


@pytest.fixture
def live(tmp_path):
    live = Live(tmp_path, mappedFileSizeConsumeQueue=str(1000 * 20))
    assert live.pull(1) is None
    live.look(3000)
    yield live
    live.pulls.watch.close()
    live.dispatcher.close()
    live.store.close()


def spots(live):
    found = live.pulls.watch.spots()
    assert found is not None
    return found


def test_at_rest_there_is_the_log_s_end_and_that_of_each_queue(live, sentry):
    log, queue = spots(live)

    assert (log.key, log.position) == (None, live.log.end)
    assert (queue.key, queue.position) == (("t", 0), 20)
    sentry.begin()
    assert sentry.rest([log, queue]) is None


def test_what_is_appended_is_seen_and_then_its_entry(live, sentry):
    found = spots(live)
    live.append()
    live.write()
    sentry.begin()
    assert sentry.rest(found) == found[0]
    live.pulls.watch.came(found[0])
    assert live.channel.sent == []
    # The entry is due: each millisecond counts now.
    assert live.pulls.watch.spots() is None
    live.dispatch()
    assert live.look() == 1


def test_a_queue_without_a_file_is_seen_in_the_log(live, sentry):
    """
    As of the retry topic of each group to which nothing was ever sent back.
    """
    assert live.pull(0, topic="new") is None
    live.look(3000)
    found = spots(live)
    assert [spot.key for spot in found] == [None, ("t", 0)]
    live.append(topic="new")
    live.write()
    sentry.begin()
    assert sentry.rest(found) == found[0]
    live.pulls.watch.came(found[0])
    live.dispatch()
    assert live.look() == 1


def test_queues_that_a_dispatch_of_long_ago_s_log_makes_are_seen_at_the_next_looks(live):
    """
    As of a rebuild: the log does not grow, so nothing else tells of their first entries.
    """
    for queue in range(100):
        live.append(topic="new", queue=queue)
    live.write()
    # After a while without a look, what was appended meanwhile is not gone through.
    live.store.log.look_again()
    live.clock.now += 2
    live.look()
    live.served.topics["new"] = Topic("new", 100, 100)
    for queue in range(100):
        assert live.pull(0, topic="new", queue=queue) is None
    live.look(2000)
    assert len(spots(live)) == 2
    live.dispatch()
    for _ in range(3):
        live.clock.now += 0.1
        live.look()

    assert len(live.channel.sent) == 100


def test_an_entry_without_a_record_that_names_its_queue(live, sentry):
    """
    As of a message that goes to further queues, or of a log that was dispatched late.
    """
    found = spots(live)
    live.append()
    live.dispatch()
    sentry.begin()
    came = sentry.rest(found[1:])
    assert came == found[1]
    live.pulls.watch.came(came)
    assert live.look() == 1


def test_a_pull_for_another_queue_ends_the_rest(live, sentry):
    found = spots(live)
    live.pulls.watch.on_unwatched = sentry.stir
    sentry.begin()
    assert live.pull(1, topic="first") is None
    assert sentry._stirred[0] == 1
    assert sentry.rest(found) is None
    sentry.begin()
    live.look(3000)
    assert len(spots(live)) == 3
    # One of a queue that is watched does not.
    assert live.pull(1) is None
    assert sentry._stirred[0] == 0


def test_a_rest_ends_when_it_is_stirred_from_elsewhere(live, sentry):
    found = spots(live)
    sentry.begin()
    resting = threading.Thread(target=sentry.rest, args=(found,))
    resting.start()
    sentry.stir()
    resting.join(10)
    assert not resting.is_alive()


def test_bytes_that_are_not_an_entry_do_not_wake_for_ever(live, sentry):
    """
    Such as those of a record that is not whole yet, or of an entry past the log's end.
    """
    log, queue = spots(live)
    path = live.store.queue("t", 0).files.path(0)
    with path.open("r+b") as file:
        file.seek(queue.position)
        file.write((-1).to_bytes(8, "big", signed=True))
    sentry.begin()
    assert sentry.rest([queue]) == queue
    live.pulls.watch.came(queue)
    live.look(3000)
    assert spots(live) == [log]
    raw = min((live.directory / "store" / "commitlog").iterdir())
    with raw.open("r+b") as file:
        file.seek(live.log.end)
        file.write(b"\0\0\0\7\0\0\0\0")
    sentry.begin()
    assert sentry.rest([log]) == log
    live.pulls.watch.came(log)
    live.look(3000)
    assert live.pulls.watch.spots() is None


def test_files_that_are_gone_are_not_watched(live):
    assert len(spots(live)) == 2
    for path in (live.directory / "store" / "commitlog").iterdir():
        path.unlink()
    live.store.log.taken += 1
    assert live.pulls.watch.spots() is None


def test_a_pull_ends_the_rest_where_nothing_is_watched(live):
    """
    As where all clients were busy when it began.
    """
    spots(live)
    live.append()
    live.dispatch()
    assert live.look() == 1
    # Each millisecond is looked at, and then nothing of this store waits any longer.
    assert live.pulls.watch.spots() is None
    stirred = []
    live.pulls.watch.on_unwatched = lambda: stirred.append(1)
    assert live.pull(2) is None
    assert stirred


def test_there_is_no_rest_while_pulls_are_to_be_answered(live):
    """
    Such as many whose time is up at once.
    """
    for _ in range(200):
        live.pull(1)
    live.look(3000)
    live.clock.now += 16
    assert 0 < live.look() < 200
    assert live.pulls.watch.spots() is None
    live.look(5)
    assert len(live.channel.sent) == 201


def test_a_queue_that_cannot_be_opened_has_no_spot(live):
    """
    The others keep their files, and none is left open.
    """
    live.pull(1, topic="first")
    live.look(3000)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert len(spots(live)) == 3
    opened = len(list(Path("/proc/self/fd").iterdir()))
    assert opened > before
    queue = live.directory / "out" / "consumequeue" / "t" / "0"
    live.store.presence._queues.drop_all()
    queue.rename(live.directory / "away")
    queue.symlink_to(queue)
    assert [spot.key for spot in spots(live)] == [None, ("first", 0)]
    live.look(3)
    assert len(list(Path("/proc/self/fd").iterdir())) <= opened
    queue.unlink()
    (live.directory / "away").rename(queue)
