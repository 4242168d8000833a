"""Has the kernels compiled, or loaded from numba's cache, before there is work for them.

Spark takes seconds to start; in that time another thread can dispatch a tiny log, which brings in
every kernel with the very types that the real one uses.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from reput.formats.rocketmq import broker, names
from reput.formats.rocketmq.encode import Message, encode
from reput.streaming.dispatch.dispatcher import rebuild

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE_SIZE = 4096
_CONF = {
    "mappedFileSizeCommitLog": str(_FILE_SIZE),
    "maxHashSlotNum": "10",
    "maxIndexNum": "10",
}


def warm_up() -> threading.Thread:
    """Begin, and return the thread to join before the first batch."""
    thread = threading.Thread(target=try_kernels, name="warm-up", daemon=True)
    thread.start()
    return thread


def try_kernels() -> None:
    """Dispatch a tiny log. A failure costs time only: the first batch loads the kernels itself."""
    with contextlib.suppress(Exception):
        load_kernels()


def load_kernels() -> None:
    """Dispatch a tiny log.

    Raises:
        OSError: no space, no permission.
    """
    with _tiny_store() as store:
        rebuild(store, store.parent / "output", broker_version="5.5", broker_conf=_CONF)


def compile_kafka_kernels() -> None:
    """Encode a tiny log as Kafka's records would be, without a Kafka."""
    from reput.sinks.kafka.warm import encode_once  # noqa: PLC0415 - a client few need

    with _tiny_store() as store:
        encode_once(store, broker.settings_of("5.5", _CONF))


@contextlib.contextmanager
def _tiny_store() -> Iterator[Path]:
    message = Message("warm", b"body", {"TAGS": "tag", "KEYS": "key", "UNIQ_KEY": "id"})
    # A process that ends early takes the directory away while the thread writes there.
    with tempfile.TemporaryDirectory(prefix="reput-warm-", ignore_cleanup_errors=True) as directory:
        store = Path(directory) / "store"
        log = store / names.COMMITLOG
        log.mkdir(parents=True)
        (log / names.offset_file(0)).write_bytes(encode(message, 0).ljust(_FILE_SIZE, b"\0"))
        yield store
