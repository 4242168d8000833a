"""Index files: rolled with a seeded header, keys straddling a roll, continuing after a close."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from reput.formats.errors import FormatError, StoreError
from reput.formats.kernels.scan import Columns
from reput.formats.rocketmq import names
from reput.formats.rocketmq.broker import BrokerSettings
from reput.formats.rocketmq.commitlog import PREPARED, ROLLBACK
from reput.formats.rocketmq.indexfile import Header, file_size
from reput.sinks.files.index import NO_INDEX, IndexSink
from tests.builders.blocks import block_of
from tests.builders.slow_twins import SlowIndexFile, differences
from tests.builders.stores import files_of

SLOTS, ITEMS = 5, 4  # three items a file
SETTINGS = replace(BrokerSettings(), index_slots=SLOTS, index_items=ITEMS)
START = 1_700_000_000_000


def columns_of(rows) -> Columns:
    """Rows are (physical offset, store timestamp, sysFlag, key hashes)."""
    columns = Columns.of(max(len(rows), 1), sum(len(r[3]) for r in rows) + 1)
    key = 0
    for i, (offset, timestamp, flag, keys) in enumerate(rows):
        columns.physical_offset[i], columns.store_timestamp[i] = offset, timestamp
        columns.sys_flag[i] = flag
        columns.key_hash[key : key + len(keys)] = keys
        key += len(keys)
        columns.key_end[i] = key
    return columns


class Twin:
    """The slow index; a file for each roll."""

    def __init__(self) -> None:
        self.files = []

    def room(self):
        if not self.files or self.files[-1].is_full:
            self.files.append(SlowIndexFile(SLOTS, ITEMS, self.files[-1] if self.files else None))
        return self.files[-1]

    def write(self, rows) -> None:
        for offset, timestamp, flag, keys in rows:
            self.room()
            for hashed in keys if flag != ROLLBACK else []:
                self.room().put(hashed, offset, timestamp)

    def bytes(self) -> dict[str, bytes]:
        return {f"index/{i}": file.bytes(0) for i, file in enumerate(self.files)}


@pytest.fixture
def sink(root, staging):
    made = IndexSink(root, staging, SETTINGS)
    yield made
    made.close()


def write(sink, *rows) -> None:
    sink.write(block_of(columns_of(rows), len(rows)))


def row(number: int, *keys: int, flag: int = 0):
    return number * 100, START + number * 1500, flag, list(keys)


class TestRoll:
    def test_no_file_before_the_first_record(self, root, sink):
        write(sink)

        assert sink.position == NO_INDEX
        assert not (root / "index").exists()

    def test_a_record_without_keys_makes_the_first_file(self, root, sink):
        """
        The broker asks for a file before it looks at the record.
        """
        write(sink, row(0))

        assert files_of(root) == {"index/0": bytes(file_size(SLOTS, ITEMS))}
        assert sink.position.header == Header()

    def test_a_full_file_is_rolled_by_the_next_record_and_not_before(self, root, sink):
        write(sink, row(0, 1, 2, 3))
        assert len(sink.names) == 1
        write(sink, row(1))

        header = sink.position.header
        assert len(sink.names) == 2
        assert header == Header(START, START, 0, 0, 0, 0)

    def test_a_rolled_file_counts_its_first_item_from_the_end_of_the_one_before(self, root, sink):
        write(sink, row(0, 1, 2, 3), (500, START + 7001, 0, [4]))
        rolled = files_of(root)["index/1"]
        item = rolled[40 + SLOTS * 4 + 20 :][:20]

        assert item.hex(" ", 4) == "00000004 00000000 000001f4 00000007 00000000"
        assert Header.unpack(rolled) == Header(START + 7001, START + 7001, 500, 500, 1, 2)

    def test_the_keys_of_one_record_straddle_a_roll(self, root, sink):
        write(sink, row(0, 1), row(1, 2, 3, 4, 5, 6, 7, 8))

        counts = [Header.unpack(raw).index_count for raw in files_of(root).values()]
        assert counts == [4, 4, 3]

    def test_a_rolled_back_record_has_no_items_but_makes_room(self, root, sink):
        write(sink, row(0, 1, 2, 3), row(1, 9, flag=ROLLBACK))

        assert [Header.unpack(raw).index_count for raw in files_of(root).values()] == [4, 0]

    def test_a_prepared_record_has_items(self, root, sink):
        write(sink, row(0, 1, flag=PREPARED))

        assert sink.position.header.index_count == 2

    def test_names_go_up_even_within_a_millisecond(self, sink):
        write(sink, *(row(i, 1, 2, 3) for i in range(20)))

        assert sink.names == sorted(set(sink.names))
        assert len(sink.names) == 20
        assert all(names.is_index_file(name) and len(name) == 17 for name in sink.names)


class TestWrite:
    @pytest.mark.parametrize("seed", range(25))
    def test_blocks_of_any_records_make_the_files_of_the_slow_twin(self, root, staging, seed):
        """
        In random blocks, flushed now and then, with the sink opened again between.
        """
        pick = random.Random(seed)
        sink, twin, number = IndexSink(root, staging, SETTINGS), Twin(), 0
        for _ in range(pick.randint(1, 6)):
            rows = []
            for _ in range(pick.randint(0, 8)):
                keys = [pick.randrange(30) for _ in range(pick.choice([0, 0, 1, 2, 7]))]
                rows.append(row(number, *keys, flag=pick.choice([0, 0, 0, PREPARED, ROLLBACK])))
                number += 1
            write(sink, *rows)
            twin.write(rows)
            assert differences(files_of(root), twin.bytes()) == []
            if pick.random() < 0.3:
                sink.flush()
            if pick.random() < 0.5:
                sink.close()
                sink = IndexSink(root, staging, SETTINGS)
        sink.flush()
        sink.close()

        assert differences(files_of(root), twin.bytes()) == []
        assert list(staging.iterdir()) == []

    def test_flushing_tells_how_far_full_files_are_on_disk(self, root, staging, sink):
        """
        The broker's checkpoint has the end of the newest full file, once that is on disk.
        """
        write(sink, row(0, 1, 2, 3), row(2, 4, 5))
        assert sink.flushed_timestamp == 0
        sink.flush()
        assert sink.flushed_timestamp == START
        sink.close()

        again = IndexSink(root, staging, SETTINGS)
        assert again.flushed_timestamp == START
        again.close()

    @pytest.mark.parametrize(("counts", "count"), [(True, 1), (False, 0)])
    def test_a_file_without_items_is_left_as_the_broker_leaves_it(self, root, sink, counts, count):
        write(sink, row(0))
        sink.finish(writes_first_count=counts)

        assert Header.unpack(files_of(root)["index/0"]).index_count == count

    def test_a_file_with_items_is_finished_already(self, root, sink):
        write(sink, row(0, 1))
        before = files_of(root)
        sink.finish(writes_first_count=True)

        assert files_of(root) == before


class TestOpen:
    def test_a_foreign_name_is_refused(self, root, staging):
        (root / "index").mkdir()
        (root / "index" / "notes.txt").write_text("mine")

        with pytest.raises(StoreError, match=r"notes.txt: not the name of an index file"):
            IndexSink(root, staging, SETTINGS)

    def test_a_file_of_other_settings_is_refused(self, root, staging):
        (root / "index").mkdir()
        path = root / "index" / "20240101000000000"
        path.write_bytes(bytes(100))

        with pytest.raises(FormatError, match="maxHashSlotNum") as raised:
            IndexSink(root, staging, SETTINGS)
        assert (raised.value.path, raised.value.position) == (str(path), 100)
