"""Hashes of records: the kernels against the slow twin, and what they tell apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.kernels import heads
from reput.formats.kernels.scan import PADDING
from reput.formats.rocketmq.commitlog import ACCEPT_V2, BORN_HOST_V6, Verdict
from reput.formats.rocketmq.encode import Message, encode
from reput.formats.rocketmq.record_hash import hash_of
from tests.builders.hypotheses import examples

ORIGIN = 8192
FILE_END = ORIGIN + (1 << 20)

messages = st.builds(
    Message,
    topic=st.sampled_from(["t", "orders", "o" * 127, "o" * 200]),
    body=st.binary(max_size=300),
    properties=st.binary(max_size=400),
    queue_offset=st.integers(0, 1 << 40),
    store_timestamp=st.integers(1, 1 << 42),
    sys_flag=st.sampled_from([0, 4]),
    born_host=st.sampled_from(["10.0.0.9", "::1"]),
)


def log_of(logged: list[Message]) -> tuple[bytes, list[int]]:
    """Return the bytes of a log that begins at `ORIGIN`, and where its records end."""
    raw, ends = b"", []
    for message in logged:
        raw += encode(message, ORIGIN + len(raw))
        ends.append(ORIGIN + len(raw))
    return raw, ends


def add_up(raw: bytes, marks: list[int], stop: int = FILE_END) -> tuple[Verdict, int, int, list]:
    """Return verdict, place and sum where the kernel ended, and the sums at the marks it met."""
    data = np.frombuffer(bytes(PADDING) + raw + bytes(PADDING), np.uint8).copy()
    places = np.array(marks, np.int64)
    sums = np.zeros(len(marks), np.uint64)
    verdict, position, total, met, _ = heads.sum_heads(
        data,
        PADDING,
        len(data) - PADDING,
        ORIGIN,
        FILE_END,
        ACCEPT_V2,
        stop,
        np.uint64(0),
        places,
        sums,
        0,
    )
    return Verdict(verdict), int(position), int(total), sums[:met].tolist()


def total_of(raw: bytes, ends: list[int]) -> int:
    starts = [ORIGIN, *ends]
    pieces = (raw[a - ORIGIN : b - ORIGIN] for a, b in zip(starts, ends, strict=False))
    return sum(hash_of(piece) for piece in pieces) & (1 << 64) - 1


class TestSums:
    @given(logged=st.lists(messages, max_size=6))
    @examples(300, 30)
    def test_they_are_those_of_the_slow_twin_at_each_mark(self, logged):
        """
        A sum up to any record's end is that of the records before it, as the twin hashes them.
        """
        raw, ends = log_of(logged)
        verdict, position, total, sums = add_up(raw, ends)

        assert (verdict, position) == (Verdict.SHORT, ORIGIN + len(raw))
        assert total == total_of(raw, ends)
        assert sums == [total_of(raw, ends[: i + 1]) for i in range(len(ends))]

    def test_they_end_where_asked(self):
        """
        Records that start before the stop count, as in a batch.
        """
        raw, ends = log_of([Message("t", b"a"), Message("t", b"b"), Message("t", b"c")])

        verdict, position, total, _ = add_up(raw, [], stop=ends[0] + 1)

        assert (verdict, position, total) == (Verdict.RECORD, ends[1], total_of(raw, ends[:2]))

    def test_a_mark_inside_a_record_ends_them(self):
        """
        Where a record stands over a place at which another one ended, the log is another one.
        """
        raw, ends = log_of([Message("t", b"a"), Message("t", b"b" * 50), Message("t", b"c")])

        verdict, position, _, sums = add_up(raw, [ends[0], ends[0] + 7, ends[1]])

        assert (verdict, position, sums) == (Verdict.BAD_OFFSET, ends[1], [total_of(raw, ends[:1])])


class TestWhatIsToldApart:
    @given(message=messages, data=st.data())
    @examples(400, 40)
    def test_any_change_outside_the_body(self, message, data):
        """
        One byte of head, topic or properties gives another hash; the body has its CRC in the head.
        """
        raw = encode(message, ORIGIN)
        body = raw.find(message.body) if message.body else len(raw)
        at = data.draw(st.integers(0, len(raw) - 1))
        flip = data.draw(st.integers(1, 255))
        if at < 40 or body <= at < body + len(message.body):
            # A change of lengths or flags moves the body itself.
            at = 44 + at % 8
        changed = bytearray(raw)
        changed[at] ^= flip

        assert hash_of(bytes(changed)) != hash_of(raw)

    @pytest.mark.parametrize(
        "other",
        [
            {"store_timestamp": 1001},
            {"queue_offset": 6},
            {"queue_id": 2},
            {"properties": {"TAGS": "B"}},
            {"topic": "u"},
            {"body": b"BODY"},
            {"born_timestamp": 8},
            {"sys_flag": BORN_HOST_V6, "born_host": "::1"},
        ],
    )
    def test_records_of_one_place(self, other):
        """
        A rewritten record differs in one of these at least, often in one only.
        """
        known = {
            "topic": "t",
            "body": b"body",
            "properties": {"TAGS": "A"},
            "store_timestamp": 1000,
            "queue_offset": 5,
            "queue_id": 1,
            "born_timestamp": 7,
        }

        hashes = {hash_of(encode(Message(**values), ORIGIN)) for values in (known, known | other)}

        assert len(hashes) == 2

    def test_blocks_in_another_order(self):
        """
        The place of a property counts, not only what properties there are.
        """
        one, other = ("K" * 63 + "\x02", "L" * 63 + "\x02")

        hashes = {
            hash_of(encode(Message("t", b"", text.encode()), ORIGIN))
            for text in (one + other, other + one)
        }

        assert len(hashes) == 2
