"""A log that is cut between the look for its end and the reading of it: no error, and all that is there."""

from __future__ import annotations

import threading

import pytest

from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.stores.log.commitlog import CommitLog, LogChangedError, commitlog_directories
from reput.stores.log.tail import find_tail
from reput.stores.log.tail_watch import TailWatch
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.brokers import queue
from tests.builders.stores import LOG_FILE


def _message(number, size=50, stored=1000):
    # No zeros, which would look like a log's end wherever one reads.
    return Message("t", body=b"x" * size, queue_offset=number, store_timestamp=stored + number)


def _filled(made, count):
    broker, config = made()
    for number in range(count):
        broker.put(_message(number))
    return broker, config


def test_an_end_from_before_the_cut_is_no_corrupt_record(made, held, monkeypatch):
    """
    An end that was planned may lie among what the cut has left: dispatch ends where the log does.
    """
    monkeypatch.setattr("reput.stores.following.vouch._REST_SECONDS", 0)
    monkeypatch.setattr("reput.stores.following.known._OLD_NS", -(1 << 62))
    broker, config = _filled(made, 20)
    held(broker.store)
    dispatcher = StoreDispatcher(config)
    planned = find_tail(dispatcher.log).end
    dispatcher.dispatch(planned)
    broker.recover(broker.log.places[5].position)
    broker.put(_message(5, 70, 9000))
    dispatcher.dispatch(planned)
    broker.put(_message(6, 70, 9000))
    dispatcher.dispatch(broker.log.end)

    batch = dispatcher.dispatch(planned)

    assert batch.end == broker.log.end
    assert dispatcher.progress.end == broker.log.end
    dispatcher.close()


def test_the_watch_finds_the_end_when_the_file_has_gone_that_it_was_in(made, held, monkeypatch):
    """
    A cut at a file's beginning removes it; the next record may be long in coming. The last record
    that was whole stands in the file before.
    """
    monkeypatch.setattr("reput.stores.log.tail_watch._LOOK_SECONDS", 0)
    broker, config = _filled(made, 1)
    held(broker.store)
    log = CommitLog(
        commitlog_directories(config.path, config.settings), config.settings, config.path
    )
    watch = TailWatch(log)
    assert watch.look().end == broker.log.end
    number = 1
    while broker.log.end < LOG_FILE + 1000:
        broker.put(queue(number, store_timestamp=1000 + number, properties={"KEYS": "k"}))
        number += 1
    last = broker.store / names.COMMITLOG / names.offset_file(LOG_FILE)
    with last.open("r+b") as file:
        # Its last byte is still to come.
        file.seek(broker.log.end - LOG_FILE - 1)
        file.write(b"\0")
    assert watch.look().end == broker.log.places[-1].position
    last.unlink()

    # Before the BLANK: a broker that recovers writes there.
    assert watch.look().end == broker.log.blanks[-1]
    log.close()


def test_files_that_go_one_by_one_are_waited_for(made):
    """
    A broker that cuts its log removes the first file past the cut first.
    """
    broker, config = _filled(made, 60)
    log = CommitLog(commitlog_directories(config.path, config.settings), config.settings)
    directory = broker.store / names.COMMITLOG
    (directory / names.offset_file(LOG_FILE)).unlink()
    rest = threading.Timer(0.1, (directory / names.offset_file(2 * LOG_FILE)).unlink)
    rest.start()

    log.refresh()

    assert log.end_of_files == LOG_FILE
    rest.join()
    log.close()


def _rolled(made):
    """Return a broker that has rolled to its second file, and the configuration."""
    broker, config = _filled(made, 1)
    number = 1
    while broker.log.end < LOG_FILE + 500:
        broker.put(_message(number))
        number += 1
    return broker, config


@pytest.mark.parametrize("made_ahead", [False, True])
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_dispatch_ends_at_a_file_that_a_cut_has_removed(made, held, share, made_ahead):
    """
    Whatever part was dispatched, and whether or not the file after it stands there, made ahead.
    """
    broker, config = _rolled(made)
    held(broker.store)
    directory = broker.store / names.COMMITLOG
    if made_ahead:
        (directory / names.offset_file(2 * LOG_FILE)).write_bytes(bytes(LOG_FILE))
    dispatcher = StoreDispatcher(config)
    planned = find_tail(dispatcher.log).end
    first = [place for place in broker.log.places if place.end <= LOG_FILE]
    dispatcher.dispatch(first[int(share * (len(first) - 1))].position)
    (directory / names.offset_file(LOG_FILE)).unlink()

    dispatcher.dispatch(planned)
    dispatcher.dispatch(LOG_FILE)

    assert dispatcher.progress.end == broker.log.blanks[0]
    assert dispatcher.progress.messages == len(first)
    assert dispatcher.log.end_of_files == LOG_FILE
    dispatcher.close()


def test_the_watch_goes_back_before_the_blank_when_the_next_file_has_gone(made, monkeypatch):
    """
    Files are made ahead: a log may end at the beginning of one, and a cut may take it.
    """
    monkeypatch.setattr("reput.stores.log.tail_watch._LOOK_SECONDS", 0)
    broker, config = _rolled(made)
    path = broker.store / names.COMMITLOG / names.offset_file(LOG_FILE)
    path.write_bytes(bytes(LOG_FILE))
    log = CommitLog(commitlog_directories(config.path, config.settings), config.settings)
    watch = TailWatch(log)
    assert watch.look().end == LOG_FILE
    path.unlink()

    assert watch.look().end == broker.log.blanks[0]
    log.close()


def test_a_file_that_goes_while_it_is_read_ahead_is_no_error_for_what_is_before(made, monkeypatch):
    """
    Blocks are read ahead of the one that is asked for; who stops before them does not hear of them.
    """
    broker, config = _rolled(made)
    dispatcher = StoreDispatcher(config)
    read = dispatcher.pipeline.parser._read

    def reads(block, start):
        if start >= LOG_FILE:
            raise LogChangedError("commitlog file 4096 is not there")
        return read(block, start)

    monkeypatch.setattr(dispatcher.pipeline.parser, "_read", reads)
    blocks = dispatcher.pipeline.blocks(0, broker.log.end)

    assert next(blocks).count > 0
    blocks.close()
    dispatcher.close()


def test_a_record_out_of_turn_is_let_in_though_the_log_was_cut_after_it(made, held):
    """
    It is waited for until the log grows; from where the cut has left it, not from where it was.
    """
    broker, config = _filled(made, 5)
    held(broker.store)
    # A master whose queues are ahead of its log leaves queue offsets out.
    for number in range(7, 20):
        broker.put(_message(number))
    dispatcher = StoreDispatcher(config)
    waits = broker.log.places[5]
    dispatcher.dispatch(broker.log.end)
    assert dispatcher.progress.end == waits.position
    broker.recover(broker.log.places[8].position)
    broker.put(_message(10, 70, 9000))
    dispatcher.dispatch(broker.log.end)
    end = broker.log.end

    broker.put(_message(11, 70, 9000))
    dispatcher.dispatch(broker.log.end)

    assert dispatcher.progress.end >= end
    dispatcher.close()
