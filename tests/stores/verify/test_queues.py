"""`reput verify` finds every difference between an output and its log, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import struct
from dataclasses import replace

import pytest

from benchmarks.flips import build_output, build_regions, flip_many
from reput.formats.errors import StoreError
from reput.formats.rocketmq.indexfile import Header
from reput.stores.findings import KEPT, Kind, Report
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher, rebuild
from reput.streaming.endings.verdict import Verdict, verdict_of
from reput.streaming.settings.config import store_config
from reput.streaming.verify.output import verify
from tests.builders.goldens import GOLDENS

VERSION = "5.5.0"
SLOTS = 101
ITEMS = 600
ITEMS_AT = 40 + 4 * SLOTS
QUEUE = ("consumequeue", "topic-1", "0")


@pytest.fixture(scope="session")
def built(golden, tmp_path_factory):
    """Outputs by version, scenario and whether a topic is of type BatchCQ; not to be changed."""
    configs = {}

    def build(version, scenario, *, batches=False):
        key = (version, scenario, batches)
        if key not in configs:
            directory = tmp_path_factory.mktemp("built")
            configs[key] = build_output(golden(version, scenario), directory, batches=batches)
        return configs[key]

    return build


@pytest.fixture
def output_of(built, golden, tmp_path):
    """Give a copy of an output that a test may damage."""

    def copy(scenario="basic", version=VERSION, *, batches=False):
        config = built(version, scenario, batches=batches)
        store = shutil.copytree(config.path, tmp_path / "store")
        output = shutil.copytree(config.output, tmp_path / "output")
        conf = golden(version, scenario).conf
        return store_config(store, output, broker_version=version, broker_conf=conf)

    return copy


@pytest.fixture
def output(output_of):
    return output_of()


def theirs(store, path=None):
    """Configure a broker's own store, which is its output as well."""
    return store_config(
        path or store.path,
        None,
        in_place=True,
        broker_version=store.version,
        broker_conf=store.conf,
    )


def files(config, *parts):
    return sorted(path for path in config.output.joinpath(*parts).iterdir() if path.is_file())


def write(path, at, data):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def read(path, at, length):
    return path.read_bytes()[at : at + length]


def kinds(report):
    return [finding.kind for finding in report.findings]


def only(report):
    """Return the one finding that there is."""
    assert report.found == 1, report.findings
    return report.findings[0]


def used_entries(path):
    data = path.read_bytes()
    return sum(any(data[i : i + 20]) for i in range(0, len(data), 20))


class TestClean:
    @pytest.mark.parametrize(("version", "scenario"), GOLDENS)
    def test_a_rebuilt_output_is(self, built, version, scenario):
        """
        Nothing is found, and nothing needs a word, where we have just written.
        """
        report = verify(built(version, scenario))

        assert report.findings == []
        assert report.notes == []
        assert report.ok
        assert report.messages > 0
        assert report.items > 0

    @pytest.mark.parametrize(
        ("version", "scenario"), [golden for golden in GOLDENS if golden[1] != "unclean-dirty"]
    )
    def test_a_brokers_own_store_is(self, golden, version, scenario):
        report = verify(theirs(golden(version, scenario)))

        assert report.findings == []

    @pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.0"])
    def test_records_indexed_twice_after_a_crash_are_a_note(self, golden, version):
        """
        A broker takes its last full file's last record again when it recovers.
        """
        report = verify(theirs(golden(version, "unclean-recovered")))

        assert [note.kind for note in report.notes] == [Kind.SURPLUS]
        assert "indexed again" in report.notes[0].detail

    @pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.0"])
    def test_what_a_torn_record_has_left_is_a_finding(self, golden, version):
        report = verify(theirs(golden(version, "unclean-dirty")))

        paths = {f.path.split("unclean-dirty/")[1].split("/")[0] for f in report.findings}
        assert kinds(report)[:2] == [Kind.SURPLUS, Kind.SURPLUS]
        assert {"consumequeue", "index"} <= paths

    def test_batch_queues_are(self, built):
        report = verify(built(VERSION, "basic", batches=True))

        assert report.findings == []
        assert report.entries == report.messages


