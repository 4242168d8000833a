"""What is said of a log that a job has not dispatched to its end."""

from __future__ import annotations

from reput.streaming.job.reach import Shortfall


def test_each_line_can_be_read_alone():
    """
    Whether the log itself is done or not, it says of what Kafka has how much.
    """
    assert str(Shortfall("a", 5, 9, 8, 0)) == (
        "a: dispatched up to physical offset 5 of 9; 4 of 8 bytes of the log are left"
    )
    assert str(Shortfall("a", 9, 9, 8, None)) == "a: how much of the log Kafka has is not known"
    assert str(Shortfall("a", 9, 9, 8, 3)) == "a: 3 bytes of the log have not been sent to Kafka"
