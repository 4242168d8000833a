"""Locks of queues: one holder at a time, until it gives up or says nothing for a minute."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.remoting.groups import locks as module
from reput.remoting.groups.locks import LIFE_SECONDS, SCAN_SECONDS, Locks
from reput.remoting.wire.bodies import MessageQueue
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import Command
from reput.remoting.wire.errors import FieldError
from tests.builders.channels import Clock, KeptChannel
from tests.remoting.wire.captured import captured

QUEUES = [MessageQueue("b0", number, "t") for number in range(3)]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def locks(clock):
    return Locks(clock)


def test_a_queue_is_one_client_s(locks):
    assert locks.lock("g", QUEUES[:2], "a") == QUEUES[:2]
    assert locks.lock("g", QUEUES, "b") == QUEUES[2:]
    assert locks.lock("g", QUEUES, "a") == QUEUES[:2]


def test_groups_do_not_know_each_other(locks):
    assert locks.lock("g", QUEUES, "a") == locks.lock("h", QUEUES, "b") == QUEUES


def test_a_client_gives_up_only_what_it_has(locks):
    locks.lock("g", QUEUES, "a")
    locks.unlock("g", QUEUES, "b")
    assert locks.lock("g", QUEUES, "b") == []

    locks.unlock("g", QUEUES[:1], "a")
    assert locks.lock("g", QUEUES, "b") == QUEUES[:1]


def test_a_lock_ends_after_a_minute(locks, clock):
    locks.lock("g", QUEUES, "a")
    clock.now += LIFE_SECONDS
    assert locks.lock("g", QUEUES[:1], "b") == []
    assert locks.lock("g", QUEUES[1:2], "a") == QUEUES[1:2]

    clock.now += 0.1
    assert locks.lock("g", QUEUES, "b") == [QUEUES[0], QUEUES[2]]


def test_a_group_consumes_in_order_while_it_has_a_lock(locks, clock):
    assert not locks.has("g")
    locks.lock("g", QUEUES, "a")
    assert (locks.has("g"), locks.has("h")) == (True, False)
    clock.now += LIFE_SECONDS + 1
    assert not locks.has("g")


def test_those_that_have_ended_are_forgotten(locks, clock):
    """
    Any peer can lock queues that are not there.
    """
    locks.lock("g", QUEUES, "a")
    clock.now += LIFE_SECONDS + SCAN_SECONDS
    locks.lock("g", QUEUES[:1], "b")
    locks.tick(clock.now)

    assert len(locks) == 1
    assert locks.lock("g", QUEUES[:1], "a") == []


def test_their_number_is_bounded(locks, monkeypatch):
    """
    A client then waits, as if another one had the queue.
    """
    monkeypatch.setattr(module, "_MOST", 2)

    assert locks.lock("g", QUEUES, "a") == QUEUES[:2]
    assert locks.lock("g", QUEUES, "a") == QUEUES[:2]
    locks.unlock("g", QUEUES[:1], "a")
    assert locks.lock("h", QUEUES, "b") == QUEUES[:1]


@pytest.mark.parametrize("name", ["clients-4.9.8", "clients-5.5.0"])
def test_real_clients(locks, name):
    def asked(code):
        return next(
            each.command
            for each in captured(name)
            if each.header["code"] == code and not each.header["flag"] & 1
        )

    def ask(code):
        return locks.handlers()[code](asked(code), KeptChannel())

    granted = ask(RequestCode.LOCK_BATCH_MQ)
    assert (granted.code, granted.remark, granted.header) == (ResponseCode.SUCCESS, None, None)
    assert json.loads(b"".join(granted.pieces)) == {
        "lockOKMQSet": [{"brokerName": "b0", "queueId": 1, "topic": "T1"}]
    }
    assert ask(RequestCode.UNLOCK_BATCH_MQ).code == ResponseCode.SUCCESS
    assert len(locks) == 0


@pytest.mark.parametrize(
    "said",
    [
        {"clientId": "c"},
        {"consumerGroup": "g"},
        {"clientId": "c", "consumerGroup": "g", "mqSet": [{}]},
        {"clientId": "c", "consumerGroup": "g", "mqSet": [{"queueId": 1, "topic": "t"}]},
    ],
)
def test_what_does_not_say_which_queues_is_refused(locks, said):
    body = json.dumps(said).encode()
    with pytest.raises(FieldError):
        locks.handlers()[RequestCode.LOCK_BATCH_MQ](Command(41, body=body), KeptChannel())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["lock", "unlock", "wait"]),
        st.sampled_from("gh"),
        st.sampled_from("abc"),
        st.sets(st.integers(0, 2)),
        st.floats(0, 70),
    ),
    max_size=40,
)


@given(STEPS)
def test_a_lock_is_the_last_one_s_that_got_it(steps):
    """
    The twin reads from the history who has a queue.
    """
    clock = Clock()
    locks = Locks(clock)
    history = []

    def holder(group, number):
        for at, name, queue, client, is_locked in reversed(history):
            if (name, queue) == (group, number):
                return client if is_locked and clock.now <= at + LIFE_SECONDS else None
        return None

    for action, group, client, numbers, seconds in steps:
        queues = [QUEUES[number] for number in sorted(numbers)]
        if action == "wait":
            clock.now += seconds
            locks.tick(clock.now)
            continue
        free = [n for n in sorted(numbers) if holder(group, n) in {None, client}]
        if action == "lock":
            assert locks.lock(group, queues, client) == [QUEUES[n] for n in free]
            history += [(clock.now, group, n, client, True) for n in free]
        else:
            locks.unlock(group, queues, client)
            history += [(clock.now, group, n, client, False) for n in free]