class TestQueues:
    def test_an_entry_that_was_zeroed_is_missing(self, output):
        path = files(output, *QUEUE)[0]
        write(path, 20, bytes(40))

        found = only(verify(output))

        assert (found.kind, found.path, found.position) == (Kind.MISSING, str(path), 20)
        assert found.detail.startswith("2 entries")

    def test_a_file_that_is_gone_is_missing(self, output):
        path = files(output, *QUEUE)[0]
        path.unlink()

        found = only(verify(output))

        assert (found.kind, found.path, found.position) == (Kind.MISSING, str(path), 0)
        assert found.detail.startswith("50 entries")

    def test_a_queue_that_is_gone_is_missing(self, output):
        shutil.rmtree(output.output.joinpath(*QUEUE))

        assert set(kinds(verify(output))) == {Kind.MISSING}

    def test_all_of_it_gone_is_a_finding_for_each_file_and_no_error(self, output):
        for kind in ("consumequeue", "index"):
            shutil.rmtree(output.output / kind)
        (output.output / "checkpoint").unlink()

        assert set(kinds(verify(output))) == {Kind.MISSING}

    def test_entries_that_changed_places_are_misplaced(self, output):
        path = files(output, *QUEUE)[0]
        first, second = read(path, 0, 20), read(path, 20, 20)
        write(path, 0, second + first)

        report = verify(output)

        assert kinds(report) == [Kind.MISPLACED, Kind.MISPLACED]
        assert [f.position for f in report.findings] == [0, 20]

    def test_another_tags_code_is_wrong_bytes(self, output):
        path = files(output, *QUEUE)[0]
        write(path, 20 * 7 + 12, b"\x11")

        found = only(verify(output))

        assert (found.kind, found.position) == (Kind.WRONG_BYTES, 140)

    def test_an_entry_after_the_last_is_surplus(self, output):
        path = files(output, *QUEUE)[-1]
        used = used_entries(path)
        write(path, 20 * used, read(path, 20 * (used - 1), 20))

        found = only(verify(output))

        assert (found.kind, found.path, found.position) == (Kind.SURPLUS, str(path), 20 * used)
        assert found.detail.startswith("1 entry after the last")

    def test_a_byte_in_an_unused_entry_is_surplus(self, output):
        path = files(output, *QUEUE)[-1]
        write(path, 999, b"\x01")

        found = only(verify(output))

        assert (found.kind, found.position) == (Kind.SURPLUS, 980)

    def test_files_of_a_queue_without_records_are_surplus(self, output):
        path = output.output / "consumequeue" / "no-such-topic" / "0" / "0".rjust(20, "0")
        path.parent.mkdir(parents=True)
        shutil.copy(files(output, *QUEUE)[0], path)

        found = only(verify(output))

        assert (found.kind, found.path) == (Kind.SURPLUS, str(path))

    def test_a_file_after_the_last_one_is_surplus(self, output):
        last = files(output, *QUEUE)[-1]
        path = last.with_name(f"{int(last.name) + 1000:020d}")
        path.write_bytes(bytes(1000))

        found = only(verify(output))

        assert (found.kind, found.path) == (Kind.SURPLUS, str(path))

    def test_a_file_that_was_cut_has_the_wrong_size_and_misses_entries(self, output):
        path = files(output, *QUEUE)[0]
        with path.open("r+b") as file:
            file.truncate(500)

        report = verify(output)

        assert sorted(kinds(report)) == [Kind.MISSING, Kind.SIZE]
        assert {f.position for f in report.findings} == {500}

    @pytest.mark.parametrize("name", ["readme", "00000000000000000007"])
    def test_a_file_of_no_such_name_is_a_finding(self, output, name):
        (output.output.joinpath(*QUEUE) / name).write_bytes(bytes(1000))

        assert only(verify(output)).kind == Kind.NAME

    def test_fill_that_is_damaged_is_wrong_bytes(self, output_of):
        """
        Before a queue's first record stands fill, which a broker takes for entries.
        """
        config = output_of("minoffset")
        path = files(config, *QUEUE)[0]
        write(path, 27, b"\x01")

        found = only(verify(config))

        assert (found.kind, found.position) == (Kind.WRONG_BYTES, 20)

    @pytest.mark.parametrize("is_known", [True, False])
    def test_a_topic_that_its_broker_deleted_is_a_note(self, golden, tmp_path, is_known):
        """
        Its queues are gone; its records stay in the log until they expire.
        """
        store = golden(VERSION, "basic")
        path = store.copy(tmp_path / "store")
        topics = {topic.name: {} for topic in (path / "consumequeue").iterdir()}
        shutil.rmtree(path / "consumequeue" / "topic-1")
        if not is_known:
            del topics["topic-1"]
        (path / "config").mkdir(exist_ok=True)
        (path / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))

        report = verify(theirs(store, path))

        found = report.findings if is_known else report.notes
        assert report.ok is not is_known
        assert {f.kind for f in found} == {Kind.MISSING}
        assert all("topic-1" in f.path for f in found)


