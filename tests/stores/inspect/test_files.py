"""What `reput inspect` shows is what stands in the files."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from reput.formats.errors import FormatError
from reput.formats.rocketmq import consumequeue_ext, indexfile
from reput.formats.rocketmq.batchconsumequeue import Unit
from reput.formats.rocketmq.broker import settings_of
from reput.stores.inspect.files import (
    inspect_batch,
    inspect_checkpoint,
    inspect_commitlog,
    inspect_consumequeue,
    inspect_ext,
    inspect_index,
    printable,
)

VERSION = "5.5.0"


@pytest.fixture
def basic(golden):
    return golden(VERSION, "basic")


@pytest.fixture
def settings(basic):
    return settings_of(VERSION, basic.conf)


def file_of(store, *parts):
    return min(store.path.joinpath(*parts).iterdir())


class TestPrintable:
    def test_text_that_is_visible_stays(self):
        assert printable("topic-1 订单 😀") == "topic-1 订单 😀"

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("\x1b[2J", "\\x1b[2J"),
            ("a\nb", "a\\x0ab"),
            ("\u202egpj", "\\u202egpj"),
            ("\x9b1m", "\\x9b1m"),
            ("\ud800", "\\ud800"),
            ("\U000e0001", "\\U000e0001"),
        ],
    )
    def test_what_would_steer_a_terminal_is_shown_as_an_escape(self, text, shown):
        assert printable(text) == shown


class TestCommitLog:
    def test_every_record_of_a_file_is_a_row(self, basic, settings):
        path = sorted((basic.path / "commitlog").iterdir())[1]

        facts, rows = inspect_commitlog(path, settings)
        rows = list(rows)

        assert facts["begins_at"] == 131072
        assert facts["ends_at"] == 262144
        assert rows[0]["physical_offset"] == 131072
        assert rows[-1]["found"] == "the end of the file"
        for before, after in pairwise(rows):
            assert before["physical_offset"] + before["size"] == after["physical_offset"]

    def test_rows_begin_at_the_first_record_at_or_after_an_offset(self, basic, settings):
        path = file_of(basic, "commitlog")
        second = [row["physical_offset"] for row in inspect_commitlog(path, settings, 0, 3).rows][1]

        rows = list(inspect_commitlog(path, settings, second - 5, 2).rows)

        assert len(rows) == 2
        assert rows[0]["physical_offset"] == second

    def test_a_damaged_body_is_said_and_passed(self, basic, settings, tmp_path):
        path = Path(shutil.copy(file_of(basic, "commitlog"), tmp_path))
        rows = list(inspect_commitlog(path, settings).rows)
        row = next(row for row in rows if row["body_size"] > 0)
        with path.open("r+b") as file:
            file.seek(row["physical_offset"] + 88)
            file.write(b"\xff")

        damaged = list(inspect_commitlog(path, settings).rows)

        assert len(damaged) == len(rows)
        assert damaged[rows.index(row)]["found"].startswith("a record whose body does not match")

    def test_a_size_that_cannot_be_ends_the_rows(self, basic, settings, tmp_path):
        path = Path(shutil.copy(file_of(basic, "commitlog"), tmp_path))
        with path.open("r+b") as file:
            file.write(b"\x7f\xff\xff\xff")

        rows = list(inspect_commitlog(path, settings).rows)

        assert [row["found"] for row in rows] == ["a record whose lengths do not add up"]

    def test_a_name_that_is_no_offset_is_an_error(self, basic, settings, tmp_path):
        path = shutil.copy(file_of(basic, "commitlog"), tmp_path / "log")

        with pytest.raises(FormatError, match="is not an offset"):
            inspect_commitlog(path, settings)


class TestConsumeQueue:
    def test_entries_of_a_queue_are_numbered_across_its_files(self, basic):
        facts, rows = inspect_consumequeue(basic.path / "consumequeue" / "topic-1" / "0")
        rows = list(rows)

        assert facts["files"] == 2
        assert [row["queue_offset"] for row in rows] == list(range(len(rows)))
        assert len(rows) > 50

    def test_a_single_file_has_its_own_part(self, basic):
        path = sorted((basic.path / "consumequeue" / "topic-1" / "0").iterdir())[1]

        rows = list(inspect_consumequeue(path, 52, 2).rows)

        assert [row["queue_offset"] for row in rows] == [52, 53]

    def test_fill_before_the_first_record_is_named(self, golden):
        store = golden(VERSION, "minoffset")
        rows = list(inspect_consumequeue(store.path / "consumequeue" / "topic-1" / "0").rows)

        assert rows[0]["found"].startswith("fill")
        assert rows[-1]["found"] == "an entry"

    def test_a_size_of_no_whole_entries_is_an_error(self, basic, tmp_path):
        path = tmp_path / "00000000000000000000"
        path.write_bytes(bytes(39))

        with pytest.raises(FormatError, match="39 bytes"):
            inspect_consumequeue(path)


class TestExt:
    def test_entries_point_to_its_units(self, golden):
        store = golden(VERSION, "sqlext")
        entries = inspect_consumequeue(store.path / "consumequeue" / "sql-topic" / "0").rows
        units = list(inspect_ext(store.path / "consumequeue_ext" / "sql-topic" / "0").rows)

        assert [entry["ext_position"] for entry in entries] == [u["position"] for u in units]
        assert len(units[0]["bitmap"]) == 54

    def test_units_from_a_position_on(self, golden):
        path = golden(VERSION, "sqlext").path / "consumequeue_ext" / "sql-topic" / "0"
        third = list(inspect_ext(path, 0, 3).rows)[2]

        assert next(iter(inspect_ext(path, third["position"], 1).rows)) == third

    def test_sizes_that_do_not_add_up_are_an_error(self, tmp_path):
        path = tmp_path / "00000000000000000000"
        path.write_bytes(consumequeue_ext.UNIT.pack(22, 0, 0, 1).ljust(64, b"\0"))

        with pytest.raises(FormatError, match="bit map"):
            list(inspect_ext(path).rows)


class TestBatch:
    def test_units_are_numbered(self, tmp_path):
        path = tmp_path / "00000000000000000046"
        unit = (100, 91, 5, 1700000000000, 7, 3, -1, 0)
        path.write_bytes(Unit(*unit).pack() + bytes(46))

        facts, rows = inspect_batch(path)

        assert facts["room_for"] == 2
        assert list(rows) == [{"number": 1, **Unit(*unit)._asdict()}]


class TestIndex:
    def test_items_are_those_that_the_header_counts(self, basic, settings):
        facts, rows = inspect_index(file_of(basic, "index"), settings)
        rows = list(rows)

        assert [row["item"] for row in rows] == list(range(1, facts["index_count"]))
        assert rows[0]["physical_offset"] == facts["begin_offset"]
        assert rows[-1]["physical_offset"] == facts["end_offset"]

    def test_items_from_a_number_on(self, basic, settings):
        rows = list(inspect_index(file_of(basic, "index"), settings, 17, 2).rows)

        assert [row["item"] for row in rows] == [17, 18]

    def test_slots_are_those_that_are_used(self, basic, settings):
        facts, rows = inspect_index(file_of(basic, "index"), settings, 0, shows_slots=True)

        assert len(list(rows)) == facts["slots_used"]

    def test_a_file_of_the_standard_size_needs_no_settings(self, settings, tmp_path):
        path = tmp_path / "20260101000000000"
        header = indexfile.Header(1700000000000, 1700000005000, 5, 5, 1, 2)
        with path.open("wb") as file:
            file.write(header.pack())
            file.truncate(indexfile.file_size())

        facts, rows = inspect_index(path, settings)

        assert facts["slots"] == 5_000_000
        assert len(list(rows)) == 1

    def test_a_size_that_does_not_fit_the_settings_is_an_error(self, basic):
        with pytest.raises(FormatError, match="maxHashSlotNum"):
            inspect_index(file_of(basic, "index"), settings_of(VERSION))


class TestCheckpoint:
    def test_longs_have_names(self, basic):
        _, rows = inspect_checkpoint(basic.path / "checkpoint")

        assert [row["field"] for row in rows][:3] == [
            "physic_timestamp",
            "logics_timestamp",
            "index_timestamp",
        ]

    def test_a_short_file_is_an_error(self, tmp_path):
        path = tmp_path / "checkpoint"
        path.write_bytes(bytes(40))

        with pytest.raises(FormatError, match="40 bytes"):
            inspect_checkpoint(path)

    def test_a_longer_file_is_no_checkpoint(self, basic):
        """
        A commitlog file has longs where a checkpoint would have them.
        """
        with pytest.raises(FormatError, match="has 131072 bytes, a checkpoint has 4096"):
            inspect_checkpoint(file_of(basic, "commitlog"))
