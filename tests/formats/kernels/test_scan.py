"""From bytes to columns: the kernel against `describe`, and every way in which it stops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.kernels import frames, java, scan
from reput.formats.kernels.routes import SCHEDULE, SPECIAL
from reput.formats.kernels.scan import PADDING, Columns
from reput.formats.rocketmq import commitlog
from reput.formats.rocketmq.commitlog import ACCEPT_V2, CHECK_BODY_CRC, Record, Verdict
from reput.formats.rocketmq.consumequeue import SCHEDULE_TOPIC
from reput.formats.rocketmq.encode import Message, encode
from reput.formats.rocketmq.record_hash import hash_of
from reput.sinks.routes import RouteTable
from tests.builders.hypotheses import examples

RULES = CHECK_BODY_CRC | ACCEPT_V2
ORIGIN = 4096
FILE_END = ORIGIN + (1 << 20)
DELAYS = (1000, 5000, 10_000)

keys = st.one_of(
    st.sampled_from(["k", "k1 k2", " a  b ", " ", "ключ 钥匙 😀", "polygenelubricants", "x" * 90]),
    st.text(max_size=12),
)
tags = st.one_of(st.sampled_from(["TagA", "a||b", "标签", "y" * 70]), st.text(max_size=8))
property_maps = st.fixed_dictionaries(
    {},
    optional={
        "TAGS": tags,
        "KEYS": keys,
        "UNIQ_KEY": st.one_of(st.just("7F0000010539" + "A" * 20), st.text(max_size=6)),
        "DELAY": st.sampled_from(["0", "1", "2", "3", "4", "000000002", "999999999"]),
        "INNER_NUM": st.just("3"),
        "WAIT": st.just("true"),
    },
)
malformed = st.lists(
    st.sampled_from(
        [
            b"TAGS\x01",
            b"KEYS\x01",
            b"UNIQ_KEY\x01",
            b"\x02",
            b" ",
            b"\xed\xa0\x80",
            b"\xe0",
            b"\xf0\x9f",
            b"\xff",
            b"a",
        ]
    ),
    max_size=10,
).map(b"".join)
topics = st.sampled_from(
    [
        b"t",
        b"orders",
        "订单".encode(),
        b"t" * 150,
        SCHEDULE_TOPIC.encode(),
        b"\xed\xa0\x80x",
        b"%RETRY%g",
    ]
)
messages = st.builds(
    Message,
    topic=topics,
    body=st.binary(max_size=40),
    properties=st.one_of(property_maps, malformed),
    queue_id=st.integers(0, 2),
    queue_offset=st.integers(0, 1 << 40),
    store_timestamp=st.integers(1, 1 << 42),
    sys_flag=st.sampled_from([0, 1, 4, 8, 12]),
    born_host=st.sampled_from(["10.0.0.9", "::1"]),
)


class Scan:
    """A log in memory and what scanning it gives."""

    def __init__(self, logged: list[Message], *, special: bytes = b"") -> None:
        self.raw, self.records = b"", []
        for message in logged:
            piece = encode(message, ORIGIN + len(self.raw))
            self.raw += piece
            verdict, record = commitlog.read(
                piece, 0, ORIGIN + len(self.raw) - len(piece), FILE_END
            )
            assert isinstance(record, Record), verdict
            self.records.append(record)
        self.table = RouteTable(capacity=2)
        self.special = special
        self.columns = Columns.of(64, 4096)
        self.rows = 0
        self.at = PADDING

    def bytes_of(self, record: Record) -> bytes:
        at = record.physical_offset - ORIGIN
        return self.raw[at : at + record.size]

    def route(self, record: Record, topic: bytes) -> None:
        kind = SCHEDULE if record.topic == SCHEDULE_TOPIC else 0
        kind |= SPECIAL if topic == self.special else 0
        self.table.add(topic, record.queue_id, queue=self.table.count, kind=kind)

    def run(
        self,
        *,
        stop: int | None = None,
        limit: int | None = None,
        columns: Columns | None = None,
        index_keys: bool = True,
        tag_entries: bool = True,
        multi_dispatch: bool = False,
        filler: int = 0x20,
    ) -> Verdict:
        """Scan from where the last call stopped."""
        around = bytes([filler]) * PADDING
        data = np.frombuffer(around + self.raw + around, np.uint8).copy()
        verdict, at, rows = scan.scan(
            data,
            self.at,
            PADDING + (len(self.raw) if stop is None else stop),
            PADDING + (len(self.raw) if limit is None else limit),
            ORIGIN - PADDING,
            FILE_END,
            RULES,
            self.rows,
            *self.table.arrays,
            np.array(DELAYS, np.int64),
            index_keys,
            tag_entries,
            multi_dispatch,
            *(columns or self.columns),
        )
        self.at, self.rows = int(at), int(rows)
        return Verdict(verdict)

    def topic_at(self, at: int) -> bytes:
        data = np.frombuffer(self.raw, np.uint8)
        parts = frames.check(data, at, len(data), ORIGIN + at, FILE_END, RULES)
        return self.raw[int(parts[5]) : int(parts[5]) + int(parts[6])]

    def run_to_the_end(self, **arguments) -> Verdict:
        """Scan, registering queues as they turn up."""
        while (verdict := self.run(**arguments)) == Verdict.UNKNOWN_QUEUE:
            at = self.at - PADDING
            record = next(r for r in self.records if r.physical_offset == ORIGIN + at)
            self.route(record, self.topic_at(at))
        return verdict

    def row(self, i: int) -> tuple:
        columns = self.columns
        first = int(columns.key_end[i - 1]) if i else 0
        return (
            int(columns.physical_offset[i]),
            int(columns.size[i]),
            int(columns.queue_offset[i]),
            int(columns.tags_code[i]),
            int(columns.store_timestamp[i]),
            int(columns.sys_flag[i]),
            columns.key_hash[first : int(columns.key_end[i])].tolist(),
        )


class TestScan:
    @given(
        logged=st.lists(messages, max_size=8),
        index_keys=st.booleans(),
        tag_entries=st.booleans(),
        multi=st.booleans(),
        filler=st.sampled_from([0x00, 0x01, 0x02, 0x20, 0xFF]),
    )
    @examples(300, 40)
    def test_a_row_is_what_the_slow_twin_describes(
        self, logged, index_keys, tag_entries, multi, filler
    ):
        """
        Whatever the tags, keys and topics, malformed ones included, and whatever stands around.
        """
        log = Scan(logged, special=b"orders")
        verdict = log.run_to_the_end(
            index_keys=index_keys, tag_entries=tag_entries, multi_dispatch=multi, filler=filler
        )

        assert (verdict, log.rows) == (Verdict.RECORD, len(logged))
        for i, record in enumerate(log.records):
            expected = scan.describe(record, DELAYS, tag_entries=tag_entries)
            expected = expected if index_keys else expected._replace(key_hashes=[])
            assert log.row(i) == tuple(expected)
            route = log.table.find(log.topic_at(record.physical_offset - ORIGIN), record.queue_id)
            assert int(log.columns.queue[i]) == int(log.table.arrays.queue[route])
            inner = any(n.startswith("INNE") and len(n) >= 9 for n in record.properties)
            assert bool(log.columns.special[i]) == (record.topic == "orders" or (multi and inner))
            assert int(log.columns.head_hash[i]) == hash_of(log.bytes_of(record))

    @given(logged=st.lists(messages, min_size=2, max_size=6), data=st.data())
    @examples(150, 10)
    def test_in_pieces_it_gives_the_same_rows(self, logged, data):
        """
        A block continues where it stopped: key numbers run through.
        """
        whole, pieces = Scan(logged), Scan(logged)
        whole.run_to_the_end()
        for stop in sorted(data.draw(st.lists(st.integers(0, len(whole.raw)), max_size=4))):
            assert pieces.run_to_the_end(stop=stop) == Verdict.RECORD
            assert pieces.at - PADDING >= stop
        pieces.run_to_the_end()

        assert pieces.rows == whole.rows
        assert [pieces.row(i) for i in range(pieces.rows)] == [
            whole.row(i) for i in range(whole.rows)
        ]


class TestStops:
    LOG = (Message("t", properties={"KEYS": "a b", "TAGS": "x"}),) * 4

    def test_at_an_unknown_queue_which_is_not_in_the_columns(self):
        log = Scan(self.LOG)

        assert log.run() == Verdict.UNKNOWN_QUEUE
        assert (log.rows, log.at) == (0, PADDING)

    def test_when_the_rows_are_full(self):
        log = Scan(self.LOG)
        log.columns = Columns.of(3, 4096)

        assert log.run_to_the_end() == Verdict.FULL
        assert (log.rows, log.at) == (3, PADDING + 3 * log.records[0].size)

    def test_when_the_keys_might_not_fit(self):
        """
        Room is asked for by the worst case, so a record is whole in the columns or not at all.
        """
        log = Scan(self.LOG)
        log.columns = Columns.of(64, 14)

        assert log.run_to_the_end() == Verdict.FULL
        assert 0 < log.rows < 4
        assert [log.row(i)[-1] for i in range(log.rows)] == [
            scan.describe(r, DELAYS, tag_entries=True).key_hashes for r in log.records[: log.rows]
        ]

    @pytest.mark.parametrize(
        "properties", [b"", b"KEYS\x01" + b"k " * 200, b"KEYS\x01k\x02UNIQ_KEY\x01u\x02TAGS\x01t"]
    )
    def test_the_worst_case_of_keys_is_enough(self, properties):
        """
        Keys beyond the columns would be written after them: compiled code checks no bounds.
        """
        for room in range(len(properties) // 2 + 8):
            log = Scan([Message("t", properties=properties)])
            behind = np.full(room + 300, 77, np.int32)
            log.columns = log.columns._replace(key_hash=behind[:room])
            log.run_to_the_end()
            assert (behind[room:] == 77).all()

    def test_where_a_record_is_cut_off(self):
        log = Scan(self.LOG)
        size = log.records[0].size
        for limit in range(3 * size, 4 * size, 7):
            log = Scan(self.LOG)
            assert log.run_to_the_end(limit=limit) == Verdict.SHORT
            assert (log.rows, log.at) == (3, PADDING + 3 * size)

    @pytest.mark.parametrize("level", ["x", "+1", "-1", "1234567890", "٣", "1 "])
    def test_at_a_delay_that_is_not_plain_digits(self, level):
        """
        Java may make a number of it: the caller asks `describe`.
        """
        log = Scan([Message("t"), Message(SCHEDULE_TOPIC, properties={"DELAY": level})])

        assert log.run_to_the_end() == Verdict.BAD_DELAY
        assert log.rows == 1

    def test_not_at_a_delay_outside_the_schedule_topic(self):
        log = Scan([Message("t", properties={"DELAY": "soon", "TAGS": "d"})])

        assert log.run_to_the_end() == Verdict.RECORD
        assert int(log.columns.tags_code[0]) == 100

    @pytest.mark.parametrize(
        ("at", "verdict"),
        [(4, Verdict.NO_MAGIC), (35, Verdict.BAD_OFFSET), (3, Verdict.BAD_LENGTH)],
    )
    def test_at_what_is_no_record(self, at, verdict):
        log = Scan(self.LOG)
        place = log.records[2].physical_offset - ORIGIN + at
        log.raw = log.raw[:place] + bytes([log.raw[place] ^ 1]) + log.raw[place + 1 :]

        assert log.run_to_the_end() == verdict
        assert log.rows == 2


class TestHash:
    @given(st.binary(max_size=40))
    @examples(300)
    def test_ascii_goes_the_short_way_to_the_same_hash(self, raw):
        raw = bytes(b & 0x7F for b in raw)
        data = np.frombuffer(raw + bytes(8), np.uint8)
        value = int(scan._hash(np.uint32(7), data, 0, len(raw), 1))

        assert value == int(scan._hash(np.uint32(7), data, 0, len(raw), 0))
        assert value == int(java.hash_utf8(np.uint32(7), data, 0, len(raw)))

    @pytest.mark.parametrize(
        ("state", "hashed"),
        [
            (0, 0),
            (0x7FFFFFFF, 0x7FFFFFFF),
            (0x80000000, 0),
            (0x80000001, 0x7FFFFFFF),
            (0xFFFFFFFF, 1),
        ],
    )
    def test_a_key_hash_is_never_negative(self, state, hashed):
        assert int(scan._key_hash(np.uint32(state))) == hashed
