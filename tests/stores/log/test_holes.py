"""Holes: good records after something that is none; and what a broker's cut leaves, which is none."""

from __future__ import annotations

import os
import random

import pytest

from reput.formats.errors import FormatError
from reput.formats.rocketmq import broker, names
from reput.formats.rocketmq.commitlog import PREPARED
from reput.formats.rocketmq.encode import Message, encode
from reput.stores.findings import Report
from reput.stores.following import past_end
from reput.stores.following.log_end import EndedLog
from reput.stores.following.log_end_compiled import CompiledLog
from reput.stores.log import runs
from reput.stores.log.commitlog import CommitLog, LogChangedError, commitlog_directories
from reput.stores.log.holes import HoleWatch, find_hole, flaw_after
from reput.stores.log.runs import newest_before
from reput.stores.log.tail import find_tail
from reput.stores.log.tail_watch import TailWatch
from reput.stores.log.unreadable import next_record
from tests.builders.stores import LOG_FILE, SMALL, Log, Messages

STORED = 1_700_000_000_000
LARGE = 1 << 20


def open_log(store, file_size: int = LOG_FILE, **conf) -> CommitLog:
    values = {**SMALL, "mappedFileSizeCommitLog": str(file_size), **conf}
    settings = broker.settings_of("5.5", values)
    return CommitLog(commitlog_directories(store, settings), settings)


# How many new records, and how long, over old ones of 100 bytes: the new end is in the last bytes of
# an old one, so that only queue offsets tell, or in the head of one, whose end tells where it began.
SKEWED = {"by its queue offset": (25, 0), "by the record before it": (2, 131)}


def message(number: int, queue_id: int = 0, **values) -> Message:
    known = {
        "body": b"body %d" % number,
        "queue_offset": number,
        "store_timestamp": STORED + number,
    }
    return Message("topic", properties={"TAGS": "a"}, queue_id=queue_id, **{**known, **values})


def write(store, raw: bytes, file_size: int = LOG_FILE):
    (store / names.COMMITLOG).mkdir(parents=True)
    for base in range(0, len(raw), file_size):
        piece = raw[base : base + file_size].ljust(file_size, b"\0")
        (store / names.COMMITLOG / names.offset_file(base)).write_bytes(piece)
    return store


def holed(count: int, filling: bytes, more: int, **values) -> tuple[bytes, int, int]:
    """Return a log with a hole, and where that begins and ends."""
    raw = bytearray()
    for number in range(count):
        raw += encode(message(number), len(raw))
    start = len(raw)
    raw += filling
    end = len(raw)
    for number in range(count, count + more):
        raw += encode(message(number, **values), len(raw))
    return bytes(raw), start, end


FILLINGS = {
    "8 zeros": bytes(8),
    "3 zeros": bytes(3),
    "4 KiB of zeros": bytes(4096),
    "300 KiB of zeros": bytes(300 << 10),
    "1 byte": b"\xff",
    "garbage": bytes(range(1, 256)) * 1300,
    "zeros, then garbage": bytes(65_536) + b"\xda\xa3\x20\xa7" * 99,
}