class TestUnits:
    def test_a_units_timestamp_is_wrong_bytes(self, output_of):
        config = output_of("sqlext")
        path = files(config, "consumequeue_ext", "sql-topic", "0")[0]
        write(path, 12, b"\x7f")

        assert only(verify(config)).kind == Kind.WRONG_BYTES

    def test_a_bit_map_that_differs_is_named(self, output_of):
        config = output_of("sqlext")
        path = files(config, "consumequeue_ext", "sql-topic", "0")[0]
        write(path, 25, bytes([read(path, 25, 1)[0] ^ 0xFF]))

        assert only(verify(config)).detail.startswith("bit map")

    def test_bytes_after_a_full_files_last_unit_are_surplus(self, output_of):
        config = output_of("extonly")
        queue = next(p for p in (config.output / "consumequeue_ext").rglob("0" * 20))
        write(queue, 4095, b"\x01")

        assert kinds(verify(config)) == [Kind.SURPLUS]

    def test_an_end_mark_that_is_gone_is_missing(self, output_of):
        config = output_of("sqlext")
        path = files(config, "consumequeue_ext", "sql-topic", "0")[0]
        mark = path.read_bytes().rstrip(b"\0").rindex(b"\xff\xff")
        write(path, mark, bytes(2))

        found = only(verify(config))

        assert (found.kind, found.position) == (Kind.MISSING, mark)

    def test_an_extension_that_is_gone_is_missing(self, output_of):
        config = output_of("sqlext")
        shutil.rmtree(config.output / "consumequeue_ext" / "sql-topic" / "0")

        assert set(kinds(verify(config))) == {Kind.MISSING}

    def test_a_batch_unit_is_compared(self, output_of):
        config = output_of(batches=True)
        path = files(config, "batchconsumequeue", "topic-1", "0")[0]
        write(path, 46 + 45, b"\x01")

        found = only(verify(config))

        assert (found.kind, found.position) == (Kind.WRONG_BYTES, 46)

    def test_a_batch_unit_after_the_last_is_surplus(self, output_of):
        config = output_of(batches=True)
        path = files(config, "batchconsumequeue", "topic-1", "0")[-1]
        used = len(path.read_bytes().rstrip(b"\0")) // 46 + 1
        write(path, 46 * used, read(path, 0, 46))

        found = only(verify(config))

        assert (found.kind, found.position) == (Kind.SURPLUS, 46 * used)


