"""The end of a log, as readers without a compiler find it: the same as `stores.log.tail` finds."""

from __future__ import annotations

import json
import os
import random
import struct
from typing import TYPE_CHECKING, NamedTuple

import pytest

from reput.formats.errors import FormatError
from reput.formats.rocketmq import broker, names
from reput.formats.rocketmq.batchconsumequeue import Unit
from reput.formats.rocketmq.commitlog import BLANK_HEAD, MAGIC_BLANK
from reput.formats.rocketmq.encode import Message, encode
from reput.stores.findings import Report
from reput.stores.following import head_chain, past_end
from reput.stores.following.log_end import EndedLog
from reput.stores.following.log_end_compiled import CompiledLog
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.records import NoRecordError
from reput.stores.log.tail import find_tail
from reput.stores.query.message_store import MessageStore
from reput.stores.queues.pull import PullStatus
from reput.streaming.dispatch.dispatcher import rebuild
from tests.builders import goldens as golden_stores
from tests.builders.stores import (
    BODY_AT,
    LOG_FILE,
    QUEUE_FILE,
    SMALL,
    Log,
    Messages,
    Place,
    fill,
    name_batch_topics,
)

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000_000


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Records of these logs are read in many pieces, too, and looked at without waiting."""
    monkeypatch.setattr(head_chain, "_FIRST_PIECE", 300)
    monkeypatch.setattr(head_chain, "_PIECE", 700)
    monkeypatch.setattr(past_end, "_SETTLE_SECONDS", 0)
    monkeypatch.setattr("reput.stores.following.vouch._SETTLE_SECONDS", 0)


def settings_of(**conf):
    return broker.settings_of("5.5", {**SMALL, **conf})


def ends(store, settings=None) -> dict[str, int]:
    """Return the end as each way finds it; damage with good records past it is passed over."""
    settings = settings or settings_of()
    found = {}
    directories = commitlog_directories(store, settings)
    log = CommitLog(directories, settings)
    found["tail"] = find_tail(log, skips_corrupt=True).end
    log.close()
    for kind in (EndedLog, CompiledLog):
        ended = kind(directories, settings, Report())
        found[kind.__name__] = ended.end()
        ended.close()
    return found


def put(store, position: int, raw: bytes) -> None:
    """Write bytes into the log's files, which need be there, as a broker does: erasing nothing."""
    while raw:
        base = position - position % LOG_FILE
        count = min(len(raw), base + LOG_FILE - position)
        path = store / "commitlog" / names.offset_file(base)
        if not path.exists():
            path.write_bytes(bytes(LOG_FILE))
        with path.open("r+b") as file:
            file.seek(position - base)
            file.write(raw[:count])
        raw, position = raw[count:], position + count


def cut(store, log: Log, number: int) -> None:
    """Cut a log before one of its records as a broker does, and take it from what is in memory."""
    place = log.places[number]
    del log.data[place.position :], log.places[number:]
    log.blanks = [position for position in log.blanks if position < place.position]
    for path in (store / "commitlog").iterdir():
        if int(path.name) > place.position:
            path.unlink()


