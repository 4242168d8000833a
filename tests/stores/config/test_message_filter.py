"""Filters as queries use them: what passes, what is refused, and what a bit map leaves out."""

from __future__ import annotations

import pytest

from reput.formats.filters.bloomfilter import BloomFilter
from reput.formats.filters.consumerfilter import ConsumerFilter
from reput.formats.java import strings
from reput.formats.rocketmq.consumequeue_ext import Unit
from reput.stores.config.message_filter import FilterError, compile_filter


def code(tag):
    return strings.hash_code(tag)


class TestTags:
    @pytest.mark.parametrize("text", [None, "", "*"])
    def test_everything_passes(self, text):
        keep = compile_filter(text)
        assert keep.expression == "*"
        assert keep.matches_code(7)
        assert keep.matches({})

    @pytest.mark.parametrize(
        ("text", "tags"),
        [
            ("A", {"A"}),
            ("A || B", {"A", "B"}),
            (" A||B\t||", {"A", "B"}),
            ("A | B", {"A | B"}),
            ("A|||B", {"A", "|B"}),
            ("|||", {"|"}),
            ("* || A", {"*", "A"}),
            (" * ", {"*"}),
            ("A B", {"A B"}),
            ("\u3000A", {"\u3000A"}),
        ],
    )
    def test_tags_are_those_of_a_broker(self, text, tags):
        keep = compile_filter(text)
        assert keep.tags == tags
        for tag in tags:
            assert keep.matches_code(code(tag))
            assert keep.matches({"TAGS": tag})
        assert not keep.matches_code(code("other"))
        assert not keep.matches({"TAGS": "other"})
        assert not keep.matches({})

    def test_a_collision_passes_by_its_code_and_not_by_its_name(self):
        """
        "Aa" and "BB" have one hash: a broker hands over both, a consumer keeps one.
        """
        keep = compile_filter("Aa")
        assert keep.matches_code(code("BB"))
        assert not keep.matches({"TAGS": "BB"})

    def test_the_low_half_of_a_tags_code_counts(self):
        """
        A delayed message's entry holds a time; Java's intValue looks at its low 32 bits.
        """
        keep = compile_filter("A")
        assert keep.matches_code((5 << 32) + code("A"))
        negative = next(tag for n in range(99) if code(tag := f"some tag {n * n}") < 0)
        assert compile_filter(negative).matches_code(code(negative) & 0xFFFFFFFF)

    def test_an_entry_without_a_known_code_is_looked_at(self):
        assert compile_filter("A").matches_code(None)
        assert compile_filter("A").matches_unit(None)
        assert not compile_filter("A").matches_unit(Unit(code("B"), 1))

    def test_blank_alternatives_match_no_code(self):
        keep = compile_filter(" || ")
        assert not keep.matches_code(0)
        assert keep.matches({"TAGS": "A"})

    @pytest.mark.parametrize("text", ["||", "||||"])
    def test_bars_alone_are_refused(self, text):
        with pytest.raises(FilterError) as caught:
            compile_filter(text)
        assert caught.value.java == "Exception"

    @pytest.mark.parametrize(
        ("text", "position"),
        [("A | B", 0), ("A || ", 4), ("|| A", 0), ("A || *", 4), (" * ", 0), ("B || C|D", 4)],
    )
    def test_strict_refuses_what_is_misread(self, text, position):
        with pytest.raises(FilterError) as caught:
            compile_filter(text, mode="strict")
        assert caught.value.position == position
        assert caught.value.java == ""
        compile_filter(text)


