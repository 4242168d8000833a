"""The commitlog's files: what is refused, and where a record begins, from any byte."""

from __future__ import annotations

import os
import shutil

import pytest

from reput.formats.errors import FormatError, ReputError, StoreError
from reput.formats.rocketmq import broker, names
from reput.formats.rocketmq.encode import Message, encode
from reput.stores.log.commitlog import PAD, CommitLog, commitlog_directories
from tests.builders.stores import LOG_FILE, SMALL, Log, fill


def settings(version="5.5", **conf):
    return broker.settings_of(version, {**SMALL, **conf})


def open_log(store, **conf) -> CommitLog:
    found = settings(**conf)
    return CommitLog(commitlog_directories(store, found), found)


def next_boundary(log: Log, position: int) -> int:
    """Return the first place at or after `position` where something begins; files do too."""
    starts = set(log.boundaries) | set(range(log.origin, log.end, log.file_size))
    return min((b for b in starts if b >= position), default=log.end)


class TestOpen:
    def test_a_missing_store(self, tmp_path):
        with pytest.raises(StoreError, match="no such directory"):
            open_log(tmp_path / "none")

    def test_a_directory_without_a_commitlog(self, tmp_path):
        with pytest.raises(StoreError, match=r"no commitlog directory.*storePathRootDir"):
            open_log(tmp_path)

    def test_a_dledger_store(self, tmp_path):
        (tmp_path / "dledger-n0").mkdir()

        with pytest.raises(StoreError, match="DLedger"):
            open_log(tmp_path)

    def test_a_commitlog_without_files(self, tmp_path):
        (tmp_path / "commitlog").mkdir()

        with pytest.raises(StoreError, match="no commitlog file"):
            open_log(tmp_path)

    def test_a_foreign_name(self, tmp_path):
        store = fill(Log(), 1, 5).write(tmp_path)
        (store / "commitlog" / "core.123").write_text("x")

        with pytest.raises(StoreError, match=r"core.123: not the name of a commitlog file"):
            open_log(store)

    def test_a_directory_beside_the_files_is_skipped_as_a_broker_does(self, tmp_path):
        store = fill(Log(), 1, 5).write(tmp_path)
        (store / "commitlog" / "lost+found").mkdir()

        assert open_log(store).bases == [0]

    @pytest.mark.parametrize(("number", "size"), [(0, 1), (0, LOG_FILE - 1), (1, LOG_FILE + 1)])
    def test_a_file_of_another_size_is_named_with_its_setting(self, tmp_path, number, size):
        """
        Too large by the setting; or none of the files has the size that it says.
        """
        store = fill(Log(), 1, 5).write(tmp_path)
        path = store / "commitlog" / names.offset_file(number * LOG_FILE)
        path.write_bytes(bytes(size))

        with pytest.raises(FormatError, match="mappedFileSizeCommitLog") as raised:
            open_log(store)
        assert (raised.value.path, raised.value.position) == (str(path), size)

    def test_a_file_named_by_an_offset_where_none_begins(self, tmp_path):
        (tmp_path / "commitlog").mkdir()
        (tmp_path / "commitlog" / names.offset_file(100)).write_bytes(bytes(LOG_FILE))

        with pytest.raises(FormatError, match="mappedFileSizeCommitLog"):
            open_log(tmp_path)

    @pytest.mark.parametrize("kept", [None, 0, 1, 700, LOG_FILE - 1])
    def test_what_a_file_in_between_lacks_is_named_and_reads_as_its_end(self, tmp_path, kept):
        """
        Missing (None), empty or cut short: the rest of the log can be read.
        """
        log = fill(Log(), 1, 60)
        store = log.write(tmp_path)
        path = store / "commitlog" / names.offset_file(LOG_FILE)
        if kept is None:
            path.unlink()
        else:
            os.truncate(path, kept)
        found = open_log(store)
        start = LOG_FILE + (kept or 0)
        (damage,) = found.damages

        assert (damage.path, damage.byte) == (path, kept or 0)
        assert (damage.start, damage.end) == (start, 2 * LOG_FILE)
        assert damage.found.startswith(
            "the file is missing" if kept is None else "the file" if kept else "the file is empty"
        )
        assert found.bytes_at(start, 8) == b""
        assert found.bytes_at(start - 1, 8) == bytes(log.data[start - 1 : start])
        assert found.bytes_at(2 * LOG_FILE, 8) == bytes(log.data[2 * LOG_FILE : 2 * LOG_FILE + 8])
        assert found.file_of(start) == (path, kept or 0)
        found.close()

    def test_several_files_in_between_are_one_damage(self, tmp_path):
        log = fill(Log(), 1, 90)
        store = log.write(tmp_path)
        os.truncate(store / "commitlog" / names.offset_file(LOG_FILE), 100)
        for number in (2, 3):
            (store / "commitlog" / names.offset_file(number * LOG_FILE)).unlink()
        (damage,) = open_log(store).damages

        assert (damage.start, damage.end) == (LOG_FILE + 100, 4 * LOG_FILE)
        assert names.offset_file(4 * LOG_FILE) in damage.found

    def test_a_file_that_comes_back_is_read(self, tmp_path):
        log = fill(Log(), 1, 60)
        store = log.write(tmp_path)
        path = store / "commitlog" / names.offset_file(LOG_FILE)
        raw = path.read_bytes()
        path.write_bytes(b"")
        found = open_log(store)
        assert found.bytes_at(LOG_FILE, 8) == b""
        path.write_bytes(raw)
        found.refresh()

        assert found.damages == ()
        assert found.bytes_at(LOG_FILE, 8) == raw[:8]
        found.close()

    @pytest.mark.parametrize("kept", [1, 700, LOG_FILE - 1])
    def test_a_last_file_that_is_too_short_is_unfinished(self, tmp_path, kept):
        store = fill(Log(), 1, 60).write(tmp_path)
        path = max((store / "commitlog").iterdir())
        os.truncate(path, kept)
        found = open_log(store)

        assert found.damages == ()
        assert (found.unfinished.path, found.unfinished.byte) == (path, kept)

    def test_files_that_go_while_a_directory_is_read_are_not_missed(self, tmp_path, monkeypatch):
        """
        A listing that has the oldest file, but not the one after it, which expired meanwhile.
        """
        store = fill(Log(), 1, 60).write(tmp_path)
        for number in (0, 1):
            (store / "commitlog" / names.offset_file(number * LOG_FILE)).rename(
                tmp_path / str(number)
            )
        found = open_log(store)
        listings = [{**found._found(), 0: found._found()[2 * LOG_FILE]}]
        looked = found._found
        monkeypatch.setattr(found, "_found", lambda: listings.pop() if listings else looked())
        found.refresh()

        assert found.damages == ()
        assert found.min_offset == 2 * LOG_FILE

    def test_the_same_file_in_two_directories_is_refused(self, tmp_path):
        store = fill(Log(), 1, 60).write(tmp_path / "a")
        shutil.copytree(store / "commitlog", tmp_path / "b")

        with pytest.raises(StoreError, match="has the same name"):
            open_log(store, storePathCommitLog=f"{store / 'commitlog'},{tmp_path / 'b'}")

    def test_directories_that_a_broker_only_reads_count_with_several_paths_only(self, tmp_path):
        """
        RocketMQ MultiPathMappedFileQueue#load: a single path has no read-only ones beside it.
        """
        log = fill(Log(), 1, 90)
        store = log.write(tmp_path / "a")
        places = [store / "commitlog", tmp_path / "b", tmp_path / "c"]
        for place in places[1:]:
            place.mkdir()
        for number, path in enumerate(sorted(places[0].iterdir())):
            path.rename(places[number % 3] / path.name)
        conf = {"readOnlyCommitLogStorePaths": str(places[2])}
        several = open_log(store, storePathCommitLog=f"{places[0]},{places[1]}", **conf)
        single = open_log(store, storePathCommitLog=str(places[0]), **conf)

        assert several.bases == list(range(0, log.end, LOG_FILE))
        assert single.bases == list(range(0, log.end, 3 * LOG_FILE))

    def test_an_empty_last_file_is_one_that_a_broker_is_making(self, tmp_path):
        store = fill(Log(), 1, 5).write(tmp_path)
        (store / "commitlog" / names.offset_file(LOG_FILE)).touch()

        assert open_log(store).bases == [0]

    def test_several_directories_make_one_log(self, tmp_path):
        log = fill(Log(), 1, 60)
        store = log.write(tmp_path / "a")
        other = tmp_path / "b"
        other.mkdir()
        for path in sorted((store / "commitlog").iterdir())[::2]:
            path.rename(other / path.name)
        found = open_log(store, storePathCommitLog=f"{store / 'commitlog'},{other}")

        assert found.bases == list(range(0, log.end, LOG_FILE))
        for base in found.bases:
            data = found.read(base, 50)[PAD:-PAD].tobytes()
            assert data == bytes(log.data[base : base + 50])

    def test_refresh_sees_new_files_and_expired_ones(self, tmp_path):
        log = fill(Log(), 1, 60)
        store = log.write(tmp_path)
        found = open_log(store)
        last = found.bases[-1]
        found.read(0, 8)
        (store / "commitlog" / names.offset_file(0)).unlink()
        (store / "commitlog" / names.offset_file(last + LOG_FILE)).write_bytes(bytes(LOG_FILE))
        found.refresh()

        assert (found.min_offset, found.end_of_files) == (LOG_FILE, last + 2 * LOG_FILE)
        with pytest.raises(ReputError, match="expired"):
            found.read(0, 8)
        found.close()


