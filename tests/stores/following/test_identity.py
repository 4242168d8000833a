"""Whether a log is still the one that was read: sums of files, and when they are looked at."""

from __future__ import annotations

import os
import random
import time

import pytest

from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import Record, Verdict, read
from reput.formats.rocketmq.encode import Message, encode_blank
from reput.formats.rocketmq.record_hash import hash_of
from reput.stores.following import file_walk, vouch
from reput.stores.following.file_walk import FileWalk
from reput.stores.following.head_cursor import HeadCursor
from reput.stores.following.heartbeat import Heartbeat
from reput.stores.following.identity import compare
from reput.stores.following.known import FileHeads, Known, gone_back, settled, with_records
from reput.stores.following.vouch import Vouch
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.trail import Fingerprint, Point
from tests.builders.stores import LOG_FILE, Log, config_of, fill

OLD = 1_700_000_000


def open_log(path) -> CommitLog:
    settings = config_of(path, path.with_name("out")).settings
    return CommitLog(commitlog_directories(path, settings), settings, path)


def age(path) -> None:
    """Make the files old: then their times tell of any write."""
    for file in (path / names.COMMITLOG).iterdir():
        os.utime(file, (OLD, OLD))


def known_of(log: Log, *, every: int = 3) -> Known:
    """Return what a slow reader knows of a log, with a point at some records."""
    files: tuple[FileHeads, ...] = ()
    points = []
    for number, place in enumerate(log.places):
        raw = bytes(log.data[place.position : place.end])
        base = place.position // log.file_size * log.file_size
        files = with_records(files, base, hash_of(raw), hash_of(raw))
        if number % every == 0:
            record = Fingerprint(place.position, place.size, hash_of(raw))
            points.append(Point(record, place.end, files[-1].heads))
    return Known(files, points, log.places[-1].end, {})


@pytest.fixture
def store(tmp_path):
    log = fill(Log(), 3, 60)
    log.write(tmp_path)
    return tmp_path, log


