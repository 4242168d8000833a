"""The first record stored at a time or later is the first one, whatever clocks did."""

from __future__ import annotations

import random

import pytest

from reput.formats.errors import FormatError
from reput.formats.rocketmq import broker
from reput.formats.rocketmq.encode import Message
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.query import by_time
from reput.stores.query import first_since as module
from reput.stores.query.first_since import Passed, first_since
from reput.stores.query.message_store import MessageStore
from tests.builders.stores import SMALL, Log

T = 1_700_000_000_000
# Rises, with a clock that was set back twice.
STEPS = [*range(0, 50_000, 1000), *range(20_000, 70_000, 1000), *range(5_000, 90_000, 2000)]


def log_of(times, sizes=(10, 30, 200)):
    log = Log()
    pick = random.Random(7)
    for i, stored in enumerate(times):
        body = b"x" * pick.choice(sizes)
        host = "::1" if i % 3 == 0 else "127.0.0.1"
        log.append(Message("t", body, queue_offset=i, store_timestamp=T + stored, born_host=host))
    return log


def opened(log, tmp_path):
    settings = broker.settings_of("5.5", SMALL)
    root = log.write(tmp_path / "store")
    return CommitLog(commitlog_directories(root, settings), settings), root, settings


def expected(log, asked, otherwise=None):
    return next((p.position for p in log.places if p.message.store_timestamp >= asked), otherwise)


@pytest.mark.parametrize("step", [4 << 20, 300, 64])
def test_a_clock_that_went_back_hides_no_record(tmp_path, monkeypatch, step):
    """
    At each ms around each store time; with pieces that end within records too.
    """
    monkeypatch.setattr(module, "_STEP", step)
    log = log_of(STEPS)
    commitlog, root, settings = opened(log, tmp_path)
    asked = {T + stored + more for stored in STEPS for more in (-1, 0, 1)}
    with MessageStore.open(root, settings=settings) as store:
        for at in sorted(asked):
            assert first_since(commitlog, at, log.end) == expected(log, at, log.end), at
            assert store.first_since(at) == expected(log, at), at
    commitlog.close()


def test_it_goes_on_from_what_an_earlier_look_has_passed(tmp_path):
    log = log_of(STEPS)
    commitlog, _, _ = opened(log, tmp_path)
    for first in range(0, 90_000, 7000):
        passed = Passed(T + first, first_since(commitlog, T + first, log.end), log.end)
        for second in range(0, 95_000, 3000):
            found = first_since(commitlog, T + second, log.end, passed=passed)
            assert found == expected(log, T + second, log.end)
    commitlog.close()


def test_by_python_too_in_pieces_that_end_anywhere(tmp_path, monkeypatch):
    log = log_of(STEPS)
    commitlog, root, settings = opened(log, tmp_path)
    commitlog.close()
    for step in (76, 91, 100, 1000):
        monkeypatch.setattr(by_time, "_STEP", step)
        with MessageStore.open(root, settings=settings) as store:
            for at in range(T, T + 95_000, 1500):
                assert store.first_since(at) == expected(log, at), (step, at)
            assert store.report.findings == []


def test_where_no_clock_went_back_bisection_finds_it(tmp_path):
    log = log_of(range(0, 200_000, 1000))
    commitlog, root, settings = opened(log, tmp_path)
    commitlog.close()
    with MessageStore.open(root, settings=settings) as store:
        for at in range(T - 1, T + 201_000, 500):
            assert store.first_since(at, ascending=True) == expected(log, at)


def test_what_is_damaged_before_it_is_said(tmp_path):
    """
    Nobody can tell whether what was there was stored then or later.
    """
    log = log_of(STEPS)
    place = log.places[30]
    log.data[place.position + 4] ^= 0xFF
    commitlog, root, settings = opened(log, tmp_path)
    before = log.places[20].message.store_timestamp
    assert first_since(commitlog, before, log.end) == log.places[20].position
    with pytest.raises(FormatError, match="ascendingStoreTime=true"):
        first_since(commitlog, T + 80_000, log.end)
    found = first_since(commitlog, T + 80_000, log.end, skips_corrupt=True)
    assert found == expected(log, T + 80_000)
    commitlog.close()
    with MessageStore.open(root, settings=settings) as store:
        assert store.first_since(T + 80_000) == expected(log, T + 80_000)
        (finding,) = store.report.findings
        assert finding.position == place.position % log.file_size
