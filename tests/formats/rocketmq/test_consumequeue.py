"""Entries, extensions and batch units: the documented bytes, and putting them by kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.kernels import consumequeue as consumequeue_kernels
from reput.formats.rocketmq import batchconsumequeue, consumequeue, consumequeue_ext
from reput.formats.rocketmq.commitlog import COMMIT, PREPARED, ROLLBACK
from reput.formats.rocketmq.consumequeue import (
    ENTRY,
    ENTRY_SIZE,
    NEVER,
    PRE_BLANK,
    Entry,
    locate,
    tags_code,
)
from tests.builders.hypotheses import examples


class TestEntry:
    def test_bytes_are_as_documented(self):
        """
        The worked example of STORE.md section 2.2, and every field apart.
        """
        worked = bytes.fromhex("00000000000003e8 000000b2 000000000027a807")
        fields = bytes.fromhex("0102030405060708 090a0b0c fffffffffffffffe")

        assert Entry(1000, 178, 2598919).pack() == worked
        assert np.array((0x0102030405060708, 0x090A0B0C, -2), ENTRY).tobytes() == fields
        assert Entry(*np.frombuffer(fields, ENTRY)[0].item()).pack() == fields

    def test_a_pre_blank_has_the_largest_size_and_nothing_else(self):
        assert bytes.fromhex("0000000000000000 7fffffff 0000000000000000") == PRE_BLANK

    @pytest.mark.parametrize(
        ("queue_offset", "base", "entry"),
        [(0, 0, 0), (299_999, 0, 299_999), (300_000, 6_000_000, 0), (700_001, 12_000_000, 100_001)],
    )
    def test_a_queue_offset_is_an_address(self, queue_offset, base, entry):
        assert locate(queue_offset) == (base, entry)

    def test_plain_and_committed_records_have_an_entry(self):
        """
        The transaction type is two bits; what else sysFlag says does not matter.
        """
        for flag in (0, COMMIT):
            assert consumequeue.has_entry(flag)
            assert consumequeue.has_entry(flag | 0xF3)
        for flag in (PREPARED, ROLLBACK):
            assert not consumequeue.has_entry(flag)
            assert not consumequeue.has_entry(flag | 0xF3)

    def test_file_sizes_are_whole_entries(self):
        assert [consumequeue.round_file_size(n) for n in (1, 20, 21)] == [20, 20, 40]


class TestHead:
    def test_entries_and_batch_units_begin_alike(self):
        """
        A reader that asks which record a unit is of need not know of which kind the queue is.
        """
        for layout in (consumequeue.ENTRY, batchconsumequeue.UNIT):
            unit = np.zeros((), layout)
            unit["physical_offset"], unit["size"] = (1 << 40) + 7, -5
            assert consumequeue.head_of(unit.tobytes()) == ((1 << 40) + 7, -5)

    def test_zeros_stand_for_what_is_not_there(self):
        assert consumequeue.head_of(b"") == (0, 0)
        assert consumequeue.head_of(b"\0\0\0\0\0\0\0\7") == (7, 0)

    def test_an_extension_says_its_size_first(self):
        unit = consumequeue_ext.Unit(1, 2, b"bits").pack()

        assert consumequeue_ext.size_of(unit) == len(unit)
        assert consumequeue_ext.size_of(consumequeue_ext.END_MARK) == consumequeue_ext.ENDED
        assert consumequeue_ext.size_of(b"") == 0


class TestTagsCode:
    DELAYS = (1000, 5000, 10_000)

    def code(self, topic="t", **properties):
        return tags_code(topic, properties, 1_700_000_000_000, self.DELAYS)

    def test_the_hash_of_the_tag_or_nothing(self):
        assert self.code(TAGS="TagA") == 2598919
        assert self.code(TAGS="polygenelubricants") == -2147483648
        assert self.code() == self.code(TAGS="") == 0

    @pytest.mark.parametrize(
        ("level", "code"),
        [
            ("1", 1_700_000_001_000),
            ("3", 1_700_000_010_000),
            ("99", 1_700_000_010_000),  # the highest level there is
            ("+2", 1_700_000_005_000),
            ("0", 100),
            ("-1", 100),
        ],
    )
    def test_a_delayed_record_has_its_due_time(self, level, code):
        assert self.code("SCHEDULE_TOPIC_XXXX", TAGS="d", DELAY=level) == code
        assert self.code("SCHEDULE_TOPIC_XXXY", TAGS="d", DELAY=level) == 100

    def test_a_level_that_is_no_number_is_refused_as_the_broker_does(self):
        with pytest.raises(ValueError, match="soon"):
            self.code("SCHEDULE_TOPIC_XXXX", DELAY="soon")
        assert self.code("t", DELAY="soon") == 0


class TestExtUnit:
    def test_bytes_are_as_documented(self):
        raw = bytes.fromhex("0017 000000000027a807 0000018bcfe56800 0003 a1b2c3")
        unit = consumequeue_ext.Unit(2598919, 1_700_000_000_000, b"\xa1\xb2\xc3")

        assert unit.pack() == raw
        assert unit.size == 23
        assert consumequeue_ext.unpack(b"." + raw, 1) == unit

    def test_what_ends_the_units_of_a_file(self):
        assert bytes.fromhex("ffff") == consumequeue_ext.END_MARK
        for end in (b"\xff\xff\0\0", bytes(30), b"", b"\0"):
            assert consumequeue_ext.unpack(end, 0) is None

    @pytest.mark.parametrize("raw", ["0013", "0014" + "00" * 17, "8000" + "00" * 40])
    def test_a_unit_of_an_impossible_size(self, raw):
        with pytest.raises(ValueError, match="unit of"):
            consumequeue_ext.unpack(bytes.fromhex(raw), 0)

    def test_a_bit_map_of_another_size_than_its_unit(self):
        with pytest.raises(ValueError, match="bit map of 1 bytes in a unit of 20"):
            consumequeue_ext.unpack(bytes.fromhex("0014" + "00" * 16 + "0001"), 0)

    def test_addresses_are_below_every_tag_hash(self):
        assert consumequeue_ext.address(0) == -(1 << 63)
        assert consumequeue_ext.position(consumequeue_ext.address(12345)) == 12345
        assert consumequeue_ext.is_address(consumequeue_ext.address(1 << 40))
        assert consumequeue_ext.is_address(-2147483649)
        for code in (-2147483648, 0, 2147483647, 1_700_000_000_000):
            assert not consumequeue_ext.is_address(code)


class TestBatchUnit:
    def test_bytes_are_as_documented(self):
        raw = bytes.fromhex(
            "00000000000003e8 000000b2 000000000027a807 0000018bcfe56800"
            "0000000000000007 0005 ffffffff 00000000"
        )
        unit = batchconsumequeue.Unit(1000, 178, 2598919, 1_700_000_000_000, 7, 5)

        assert unit.pack() == raw
        assert len(raw) == batchconsumequeue.UNIT_SIZE == 46
        assert np.frombuffer(raw, batchconsumequeue.UNIT)[0].item() == unit


QUEUES = 3
CAPACITY = 12  # entries that a queue's memory holds


def slow_put(rows, next_entry, last_end, windows, memory):
    """Put rows one by one; return the first that is not plain."""
    for i, (queue, offset, position, size, code, flag, special) in enumerate(rows):
        if flag & 0xC in {PREPARED, ROLLBACK}:
            continue
        plain = not special and offset == next_entry[queue] and offset < windows[queue]
        if not plain or position + size <= last_end[queue]:
            return i
        memory[queue][offset * 20 : offset * 20 + 20] = Entry(position, size, code).pack()
        next_entry[queue] = offset + 1
        last_end[queue] = position + size
    return len(rows)


class TestPut:
    @given(
        seed=st.integers(0, 1 << 30),
        first=st.integers(0, 3),
        disorder=st.sampled_from([0.0, 0.05, 0.5]),
    )
    @examples(300)
    def test_writes_what_the_slow_twin_writes_and_stops_where_it_does(self, seed, first, disorder):
        pick = np.random.default_rng(seed)
        next_entry = pick.integers(0, 4, QUEUES).astype(np.int64)
        last_end = np.full(QUEUES, NEVER, np.int64)
        window_end = pick.integers(0, CAPACITY, QUEUES).astype(np.int64)
        rows, following, position = [], next_entry.tolist(), 0
        for _ in range(20):
            queue = int(pick.integers(QUEUES))
            odd = pick.random(3) < disorder
            size = int(pick.integers(91, 300))
            flag = int(pick.choice([0, 0, 0, 1, COMMIT, PREPARED, ROLLBACK]))
            at = -size if odd[0] else position
            code = int(pick.integers(-(1 << 62), 1 << 62))
            offset = following[queue] + (int(pick.integers(-2, 3)) if odd[1] else 0)
            rows.append((queue, offset, at, size, code, flag, int(odd[2])))
            if flag in {0, 1, COMMIT}:
                following[queue] += 1
            position += size
        memory = [np.full(CAPACITY * ENTRY_SIZE, 0xEE, np.uint8) for _ in range(QUEUES)]
        twin = [bytearray(m.tobytes()) for m in memory]
        twin_next, twin_end = next_entry.tolist(), last_end.tolist()
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        types = (np.int32, np.int64, np.int64, np.int32, np.int64, np.int32, np.uint8)

        stopped = consumequeue_kernels.put(
            first,
            len(rows),
            *(column.astype(kind) for column, kind in zip(columns, types, strict=True)),
            next_entry,
            last_end,
            np.array([m.ctypes.data for m in memory], np.int64),
            window_end,
        )

        expected = slow_put(rows[first:], twin_next, twin_end, window_end.tolist(), twin) + first
        assert int(stopped) == expected
        assert [m.tobytes() for m in memory] == [bytes(m) for m in twin]
        assert (next_entry.tolist(), last_end.tolist()) == (twin_next, twin_end)
