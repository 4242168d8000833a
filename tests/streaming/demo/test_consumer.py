"""The consumer at the demonstration's end reads each message, and sees what is not as in the log."""

from __future__ import annotations

from reput.streaming.demo.consumer import _differing, consume
from tests.builders.served import dispatched, messages
from tests.builders.stores import SMALL


def test_all_of_a_store_is_read_over_the_wire(tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in SMALL.items()))
    with dispatched(messages(200, queues=3, size=50), tmp_path) as store:
        read = consume(store, conf, tmp_path / "offsets")

    assert read.ok
    assert (read.topics, read.queues, read.messages, read.differing) == (1, 3, 200, 0)


def test_what_is_not_as_in_the_log_is_counted(tmp_path):
    with dispatched(messages(3), tmp_path) as store:
        first, second, _ = (record.physical_offset for _, record in store.messages("t", 0, 0))

        assert _differing(store, {}) == 3
        # Another record, one that came twice, and one that is not in the log.
        assert _differing(store, {first: [0], second: [1, 1], 7: [1]}) == 4
