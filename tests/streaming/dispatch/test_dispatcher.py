"""One store's dispatch: the bytes of the slow twin, however it is cut, repeated, killed or starved."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import signal
import subprocess
import time

import pytest

from reput.checkpoints import marks, progress
from reput.checkpoints.disk import recording
from reput.formats.errors import FormatError, ReputError, StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.streaming.dispatch.dispatcher import StoreDispatcher, rebuild
from reput.streaming.endings.verdict import Verdict, verdict_of
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.verify.output import verify
from tests.builders.slow_twins import SlowStore, differences
from tests.builders.stores import (
    LOG_FILE,
    SMALL,
    Log,
    config_of,
    files_of,
    fill,
    name_batch_topics,
)

EXT = {"enableConsumeQueueExt": "true"}
MULTI = {"enableMultiDispatch": "true", "enableLmq": "true"}


def expected(log: Log, settings, batch_topics=(), *, before: int = 1 << 62) -> dict[str, bytes]:
    records = [r for r in log.records() if r.physical_offset < before]
    empty_count = 1 if settings.version.counts_empty_index else 0
    return SlowStore(settings, batch_topics).dispatch(records).files(empty_count=empty_count)


def small_blocks(dispatcher: StoreDispatcher, block_size: int = 1024) -> StoreDispatcher:
    """Make a dispatcher parse in small blocks: a test's log is less than one otherwise."""
    dispatcher.pipeline.block_size = block_size
    return dispatcher


def dispatch(config, *ends: int, **options) -> dict[str, bytes]:
    """Dispatch batches up to these ends and close; return the files."""
    dispatcher = small_blocks(StoreDispatcher(config, **options))
    try:
        for end in ends:
            dispatcher.dispatch(end)
    finally:
        dispatcher.close()
    return files_of(config.output)


@pytest.fixture
def made(tmp_path):
    """Return a function that writes a log and gives the configuration of its dispatch."""

    def make(log: Log, version="5.5", **conf):
        store = log.write(tmp_path / "store", ahead=1)
        return config_of(store, tmp_path / "out", version, **conf)

    return make


