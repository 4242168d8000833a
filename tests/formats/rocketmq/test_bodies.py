"""Bodies as their senders had them; what cannot be decompressed stays as it is stored."""

from __future__ import annotations

import zlib

import lz4.frame
import pytest
import zstandard

from reput.formats.rocketmq.bodies import Compression, decompressed

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
        for end in (1, len(stored) // 2, len(stored) - 1):
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


SKIPPABLE = b"\x5a\x2a\x4d\x18\x04\0\0\0skip"
FRAMES = {
    0x101: lambda body: lz4.frame.compress(body, block_linked=False),
    0x201: zstandard.compress,
}


@pytest.mark.parametrize("flag", FRAMES)
class TestFrames:
    def test_all_of_them_are_read(self, flag):
        """
        A consumer gets what all frames say, and nothing of the skippable ones.
        """
        make = FRAMES[flag]
        stored = SKIPPABLE + make(b"one, ") + SKIPPABLE + make(b"") + make(TEXT) + SKIPPABLE

        assert decompressed(stored, flag).data == b"one, " + TEXT
        assert decompressed(stored, flag).problem is None

    def test_a_later_one_that_is_not_whole_is_said(self, flag):
        """
        Wherever the body ends within the second frame, the answer is the first one and is marked.
        """
        first, second = FRAMES[flag](b"one, "), FRAMES[flag](TEXT)
        for end in range(1, len(second)):
            body = decompressed(first + second[:end], flag)

            assert body.data.startswith(b"one, ")
            assert body.problem == "cut: the compressed bytes end too early"

    def test_what_is_no_frame_after_one_is_said(self, flag):
        stored = FRAMES[flag](b"one") + b"no frame at all, but longer than the head of one"
        body = decompressed(stored, flag)

        assert body.data == stored
        assert body.problem.startswith("not decompressed: ")

    def test_the_bound_is_one_of_all_frames(self, flag):
        stored = FRAMES[flag](TEXT) * 3
        assert decompressed(stored, flag, limit=len(TEXT) * 3) == (TEXT * 3, ANY_KIND[flag], None)
        body = decompressed(stored, flag, limit=len(TEXT) * 3 - 1)

        assert body.data == (TEXT * 3)[:-1]
        assert body.problem.startswith("cut: more than ")


ANY_KIND = {0x101: Compression.LZ4, 0x201: Compression.ZSTD}


@pytest.mark.parametrize("flag", [0x1, 0x101, 0x201, 0x301, 0x401])
def test_an_empty_body_is_an_empty_body(flag):
    """
    RocketMQ does not decompress it, so its flags do not matter.
    """
    assert decompressed(b"", flag).data == b""
    assert decompressed(b"", flag).problem is None


def test_bytes_after_a_zlib_stream_mean_nothing():
    """
    As to `InflaterInputStream`, which reads one stream.
    """
    for more in (b"xx", zlib.compress(b"two")):
        assert decompressed(zlib.compress(b"one") + more, 0x1) == (b"one", Compression.ZLIB, None)


def test_a_zlib_stream_with_a_dictionary_is_marked():
    """
    A consumer gets an empty body without an error; here it is said to be one that is not whole.
    """
    maker = zlib.compressobj(zdict=b"a dictionary")
    body = decompressed(maker.compress(TEXT) + maker.flush(), 0x1)

    assert body.data == b""
    assert body.problem.startswith("cut: ")


def test_a_kind_that_nobody_knows_is_said_to_be_one():
    assert "unknown compression 0x400" in decompressed(b"x", 0x401).problem