class TestCompare:
    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("step", [1, 700, 1 << 20])
    def test_a_log_that_is_as_it_was(self, tmp_path, seed, step):
        """
        File by file, in steps of any size, up to an end that may be after a BLANK.
        """
        log = fill(Log(), seed, 60)
        if seed % 2:
            log.blank()
        log.write(tmp_path)
        known = known_of(log)._replace(end=log.end)
        files = open_log(tmp_path)
        for number in range(len(known.files)):
            walk = FileWalk(files, known, number)
            while not walk.is_over:
                walk.step(step)
            assert walk.is_same
        found = compare(files, known)
        assert (found.is_same, found.common, found.damaged) == (True, known.points[-1], None)

    @pytest.mark.parametrize("seed", range(30))
    def test_where_one_record_differs(self, tmp_path, seed):
        """
        The point before it is the last one in common, if its file is the last one.
        """
        pick = random.Random(seed)
        log = fill(Log(), seed, 60)
        log.write(tmp_path)
        known = known_of(log, every=pick.randrange(1, 9))
        place = pick.choice([p for p in log.places if p.position >= known.files[-1].base])
        path = tmp_path / names.COMMITLOG / names.offset_file(known.files[-1].base)
        # Of the head: the broker's clock has advanced.
        at = place.position - known.files[-1].base + 40
        raw = bytearray(path.read_bytes())
        raw[at] ^= 1
        path.write_bytes(raw)

        found = compare(open_log(tmp_path), known)

        before = [p for p in known.points if p.end <= place.position]
        assert not found.is_same
        assert found.common == (before[-1] if before else None)
        assert found.is_related

    def test_a_file_of_before_that_differs_is_damaged(self, store):
        path, log = store
        known = known_of(log)
        first = path / names.COMMITLOG / names.offset_file(0)
        raw = bytearray(first.read_bytes())
        raw[40] ^= 1
        first.write_bytes(raw)

        found = compare(open_log(path), known)

        assert (found.is_same, found.damaged) == (True, 0)

    def test_a_store_that_has_none_of_the_records(self, store, tmp_path_factory):
        _, log = store
        other = tmp_path_factory.mktemp("other")
        fill(Log(), 4, 60).write(other)

        found = compare(open_log(other), known_of(log))

        assert (found.is_same, found.common, found.is_related) == (False, None, False)

    def test_files_that_expired_do_not_count(self, store):
        path, log = store
        known = known_of(log)
        (path / names.COMMITLOG / names.offset_file(0)).unlink()

        found = compare(open_log(path), known)

        assert found.is_same
        kept = settled(known.files, found.certain, LOG_FILE)
        assert [file.base for file in kept] == [f.base for f in known.files if f.base]

    def test_files_that_expire_while_they_are_compared_do_not_count(self, store):
        """
        They are removed after the look at the files, oldest first: nothing is damaged, nothing cut.
        """
        path, log = store
        known = known_of(log)
        files = open_log(path)
        for base in (0, LOG_FILE):
            (path / names.COMMITLOG / names.offset_file(base)).unlink()

        found = compare(files, known)

        assert (found.is_same, found.damaged) == (True, None)
        assert found.common == known.points[-1]
        assert set(found.certain) == {f.base for f in known.files if f.base >= 2 * LOG_FILE}

    def test_all_that_is_known_may_expire_while_it_is_compared(self, store):
        path, log = store
        base = log.end // LOG_FILE * LOG_FILE
        known = known_of(log)
        known = known._replace(
            files=known.files[:2],
            points=[p for p in known.points if p.end <= 2 * LOG_FILE],
            end=2 * LOG_FILE,
        )
        files = open_log(path)
        for gone in range(0, base, LOG_FILE):
            (path / names.COMMITLOG / names.offset_file(gone)).unlink()

        found = compare(files, known)

        assert (found.is_same, found.common, found.damaged) == (True, None, None)

    def test_a_file_that_is_cut_off_while_it_is_compared_counts(self, store):
        """
        It goes, too, but it is the last one: the log has not moved on, it has been cut.
        """
        path, log = store
        known = known_of(log)
        files = open_log(path)
        last = known.files[-1].base
        (path / names.COMMITLOG / names.offset_file(last)).unlink()

        found = compare(files, known)

        assert (found.is_same, found.damaged) == (False, None)
        assert found.common == [p for p in known.points if p.end <= last][-1]

    def test_places_that_were_passed_over(self, tmp_path):
        """
        A gap in a file, and one up to its end.
        """
        log = fill(Log(), 5, 60)
        known = known_of(log)
        gap = log.places[4]
        last = [p for p in log.places if p.end <= LOG_FILE][-1]
        for place in (gap, last):
            log.data[place.position : place.end] = b"\xff" * place.size
        kept = [p for p in log.places if p not in (gap, last)]
        log.places = kept
        known = known_of(log)._replace(gaps={gap.position: gap.end, last.position: LOG_FILE})
        log.write(tmp_path)

        assert compare(open_log(tmp_path), known).is_same

    def test_a_record_longer_than_a_piece(self, tmp_path, monkeypatch):
        monkeypatch.setattr(file_walk, "_STEP", 128)
        log = Log()
        for size in (900, 10, 2000, 1):
            log.append(Message("t", body=bytes(size)))
        log.write(tmp_path)

        assert compare(open_log(tmp_path), known_of(log)).is_same

    def test_an_untouched_file_is_not_read_unless_it_is_the_last(self, store, monkeypatch):
        path, log = store
        age(path)
        files = open_log(path)
        known = known_of(log)
        found = compare(files, known)
        certain = known._replace(files=settled(known.files, found.certain, 0))
        step, walked = FileWalk.step, set()

        def note(walk, most):
            walked.add(walk.file.base)
            step(walk, most)

        monkeypatch.setattr(FileWalk, "step", note)

        assert compare(files, certain).is_same
        assert walked == {known.files[-1].base}
        assert compare(files, certain, is_thorough=True).is_same
        assert walked == {file.base for file in known.files}

    @pytest.mark.parametrize("back", [1, 20, 50])
    def test_a_cut_that_changes_no_time_is_found(self, tmp_path, back):
        """
        Whatever the stamps say: the last file is compared, and those before a changed one.
        """
        log = fill(Log(), 3, 60)
        known = known_of(log, every=1)
        kept = log.places[-back - 1]
        log.places = log.places[:-back]
        del log.data[kept.end :]
        fill(log, 4, max(back - 1, 1))
        log.write(tmp_path)
        files = open_log(tmp_path)
        stamped = [file._replace(stamp=files.stamps.get(file.base)) for file in known.files]

        found = compare(files, known._replace(files=tuple(stamped)))

        assert not found.is_same
        assert found.common is not None
        assert found.common.end == kept.end

    def test_a_damaged_file_before_hides_no_cut(self, tmp_path):
        """
        Between them stands a file that is the same: each is what it is.
        """
        log = fill(Log(), 3, 90)
        known = known_of(log, every=1)
        assert len(known.files) > 3
        log.places = log.places[:-2]
        end = log.places[-1].end
        del log.data[end:]
        fill(log, 4, 1)
        damaged = known.files[1].base
        log.data[damaged + 60] ^= 1
        log.write(tmp_path)

        found = compare(open_log(tmp_path), known)

        assert not found.is_same
        assert found.common is not None
        assert found.common.end == end
        assert found.damaged == damaged

    def test_a_young_stamp_is_not_kept(self, store):
        """
        A page that is dirty is written to again without a change of times.
        """
        path, log = store
        known = known_of(log)
        files = open_log(path)

        kept = settled(known.files, compare(files, known).certain, 0)

        assert all(file.stamp is None for file in kept)

    def test_going_back(self, store):
        """
        What is known up to a point is what would be known if that had been the end.
        """
        _, log = store
        known = known_of(log, every=1)
        for point in known.points:
            files: tuple[FileHeads, ...] = ()
            for place in log.places:
                if place.end <= point.end:
                    value = hash_of(bytes(log.data[place.position : place.end]))
                    base = place.position // LOG_FILE * LOG_FILE
                    files = with_records(files, base, value, value)
            assert gone_back(tuple(known.files), point, LOG_FILE) == files


