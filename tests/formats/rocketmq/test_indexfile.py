"""Index files: the documented bytes, RocketMQ's own vectors, the kernel against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.kernels import indexfile as indexfile_kernels
from reput.formats.kernels.indexfile import State
from reput.formats.rocketmq import indexfile
from reput.formats.rocketmq.commitlog import COMMIT, PREPARED, ROLLBACK
from reput.formats.rocketmq.indexfile import Header, index_keys, key_hash, time_difference
from tests.builders.hypotheses import examples

# STORE.md section 4, "Index vectors": written by the real IndexFile class, 10 slots, 4 items.
VECTOR_A = [("T#k1", 1000, 1700000000000), ("T#k2", 1000, 1700000000000)]
VECTOR_A += [("T#polygenelubricants", 1200, 1700000002999)]
VECTOR_B = [("T#k9", 5000, 1700000010000), ("T#k9", 6000, 1700000011000)]
FILE_A = bytes.fromhex(
    "0000018bcfe56800 0000018bcfe573b7 00000000000003e8 00000000000004b0 00000003 00000004"
    + "00000000" * 3
    + "00000003 00000000 00000001 00000002"
    + "00000000" * 3
    + "00" * 20
    + "0026bfb5 00000000000003e8 00000000 00000000"
    + "0026bfb6 00000000000003e8 00000000 00000000"
    + "609a4b71 00000000000004b0 00000002 00000000"
)
FILE_B = bytes.fromhex(
    "0000018bcfe58f10 0000018bcfe592f8 0000000000001388 0000000000001770 00000001 00000003"
    + "00000000" * 3
    + "00000002"
    + "00000000" * 6
    + "00" * 20
    + "0026bfbd 0000000000001388 00000007 00000000"
    + "0026bfbd 0000000000001770 00000001 00000001"
    + "00" * 20
)


class SlowIndex:
    """IndexFile#putKey in plain Python, by the steps of STORE.md section 4."""

    def __init__(self, slots: int, items: int, seed: Header | None = None) -> None:
        self.slots = [0] * slots
        self.items = [(0, 0, 0, 0)] * items
        begin = seed or Header()
        self.begin_time = self.end_time = begin.end_timestamp
        self.begin_offset = self.end_offset = begin.end_offset
        self.used = 0
        self.count = 1

    def put(self, hashed: int, offset: int, timestamp: int) -> bool:
        if self.count >= len(self.items):
            return False
        slot = hashed % len(self.slots)
        previous = self.slots[slot]
        if previous <= 0 or previous > self.count:
            previous = 0
        seconds = 0
        if self.begin_time > 0:
            # Java divides toward zero; what is negative then becomes 0.
            seconds = min(max(int((timestamp - self.begin_time) / 1000), 0), 0x7FFFFFFF)
        self.items[self.count] = (hashed, offset, seconds, previous)
        self.slots[slot] = self.count
        if self.count <= 1:
            self.begin_offset, self.begin_time = offset, timestamp
        if previous == 0:
            self.used += 1
        self.count += 1
        self.end_offset, self.end_time = offset, timestamp
        return True

    def header(self) -> Header:
        times = (self.begin_time, self.end_time, self.begin_offset, self.end_offset)
        return Header(*times, self.used, self.count)

    def bytes(self) -> bytes:
        return (
            self.header().pack()
            + b"".join(slot.to_bytes(4, "big") for slot in self.slots)
            + np.array(self.items, indexfile.ITEM).tobytes()
        )


class Columns:
    """Records with keys, as `insert` takes them."""

    def __init__(self, rows) -> None:
        self.rows = rows
        hashes = [h for _, _, _, keys in rows for h in keys]
        ends = np.cumsum([len(keys) for *_, keys in rows])
        self.key_end = ends.astype(np.int32)
        self.key_hash = np.array(hashes, np.int32)
        self.physical_offset = np.array([r[0] for r in rows], np.int64)
        self.store_timestamp = np.array([r[1] for r in rows], np.int64)
        self.sys_flag = np.array([r[2] for r in rows], np.int32)

    def insert(self, first, first_key, file, slots, items, state):
        result = indexfile_kernels.insert(
            first,
            first_key,
            len(self.rows),
            self.key_end,
            self.key_hash,
            self.physical_offset,
            self.store_timestamp,
            self.sys_flag,
            file,
            slots,
            items,
            state,
        )
        return int(result[0]), int(result[1])


def state_of(header: Header) -> np.ndarray:
    return np.array([*header[:5], header.next_item], np.int64)


