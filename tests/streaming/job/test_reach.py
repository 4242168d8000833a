"""What is said of a log that a job has not dispatched to its end."""

from __future__ import annotations

import contextlib
import os
import threading

from reput.formats.rocketmq import names
from reput.streaming.job import reach
from reput.streaming.job.reach import Shortfall, shortfalls
from reput.streaming.job.summary import StoreSummary, Summary
from tests.builders.brokers import Broker
from tests.builders.stores import config_of


def test_each_line_can_be_read_alone():
    """
    Whether the log itself is done or not, it says of what Kafka has how much.
    """
    assert str(Shortfall("a", 5, 9, 8, 0)) == (
        "a: dispatched up to physical offset 5 of 9; 4 of 8 bytes of the log are left"
    )
    assert str(Shortfall("a", 9, 9, 8, None)) == "a: how much of the log Kafka has is not known"
    assert str(Shortfall("a", 9, 9, 8, 3)) == "a: 3 bytes of the log have not been sent to Kafka"


def test_a_disk_that_hangs_keeps_no_live_job_from_its_end(tmp_path, monkeypatch):
    """
    What is left of its log cannot be told then.
    """
    monkeypatch.setattr(reach, "PATIENCE_SECONDS", 0.5)
    broker = Broker(tmp_path / "store", 1)
    broker.append(10)
    config = config_of(broker.store, tmp_path / "out")
    (broker.store / names.ABORT).touch()
    # To open it hangs within the system call, as on a disk that does not answer.
    checkpoint = broker.store / names.CHECKPOINT
    checkpoint.unlink(missing_ok=True)
    os.mkfifo(checkpoint)
    errors = []

    def look() -> None:
        summary = Summary([StoreSummary(config.name)], is_live=True)
        try:
            shortfalls([config], summary, {}, is_interrupted=True, only_flushed=True)
        except OSError as error:
            errors.append(error)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(30)
    with contextlib.suppress(OSError):
        # The look may not have come to that file yet.
        os.close(os.open(checkpoint, os.O_WRONLY | os.O_NONBLOCK))

    assert [str(error.filename) for error in errors] == [str(config.path)]
