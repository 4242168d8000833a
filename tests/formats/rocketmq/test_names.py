"""Names: files by offset and by time, both ways; topics that can be a directory."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.rocketmq import names
from tests.builders.hypotheses import examples


def test_a_mapped_file_is_named_by_its_first_byte_in_20_digits():
    assert names.offset_file(1 << 30) == "00000000001073741824"
    assert names.parse_offset_file("00000000001073741824") == 1 << 30


@given(st.integers(0, (1 << 63) - 1))
@examples(100)
def test_offsets_survive(offset):
    assert names.parse_offset_file(names.offset_file(offset)) == offset


@pytest.mark.parametrize(
    "name",
    [
        "",
        "0",
        "0" * 19,
        "0" * 19 + "x",
        "-" + "0" * 19,
        " " + "0" * 20,
        "0" * 20 + ".tmp",
        "٣" * 20,
        "0" * 20 + "\n",
        "lost+found",
        ".0000000000000000000",
    ],
)
def test_any_other_name_is_none_of_an_offset(name):
    assert names.parse_offset_file(name) is None


def test_an_index_file_is_named_by_local_time_to_the_millisecond():
    made = dt.datetime(2024, 2, 29, 23, 59, 58).astimezone()

    assert names.index_file(int(made.timestamp()) * 1000 + 7) == "20240229235958007"


def test_index_names():
    assert names.is_index_file("20240229235958007")
    for name in ("", "2024022923595800x", "index.tmp", "٣" * 17):
        assert not names.is_index_file(name)


@pytest.mark.parametrize(
    "topic",
    ["orders", "%RETRY%group", "订单", "...", ".hidden", "a b", "x" * 255, "é" * 127, "\udcff"],
)
def test_topics_that_can_be_a_directory(topic):
    assert names.topic_problem(topic) is None


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        ("", "empty"),
        (".", "another directory"),
        ("..", "another directory"),
        ("../x", "path separator"),
        ("/", "path separator"),
        ("a\0b", "NUL"),
        ("a\ud800", "half of a character"),
        ("x" * 256, "255 bytes"),
        ("é" * 128, "255 bytes"),
    ],
)
def test_topics_that_cannot(topic, problem):
    assert problem in names.topic_problem(topic)
