"""What is kept of messages that consumers send back: delays, kills, torn appends, room, age."""

from __future__ import annotations

import dataclasses
import multiprocessing
import random

import pytest

from reput.checkpoints.disk import appending
from reput.formats.errors import FormatError, StoreError
from reput.formats.rocketmq.broker import settings_of
from reput.formats.rocketmq.commitlog import Record
from reput.formats.rocketmq.encode import Message
from reput.remoting.keeping import records
from reput.remoting.keeping.keeper import own_settings
from reput.remoting.keeping.kept import FullError, Kept, Rules
from reput.remoting.keeping.log import FIRST
from reput.remoting.keeping.queues import FILE_SIZE as QUEUE_SIZE
from reput.remoting.keeping.records import Wanted
from reput.remoting.reading.hosts import Host
from reput.stores.query.message_store import MessageStore
from reput.streaming.settings.config import store_config
from reput.streaming.verify.output import verify

FILE = 1 << 14
RULES = Rules(4 * FILE, (1000, 5000, 10_000), 10**9, FILE)
HERE = Host("127.0.0.1", 10911)
NOW = 1_700_000_000_000
RETRY, DEAD = "%RETRY%g", "%DLQ%g"


def opened(directory, rules=RULES, consumed=lambda topic, queue_id: None) -> Kept:
    return Kept(directory, rules, consumed)


def a_message(number=0, level=1, size=10, topic=RETRY) -> Message:
    said = {"DELAY": str(level), "ORIGIN_MESSAGE_ID": f"ID{number}", "UNIQ_KEY": f"U{number}"}
    return Message(topic, b"x" * size, said, 1)


def read(directory, topic=RETRY, queue_id=1) -> list[Record]:
    settings = dataclasses.replace(own_settings(settings_of("5.5")), commitlog_file_size=FILE)
    with MessageStore.open(directory, settings=settings) as store:
        return [record for _, record in store.messages(topic, queue_id, 0)]


def origins(directory, **queue) -> list[str]:
    return [each.properties["ORIGIN_MESSAGE_ID"] for each in read(directory, **queue)]


class TestDelays:
    def test_a_message_is_there_once_its_delay_is_over(self, tmp_path):
        kept = opened(tmp_path)
        kept.put([a_message(1, 2), a_message(2, 1)], NOW)

        assert (kept.next_due_ms, len(kept)) == (NOW + 1000, 2)
        assert kept.deliver(NOW + 999) == 0
        assert kept.deliver(NOW + 1000) == 1
        assert origins(tmp_path) == ["ID2"]
        assert kept.deliver(NOW + 6000) == 1
        assert origins(tmp_path) == ["ID2", "ID1"]
        assert kept.next_due_ms is None

    def test_a_level_that_is_too_great_is_the_last_one(self, tmp_path):
        kept = opened(tmp_path)
        kept.put([a_message(1, 99)], NOW)

        assert kept.next_due_ms == NOW + 10_000
        kept.deliver(NOW + 10_000)
        assert read(tmp_path)[0].properties["DELAY"] == "3"

    def test_dead_letters_do_not_wait(self, tmp_path):
        kept = opened(tmp_path)
        kept.put([a_message(1, 0, topic=DEAD)], NOW)

        assert origins(tmp_path, topic=DEAD) == ["ID1"]
        assert len(kept) == 0