class TestRead:
    def test_bytes_are_padded_and_end_with_the_file(self, tmp_path):
        log = fill(Log(), 2, 60)
        found = open_log(log.write(tmp_path))
        data = found.read(LOG_FILE - 10, 100)

        assert len(data) == PAD + 10 + PAD
        assert data[PAD:-PAD].tobytes() == bytes(log.data[LOG_FILE - 10 : LOG_FILE])
        assert not data[:PAD].any()
        assert not data[-PAD:].any()

    def test_a_position_is_a_file_and_a_byte(self, tmp_path):
        found = open_log(fill(Log(), 2, 60).write(tmp_path))
        last = found.bases[-1]

        path, byte = found.file_of(LOG_FILE + 7)
        assert (path.name, byte) == (names.offset_file(LOG_FILE), 7)
        path, byte = found.file_of(found.end_of_files + 3)
        assert (path.name, byte) == (names.offset_file(last), LOG_FILE + 3)

    def test_a_file_cut_under_us_gives_fewer_bytes_and_no_signal(self, tmp_path):
        store = fill(Log(), 2, 5).write(tmp_path)
        found = open_log(store)
        found.read(0, 8)
        with (store / "commitlog" / names.offset_file(0)).open("r+b") as file:
            file.truncate(20)

        assert len(found.read(0, 100)) == PAD + 20 + PAD