class TestBytes:
    @pytest.mark.parametrize("version", ["4.9", "5.3", "5.4", "5.5"])
    @pytest.mark.parametrize(
        "conf", [{}, EXT, MULTI, EXT | MULTI], ids=["plain", "ext", "multi", "both"]
    )
    def test_a_random_store_is_dispatched_as_by_the_slow_twin(self, made, version, conf):
        seed = int(version.replace(".", "")) + len(conf)
        log = fill(
            Log(), seed, 80, multi=True, batches=True, out_of_turn=True, wide=version != "4.9"
        )
        config = made(log, version, **conf)
        name_batch_topics(config.path, "batches")
        batches = () if version == "4.9" else ("batches",)

        assert differences(dispatch(config, log.end), expected(log, config.settings, batches)) == []

    @pytest.mark.parametrize("seed", range(8))
    def test_batches_that_end_at_any_byte_give_the_bytes_of_one(self, made, seed):
        log = fill(Log(), seed, 80, out_of_turn=True, multi=True)
        config = made(log, **(EXT if seed % 2 else MULTI))
        pick = random.Random(seed)
        ends = [*sorted(pick.randrange(log.end) for _ in range(12)), log.end]

        assert differences(dispatch(config, *ends), expected(log, config.settings)) == []

    def test_each_byte_as_a_batch(self, made):
        log = fill(Log(), 3, 6)
        config = made(log)

        assert (
            differences(dispatch(config, *range(log.end + 1)), expected(log, config.settings)) == []
        )

    @pytest.mark.parametrize("seed", range(4))
    def test_closed_and_opened_between_batches(self, made, seed):
        log = fill(Log(), seed, 60)
        config = made(log)
        pick = random.Random(seed)
        for end in sorted(pick.randrange(log.end) for _ in range(5)):
            found = dispatch(config, end)
            assert differences(found, expected(log, config.settings, before=end)) == []

        assert differences(dispatch(config, log.end), expected(log, config.settings)) == []

    def test_a_batch_that_comes_again_or_overlaps_changes_nothing(self, made):
        log = fill(Log(), 5, 60)
        config = made(log)
        half = log.places[30].end
        dispatcher = StoreDispatcher(config)
        assert dispatcher.dispatch(half).messages == 31
        before = files_of(config.output)
        for end in (half, 0, half - 1, -5):
            assert dispatcher.dispatch(end).messages == 0
        assert files_of(config.output) == before
        assert dispatcher.dispatch(log.end).messages == 29
        dispatcher.close()

        assert differences(dispatch(config, half, log.end), expected(log, config.settings)) == []

    def test_without_an_index_there_is_none(self, made):
        log = fill(Log(), 5, 20)
        config = made(log, messageIndexEnable="false")

        assert differences(dispatch(config, log.end), expected(log, config.settings)) == []
        assert not (config.output / "index").exists()

    def test_rebuild_is_all_of_it_in_one_call(self, made):
        log = fill(Log(), 6, 50)
        config = made(log)
        batch = rebuild(config.path, config.output, broker_version="5.5", broker_conf=SMALL)

        assert (batch.messages, batch.start, batch.end) == (50, 0, log.end)
        assert differences(files_of(config.output), expected(log, config.settings)) == []

    def test_what_a_batch_says_of_itself(self, made):
        log = fill(Log(), 6, 50)
        dispatcher = small_blocks(StoreDispatcher(made(log)))
        blocks = []
        batch = dispatcher.dispatch(log.end, observe=lambda block: blocks.append(block.count))
        dispatcher.close()

        assert sum(blocks) == batch.messages == 50
        assert len(blocks) > 5
        assert batch.bytes == log.end
        assert batch.store_timestamp == log.places[-1].message.store_timestamp
        assert batch.seconds > 0

    def test_a_batch_ends_after_a_block_if_it_is_asked_to(self, made):
        """
        Stopping a job does not wait for gigabytes.
        """
        log = fill(Log(), 6, 50)
        config = made(log)
        dispatcher = small_blocks(StoreDispatcher(config))
        asked = iter([False, True])
        first = dispatcher.dispatch(log.end, is_over=lambda: next(asked))
        second = dispatcher.dispatch(log.end)
        dispatcher.close()

        assert first.end < log.end // 2
        assert second.start == first.end
        assert first.messages + second.messages == 50
        assert differences(files_of(config.output), expected(log, config.settings)) == []

    def test_progress_stands_after_a_blank(self, made):
        """
        No record starts in what is left of the file.
        """
        log = fill(Log(), 6, 10)
        end = log.end
        log.blank()
        config = made(log)
        dispatch(config, end + 1)

        assert progress.load(config.output).end == LOG_FILE


