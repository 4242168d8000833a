"""Properties: the broker's parsing rules, and the kernel that finds four of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.java import strings
from reput.formats.kernels import properties as property_kernels
from reput.formats.rocketmq import properties
from tests.builders.hypotheses import examples, padded


class TestParse:
    @pytest.mark.parametrize(
        ("raw", "expected"),
        [
            (b"", {}),
            (b"TAGS\x01a\x02", {"TAGS": "a"}),
            (b"TAGS\x01a", {"TAGS": "a"}),
            (b"TAGS\x01\x02", {}),
            (b"\x01a\x02", {}),
            (b"TAGS\x02KEYS\x01k\x02", {"KEYS": "k"}),
            (b"TAGS\x01a\x01b\x02", {"TAGS": "a\x01b"}),
            (b"TAGS\x01\x01\x02", {"TAGS": "\x01"}),
            (b"TAGS\x01a\x02TAGS\x01b\x02", {"TAGS": "b"}),
            (b"TAGS\x01a\x02TAGS\x01\x02", {"TAGS": "a"}),
            (b"\x02\x02a\x01b\x02\x02", {"a": "b"}),
            (b"TAGS\x01\xed\xa0\x80\x02", {"TAGS": "\ufffd"}),
            # A cut-off character does not swallow the separator after it.
            (b"TAGS\x01\xe0\x02KEYS\x01\xf0\x9f\x02", {"TAGS": "\ufffd", "KEYS": "\ufffd"}),
        ],
    )
    def test_rules_of_4_9_1_and_later(self, raw, expected):
        assert properties.parse(raw) == expected

    def test_a_repeated_name_keeps_its_place_and_takes_the_last_value(self):
        parsed = properties.parse(b"a\x011\x02b\x012\x02a\x013\x02")

        assert list(parsed.items()) == [("a", "3"), ("b", "2")]


def found(raw: bytes, at: int, filler: int) -> tuple[dict[str, str], bool, bool]:
    data = padded(raw, before=at, filler=filler)
    result = [int(v) for v in property_kernels.find(data, at, len(raw))]
    values = {}
    for i, name in enumerate(("TAGS", "KEYS", "UNIQ_KEY", "DELAY")):
        start, length = result[2 * i : 2 * i + 2]
        if length:
            assert at <= start
            assert start + length <= at + len(raw)
            values[name] = strings.decode(data[start : start + length].tobytes())
    return values, bool(result[8]), bool(result[9])


def same(raw: bytes, at: int, filler: int) -> None:
    parsed = properties.parse(raw)
    expected = {n: v for n, v in parsed.items() if n in {"TAGS", "KEYS", "UNIQ_KEY", "DELAY"}}
    values, inner, ascii_only = found(raw, at, filler)

    assert values == expected
    assert inner == any(
        name.startswith("INNE") and len(name.encode()) >= 9
        for name in parsed
        if "\ufffd" not in name
    )
    assert ascii_only == raw.isascii()


# Names that share a length or a beginning with those that are looked for.
names = st.sampled_from(
    [
        b"TAGS",
        b"KEYS",
        b"UNIQ_KEY",
        b"DELAY",
        b"INNER_NUM",
        b"INNER_MULTI_DISPATCH",
        b"INNE",
        b"TAGT",
        b"DELAX",
        b"DELAZ",
        b"UNIQ_KEZ",
        b"TAG",
        b"tags",
        b"",
        b"x",
        b"INNESBRUCK",
        b"WAIT",
        "标签".encode(),
        b"\xe0",
        b"n" * 70,
    ]
)
values = st.one_of(
    st.sampled_from([b"", b"v", b"\x01", b"a\x01b", b"k1 k2", b"\xed\xa0\x80", b"\xf0"]),
    st.text("ab", min_size=60, max_size=140).map(str.encode),
    st.text(max_size=5).map(str.encode),
)
pieces = st.one_of(
    st.tuples(names, st.just(b"\x01"), values).map(b"".join),
    names,
    st.binary(max_size=3),
    st.lists(st.sampled_from([b"\x01", b"\x02", b"T", b"TAGS"]), max_size=6).map(b"".join),
)
adversarial = st.builds(
    lambda parts, end: b"\x02".join(parts) + end,
    st.lists(pieces, max_size=8),
    st.sampled_from([b"", b"\x02", b"\x02\x02", b"\x01"]),
)
# What stands around the properties must not count: bytes that would end or begin a piece.
fillers = st.sampled_from([0x00, 0x01, 0x02, 0x53, 0xFF])


class TestFind:
    """The kernel finds what the parser would, in any bytes, at any place."""

    @given(raw=adversarial, at=st.integers(0, 70), filler=fillers)
    @examples(700, 40)
    def test_in_adversarial_bytes(self, raw, at, filler):
        same(raw, at, filler)

    @given(raw=st.binary(max_size=300), at=st.integers(0, 70), filler=fillers)
    @examples(200, 10)
    def test_in_any_bytes(self, raw, at, filler):
        same(raw, at, filler)

    @pytest.mark.parametrize("last", [b"\x02", b""])
    def test_across_every_edge_of_a_vector(self, last):
        """
        Bytes are looked at 64 at a time: names, separators and ends fall on each place in one.
        """
        for before in range(130):
            raw = b"x" * before + b"\x01y\x02TAGS\x01tag\x02KEYS\x01k" + last
            same(raw, before % 11, 0x02)

    def test_the_end_on_every_place_of_a_vector(self):
        for length in range(1, 200):
            same(b"TAGS\x01" + b"v" * length, 3, 0xFF)

    def test_one_high_byte_anywhere_is_seen(self):
        """
        It decides whether hashes take the short way over ASCII.
        """
        for length in (1, 63, 64, 65, 128):
            for at in {0, length // 2, length - 1}:
                raw = bytearray(b"x" * length)
                raw[at] = 0x80
                assert not found(bytes(raw), 5, 0)[2]
            assert found(b"x" * length, 5, 0xFF)[2]

    def test_names_not_decoded(self):
        """
        The kernel compares bytes: a malformed name is not one of ours, whatever stands around it.
        """
        same(b"\xe0TAGS\x01a\x02TAGS\xe0\x01b\x02", 0, 0)
