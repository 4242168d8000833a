"""What fuzzing has found, each as small as it gets."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest

from reput.checkpoints import progress
from reput.formats.errors import FormatError, ReputError, StoreError, UsageError
from reput.formats.kernels import scan
from reput.formats.rocketmq import broker, indexfile, names
from reput.formats.rocketmq.commitlog import ROLLBACK, Record, read
from reput.formats.rocketmq.encode import Message, encode
from reput.stores.config.deleted_topics import deleted_topics
from reput.stores.config.filters import bitmaps_of
from reput.stores.config.topics import batch_topics
from reput.stores.findings import Kind
from reput.stores.inspect.files import inspect_commitlog
from reput.stores.log.tail import find_tail
from reput.stores.query.by_key import KeyStatus
from reput.stores.query.message_store import MessageStore
from reput.streaming.dispatch.dispatcher import StoreDispatcher, rebuild
from reput.streaming.settings.config import read_broker_conf, store_config
from reput.streaming.settings.reput_toml import read_config
from reput.streaming.verify.log_records import LogRecords
from reput.streaming.verify.output import verify
from tests.builders.stores import SLOTS, SMALL, Log, config_of, fill

if TYPE_CHECKING:
    from pathlib import Path

INT64 = 1 << 63


class TestRecords:
    def test_due_time_wraps_around(self) -> None:
        """
        A due time beyond 64 bits wraps as Java's does, in the kernel and in its twin.
        """
        message = Message("SCHEDULE_TOPIC_XXXX", b"", {"DELAY": "+1"}, store_timestamp=INT64 - 1)
        raw = encode(message, 0)
        _, record = read(raw, 0, 0, len(raw))
        assert isinstance(record, Record)

        row = scan.describe(record, (1000,), tag_entries=False)

        assert row.tags_code == 999 - INT64

    @pytest.mark.parametrize("delay", ["1", "+1"])
    def test_due_time_beyond_64_bits_is_dispatched(self, tmp_path: Path, delay: str) -> None:
        """
        Such a record goes through the fast path and through the slow one.
        """
        log = Log()
        log.append(
            Message("SCHEDULE_TOPIC_XXXX", b"b", {"DELAY": delay}, store_timestamp=INT64 - 1)
        )
        log.write(tmp_path / "store")

        batch = rebuild(
            tmp_path / "store", tmp_path / "output", broker_version="5.5", broker_conf=SMALL
        )

        assert batch.messages == 1


class TestRefused:
    def test_unit_of_a_refused_record_is_taken_back(self, tmp_path: Path) -> None:
        """
        A record whose queue offset cannot be leaves nothing: its extension's unit goes as well.
        """
        log = Log()
        log.append(Message("a", b"body", queue_offset=0))
        log.append(Message("b", b"body", queue_offset=-1))
        log.write(tmp_path / "store")
        config = config_of(tmp_path / "store", tmp_path / "output", enableConsumeQueueExt="true")
        dispatcher = StoreDispatcher(config, threads=1)
        with pytest.raises(ReputError, match="queue offset -1"):
            dispatcher.dispatch(dispatcher.log.end_of_files)
        dispatcher.close()

        assert verify(config).findings == []
        assert not (tmp_path / "output" / names.CONSUMEQUEUE_EXT / "b").exists()


class TestOutputs:
    def test_file_made_ahead_by_a_repeated_record(self, tmp_path: Path) -> None:
        """
        A repeated record after a full file has the next one made, empty: that is not a finding.
        """
        log = Log()
        for queue_offset in (*range(8), 1):
            log.append(Message("t", b"body", queue_offset=queue_offset))
        log.write(tmp_path / "store")
        config = config_of(tmp_path / "store", tmp_path / "output")
        dispatcher = StoreDispatcher(config, threads=1)
        dispatcher.dispatch(find_tail(dispatcher.log).end)
        dispatcher.close()

        assert len(list((tmp_path / "output" / names.CONSUMEQUEUE / "t" / "0").iterdir())) == 2
        assert verify(config).findings == []

    @pytest.mark.parametrize("length", [0, 36])
    def test_cut_index_file_is_refused(self, tmp_path: Path, length: int) -> None:
        """
        The newest index file, too short for a header: somebody else has been here.
        """
        fill(Log(), 1, 10).write(tmp_path / "store")
        config = config_of(tmp_path / "store", tmp_path / "output")
        dispatcher = StoreDispatcher(config, threads=1)
        dispatcher.dispatch(find_tail(dispatcher.log).end)
        dispatcher.close()
        newest = max((tmp_path / "output" / names.INDEX).iterdir())
        newest.write_bytes(newest.read_bytes()[:length])

        with pytest.raises(ReputError):
            StoreDispatcher(config, threads=1)

    def test_item_of_a_record_that_was_rolled_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Its record has the key and no item: looked for there once, not twenty thousand times.
        """
        log = Log()
        log.append(Message("t", b"body", {"KEYS": "k1"}, sys_flag=ROLLBACK))
        for number in range(2):
            log.append(Message("t", b"body", {"KEYS": f"k{number + 2}"}, queue_offset=number))
        log.write(tmp_path / "store")
        config = config_of(tmp_path / "store", tmp_path / "output")
        dispatcher = StoreDispatcher(config, threads=1)
        dispatcher.dispatch(find_tail(dispatcher.log).end)
        dispatcher.close()
        (path,) = (tmp_path / "output" / names.INDEX).iterdir()
        at = indexfile.item_position(2, SLOTS)
        item = struct.pack(">iq", indexfile.key_hash("t#k1"), 0)
        path.write_bytes(path.read_bytes()[:at] + item + path.read_bytes()[at + len(item) :])

        walks = []
        columns = LogRecords.columns

        def counted(records: LogRecords, start: int, end: int) -> Any:
            walks.append(start)
            return columns(records, start, end)

        monkeypatch.setattr(LogRecords, "columns", counted)

        assert not verify(config).ok
        assert len(walks) < 5

    def test_progress_nested_without_end(self, tmp_path: Path) -> None:
        """
        A progress record that no parser takes is a damaged one.
        """
        (tmp_path / progress.STATE_DIRECTORY).mkdir()
        text = '{"crc": 0,\n"format": ' + "[" * 100_000
        (tmp_path / progress.STATE_DIRECTORY / progress.FILE_NAME).write_text(text, "ascii")

        with pytest.raises(FormatError):
            progress.load(tmp_path)

    @pytest.mark.parametrize("length", [0, 31, 100])
    def test_lookup_names_a_cut_index_file(self, tmp_path: Path, length: int) -> None:
        """
        A look-up in an index file that was cut says so.
        """
        fill(Log(), 1, 10).write(tmp_path / "store")
        config = config_of(tmp_path / "store", tmp_path / "output")
        (tmp_path / "output" / names.INDEX).mkdir(parents=True)
        (tmp_path / "output" / names.INDEX / "20240101000000000").write_bytes(bytes(length))
        with MessageStore.open(config.path, config.output, config.settings) as store:
            answer = store.by_key("orders", "k1")

            assert answer.status == KeyStatus.NO_INDEX
            assert [f.kind for f in store.report.findings] == [Kind.SIZE]