class TestMarks:
    def test_the_checkpoint_is_of_what_is_on_disk(self, made):
        log = Log()
        log.append(Message("t", store_timestamp=1000, properties={"KEYS": "a b c d e f g h i j k"}))
        log.append(Message("t", queue_offset=1, store_timestamp=2000, properties={"KEYS": "l"}))
        half = log.append(Message("t", store_timestamp=3000, sys_flag=4))
        config = made(log)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(half.end)
        assert marks.read_checkpoint(config.output) is None
        dispatcher.flush()
        found = marks.read_checkpoint(config.output)
        dispatcher.close()

        # The prepared record has no entry; the first index file is full, of the first record.
        assert found.logics_timestamp == 2000
        assert found.logics_offset == log.places[1].position
        assert found.index_timestamp == 1000

    @pytest.mark.parametrize("batch", [{"INNER_BASE": "-1"}, {"INNER_NUM": "-1"}])
    def test_the_checkpoint_does_not_name_a_batch_that_no_queue_takes(self, made, batch):
        """
        A broker leaves out a unit with a negative number, and its checkpoint where it was.
        """
        log = Log()
        log.append(Message("batches", store_timestamp=1000))
        numbers = {"INNER_BASE": "7", "INNER_NUM": "2", **batch}
        log.append(Message("batches", store_timestamp=2000, properties=numbers))
        config = made(log)
        name_batch_topics(config.path, "batches")
        dispatcher = StoreDispatcher(config)
        done = dispatcher.dispatch(log.end)
        dispatcher.close()
        found = marks.read_checkpoint(config.output)

        assert (done.messages, done.entries) == (2, 1)
        assert (found.logics_timestamp, found.logics_offset) == (1000, 0)
        assert verify(config).ok

    @pytest.mark.parametrize(("version", "fields"), [("4.9", 3), ("5.3", 5), ("5.5", 6)])
    def test_the_brokers_own_longs_are_carried_over(self, made, version, fields):
        config = made(fill(Log(), 1, 5, wide=False), version)
        (config.path / "checkpoint").write_bytes(
            b"".join(i.to_bytes(8, "big") for i in range(71, 77)).ljust(4096, b"\0")
        )
        dispatch(config, LOG_FILE // 8)
        found = marks.read_checkpoint(config.output)

        assert found.physic_timestamp == 71
        assert found[3:5] == ((74, 75) if fields > 3 else (0, 0))

    def test_the_abort_marker_is_there_while_it_is_open(self, made):
        config = made(fill(Log(), 1, 5))
        dispatcher = StoreDispatcher(config)
        assert marks.has_abort(config.output)
        dispatcher.close()

        assert not marks.has_abort(config.output)
        assert progress.load(config.output).clean

    def test_nothing_of_ours_stands_where_a_broker_looks(self, made):
        config = made(fill(Log(), 1, 50))
        dispatch(config, LOG_FILE)
        found = {path.name for path in config.output.iterdir()}

        assert found == {".reput", "checkpoint", "consumequeue", "index"}

    def test_the_store_is_only_read(self, made):
        log = fill(Log(), 1, 50)
        config = made(log)
        before = {p: p.read_bytes() for p in config.path.rglob("*") if p.is_file()}
        dispatch(config, log.end)

        assert {p: p.read_bytes() for p in config.path.rglob("*") if p.is_file()} == before


class TestCrash:
    @pytest.mark.parametrize("seed", range(12))
    def test_killed_at_any_time_and_started_again_the_bytes_are_the_same(self, tmp_path, seed):
        """
        A child dispatches and is killed; the next continues; at last one comes through.
        """
        pick = random.Random(seed)
        log = fill(Log(1 << 16), seed, 1500, multi=True, batches=True)
        store = log.write(tmp_path / "store", ahead=1)
        name_batch_topics(store, "batches")
        conf = {**(EXT if seed % 3 == 0 else MULTI), "mappedFileSizeCommitLog": str(1 << 16)}
        config = config_of(store, tmp_path / "out", **conf)
        ends = [*sorted(pick.randrange(log.end) for _ in range(9)), log.end]
        kills = 0
        while self.run_and_kill(config, ends, pick.uniform(0, 0.12) if kills < 5 else 60):
            kills += 1
        last = StoreDispatcher(config)
        last.dispatch(log.end)
        last.close()

        assert (
            differences(files_of(config.output), expected(log, config.settings, ["batches"])) == []
        )
        # What a killed one was making stays at most once, for the next to make again.
        assert len(list((config.output / ".reput").glob("new*"))) <= 1

    @staticmethod
    def run_and_kill(config, ends, seconds) -> bool:
        """Dispatch in a child for this long; tell whether it had to be killed."""
        child = os.fork()
        if child == 0:
            try:
                dispatcher = small_blocks(
                    StoreDispatcher(config, flush=FlushPolicy(thorough_seconds=0.01)), 4096
                )
                for end in ends:
                    dispatcher.dispatch(end)
                dispatcher.close()
                os._exit(0)
            except BaseException as error:  # noqa: BLE001 - a child of pytest must not return
                os.write(2, f"child: {error!r}\n".encode())
                os._exit(1)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                assert os.waitstatus_to_exitcode(status) == 0
                return False
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return True

    def test_what_was_written_beyond_the_progress_is_taken_back_and_counted(self, made):
        log = fill(Log(), 2, 60)
        config = made(log)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.places[20].end)
        dispatcher.flush()
        record = progress.load(config.output)
        at_20 = files_of(config.output)
        dispatcher.dispatch(log.end)
        dispatcher.abandon()
        recording.save(config.output, record)

        again = StoreDispatcher(config)
        assert again.recovery.entries > 0
        assert again.recovery.items > 0
        assert "killed" in again.recovery.reasons[0]
        assert files_of(config.output) == at_20
        again.dispatch(log.end)
        again.close()
        assert differences(files_of(config.output), expected(log, config.settings)) == []

    def test_after_the_machine_stopped_what_was_on_disk_counts(self, made):
        """
        Unsynced pages may be lost in any order: all of them are written again.
        """
        log = fill(Log(), 2, 60)
        config = made(log)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.places[40].end)
        dispatcher.flush()
        at_40 = files_of(config.output)
        dispatcher.dispatch(log.end)
        dispatcher.abandon()
        pick = random.Random(1)
        indexes = sorted((config.output / "index").iterdir())
        for name, kept in at_40.items():
            kind, _, number = name.partition("/")
            path = indexes[int(number)] if kind == "index" else config.output / name
            raw = bytearray(path.read_bytes())
            for page in range(0, len(raw), 512):
                if pick.random() < 0.5:
                    raw[page : page + 512] = kept[page : page + 512]
            path.write_bytes(raw)

        again = StoreDispatcher(config)
        assert differences(files_of(config.output), at_40) == []
        assert again.progress.end == log.places[40].end
        again.dispatch(log.end)
        again.close()
        assert differences(files_of(config.output), expected(log, config.settings)) == []


