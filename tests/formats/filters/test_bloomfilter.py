"""The bloom filter: sizes, hash and bits are those of the broker's, or bit maps name nobody."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.filters.bloomfilter import BloomFilter, murmur3
from tests.builders.hypotheses import examples


class TestSize:
    @pytest.mark.parametrize(
        ("error_rate", "groups", "hashes", "bits"),
        # Measured with BloomFilter.createByFn of 5.5.0.
        [(20, 32, 3, 112), (20, 64, 3, 216), (10, 128, 4, 616), (1, 1, 7, 16), (99, 1, 1, 8)],
    )
    def test_size_follows_from_the_brokers_settings(self, error_rate, groups, hashes, bits):
        assert BloomFilter.sized(error_rate, groups) == BloomFilter(hashes, bits)

    def test_default_settings_are_the_brokers(self):
        assert BloomFilter.sized() == BloomFilter(3, 112)

    @given(st.integers(1, 99), st.integers(1, 5000))
    @examples(200, 200)
    def test_bits_fill_whole_bytes(self, error_rate, groups):
        size = BloomFilter.sized(error_rate, groups)
        assert size.bits % 8 == 0
        assert size.bits > 0 < size.hashes

    @pytest.mark.parametrize(("error_rate", "groups"), [(0, 32), (100, 32), (20, 0)])
    def test_settings_without_a_filter_are_refused(self, error_rate, groups):
        with pytest.raises(ValueError, match="is"):
            BloomFilter.sized(error_rate, groups)


class TestPositions:
    @pytest.mark.parametrize(
        ("groups", "group", "topic", "positions"),
        [
            (32, "CID_test", "TopicTest", (47, 102, 45)),
            (32, "g", "t", (22, 87, 58)),
            (64, "g-small", "sql-topic", (206, 53, 99)),
            (64, "g-red", "sql-topic", (161, 44, 66)),
        ],
    )
    def test_positions_are_the_brokers(self, groups, group, topic, positions):
        assert BloomFilter.sized(20, groups).positions(group, topic) == positions

    @given(st.text(), st.text(), st.integers(1, 99), st.integers(1, 300))
    @examples(300, 300)
    def test_there_is_one_for_each_hash_and_none_beyond_the_filter(
        self, group, topic, error_rate, groups
    ):
        size = BloomFilter.sized(error_rate, groups)
        positions = size.positions(group, topic)
        assert len(positions) == size.hashes
        assert all(0 <= position < size.bits for position in positions)


class TestBitmap:
    def test_bits_stand_in_their_bytes_lowest_first(self):
        size = BloomFilter.sized()
        assert size.bitmap((0, 9, 111)) == bytes.fromhex("0102000000000000000000000080")
        assert size.bitmap((22, 87, 58)).hex() == "0000400000000004000080000000"

    def test_bits_of_groups_are_joined(self):
        size = BloomFilter.sized()
        assert size.bitmap((0, 1), (1, 2)) == size.bitmap((0, 1, 2))

    def test_without_groups_it_is_all_zero(self):
        assert BloomFilter.sized().bitmap() == bytes(14)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"hello", 0xCBD8A7B341BD9B02),
        (b"0123456789abcdef", 0x4BE06D94CF4AD1A7),
        (b"hello, world", 0x342FAC623A5EBC8E),
        (b"19 Jan 2038 at 3:14:07 AM", 0xB89E5988B737AFFC),
        (b"The quick brown fox jumps over the lazy dog.", 0xCD99481F9EE902C9),
    ],
)
def test_murmur3_is_guavas(data, expected):
    """
    As Guava's murmur3_128().hashString(…).asLong() gives them; lengths on both sides of 8 and 16.
    """
    assert murmur3(data) == expected