class TestFirstRecord:
    """From every byte of a log the next true boundary is found."""

    def check(self, tmp_path, log, **conf):
        found = open_log(log.write(tmp_path, ahead=1), **conf)
        for position in range(log.origin, log.end + 1):
            assert found.first_record(position) == next_boundary(log, position), position

    @pytest.mark.parametrize("seed", range(4))
    def test_of_random_records(self, tmp_path, seed):
        self.check(tmp_path, fill(Log(), seed, 30))

    def test_in_a_log_that_does_not_begin_at_0(self, tmp_path):
        log = fill(Log(origin=5 * LOG_FILE), 5, 25)
        self.check(tmp_path, log)
        found = open_log(tmp_path)

        assert found.first_record(0) == found.first_record(17) == 5 * LOG_FILE

    def test_where_windows_end_before_the_file_does(self, tmp_path):
        """
        What is read back is the largest record; a file is usually larger by far.
        """
        log = fill(Log(1 << 18), 6, 1000)
        found = open_log(
            log.write(tmp_path), mappedFileSizeCommitLog=str(1 << 18), maxMessageSize="1024"
        )
        for position in [*range(90_000, 90_400), log.end - 1]:
            assert found.first_record(position) == next_boundary(log, position)

    @pytest.mark.parametrize("claim", [0, 60, 200, 400])
    @pytest.mark.parametrize("pad", [0, 1, 30])
    def test_with_a_record_forged_in_a_body(self, tmp_path, pad, claim):
        """
        It names its own place, and may claim to be longer than the body that holds it.
        """
        log = Log()
        fill(log, 7, 3)
        log.append_forged("true", Message("forged"), pad=pad, claim=claim, tail=5)
        fill(log, 8, 4)
        log.append_forged("true", Message("forged", body=b"x" * 40), pad=pad, claim=claim)
        fill(log, 9, 3)
        self.check(tmp_path, log)

    def test_with_a_blank_forged_in_a_body(self, tmp_path):
        log = Log()
        at = 88 + 4
        blank = (LOG_FILE - at).to_bytes(4, "big") + bytes.fromhex("cbd43194")
        log.append(Message("t", body=b"1234" + blank + b"56"))
        fill(log, 9, 4)
        self.check(tmp_path, log)

    def test_after_what_is_written_it_is_the_end(self, tmp_path):
        log = fill(Log(), 3, 5)
        found = open_log(log.write(tmp_path))

        assert found.first_record(log.end + 100) == log.end
        assert found.first_record(LOG_FILE) == LOG_FILE

    def test_on_a_walk_a_corrupt_record_is_named(self, tmp_path):
        """
        Two seeming records reach over the position, so the way is walked, and it is broken.
        """
        log = fill(Log(), 3, 3)
        bad = log.places[1].position
        place = log.append_forged("true", Message("forged", body=b"y" * 50), tail=60)
        store = log.write(tmp_path)
        path = store / "commitlog" / names.offset_file(0)
        raw = bytearray(path.read_bytes())
        raw[bad + 4] ^= 0xFF
        path.write_bytes(raw)

        with pytest.raises(FormatError) as raised:
            open_log(store).first_record(place.position + 100)
        assert (raised.value.path, raised.value.position) == (str(path), bad)


