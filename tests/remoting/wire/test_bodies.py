"""JSON bodies, as Java's two generations of fastjson and Go read and write them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.remoting.wire import bodies
from reput.remoting.wire.bodies import MessageQueue
from reput.remoting.wire.errors import JsonError
from tests.remoting.wire.captured import NAMES, captured

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
QUEUES = st.builds(MessageQueue, TEXT, st.integers(0, 1 << 31), TEXT)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | TEXT
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXT, inner, max_size=4)
        | st.dictionaries(QUEUES, inner, min_size=1, max_size=4)
    ),
    max_leaves=12,
)


def test_bytes_are_as_fastjson_writes_them():
    table = {MessageQueue("b0", 1, "T1"): {"maxOffset": 24}, MessageQueue("b0", 0, "é"): {}}

    assert (
        bodies.dumps({"offsetTable": table, "topicPutTps": 0.0})
        == (
            '{"offsetTable":{{"brokerName":"b0","queueId":1,"topic":"T1"}:{"maxOffset":24},'
            '{"brokerName":"b0","queueId":0,"topic":"é"}:{}},"topicPutTps":0.0}'
        ).encode()
    )


def test_integers_are_quoted_as_keys_and_nothing_has_blanks():
    """
    Go splits `brokerAddrs` by hand: an address after a blank does not dial.
    """
    value = {"brokerAddrs": {0: "127.0.0.1:10911", 1: "[::1]:10911"}, "of": [{}, True, None]}

    assert bodies.dumps(value) == (
        b'{"brokerAddrs":{"0":"127.0.0.1:10911","1":"[::1]:10911"},"of":[{},true,null]}'
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a", -1 : "b"}', {"0": "a", "-1": "b"}),
        ('{"0":"a"}', {"0": "a"}),
        (" { } ", {}),
        ("[ {1:[ ]} , [2 ,{ 3 : {}}]] ", [{"1": []}, [2, {"3": {}}]]),
        ('{{"a":1}:2}', {'{"a":1}': 2}),
        ('{{"topic":"T", "queueId":1,"brokerName":"b"}:{}}', {MessageQueue("b", 1, "T"): {}}),
        ('{1:"\t\\u00e9"}', {"1": "\té"}),
    ],
)  # fmt: skip
def test_what_others_write_is_read(text, value):
    assert bodies.loads(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{1",
        "{1:",
        "{1:2",
        "{1:2,",
        "{1:2}}",
        "[1,]",
        "{1 2}",
        "{[]:1}",
        "{null:1}",
        "x",
        "[" * 100_000,
        '{1:{"a":' * 50_000,
        "{" * 100_000,
    ],
)
def test_what_nobody_writes_is_refused(text):
    with pytest.raises(JsonError):
        bodies.loads(text.encode())


@given(VALUES)
def test_round_trip(value):
    assert bodies.loads(bodies.dumps(value)) == value


@pytest.mark.parametrize("name", NAMES)
def test_real_bodies_are_read_and_written_again(name):
    """
    Those that are JSON and were kept whole.
    """
    count = 0
    for frame in captured(name):
        if frame.body[:1] == b"{":
            value = bodies.loads(frame.body)
            assert bodies.loads(bodies.dumps(value)) == value
            count += 1
    assert count > 5


def test_a_map_of_queues_keeps_its_bytes():
    """
    Tables of offsets that brokers wrote, read and written: the same characters, in their order.
    """
    tables = [
        frame.body
        for name in NAMES
        for frame in captured(name)
        if b'"offsetTable":{{' in frame.body
    ]
    assert len(tables) > 3
    for body in tables:
        assert bodies.dumps(bodies.loads(body)) == body


@pytest.mark.parametrize("seed", range(5))
def test_damage_is_an_error_of_ours_or_another_value(seed):
    chance = random.Random(seed)
    real = [f.body for name in NAMES for f in captured(name) if f.body[:1] == b"{"]
    for _ in range(400):
        data = bytearray(chance.choice(real)[:2000])
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.choice(b'{}[]",:0 \\\xff')
        try:
            value = bodies.loads(data)
        except JsonError:
            continue
        assert bodies.loads(bodies.dumps(value)) is not ...