class TestHole:
    @pytest.mark.parametrize("filling", FILLINGS.values(), ids=FILLINGS)
    @pytest.mark.parametrize("more", [1, 9])
    def test_it_is_found_whatever_fills_it_and_how_long_it_is(self, tmp_path, filling, more):
        raw, start, end = holed(10, filling, more)
        log = open_log(write(tmp_path, raw, LARGE), LARGE)

        assert find_hole(log, start) == (start, end)

    def test_at_the_head_of_the_last_file(self, tmp_path):
        """
        The last good record is then in the file before, in front of a BLANK.
        """
        log = Log()
        for number in range(60):
            log.append(message(number))
        raw = bytearray(log.data)
        head = log.end - log.end % LOG_FILE
        first = next(p for p in log.places if p.position == head)
        raw[head : first.end] = bytes(first.size)
        found = open_log(write(tmp_path, bytes(raw)))

        assert find_tail(found).end == head
        assert find_hole(found, head) == (head, first.end)
        assert newest_before(found, head) == first.message.store_timestamp - 1

    def test_a_log_without_one(self, tmp_path):
        raw, start, _ = holed(10, b"", 0)
        log = open_log(write(tmp_path, raw + b"garbage" * 50, LARGE), LARGE)

        assert find_hole(log, start) is None
        assert flaw_after(log, start) is None

    def test_nothing_is_read_of_what_has_no_blocks_on_disk(self, tmp_path, monkeypatch):
        """
        A broker makes its files sparse, or preallocates them: a gigabyte of nothing costs nothing.
        """
        raw, start, _ = holed(10, b"", 0)
        store = write(tmp_path, raw, LARGE)
        path = store / names.COMMITLOG / names.offset_file(0)
        path.write_bytes(raw)
        os.truncate(path, LARGE)
        if path.stat().st_blocks * 512 >= LARGE:
            pytest.skip("this file system has no sparse files")
        log = open_log(store, LARGE)
        lengths = []
        read = log.read
        monkeypatch.setattr(log, "read", lambda at, n: lengths.append(n) or read(at, n))

        assert find_hole(log, start) is None
        assert sum(lengths) <= 64 << 10

    def test_the_watch_looks_once_as_long_as_there_is_no_new_file(self, tmp_path, monkeypatch):
        raw, start, _ = holed(10, b"", 0)
        log = open_log(write(tmp_path, raw, LARGE), LARGE)
        watch = HoleWatch(log)
        assert watch.find(start) is None
        looks = []
        monkeypatch.setattr("reput.stores.log.holes.find_hole", lambda *a: looks.append(a))

        assert [watch.find(start) for _ in range(3)] == [None] * 3
        assert looks == []
        watch.forget()
        watch.find(start)
        assert len(looks) == 1

    def test_a_hole_that_comes_at_a_later_end_of_the_same_file_is_found(
        self, tmp_path, monkeypatch
    ):
        """
        A host loses a page hours after the file was begun, and the log has grown since. While the
        log grows nothing is looked at: what follows its end may be a gigabyte.
        """
        raw, start, end = holed(10, bytes(100), 5)
        first = len(encode(message(0), 0))
        store = write(tmp_path, raw[:first], LARGE)
        log = open_log(store, LARGE)
        watch = HoleWatch(log)
        now = [1000.0]
        monkeypatch.setattr("reput.stores.log.holes.time.monotonic", lambda: now[0])
        assert watch.find(first) is None
        (store / names.COMMITLOG / names.offset_file(0)).write_bytes(raw.ljust(LARGE, b"\0"))
        log.refresh()

        assert watch.find(start) is None
        now[0] += 1
        assert watch.find(start) is None
        now[0] += 1
        assert watch.find(start) == (start, end)

    def test_where_files_go_at_each_look_nothing_is_known_yet(self, tmp_path, monkeypatch):
        raw, start, end = holed(10, bytes(100), 5)
        log = open_log(write(tmp_path, raw, LARGE), LARGE)
        watch = HoleWatch(log)
        read = log.read

        def gone(*_args):
            raise LogChangedError("a file that has gone")

        monkeypatch.setattr(log, "read", gone)
        assert watch.find(start) is None
        with pytest.raises(LogChangedError):
            find_hole(log, start)
        monkeypatch.setattr(log, "read", read)
        assert watch.find(start) == (start, end)

    def test_where_a_broker_holds_the_store_its_end_is_the_end(self, tmp_path):
        raw, start, end = holed(10, bytes(100), 5)
        log = open_log(write(tmp_path, raw, LARGE), LARGE)

        assert HoleWatch(log, lambda: True).find(start) is None
        assert HoleWatch(log, lambda: False).find(start) == (start, end)

    def test_records_that_come_while_it_looks_are_no_hole(self, tmp_path):
        """
        The end it was told is no longer the end: the log has grown there.
        """
        raw, start, _ = holed(10, b"", 20)
        log = open_log(write(tmp_path, raw, LARGE), LARGE)

        assert find_hole(log, start) is None