def publish(file: np.ndarray, state: np.ndarray) -> None:
    file[: indexfile.HEADER_SIZE] = np.frombuffer(Header(*state.tolist()).pack(), np.uint8)


class TestBytes:
    def test_the_worked_example(self):
        """
        STORE.md section 4: three keys of the record of section 2.2 in an empty file.
        """
        slots, items = 5_000_000, 20_000_000
        keys = ["TopicTest#AC110001000018B4AAC216FE8B600000", "TopicTest#k1", "TopicTest#k2"]
        hashes = [key_hash(key) for key in keys]

        assert hashes == [257982155, 2746024, 2746025]
        assert [40 + h % slots * 4 for h in hashes] == [11928660, 10984136, 10984140]
        places = [indexfile.item_position(i) for i in (1, 2, 3)]
        assert places == [20000060, 20000080, 20000100]
        assert indexfile.file_size(slots, items) == 420_000_040

    def test_a_header_is_as_documented(self):
        raw = bytes.fromhex(
            "0000018bcfe56800 0000018bcfe573b7 00000000000003e8 00000000000004b0 00000003 00000004"
        )
        header = Header(1700000000000, 1700000002999, 1000, 1200, 3, 4)

        assert header.pack() == raw
        assert Header.unpack(raw + b"more") == header
        assert list(header) == [getattr(header, n) for n in Header._fields]

    def test_an_item_is_as_documented(self):
        raw = bytes.fromhex("609a4b71 00000000000004b0 00000002 00000007")

        assert np.frombuffer(raw, indexfile.ITEM)[0].item() == (0x609A4B71, 1200, 2, 7)

    def test_a_new_file_states_no_item_as_0(self):
        assert Header().next_item == Header(index_count=1).next_item == 1
        assert Header(index_count=5).next_item == 5

    def test_a_new_file_carries_on_from_the_one_before(self):
        """
        Begin and end are the end of the one before; a negative end was never one.
        """
        assert indexfile.seeded(None) == Header()
        assert indexfile.seeded(Header(1, 20, 3, 40, 5, 6)) == Header(20, 20, 40, 40, 0, 0)
        assert indexfile.seeded(Header(1, -2, 3, -4)) == Header()


class TestKeys:
    def test_hashes(self):
        assert key_hash("polygenelubricants") == 0  # abs of the lowest integer stays negative
        assert key_hash("T#polygenelubricants") == 0x609A4B71
        assert key_hash("订单#😀") >= 0

    def test_order_of_a_records_keys(self):
        properties = {"KEYS": " b  a b ", "UNIQ_KEY": "u", "TAGS": "x y"}

        assert index_keys("T", properties, tag_entries=True) == [
            "T#u",
            "T#b",
            "T#a",
            "T#b",
            "T#T#x y",
        ]
        assert index_keys("T", properties, tag_entries=False) == ["T#u", "T#b", "T#a", "T#b"]
        assert index_keys("T", {}, tag_entries=True) == []

    @pytest.mark.parametrize(
        ("timestamp", "begin", "seconds"),
        [
            (1999, 1000, 0),
            (2000, 1000, 1),
            (500, 1000, 0),
            (5000, 0, 0),
            (5000, -1, 0),
            (1 << 62, 1, 0x7FFFFFFF),
        ],
    )
    def test_time_differences(self, timestamp, begin, seconds):
        assert time_difference(timestamp, begin) == seconds