@pytest.mark.parametrize("name", ["9" * 20, f"{1 << 63:020d}", f"{(1 << 63) - 4096:020d}"])
def test_offsets_beyond_64_bits_name_no_file(name: str, tmp_path: Path) -> None:
    """
    A file's end has to be a Java long: kernels have no more bits either.
    """
    (tmp_path / "store" / names.COMMITLOG).mkdir(parents=True)
    (tmp_path / "store" / names.COMMITLOG / name).write_bytes(bytes(4096))
    config = config_of(tmp_path / "store", tmp_path / "output")

    with pytest.raises(StoreError):
        StoreDispatcher(config)


@pytest.mark.parametrize("first", [0, (1 << 63) - 10, 1 << 70])
def test_inspection_of_the_last_file_there_could_be(first: int, tmp_path: Path) -> None:
    """
    A file's name is only a name: one whose file would end beyond 64 bits is refused by name.
    """
    path = tmp_path / f"{(1 << 63) - 4096:020d}"
    path.write_bytes(bytes(4096))

    with pytest.raises(FormatError, match=f"{path.name} at byte 0: .*beyond a Java long"):
        list(inspect_commitlog(path, broker.settings_of("5.5"), first).rows)


class TestBrokerConf:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("messageDelayLevel", "²s"),
            ("messageDelayLevel", "9999999999999999999d"),
            ("messageDelayLevel", "1" * 5000 + "s"),
            ("maxIndexNum", "9" * 5000),
            ("maxIndexNum", "9" * 30),
            ("maxHashSlotNum", "2147483648"),
            ("mappedFileSizeCommitLog", "٣٣٣٣"),
            ("storePathCommitLog", "a\0b"),
        ],
    )
    def test_numbers_that_are_none(self, name: str, value: str) -> None:
        """
        Digits of other scripts, more of them than a number has, a NUL: the setting is named.
        """
        with pytest.raises(UsageError, match=name):
            broker.settings_of("5.5", {name: value})

    def test_broken_escape(self, tmp_path: Path) -> None:
        r"""
        A \u without digits: the file is named.
        """
        (tmp_path / "broker.conf").write_text("a=\\uZZZZ", "utf-8")

        with pytest.raises(UsageError, match=r"broker\.conf"):
            read_broker_conf(tmp_path / "broker.conf")


