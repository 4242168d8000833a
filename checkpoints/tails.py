"""CRCs of the last bytes of queues, which tell a queue from an older copy of the same length.

Where a log was cut and written on with messages of the same sizes, a queue gets entries of the same
places and sizes as before, and other tags codes: neither its length nor its last record says so.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING

from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings

# Bytes before a queue's end that its CRC covers: 204 entries of a consume queue.
TAIL_SIZE = 4096


def read(root: Path, queues: Mapping[str, int], settings: BrokerSettings) -> dict[str, int]:
    """Return the CRCs of queues as their files are now, see `Progress.tails`.

    A queue's CRC covers the last `TAIL_SIZE` bytes before its end, as far as its last file has
    them: nothing of the files before, and nothing that stands before these bytes.

    Args:
        root: the output root.
        queues: where they end, bytes, by directory below the root, see `Progress.queues`.
        settings: file sizes.

    Returns:
        CRC-32 by directory. A queue whose last file is missing has none; a start refuses it.

    Raises:
        OSError: no permission, the device failed.
    """
    found = {}
    for name, end in queues.items():
        if end <= 0:
            continue
        base = last_base(name, end, settings)
        # Thousands of them: no Path, no context manager for each.
        path = f"{root}/{name}/{names.offset_file(base)}"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            found[name] = crc_of(descriptor, end - base)
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), path) from error
        finally:
            os.close(descriptor)
    return found


def last_base(name: str, end: int, settings: BrokerSettings) -> int:
    """Return where the last file of a queue begins, bytes from the queue's very beginning.

    Args:
        name: the queue's directory below the root.
        end: where the queue ends, above 0.
        settings: file sizes.
    """
    kind = name.partition("/")[0]
    if kind == names.CONSUMEQUEUE:
        size = settings.consumequeue_file_size
    else:
        is_ext = kind == names.CONSUMEQUEUE_EXT
        size = settings.ext_file_size if is_ext else settings.batch_file_size
    return (end - 1) // size * size


def crc_of(descriptor: int, end: int) -> int:
    """Return the CRC-32 of the last `TAIL_SIZE` bytes before byte `end` of an open file.

    Raises:
        OSError: the device failed; without the file's name.
    """
    start = max(end - TAIL_SIZE, 0)
    return zlib.crc32(os.pread(descriptor, end - start, start))