class TestIndex:
    @pytest.mark.parametrize("at", [0, 8, 16, 24, 32, 36])
    @pytest.mark.parametrize("number", [0, 1, -1])
    def test_each_field_of_the_header_is_known(self, output, at, number):
        path = files(output, "index")[number]
        last = 7 if at < 32 else 3
        write(path, at + last, bytes([read(path, at + last, 1)[0] ^ 1]))

        found = only(verify(output))

        assert (found.kind, found.path, found.position) == (Kind.HEADER, str(path), at)

    def test_an_items_predecessor_is_its_chain(self, output):
        path = files(output, "index")[1]
        at = ITEMS_AT + 20 * 300
        write(path, at + 18, b"\x77\x77")

        found = only(verify(output))

        assert (found.kind, found.position) == (Kind.BROKEN_CHAIN, at)

    def test_a_slot_is_its_chain(self, output):
        path = files(output, "index")[1]
        write(path, 40 + 4 * 50, b"\0\0\0\0")

        found = only(verify(output))

        assert (found.kind, found.position) == (Kind.BROKEN_CHAIN, 240)

    @pytest.mark.parametrize("field", [0, 4, 12])
    @pytest.mark.parametrize("number", [1, 300, 599])
    def test_another_value_in_an_item_is_wrong_bytes(self, output, field, number):
        path = files(output, "index")[1]
        at = ITEMS_AT + 20 * number
        write(path, at + field, b"\x55")

        found = only(verify(output))

        assert (found.kind, found.position) == (Kind.WRONG_BYTES, at)

    def test_an_item_that_was_zeroed_is_missing(self, output):
        path = files(output, "index")[1]
        write(path, ITEMS_AT + 20 * 300, bytes(20))

        found = only(verify(output))

        assert (found.kind, found.position) == (Kind.MISSING, ITEMS_AT + 20 * 300)

    def test_items_that_ended_early_are_missing(self, output):
        path = files(output, "index")[-1]
        write(path, ITEMS_AT + 20 * 100, bytes(20 * 500))

        report = verify(output)

        assert report.findings[0].kind == Kind.MISSING
        assert report.findings[0].position == ITEMS_AT + 20 * 100

    @pytest.mark.parametrize("number", [0, 5])
    def test_a_file_that_is_gone_is_missing(self, output, number):
        """
        The files after it are compared all the same, and have nothing else to be said of.
        """
        files(output, "index")[number].unlink()

        report = verify(output)

        assert report.findings[0].kind == Kind.MISSING
        # The next file counts its first item's time from the end of the one that is gone.
        assert report.found < 5

    def test_the_last_file_gone_is_missing(self, output):
        files(output, "index")[-1].unlink()

        report = verify(output)

        assert report.findings[0].kind == Kind.MISSING
        assert "no file for the records" in report.findings[0].detail

    def test_an_item_after_the_last_is_surplus(self, output):
        path = files(output, "index")[-1]
        count = Header.unpack(path.read_bytes()).index_count
        write(path, ITEMS_AT + 20 * count, read(path, ITEMS_AT + 20, 20))

        report = verify(output)

        assert report.findings[0].kind in {Kind.SURPLUS, Kind.HEADER}
        assert any(
            f.kind == Kind.SURPLUS and f.position == ITEMS_AT + 20 * count for f in report.findings
        )

    @pytest.mark.parametrize("at", [ITEMS_AT, ITEMS_AT + 20 * ITEMS - 1])
    def test_a_byte_where_nothing_is_used_is_surplus(self, output, at):
        path = files(output, "index")[-1]
        write(path, at, b"\x01")

        assert only(verify(output)).kind == Kind.SURPLUS

    def test_a_file_after_the_last_is_surplus(self, output):
        last = files(output, "index")[-1]
        path = last.with_name("29991231235959999")
        path.write_bytes(bytes(last.stat().st_size))

        found = only(verify(output))

        assert (found.kind, found.path) == (Kind.SURPLUS, str(path))

    def test_a_foreign_file_is_a_finding(self, output):
        (output.output / "index" / "notes.txt").write_text("x")

        assert only(verify(output)).kind == Kind.NAME

    def test_items_made_twice_are_surplus_in_our_own_output(self, golden, tmp_path):
        """
        What is a broker's habit after a crash is a fault of ours.
        """
        store = golden(VERSION, "unclean-recovered")
        source = store.copy_input(tmp_path / "store")
        output = tmp_path / "output"
        rebuild(source, output, broker_version=VERSION, broker_conf=store.conf)
        shutil.rmtree(output / "index")
        shutil.copytree(store.path / "index", output / "index")
        config = store_config(source, output, broker_version=VERSION, broker_conf=store.conf)

        assert Kind.SURPLUS in kinds(verify(config))

    def test_an_output_without_an_index(self, golden, tmp_path):
        store = golden(VERSION, "basic")
        conf = {**store.conf, "messageIndexEnable": "false"}
        source = store.copy_input(tmp_path / "store")
        rebuild(source, tmp_path / "output", broker_version=VERSION, broker_conf=conf)
        config = store_config(source, tmp_path / "output", broker_version=VERSION, broker_conf=conf)

        assert verify(config).findings == []

        shutil.copytree(store.path / "index", tmp_path / "output" / "index")
        assert set(kinds(verify(config))) == {Kind.SURPLUS}