def write_units(queue: Path, number: int, units: list[Unit]) -> None:
    """Write units into the files of a batch queue, which has four in each."""
    for at, unit in enumerate(units, number):
        path = queue / names.offset_file(at // 4 * 4 * 46)
        if not path.exists():
            path.write_bytes(bytes(4 * 46))
        with path.open("r+b") as file:
            file.seek(at % 4 * 46)
            file.write(unit.pack())


def write_entries(store: Path, number: int, places: list[Place]) -> None:
    """Write entries of records into a queue, from a number on, whose files need not be there."""
    for i, place in enumerate(places, number):
        base = i * 20 // QUEUE_FILE * QUEUE_FILE
        path = store / "consumequeue/t/0" / names.offset_file(base)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        with path.open("r+b") as file:
            file.truncate(QUEUE_FILE)
            file.seek(i * 20 - base)
            file.write(struct.pack(">qiq", place.position, place.size, 0))


class Made(NamedTuple):
    """A store and its log."""

    store: Path
    log: Log


def queue_files(root: Path, count: int, size: int = 30) -> Made:
    """Return a store of one queue with these many messages, as a broker would have left it."""
    log = Log()
    for i in range(count):
        log.append(Message("t", bytes(size), queue_offset=i, store_timestamp=NOW + i))
    store = log.write(root / "store")
    directory = store / "consumequeue" / "t" / "0"
    directory.mkdir(parents=True)
    raw = b"".join(struct.pack(">qiq", p.position, p.size, 0) for p in log.places)
    for base in range(0, len(raw), QUEUE_FILE):
        piece = raw[base : base + QUEUE_FILE].ljust(QUEUE_FILE, b"\0")
        (directory / names.offset_file(base)).write_bytes(piece)
    return Made(store, log)


def batch_files(root: Path, count: int) -> Made:
    """Return a store of one batch queue with these many units, of a message each."""
    log = Log()
    for i in range(count):
        inner = {"INNER_NUM": "1", "INNER_BASE": str(i)}
        log.append(Message("b", bytes(30), inner, queue_offset=i, store_timestamp=NOW + i))
    store = log.write(root / "store")
    (store / "consumequeue").mkdir()
    name_batch_topics(store, "b")
    directory = store / names.BATCH_CONSUMEQUEUE / "b" / "0"
    directory.mkdir(parents=True)
    units = [Unit(place.position, place.size, 0, NOW, i, 1) for i, place in enumerate(log.places)]
    write_units(directory, 0, units)
    return Made(store, log)


class TestSameAsTail:
    @pytest.mark.parametrize("version", golden_stores.VERSIONS)
    def test_of_real_stores(self, version, tmp_path):
        source = golden_stores.unpack(version, tmp_path / "goldens")
        compared = 0
        for known, scenario in golden_stores.GOLDENS:
            if known != version:
                continue
            golden = golden_stores.load(version, scenario, source)
            found = ends(golden.path, broker.settings_of(version, golden.conf))
            assert len(set(found.values())) == 1, (scenario, found)
            compared += 1
        assert compared > 10

    @pytest.mark.parametrize("seed", range(60))
    def test_of_logs_that_are_cut_and_torn(self, seed, tmp_path):
        """
        Random histories: appended, cut and written over with records of the same size or others,
        the last one torn, files made ahead, a byte changed anywhere in the last file.
        """
        pick = random.Random(seed)
        log, store = Log(), tmp_path / "store"
        maker = Messages(seed)
        same_size = pick.random() < 0.5
        now = NOW
        for _ in range(pick.randint(1, 8)):
            if log.places and pick.random() < 0.7:
                cut(store, log, pick.randrange(max(len(log.places) - 30, 0), len(log.places)))
            for _ in range(pick.randint(0, 20)):
                now += pick.randint(1, 5)
                if same_size:
                    number = len(log.places)
                    log.append(
                        Message("t", pick.randbytes(20), queue_offset=number, store_timestamp=now)
                    )
                else:
                    log.append(maker.next()._replace(store_timestamp=now))
            log.write(store) if not store.exists() else put(store, 0, bytes(log.data))
            if pick.random() < 0.3:
                put(store, -(-log.end // LOG_FILE) * LOG_FILE, bytes(8))
            found = ends(store)
            assert len(set(found.values())) == 1, found
            assert found["tail"] >= log.end
            if log.places and pick.random() < 0.5:
                last = log.places[-1]
                raw = bytes(log.data[last.position : last.end])
                stop = pick.randrange(40, last.size)
                put(store, last.position, raw[:stop] + bytes(last.size - stop))
                found = ends(store)
                assert len(set(found.values())) == 1, found
                put(store, last.position, raw)

    @pytest.mark.parametrize("torn", [1, 2, 5])
    def test_of_records_that_a_power_cut_left_half_written(self, torn, tmp_path):
        """
        All from the first one that is not whole on is missing, however many there are.
        """
        log = Log()
        for i in range(30):
            log.append(Message("t", body=b"b" * 30, store_timestamp=NOW + i))
        store = log.write(tmp_path)
        for place in log.places[-torn:]:
            put(store, place.end - 12, bytes(6))
            put(store, place.position + 90, b"\xff\xff")

        assert set(ends(store).values()) == {log.places[-torn].position}

    def test_of_a_record_that_is_torn_over_an_older_one(self, tmp_path):
        """
        The head is new, the rest is of the record that stood there, and others of old follow.
        """
        log = Log()
        for i in range(10):
            log.append(Message("t", body=bytes([i]) * 30, store_timestamp=NOW + i))
        store = log.write(tmp_path)
        torn = log.places[5]
        newer = Log()
        for i in range(6):
            newer.append(Message("t", body=b"n" * 30, store_timestamp=NOW + 1000 + i))
        put(store, 0, bytes(newer.data[: torn.position + 100]))

        assert set(ends(store).values()) == {torn.position}

    def test_a_clock_that_goes_back_ends_nothing(self, tmp_path):
        log = Log()
        for i in range(30):
            log.append(Message("t", body=b"b" * 30, store_timestamp=NOW - i * 1000))

        assert set(ends(log.write(tmp_path)).values()) == {log.end}

    def test_a_record_that_claims_more_than_its_file(self, tmp_path):
        log = fill(Log(), 1, 4)
        end = log.end
        store = log.write(tmp_path)
        last = log.places[-1]
        put(store, last.position, (LOG_FILE + 1).to_bytes(4, "big"))

        assert set(ends(store).values()) == {last.position}
        assert end > last.position


class TestDamage:
    def test_is_passed_over_and_reported_where_records_of_the_log_follow(self, tmp_path):
        log = fill(Log(), 1, 3)
        bad = log.append(Message("t", body=b"b" * 40, store_timestamp=NOW * 2))
        for i in range(4):
            log.append(Message("t", body=b"b" * 40, store_timestamp=NOW * 2 + i))
        store = log.write(tmp_path)
        put(store, bad.position, b"\x7f")
        with pytest.raises(FormatError):
            find_tail(CommitLog(commitlog_directories(store, settings_of()), settings_of()))
        for kind in (EndedLog, CompiledLog):
            report = Report()
            ended = kind(commitlog_directories(store, settings_of()), settings_of(), report)

            assert ended.end() == log.end
            assert [finding.position for finding in report.findings] == [bad.position]


class TestQueueEnds:
    @pytest.mark.parametrize("number", [1, 3, 8, 9, 16, 20, 33])
    def test_are_the_same_for_an_overview(self, number, tmp_path):
        """
        Whole files are cut, or a part of one, or all. The first entry that was cut names a place
        before the log's end again: a broker's recovery leaves it, until it is written over.
        """
        made = queue_files(tmp_path, 34)
        log = made.log
        cut(made.store, log, number)
        log.append(Message("other", bytes(7), store_timestamp=NOW * 2))
        put(made.store, 0, bytes(log.data))
        with MessageStore.open(made.store, settings=settings_of()) as store:
            for is_quick in (False, True):
                queue = store.queue("t", 0, is_quick=is_quick)
                assert queue.max_offset == number + 1
                assert [e.queue_offset for e in queue.all_entries()] == list(range(number + 1))
            pulled = store.pull("t", 0, number - 1, 32)
            assert [record.queue_offset for _, record in pulled.messages] == [number - 1]
            assert store.pull("t", 0, number).status == PullStatus.MESSAGE_WAS_REMOVING
            assert store.pull("t", 0, number + 1).status == PullStatus.OFFSET_OVERFLOW_ONE

    def test_messages_after_an_entry_of_a_record_that_was_cut_are_found(self, tmp_path):
        """
        A broker that starts takes such an entry for its queue's last one and continues after it: the
        entry's place has no record, and the messages after it are in the same file of the log.
        """
        number = 3
        made = queue_files(tmp_path, 5)
        log, store = made.log, made.store
        cut(store, log, number)
        log.append(Message("other", bytes(7), store_timestamp=NOW * 2))
        added = log.append(
            Message("t", bytes(30), queue_offset=number + 1, store_timestamp=NOW * 2)
        )
        put(store, 0, bytes(log.data))
        entry = struct.pack(">qiq", added.position, added.size, 0)
        with (store / "consumequeue/t/0" / names.offset_file(0)).open("r+b") as file:
            file.seek((number + 1) * len(entry))
            file.write(entry)
        with MessageStore.open(store, settings=settings_of()) as opened:
            pulled = opened.pull("t", 0, number)

        assert [offset for offset, _ in pulled.messages] == [number + 1]
        assert (pulled.status, pulled.next_offset) == (PullStatus.FOUND, number + 2)


class TestCutQueues:
    """Queues that were opened when their log had been cut: what was cut still stands in them."""

    @pytest.mark.parametrize("size", [7, 30])
    def test_nothing_comes_until_the_queue_has_its_own_again(self, tmp_path, size):
        """
        Messages of other topics fill the log up to the places that the entries name, and records
        may begin there.
        """
        number = 3
        made = queue_files(tmp_path, 6)
        log, store = made.log, made.store
        cut(store, log, number)
        put(store, log.end, bytes(LOG_FILE - log.end))
        with MessageStore.open(store, settings=settings_of()) as opened:
            assert opened.queue_now("t", 0).max_offset == number
            for i in range(8):
                log.append(Message("o", bytes(size), queue_offset=i, store_timestamp=NOW * 2 + i))
                put(store, 0, bytes(log.data))
                opened.presence.look()
                assert opened.queue_now("t", 0).max_offset == number
                assert opened.pull("t", 0, number).status == PullStatus.OFFSET_OVERFLOW_ONE
            for i in range(number, number + 5):
                sent = Message("t", bytes(30), queue_offset=i, store_timestamp=NOW * 3)
                added = log.append(sent)
                put(store, 0, bytes(log.data))
                entry = struct.pack(">qiq", added.position, added.size, 0)
                with (store / "consumequeue/t/0" / names.offset_file(0)).open("r+b") as file:
                    file.seek(i * len(entry))
                    file.write(entry)
                assert opened.queue_now("t", 0).max_offset == i + 1
                pulled = opened.pull("t", 0, i).messages
                assert [record.physical_offset for _, record in pulled] == [added.position]

    @pytest.mark.parametrize("version", ["4.9", "5.5"])
    def test_messages_that_expired_before_anyone_asked_keep_none_back(self, tmp_path, version):
        """
        The queue was cut, then written to, and is asked for when the first of these have expired.
        """
        store, log = queue_files(tmp_path, 6)
        cut(store, log, 3)
        put(store, log.end, bytes(LOG_FILE - log.end))
        settings = broker.settings_of(version, SMALL)

        def add(topic: str, number: int) -> Place:
            sent = Message(topic, bytes(30), queue_offset=number, store_timestamp=NOW * 2)
            added = log.append(sent)
            base = added.position - added.position % LOG_FILE
            put(store, base, bytes(log.data[base:]))
            return added

        with MessageStore.open(store, settings=settings) as opened:
            assert opened.queue_now("t", 0).max_offset == 3
            write_entries(store, 3, [add("t", 3), add("t", 4)])
            for i in range(60):
                last = add("o", i)
            opened.log.reached(last.position, last.size)
            (store / "commitlog" / names.offset_file(0)).unlink()
            opened.presence.look()
            assert opened.queue_now("t", 0).max_offset == 3
            write_entries(store, 5, [add("t", 5)])
            assert opened.queue_now("t", 0).max_offset == 6
            assert [number for number, _ in opened.pull("t", 0, 5).messages] == [5]

    @pytest.mark.parametrize("number", [1, 2, 4])
    def test_a_batch_queue_has_what_comes_after_the_cut(self, tmp_path, number):
        """
        And none of the other units that were cut, whose places the log has grown past.
        """
        store, log = batch_files(tmp_path, 7)
        cut(store, log, number)
        put(store, log.end, bytes(2 * LOG_FILE - log.end))
        with MessageStore.open(store, settings=settings_of()) as opened:
            assert opened.queue_now("b", 0).max_offset == number
            for i in range(8):
                log.append(Message("o", bytes(30), queue_offset=i, store_timestamp=NOW * 2 + i))
                put(store, 0, bytes(log.data))
                assert opened.queue_now("b", 0).max_offset == number
            for i in range(number, number + 5):
                inner = {"INNER_NUM": "1", "INNER_BASE": str(i)}
                sent = Message("b", bytes(30), inner, queue_offset=i, store_timestamp=NOW * 2 + 8)
                added = log.append(sent)
                put(store, 0, bytes(log.data))
                unit = Unit(added.position, added.size, 0, NOW * 2 + 8, i, 1)
                write_units(store / names.BATCH_CONSUMEQUEUE / "b" / "0", i, [unit])
                opened.presence.look()
                assert opened.queue_now("b", 0).max_offset == i + 1
                pulled = opened.pull("b", 0, i).messages
                assert [record.physical_offset for _, record in pulled] == [added.position]


class TestCutBefore:
    """Queues that are opened when their log has grown past what was cut, beside its broker."""

    # When the broker that runs has started: before what came after the cut, and after it.
    SOON, LATE = NOW + 1000, NOW * 2 + 1000

    def cut_and_grown(self, made: Made, number: int, size: int) -> None:
        store, log = made
        cut(store, log, number)
        put(store, log.end, bytes(2 * LOG_FILE - log.end))
        for i in range(12):
            log.append(Message("o", bytes(size), queue_offset=i, store_timestamp=NOW * 2 + i))
        put(store, 0, bytes(log.data))

    @pytest.fixture
    def started(self, held):
        def start(store: Path, at_ms: int) -> None:
            held(store)
            os.utime(store / names.LOCK, ns=(at_ms * 10**6, at_ms * 10**6))

        return start

    @pytest.mark.parametrize("size", [17, 30])
    @pytest.mark.parametrize("number", [1, 3, 9])
    def test_they_end_where_it_has_cut_them(self, tmp_path, started, number, size):
        made = queue_files(tmp_path, number + 3)
        self.cut_and_grown(made, number, size)
        store, log = made
        started(store, self.SOON)
        with MessageStore.open(store, settings=settings_of()) as opened:
            assert opened.queue_now("t", 0).max_offset == number
            for i in range(number, number + 5):
                sent = Message("t", bytes(30), queue_offset=i, store_timestamp=NOW * 2 + 20)
                added = log.append(sent)
                put(store, 0, bytes(log.data))
                assert opened.queue_now("t", 0).max_offset == i
                write_entries(store, i, [added])
                assert opened.queue_now("t", 0).max_offset == i + 1
                pulled = opened.pull("t", 0, i).messages
                assert [record.physical_offset for _, record in pulled] == [added.position]

    @pytest.mark.parametrize("further", ["%LMQ%a", "%LMQ%a,%LMQ%b"])
    def test_a_message_that_goes_to_other_queues_stands_there(self, tmp_path, started, further):
        store, log = queue_files(tmp_path, 6, 120)
        size = log.places[3].size
        cut(store, log, 3)
        put(store, log.end, bytes(2 * LOG_FILE - log.end))
        said = {"INNER_MULTI_DISPATCH": further, "INNER_MULTI_QUEUE_OFFSET": "0,0"}
        empty = len(encode(Message("o", b"", said), 0))
        for i in range(6):
            log.append(Message("o", bytes(size - empty), said, store_timestamp=NOW * 2 + i))
        put(store, 0, bytes(log.data))
        started(store, self.SOON)
        with MessageStore.open(store, settings=settings_of()) as opened:
            assert opened.queue_now("t", 0).max_offset == 3

    @pytest.mark.parametrize("number", [1, 2, 5])
    def test_so_do_batch_queues(self, tmp_path, started, number):
        made = batch_files(tmp_path, number + 2)
        self.cut_and_grown(made, number, 30)
        started(made.store, self.SOON)
        with MessageStore.open(made.store, settings=settings_of()) as opened:
            assert opened.queue_now("b", 0).max_offset == number

    @pytest.mark.parametrize("left_out", ["skipped", "lost"])
    def test_entries_after_a_message_that_was_left_out_count(self, tmp_path, started, left_out):
        """
        Their numbers are lower than those of their records, which came since the broker began.
        """
        log = Log()
        for i in [0, 1, 2, *range(4, 9)]:
            log.append(Message("t", bytes(30), queue_offset=i, store_timestamp=NOW * 2 + i))
        store = log.write(tmp_path / "store")
        write_entries(store, 0, log.places)
        started(store, self.SOON)
        with MessageStore.open(store, settings=settings_of()) as opened:
            # As long as nothing is known of it, what a cut left looks like this.
            assert opened.queue_now("t", 0).max_offset == 3
        record = store / names.STATE / names.PROGRESS
        record.parent.mkdir()
        record.write_text(json.dumps({left_out: [[400, 500]]}))
        with MessageStore.open(store, settings=settings_of()) as opened:
            assert opened.queue_now("t", 0).max_offset == 8

    @pytest.mark.parametrize("is_held", [True, False])
    def test_a_broker_that_started_later_counts_what_stands_there(self, tmp_path, started, is_held):
        made = queue_files(tmp_path, 6)
        self.cut_and_grown(made, 3, 30)
        if is_held:
            started(made.store, self.LATE)
        with MessageStore.open(made.store, settings=settings_of()) as opened:
            assert opened.queue_now("t", 0).max_offset == 6

    def test_a_message_that_is_damaged_counts(self, tmp_path, started):
        made = queue_files(tmp_path, 6)
        store, log = made
        added = log.append(Message("o", bytes(30), queue_offset=0, store_timestamp=NOW * 2))
        put(store, 0, bytes(log.data))
        put(store, log.places[5].position + BODY_AT, b"\x7f")
        started(store, NOW - 1)
        with MessageStore.open(store, settings=settings_of()) as opened:
            assert opened.log.end() == added.end
            assert opened.queue_now("t", 0).max_offset == 6


class TestFollowing:
    """A log that is open while its broker appends to it, or cuts it."""

    @pytest.fixture(params=[EndedLog, CompiledLog])
    def opened(self, request, tmp_path):
        def open_it(store):
            settings = settings_of()
            return request.param(commitlog_directories(store, settings), settings, Report())

        return open_it

    def test_what_is_appended_is_in_the_log_at_once(self, opened, tmp_path):
        log = Log()
        log.append(Message("t", body=b"b" * 30, store_timestamp=NOW))
        store = log.write(tmp_path, ahead=1)
        ended = opened(store)
        for i in range(60):
            assert ended.end() <= log.end
            place = log.append(Message("t", body=b"b" * 30, store_timestamp=NOW + i))
            assert not ended.holds(place.position)
            log.write(store, ahead=1)
            ended.refresh()
            assert ended.holds(place.position)
            assert ended.end() == log.end

    def test_appending_has_no_more_read_than_what_is_new(self, opened, tmp_path, monkeypatch):
        log = Log()
        for i in range(20):
            log.append(Message("t", body=b"b" * 30, store_timestamp=NOW + i))
        store = log.write(tmp_path)
        ended = opened(store)
        ended.end()
        walked = []
        chain = ended.chain
        monkeypatch.setattr(ended, "chain", lambda start: walked.append(start) or chain(start))
        for i in range(5):
            before = log.end
            place = log.append(Message("t", body=b"b" * 30, store_timestamp=NOW + 100 + i))
            put(store, place.position, bytes(log.data[place.position :]))
            for _ in range(3):
                assert ended.holds(place.position)
            assert walked.pop() == before
            assert walked == []
            ended.refresh()

    def test_a_cut_that_changes_no_time_is_seen(self, opened, tmp_path, monkeypatch):
        """
        A page that stays dirty takes other bytes; those right before the end are as they were.
        """
        monkeypatch.setattr("reput.stores.following.log_end._WHOLE_LOOK_SECONDS", 0)
        monkeypatch.setattr("reput.stores.following.log_end._WHOLE_LOOK_SHARE", 1e9)
        monkeypatch.setattr("reput.stores.following.log_end._COMPARED_BEFORE", 64)
        log = Log()
        for i in range(12):
            log.append(Message("t", body=bytes(30), store_timestamp=NOW + i))
        store = log.write(tmp_path)
        ended = opened(store)
        path = store / "commitlog" / names.offset_file(0)
        before = path.stat()
        assert ended.end() == log.end
        cut(store, log, 2)
        log.append(Message("t", body=bytes(10), store_timestamp=NOW + 1000))
        put(store, 0, bytes(log.data))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        ended.refresh()

        assert ended.end() == log.end == ends(store)["tail"]

    @pytest.mark.parametrize("seed", range(30))
    def test_after_a_cut_the_end_is_looked_for_again(self, opened, seed, tmp_path):
        """
        Cut far back or near the end, and written on short of the old end, to it, or past it.
        """
        pick = random.Random(seed)
        log = Log()
        for i in range(pick.randint(5, 60)):
            log.append(Message("t", pick.randbytes(30), store_timestamp=NOW + i))
        store = log.write(tmp_path)
        ended = opened(store)
        assert ended.end() == log.end
        now = NOW
        for _ in range(6):
            now += 1000
            cut(store, log, pick.randrange(len(log.places)))
            for i in range(pick.randint(1, 30)):
                size = pick.choice([29, 30, 31])
                log.append(Message("t", pick.randbytes(size), store_timestamp=now + i))
            put(store, 0, bytes(log.data))
            os.utime(store / "commitlog" / names.offset_file(log.end - log.end % LOG_FILE))
            ended.refresh()
            assert ended.end() == ends(store)["tail"]

    def test_a_blank_is_the_end_until_the_next_file_is_there(self, opened, tmp_path):
        log = fill(Log(), 1, 5)
        log.blank()
        store = log.write(tmp_path)
        ended = opened(store)
        assert ended.end() == log.blanks[-1]
        place = log.append(Message("t", body=b"b" * 30, store_timestamp=NOW * 2))
        log.write(store)
        ended.refresh()
        assert ended.holds(place.position)
        assert ended.end() == log.end


class TestSpaceOfABlank:
    """A BLANK is eight bytes; in the space it stands for may be a record that was cut, whole."""

    @pytest.fixture(params=["alone", "forged", "older"])
    def made(self, request, tmp_path):
        """Return a store whose log was cut and written on, an output from before, and the cut."""
        log = Log()
        for i in range(4):
            # In a body, which nobody has to believe.
            at = LOG_FILE - log.end - BODY_AT
            body = BLANK_HEAD.pack(at, MAGIC_BLANK) if request.param == "forged" else b""
            properties = {"KEYS": f"k{i}"}
            log.append(Message("t", body, properties, queue_offset=i, store_timestamp=NOW + i))
        blank = log.places[-1].position
        gone = log.append(Message("t", b"", {"KEYS": "gone"}, queue_offset=4, store_timestamp=NOW))
        store = log.write(tmp_path / "store", ahead=1)
        rebuild(store, tmp_path / "out", broker_version="5.5", broker_conf=SMALL)
        put(store, blank, BLANK_HEAD.pack(LOG_FILE - blank, MAGIC_BLANK))
        following = Message("t", queue_offset=3, store_timestamp=NOW + 9)
        put(store, LOG_FILE, encode(following, LOG_FILE))
        if request.param == "older":
            put(store, gone.end, BLANK_HEAD.pack(LOG_FILE - gone.end, MAGIC_BLANK))
        return store, tmp_path / "out", log, gone

    @pytest.mark.parametrize("kind", [EndedLog, CompiledLog])
    def test_holds_nothing_of_the_log(self, made, kind):
        store, _, log, gone = made
        settings = settings_of()
        ended = kind(commitlog_directories(store, settings), settings, Report(), store)

        assert all(ended.holds(place.position) for place in log.places[:3])
        assert ended.holds(LOG_FILE)
        assert not ended.holds(gone.position)
        ended.close()

    @pytest.mark.parametrize("is_compiled", [False, True])
    def test_gives_nobody_a_message(self, made, is_compiled):
        """
        Not by its key, its place in the queue or its id, though the output has had it.
        """
        store, output, _, gone = made
        with MessageStore.open(store, output, settings_of(), is_compiled=is_compiled) as messages:
            for _ in range(2):
                assert messages.by_key("t", "gone").messages == []
                kept = messages.by_keys("t", ["k1", "gone"])
                assert [len(answer.messages) for answer in kept] == [1, 0]
                with pytest.raises(NoRecordError):
                    messages.at(gone.position)
                assert [number for number, _ in messages.pull("t", 0, 3, 9).messages] == []
                messages.refresh()


def test_a_log_with_a_missing_file_is_read_to_its_end(tmp_path):
    """
    What is missing is before the last file with anything in it, so it ends nothing.
    """
    log = Log()
    for i in range(80):
        log.append(Message("t", body=b"b" * 30, store_timestamp=NOW + i))
    store = log.write(tmp_path, ahead=1)
    (store / "commitlog" / names.offset_file(LOG_FILE)).unlink()
    settings = settings_of()
    for kind in (EndedLog, CompiledLog):
        ended = kind(commitlog_directories(store, settings), settings, Report())
        assert ended.end() == log.end
        found = [ended.holds(place.position) for place in log.places]
        assert all(found)


class Growing(NamedTuple):
    """A log of ten records, of which the file has five so far."""

    log: Log
    path: Path
    whole: bytes

    def grow(self):
        with self.path.open("r+b") as file:
            file.write(self.whole)


@pytest.fixture
def growing(tmp_path):
    log = Log(1 << 16)
    for number in range(10):
        log.append(Message("t", b"x" * 50, {}, 0, number, store_timestamp=1000 + number))
    log.write(tmp_path / "store")
    (path,) = (tmp_path / "store" / "commitlog").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: log.places[4].end].ljust(len(whole), b"\0"))
    return Growing(log, path, whole)


@pytest.mark.parametrize("kind", [EndedLog, CompiledLog])
class TestBursts:
    """Records that come at the moment of a look are found, though nothing comes after them."""

    def opened(self, kind, growing):
        settings = settings_of(mappedFileSizeCommitLog=str(1 << 16))
        return kind([growing.path.parent], settings, Report())

    def test_some_stood_there_when_an_entry_came_for_one_before_them(self, growing, kind):
        found, places = self.opened(kind, growing), growing.log.places
        assert found.end() == places[4].end
        growing.grow()
        found.reached(places[6].position, places[6].size)
        assert found.grown_to(places[9].end) == places[9].end

    @pytest.mark.parametrize("at", [20, 140, 400, -20])
    def test_one_was_half_copied_when_the_end_was_looked_for(self, growing, kind, at):
        """
        What is missing may be any part of it: its first bytes, those of its body or properties.
        """
        log, path = growing.log, growing.path
        begin = log.end
        last = log.append(Message("t", b"x" * 500, {"KEYS": "k" * 50}, 0, 10, store_timestamp=1010))
        raw = bytes(log.data[begin:])
        growing.grow()
        with path.open("r+b") as file:
            file.seek(begin)
            file.write(raw[:at])
        (growing.path.parent.parent / names.ABORT).touch()
        found = self.opened(kind, growing)
        assert found.end() == begin
        with path.open("r+b") as file:
            file.seek(begin)
            file.write(raw)
        assert found.is_uncut_now()
        assert found.grown_to(last.position) == last.end

    def test_one_begins_a_file_and_was_half_copied(self, growing, kind):
        log, path = growing.log, growing.path
        growing.grow()
        log.blank()
        begin = log.end
        last = log.append(Message("t", b"x" * 500, {}, 0, 10, store_timestamp=1010))
        raw = bytes(log.data[begin:])
        found = self.opened(kind, growing)
        assert found.end() == log.places[9].end
        del log.data[begin + 200 :]
        log.write(path.parent.parent)
        assert found.grown_to(last.position) == begin
        log.data += raw[200:]
        log.write(path.parent.parent)
        assert found.grown_to(last.position) == last.end

    def test_one_that_is_doubted_counts_once_its_broker_is_gone(self, growing, kind, monkeypatch):
        """
        It is whole, and ends with a byte that a copy in progress would not have reached yet.
        """
        log = growing.log
        last = log.append(Message("t", b"x", {"KEYS": "a"}, 0, 10, store_timestamp=1010))
        log.data[-1] = 0
        log.write(growing.path.parent.parent)
        found = self.opened(kind, growing)
        with monkeypatch.context() as patched:
            patched.setattr(found, "is_at_rest", lambda: False)
            assert found.end() == found.grown_to(last.end) == last.position
        monkeypatch.setattr(found, "is_at_rest", lambda: True)
        assert found.grown_to(last.end) == last.end

    def test_none_that_was_cut_counts_after_an_entry_has_come(self, growing, kind):
        """
        Records of old stand past the one of the entry, whole. It is newer than they are.
        """
        log, store = growing.log, growing.path.parent.parent
        growing.grow()
        found = self.opened(kind, growing)
        assert found.end() == log.end
        cut(store, log, 5)
        added = log.append(Message("other", b"y" * 200, store_timestamp=2000))
        log.write(store)
        growing.grow()
        with growing.path.open("r+b") as file:
            file.write(log.data)
        assert not found.is_uncut_now()
        assert found.grown_to(added.position) == added.end
        entry = log.append(Message("other", b"y" * 7, store_timestamp=2001))
        with growing.path.open("r+b") as file:
            file.write(log.data)
        found.reached(entry.position, entry.size)

        assert found.grown_to(entry.end) == entry.end

    def test_some_came_while_the_end_was_looked_for(self, growing, kind, monkeypatch):
        found, places = self.opened(kind, growing), growing.log.places
        resumed = found._resumed

        def and_grow(*where):
            seen = resumed(*where)
            growing.grow()
            return seen

        with monkeypatch.context() as patched:
            patched.setattr(found, "_resumed", and_grow)
            assert found.end() == places[9].end
        assert found.holds(places[9].position)
        assert found.grown_to(places[9].end) == places[9].end