class TestWalk:
    @pytest.mark.parametrize("seed", range(3))
    def test_goes_to_the_first_record_at_or_after(self, tmp_path, seed):
        log = fill(Log(), seed, 30)
        found = open_log(log.write(tmp_path))
        for base in found.bases:
            for position in range(base, min(base + LOG_FILE, log.end), 13):
                assert found.walk(base, position) == next_boundary(log, position)

    def test_a_record_larger_than_what_is_read_at_a_time(self, tmp_path, monkeypatch):
        monkeypatch.setattr("reput.stores.log.commitlog._STEP", 64)
        log = fill(Log(), 1, 30)
        found = open_log(log.write(tmp_path))

        for position in range(0, LOG_FILE, 7):
            assert found.walk(0, position) == next_boundary(log, position)

    def test_it_ends_at_the_unwritten_end(self, tmp_path):
        log = fill(Log(), 3, 5)

        assert open_log(log.write(tmp_path)).walk(0, LOG_FILE) == log.end

    @pytest.mark.parametrize("left", range(1, 8))
    def test_a_file_whose_last_bytes_hold_no_record_ends_there(self, tmp_path, left):
        """
        Less than a BLANK's 8 bytes are left: no broker leaves them, and nothing may loop on them.
        """
        raw = encode(Message("t", body=bytes(LOG_FILE - 92 - left)), 0)
        (tmp_path / "commitlog").mkdir()
        path = tmp_path / "commitlog" / names.offset_file(0)
        path.write_bytes(raw + bytes(left))
        found = open_log(tmp_path)

        with pytest.raises(FormatError, match=f"byte {LOG_FILE - left}"):
            found.walk(0, LOG_FILE)


class TestLongRecords:
    def test_records_longer_than_a_lowered_limit_are_still_found(self, tmp_path):
        """
        maxMessageSize may be lowered later: what was written stays readable.
        """
        size = 1 << 18
        log = Log(size)
        log.append(Message("t", body=bytes(150_000)))
        log.append(Message("t", body=bytes(10)))
        found = open_log(
            log.write(tmp_path), mappedFileSizeCommitLog=str(size), maxMessageSize="1024"
        )

        for position in (1, 100, 149_000, log.places[1].position):
            assert found.first_record(position) == log.places[1].position