class TestCheckpoint:
    @pytest.mark.parametrize("number", range(6))
    def test_each_long_of_our_own_is_known(self, output, number):
        path = output.output / "checkpoint"
        write(path, 8 * number + 7, bytes([read(path, 8 * number + 7, 1)[0] ^ 0x10]))

        report = verify(output)

        assert report.findings[0].kind == Kind.CHECKPOINT
        assert {f.position for f in report.findings} == {8 * number}

    def test_bytes_after_the_longs_are_surplus(self, output):
        write(output.output / "checkpoint", 4000, b"\x01")

        found = only(verify(output))

        assert (found.kind, found.position) == (Kind.SURPLUS, 4000)

    def test_one_that_is_gone_is_missing(self, output):
        (output.output / "checkpoint").unlink()

        assert only(verify(output)).kind == Kind.MISSING

    def test_a_brokers_may_not_be_ahead_of_its_log(self, golden, tmp_path):
        store = golden(VERSION, "basic")
        path = store.copy(tmp_path / "store")
        (physic,) = struct.unpack(">q", read(path / "checkpoint", 0, 8))
        write(path / "checkpoint", 0, struct.pack(">q", physic + 1_000_000))

        assert only(verify(theirs(store, path))).kind == Kind.CHECKPOINT_AHEAD

    def test_a_brokers_index_time_is_the_end_of_a_full_file(self, golden, tmp_path):
        store = golden(VERSION, "basic")
        path = store.copy(tmp_path / "store")
        write(path / "checkpoint", 16, struct.pack(">q", 12345))

        assert only(verify(theirs(store, path))).kind == Kind.CHECKPOINT