class TestBadRecords:
    def corrupt(self, config, position: int) -> str:
        path = config.path / "commitlog" / names.offset_file(position - position % LOG_FILE)
        raw = bytearray(path.read_bytes())
        raw[position % LOG_FILE + 4] ^= 1
        path.write_bytes(raw)
        return str(path)

    def test_a_last_record_that_is_none_is_the_end(self, made):
        """
        Nothing follows it: it is torn, which is not an error, whatever end was planned.
        """
        log = fill(Log(), 7, 60)
        config = made(log)
        bad = log.places[59].position
        self.corrupt(config, bad)

        dispatch(config, log.end)

        found = progress.load(config.output)
        assert (found.end, found.messages, found.clean) == (bad, 59, True)

    @pytest.mark.parametrize("number", [0, 1, 33, 57])
    def test_what_is_before_a_corrupt_record_stays_and_is_recorded(self, made, number):
        log = fill(Log(), 7, 60)
        config = made(log)
        bad = log.places[number].position
        path = self.corrupt(config, bad)

        with pytest.raises(FormatError) as raised:
            dispatch(config, log.end)
        assert (raised.value.path, raised.value.position) == (path, bad % LOG_FILE)
        found = progress.load(config.output)
        assert (found.end, found.messages, found.clean) == (bad, number, True)
        assert (
            differences(files_of(config.output), expected(log, config.settings, before=bad)) == []
        )

    def test_when_the_record_is_restored_it_goes_on(self, made):
        log = fill(Log(), 7, 60)
        config = made(log)
        path = self.corrupt(config, log.places[33].position)
        with pytest.raises(FormatError):
            dispatch(config, log.end)
        self.corrupt(config, log.places[33].position)

        assert path
        assert differences(dispatch(config, log.end), expected(log, config.settings)) == []

    @pytest.mark.parametrize(
        ("topic", "problem"),
        [
            ("../x", "path separator"),
            ("..", "another directory"),
            ("a/b", "path separator"),
            ("a\0b", "NUL"),
            ("", "empty"),
            ("x" * 300, "longer than 255"),
        ],
    )
    def test_a_topic_that_cannot_be_a_directory_stops_it_with_all_before_it(
        self, made, tmp_path, topic, problem
    ):
        log = fill(Log(), 7, 20)
        bad = log.append(Message(topic, body=b"evil"))
        fill(log, 8, 5)
        config = made(log)

        with pytest.raises(ReputError, match=problem):
            dispatch(config, log.end)
        assert progress.load(config.output).end == bad.position
        before = expected(log, config.settings, before=bad.position)
        assert differences(files_of(config.output), before) == []
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]

    @pytest.mark.parametrize("queue_id", [-1, 1 << 21, (1 << 31) - 1, -(1 << 31)])
    def test_a_queue_id_that_no_broker_gives_stops_it(self, made, queue_id):
        log = fill(Log(), 7, 3)
        bad = log.append(Message("t", queue_id=queue_id))
        config = made(log)

        with pytest.raises(ReputError, match=f"queue id {queue_id}"):
            dispatch(config, log.end)
        assert progress.load(config.output).end == bad.position

    def test_a_special_record_that_cannot_be_put_is_named(self, made):
        log = fill(Log(), 7, 20)
        properties = {"INNER_MULTI_DISPATCH": "a", "INNER_MULTI_QUEUE_OFFSET": "x"}
        bad = log.append(Message("t", properties=properties))
        config = made(log, **MULTI)

        with pytest.raises(ReputError, match=f"physical offset {bad.position}"):
            dispatch(config, log.end)

    def test_what_is_before_such_a_record_stays_too(self, made):
        log = fill(Log(), 7, 20)
        properties = {"INNER_MULTI_DISPATCH": "a", "INNER_MULTI_QUEUE_OFFSET": "x"}
        bad = log.append(Message("t", properties=properties))
        config = made(log, **MULTI)
        for _ in range(2):
            with pytest.raises(ReputError):
                dispatch(config, log.end)

        assert progress.load(config.output).end == bad.position
        before = expected(log, config.settings, before=bad.position)
        assert differences(files_of(config.output), before) == []