class TestRestart:
    def test_what_waits_still_waits_and_what_came_does_not_come_twice(self, tmp_path):
        kept = opened(tmp_path)
        kept.put([a_message(1, 1), a_message(2, 2), a_message(1, 2)], NOW)
        kept.deliver(NOW + 1000)
        kept.close()

        again = opened(tmp_path)
        assert (len(again), again.cut) == (2, 0)
        assert again.deliver(NOW + 1000) == 0
        assert again.deliver(NOW + 5000) == 2
        assert origins(tmp_path) == ["ID1", "ID2", "ID1"]

    def test_queues_are_made_again(self, tmp_path):
        kept = opened(tmp_path)
        kept.put([a_message(number) for number in range(5)], NOW)
        kept.deliver(NOW + 1000)
        kept.close()
        for path in (tmp_path / "consumequeue").rglob("0" * 20):
            path.unlink()

        again = opened(tmp_path)
        assert again.queues.ends[RETRY, 1] == 5
        assert origins(tmp_path) == [f"ID{number}" for number in range(5)]

    @pytest.mark.parametrize("seed", range(8))
    def test_an_append_that_a_crash_left_in_part_is_removed(self, tmp_path, seed):
        """
        Its records may be there in any order; nobody was told that they are kept.
        """
        kept = opened(tmp_path)
        kept.put([a_message(0)], NOW)
        end = kept._log.end
        kept.put([a_message(number, size=300) for number in range(1, 6)], NOW + 1)
        kept.close()
        path = tmp_path / "commitlog" / f"{FIRST:020d}"
        raw = bytearray(path.read_bytes())
        hole = random.Random(seed).randrange(end - FIRST, end - FIRST + 200)
        raw[hole : hole + 200] = bytes(200)
        path.write_bytes(raw)

        again = opened(tmp_path)
        assert len(again) == 1
        assert again.cut > 0
        again.put([a_message(7)], NOW + 2)
        again.deliver(NOW + 9999)
        again.close()
        assert origins(tmp_path) == ["ID0", "ID7"]
        assert opened(tmp_path).cut == 0

    @pytest.mark.parametrize("left", [1, 20, 60])
    def test_a_record_whose_properties_a_crash_left_in_part_is_removed(self, tmp_path, left):
        """
        Nothing but the zeros tells: no checksum covers them, and all its lengths are right.
        """
        kept = opened(tmp_path)
        kept.put([a_message(1)], NOW)
        (placed,) = kept.put([a_message(2)], NOW + 1)
        kept.close()
        (path,) = (tmp_path / "commitlog").iterdir()
        with path.open("r+b") as file:
            file.seek(placed.position - FIRST + placed.size - left)
            file.write(bytes(left))
        kept = opened(tmp_path)
        assert (len(kept), kept.cut > 0) == (1, True)
        kept.put([a_message(3)], NOW + 2)
        assert kept.deliver(NOW + 5000) == 2
        kept.close()

        assert origins(tmp_path) == ["ID1", "ID3"]

    def test_a_property_that_looks_like_it_is_not_taken(self, tmp_path):
        kept = opened(tmp_path)
        with pytest.raises(ValueError, match="zero byte"):
            kept.put([a_message(1)._replace(properties={"KEYS": "a\0b"})], NOW)
        kept.put([a_message(2, 0)], NOW)
        kept.close()

        assert origins(tmp_path) == ["ID2"]

    @pytest.mark.parametrize("group", ["x/../../../../out", "a/b", "g" * 251])
    def test_a_group_that_names_no_directory_is_refused(self, tmp_path, group):
        """
        Brokers of 4.9 take any name of a group, and any client can name one.
        """
        (tmp_path / "kept").mkdir()
        kept = opened(tmp_path / "kept")
        for topic in (f"%DLQ%{group}", f"%RETRY%{group}"):
            with pytest.raises(ValueError, match="name is not one"):
                kept.put([a_message(1, topic=topic)], NOW)
        kept.put([a_message(2, 0)], NOW)
        kept.close()

        assert origins(tmp_path / "kept") == ["ID2"]
        assert [path.name for path in tmp_path.iterdir()] == ["kept"]

    def test_damage_that_no_crash_leaves_is_an_error(self, tmp_path):
        kept = opened(tmp_path)
        for number in range(4):
            kept.put([a_message(number)], NOW + number)
        kept.close()
        path = tmp_path / "commitlog" / f"{FIRST:020d}"
        raw = bytearray(path.read_bytes())
        raw[95] ^= 1
        path.write_bytes(raw)

        with pytest.raises(FormatError, match="records follow"):
            opened(tmp_path)

    def test_a_file_that_is_gone_is_an_error(self, tmp_path):
        kept = opened(tmp_path)
        for number in range(3):
            kept.put([a_message(number, 0, size=9000, topic=DEAD)], NOW + number)
        kept.close()
        (tmp_path / "commitlog" / f"{FIRST + FILE:020d}").unlink()

        with pytest.raises(FormatError, match="the file is not there"):
            opened(tmp_path)

    def test_one_process_has_it(self, tmp_path):
        kept = opened(tmp_path)
        context = multiprocessing.get_context("spawn")
        with context.Pool(1) as pool:
            assert pool.apply(refusal_of, (tmp_path,)) == "another process keeps"
        kept.close()