class TestProgress:
    def test_a_damaged_record_is_a_finding(self, output):
        path = output.output / ".reput" / "progress.json"
        path.write_text(path.read_text().replace('"messages": ', '"messages": 1'))

        found = only(verify(output))

        assert (found.kind, found.path) == (Kind.PROGRESS, str(path))

    def test_an_output_without_one_was_not_written_by_us(self, output):
        shutil.rmtree(output.output / ".reput")

        assert Kind.MISSING in kinds(verify(output))

    def test_other_settings_are_an_error(self, output, golden):
        conf = golden(VERSION, "basic").conf
        other = store_config(output.path, output.output, broker_version="5.3", broker_conf=conf)

        with pytest.raises(StoreError, match="version"):
            verify(other)

    def test_an_output_that_is_behind_its_log_is_incomplete(self, output_of):
        """
        Nothing is wrong with it, and nobody is about to write the rest.
        """
        config = output_of()
        shutil.rmtree(config.output)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(find_tail(dispatcher.log).end // 2)
        dispatcher.close()

        report = verify(config)

        assert report.findings == []
        assert verdict_of(report) == Verdict.INCOMPLETE
        [lack] = report.lacks
        assert "are not dispatched, and nothing is writing" in lack.detail
        assert "`reput rebuild`" in lack.detail

    def test_an_output_that_is_being_written_is_not_incomplete(self, output_of):
        """
        What its writer has not come to is a matter of time; who that is, is said.
        """
        config = output_of()
        shutil.rmtree(config.output)
        dispatcher = StoreDispatcher(config)
        try:
            dispatcher.dispatch(find_tail(dispatcher.log).end // 2)
            dispatcher.flush()
            report = verify(config)
        finally:
            dispatcher.close()

        assert verdict_of(report) == Verdict.SOUND
        assert report.writer == f"this process, {os.getpid()}"
        said = f"not dispatched yet; {report.writer} is writing"
        assert any(note.detail.endswith(said) for note in report.notes)

    def test_what_its_writer_has_not_recorded_yet_was_not_left_by_a_crash(self, output_of):
        """
        Entries are there up to a minute before they are recorded: nothing has happened.
        """
        config = output_of()
        shutil.rmtree(config.output)
        dispatcher = StoreDispatcher(config)
        try:
            dispatcher.dispatch(find_tail(dispatcher.log).end)
            report = verify(config)
        finally:
            dispatcher.close()
        surplus = [note.detail for note in report.notes if note.kind == Kind.SURPLUS]

        assert verdict_of(report) == Verdict.SOUND
        said = f"not recorded yet; {report.writer} is writing"
        assert surplus
        assert all(detail.endswith(said) for detail in surplus)

    def test_a_damaged_output_that_is_behind_is_damaged(self, output_of):
        """
        Adding what is missing would not mend it.
        """
        config = output_of()
        shutil.rmtree(config.output)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(find_tail(dispatcher.log).end // 2)
        dispatcher.close()
        entry = min(p for p in (config.output / "consumequeue").rglob("*") if p.is_file())
        data = bytearray(entry.read_bytes())
        data[10] ^= 1
        entry.write_bytes(data)
        report = verify(config)

        assert not report.is_complete
        assert verdict_of(report) == Verdict.DAMAGED

    def test_an_output_that_is_not_there_is_no_finding(self, output_of):
        """
        A path with a mistake in it is an error, as it is in all commands.
        """
        config = output_of()
        shutil.rmtree(config.output)
        with pytest.raises(StoreError, match="no such directory"):
            verify(config)

    def test_an_interrupted_rebuild_in_place_is_incomplete(self, output_of):
        """
        Only a broker that has continued makes the store its own again.
        """
        config = output_of()
        shutil.rmtree(config.output)
        config = replace(config, output=config.path, in_place=True)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(find_tail(dispatcher.log).end // 2)
        dispatcher.close()

        assert verdict_of(verify(config)) == Verdict.INCOMPLETE

    @pytest.mark.parametrize("scenario", ["basic", "extonly", "sqlext", "lmq", "batches"])
    def test_what_a_killed_writer_left_is_a_note(self, output_of, scenario):
        """
        Its successor rolls back what is after the progress record.
        """
        config = output_of(batches=True) if scenario == "batches" else output_of(scenario)
        shutil.rmtree(config.output)
        progress = config.output / ".reput" / "progress.json"
        dispatcher = StoreDispatcher(config)
        end = find_tail(dispatcher.log).end
        dispatcher.dispatch(end // 2)
        recorded = progress.read_bytes()
        dispatcher.dispatch(end)
        # What a kill leaves behind: data, and the progress of the batch before.
        dispatcher.parts.output.is_consistent = False
        dispatcher.close()
        progress.write_bytes(recorded)

        report = verify(config)

        assert report.findings == []
        assert {note.kind for note in report.notes} == {Kind.SURPLUS, Kind.PROGRESS}

    @pytest.mark.parametrize(
        ("kind", "size"),
        [
            ("consumequeue", "consumequeue_file_size"),
            ("consumequeue_ext", "ext_file_size"),
            ("batchconsumequeue", "batch_file_size"),
        ],
    )
    @pytest.mark.parametrize("is_clean", [False, True])
    def test_a_file_that_a_full_disk_left_empty_is_a_note(self, output_of, kind, size, is_clean):
        """
        The next start rolls it back. Where the writer has closed in order, nothing of ours left it.
        """
        config = output_of("extonly" if kind == "consumequeue_ext" else "basic")
        shutil.rmtree(config.output)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(find_tail(dispatcher.log).end // 2)
        if not is_clean:
            dispatcher.parts.output.is_consistent = False
        dispatcher.close()
        queue = config.output / kind / "a-new-topic" / "0"
        queue.mkdir(parents=True)
        with (queue / f"{0:020}").open("wb") as file:
            file.truncate(getattr(config.settings, size))

        report = verify(config)

        verdict = Verdict.DAMAGED if is_clean else Verdict.INCOMPLETE
        assert verdict_of(report) == verdict
        found = report.findings if is_clean else report.notes
        assert [each.path for each in found if "a-new-topic" in each.path] == [
            f"{queue / f'{0:020}'}"
        ]
        if not is_clean:
            rebuild(
                config.path,
                config.output,
                broker_version=VERSION,
                broker_conf=config.properties,
            )
            assert verdict_of(verify(config)) == Verdict.SOUND

    def test_a_store_that_its_broker_went_on_with_is_verified_as_its_own(self, golden, tmp_path):
        store = golden(VERSION, "basic")
        path = store.copy_input(tmp_path / "store")
        config = theirs(store, path)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(find_tail(dispatcher.log).end // 2)
        dispatcher.close()
        for kind in ("consumequeue", "index"):
            shutil.rmtree(path / kind)
            shutil.copytree(store.path / kind, path / kind)
        shutil.copy(store.path / "checkpoint", path)

        report = verify(config)

        assert report.findings == []
        assert "has continued after" in report.notes[0].detail


class TestExpired:
    @pytest.mark.parametrize("scenario", ["basic", "extonly", "sqlext", "lmq", "trans"])
    @pytest.mark.parametrize("is_ours", [True, False])
    def test_records_that_the_log_has_no_more(self, output_of, golden, tmp_path, scenario, is_ours):
        """
        Their entries and items cannot be checked; the rest is, and nothing is wrong with it.
        """
        if is_ours:
            config = output_of(scenario)
        else:
            store = golden(VERSION, scenario)
            config = theirs(store, store.copy(tmp_path / "theirs"))
        min(config.path.joinpath("commitlog").iterdir()).unlink()

        report = verify(config)

        assert report.findings == []
        assert report.unverifiable > 0

    def test_batches_that_the_log_has_no_more(self, output_of):
        config = output_of(batches=True)
        min(config.path.joinpath("commitlog").iterdir()).unlink()

        assert verify(config).findings == []

    def test_an_entry_below_the_log_that_cannot_be_is_found(self, output_of):
        config = output_of()
        min(config.path.joinpath("commitlog").iterdir()).unlink()
        write(files(config, *QUEUE)[0], 8, b"\x7f")

        assert kinds(verify(config)) == [Kind.WRONG_BYTES]


class TestReport:
    def test_findings_are_bounded_and_their_number_is_not(self):
        report = Report()
        for i in range(KEPT + 5):
            report.add(Kind.MISSING, "file", i, "")

        assert len(report.findings) == KEPT
        assert report.found == KEPT + 5
        assert not report.ok

    def test_units_in_a_row_are_one_finding(self):
        report = Report()
        for position in (0, 20, 40, 100):
            report.add_to_run(Kind.MISSING, "file", position, 20, "entries")
        report.end_runs()

        assert [(f.position, f.detail) for f in report.findings] == [
            (0, "3 entries"),
            (100, "1 entries"),
        ]


class TestFlips:
    def test_every_flipped_byte_is_found(self, tmp_path):
        """
        One byte at a time, anywhere in a file: `benchmarks/flips.py` does more of them.
        """
        scenarios = ("delay", "lmq", "minoffset", "sqlext")
        regions = build_regions(tmp_path, ("5.5.0",), scenarios)

        flips = flip_many(regions, 300, seed=20240607)

        assert [flip for flip in flips if not flip.was_found] == []
