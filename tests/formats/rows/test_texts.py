"""Texts as slices: which are UTF-8, and how they are laid end to end."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.rows import texts
from reput.formats.rows.texts import Slices
from tests.builders.hypotheses import examples, padded


@examples(500)
@given(st.one_of(st.binary(max_size=12), st.text(max_size=6).map(lambda t: t.encode())))
def test_utf8_is_what_python_takes_for_it(raw):
    """
    Where it is well formed, Java's decoder and Python's agree, so texts can be handed on as bytes.
    """
    try:
        raw.decode()
        expected = True
    except UnicodeDecodeError:
        expected = False
    assert texts.is_utf8(padded(raw), 16, len(raw)) == expected


def test_gathered_slices_stand_end_to_end():
    data = np.frombuffer(b"abcdefgh", np.uint8)
    slices = Slices(np.array([4, 0, 1]), np.array([2, 0, 3], np.int32))
    out = np.zeros(5, np.uint8)
    texts.gather(data, slices, np.array([2, 2, 5], np.int32), out)

    assert out.tobytes() == b"efbcd"


def test_message_ids_are_as_documented():
    """
    Host, port and physical offset in upper-case hex: the example of docs/formats.
    """
    host = bytes([10, 0, 0, 1]) + (10911).to_bytes(4, "big")
    data = np.frombuffer(host, np.uint8)
    out = np.zeros(32, np.uint8)
    slices = Slices(np.array([0]), np.array([8], np.int32))
    texts.write_message_ids(data, slices, np.array([1000]), np.array([32], np.int32), out)

    assert out.tobytes() == b"0A00000100002A9F00000000000003E8"