def refusal_of(directory) -> str:
    try:
        opened(directory)
    except StoreError as error:
        return "another process keeps" if "another process keeps" in str(error) else str(error)
    return "opened"


class TestFailures:
    def test_a_full_disk_loses_nothing_that_was_kept(self, tmp_path, monkeypatch):
        kept = opened(tmp_path)
        kept.put([a_message(1)], NOW)
        real = appending.write_into

        def fails(path, start, data, *, syncs=True):
            real(path, start, data[: len(data) // 2], syncs=syncs)
            raise OSError(28, "No space left on device", str(path))

        with monkeypatch.context() as patched:
            patched.setattr(appending, "write_into", fails)
            with pytest.raises(OSError, match="No space"):
                kept.put([a_message(2)], NOW)
            with pytest.raises(OSError, match="No space"):
                kept.deliver(NOW + 5000)
        assert len(kept) == 1
        kept.put([a_message(3)], NOW + 1)
        kept.deliver(NOW + 5000)
        kept.close()

        assert origins(tmp_path) == ["ID1", "ID3"]
        assert len(opened(tmp_path)) == 0

    @pytest.mark.parametrize("written", [0, 10, 20])
    def test_what_was_refused_is_not_there_after_the_next_start(
        self, tmp_path, monkeypatch, written
    ):
        """
        The log has taken the message, and its queue has no space.
        """
        kept = opened(tmp_path)
        kept.put([a_message(1)], NOW)
        kept.deliver(NOW + 5000)
        real = appending.write_into

        def fails(path, start, data, *, syncs=True):
            if "consumequeue" in path.parts and any(data):
                real(path, start, data[:written], syncs=syncs)
                raise OSError(28, "No space left on device", str(path))
            real(path, start, data, syncs=syncs)

        for _ in range(3):
            with monkeypatch.context() as patched:
                patched.setattr(appending, "write_into", fails)
                with pytest.raises(OSError, match="No space"):
                    kept.put([a_message(2), a_message(3)], NOW + 6000)
        kept.close()
        kept = opened(tmp_path)
        assert len(kept) == 0
        kept.put([a_message(4)], NOW + 7000)
        kept.deliver(NOW + 20_000)
        kept.close()

        assert origins(tmp_path) == ["ID1", "ID4"]

    def test_a_queue_is_as_it_was_where_there_is_no_space_for_its_next_entry(
        self, tmp_path, monkeypatch
    ):
        """
        There is none for zeros in its place either. What comes later stands after what is there.
        """
        kept = opened(tmp_path)
        kept.put([a_message(1, 0)], NOW)
        real = appending.write_into

        def fails(path, start, data, *, syncs=True):
            if "consumequeue" in path.parts and start >= 60:
                raise OSError(28, "No space left on device", str(path))
            real(path, start, data, syncs=syncs)

        with monkeypatch.context() as patched:
            patched.setattr(appending, "write_into", fails)
            sent = [a_message(number, 0) for number in (2, 3, 4)]
            with pytest.raises(OSError, match="No space"):
                kept.put([*sent, a_message(5, 0, topic=DEAD)], NOW + 1)
        kept.put([a_message(6, 0)], NOW + 2)
        kept.close()

        assert origins(tmp_path) == ["ID1", "ID6"]

    def test_what_was_refused_for_want_of_the_next_file_is_not_there_later(
        self, tmp_path, monkeypatch
    ):
        """
        A part of the append stands in the file that is there.
        """
        kept = opened(tmp_path)

        def fails(path, _size):
            raise OSError(28, "No space left on device", str(path))

        with monkeypatch.context() as patched:
            patched.setattr(appending, "make_full_file", fails)
            with pytest.raises(OSError, match="No space"):
                kept.put([a_message(number, 0, 6000) for number in range(3)], NOW)
        kept.close()
        kept = opened(tmp_path)
        kept.put([a_message(6, 0)], NOW + 1)
        kept.close()

        assert origins(tmp_path) == ["ID6"]

    def test_entries_of_what_was_taken_back_do_not_count_after_a_kill(self, tmp_path, monkeypatch):
        """
        The kill comes once the log is as it was. The consumer sends its message back again.
        """
        kept = opened(tmp_path)
        real = appending.write_into

        def fails(path, start, data, *, syncs=True):
            if "consumequeue" in path.parts and start:
                raise OSError(28, "No space left on device", str(path))
            real(path, start, data, syncs=syncs)

        with monkeypatch.context() as patched:
            patched.setattr(appending, "write_into", fails)
            patched.setattr(kept.queues, "take_back", lambda _ends: None)
            with pytest.raises(OSError, match="No space"):
                kept.put([a_message(1, 0), a_message(2, 0)], NOW)
        kept.close()
        kept = opened(tmp_path)
        kept.put([a_message(1, 0), a_message(2, 0)], NOW + 1)
        kept.close()

        assert origins(tmp_path) == ["ID1", "ID2"]

    def test_a_start_whose_disk_fails_keeps_no_later_one_from_it(self, tmp_path, monkeypatch):
        """
        The later one is in the same process, which tries a store again that it cannot serve.
        """
        kept = opened(tmp_path)
        kept.put([a_message(1, 0)], NOW)
        (placed,) = kept.put([a_message(2, 0)], NOW + 1)
        kept.close()
        (path,) = (tmp_path / "commitlog").iterdir()
        with path.open("r+b") as file:
            file.seek(placed.position - FIRST)
            file.write(bytes(placed.size))

        def fails(path, *_args, **_options):
            raise OSError(5, "Input/output error", str(path))

        with monkeypatch.context() as patched:
            patched.setattr(appending, "write_into", fails)
            with pytest.raises(OSError, match="Input/output"):
                opened(tmp_path)
        kept = opened(tmp_path)
        kept.put([a_message(3, 0)], NOW + 2)
        kept.close()

        assert origins(tmp_path) == ["ID1", "ID3"]

    def test_a_start_that_had_no_space_for_the_log_keeps_no_later_one_from_it(self, tmp_path):
        log = tmp_path / "commitlog"
        log.mkdir()
        (log / f"{FIRST:020}").touch()
        kept = opened(tmp_path)
        kept.put([a_message(1)], NOW)
        kept.deliver(NOW + 5000)
        kept.close()

        assert origins(tmp_path) == ["ID1"]


def fill(kept: Kept, topic: str, level: int) -> int:
    """
    Put messages until there is no room; return how many.
    """
    for number in range(1000):
        try:
            kept.put([a_message(number, level, 1000, topic)], NOW + number)
        except FullError:
            return number
    raise AssertionError("it takes everything")


class TestRoom:
    def test_no_more_than_it_may_take(self, tmp_path):
        """
        What waits can always be delivered: its copy has its room from the beginning.
        """
        kept = opened(tmp_path)
        count = fill(kept, RETRY, 1)
        assert count > 4
        kept.deliver(NOW + 5000)

        assert len(read(tmp_path)) == count
        assert kept.size <= RULES.most_bytes

    def test_what_was_consumed_makes_room(self, tmp_path):
        done: dict[str, int] = {}
        kept = opened(tmp_path, consumed=lambda topic, _: done.get(topic))
        for number in range(60):
            kept.put([a_message(number, size=1000)], NOW + number * 5000)
            kept.deliver(NOW + number * 5000 + 4000)
            done[RETRY] = kept.queues.ends[RETRY, 1]
        kept.close()

        assert kept.size <= RULES.most_bytes
        assert origins(tmp_path)[-1] == "ID59"
        again = opened(tmp_path)
        assert again.queues.ends[RETRY, 1] == 60

    def test_dead_letters_stay_until_they_are_old(self, tmp_path):
        kept = opened(tmp_path, consumed=lambda *_: 10**9)
        fill(kept, DEAD, 0)
        assert kept.expire(NOW + 10**9 + 2000)
        kept.put([a_message(1)], NOW + 10**9 + 2000)
        kept.close()

        assert opened(tmp_path).queues.ends[DEAD, 1] > 0

    def test_what_waits_does_not_go_with_age(self, tmp_path):
        rules = RULES._replace(delays=(10**12,))
        kept = opened(tmp_path, rules)
        kept.put([a_message(1, size=9000)], NOW)
        kept.put([a_message(2, size=9000)], NOW)

        assert not kept.expire(NOW + 10**11)

    def test_queue_files_go_with_the_log(self, tmp_path):
        kept = opened(tmp_path, consumed=lambda *_: 10**9)
        for number in range(2100):
            kept.put([a_message(number, 0)], NOW + number)

        first = min((tmp_path / "consumequeue" / RETRY / "1").iterdir()).name
        assert int(first) >= QUEUE_SIZE
        assert origins(tmp_path)[-1] == "ID2099"

    def test_a_message_that_fits_into_no_file(self, tmp_path):
        kept = opened(tmp_path, RULES._replace(most_bytes=1 << 20))
        with pytest.raises(ValueError, match="does not fit"):
            kept.put([a_message(1, size=FILE)], NOW)
        kept.put([a_message(2, 0)], NOW)
        assert origins(tmp_path) == ["ID2"]


class TestRecords:
    RECORD = Record(
        100, 200, 3, 7, 5, 0x10, NOW - 9, "[::1]:4000", NOW, "10.0.0.1:10911", 2, 0, b"body", "t",
        {"KEYS": "k", "UNIQ_KEY": "U", "__CRC32#": "0123456789"},
    )  # fmt: skip

    def test_the_properties_are_a_brokers(self):
        made = records.sent_back(self.RECORD, Wanted("g", 0, 16), "ORIGIN", HERE)

        assert (made.topic, made.reconsume_times, made.flag) == (RETRY, 3, 7)
        assert (made.born_host, made.born_port, made.sys_flag) == ("::1", 4000, 0)
        assert (made.store_host, made.store_port) == HERE
        assert dict(made.properties) == {
            "KEYS": "k",
            "UNIQ_KEY": "U",
            "RETRY_TOPIC": "t",
            "WAIT": "false",
            "DELAY": "5",
            "ORIGIN_MESSAGE_ID": "ORIGIN",
        }

    @pytest.mark.parametrize("wanted", [Wanted("g", -1, 16), Wanted("g", 3, 2)])
    def test_no_more_tries(self, wanted):
        made = records.sent_back(self.RECORD, wanted, "ORIGIN", HERE)

        assert (made.topic, made.reconsume_times, made.properties["DELAY"]) == (DEAD, 3, "0")

    def test_where_it_came_from_stays(self):
        said = {"RETRY_TOPIC": "first", "ORIGIN_MESSAGE_ID": "FIRST"}
        again = self.RECORD._replace(topic=RETRY, properties=said)
        made = records.sent_back(again, Wanted("g", 1, 16), "SECOND", HERE)

        assert made.properties | said == made.properties


def test_it_is_a_store_as_a_broker_has_it(tmp_path):
    kept = opened(tmp_path)
    for number in range(40):
        kept.put([a_message(number, number % 3, size=number * 20)], NOW + number * 100)
        kept.deliver(NOW + number * 100)
    kept.close()
    conf = {
        "mappedFileSizeCommitLog": str(FILE),
        "mappedFileSizeConsumeQueue": str(QUEUE_SIZE),
        "messageIndexEnable": "false",
        "messageDelayLevel": "1s 5s 10s",
    }
    report = verify(store_config(tmp_path, None, in_place=True, broker_conf=conf))

    assert [each.path for each in report.findings] == [str(tmp_path / "checkpoint")]
    assert (report.lacking, report.entries) == (0, report.messages)
