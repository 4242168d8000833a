"""Bodies as their senders had them; what cannot be decompressed stays as it is stored."""

from __future__ import annotations

import zlib

import lz4.frame
import pytest
import zstandard

from formats.bodies import Compression, decompressed

TEXT = b"an order for seventeen umbrellas " * 40


@pytest.mark.parametrize(
    ("flag", "stored", "kind"),
    [
        (0x0, TEXT, Compression.NONE),
        (0x300, TEXT, Compression.NONE),
        (0x1, zlib.compress(TEXT), Compression.ZLIB),
        (0x301, zlib.compress(TEXT), Compression.ZLIB),
        (0x101, lz4.frame.compress(TEXT), Compression.LZ4),
        (0x201, zstandard.compress(TEXT), Compression.ZSTD),
    ],
)
class TestDecompressed:
    def test_every_kind_is_undone(self, flag, stored, kind):
        assert decompressed(stored, flag) == (TEXT, kind, None)

    def test_no_more_than_the_bound_is_made_of_it(self, flag, stored, kind):
        """
        A sender may have some bytes stand for gigabytes.
        """
        if kind == Compression.NONE:
            return
        body = decompressed(stored, flag, limit=100)

        assert body.data == TEXT[:100]
        assert "more than 100 bytes" in body.problem

    def test_what_ends_too_early_is_shown_as_stored(self, flag, stored, kind):
        if kind == Compression.NONE:
            return
        for end in (0, 1, len(stored) // 2, len(stored) - 1):
            body = decompressed(stored[:end], flag)

            assert body.data == stored[:end]
            assert body.problem.startswith("not decompressed")

    def test_what_is_something_else_is_shown_as_stored(self, flag, stored, kind):
        if kind == Compression.NONE:
            return
        assert decompressed(b"no such thing", flag).data == b"no such thing"


def test_a_bomb_is_bounded_in_memory():
    """
    Twenty megabytes of zeros in some hundred bytes: no more than the bound is ever held.
    """
    bombs = {
        0x301: zlib.compress(bytes(20 << 20), 9),
        0x101: lz4.frame.compress(bytes(20 << 20)),
        0x201: zstandard.compress(bytes(20 << 20)),
    }
    for flag, bomb in bombs.items():
        assert len(decompressed(bomb, flag, limit=1 << 20).data) == 1 << 20


def test_a_kind_that_nobody_knows_is_said_to_be_one():
    assert "unknown compression 0x400" in decompressed(b"x", 0x401).problem
