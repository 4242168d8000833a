"""Files that a cut could not remove: their records are not in the log while that broker runs."""

from __future__ import annotations

import os

import pytest

from reput.formats.rocketmq import names
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.files import LogFiles
from reput.stores.log.tail import find_tail
from tests.builders.brokers import queue
from tests.builders.stores import LOG_FILE

SECOND = 1_000_000_000


def _log(config, made=CommitLog):
    return made(commitlog_directories(config.path, config.settings), config.settings, config.path)


def _path(broker, base):
    return broker.store / names.COMMITLOG / names.offset_file(base)


def _date(broker, times):
    for base, seconds in times.items():
        os.utime(_path(broker, base), ns=(0, seconds * SECOND))


@pytest.fixture
def left(made, held):
    """Return a held store whose cut has left the second file behind, and its configuration."""
    broker, config = made()
    held(broker.store)
    os.utime(broker.store / names.LOCK, ns=(0, SECOND))
    number = 0
    while broker.log.end < LOG_FILE + 1000:
        broker.put(queue(number, store_timestamp=1000 + number))
        number += 1
    kept = _path(broker, LOG_FILE).read_bytes()
    broker.recover(broker.log.places[5].position)
    broker.put(queue(5, size=70, store_timestamp=9000))
    _path(broker, LOG_FILE).write_bytes(kept)
    _date(broker, {0: 30, LOG_FILE: 20})
    return broker, config


def test_the_log_ends_before_it(left):
    """
    The file before it was written after it, and its records end before a BLANK.
    """
    broker, config = left

    log = _log(config)

    assert log.bases == [0]
    assert find_tail(log).end == broker.log.end


def test_it_stays_left_behind_while_the_log_grows_before_it(left):
    """
    A log that is open all the time finds the end after each record, and without reading all of it.
    """
    broker, config = left
    log = _log(config)
    for number in range(6, 9):
        broker.put(queue(number, size=70, store_timestamp=9000 + number))
        _date(broker, {0: 40 + number, LOG_FILE: 20})

        assert find_tail(log).end == broker.log.end
        assert log.bases == [0]


def test_it_is_of_the_log_again_where_records_lead_to_it(left):
    """
    A log that grows up to the file writes over it from its beginning.
    """
    broker, config = left
    log = _log(config)
    assert log.bases == [0]
    number = 6
    while broker.log.end < LOG_FILE + 200:
        broker.put(queue(number, size=70, store_timestamp=9000 + number))
        number += 1
    # Though nothing notes that time.
    _date(broker, {0: 90, LOG_FILE: 20})

    log.refresh()

    assert log.bases == [0, LOG_FILE]
    assert find_tail(log).end == broker.log.end


def test_a_broker_that_has_started_since_has_it_in_its_log(left):
    """
    The next start of the broker removes the file, or takes it for the log's: what is there then is.
    """
    broker, config = left
    os.utime(broker.store / names.LOCK, ns=(0, 60 * SECOND))

    assert _log(config).bases == [0, LOG_FILE]


def test_damage_in_a_file_leaves_the_later_ones_in_the_log(left):
    """
    Where the last record before bad bytes is not younger than the later file, nothing was cut.
    """
    broker, config = left
    whole = broker.log.places[3].position
    with _path(broker, 0).open("r+b") as file:
        file.seek(whole)
        file.write(bytes(LOG_FILE - whole))
    _date(broker, {0: 30, LOG_FILE: 20})

    assert _log(config).bases == [0, LOG_FILE]


def test_a_repeated_queue_offset_tells_where_the_clock_went_back(made, held):
    """
    The file's first record has a queue offset that a record before it has, and no older time.
    """
    broker, config = made()
    held(broker.store)
    os.utime(broker.store / names.LOCK, ns=(0, SECOND))
    number = 0
    while broker.log.end < LOG_FILE + 1000:
        broker.put(queue(number, store_timestamp=5000 + number))
        number += 1
    kept = _path(broker, LOG_FILE).read_bytes()
    broker.recover(broker.log.places[5].position)
    for again in range(5, number - 3):
        broker.put(queue(again, size=20, store_timestamp=1000))
    assert broker.log.end < LOG_FILE
    _path(broker, LOG_FILE).write_bytes(kept)
    _date(broker, {0: 30, LOG_FILE: 20})

    assert _log(config, LogFiles).bases == [0]
