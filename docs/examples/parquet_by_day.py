"""Write a topic's messages to Parquet, a directory for each day.

    python docs/examples/parquet_by_day.py /data/rocketmq/store orders /data/archive

The same as `reput export --topic orders --by-day`, for those who want columns of their own.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as f

from reput import build_session, register


def main(store: str, topic: str, target: str, **options: str) -> None:
    """Write the topic's messages; days are in UTC."""
    spark = build_session("archive")
    register(spark)
    messages = spark.read.format("rocketmq").options(path=store, **options).load()
    (
        messages.where(f.col("topic") == topic)
        .select(
            f.to_date("storeTimestamp").alias("day"),
            *("storeTimestamp", "queueId", "queueOffset", "msgId", "tags", "keys", "body"),
        )
        .write.partitionBy("day")
        .parquet(target)
    )


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.stderr.write(__doc__ or "")
        sys.exit(2)
    main(*sys.argv[1:4], **dict(option.split("=", 1) for option in sys.argv[4:]))