class TestReputToml:
    @pytest.mark.parametrize(
        "text",
        [
            "a = " + "[" * 3000,
            '[[store]]\npath = "a"\noutput = "\\u0000"',
            '[[store]]\npath = "\\u0000"\noutput = "a"',
            '[[store]]\npath = "a"\noutput = "b"\nbroker_conf = "\\u0000"',
        ],
    )
    def test_depth_and_nul(self, tmp_path: Path, text: str) -> None:
        """
        Nested beyond what the parser takes, paths that no system has.
        """
        (tmp_path / "reput.toml").write_text(text, "utf-8")

        with pytest.raises(UsageError):
            read_config(tmp_path / "reput.toml")

    def test_nul_in_a_path(self, tmp_path: Path) -> None:
        """
        So on the command line.
        """
        with pytest.raises(UsageError):
            store_config(tmp_path, tmp_path / "a\0b")


class TestConfigFiles:
    @pytest.mark.parametrize(
        "raw",
        [
            b'{"topicConfigTable":{"\xff":{}}}',
            b'{"topicConfigTable":[1]}',
            b'{"topicConfigTable":' + b"[" * 100_000 + b"}",
        ],
    )
    def test_topics_that_are_no_table(self, tmp_path: Path, raw: bytes) -> None:
        """
        topics.json in which no topics can be read stops a dispatch: BatchCQ topics would be lost.
        """
        (tmp_path / names.CONFIG).mkdir()
        (tmp_path / names.CONFIG / "topics.json").write_bytes(raw)

        with pytest.raises(StoreError):
            batch_topics(tmp_path)
        assert not deleted_topics(tmp_path)("t")

    @pytest.mark.parametrize("topic", [5, None, [], {"attributes": 5}, {"attributes": ["a"]}])
    def test_topic_that_is_no_object(self, tmp_path: Path, topic: Any) -> None:
        """
        A topic that says nothing of a type is an ordinary one.
        """
        (tmp_path / names.CONFIG).mkdir()
        text = json.dumps({"topicConfigTable": {"t": topic}})
        (tmp_path / names.CONFIG / "topics.json").write_text(text, "utf-8")

        assert batch_topics(tmp_path) == frozenset()

    @pytest.mark.parametrize(
        "text", ['{"a":' + "[" * 100_000 + "}", '{"filterDataByTopic":{"\udcff":{}}}']
    )
    def test_filters_that_cannot_be_read(self, tmp_path: Path, text: str) -> None:
        """
        consumerFilter.json, nested without end or no UTF-8.
        """
        (tmp_path / names.CONFIG).mkdir()
        raw = text.encode("utf-8", "surrogateescape")
        (tmp_path / names.CONFIG / "consumerFilter.json").write_bytes(raw)
        conf = {"enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true"}

        with pytest.raises(StoreError):
            bitmaps_of(tmp_path, broker.settings_of("5.5", conf))

    @pytest.mark.parametrize("bits", [-8, 8 << 40])
    def test_bits_that_no_unit_holds(self, tmp_path: Path, bits: int) -> None:
        """
        A filter of a size that cannot be belongs to no broker: there are no bit maps.
        """
        (tmp_path / names.CONFIG).mkdir()
        group = {
            "expression": "a = 1",
            "expressionType": "SQL92",
            "bloomFilterData": {"bitNum": bits},
        }
        text = json.dumps({"filterDataByTopic": {"t": {"groupFilterData": {"g": group}}}})
        (tmp_path / names.CONFIG / "consumerFilter.json").write_text(text, "utf-8")
        conf = {"enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true"}
        bitmaps = bitmaps_of(tmp_path, broker.settings_of("5.5", conf))

        assert bitmaps is not None
        assert bitmaps.bitmap_for("t", {"a": "1"}, 1 << 41) is None
