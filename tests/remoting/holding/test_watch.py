"""A pull that waits wakes when its message is dispatched, whatever became of the files meanwhile."""

from __future__ import annotations

import shutil

import pytest

from reput.remoting.wire import fields
from reput.remoting.wire.command import ONEWAY, Command
from tests.builders.live import Live
from tests.builders.served import request


@pytest.fixture
def live(tmp_path):
    found = Live(tmp_path)
    yield found
    found.store.close()
    found.dispatcher.close()


def stored(live, number):
    place = live.log.places[number]
    return bytes(live.log.data[place.position : place.end])


def test_it_wakes_at_the_first_look_after_the_dispatch(live):
    assert live.pull(1) is None
    assert live.look(20) == 0
    live.append()
    live.write()
    assert live.look(20) == 0
    live.dispatch()

    assert live.look() == 1
    command, body = live.channel.sent[0]
    assert (command.code, command.opaque, command.remark) == (0, 101, "FOUND")
    assert body == stored(live, -1)
    assert command.fields["nextBeginOffset"] == "2"
    assert len(live.pulls.holds) == 0


def test_without_the_flag_nothing_waits(live):
    answer = live.pull(1, flags=4)

    assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")
    assert len(live.pulls.holds) == 0


@pytest.mark.parametrize(("offset", "code"), [(0, 0), (7, 21)])
def test_other_answers_are_given_at_once(live, offset, code):
    assert live.pull(offset).code == code


def test_a_lite_pull_waits_too(live):
    assert live.pull(1, flags=22, code=361) is None
    live.append()
    live.dispatch()

    assert live.look() == 1


def test_a_pull_whose_time_is_up_gets_the_answer_that_it_would_have_had(live):
    assert live.pull(1) is None
    live.clock.now += 15
    live.look()

    command, body = live.channel.sent[0]
    assert (command.code, command.remark, body) == (19, "OFFSET_OVERFLOW_ONE", b"")
    assert command.fields["nextBeginOffset"] == "1"


def test_it_is_not_held_twice(live):
    assert live.pull(1) is None
    live.clock.now += 15
    live.look()

    assert (len(live.pulls.holds), len(live.channel.sent)) == (0, 1)


def test_a_oneway_pull_gets_nothing(live):
    header = fields.write(request(1, flags=6))
    live.pulls.pull(Command(11, 5, ONEWAY, fields=header), live.channel)
    live.append()
    live.dispatch()

    assert live.look() == 0
    assert len(live.pulls.holds) == 0


def test_a_tag_that_is_not_wanted_wakes_only_at_the_sweep(live):
    assert live.pull(1, expression="red") is None
    live.append(TAGS="green")
    live.dispatch()
    assert live.look(50) == 0
    live.clock.now += 5
    live.look()

    command, _ = live.channel.sent[0]
    assert (command.code, command.fields["nextBeginOffset"]) == (20, "2")


def test_a_wanted_tag_among_others_wakes(live):
    assert live.pull(1, expression="red") is None
    for tag in ("green", "red", "blue"):
        live.append(TAGS=tag)
    live.dispatch()

    assert live.look() == 1
    assert live.bodies() == [stored(live, -2)]


def test_sql_is_evaluated_over_the_message(tmp_path):
    live = Live(tmp_path)
    object.__setattr__(live.served, "filters_properties", True)
    assert live.pull(1, expression="a > 5", kind="SQL92") is None
    live.append(a="3")
    live.dispatch()
    assert live.look(50) == 0
    live.append(a="9")
    live.dispatch()

    assert live.look() == 1
    assert live.bodies() == [stored(live, -1)]
    live.store.close()
    live.dispatcher.close()


def test_a_queue_that_does_not_exist_yet(live):
    assert live.pull(0, topic="new", queue=3) is None
    live.append("new", queue=3)
    live.dispatch()

    assert live.look() == 1
    assert live.bodies() == [stored(live, -1)]


def test_a_queue_whose_file_is_full(live):
    """
    Eight entries a file: the next one comes into a file that was not there.
    """
    live.append(count=7)
    live.dispatch()
    assert live.pull(8) is None
    live.look(5)
    live.append()
    live.dispatch()

    assert live.look() == 1
    assert live.bodies() == [stored(live, -1)]


def test_a_record_in_a_file_of_the_log_that_was_not_there(live):
    assert live.pull(1) is None
    live.look(5)
    live.append("first", size=3800)
    live.append(size=200)
    assert live.log.blanks
    live.dispatch()
    live.look(3)

    assert live.bodies() == [stored(live, -1)]


def test_many_messages_of_other_queues_come_first(live):
    assert live.pull(1) is None
    live.append("first", count=300)
    live.append()
    live.dispatch()
    live.look(3)

    assert live.bodies() == [stored(live, -1)]


def test_more_queues_wait_than_one_look_sees(live):
    for queue in range(1, 300):
        live.served.topics["t"] = live.served.topics["t"].__class__("t", 500, 500)
        assert live.pull(0, queue=queue) is None
    live.look(10)
    live.append(queue=299)
    live.append(queue=17)
    live.dispatch()

    assert live.look() == 2
    assert live.bodies() == [stored(live, -2), stored(live, -1)]


