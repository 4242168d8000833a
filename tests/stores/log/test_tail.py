"""The end of a live log: a torn tail is an answer, a corrupt middle is an error."""

from __future__ import annotations

import pytest

from reput.formats.errors import FormatError
from reput.formats.rocketmq import broker, names
from reput.formats.rocketmq.commitlog import Verdict
from reput.formats.rocketmq.encode import Message, encode_blank
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.tail import find_tail
from reput.stores.log.tail_watch import TailWatch
from tests.builders.stores import LOG_FILE, SMALL, Log, Messages, fill


def open_log(store, **conf) -> CommitLog:
    settings = broker.settings_of("5.5", {**SMALL, **conf})
    return CommitLog(commitlog_directories(store, settings), settings)


def change(store, position: int, raw: bytes) -> None:
    path = store / "commitlog" / names.offset_file(position - position % LOG_FILE)
    with path.open("r+b") as file:
        file.seek(position % LOG_FILE)
        file.write(raw)


class TestEnd:
    @pytest.mark.parametrize("ahead", [0, 1, 2])
    def test_it_is_after_the_last_record_whatever_was_made_ahead(self, tmp_path, ahead):
        log = fill(Log(), 1, 50)

        assert find_tail(open_log(log.write(tmp_path, ahead=ahead))) == (log.end, Verdict.END)

    def test_of_a_log_that_nothing_was_written_to(self, tmp_path):
        log = Log()

        assert find_tail(open_log(log.write(tmp_path, ahead=2))) == (0, Verdict.END)

    def test_after_a_blank_it_is_the_next_file(self, tmp_path):
        """
        Once that is there. Until then a broker that recovers takes its log to end before the BLANK,
        and writes over it.
        """
        log = fill(Log(), 1, 5)
        end = log.end
        log.blank()

        assert find_tail(open_log(log.write(tmp_path))) == (end, Verdict.ROLL)
        assert find_tail(open_log(log.write(tmp_path, ahead=1))) == (LOG_FILE, Verdict.END)

    @pytest.mark.parametrize("seed", range(3))
    def test_a_known_record_is_where_it_begins(self, tmp_path, seed):
        log = fill(Log(), seed, 40)
        found = open_log(log.write(tmp_path, ahead=1))

        for position in [*log.boundaries, None]:
            assert find_tail(found, position).end == log.end

    def test_it_grows_with_the_log(self, tmp_path):
        log = Log()
        known = None
        for seed in range(12):
            fill(log, seed, 5)
            found = open_log(log.write(tmp_path, ahead=1))
            known = find_tail(found, known).end
            assert known == log.end