class TestSql92:
    def test_true_passes_and_failures_are_counted(self):
        """
        A message that the expression cannot be evaluated for is not delivered: it can be told.
        """
        keep = compile_filter("a > 5", "SQL92")
        found = [keep.matches({"a": value}) for value in ("7", "5", "7.5", "x")]
        assert found == [True, False, False, False]
        assert not keep.matches({})
        assert keep.failures == 2
        assert "7.5" in keep.first_failure

    def test_a_tag_is_a_property(self):
        assert compile_filter("TAGS = 'A'", "SQL92").matches({"TAGS": "A"})

    def test_the_code_says_nothing(self):
        assert compile_filter("a > 5", "SQL92").matches_code(77)

    @pytest.mark.parametrize(
        ("text", "java"),
        [
            ("", "IllegalArgumentException"),
            (None, "IllegalArgumentException"),
            (" ", "ParseException"),
            ("a >", "ParseException"),
            ("a % 5", "TokenMgrError"),
            ("a > 'x'", "RuntimeException"),
            ("a > 'x' %", "RuntimeException"),
            ("a = NULL %", "TokenMgrError"),
            ("a > 99999999999999999999", "NumberFormatException"),
            ("5 OR a", "ParseException"),
            ("(TRUE = 5 x", "RuntimeException"),
            ("a BETWEEN 'x' AND TRUE", "ClassCastException"),
            ("5 OR b OR a > 'x'", "ParseException"),
            ("5 OR a > 'x'", "RuntimeException"),
            ("(99999999999999999999 b)", "NumberFormatException"),
            ("+(99999999999999999999 b)", "ParseException"),
            ("+(99999999999999999999 %", "TokenMgrError"),
            ("+ 99999999999999999999 %", "NumberFormatException"),
            ("+ 99999999999999999999 b", "NumberFormatException"),
        ],
    )
    def test_errors_are_a_brokers(self, text, java):
        with pytest.raises(FilterError) as caught:
            compile_filter(text, "SQL92")
        assert caught.value.java == java

    @pytest.mark.parametrize(
        ("text", "position"),
        [
            ("a LIKE 'x'", 0),
            ("a = 1 LIKE 2", 6),
            ("a = 007", 5),
            ("a = 1 -- the end", 6),
            ("NOT a = 'b'", 0),
            ("a", 0),
            ("a = 1 OR b", 6),
            ("(b = 1) = c", 8),
            ("TRUE = a", 5),
            ("5 = 'x'", 2),
            ("a = -b", 4),
            ("a CONTAINS ''", 11),
            ("(a = 1) CONTAINS 'x'", 8),
            ("a BETWEEN 3 AND -1", 2),
            ("a NOT BETWEEN 3 AND 1", 6),
            ("a = 1) OR TRUE", 5),
        ],
    )
    def test_strict_refuses_what_is_misread(self, text, position):
        compile_filter(text, "SQL92")
        with pytest.raises(FilterError) as caught:
            compile_filter(text, "SQL92", "strict")
        assert caught.value.position == position
        assert caught.value.java == ""

    @pytest.mark.parametrize(
        "text",
        [
            "a = 'x'",
            "a = TRUE AND NOT (b > -5 OR c IS NULL)",
            "a BETWEEN -3 AND 2.5 /* between */ AND b IN ('x', 'y')",
            "a NOT CONTAINS 'x' AND b = c",
            "(a > 5) = TRUE",
            "TRUE",
            "a > 5 -- a comment\n",
        ],
    )
    def test_strict_takes_what_means_what_it_says(self, text):
        strict = compile_filter(text, "SQL92", "strict")
        same = compile_filter(text, "SQL92")
        for value in ("x", "1", "7", "true"):
            for properties in ({"a": value}, {"a": value, "b": value}, {"b": "4", "c": "4"}):
                assert strict.matches(properties) == same.matches(properties)

    def test_the_string_operators_are_names_to_old_brokers(self):
        new = compile_filter("a CONTAINS 'x'", "SQL92")
        old = compile_filter("a CONTAINS 'x'", "SQL92", string_operators=False)
        assert new.matches({"a": "x"})
        assert not old.matches({"a": "x"})

    def test_kind_and_mode_are_checked(self):
        with pytest.raises(FilterError, match="TAG, SQL92"):
            compile_filter("a", "SQL")
        with pytest.raises(FilterError, match="broker, strict"):
            compile_filter("a", mode="lenient")


class TestBitMaps:
    """
    A unit's bit map may leave a message out only where the consumer's bits must be in it.
    """

    @pytest.fixture
    def bloom(self):
        return BloomFilter.sized()

    def consumer(self, bloom, born_time=1000):
        return ConsumerFilter(
            "g", "a > 5", "SQL92", born_time, 0, bloom.positions("g", "t"), bloom.bits, 1
        )

    def test_a_missing_bit_leaves_out(self, bloom):
        keep = compile_filter("a > 5", "SQL92").of_consumer(self.consumer(bloom), bloom)
        full = bloom.bitmap(bloom.positions("g", "t"))
        empty = bytes(len(full))
        partial = bloom.bitmap(bloom.positions("g", "t")[:2])
        assert keep.matches_unit(Unit(0, 1001, full))
        assert not keep.matches_unit(Unit(0, 1001, empty))
        assert not keep.matches_unit(Unit(0, 1001, partial))

    def test_what_is_older_or_of_another_size_says_nothing(self, bloom):
        keep = compile_filter("a > 5", "SQL92").of_consumer(self.consumer(bloom), bloom)
        assert keep.matches_unit(None)
        assert keep.matches_unit(Unit(0, 1001, b""))
        assert keep.matches_unit(Unit(0, 1001, bytes(13)))
        assert keep.matches_unit(Unit(0, 1000, bytes(14)))

    def test_bits_of_another_filter_are_refused(self, bloom):
        with pytest.raises(ValueError, match="another bloom filter"):
            compile_filter("a > 5", "SQL92").of_consumer(
                self.consumer(bloom), BloomFilter.sized(20, 64)
            )
