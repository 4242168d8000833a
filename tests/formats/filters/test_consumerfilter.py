"""The consumers' filters: reading the broker's file, and the bit maps that follow from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.filters import consumerfilter
from reput.formats.filters.bloomfilter import BloomFilter
from reput.formats.filters.consumerfilter import ConsumerFilter, FilterBitmaps
from reput.formats.java import fastjson
from tests.builders.hypotheses import examples

DATA = Path(__file__).parents[1] / "data"
STORED = (DATA / "consumerFilter.json").read_text("utf-8")
UNITS = json.loads((DATA / "filter_bitmaps.json").read_text("utf-8"))["units"]
BLOOM = BloomFilter.sized(20, 64)
NOW = 1 << 42


def a_filter(expression, group="g", topic="t", bloom=BLOOM, **changes):
    fields = {
        "group": group,
        "expression": expression,
        "expression_type": "SQL92",
        "born_time": 1,
        "dead_time": 0,
        "bit_positions": bloom.positions(group, topic),
        "bit_count": bloom.bits,
        "client_version": 1,
    }
    return ConsumerFilter(**{**fields, **changes})


def bitmap(*entries, properties=None):
    return FilterBitmaps({"t": entries}, BLOOM).bitmap_for("t", properties or {}, NOW)


class TestFile:
    def test_the_broker_s_file_is_read(self):
        assert consumerfilter.parse(STORED) == {
            "sql-topic": (
                a_filter("a IS NOT NULL AND a < 5", "g-small", "sql-topic"),
                a_filter("color = 'red'", "g-red", "sql-topic"),
            )
        }

    def test_unknown_fields_are_passed_over_and_missing_ones_are_empty(self):
        text = '{"x":1,"filterDataByTopic":{"t":{"y":2,"groupFilterData":{"g":{"z":[3]}}}}}'
        assert consumerfilter.parse(text) == {"t": (ConsumerFilter("g", "", "", 0, 0, (), 0, 0),)}

    @pytest.mark.parametrize(
        "text",
        [
            "{}",
            "null",
            '{"filterDataByTopic":null}',
            '{"filterDataByTopic":{}}',
        ],
    )
    def test_no_filters_are_no_error(self, text):
        assert consumerfilter.parse(text) == {}

    def test_null_entries_are_none(self):
        text = '{"filterDataByTopic":{"t":null,"u":{"groupFilterData":{"g":null}}}}'
        assert consumerfilter.parse(text) == {"t": (), "u": ()}

    @pytest.mark.parametrize(
        ("group", "message"),
        [
            ("5", "group g of topic t is not an object"),
            ('{"expression":5}', "expression of group g of topic t is not a string"),
            ('{"bornTime":"5"}', "bornTime of group g of topic t is not an integer"),
            ('{"bloomFilterData":{"bitNum":8,"bitPos":[8]}}', "bitPos of group g of topic t"),
            ('{"bloomFilterData":{"bitNum":8,"bitPos":[-1]}}', "bitPos of group g of topic t"),
            ('{"bloomFilterData":{"bitNum":8,"bitPos":7}}', "bitPos of group g of topic t"),
            ('{"bloomFilterData":[1]}', "bloomFilterData of group g of topic t is not an object"),
        ],
    )
    def test_a_broken_file_says_where(self, group, message):
        text = f'{{"filterDataByTopic":{{"t":{{"groupFilterData":{{"g":{group}}}}}}}}}'
        with pytest.raises(ValueError, match=message):
            consumerfilter.parse(text)

    @given(st.integers(0, len(STORED.rstrip()) - 1))
    @examples(100, 100)
    def test_a_file_that_is_half_written_is_an_error(self, length):
        with pytest.raises(ValueError, match="char"):
            consumerfilter.parse(STORED[:length])

    @pytest.mark.parametrize(
        ("dead_time", "dead", "expired"),
        [(0, False, False), (4999, False, False), (5000, True, True), (5001, True, False)],
    )
    def test_dead_is_who_died_after_it_was_born_and_expires_a_day_later(
        self, dead_time, dead, expired
    ):
        entry = a_filter("TRUE", born_time=5000, dead_time=dead_time)
        assert entry.dead is dead
        assert entry.expired(5000 + 24 * 3600 * 1000) is expired


class TestFastjson:
    def test_integer_keys_need_no_quotes(self):
        text = '{"offsetTable":{"T@g":{0:12,1:7,-5 : 8},"a{1:\\"":{"b,2:":"{3:"}}}'
        assert fastjson.loads(text) == {
            "offsetTable": {"T@g": {"0": 12, "1": 7, "-5": 8}, 'a{1:"': {"b,2:": "{3:"}}
        }

    @pytest.mark.parametrize("text", ["", "{", "{0:1", '{0:{"a":', "[1,2:3]", "{a:1}", '{"a'])
    def test_broken_text_is_an_error(self, text):
        with pytest.raises(ValueError, match="char"):
            fastjson.loads(text)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
            ),
        )
    )
    @examples(300, 300)
    def test_what_fastjson_writes_is_read(self, value):
        """
        Keys come back as strings: in a file that has both 1 and "1" the last one stays.
        """

        def written(node):
            if isinstance(node, list):
                return "[" + ",".join(map(written, node)) + "]"
            if isinstance(node, dict):
                pairs = [f"{json.dumps(key)}:{written(inner)}" for key, inner in node.items()]
                return "{" + ",".join(pairs) + "}"
            return json.dumps(node, ensure_ascii=False)

        def read(node):
            if isinstance(node, list):
                return [read(inner) for inner in node]
            if isinstance(node, dict):
                return {str(key): read(inner) for key, inner in node.items()}
            return node

        assert fastjson.loads(written(value)) == read(value)


class TestBitmaps:
    @pytest.mark.parametrize(("topic", "properties", "expected"), UNITS)
    def test_bit_maps_are_those_of_the_real_stores(self, topic, properties, expected):
        found = FilterBitmaps(consumerfilter.parse(STORED), BLOOM).bitmap_for(
            topic, properties, NOW
        )
        assert found == (None if expected is None else bytes.fromhex(expected))

    def test_a_topic_without_filters_has_none(self):
        bitmaps = FilterBitmaps({"t": ()}, BLOOM)
        assert bitmaps.bitmap_for("t", {}, NOW) is None
        assert bitmaps.bitmap_for("unknown", {}, NOW) is None

    def test_who_matches_has_its_bits_set(self):
        one = a_filter("a > 5", "one")
        two = a_filter("b = 'x'", "two")
        assert bitmap(one, two) == bytes(27)
        assert bitmap(one, two, properties={"a": "6"}) == BLOOM.bitmap(one.bit_positions)
        assert bitmap(one, two, properties={"a": "6", "b": "x"}) == BLOOM.bitmap(
            one.bit_positions, two.bit_positions
        )

    def test_a_failure_of_one_is_nothing_to_the_others(self):
        one = a_filter("a > 5", "one")
        two = a_filter("b = 'x'", "two")
        properties = {"a": "no number", "b": "x"}
        assert bitmap(one, two, properties=properties) == BLOOM.bitmap(two.bit_positions)

    def test_the_dead_count_as_long_as_the_file_has_them(self):
        """
        The broker that calculates bit maps does not ask who is dead; it drops them a day later.
        """
        entry = a_filter("TRUE", dead_time=5000)
        assert bitmap(entry) == BLOOM.bitmap(entry.bit_positions)

    @pytest.mark.parametrize(
        "entry", [a_filter("a >"), a_filter("TRUE", expression_type="TAG"), a_filter("FALSE")]
    )
    def test_a_filter_that_is_none_leaves_an_empty_bit_map(self, entry):
        assert bitmap(entry) == bytes(27)

    @pytest.mark.parametrize(
        "stranger",
        [
            a_filter("TRUE", bloom=BloomFilter.sized(20, 32)),
            a_filter("TRUE", bit_positions=(), bit_count=0),
            a_filter("TRUE", bit_positions=(1, 2)),
        ],
    )
    def test_one_filter_of_another_size_makes_the_broker_ignore_the_file(self, stranger):
        bitmaps = FilterBitmaps({"t": (a_filter("TRUE"),), "u": (stranger,)}, BLOOM)
        assert bitmaps.bitmap_for("t", {}, NOW) is None
        assert bitmaps.bitmap_for("u", {}, NOW) is None

    def test_string_operators_are_not_known_before_5_1_3(self):
        entry = a_filter("a CONTAINS 'x'")
        old = FilterBitmaps({"t": (entry,)}, BLOOM, string_operators=False)
        assert old.bitmap_for("t", {"a": "x"}, NOW) == bytes(27)
        assert bitmap(entry, properties={"a": "x"}) == BLOOM.bitmap(entry.bit_positions)


class TestForget:
    def ended(self):
        """Return bit maps with a filter that ended, and the one of its group that counts now."""
        bitmaps = FilterBitmaps({"t": (a_filter("TRUE", born_time=1),)}, BLOOM)
        bitmaps.follow({"t": (a_filter("1 = 1", born_time=50),)}, 60)
        return bitmaps

    def bits_at(self, bitmaps, time):
        return bitmaps.bitmap_for("t", {}, time)

    def test_it_counts_until_the_log_begins_where_it_ended(self):
        bitmaps = self.ended()
        before = self.bits_at(bitmaps, 10)

        assert not bitmaps.forget(0, 1000)
        assert not bitmaps.forget(999, 5000)
        assert self.bits_at(bitmaps, 10) == before
        assert bitmaps.forget(1000, 5000)
        assert self.bits_at(bitmaps, 10) is None
        assert self.bits_at(bitmaps, 50) == before

    def test_where_it_ended_outlives_a_restart(self):
        bitmaps = self.ended()
        bitmaps.forget(0, 1000)
        restored = FilterBitmaps({}, BLOOM)
        restored.restore(json.loads(json.dumps(bitmaps.state())))

        assert not restored.forget(999, 5000)
        assert restored.forget(1000, 5000)

    def test_one_of_an_older_record_gets_its_place_late(self):
        """
        Where the record of the settings does not say where the log ended, now is late enough.
        """
        state = self.ended().state()
        for term in state["t"]:
            del term["log_end"]
        restored = FilterBitmaps({}, BLOOM)
        restored.restore(state)

        assert not restored.forget(4000, 5000)
        assert restored.forget(5000, 9000)

    def test_one_that_counts_is_never_dropped(self):
        bitmaps = FilterBitmaps({"t": (a_filter("TRUE"),)}, BLOOM)

        assert not bitmaps.forget(1 << 40, 1 << 41)
        assert self.bits_at(bitmaps, 10) is not None
