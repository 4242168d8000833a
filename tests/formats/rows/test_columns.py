"""Row columns: the kernel says what the readable twin says, whatever stands in a record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.java import strings
from reput.formats.rocketmq import commitlog, properties
from reput.formats.rocketmq.commitlog import ACCEPT_V2, CHECK_BODY_CRC, Record, Verdict
from reput.formats.rows import columns as rows
from reput.formats.rows.columns import RowColumns
from tests.builders.hypotheses import examples, padded
from tests.builders.logs import FILE_SIZE, log_file, place, record

PAD = 128
LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
PIECES = st.lists(
    st.sampled_from(
        [b"TAGS", b"KEYS", b"UNIQ_KEY", b"a", b"\x01", b"\x02", "é订".encode(), b"\xed\xa0\x80"]
    ),
    max_size=24,
).map(b"".join)
FIELDS = st.fixed_dictionaries(
    {
        "topic": st.one_of(
            st.sampled_from(["t", "x" * 128, "订单"]), st.binary(min_size=1, max_size=9)
        ),
        "body": st.binary(max_size=40),
        "properties": PIECES,
        "queue_id": INT,
        "queue_offset": LONG,
        "flag": INT,
        "sys_flag": st.sampled_from([0, 1, 4, 8, 12, 0xC0]),
        "born_timestamp": LONG,
        "store_timestamp": st.integers(1, 2**63 - 1),
        "born_host": st.sampled_from(["10.1.2.3", "fd00::1", "::ffff:1.2.3.4"]),
        "store_host": st.sampled_from(["10.1.2.3", "fd00::1"]),
        "born_port": INT,
        "reconsume_times": INT,
        "prepared_transaction_offset": LONG,
    }
)


def read_rows(raw, count=64, room=4096):
    data = padded(raw, PAD, PAD)
    columns = RowColumns.of(count, room)
    verdict, at, found = rows.read_rows(
        data,
        PAD,
        PAD + len(raw),
        PAD + len(raw),
        -PAD,
        FILE_SIZE,
        CHECK_BODY_CRC | ACCEPT_V2,
        columns,
    )
    return data, columns, Verdict(verdict), at - PAD, found


def text(data, slices, row):
    at, length = slices.at[row], slices.length[row]
    return data[at : at + length].tobytes()


def twin(raw, position):
    verdict, found = commitlog.read(raw, position, position, FILE_SIZE)
    assert verdict == Verdict.RECORD
    assert isinstance(found, Record)
    return rows.describe(found, raw[position : position + found.size])


class TestReadRows:
    @examples(300)
    @given(st.lists(FIELDS, min_size=1, max_size=6))
    def test_says_what_the_twin_says(self, fields):
        """
        Every column of every record, but for the texts of rows that need decoding.
        """
        placed = [p for p in place(fields) if p.end < FILE_SIZE]
        raw = log_file(placed, 0)[: placed[-1].end]
        data, columns, verdict, at, count = read_rows(raw)

        assert (verdict, at, count) == (Verdict.RECORD, len(raw), len(placed))
        begin = 0
        for row, each in enumerate(placed):
            expected = twin(raw, each.position)
            found = expected.record
            for name in (
                "physical_offset",
                "size",
                "queue_id",
                "queue_offset",
                "flag",
                "sys_flag",
                "born_timestamp",
                "store_timestamp",
                "reconsume_times",
                "prepared_transaction_offset",
            ):
                assert getattr(columns, name)[row] == getattr(found, name), name
            assert columns.body_crc[row] == expected.body_crc
            assert text(data, columns.body, row) == found.body
            assert strings.decode(text(data, columns.topic, row)) == found.topic
            assert properties.parse(text(data, columns.raw_properties, row)) == found.properties
            end = columns.property_end[row]
            if not columns.needs_decoding[row]:
                pairs = [
                    (text(data, columns.names, i).decode(), text(data, columns.values, i).decode())
                    for i in range(begin, end)
                ]
                assert pairs == list(found.properties.items())
                for slices, value in (
                    (columns.tags, expected.tags),
                    (columns.keys, expected.keys),
                    (columns.uniq_key, expected.uniq_key),
                ):
                    assert text(data, slices, row).decode() == (value or "")
            begin = end

    def test_rows_need_decoding_where_slicing_cannot_show_them(self):
        """
        Malformed UTF-8 in topic or properties, or more properties than are worth comparing.
        """
        many = b"".join(b"%d\x01v\x02" % i for i in range(rows.MANY_PROPERTIES + 1))
        fields = [
            {"topic": b"\xff"},
            {"properties": b"a\x01\xc0\xaf\x02"},
            {"properties": many},
            {"topic": "订单", "properties": {"TAGS": "标签"}},
            {"properties": b"a\x01b\x02" * (rows.MANY_PROPERTIES + 1)},
        ]
        raw = b"".join(p.raw for p in place(fields))

        _, columns, _, _, count = read_rows(raw)

        assert columns.needs_decoding[:count].tolist() == [1, 1, 1, 0, 0]

    def test_stops_where_the_columns_are_full_and_goes_on_from_there(self):
        """
        Neither rows nor properties run over the room there is; nothing is skipped.
        """
        raw = b"".join(p.raw for p in place([{"properties": {"a": "b"}}] * 5))

        _, _, verdict, at, count = read_rows(raw, count=2)
        assert (verdict, at, count) == (Verdict.FULL, 2 * len(raw) // 5, 2)
        _, _, verdict, _, count = read_rows(raw, room=3)
        assert (verdict, count) == (Verdict.FULL, 2)

    @pytest.mark.parametrize(
        ("raw", "verdict"),
        [
            (record(body=b"x", body_crc=0), Verdict.BAD_BODY_CRC),
            (record(position=8), Verdict.BAD_OFFSET),
            (record()[:-1], Verdict.SHORT),
            (bytes(100), Verdict.END),
        ],
    )
    def test_checks_every_record(self, raw, verdict):
        assert read_rows(raw)[2] == verdict
