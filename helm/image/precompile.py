"""Fills numba's cache and Java's class archive while the image is built.

A small store is dispatched and verified, which compiles every kernel for the types that a job
uses. Those of Kafka and of serving are compiled besides, and a small Spark job leaves its classes
in an archive: a container then starts without a compiler. Both compare times of files, so these
have to be whole seconds before: layers of images know no fractions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message, encode, encode_blank
from reput.streaming.cli.prepare import compile_kernels
from reput.streaming.dispatch.dispatcher import rebuild
from reput.streaming.settings.config import store_config
from reput.streaming.spark.archive import archive_classes
from reput.streaming.verify.output import verify

_FILE_SIZE = 4096
_CONF = {
    "mappedFileSizeCommitLog": str(_FILE_SIZE),
    "maxHashSlotNum": "10",
    "maxIndexNum": "20",
}


def main() -> None:
    """Dispatch, verify, and run Spark once.

    Raises:
        SystemExit: what was dispatched is not right.
    """
    compile_kernels()
    message = Message("topic", b"body", {"TAGS": "tag", "KEYS": "key", "UNIQ_KEY": "id"})
    with tempfile.TemporaryDirectory() as directory:
        store, output = Path(directory, "store"), Path(directory, "output")
        log = store / names.COMMITLOG
        log.mkdir(parents=True)
        record = encode(message, 0)
        blank = encode_blank(_FILE_SIZE - len(record))
        (log / names.offset_file(0)).write_bytes(record + blank)
        rebuild(store, output, broker_version="5.5", broker_conf=_CONF)
        report = verify(store_config(store, output, broker_conf=_CONF))
    if not report.ok:
        raise SystemExit(f"what was dispatched is not right: {report}")
    archive_classes()


if __name__ == "__main__":
    main()
