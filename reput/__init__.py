"""reput: RocketMQ message stores, dispatched, verified and read from files.

These names are for your own programs. All else may change from release to release.

* `register` makes ``spark.read.format("rocketmq")`` known to a Spark session; `build_session`
  starts one that is quiet and quick.
* `MessageStore` answers queries by key, id, offset and time.
* `rebuild` writes the queues and the index of a store; `verify` compares them with its log.

Importing `reput` loads neither Spark nor a compiler; each name loads what it needs when you use it.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from reput.stores.findings import Report
    from reput.stores.query.message_store import MessageStore
    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.spark.session import build_session

    __version__: str

__all__ = ["MessageStore", "__version__", "build_session", "rebuild", "register", "verify"]


def register(spark: SparkSession) -> None:
    """Make ``format("rocketmq")`` known to a session, and let its queries push filters down."""
    from reput.streaming.source import datasource  # noqa: PLC0415 - Spark

    datasource.register(spark)


def rebuild(
    store: Path,
    output: Path,
    *,
    broker_version: str,
    broker_conf: Mapping[str, str] | None = None,
) -> Batch:
    """Write the consume queues, the index and the checkpoint of a store, without Spark.

    Args:
        store: the broker's storePathRootDir. It is only read.
        output: a directory of its own, or an output of this store to resume.
        broker_version: the version whose bytes you want, such as "5.3.3".
        broker_conf: what the broker.conf sets, by name.

    Returns:
        What was dispatched by this call.

    Raises:
        ReputError: the store, the output or a setting is not fit; it says which, and what to do.
        OSError: no permission, the device failed.
    """
    from reput.streaming.dispatch import dispatcher  # noqa: PLC0415 - the compiler

    return dispatcher.rebuild(
        store, output, broker_version=broker_version, broker_conf=broker_conf or {}
    )


def verify(
    store: Path,
    output: Path | None = None,
    *,
    broker_version: str,
    broker_conf: Mapping[str, str] | None = None,
) -> Report:
    """Compare an output with the log it was made from, without writing.

    Args:
        store: the broker's storePathRootDir.
        output: what is compared; None for the broker's own files in the store.
        broker_version: the version that the files are compared with.
        broker_conf: what the broker.conf sets, by name.

    Returns:
        What was found; `ok` if nothing.

    Raises:
        ReputError: the commitlog cannot be read, or the output is not of this log.
        OSError: no permission, the device failed.
    """
    from reput.streaming.settings.config import store_config  # noqa: PLC0415
    from reput.streaming.verify import output as verification  # noqa: PLC0415 - the compiler

    return verification.verify(
        store_config(
            store,
            output,
            broker_version=broker_version,
            broker_conf=broker_conf or {},
            in_place=output is None,
        )
    )


def __getattr__(name: str) -> Any:
    if name == "MessageStore":
        from reput.stores.query.message_store import MessageStore  # noqa: PLC0415

        return MessageStore
    if name == "build_session":
        from reput.streaming.spark.session import build_session  # noqa: PLC0415

        return build_session
    if name == "__version__":
        return metadata.version("reput")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
