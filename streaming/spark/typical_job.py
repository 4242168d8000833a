"""A small job of our own source; the JVM of its process archives the classes that it loads."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message, encode, encode_blank
from reput.streaming.source.datasource import register
from reput.streaming.spark.archive import MAKE_ARCHIVE, QUIET_LOG
from reput.streaming.spark.session import JAVA_OPTIONS, build_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Seconds. The JVM writes its archive as it ends, on one processor: a busy machine takes minutes.
_ENDS_WITHIN = 900


def run_typical_job(archive: Path) -> None:
    """Run a small streaming query of our own source, and let the JVM write down its classes."""
    # Classes that cannot be kept are named one by one; only what keeps all others counts.
    options = f"{MAKE_ARCHIVE}={archive} {QUIET_LOG}"
    session = build_session("archive", **{JAVA_OPTIONS: options})
    register(session)
    record = encode(Message("topic", b"body"), 0)
    size = 4096
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "commitlog")
        log.mkdir()
        (log / names.offset_file(0)).write_bytes(record + encode_blank(size - len(record)))
        for rows in ("messages", "ranges"):
            frame = session.readStream.format("rocketmq").option("path", directory)
            frame = frame.option("broker.mappedFileSizeCommitLog", size).option("rows", rows)
            writer = frame.load().writeStream.foreachBatch(_collect)
            place = str(Path(directory, rows))
            writer = writer.option("checkpointLocation", place).trigger(availableNow=True)
            writer.start().awaitTermination()
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - its JVM has to end by itself
    process = gateway.proc
    session.stop()
    process.stdin.close()
    process.wait(timeout=_ENDS_WITHIN)


def _collect(batch: DataFrame, _: int) -> None:
    batch.collect()


if __name__ == "__main__":
    run_typical_job(Path(sys.argv[1]))
