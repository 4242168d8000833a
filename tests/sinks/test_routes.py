"""The table of queues: found by bytes, equal to a dict, whole after it grew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reput.formats.java import strings
from reput.formats.kernels import routes
from reput.formats.kernels.routes import SCHEDULE, SPECIAL, UNKNOWN
from reput.sinks.routes import RouteTable
from tests.builders.hypotheses import examples, padded

# Topics that share their ends, lengths and words; those are all that the hash looks at.
topics = st.one_of(
    st.binary(min_size=1, max_size=20),
    st.text("ab", min_size=1, max_size=18).map(str.encode),
    st.builds(lambda head: head + b"12345678", st.binary(max_size=9)),
)
queue_ids = st.one_of(st.integers(0, 5), st.integers(-(1 << 31), (1 << 31) - 1))


def lookup(table: RouteTable, topic: bytes, queue_id: int, around: int) -> int:
    data = padded(topic, routes.READABLE_BEFORE, 16, around)
    arrays = table.arrays
    return int(
        routes.lookup(
            data,
            routes.READABLE_BEFORE,
            len(topic),
            queue_id,
            arrays.slots,
            arrays.topic_at,
            arrays.topic_length,
            arrays.topics,
            arrays.queue_id,
        )
    )


class TestLookup:
    @given(
        known=st.lists(st.tuples(topics, queue_ids), max_size=40),
        others=st.lists(st.tuples(topics, queue_ids), max_size=10),
        around=st.integers(0, 255),
    )
    @examples(200)
    def test_finds_what_a_dict_would(self, known, others, around):
        """
        Bytes around a topic are those of a record: they may not matter.
        """
        table, twin = RouteTable(capacity=4), {}
        for number, key in enumerate(known):
            assert table.add(*key, queue=number, kind=0) == twin.setdefault(key, len(twin))

        assert table.count == len(twin)
        for key in known + others:
            assert lookup(table, *key, around) == twin.get(key, UNKNOWN) == table.find(*key)

    def test_topics_of_every_length_that_differ_in_one_byte(self):
        table = RouteTable(capacity=2)
        for length in range(1, 30):
            for at in range(length):
                topic = bytearray(b"t" * length)
                topic[at] ^= 1
                table.add(bytes(topic), 0, 0, 0)

        assert table.count == sum(range(1, 30))
        assert lookup(table, b"t" * 9, 0, 0) == UNKNOWN

    def test_a_route_keeps_what_it_was_added_with(self):
        table = RouteTable(capacity=1)
        first = table.add("订单".encode(), 3, queue=7, kind=SCHEDULE | SPECIAL)
        for i in range(300):
            table.add(b"topic%d" % i, i, queue=i, kind=0)

        arrays = table.arrays
        assert arrays.queue[first] == 7
        assert arrays.kind[first] == SCHEDULE | SPECIAL
        assert int(arrays.key_prefix[first]) == strings.hash_code("订单#") & 0xFFFFFFFF
        assert int(arrays.tag_prefix[first]) == strings.hash_code("订单#T#") & 0xFFFFFFFF

    def test_a_reader_with_the_old_arrays_still_finds_the_old_routes(self):
        """
        Parsers take the arrays once a block; the table may grow meanwhile.
        """
        table = RouteTable(capacity=2)
        table.add(b"old", 1, 5, 0)
        before = table.arrays
        for i in range(50):
            table.add(b"new%d" % i, 0, i, 0)

        data = padded(b"old", 8, 16)
        assert before is not table.arrays
        assert routes.lookup(data, 8, 3, 1, *before[:4], before.queue_id) == 0