class TestInsert:
    def test_the_vectors_of_the_real_class(self):
        """
        A file is filled, the next one is seeded from its end, and counts its first item from it.
        """
        rows = [(offset, time, 0, [key_hash(key)]) for key, offset, time in VECTOR_A + VECTOR_B]
        columns = Columns(rows)
        size = indexfile.file_size(10, 4)
        file_a, state = np.zeros(size, np.uint8), state_of(Header())

        assert columns.insert(0, 0, file_a, 10, 4, state) == (3, 3)
        publish(file_a, state)
        assert file_a.tobytes() == FILE_A
        file_b, state = (
            np.zeros(size, np.uint8),
            state_of(indexfile.seeded(Header(*state.tolist()))),
        )
        assert columns.insert(3, 3, file_b, 10, 4, state) == (5, 5)
        publish(file_b, state)
        assert file_b.tobytes() == FILE_B

    def test_the_slow_twin_writes_the_vectors_too(self):
        a = SlowIndex(10, 4)
        for key, offset, time in VECTOR_A:
            assert a.put(key_hash(key), offset, time)
        assert not a.put(1, 2, 3)
        b = SlowIndex(10, 4, a.header())
        for key, offset, time in VECTOR_B:
            assert b.put(key_hash(key), offset, time)

        assert (a.bytes(), b.bytes()) == (FILE_A, FILE_B)

    @given(
        seed=st.integers(0, 1 << 30),
        slots=st.integers(1, 12),
        items=st.integers(2, 30),
        cut=st.integers(1, 30),
        garbage=st.booleans(),
    )
    @examples(300)
    def test_inserts_what_the_slow_twin_does(self, seed, slots, items, cut, garbage):
        """
        Through every roll, in pieces of what is prepared, with slots that a crash left pointing
        beyond the count, and times that go backward.
        """
        pick = np.random.default_rng(seed)
        rows, time = [], 1_700_000_000_000
        for number in range(int(pick.integers(1, 15))):
            time += int(pick.integers(-2500, 9000))
            flag = int(pick.choice([0, COMMIT, PREPARED, ROLLBACK]))
            keys = pick.integers(0, 40, int(pick.integers(0, 5))).tolist()
            rows.append((number * 100, time, flag, keys))
        columns = Columns(rows)
        size = indexfile.file_size(slots, items)
        file, state = np.zeros(size, np.uint8), state_of(Header())
        twin = SlowIndex(slots, items)
        if garbage:
            stale = pick.integers(-2, 2 * items, slots).tolist()
            twin.slots = [max(v, 0) for v in stale]
            file[40 : 40 + 4 * slots] = np.array(twin.slots, ">i4").view(np.uint8)
        files, twins, prepared, row, key = [], [twin], 0, 0, 0
        while row < len(rows):
            row, key = columns.insert(row, key, file, slots, min(prepared, items), state)
            if row < len(rows) and state[State.COUNT] >= items:
                publish(file, state)
                files.append(file.tobytes())
                header = indexfile.seeded(Header(*state.tolist()))
                file, state, prepared = np.zeros(size, np.uint8), state_of(header), 0
            prepared += cut
        publish(file, state)
        files.append(file.tobytes())

        for offset, stamp, flag, keys in rows:
            if twins[-1].count >= items:  # the broker asks for room before it looks at the record
                twins.append(SlowIndex(slots, items, twins[-1].header()))
            for hashed in keys if flag != ROLLBACK else []:
                if not twins[-1].put(hashed, offset, stamp):
                    twins.append(SlowIndex(slots, items, twins[-1].header()))
                    assert twins[-1].put(hashed, offset, stamp)
        assert files == [t.bytes() for t in twins]
        assert key == len(columns.key_hash)

    @given(
        seed=st.integers(0, 1 << 30),
        slots=st.integers(1, 8),
        kept=st.integers(0, 12),
        lost=st.floats(0, 1),
    )
    @examples(200)
    def test_slots_are_what_they_were_when_there_were_so_many_items(self, seed, slots, kept, lost):
        """
        Whatever the slots hold by now: of later items, or nothing where a page was lost.
        """
        pick = np.random.default_rng(seed)
        items = 30
        hashes = pick.integers(0, 20, 20).tolist()
        rows = [(i * 100, 1_700_000_000_000 + i, 0, [h]) for i, h in enumerate(hashes)]
        file, state = np.zeros(indexfile.file_size(slots, items), np.uint8), state_of(Header())
        if kept:
            Columns(rows[:kept]).insert(0, 0, file, slots, items, state)
        before = file.copy()
        number = int(state[State.COUNT])
        beyond = rows[kept : kept + int(pick.integers(1, 9))]
        Columns(beyond).insert(0, 0, file, slots, items, state)
        for slot in range(slots):
            if pick.random() < lost:
                at = indexfile.HEADER_SIZE + slot * indexfile.SLOT_SIZE
                file[at : at + indexfile.SLOT_SIZE] = 0
        indexfile_kernels.restore_slots(file, max(number, 1), slots, np.zeros(slots, np.int32))
        file[indexfile.item_position(max(number, 1), slots) :] = 0

        assert file.tobytes() == before.tobytes()

    def test_nothing_of_no_records(self):
        file, state = np.zeros(indexfile.file_size(3, 3), np.uint8), state_of(Header())
        empty = np.zeros(0, np.int32)
        times = np.zeros(0, np.int64)

        result = indexfile_kernels.insert(
            0, 0, 0, empty, empty, times, times, empty, file, 3, 3, state
        )
        assert tuple(map(int, result)) == (0, 0)
        assert not file.any()