class TestExpired:
    def expire(self, config, *numbers: int) -> None:
        for number in numbers:
            (config.path / "commitlog" / names.offset_file(number * LOG_FILE)).unlink()

    def test_a_log_that_begins_late_is_dispatched_from_there(self, made):
        log = fill(Log(origin=3 * LOG_FILE), 4, 40)
        config = made(log)

        assert differences(dispatch(config, log.end), expected(log, config.settings)) == []

    def test_records_lost_before_they_were_dispatched_stop_it(self, made):
        log = fill(Log(), 4, 80)
        config = made(log)
        dispatch(config, log.places[5].end)
        self.expire(config, 0, 1)

        with pytest.raises(
            ReputError, match=f"offsets {log.places[5].end} to {2 * LOG_FILE} have expired"
        ):
            dispatch(config, log.end)

    def test_or_it_goes_on_after_them_if_it_may(self, made):
        log = fill(Log(), 4, 80)
        config = made(log)
        dispatch(config, log.places[5].end)
        self.expire(config, 0, 1)
        dispatcher = StoreDispatcher(config, fail_on_data_loss=False)
        batch = dispatcher.dispatch(log.end)
        dispatcher.close()
        kept = [
            r for r in log.records() if not log.places[5].end <= r.physical_offset < 2 * LOG_FILE
        ]

        assert batch.start == 2 * LOG_FILE
        assert "are lost" in batch.events[0]
        assert dispatcher.progress.lost == ((log.places[5].end, 2 * LOG_FILE),)
        assert (
            differences(files_of(config.output), SlowStore(config.settings).dispatch(kept).files())
            == []
        )

    def test_files_that_expire_after_it_do_not_matter(self, made):
        log = fill(Log(), 4, 80)
        config = made(log)
        dispatch(config, 2 * LOG_FILE + 1)
        self.expire(config, 0, 1)

        assert differences(dispatch(config, log.end), expected(log, config.settings)) == []


