"""Planning: exact offsets without going over the log, and ranges that cover it once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.errors import FormatError, ReputError, StoreError
from reput.streaming.source import planning
from reput.streaming.source.datasource import BatchReader
from reput.streaming.source.marks import marks_of
from reput.streaming.source.offsets import NOTHING, StoreOffsets
from reput.streaming.source.options import Bound, parse
from reput.streaming.source.stream import StreamReader
from tests.builders.hypotheses import examples
from tests.builders.logs import FILE_SIZE, STORED_AT, overwrite, write_store

RECORDS = [{"body": bytes(i * 37 % 300), "store_timestamp": STORED_AT + i // 3} for i in range(60)]


def options_of(path, **options):
    return parse({"path": str(path), "broker.mappedFileSizeCommitLog": str(FILE_SIZE), **options})


def offsets_of(path):
    return StoreOffsets(options_of(path).stores[0])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store")
    return path, write_store(path, RECORDS)


class TestLimits:
    @examples(60)
    @given(first=st.integers(0, 59), count=st.integers(0, 70))
    def test_records_are_counted_over_files(self, store, first, count):
        path, placed = store
        end, found = offsets_of(path).after_records(placed[first].position, count, placed[-1].end)

        assert found == min(count, len(placed) - first)
        inside = [p for p in placed[first:] if p.position < end]
        assert len(inside) == found

    @examples(60)
    @given(first=st.integers(0, 59), wanted=st.integers(1, 3 * FILE_SIZE))
    def test_bytes_include_one_record_at_least(self, store, first, wanted):
        path, placed = store
        start = placed[first].position
        end = offsets_of(path).after_bytes(start, wanted, placed[-1].end)

        assert placed[first].end <= end <= placed[-1].end
        assert end - start < wanted + 2 * FILE_SIZE

    def test_corrupt_record_ends_a_count_before_it(self, tmp_path):
        placed = write_store(tmp_path, RECORDS)
        overwrite(tmp_path, placed[5].position + 4, b"\0")
        offsets = offsets_of(tmp_path)

        assert offsets.after_records(0, 50, placed[-1].end) == (placed[5].position, 5)
        with pytest.raises(FormatError, match=f"at byte {placed[5].position}"):
            offsets.after_records(placed[5].position, 50, placed[-1].end)


def places(offset) -> dict[str, int]:
    return {name: mark.position for name, mark in marks_of(offset).items()}


class TestShares:
    @pytest.fixture
    def two(self, tmp_path):
        placed = {}
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            placed[name] = write_store(tmp_path / name, RECORDS)
        return tmp_path, placed

    def ends(self, path, start, **options):
        stores = json.dumps({name: str(path / name) for name in ("a", "b")})
        named = {"stores": stores, "broker.mappedFileSizeCommitLog": str(FILE_SIZE), **options}
        reader = StreamReader(parse(named))
        return places(reader.latestOffset(start, reader.getDefaultReadLimit()))

    @examples(30)
    @given(cap=st.integers(1, 3 * FILE_SIZE), first=st.integers(0, 59), other=st.integers(0, 59))
    def test_a_store_has_so_much_of_a_batch_and_a_record_at_least(self, store, cap, first, other):
        path, placed = store
        start = {"a": placed[first].position, "b": placed[other].position}
        stores = json.dumps({"a": str(path), "b": str(path)})
        named = {"stores": stores, "broker.mappedFileSizeCommitLog": str(FILE_SIZE)}
        reader = StreamReader(parse({**named, "maxBytesPerStore": str(cap)}))
        ends = places(reader.latestOffset(start, reader.getDefaultReadLimit()))

        for name, number in (("a", first), ("b", other)):
            alone = offsets_of(path).after_bytes(start[name], cap, placed[-1].end)
            assert placed[number].end <= ends[name] == alone

    def test_what_a_store_leaves_of_its_cap_another_one_does_not_get(self, two):
        path, placed = two
        start = {"a": 0, "b": placed["b"][-1].position}
        whole = self.ends(path, start)
        capped = self.ends(path, start, maxBytesPerStore="900", maxBytesPerTrigger="9000")

        assert whole == {name: placed[name][-1].end for name in placed}
        assert capped["b"] == whole["b"]
        assert placed["a"][0].end <= capped["a"] < whole["a"]
        assert capped["a"] == self.ends(path, start, maxBytesPerStore="900")["a"]

    def test_the_cap_of_all_stores_holds_beside_it(self, two):
        path, _ = two
        start = {"a": 0, "b": 0}
        small = self.ends(path, start, maxBytesPerStore="4000", maxBytesPerTrigger="600")

        assert small == self.ends(path, start, maxBytesPerTrigger="600")


def test_plans_leave_no_descriptor_open(store):
    """
    Spark plans one query after the other in the same Python process.
    """

    def open_logs() -> int:
        links = Path("/proc/self/fd").iterdir()
        # The one that lists them is gone by then.
        return sum(str(path).startswith(str(store[0])) for path in map(os.path.realpath, links))

    options = options_of(store[0])
    reader = StreamReader(options)
    begin = reader.initialOffset()
    assert reader.latestOffset(begin, reader.getDefaultReadLimit()) != begin
    assert open_logs() > 0
    del reader
    assert open_logs() == 0

    assert BatchReader(options).partitions()
    assert open_logs() == 0


class TestResolve:
    @examples(60)
    @given(after=st.integers(-2, 22))
    def test_timestamp_is_the_first_record_stored_then_or_later(self, store, after):
        path, placed = store
        found = offsets_of(path).resolve(
            Bound("timestamp", STORED_AT + after), fail_on_data_loss=True
        )
        later = [
            p.position
            for p, r in zip(placed, RECORDS, strict=True)
            if r["store_timestamp"] >= STORED_AT + after
        ]

        assert found == min(later, default=placed[-1].end)

    def test_offset_past_the_end_is_an_error(self, store):
        path, placed = store
        with pytest.raises(ReputError, match="is past the end of the commitlog"):
            offsets_of(path).resolve(Bound("offset", placed[-1].end + 1), fail_on_data_loss=True)

    def test_log_without_files_begins_wherever_it_will(self, tmp_path):
        (tmp_path / "commitlog").mkdir()
        offsets = offsets_of(tmp_path)

        assert offsets.resolve(Bound("earliest"), fail_on_data_loss=True) == NOTHING
        assert offsets.resolve(Bound("latest"), fail_on_data_loss=True) == NOTHING
        write_store(tmp_path, RECORDS[:2], base=2 * FILE_SIZE)
        assert offsets.existing(NOTHING, fail_on_data_loss=True) == 2 * FILE_SIZE

    def test_what_is_no_log_is_an_error(self, tmp_path):
        with pytest.raises(StoreError, match="no commitlog directory is here"):
            offsets_of(tmp_path)
        (tmp_path / "commitlog").mkdir()
        (tmp_path / "commitlog" / "notes.txt").write_text("x")
        with pytest.raises(StoreError, match="not the name of a commitlog file"):
            offsets_of(tmp_path)


@examples(100)
@given(begin=st.integers(0, 12_000), length=st.integers(0, 12_000), wanted=st.integers(1, 50))
def test_ranges_cover_a_batch_once_and_cross_no_file(store, begin, length, wanted):
    """
    Each byte in one range, and as many ranges as were asked for, if there are as many bytes.
    """
    path, placed = store
    options = options_of(path, minPartitions=str(wanted))
    end = min(begin + length, placed[-1].end)
    name = options.stores[0].name
    ranges = planning.partitions_of({name: offsets_of(path)}, options, {name: begin}, {name: end})

    if begin >= end:
        assert ranges == []
        return
    assert [r.start for r in ranges] == [begin, *[r.end for r in ranges[:-1]]]
    assert ranges[-1].end == end
    assert len(ranges) >= min(wanted, end - begin)
    assert all(r.start // FILE_SIZE == (r.end - 1) // FILE_SIZE for r in ranges)


@pytest.mark.parametrize(("rows", "said"), [("ranges", 0), ("messages", 1)])
def test_only_a_reader_of_messages_is_told_here_that_records_are_skipped(
    tmp_path, caplog, rows, said
):
    """
    A job of ranges says it itself, or stops there: then nothing is skipped.
    """
    placed = write_store(tmp_path, RECORDS[:2], base=2 * FILE_SIZE)
    options = options_of(tmp_path, rows=rows, failOnDataLoss="false")
    name = options.stores[0].name
    end = {name: placed[-1].end}
    with caplog.at_level("WARNING", "reput"):
        first, *_ = planning.partitions_of({name: offsets_of(tmp_path)}, options, {name: 0}, end)

    assert first.start == 2 * FILE_SIZE
    assert caplog.text.count("are skipped") == said
