"""Rows are chosen by their tag."""

from __future__ import annotations

import numpy as np

from reput.formats.java import strings
from reput.formats.kafka.tags import match_tags
from reput.formats.rows.texts import Slices


def test_tags_are_matched_by_code_and_by_text():
    """
    "Aa" and "BB" have one hash in Java: the code alone is not enough.
    """
    assert strings.hash_code("Aa") == strings.hash_code("BB")
    names = [b"Aa", b"BB", b"C", b""]
    data = np.frombuffer(b"".join(names) + bytes(8), np.uint8).copy()
    tags = Slices(np.array([0, 2, 4, 5], np.int64), np.array([2, 2, 1, 0], np.int32))
    codes = np.array([strings.hash_code("BB"), strings.hash_code("C")], np.int64)
    texts = Slices(np.array([2, 4], np.int64), np.array([2, 1], np.int32))

    assert match_tags(data, tags, codes, texts, data).tolist() == [
        False, True, True, False,
    ]  # fmt: skip