class TestRefused:
    def test_the_output_of_another_store(self, made, tmp_path):
        log = fill(Log(), 1, 40)
        config = made(log)
        dispatch(config, log.end)
        other = fill(Log(), 2, 40).write(tmp_path / "other")

        with pytest.raises(StoreError, match="none of its records is in the commitlog of"):
            StoreDispatcher(dataclasses.replace(config, path=other))

    @pytest.mark.parametrize(
        ("version", "conf"), [("5.3", {}), ("5.5", {"maxIndexNum": "40"}), ("5.5", EXT)]
    )
    def test_the_output_of_another_version_or_other_settings(self, made, version, conf):
        log = fill(Log(), 1, 40)
        config = made(log)
        dispatch(config, log.end)
        other = config_of(config.path, config.output, version, **conf)

        with pytest.raises(StoreError, match="it was written with"):
            StoreDispatcher(other)

    def test_an_output_that_is_in_use(self, made):
        config = made(fill(Log(), 1, 5))
        first = StoreDispatcher(config)
        with pytest.raises(StoreError, match="is writing to this output"):
            StoreDispatcher(config)
        first.close()
        StoreDispatcher(config).close()

    def test_files_that_somebody_else_wrote(self, made):
        config = made(fill(Log(), 1, 5))
        (config.output / "consumequeue").mkdir(parents=True)

        with pytest.raises(StoreError, match="not written by reput"):
            StoreDispatcher(config)

    def test_a_refusal_leaves_the_output_as_it_was(self, made, tmp_path):
        log = fill(Log(), 1, 40)
        config = made(log)
        dispatch(config, log.end)
        before = {
            p: p.read_bytes()
            for p in config.output.rglob("*")
            if p.is_file() and p.name != "writer.lock"
        }
        with pytest.raises(StoreError):
            StoreDispatcher(config_of(config.path, config.output, "5.4"))

        after = {
            p: p.read_bytes()
            for p in config.output.rglob("*")
            if p.is_file() and p.name != "writer.lock"
        }
        assert after == before
        assert not marks.has_abort(config.output)

    def test_a_progress_record_that_is_damaged(self, made):
        config = made(fill(Log(), 1, 5))
        dispatch(config, 100)
        path = config.output / ".reput" / "progress.json"
        values = json.loads(path.read_text())
        path.write_text(path.read_text().replace(f'"end": {values["end"]}', '"end": 77', 1))

        with pytest.raises(FormatError, match="does not match its CRC"):
            StoreDispatcher(config)

    def test_a_refused_start_holds_no_lock(self, made):
        """
        A job that failed to open may be corrected and opened again in the same process.
        """
        config = made(fill(Log(), 1, 5))
        bad = config.output / "consumequeue"
        bad.mkdir(parents=True)
        with pytest.raises(StoreError):
            StoreDispatcher(config)
        bad.rmdir()

        StoreDispatcher(config).close()


class TestInPlace:
    def test_a_stopped_brokers_store_gets_its_files(self, made):
        log = fill(Log(), 1, 40)
        config = made(log)
        config = dataclasses.replace(config, output=config.path, in_place=True)

        assert differences(dispatch(config, log.end), expected(log, config.settings)) == []
        assert not marks.has_abort(config.path)

    def test_a_refused_start_gives_the_brokers_lock_back(self, made):
        config = made(fill(Log(), 1, 5))
        config = dataclasses.replace(config, output=config.path, in_place=True)
        bad = config.path / "consumequeue"
        bad.mkdir()
        with pytest.raises(StoreError, match="not written by reput"):
            StoreDispatcher(config)
        bad.rmdir()

        StoreDispatcher(config).close()

    def test_a_killed_writer_of_ours_can_go_on(self, made):
        log = fill(Log(), 1, 60)
        config = made(log)
        config = dataclasses.replace(config, output=config.path, in_place=True)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.places[20].end)
        dispatcher.abandon()
        assert marks.has_abort(config.path)

        assert differences(dispatch(config, log.end), expected(log, config.settings)) == []