class TestTorn:
    """The broker copies a record into the file while we look."""

    @pytest.mark.parametrize(
        ("message", "conf"),
        [
            (Message("topic", body=b"body " * 9, properties={"TAGS": "a", "KEYS": "k1 k2"}), {}),
            (Message("topic", body=b"body " * 9, properties=b"TAGS\x01a"), {}),
            (Message("topic", properties={"UNIQ_KEY": "u"}), {}),
            (Message("t" * 200, body=b"x", properties={"TAGS": "a"}, born_host="::1"), {}),
            (
                Message("topic", body=b"x", properties={"TAGS": "a"}, property_crc=True),
                {"enabledAppendPropCRC": "true", "forceVerifyPropCRC": "true"},
            ),
        ],
        ids=["plain", "no separator", "no body", "v2 ipv6", "property crc"],
    )
    def test_cut_anywhere_the_last_record_is_not_there_yet(self, tmp_path, message, conf):
        """
        A prefix of it and zeros after it: properties that are not written yet are zeros too.
        """
        log = Log()
        for _ in range(2):
            log.append(message)
        last = log.append(message)
        store = log.write(tmp_path)
        found = open_log(store, **conf)
        whole = bytes(log.data[last.position :])
        for cut in range(last.size):
            change(store, last.position, whole[:cut].ljust(last.size, b"\0"))
            assert find_tail(found).end == last.position, f"{cut} of {last.size} bytes written"
        change(store, last.position, whole)
        assert find_tail(found) == (last.end, Verdict.END)

    def test_the_only_record_of_a_file(self, tmp_path):
        log = fill(Log(), 1, 5)
        log.blank()
        last = log.append(Message("t", body=b"x" * 50))
        store = log.write(tmp_path)
        change(
            store,
            last.position,
            bytes(log.data[last.position : last.position + 60]).ljust(last.size, b"\0"),
        )

        assert find_tail(open_log(store)).end == last.position

    def test_a_size_without_anything_else(self, tmp_path):
        """
        Writes have no order that another process could rely on.
        """
        log = fill(Log(), 1, 5)
        last = log.append(Message("t", body=b"x" * 50))
        store = log.write(tmp_path)
        for first in range(4, last.size - 4, 5):
            raw = bytes(log.data[last.position :])
            change(store, last.position, bytes(first) + raw[first:])
            assert find_tail(open_log(store)).end == last.position

    def test_a_blank_that_is_half_written(self, tmp_path):
        log = fill(Log(), 1, 5)
        end = log.end
        store = log.write(tmp_path, ahead=1)
        for cut in range(8):
            change(store, end, encode_blank(LOG_FILE - end)[:cut].ljust(8, b"\0"))
            assert find_tail(open_log(store)).end == end

    def test_what_stands_after_the_last_record_is_what_it_was_before(self, tmp_path):
        """
        Garbage without a record after it: a tail, looked at again next time.
        """
        log = fill(Log(), 1, 5)
        store = log.write(tmp_path)
        change(store, log.end, b"\xda\xa3garbage that nobody wrote")
        tail = find_tail(open_log(store))

        assert (tail.end, tail.reason) == (log.end, Verdict.NO_MAGIC)

    def test_older_records_after_a_recovered_end_are_no_corruption(self, tmp_path):
        """
        A recovered broker writes over what it has cut, and does not erase it first.
        """
        log = Log()
        for i in range(6):
            log.append(Message("t", body=bytes(30), store_timestamp=1_700_000_000_000 + i))
        cut = log.places[2]
        store = log.write(tmp_path)
        newer = Log()
        for i in range(2):
            newer.append(Message("t", body=bytes(30), store_timestamp=1_700_000_000_000 + i))
        newer.append(Message("t", body=bytes(10), store_timestamp=1_700_000_999_999))
        change(store, 0, bytes(newer.data))
        assert newer.end < cut.end

        assert find_tail(open_log(store)).end == newer.end


def test_a_cut_that_changes_no_time_is_seen_though_the_end_stays(tmp_path, monkeypatch):
    """
    A page that stays dirty takes other bytes, and the last record of before is still there.
    """
    monkeypatch.setattr("reput.stores.log.tail_watch._WHOLE_LOOK_SECONDS", 0)
    monkeypatch.setattr("reput.stores.log.tail_watch._WHOLE_LOOK_SHARE", 1e9)
    log = Log()
    for i in range(12):
        log.append(Message("t", body=bytes(30), store_timestamp=1_700_000_000_000 + i))
    store = log.write(tmp_path)
    files = open_log(store)
    watch = TailWatch(files)
    assert watch.look().end == log.end
    newer = Log()
    for i in range(2):
        newer.append(Message("t", body=bytes(30), store_timestamp=1_700_000_000_000 + i))
    newer.append(Message("t", body=bytes(10), store_timestamp=1_700_000_999_999))
    change(store, 0, bytes(newer.data))
    files.refresh()
    watch._stamps, watch._looked_at = files.stamps, 0.0

    assert watch.look().end == newer.end


class TestCorrupt:
    @pytest.mark.parametrize("at", [0, 4, 33, 56, 86, 90])
    def test_a_bad_record_with_good_ones_after_is_named_to_the_byte(self, tmp_path, at):
        log, maker = Log(), Messages(1)
        for _ in range(3):
            log.append(maker.next())
        bad = log.append(Message("t", body=b"b" * 40))
        for _ in range(5):
            log.append(maker.next())
        store = log.write(tmp_path)
        flipped = log.data[bad.position + at] ^ 0xFF
        change(store, bad.position + at, bytes([flipped]))

        with pytest.raises(FormatError) as raised:
            find_tail(open_log(store))
        assert raised.value.path == str(store / "commitlog" / names.offset_file(0))
        assert raised.value.position == bad.position
        assert f"physical offset {bad.position}" in str(raised.value)

    def test_a_hole_in_the_middle(self, tmp_path):
        """
        Zeros where a record was: a lost page, if records follow.
        """
        log = fill(Log(), 1, 3)
        bad = log.append(Message("t", body=b"b" * 40))
        fill(log, 2, 5)
        store = log.write(tmp_path)
        change(store, bad.position, bytes(bad.size))
        found = open_log(store)

        # Nothing tells it from an end that was cut: the job stops there and says so.
        assert find_tail(found).end == bad.position
