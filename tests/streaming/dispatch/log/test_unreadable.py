"""Records that are whole, with a number in them that a broker cannot read: dispatch ends there."""

from __future__ import annotations

import pytest

from reput.checkpoints import progress
from reput.formats.errors import FormatError
from reput.formats.rocketmq.consumequeue import SCHEDULE_TOPIC
from reput.formats.rocketmq.encode import Message
from reput.stores.findings import Kind
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.events import CORRUPT, kind_of_event
from reput.streaming.verify.handover import examine
from reput.streaming.verify.output import verify
from tests.builders.stores import LOG_FILE, Log, config_of, files_of, fill

BAD_BATCHES = [
    {"INNER_NUM": "40000", "INNER_BASE": "1"},
    {"INNER_NUM": "-32769", "INNER_BASE": "1"},
    {"INNER_NUM": "x", "INNER_BASE": "1"},
    {"INNER_NUM": " 1", "INNER_BASE": "1"},
    {"INNER_NUM": "1", "INNER_BASE": "9223372036854775808"},
    {"INNER_NUM": "1", "INNER_BASE": "1.0"},
]
GOOD_BATCHES = [
    {"INNER_NUM": "40000"},
    {"INNER_BASE": "x"},
    {"INNER_NUM": "+3", "INNER_BASE": "-5"},
    {"INNER_NUM": "-32768", "INNER_BASE": "9223372036854775807"},
    {"INNER_NUM": "00000000000000000000007", "INNER_BASE": "٣"},
    {"INNER_NUMB": "x", "INNER_BASES": "x", "INNER_NU": "x", "INNER_BAS": "x", "INNER_": "x"},
]


def dispatch(config, end: int, **options):
    dispatcher = StoreDispatcher(config, **options)
    try:
        return dispatcher.dispatch(end)
    finally:
        dispatcher.close()


def with_one(properties, topic="t"):
    log = fill(Log(), 7, 30, batches=True, wide=False)
    bad = log.append(Message(topic, properties=properties, store_timestamp=1 << 41))
    return fill(log, 8, 10, wide=False), bad


@pytest.mark.parametrize("topic", ["t", "batches"])
@pytest.mark.parametrize("properties", BAD_BATCHES)
@pytest.mark.parametrize("version", ["5.3", "5.5"])
def test_numbers_of_a_batch_stop_brokers_from_5_0_on(tmp_path, version, topic, properties):
    """
    On every topic, with all before the record dispatched, and the place in the message.
    """
    log, bad = with_one(properties, topic)
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out", version)

    with pytest.raises(FormatError, match="INNER_BASE or INNER_NUM") as raised:
        dispatch(config, log.end)
    assert raised.value.position == bad.position % LOG_FILE
    assert "--on-corrupt skip" in str(raised.value)
    assert progress.load(config.output).end == bad.position


@pytest.mark.parametrize("properties", BAD_BATCHES)
def test_brokers_4_9_do_not_look_at_them(tmp_path, properties):
    log, _ = with_one(properties)
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out", "4.9")

    assert dispatch(config, log.end).messages == len(log.places)


@pytest.mark.parametrize("properties", GOOD_BATCHES)
def test_numbers_that_java_reads_stop_nobody(tmp_path, properties):
    log, _ = with_one(properties)
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")

    assert dispatch(config, log.end).messages == len(log.places)
    assert verify(config).ok


UNREADABLE = [("t", BAD_BATCHES[0]), (SCHEDULE_TOPIC, {"DELAY": "soon"})]


@pytest.mark.parametrize(("topic", "properties"), UNREADABLE)
def test_verify_and_handover_name_what_stopped_the_output(tmp_path, topic, properties):
    """
    The output is right as far as it goes; to call that clean, or safe, would hide the rest.
    """
    log, bad = with_one(properties, topic)
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
    with pytest.raises(FormatError):
        dispatch(config, log.end)

    (finding,) = verify(config).findings
    assert (finding.kind, finding.position) == (Kind.UNREADABLE, bad.position % LOG_FILE)
    assert f"{log.end - bad.position} bytes of the log are not dispatched" in finding.detail
    result = examine(config)
    assert not result.is_safe
    assert any(f"physical offset {bad.position}" in problem for problem in result.problems)


@pytest.mark.parametrize(("topic", "properties"), UNREADABLE)
def test_it_is_passed_over_on_request_and_nothing_else_is(tmp_path, topic, properties):
    """
    Counted, told, kept a copy of; and a broker that recovers would cut there all the same.
    """
    log, bad = with_one(properties, topic)
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
    batch = dispatch(config, log.end, skips_corrupt=True)

    assert (batch.skipped, batch.messages) == (1, len(log.places) - 1)
    assert [kind_of_event(event) for event in batch.events] == [CORRUPT]
    assert progress.load(config.output).skipped == ((bad.position, bad.end),)
    assert verify(config).ok
    assert any(f"offsets {bad.position} to" in problem for problem in examine(config).problems)
    offset = bad.position.to_bytes(8, "big")
    entries = [raw for path, raw in files_of(config.output).items() if "queue" in path]
    assert not any(raw[at : at + 8] == offset for raw in entries for at in range(0, len(raw), 20))
