"""Java's strings and numbers: hashCode, UTF-8 with its replacement rules, parseInt, parseLong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reput.formats.java import strings
from reput.formats.kernels import java as java_kernels
from tests.builders.hypotheses import examples, padded

R = "\ufffd"
# What `new String(bytes, UTF_8)` of JDK 17 gives.
DECODED = {
    "eda080": R,  # an encoded surrogate is one piece
    "c0af": R + R,
    "e28041": R + "A",
    "e280": R,
    "f09080": R,
    "f0908041": R + "A",
    "f0": R,
    "e041": R + "A",
    "e08080": R * 3,
    "f4908080": R * 4,
    "f8888080": R * 4,
    "80": R,
    "41c2": "A" + R,
    "f09f9880": "😀",
    "eda080edb080": R + R,
    "efbfbf": "\uffff",
}
# Bytes near the borders of UTF-8's ranges, where the rules change.
_EDGES = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0]
_EDGES += [0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF8, 0xFF]
nearly_utf8 = st.lists(st.sampled_from(_EDGES), max_size=12).map(bytes)


def hashed(raw: bytes, state: int = 0) -> int:
    value = int(java_kernels.hash_utf8(np.uint32(state), padded(raw, 3, 8, 0xBF), 3, len(raw)))
    return value - (1 << 32) if value >> 31 else value


class TestDecode:
    @pytest.mark.parametrize("raw", DECODED)
    def test_malformed_bytes_are_replaced_piece_by_piece_as_java_does(self, raw):
        assert strings.decode(bytes.fromhex(raw)) == DECODED[raw]

    @given(st.text())
    @examples(200)
    def test_text_survives(self, text):
        assert strings.decode(text.encode()) == text

    @given(nearly_utf8)
    @examples(300)
    def test_pieces_join(self, raw):
        """
        A character cannot begin inside a piece, so what follows an ASCII byte stands alone.
        """
        assert strings.decode(raw + b"|" + raw) == strings.decode(raw) + "|" + strings.decode(raw)


class TestHash:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", 0),
            ("d", 100),
            ("TagA", 2598919),
            ("订单", 1129459),
            ("😀", 1772899),
            ("polygenelubricants", -2147483648),
        ],
    )
    def test_known_values(self, text, expected):
        assert strings.hash_code(text) == expected
        assert hashed(text.encode()) == expected

    @given(st.one_of(nearly_utf8, st.binary(max_size=40), st.text(max_size=20).map(str.encode)))
    @examples(600)
    @example(bytes.fromhex("f4908080"))
    @example(bytes.fromhex("eda080"))
    def test_the_kernel_hashes_what_java_would_decode(self, raw):
        """
        The bytes after the text look like a continuation here: none of them may be read.
        """
        assert hashed(raw) == strings.hash_code(strings.decode(raw))

    @given(st.text(st.characters(max_codepoint=0x7F), max_size=40), st.integers(0, 2**32 - 1))
    @examples(600)
    @example("\x7f" * 39, 2**32 - 1)
    def test_eight_bytes_at_a_time_make_the_same_hash(self, text, state):
        """
        What stands around the text does not count.
        """
        raw = text.encode()
        value = int(java_kernels.hash_ascii(np.uint32(state), padded(raw, 3, 8, 0xFF), 3, len(raw)))
        begun = state * pow(31, len(raw), 1 << 32)

        assert value == (begun + strings.hash_code(text)) & 0xFFFFFFFF

    @given(st.text(max_size=20), st.text(max_size=20))
    @examples(200)
    def test_a_hash_goes_on_where_another_ended(self, head, tail):
        """
        That is how "topic#" is hashed once for all keys of a topic.
        """
        prefix = strings.hash_code(head) & 0xFFFFFFFF

        assert hashed(tail.encode(), prefix) == strings.hash_code(head + tail)


PARSED = {
    "0": 0,
    "-0": 0,
    "+7": 7,
    "007": 7,
    "2147483647": 2147483647,
    "-2147483648": -2147483648,
    "٣": 3,
    "-१२": -12,
}
REFUSED = ["", " ", "+", "-", "--1", "+-1", " 1", "1 ", "1_000", "0x10", "1.0", "１e1", "²", "½"]  # noqa: RUF001


class TestParse:
    @pytest.mark.parametrize("text", PARSED)
    def test_what_java_takes_for_a_number(self, text):
        assert strings.parse_int(text) == PARSED[text]
        assert strings.parse_long(text) == PARSED[text]

    @pytest.mark.parametrize("text", [*REFUSED, "𝟏", "1\0", "\u06661x"])  # noqa: RUF001
    def test_what_it_does_not(self, text):
        """
        Decimal digits of other scripts are digits to Java, beyond the basic plane they are not.
        """
        for parse in (strings.parse_int, strings.parse_long):
            with pytest.raises(ValueError, match="not an integer"):
                parse(text)

    def test_ranges(self):
        assert strings.parse_long(str((1 << 63) - 1)) == (1 << 63) - 1
        assert strings.parse_long(str(-(1 << 63))) == -(1 << 63)
        for text in ("2147483648", "-2147483649"):
            with pytest.raises(ValueError, match="32 bits"):
                strings.parse_int(text)
        for text in (str(1 << 63), str(-(1 << 63) - 1)):
            with pytest.raises(ValueError, match="64 bits"):
                strings.parse_long(text)

    @pytest.mark.parametrize("sign", ["", "+", "-"])
    def test_zeros_at_the_beginning_mean_nothing(self, sign):
        """
        However many: a property may hold 32 KB of them, where Python stops at 4,300 digits.
        """
        for zeros in ("0" * 32_000, "\u0660" * 9_000):
            assert strings.parse_int(sign + zeros + "5") == int(sign + "5")
            assert strings.parse_long(sign + zeros) == 0

    def test_many_digits_are_beyond_any_range(self):
        for parse in (strings.parse_int, strings.parse_long):
            with pytest.raises(ValueError, match=r"beyond (32|64) bits: .1000"):
                parse("1" + "0" * 32_000)

    @given(st.integers(-(1 << 31), (1 << 31) - 1))
    @examples(100)
    def test_numbers_survive(self, value):
        assert strings.parse_int(str(value)) == value


class TestWhitespace:
    # What a Java 17 says of each `char`, by Character.isWhitespace.
    WHITE = (
        "\t\n\v\f\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009"
        "\u200a\u2028\u2029\u205f\u3000"
    )

    def test_the_characters_that_java_calls_so(self):
        assert "".join(filter(strings.is_whitespace, map(chr, range(1 << 16)))) == self.WHITE

    @pytest.mark.parametrize("text", ["", " ", WHITE])
    def test_a_text_of_nothing_else_is_blank(self, text):
        assert strings.is_blank(text)

    @pytest.mark.parametrize("text", ["\u00a0", "\u2007", "\u202f", "\x85", " \u200b ", "\0", " a"])
    def test_blanks_that_forbid_a_line_break_are_text(self, text):
        """
        Python's `str.strip` takes the first four off.
        """
        assert not strings.is_blank(text)