class TestCursor:
    @pytest.mark.parametrize("step", [100, 4096])
    def test_sums_are_those_of_the_files(self, store, monkeypatch, step):
        monkeypatch.setattr("reput.stores.following.head_cursor._STEP", step)
        path, log = store
        cursor = HeadCursor(open_log(path))
        pick = random.Random(1)
        places = sorted(pick.sample(range(1, log.end), 40)) + [pick.randrange(1, log.end)] * 3
        for place in places:
            base = (place - 1) // LOG_FILE * LOG_FILE
            started = [p for p in log.places if base <= p.position < place]
            wanted = sum(hash_of(bytes(log.data[p.position : p.end])) for p in started)
            assert cursor.sum_to(place) == wanted & (1 << 64) - 1
            assert compare(open_log(path), cursor.known()).is_same

    def test_at_the_beginning_there_is_none(self, store):
        assert HeadCursor(open_log(store[0])).sum_to(0) is None


class TestVouch:
    @pytest.fixture
    def watched(self, store):
        path, log = store
        for _ in range(5):
            log.append(Message("t", b"y"))
        log.write(path)
        age(path)
        files = open_log(path)
        return path, log, files, Vouch(files, path), known_of(log, every=1)

    @pytest.fixture(autouse=True)
    def no_rest(self, monkeypatch):
        monkeypatch.setattr(vouch, "_REST_SECONDS", 0)

    def look(self, watched, known=None, *, is_at_rest=False):
        files, keeper = watched[2], watched[3]
        files.refresh()
        return keeper.look(known or watched[4], is_at_rest=is_at_rest)

    def last(self, path, log):
        return path / names.COMMITLOG / names.offset_file((log.end - 1) // LOG_FILE * LOG_FILE)

    def write_last(self, path, log):
        base = (log.end - 1) // LOG_FILE * LOG_FILE
        self.last(path, log).write_bytes(bytes(log.data[base:]).ljust(LOG_FILE, b"\0"))

    def write_after(self, path, log, data):
        raw = bytearray(self.last(path, log).read_bytes())
        at = log.end % LOG_FILE
        raw[at : at + len(data)] = data
        self.last(path, log).write_bytes(raw)

    def test_nothing_happens(self, watched):
        assert self.look(watched) is None
        assert self.look(watched) is None

    def test_the_log_grows(self, watched):
        """
        A record right after the last one: nothing is compared.
        """
        path, log, *_ = watched
        self.look(watched)
        log.append(Message("t", b"x"))
        self.write_last(path, log)

        assert self.look(watched) is None

    @pytest.mark.parametrize(
        "head",
        [b"\xff" * 8, b"\0\0\0\xff\xff\xff\xff\xff", b"\x80" + bytes(7), encode_blank(8)],
        ids=["ones", "another magic", "a size below zero", "a BLANK"],
    )
    def test_what_follows_cannot_become_a_record(self, watched, head):
        """
        No broker has written it after the last record, so the file is compared: it was cut before.
        """
        path, log, *_ = watched
        self.look(watched)
        self.write_after(path, log, head)

        found = self.look(watched)

        assert found is not None
        assert found.is_same

    @pytest.mark.parametrize("written", [4, 8])
    def test_a_head_that_is_being_written_is_growth(self, watched, written):
        """
        Its size first, then its magic: nothing is compared.
        """
        path, log, *_ = watched
        self.look(watched)
        head = log.data[log.places[-1].position :][:written]
        self.write_after(path, log, bytes(head))

        assert self.look(watched) is None

    def test_it_was_touched_and_has_not_grown(self, watched):
        path, log, *_ = watched
        self.look(watched)
        os.utime(self.last(path, log), (OLD + 1, OLD + 1))

        found = self.look(watched)

        assert found is not None
        assert found.is_same

    @pytest.mark.parametrize("name", [names.LOCK, names.ABORT])
    def test_a_broker_has_started(self, watched, name):
        self.look(watched)
        (watched[0] / name).touch()

        assert self.look(watched) is not None
        assert self.look(watched) is None

    def test_the_last_record_is_another_one(self, watched):
        """
        The log has grown, but over other records.
        """
        path, log, _, _, known = watched
        self.look(watched)
        last = log.places[-1]
        raw = bytearray(self.last(path, log).read_bytes())
        raw[last.position % LOG_FILE + 40] ^= 1
        raw[last.end % LOG_FILE] = 1
        self.last(path, log).write_bytes(raw)

        found = self.look(watched)

        assert found is not None
        assert found.common == known.points[-2]

    def test_a_file_of_before_was_touched(self, watched):
        path, log, *_ = watched
        self.look(watched)
        os.utime(path / names.COMMITLOG / names.offset_file(0), (OLD + 1, OLD + 1))
        log.append(Message("t", b"x"))
        self.write_last(path, log)

        assert self.look(watched) is not None

    def test_a_file_is_gone(self, watched):
        path, log, *_ = watched
        self.look(watched)
        self.last(path, log).unlink()

        found = self.look(watched)

        assert found is not None
        assert not found.is_same

    def test_the_process_stood_still(self, watched):
        """
        All that is not certain is compared, once.
        """
        path, _, files, _, known = watched
        seconds = [0.0]
        keeper = Vouch(files, path, Heartbeat(lambda: seconds[0]))
        assert keeper.look(known) is None
        seconds[0] += 3

        assert keeper.look(known) is not None
        assert keeper.look(known) is None

    def test_time_in_which_it_was_at_work_is_no_pause(self, watched, monkeypatch):
        """
        An hour between two looks, in which it beat as always: nothing is compared.
        """
        path, _, files, _, known = watched
        seconds = [0.0]
        beating = Heartbeat(lambda: seconds[0])
        keeper = Vouch(files, path, beating)
        assert keeper.look(known) is None
        now = time.monotonic()
        monkeypatch.setattr(vouch.time, "monotonic", lambda: now + 3600)
        for _ in range(18_000):
            seconds[0] += 0.2
            beating.beat()

        assert keeper.look(known) is None

    def test_what_is_not_certain_is_compared_at_rest(self, watched):
        """
        The last file first; each of them once, while nobody touches it.
        """
        known = watched[4]
        certain: dict[int, object] = {}
        for _ in range(50):
            watched[3]._next_walk = 0
            found = self.look(
                watched,
                known._replace(files=settled(tuple(known.files), certain, 0)),
                is_at_rest=True,
            )
            if found is not None:
                assert found.is_same
                certain |= found.certain
        assert set(certain) == {file.base for file in known.files}

    def test_a_cut_that_looked_like_growth_is_found_at_rest(self, watched):
        """
        Both within one look: the end has moved, and records before it are other ones.
        """
        path, log, _, keeper, known = watched
        self.look(watched)
        place = log.places[-4]
        raw = bytearray(self.last(path, log).read_bytes())
        raw[place.position % LOG_FILE + 40] ^= 1
        self.last(path, log).write_bytes(raw)
        moved = known._replace(end=known.end + 1)
        assert self.look(watched, moved) is None

        keeper._next_walk = 0
        found = self.look(watched, known, is_at_rest=True)
        assert found is None or found.is_same is False
        keeper._next_walk = 0
        found = found or self.look(watched, known, is_at_rest=True)

        assert found is not None
        assert not found.is_same
        assert found.common is not None
        assert found.common.end == place.position

    def test_a_cut_that_changes_no_time_is_found_at_rest(self, watched):
        """
        A page that stays dirty takes other bytes, and the file's times are those of before.
        """
        path, log, files, keeper, known = watched
        self.look(watched)
        place = log.places[-4]
        raw = bytearray(self.last(path, log).read_bytes())
        raw[place.position % LOG_FILE + 40] ^= 1
        self.last(path, log).write_bytes(raw)
        files.refresh()
        keeper._stamps = files.stamps
        known = known._replace(
            files=tuple(f._replace(stamp=files.stamps[f.base]) for f in known.files)
        )

        found = keeper.look(known, is_at_rest=True)

        assert found is not None
        assert found.common is not None
        assert found.common.end == place.position

    def test_a_last_record_that_changes_no_time_is_seen_at_once(self, watched):
        path, log, files, keeper, known = watched
        self.look(watched)
        raw = bytearray(self.last(path, log).read_bytes())
        raw[log.places[-1].position % LOG_FILE + 40] ^= 1
        self.last(path, log).write_bytes(raw)
        files.refresh()
        keeper._stamps = files.stamps

        found = keeper.look(known)

        assert found is not None
        assert found.common == known.points[-2]

    def test_a_file_that_ends_with_an_old_blank(self, watched):
        """
        A BLANK leaves what stands after it: old records, and an old BLANK at the file's end.
        """
        path, log, files, _, _ = watched
        log.blank()
        log.write(path)
        files.refresh()
        keeper = Vouch(files, path)
        known = known_of(log, every=1)
        assert keeper.look(known) is None
        place = log.places[-3]
        raw = bytearray(self.last(path, log).read_bytes())
        at = place.position % LOG_FILE
        raw[at : at + 8] = encode_blank(LOG_FILE - at)[:8]
        self.last(path, log).write_bytes(raw)
        log.append(Message("t", b"x"))
        self.write_last(path, log)
        files.refresh()

        found = keeper.look(known)

        assert found is not None
        assert found.common is not None
        assert found.common.end == place.position

    def test_damage_is_said_once(self, watched):
        path, *_ = watched
        self.look(watched)
        first = path / names.COMMITLOG / names.offset_file(0)
        raw = bytearray(first.read_bytes())
        raw[40] ^= 1
        first.write_bytes(raw)

        assert self.look(watched).damaged == 0
        (path / names.LOCK).touch()
        assert self.look(watched).damaged is None


def test_the_slow_reader_agrees_with_the_builders(store):
    """
    The records that these tests hash are what a reader finds.
    """
    _, log = store
    for place in log.places:
        verdict, record = read(bytes(log.data), place.position, place.position, log.end + LOG_FILE)
        assert verdict == Verdict.RECORD
        assert isinstance(record, Record)
