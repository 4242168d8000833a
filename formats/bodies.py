"""What a body says: decompressed as its flags say, within a bound.

====== ==================================================================
sysFlag compression of the body, if bit 0x1 is set
====== ==================================================================
0x000  zlib: senders before 5.0 name no kind
0x100  LZ4, a frame
0x200  zstd
0x300  zlib
====== ==================================================================

Source: RocketMQ `MessageSysFlag`, `CompressionType`, `MessageDecoder#decode`.
"""

from __future__ import annotations

import io
import zlib
from enum import StrEnum
from typing import NamedTuple

from formats.commitlog import COMPRESSED

COMPRESSION_KIND = 0x700
# A few bytes can stand for gigabytes: whoever sends a message chooses them.
MAX_BODY = 64 << 20
_ZSTD_PIECE = 512


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
        problem: why `data` is not, or not all of, what the sender had; None if it is.
    """

    data: bytes
    compression: Compression = Compression.NONE
    problem: str | None = None


def decompressed(stored: bytes, sys_flag: int, limit: int = MAX_BODY) -> Body:
    """Return a body without its compression.

    Args:
        stored: bytes of the record's body.
        sys_flag: the record's.
        limit: bytes of the result at most; the rest is left out.
    """
    if not sys_flag & COMPRESSED:
        return Body(stored)
    kind = _KINDS.get(sys_flag & COMPRESSION_KIND)
    if kind is None:
        return Body(stored, problem=f"unknown compression 0x{sys_flag & COMPRESSION_KIND:x}")
    try:
        data = _read(stored, kind, limit + 1)
    except (zlib.error, RuntimeError, EOFError, ValueError, OSError) as error:
        return Body(stored, kind, f"not decompressed: {error}")
    if len(data) > limit:
        return Body(data[:limit], kind, f"more than {limit} bytes, the rest is left out")
    return Body(data, kind)


def _read(stored: bytes, kind: Compression, size: int) -> bytes:
    """Return the first bytes of what `stored` stands for.

    Raises:
        ValueError: it ends too early; other errors are the libraries' own.
    """
    if kind == Compression.ZLIB:
        inflate = zlib.decompressobj()
        data = inflate.decompress(stored, size)
        if not inflate.eof and len(data) < size:
            raise ValueError("the compressed bytes end too early")
        return data
    if kind == Compression.LZ4:
        import lz4.frame  # noqa: PLC0415 - few messages need it

        with lz4.frame.LZ4FrameFile(io.BytesIO(stored)) as file:
            return bytes(file.read(size))
    import zstandard  # noqa: PLC0415 - few messages need it

    expand = zstandard.ZstdDecompressor().decompressobj()
    data = b""
    try:
        # In small pieces: each can stand for a thousand times its size.
        for at in range(0, len(stored), _ZSTD_PIECE):
            data += expand.decompress(stored[at : at + _ZSTD_PIECE])
            if expand.eof or len(data) >= size:
                return data[:size]
    except zstandard.ZstdError as error:
        raise ValueError(error) from error
    raise ValueError("the compressed bytes end too early")