@pytest.fixture
def disk(tmp_path):
    """Mount a tmpfs of 1 MiB; only root may, and CI runs as root."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", "-l", path], check=True)


class TestDisk:
    """What the device refuses is an OSError that names the file, and loses nothing."""

    LOG_SIZE = 1 << 16

    def make(self, tmp_path, disk, free: int):
        log = fill(Log(self.LOG_SIZE), 3, 300, batches=True)
        store = log.write(tmp_path / "store")
        name_batch_topics(store, "batches")
        conf = {**EXT, "mappedFileSizeCommitLog": str(self.LOG_SIZE)}
        config = config_of(store, disk / "out", **conf)
        dispatcher = small_blocks(StoreDispatcher(config, flush=FlushPolicy(is_sync=True)))
        stat = os.statvfs(disk)
        (disk / "fill").write_bytes(bytes(stat.f_bavail * stat.f_bsize - free))
        return log, config, dispatcher

    @pytest.mark.parametrize(
        "free", [0, 20 << 10, 30 << 10, 40 << 10, 60 << 10, 100 << 10, 200 << 10]
    )
    def test_when_it_is_full_the_file_is_named_and_after_freeing_it_goes_on(
        self, tmp_path, disk, free
    ):
        log, config, dispatcher = self.make(tmp_path, disk, free)
        with pytest.raises(OSError, match="No space left") as raised:
            dispatcher.dispatch(log.end)
        assert str(config.output) in str(raised.value)
        dispatcher.close()
        assert marks.has_abort(config.output)
        # The next start takes all of it back, so nothing is damaged.
        report = verify(config)
        assert (report.findings, verdict_of(report)) == ([], Verdict.INCOMPLETE)
        (disk / "fill").unlink()

        found = dispatch(config, log.end)
        assert differences(found, expected(log, config.settings, ["batches"])) == []

    @staticmethod
    def dispatch_all(dispatcher, ends) -> None:
        for end in ends:
            dispatcher.dispatch(end)

    def test_in_the_middle_of_batches(self, tmp_path, disk):
        log, config, dispatcher = self.make(tmp_path, disk, 150 << 10)
        with pytest.raises(OSError, match="No space left"):
            self.dispatch_all(dispatcher, range(2000, log.end, 1000))
        reached = progress.load(config.output).end
        with contextlib.suppress(OSError):
            dispatcher.close()  # which flushes, and cannot
        (disk / "fill").unlink()

        assert reached > 0
        found = dispatch(config, log.end)
        assert differences(found, expected(log, config.settings, ["batches"])) == []

    def test_the_same_writer_does_not_write_twice(self, tmp_path, disk):
        """
        Handed the batch again it continues to the right bytes, or it refuses; never silently wrong.
        """
        log, config, dispatcher = self.make(tmp_path, disk, 150 << 10)
        with pytest.raises(OSError, match="No space left"):
            dispatcher.dispatch(log.end)
        (disk / "fill").unlink()
        try:
            dispatcher.dispatch(log.end)
        except (ReputError, OSError, RuntimeError):
            dispatcher.close()
            dispatch(config, log.end)
        else:
            dispatcher.close()

        assert (
            differences(files_of(config.output), expected(log, config.settings, ["batches"])) == []
        )

    def test_an_output_that_is_read_only(self, made, tmp_path, disk):
        config = dataclasses.replace(made(fill(Log(), 1, 5)), output=disk / "out")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)

        with pytest.raises(OSError, match="Read-only file system") as raised:
            StoreDispatcher(config)
        assert str(disk / "out") in str(raised.value)

    def test_an_output_that_has_become_read_only(self, made, disk):
        log = fill(Log(), 1, 40)
        config = dataclasses.replace(made(log), output=disk / "out")
        dispatch(config, log.places[10].end)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(OSError, match="Read-only file system"):
            StoreDispatcher(config)
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)

        assert differences(dispatch(config, log.end), expected(log, config.settings)) == []