class TestLeftOver:
    """A broker that cuts its log erases nothing; its next records go over what was there."""

    def cut(self, tmp_path, old: list[Message], kept: int, new: list[Message]):
        """Return a log of which `kept` records stayed, with new ones over the others."""
        before = Log(LARGE)
        for each in old:
            before.append(each)
        after = Log(LARGE)
        for each in [*old[:kept], *new]:
            after.append(each)
        raw = bytes(after.data) + bytes(before.data[after.end :])
        return open_log(write(tmp_path, raw, LARGE), LARGE), after.end

    @pytest.mark.parametrize("size", [0, 1, 7, 60])
    def test_older_records_are_no_hole(self, tmp_path, size):
        old = [message(number) for number in range(50)]
        new = [message(10, body=b"x" * size, store_timestamp=STORED + 99)]
        log, end = self.cut(tmp_path, old, 10, new)

        assert find_hole(log, end) is None
        assert flaw_after(log, end) is None

    def test_newer_ones_whose_place_in_the_queue_is_taken_are_none_either(self, tmp_path):
        """
        The clock went back over the cut: only the queue offsets tell.
        """
        old = [message(number) for number in range(50)]
        new = [message(10 + n, body=b"", store_timestamp=STORED - 99 + n) for n in range(25)]
        log, end = self.cut(tmp_path, old, 10, new)

        assert find_hole(log, end) is None

    @pytest.mark.parametrize("filling", [bytes(40), b"\xff" * 40], ids=["zeros", "garbage"])
    def test_a_topic_that_was_made_again_leaves_nothing_over(self, tmp_path, filling):
        """
        Its queue offsets began again: only the last one before the place tells.
        """
        messages = [message(n) for n in range(40)]
        messages += [message(n, store_timestamp=STORED + 3_600_000 + n) for n in range(20)]
        raw = bytearray()
        for each in messages[:49]:
            raw += encode(each, len(raw))
        start = len(raw)
        raw += filling
        end = len(raw)
        for each in messages[50:]:
            raw += encode(each, len(raw))
        log = open_log(write(tmp_path, bytes(raw), LARGE), LARGE)
        read = EndedLog(log.directories, log.settings, Report())

        assert find_hole(log, start) == (start, end)
        if filling.strip(b"\0"):
            with pytest.raises(FormatError):
                find_tail(log)
            assert read.end() == len(raw)
            assert CompiledLog(log.directories, log.settings, Report()).end() == len(raw)

    @pytest.mark.parametrize("size", [0, 1, 40])
    @pytest.mark.parametrize("at", [1, 4, 30, 35])
    def test_a_corrupt_record_is_not_the_rest_of_one_before(self, tmp_path, size, at):
        """
        Without a body its topic's length reads like that of a record that began a byte earlier.
        """
        raw = bytearray()
        places = []
        for number in range(12):
            places.append(len(raw))
            raw += encode(message(number, body=b"b" * size), len(raw))
        raw[places[9] + at] ^= 0xFF
        log = open_log(write(tmp_path, bytes(raw), LARGE), LARGE)

        with pytest.raises(FormatError) as raised:
            find_tail(log)
        assert raised.value.position == places[9]
        assert EndedLog(log.directories, log.settings, Report()).end() == len(raw)

    def test_a_run_is_judged_by_its_first_record(self, tmp_path):
        """
        Of records that follow one another all were cut away if the first one was.
        """
        old = [message(number, queue_id=number % 7) for number in range(50)]
        new = [message(0, queue_id=9, body=b"x" * 30, store_timestamp=STORED + 30)]
        log, end = self.cut(tmp_path, old, 10, new)

        assert find_hole(log, end) is None

    def test_a_hole_that_older_records_fill_up_to_newer_ones(self, tmp_path):
        """
        A page was never written back, and holds what a cut had left there: records of the same
        sizes, which end where newer ones continue. The numbers tell that these are of another log.
        """
        old = [message(10 + n // 2, n % 2, store_timestamp=STORED + n) for n in range(40)]
        numbers = {0: 15, 1: 15}
        new = []
        for n in range(25):
            queue_id = n // 5 % 2
            new.append(message(numbers[queue_id], queue_id, store_timestamp=STORED + 99 + n))
            numbers[queue_id] += 1
        log, end = self.cut(tmp_path, old, 10, new)
        size = end // 35
        start, stop = 25 * size, 28 * size
        before = Log(LARGE)
        for each in old:
            before.append(each)
        path = log.file_of(start)[0]
        raw = bytearray(path.read_bytes())
        raw[start:stop] = bytes(30) + before.data[start + 30 : stop]
        # Nothing stands after the newer ones.
        raw[end:] = bytes(len(raw) - end)
        path.write_bytes(raw)

        assert find_tail(log).end == start
        assert find_hole(log, start) == (start, stop)
        assert flaw_after(log, start) is not None
        assert find_tail(log, skips_corrupt=True, holes=HoleWatch(log)).end == end
        assert next_record(log, start) == stop

        # So too once the log has rolled.
        following = names.offset_file(LARGE)
        (tmp_path / names.COMMITLOG / following).write_bytes(
            encode(message(50, store_timestamp=STORED + 200), LARGE).ljust(LARGE, b"\0")
        )
        assert next_record(open_log(tmp_path, LARGE), start) == stop

    def test_prepared_records_have_no_place_in_a_queue_that_could_be_taken(self, tmp_path):
        raw, start, end = holed(10, bytes(40), 3, sys_flag=PREPARED, queue_offset=0)
        log = open_log(write(tmp_path, raw, LARGE), LARGE)

        assert find_hole(log, start) == (start, end)

    @pytest.mark.parametrize(("count", "size"), SKEWED.values(), ids=SKEWED)
    def test_over_a_cut_where_the_clock_went_back_the_log_ends_for_all(self, tmp_path, count, size):
        """
        What is left over is newer than the log's last record, and no corruption: dispatch does not
        stop at it, passes nothing over, and a reader answers nothing from it.
        """
        old = [message(number, body=b"o" * 100) for number in range(40)]
        new = [
            message(10 + n, body=b"n" * size, store_timestamp=STORED - 99 + n) for n in range(count)
        ]
        log, end = self.cut(tmp_path, old, 10, new)
        read = EndedLog(log.directories, log.settings, Report())

        assert log.bytes_at(end, 8).strip(b"\0")
        assert find_tail(log).end == end
        assert find_tail(log, skips_corrupt=True, holes=HoleWatch(log)).end == end
        assert find_hole(log, end) is None
        assert read.end() == CompiledLog(log.directories, log.settings, Report()).end() == end
        assert read.known_end == end

    def test_what_was_judged_is_not_looked_for_again(self, tmp_path, monkeypatch):
        """
        A walk through a file may take a second, and a live log is looked at ten times in one. Once
        one of the two records is not there, nothing is known of it.
        """
        old = [message(number, body=b"o" * 100) for number in range(40)]
        new = [message(10 + n, body=b"", store_timestamp=STORED - 99 + n) for n in range(25)]
        log, end = self.cut(tmp_path, old, 10, new)
        read = EndedLog(log.directories, log.settings, Report())
        walks = []
        for module, name in ((runs, "_earlier_record"), (past_end, "earlier_record")):
            walk = getattr(module, name)

            def counted(*args, walk=walk):
                walks.append(walk)
                return walk(*args)

            monkeypatch.setattr(module, name, counted)
        for _ in range(3):
            assert find_tail(log).end == end
            read.look_again()
            assert read.end() == end
        assert len(walks) == 2

        position = next(p for p in range(end) if log.left_overs.is_known(log, p + end, end)) + end
        path = log.directories[0] / names.offset_file(0)
        raw = bytearray(path.read_bytes())
        raw[position + 100] ^= 1
        path.write_bytes(raw)
        assert not log.left_overs.is_known(log, position, end)

    def test_cut_and_not_written_over_yet_it_looks_like_a_hole(self, tmp_path):
        """
        What the documents say: suspected until the broker's next message.
        """
        raw, start, end = holed(10, bytes(40), 3)
        log = open_log(write(tmp_path, raw, LARGE), LARGE)

        assert find_hole(log, start) == (start, end)

    def test_passing_over_a_place_does_not_lead_to_left_over_records(self, tmp_path):
        """
        Nothing newer follows, so the log ends; asked all the same, the old search decides.
        """
        old = [message(number) for number in range(50)]
        log, end = self.cut(tmp_path, old, 10, [message(10, store_timestamp=STORED + 99, body=b"")])

        assert find_tail(log, skips_corrupt=True, holes=HoleWatch(log)).end == end


class TestPassedOver:
    @pytest.mark.parametrize("filling", FILLINGS.values(), ids=FILLINGS)
    def test_the_tail_goes_on_after_it_if_asked(self, tmp_path, filling):
        raw, start, end = holed(10, filling, 5)
        log = open_log(write(tmp_path, raw, LARGE), LARGE)
        watch = TailWatch(log, skips_corrupt=True, holes=HoleWatch(log))

        assert find_tail(log, skips_corrupt=True, holes=HoleWatch(log)).end == len(raw)
        assert watch.look().end == len(raw)
        assert next_record(log, start) == end

    @pytest.mark.parametrize("kept", [None, 0, 700])
    def test_of_a_damaged_file_the_next_one_that_has_bytes(self, tmp_path, kept):
        log = Log()
        for number in range(120):
            log.append(message(number))
        store = log.write(tmp_path)
        path = store / names.COMMITLOG / names.offset_file(LOG_FILE)
        if kept is None:
            path.unlink()
        else:
            os.truncate(path, kept)

        assert next_record(open_log(store), LOG_FILE + (kept or 0)) == 2 * LOG_FILE


class TestFlaw:
    def test_records_without_a_store_time_are_named(self, tmp_path):
        """
        RocketMQ 5.5.0 with duplicationEnable=true writes them; nothing says that the log ends there.
        """
        raw = bytearray()
        for number in range(5):
            raw += encode(message(number, store_timestamp=0), len(raw))
        log = open_log(write(tmp_path, bytes(raw)))
        tail = find_tail(log)
        flaw = flaw_after(log, tail.end)

        assert tail.end == 0
        assert "without a store timestamp" in str(flaw)
        assert "duplicationEnable" in str(flaw)

    def test_a_torn_last_record_without_its_time_is_none(self, tmp_path):
        raw, start, _ = holed(5, b"", 0)
        torn = encode(message(5, store_timestamp=0), start)
        log = open_log(write(tmp_path, raw + torn[:-30]))

        assert flaw_after(log, find_tail(log).end) is None

    @pytest.mark.parametrize("kept", [1, 700])
    def test_a_last_file_that_is_too_short(self, tmp_path, kept):
        log = Log()
        for number in range(60):
            log.append(message(number))
        store = log.write(tmp_path)
        path = max((store / names.COMMITLOG).iterdir())
        os.truncate(path, kept)
        found = open_log(store)
        tail = find_tail(found)
        flaw = flaw_after(found, tail.end)

        assert tail.end <= found.bases[-1] + kept
        assert (flaw.path, flaw.position) == (str(path), kept)


class TestGrowing:
    """A file that is copied, or that a broker has just made."""

    def test_the_next_file_is_waited_for_however_it_comes(self, tmp_path):
        """
        The log ends exactly where its file does: no next file, an empty one, a part of it, all.
        Until the next file is there a broker may write over the BLANK, and the end is before it.
        """
        log = Log()
        while not log.blanks:
            log.append(message(len(log.places)))
        if log.places[-1].position >= LOG_FILE:
            log.data = log.data[:LOG_FILE]
            log.places.pop()
        store = write(tmp_path, bytes(log.data[:LOG_FILE]))
        found = open_log(store)
        watch = TailWatch(found)
        path = store / names.COMMITLOG / names.offset_file(LOG_FILE)
        following = encode(message(99), LOG_FILE)
        ends = []

        def look() -> None:
            watch._looked_at = 0.0
            ends.append(watch.look().end)

        look()
        look()
        path.touch()
        look()
        for size in (1, 8, 60, len(following), len(following) + 5):
            path.write_bytes(following[:size].ljust(size, b"\0"))
            look()
        path.write_bytes(following.ljust(LOG_FILE, b"\0"))
        look()
        whole = LOG_FILE + len(following)

        assert ends[:3] == [log.blanks[0]] * 3
        assert ends[3:6] == [LOG_FILE] * 3
        assert ends[6:] == [whole] * 3

    def test_a_copy_is_followed_byte_by_byte(self, tmp_path):
        log = Log()
        for number in range(60):
            log.append(message(number))
        store = log.write(tmp_path)
        path = max((store / names.COMMITLOG).iterdir())
        raw = path.read_bytes()
        base = names.parse_offset_file(path.name)
        before = [blank for blank in log.blanks if blank < base][-1]
        ends = [base, *(p.end for p in log.places if p.position >= base)]
        os.truncate(path, 0)
        watch = TailWatch(open_log(store))
        for size in range(0, LOG_FILE + 1, 37):
            path.write_bytes(raw[:size])
            watch._looked_at = 0.0
            there = max(e for e in ends if e <= base + size)
            assert watch.look().end == (there if size else before)


@pytest.mark.parametrize("seed", range(60))
def test_a_hole_anywhere_of_any_length_with_any_filling_is_found(tmp_path, seed):
    """
    A modelled log, cut and written over in half of the cases, and a hole in half of them.
    """
    pick = random.Random(seed)
    maker = Messages(seed)
    log = Log(LARGE)
    for _ in range(pick.randrange(2, 60)):
        log.append(maker.next())
    raw = bytearray(log.data)
    is_cut, is_holed = pick.random() < 0.5, pick.random() < 0.6
    end = log.end
    if is_cut:
        # Records of later times were there before, and the first ones of them were written over.
        old = log.places[pick.randrange(len(log.places))].position
        stale = Log(LARGE, origin=0)
        stale.data = bytearray(raw[:old])
        maker.now += 3000
        for _ in range(pick.randrange(1, 40)):
            stale.append(maker.next())
        maker.now += 100_000
        fresh = Log(LARGE)
        fresh.data = bytearray(raw[:old])
        for _ in range(pick.randrange(1, 40)):
            fresh.append(maker.next())
        end = fresh.end
        raw = bytearray(bytes(fresh.data) + bytes(stale.data[end:]))
    expected = None
    if is_holed:
        raw = raw[:end]
        length = pick.choice([1, 3, 8, 91, 4096, 65_536, pick.randrange(1, 400_000)])
        filling = pick.choice(
            [bytes(length), pick.randbytes(length), b"\xff" * length, bytes(length - 1) + b"\x01"]
        )
        raw += filling
        expected = (end, len(raw))
        for _ in range(pick.randrange(1, 20)):
            each = maker.next()
            raw += encode(each, len(raw))
    found = open_log(write(tmp_path, bytes(raw), LARGE), LARGE)

    assert find_hole(found, end) == expected