def test_what_was_appended_before_the_pull_came_and_dispatched_after(live):
    assert live.pull(1, queue=0) is None
    live.append()
    live.write()
    live.look(3)
    assert live.pull(1, queue=0) is None
    live.look(3)
    live.dispatch()

    assert live.look() == 2


def test_looks_are_fewer_where_nothing_comes_but_never_too_few(live):
    assert live.pull(1) is None
    live.look(1100)
    assert live.pulls.pause == 0.0015
    live.append()
    live.dispatch()
    live.look()

    assert live.pulls.pause == 0.001


def test_many_that_wake_together_are_answered_without_a_pause(live):
    for _ in range(100):
        assert live.pull(1) is None
    live.append()
    live.dispatch()
    assert live.look() == 64
    assert live.pulls.pause == 0
    assert live.look() == 100
    assert live.pulls.pause > 0


def test_after_a_pause_without_any_pull(live):
    live.append("first", count=50)
    live.dispatch()
    live.clock.now += 1000
    assert live.pull(1) is None
    live.look(3)
    live.append()
    live.dispatch()

    assert live.look() == 1


def test_a_log_that_was_cut(live):
    """
    The queue ends earlier then, and a consumer past its end is told where.
    """
    live.append(count=3)
    live.dispatch()
    assert live.pull(4) is None
    live.look(3)
    cut = live.log.places[-2].position
    live.dispatcher.close()
    live.dispatcher = None
    del live.log.data[cut:]
    live.log.places = [place for place in live.log.places if place.position < cut]
    live.counts["t", 0] = 2
    live.append("first")
    live.dispatch()
    live.clock.now += 15
    live.look(3)
    command, _ = live.channel.sent[0]
    assert (command.code, command.fields["nextBeginOffset"]) == (21, "2")

    assert live.pull(2) is None
    live.append()
    live.dispatch()
    live.look(3)
    assert live.bodies()[-1] == stored(live, -1)


def test_a_broker_that_starts_may_have_cut_its_log(live):
    """
    The bytes of its last record are lost, as after a power failure, and nothing is written yet.
    """
    live.append(count=3)
    live.dispatch()
    assert live.pull(4) is None
    live.look(3)
    place = live.log.places[-1]
    (live.directory / "store" / "lock").write_text("lock")
    with next((live.directory / "store" / "commitlog").iterdir()).open("r+b") as file:
        file.seek(place.position)
        file.write(bytes(place.size))
    live.clock.now += 2
    live.look()

    assert live.store.log.end() == place.position
    answer = live.pull(2)
    assert answer.header.max_offset == 3


def test_files_that_expire_while_pulls_wait(live):
    live.append(count=60, size=200)
    live.dispatch()
    assert live.pull(61) is None
    first, *_ = sorted((live.directory / "store" / "commitlog").iterdir())
    live.clock.now += 2
    live.look()
    first.unlink()
    live.clock.now += 2
    live.look()
    assert live.store.log.min_offset == live.log.file_size
    assert live.pull(0).remark in {"OFFSET_TOO_SMALL", "MESSAGE_WAS_REMOVING"}


def test_a_store_of_a_broker_of_its_own(tmp_path):
    """
    Output and store are the same directory, as where a live broker's queues are served.
    """
    live = Live(tmp_path)
    assert live.pull(1) is None
    live.append(count=5)
    live.dispatch()
    live.look(2)

    command, body = live.channel.sent[0]
    assert body == b"".join(stored(live, number) for number in range(2, 7))
    assert command.fields["maxOffset"] == "6"
    live.store.close()
    live.dispatcher.close()


@pytest.mark.parametrize("count", [60, 5000], ids=["files", "entries"])
def test_a_queue_that_grew_far_while_nobody_looked(tmp_path, count):
    """
    One look takes in a part of one file; a client at the true end would be sent back to there.
    """
    size = 160 if count == 60 else 20 * 10_000
    live = Live(tmp_path, mappedFileSizeConsumeQueue=str(size))
    assert live.pull(0).code == 0
    live.append(count=count)
    live.dispatch()

    answer = live.pull(1 + count, flags=4)
    assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")
    assert answer.header.max_offset == 1 + count
    live.store.close()
    live.dispatcher.close()


@pytest.mark.parametrize("count", [1, 60], ids=["", "into-another-file"])
def test_a_log_that_goes_while_its_queues_grow_ends_nothing(live, count, caplog):
    """
    Its broker still writes to files that were moved away, and `follow` looks once a second only.
    """
    live.pull(1)
    live.look(3)
    live.append(count=count, size=200)
    live.dispatch()
    log = live.directory / "store" / "commitlog"
    away = log.rename(live.directory / "away")
    live.store.log.close()
    live.look(3)
    assert "is looked at again" in caplog.text
    # Once for each thing that is wrong, not with each look.
    assert len(caplog.records) <= 2

    away.rename(log)
    live.look(1000)
    assert live.pull(1 + count) is None
    live.append()
    live.dispatch()
    live.look(2)
    assert live.bodies()[-1] == stored(live, -1)


def test_pulls_whose_time_is_up_are_told_while_files_cannot_be_read(live):
    live.pull(1)
    live.look(3)
    live.append(count=60, size=200)
    live.dispatch()
    shutil.rmtree(live.directory / "store" / "commitlog")
    live.clock.now += 30
    live.pulls.look()
    assert len(live.channel.sent) == 1
    live.store.log.leave()
