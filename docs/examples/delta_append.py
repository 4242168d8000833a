"""Append a store's messages to a Delta table, each exactly once, through any crash.

    pip install deltalake
    python docs/examples/delta_append.py /data/rocketmq/store /data/messages.delta /data/checkpoint

Spark gives a batch its number before it is read, and gives the same ranges of the log under that
number again after a crash. The table's commit holds the rows and the number together: a batch of
which the table has the number is not written again. The numbers are those of one checkpoint, so
checkpoint and table belong together; the checkpoint's id is what the table keeps the number under.

It reads what is there and ends; with a number of seconds after these it continues until it is
stopped, and appends this often.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from reput import build_session, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_BYTES = "64m"


def main(store: str, table: str, checkpoint: str, seconds: str = "", **options: str) -> None:
    """Append what is there, or follow the log and append after this many seconds each."""
    spark = build_session("delta append")
    register(spark)

    def append(batch: DataFrame, number: int) -> None:
        # Spark names a query in its checkpoint before the first batch.
        query = json.loads((Path(checkpoint) / "metadata").read_text())["id"]
        if DeltaTable.is_deltatable(table):
            written = DeltaTable(table).transaction_version(query)
            if written is not None and written >= number:
                return
        commit = CommitProperties(app_transactions=[Transaction(query, number)])
        write_deltalake(table, batch.toArrow(), mode="append", commit_properties=commit)

    messages = (
        spark.readStream.format("rocketmq")
        .options(**{"path": store, "maxBytesPerTrigger": BATCH_BYTES, **options})
        .load()
        .drop("properties")
    )
    writer = messages.writeStream.foreachBatch(append).option("checkpointLocation", checkpoint)
    trigger = {"processingTime": f"{seconds} seconds"} if seconds else {"availableNow": True}
    writer.trigger(**trigger).start().awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.stderr.write(__doc__ or "")
        sys.exit(2)
    main(*sys.argv[1:5], **dict(option.split("=", 1) for option in sys.argv[5:]))
