"""What a body says: decompressed as its flags say, within a bound.

====== ==================================================================
sysFlag compression of the body, if bit 0x1 is set
====== ==================================================================
0x000  zlib, one stream: senders before 5.0 name no kind
0x100  LZ4, any number of frames, skippable ones among them
0x200  zstd, any number of frames, skippable ones among them
0x300  zlib, one stream
====== ==================================================================

What RocketMQ's `MessageDecoder` can decompress gives the same bytes here. LZ4 frames of linked
blocks, which it refuses, are decompressed as well. Bytes after the end of a zlib stream mean
nothing, and an empty body is empty whatever the flags say. Where a body ends within a frame after
its first one, the bytes up to there are returned and marked as cut: for zstd, RocketMQ's consumer
mostly gets them too.

Source: RocketMQ `MessageSysFlag`, `CompressionType`, `MessageDecoder#decode`, `ZlibCompressor`,
`Lz4Compressor`, `ZstdCompressor`.
"""

from __future__ import annotations

import io
import zlib
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.commitlog import COMPRESSED

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPRESSION_KIND = 0x700
# A few bytes can stand for gigabytes, and the sender chooses them.
MAX_BODY = 64 << 20
# Four bytes of zstd can expand to 128 KiB, so one piece expands to 16 MiB at most, in one call.
_ZSTD_PIECE = 512
# RocketMQ's zstd ignores what follows a frame if it has fewer bytes than this.
_ZSTD_HEAD = 5
_LZ4_PIECE = 8 << 10
_MADE = 1 << 20
# A zlib header with this bit in its second byte asks for a dictionary.
_ZLIB_DICTIONARY = 0x20


class Compression(StrEnum):
    """How a body was compressed."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    ZLIB = "zlib"


_KINDS = {
    0x000: Compression.ZLIB,
    0x100: Compression.LZ4,
    0x200: Compression.ZSTD,
    0x300: Compression.ZLIB,
}


class Body(NamedTuple):
    """A body as its sender had it.

    Attributes:
        data: bytes; as stored where they could not be decompressed.
        compression: how they were compressed.
        problem: None if `data` is what the sender had. Else why not: it begins with "not
            decompressed" where `data` is as stored, and with "cut" where `data` is only the
            beginning of the body.
    """

    data: bytes
    compression: Compression = Compression.NONE
    problem: str | None = None


class _CutError(ValueError):
    """What there is of the body is not all of it."""


def decompressed(stored: bytes, sys_flag: int, limit: int = MAX_BODY) -> Body:
    """Return a body without its compression.

    Args:
        stored: bytes of the record's body.
        sys_flag: the record's.
        limit: bytes of the result at most; the rest is left out, and `problem` says so.
    """
    if not sys_flag & COMPRESSED:
        return Body(stored)
    kind = _KINDS.get(sys_flag & COMPRESSION_KIND)
    if not stored:
        # RocketMQ returns an empty body before it looks at the kind of compression.
        return Body(stored, kind or Compression.NONE)
    if kind is None:
        unknown = f"not decompressed: unknown compression 0x{sys_flag & COMPRESSION_KIND:x}"
        return Body(stored, problem=unknown)
    # `BytesIO.getvalue` shares its buffer: a large body is not copied.
    data = io.BytesIO()
    cut = None
    try:
        for piece in _PIECES[kind](stored, limit + 1):
            data.write(piece)
            if data.tell() > limit:
                data.truncate(limit)
                cut = f"cut: more than {limit} bytes, the rest is left out"
                break
    except _CutError as error:
        cut = f"cut: {error}"
    except (zlib.error, RuntimeError, EOFError, ValueError, OSError) as error:
        return Body(stored, kind, f"not decompressed: {error}")
    return Body(data.getvalue(), kind, cut)


def _zlib(stored: bytes, size: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of one zlib stream, a little more than `size` at most.

    Raises:
        ValueError: it ends too early; other errors are the library's own.
    """
    is_zlib = int.from_bytes(stored[:2]) % 31 == 0 and stored[0] & 0xF == zlib.DEFLATED
    if is_zlib and len(stored) > 1 and stored[1] & _ZLIB_DICTIONARY:
        raise _CutError("the body needs a dictionary, so consumers get an empty body")
    inflate = zlib.decompressobj()
    rest, made = stored, 0
    while not inflate.eof and made < size:
        piece = inflate.decompress(rest, _MADE)
        rest = inflate.unconsumed_tail
        made += len(piece)
        yield piece
        if not (piece or rest or inflate.eof):
            raise _ends_too_early(0)


def _lz4(stored: bytes, _size: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of all frames, in pieces.

    Raises:
        ValueError: they end too early; other errors are the library's own.
    """
    import lz4.frame  # noqa: PLC0415 - few messages need it

    at = ended = 0
    while at < len(stored):
        frame = lz4.frame.LZ4FrameDecompressor()
        while not frame.eof:
            piece = b""
            if frame.needs_input:
                piece = stored[at : at + _LZ4_PIECE]
                if not piece:
                    raise _ends_too_early(ended)
                at += len(piece)
            yield frame.decompress(piece, max_length=_MADE)
        at -= len(frame.unused_data or b"")
        ended = at


def _zstd(stored: bytes, _size: int) -> Iterator[bytes]:
    """Yield what frames stand for, in pieces.

    Raises:
        ValueError: they end too early, or are of another kind.
    """
    import zstandard  # noqa: PLC0415 - few messages need it

    decompressor = zstandard.ZstdDecompressor()
    at = ended = 0
    try:
        while at < len(stored):
            frame = decompressor.decompressobj()
            while not frame.eof:
                # Small pieces, because each is expanded in one call.
                piece = stored[at : at + _ZSTD_PIECE]
                if not piece:
                    raise _ends_too_early(ended)
                at += len(piece)
                yield frame.decompress(piece)
            at -= len(frame.unused_data)
            ended = at
    except zstandard.ZstdError as error:
        if ended and len(stored) - ended < _ZSTD_HEAD:
            raise _ends_too_early(ended) from None
        raise ValueError(error) from error


def _ends_too_early(ended: int) -> ValueError:
    """Return the error of bytes that end within a frame, of which `ended` bytes are frames."""
    return (_CutError if ended else ValueError)("the compressed bytes end too early")


_PIECES = {Compression.ZLIB: _zlib, Compression.LZ4: _lz4, Compression.ZSTD: _zstd}
