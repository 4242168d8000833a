"""The filter language: what a broker measured to do, and what must hold of every expression."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.filters import sql92
from reput.formats.filters.sql92_conditions import parse_double
from tests.builders.hypotheses import examples

CASES = json.loads((Path(__file__).parents[1] / "data" / "sql92_cases.json").read_text("utf-8"))
REFUSED = "refused"
FAILS = "fails"


def outcome(text, properties=None, *, string_operators=True):
    try:
        expression = sql92.parse(text, string_operators=string_operators)
    except sql92.ExpressionError:
        return REFUSED
    try:
        return expression.evaluate(properties or {})
    except sql92.EvaluationError:
        return FAILS


def cases(source):
    return [pytest.param(*case, id=f"{i}: {case[0]!r}") for i, case in enumerate(CASES[source])]


class TestRealFilter:
    """
    A few hundred of the random cases that were compared with the real filter module.
    """

    @pytest.mark.parametrize(("text", "properties", "expected"), cases("rocketmq-filter 5.5.0"))
    def test_outcome_is_that_of_5_5_0(self, text, properties, expected):
        assert outcome(text, properties) == expected

    @pytest.mark.parametrize(("text", "properties", "expected"), cases("rocketmq-filter 4.9.7"))
    def test_outcome_is_that_of_4_9_7(self, text, properties, expected):
        assert outcome(text, properties, string_operators=False) == expected


class TestText:
    """
    What is accepted: no less and no more than a broker accepts.
    """

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "  ",
            "-- only a comment\n",
            "a >",
            "a = ",
            "a = 1 = ",
            "a AND",
            "(a = 1",
            "a NOT b",
            "a IS b",
            "a IN ()",
            "a IN ('x',)",
            "a IN (5)",
            "a CONTAINS 5",
            "a CONTAINS b",
            "a = 'x",
            "a = 1 /* open",
            "a != 1",
            'a = "x"',
            "a = 1 %",
            "a.b = 1",
            "é = 1",
            "a = 1 AND é",
            "5",
            "'x'",
            "-a",
            "NOT 5",
            "5 AND a",
            "a OR 'x'",
        ],
    )
    def test_is_refused(self, text):
        assert outcome(text) == REFUSED

    @pytest.mark.parametrize(
        ("text", "same_as"),
        [
            ("a LIKE 'x'", "a"),
            ("a = 007", "a = 0"),
            ("a = 1l", "a = 1"),
            ("a = 0l", "a = 0"),
            ("a = 1 b %", "a = 1"),
            ("a = 1) OR TRUE", "a = 1"),
            ("a = 1 (", "a = 1"),
            ("a = 1 -- no line end", "a = 1"),
            ("a = 1 -- comment\n OR TRUE", "a = 1 OR TRUE"),
            ("a = /* * ** */ 1 /**/ OR/***/TRUE", "a = 1 OR TRUE"),
            ("a = -- 5 < b", "a = (-(-5) < b)"),
            ("not A is Null aNd a iN ('1')", "NOT A IS NULL AND a IN ('1')"),
            ("NOT a = b", "(NOT a) = b"),
            ("a = 1 OR b = 2 AND c = 3", "a = 1 OR (b = 2 AND c = 3)"),
            ("a BETWEEN 1 AND 2 AND b = 1", "(a BETWEEN 1 AND 2) AND (b = 1)"),
            ("a = b <> c", "(a = b) <> c"),
            ("+ + a IN ('1')", "a IN ('1')"),
            ("((a)) IN ('1')", "a IN ('1')"),
        ],
    )
    def test_means_the_same(self, text, same_as):
        assert sql92.parse(text).condition == sql92.parse(same_as).condition

    def test_the_character_that_is_wrong_is_named(self):
        """
        Consumers see this text; the number is what they can find.
        """
        for text, position in [
            ("a != 1", 2),
            ("a NOT b", 6),
            ("a = ", 4),
            ("a = NULL", 2),
            ("a > 'x'", 2),
            ("b = 1 OR a IN (5)", 15),
            ("b > 9223372036854775808", 4),
        ]:
            with pytest.raises(sql92.ExpressionError) as caught:
                sql92.parse(text)
            assert caught.value.position == position, text

    def test_string_operators_are_names_before_5_1_3(self):
        """
        So `a CONTAINS 'x'` is not refused there: it is `a`, and the rest is ignored.
        """
        properties = {"a": "x", "CONTAINS": "5"}
        assert outcome("a CONTAINS 'x'", properties) is True
        assert outcome("a CONTAINS 'x'", properties, string_operators=False) is False
        assert outcome("a NOT CONTAINS 'x'", properties, string_operators=False) == REFUSED
        assert outcome("CONTAINS = 5", properties, string_operators=False) is True
        assert outcome("CONTAINS = 5", properties) == REFUSED

    def test_a_long_list_of_alternatives_is_no_deep_one(self):
        text = " OR ".join(f"a = '{i}'" for i in range(5000))
        assert outcome(text, {"a": "4999"}) is True

    def test_what_is_nested_too_deeply_fails_and_does_not_match(self):
        expression = sql92.parse("NOT " * 3000 + "TRUE")
        with pytest.raises(sql92.EvaluationError):
            expression.evaluate({})
        assert not expression.matches({})


class TestLiterals:
    @pytest.mark.parametrize(
        "number",
        ["0.0", "0e5", "1e400", "1e-400", "2e-324", "9223372036854775808", "9" * 6000, "00.0"],
    )
    def test_numbers_beyond_their_type_are_refused(self, number):
        assert outcome(f"a > {number}") == REFUSED

    @pytest.mark.parametrize(
        ("literal", "value", "expected"),
        [
            ("5", "5", True),
            ("5", "+5", True),
            ("5", "5.0", FAILS),
            ("5", " 5", FAILS),
            ("5", "\u0665", True),
            ("5", "2147483648", FAILS),
            ("5L", "2147483648", FAILS),
            ("2147483648", "2147483648", True),
            ("-2147483648", "-2147483648", True),
            ("-2147483648", "-3000000000", False),
            ("-2147483647", "-3000000000", FAILS),
            ("9223372036854775807", "9223372036854775807", True),
            ("9223372036854775807", "9223372036854775808", FAILS),
            ("5.0", "5", True),
            ("5.", " 5d\t", True),
            (".5", "0x1p-1", True),
            ("5.0", "\u0665", FAILS),
            ("5.0", "5_0", FAILS),
            ("5.0", "inf", FAILS),
            ("4.9E-324", "4.9e-324", True),
            ("'5'", "5", True),
            ("'5'", "5.0", False),
            ("'it''s'", "it's", True),
            ("''", "", True),
            ("TRUE", "tRuE", True),
            ("TRUE", "yes", False),
            ("FALSE", "yes", True),
        ],
    )
    def test_a_string_is_parsed_into_the_type_of_the_constant(self, literal, value, expected):
        assert outcome(f"a = {literal}", {"a": value}) == expected

    @given(st.floats())
    @examples(300)
    def test_doubles_are_read_as_they_are_written(self, number):
        text = "NaN" if math.isnan(number) else repr(number).replace("inf", "Infinity")
        for written in (text, f" {text}\n"):
            read = parse_double(written)
            assert read == number or (math.isnan(read) and math.isnan(number))
        if math.isfinite(number):
            assert parse_double(number.hex()) == parse_double(text + "D") == number

    @pytest.mark.parametrize(
        ("text", "number"),
        [
            ("0x1p99999", math.inf),
            ("-0x1p99999f", -math.inf),
            ("0x1p-99999", 0.0),
            ("1e400", math.inf),
            ("-Infinity", -math.inf),
        ],
    )
    def test_doubles_beyond_the_range_are_infinite_or_zero(self, text, number):
        assert parse_double(text) == number

    @pytest.mark.parametrize(
        "text", ["", " ", ".", "e5", "nan", "1_0", "0x10", "5l", "NaNf", "5\u00a0", "5ff", "--5"]
    )
    def test_what_is_no_double_fails(self, text):
        with pytest.raises(sql92.EvaluationError):
            parse_double(text)


class TestComparison:
    """
    Each line was measured with the filter module of 5.5.0.
    """

    @pytest.mark.parametrize(
        ("text", "properties", "expected"),
        [
            ("a > 5", {"a": "7"}, True),
            ("a > 5", {"a": "x"}, FAILS),
            ("a > 5", {"a": "7.5"}, FAILS),
            ("a > 5", {}, None),
            ("a > 5.5", {"a": "7"}, True),
            ("a > 5.5", {"a": "NaN"}, True),
            ("a = b", {"a": "5", "b": "5.0"}, False),
            ("a = b", {}, True),
            ("a = b", {"a": "5"}, False),
            ("a = b", {"b": "5"}, None),
            ("a > b", {"a": "10", "b": "9"}, True),
            ("a > b", {"a": "x", "b": "9"}, FAILS),
            ("a > b", {"a": "x"}, None),
            ("a >= b", {"a": "0.0", "b": "-0.0"}, True),
            ("a <= b", {"a": "0.0", "b": "-0.0"}, False),
            ("a <> 'x'", {}, None),
            ("a <> 'x'", {"a": "y"}, True),
            ("a = TRUE", {"a": "true"}, True),
            ("a = TRUE", {"a": "yes"}, False),
            ("TRUE = a", {"a": "true"}, FAILS),
            ("TRUE = a", {}, False),
            ("5 = TRUE", {}, False),
            ("5 = 5.0", {}, True),
            ("5 = 5L", {}, True),
            ("'5' = 5", {}, True),
            ("5 < 3000000000", {}, True),
            ("-5 < -4.5", {}, True),
            ("-a < 5", {"a": "9"}, None),
            ("b > -(a > 5)", {"a": "x"}, None),
            ("b > -(a > 5)", {"a": "x", "b": "1"}, FAILS),
            ("a IS NULL", {}, True),
            ("a IS NULL", {"a": ""}, False),
            ("a IS NOT NULL", {}, False),
            ("NULL IS NULL", {}, True),
            ("(a = 1) IS NULL", {"b": "1"}, True),
        ],
    )
    def test_outcome(self, text, properties, expected):
        assert outcome(text, properties) == expected

    @pytest.mark.parametrize(
        "text",
        [
            "'x' > 'y'",
            "a > 'x'",
            "a > TRUE",
            "a > NULL",
            "a > (b = 1)",
            "a > 1 > 0",
            "a = NULL",
            "NULL <> a",
            "TRUE = 5",
            "TRUE = 'true'",
            "a BETWEEN 3 AND 1",
            "a BETWEEN 3 AND 1.5",
            "a BETWEEN 'a' AND 'b'",
            "a BETWEEN NULL AND 5",
            "'a' IN ('a')",
            "-a IN ('a')",
        ],
    )
    def test_what_can_never_be_compared_is_refused(self, text):
        assert outcome(text) == REFUSED

    @pytest.mark.parametrize(
        ("text", "properties", "expected"),
        [
            ("a BETWEEN 1 AND 3", {"a": "3"}, True),
            ("a BETWEEN 1 AND 3", {}, None),
            ("a NOT BETWEEN 1 AND 3", {"a": "3"}, False),
            ("a NOT BETWEEN 1 AND 3", {}, None),
            ("a NOT BETWEEN 3 AND 1", {"a": "2"}, True),
            ("a BETWEEN 3 AND -1", {"a": "2"}, False),
            ("a BETWEEN b AND c", {"a": "2", "b": "1.5", "c": "x"}, FAILS),
            ("a BETWEEN b AND c", {"a": "1", "b": "1.5", "c": "x"}, False),
            ("a IN ('x', 'y')", {"a": "y"}, True),
            ("a IN ('x')", {"a": "y"}, False),
            ("a NOT IN ('x')", {}, None),
            ("a NOT IN ('x')", {"a": "y"}, True),
            ("a CONTAINS 'b'", {"a": "abc"}, True),
            ("a STARTSWITH 'b'", {"a": "abc"}, False),
            ("a NOT ENDSWITH 'b'", {"a": "abc"}, True),
            ("a NOT CONTAINS 'q'", {}, False),
            ("a NOT CONTAINS ''", {"a": "x"}, False),
            ("(a > 5) NOT CONTAINS ''", {"a": "x"}, False),
            ("(a > 5) CONTAINS 'x'", {"a": "x"}, FAILS),
            ("5 NOT CONTAINS '4'", {}, False),
        ],
    )
    def test_between_in_and_the_string_operators(self, text, properties, expected):
        assert outcome(text, properties) == expected


class TestLogic:
    @pytest.mark.parametrize(
        ("text", "properties", "expected"),
        [
            ("a", {"a": "true"}, False),
            ("a", {}, None),
            ("NOT a", {"a": "true"}, True),
            ("NOT a", {}, None),
            ("a > 5 OR b IS NULL", {}, True),
            ("TRUE OR a > 5", {"a": "x"}, True),
            ("a > 5 OR TRUE", {"a": "x"}, FAILS),
            ("FALSE AND a > 5", {"a": "x"}, False),
            ("NULL AND a > 5", {"a": "x"}, FAILS),
            ("NULL", {}, None),
        ],
    )
    def test_outcome(self, text, properties, expected):
        assert outcome(text, properties) == expected

    @given(
        st.recursive(
            st.sampled_from(["TRUE", "FALSE", "NULL"]),
            lambda inner: st.one_of(
                st.tuples(st.just("NOT"), inner),
                st.tuples(st.sampled_from(["AND", "OR"]), inner, inner),
                st.tuples(st.sampled_from(["AND", "OR"]), inner, inner, inner),
            ),
            max_leaves=12,
        )
    )
    @examples(300, 300)
    def test_three_valued_logic_is_that_of_a_half(self, tree):
        """
        Kleene's logic: TRUE 1, NULL 1/2, FALSE 0; AND the least, OR the greatest, NOT the rest.
        """

        def text(node):
            if isinstance(node, str):
                return node
            if node[0] == "NOT":
                return f"NOT ({text(node[1])})"
            return f" {node[0]} ".join(f"({text(part)})" for part in node[1:])

        def value(node):
            if isinstance(node, str):
                return {"TRUE": 1, "FALSE": 0, "NULL": 0.5}[node]
            parts = [value(part) for part in node[1:]]
            return {"NOT": lambda p: 1 - p[0], "AND": min, "OR": max}[node[0]](parts)

        assert outcome(text(tree)) == {1: True, 0: False, 0.5: None}[value(tree)]

    @pytest.mark.parametrize(
        ("properties", "expected"),
        [({"a": "6"}, True), ({"a": "5"}, False), ({}, False), ({"a": "x"}, False)],
    )
    def test_a_message_matches_on_true_only(self, properties, expected):
        assert sql92.parse("a > 5").matches(properties) is expected


WORDS = "a b $c NOT AND OR BETWEEN IN IS NULL TRUE FALSE CONTAINS STARTSWITH ENDSWITH"
SIGNS = "= <> < <= > >= ( ) , + - 0 5 7l 1.5 .5 2147483648 'x' '' '5' ! % ' -- /* */"
TOKENS = WORDS.split() + SIGNS.split()
soup = st.lists(st.sampled_from(TOKENS), max_size=12)
values = st.dictionaries(st.sampled_from(["a", "b", "$c"]), st.text(max_size=4) | st.just("5"))


class TestAnything:
    @given(soup.map(" ".join) | st.text(max_size=20), values)
    @examples(1000, 1000)
    def test_no_text_does_anything_but_pass_or_be_refused(self, text, properties):
        result = outcome(text, properties)
        assert result in {True, False, None, REFUSED, FAILS}
        if result is not REFUSED:
            assert sql92.parse(text).matches(properties) is (result is True)

    @given(soup, st.lists(st.sampled_from([" ", "\t\f", "\r\n", "/**/", "-- x'\n"]), min_size=13))
    @examples(300, 300)
    def test_blanks_and_comments_mean_nothing(self, tokens, blanks):
        tokens = [token for token in tokens if token not in {"--", "/*", "*/", "'"}]
        # Directly after a minus a comment would begin a character earlier.
        pairs = [
            (token + " " * (token == "-"), b) for token, b in zip(tokens, blanks, strict=False)
        ]
        mixed = "".join(token + blank for token, blank in pairs)
        # A trailing blank, because one token may end where the next one begins.
        assert outcome(mixed) == outcome(" ".join(tokens))
