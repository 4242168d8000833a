"""Has the kernels compiled, or loaded from numba's cache, before there is work for them.

Spark takes seconds to start; in that time another thread can dispatch a tiny log, which brings in
every kernel with the very types that the real one uses.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from formats import names
from formats.encode import Message, encode
from streaming.dispatcher import rebuild

_FILE_SIZE = 4096
_CONF = {
    "mappedFileSizeCommitLog": str(_FILE_SIZE),
    "maxHashSlotNum": "10",
    "maxIndexNum": "10",
}


def warm_up() -> threading.Thread:
    """Begin, and return the thread to join before the first batch."""
    thread = threading.Thread(target=_dispatch_tiny_log, name="warm-up", daemon=True)
    thread.start()
    return thread


def _dispatch_tiny_log() -> None:
    message = Message("warm", b"body", {"TAGS": "tag", "KEYS": "key", "UNIQ_KEY": "id"})
    with tempfile.TemporaryDirectory(prefix="reput-warm-") as directory:
        store = Path(directory) / "store"
        log = store / names.COMMITLOG
        log.mkdir(parents=True)
        (log / names.offset_file(0)).write_bytes(encode(message, 0).ljust(_FILE_SIZE, b"\0"))
        rebuild(store, Path(directory) / "output", broker_version="5.5", broker_conf=_CONF)
