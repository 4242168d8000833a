"""Damage is told from a good file by its first line."""

from __future__ import annotations

import json

import pytest

from reput.checkpoints import checked_line


def test_the_first_line_holds_the_crc_of_the_rest() -> None:
    """
    A reader that knows nothing of it reads one JSON object.
    """
    raw = checked_line.checked('{"end": 4096}')

    assert raw == b'{"crc": 4169753364,\n"end": 4096}'
    assert json.loads(raw)["end"] == 4096
    assert checked_line.parted(raw).is_whole


def test_each_byte_that_is_changed_is_seen() -> None:
    raw = checked_line.checked('{"end": 4096, "name": "x"}')
    for place in range(len(raw)):
        broken = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        try:
            assert not checked_line.parted(broken).is_whole
        except (ValueError, LookupError, TypeError):
            continue


@pytest.mark.parametrize("raw", [b"", b"{}", b"\xff\n{", b'{"end": 5,\n"x": 1}'])
def test_what_has_no_such_line_is_refused(raw: bytes) -> None:
    with pytest.raises((ValueError, LookupError)):
        checked_line.parted(raw)
