"""reput: RocketMQ message stores, dispatched, verified and read from files.

These names are for your own programs. All else may change from release to release.

* `register` makes ``spark.read.format("rocketmq")`` known to a Spark session; `build_session`
  starts one that is quiet and quick.
* `MessageStore` answers queries by key, id, offset and time; `settings_of` says what its broker has
  set. `compile_filter` reads the tags or the SQL92 expression of a consumer; `with_bitmaps` gives
  it a group's bits.
* `rebuild` writes the queues and the index of a store and returns a `Dispatched`; `verify` compares
  them with its log and returns a `Verification`, with its `Verdict` and each `Finding`.
* `ReputError` is what all of these raise. A `UsageError` is about an argument, a `FormatError`
  about a byte of a file. `recovered` finds them in the text of Spark's exceptions.

Importing `reput` loads neither Spark nor a compiler; each name loads what it needs when you use it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from pyspark.sql import SparkSession

    from reput.formats.errors import FormatError, ReputError, UsageError, recovered
    from reput.formats.rocketmq.broker import settings_of
    from reput.stores.config.filters import with_bitmaps
    from reput.stores.config.message_filter import compile_filter
    from reput.stores.findings import Finding
    from reput.stores.query.message_store import MessageStore
    from reput.streaming.endings.verdict import Verdict
    from reput.streaming.programs.answers import Dispatched, Verification
    from reput.streaming.spark.session import build_session

    __version__: str

__all__ = [
    "Dispatched",
    "Finding",
    "FormatError",
    "MessageStore",
    "ReputError",
    "UsageError",
    "Verdict",
    "Verification",
    "__version__",
    "build_session",
    "compile_filter",
    "rebuild",
    "recovered",
    "register",
    "settings_of",
    "verify",
    "with_bitmaps",
]
# Where each name is that is not a function of this module.
_PLACES = {
    "Dispatched": "reput.streaming.programs.answers",
    "Finding": "reput.stores.findings",
    "FormatError": "reput.formats.errors",
    "MessageStore": "reput.stores.query.message_store",
    "ReputError": "reput.formats.errors",
    "UsageError": "reput.formats.errors",
    "Verdict": "reput.streaming.endings.verdict",
    "Verification": "reput.streaming.programs.answers",
    "build_session": "reput.streaming.spark.session",
    "compile_filter": "reput.stores.config.message_filter",
    "recovered": "reput.formats.errors",
    "settings_of": "reput.formats.rocketmq.broker",
    "with_bitmaps": "reput.stores.config.filters",
}


def register(spark: SparkSession) -> None:
    """Make ``format("rocketmq")`` known to a session, and let its queries push filters down."""
    from reput.streaming.source import datasource  # noqa: PLC0415 - Spark

    datasource.register(spark)


def rebuild(
    store: str | PathLike[str],
    output: str | PathLike[str],
    *,
    broker_version: str,
    broker_conf: Mapping[str, str | int] | str | PathLike[str] | None = None,
    on_corrupt: Literal["stop", "skip"] = "stop",
    any_version: bool = False,
) -> Dispatched:
    """Write the consume queues, the index and the checkpoint of a store, without Spark.

    What is before damage of the log is dispatched and kept; then the error is raised.

    Args:
        store: the broker's storePathRootDir. It is only read.
        output: a directory of its own, or an output of this store to resume.
        broker_version: the version whose bytes you want, such as "5.3.3".
        broker_conf: what the broker.conf sets, by name; or the path of the file.
        on_corrupt: "skip" passes over what is not a record, and keeps a copy of its bytes.
        any_version: the version counts though the store's own index looks like another's.

    Returns:
        What was dispatched by this call. Look at `is_complete` where a broker writes meanwhile.

    Raises:
        UsageError: an argument is not fit.
        FormatError: the log is damaged; it says where, what is dispatched, and what to do.
        ReputError: the store or the output is not fit; it says which, and what to do.
        OSError: no permission, the device failed.
    """
    from reput.streaming.programs import rebuild as program  # noqa: PLC0415 - the compiler

    return program.rebuild(
        store,
        output,
        broker_version=broker_version,
        broker_conf=broker_conf,
        on_corrupt=on_corrupt,
        any_version=any_version,
    )


def verify(
    store: str | PathLike[str],
    output: str | PathLike[str] | None = None,
    *,
    broker_version: str,
    broker_conf: Mapping[str, str | int] | str | PathLike[str] | None = None,
    any_version: bool = False,
) -> Verification:
    """Compare an output with the log it was made from, without writing.

    The verdict is that of `reput verify`, with its exit code:

    * "sound" (0): all of the log is there, and right. Only then is `ok` true.
    * "damaged" (1): something is wrong; `findings` names files and bytes.
    * "incomplete" (4): what is there is right, but some of the log is missing; see `lacks`.
    * "skipped" (4): the only places missing are those passed over with ``on_corrupt="skip"``.

    Args:
        store: the broker's storePathRootDir.
        output: what is compared; None for the broker's own files in the store.
        broker_version: the version that the files are compared with.
        broker_conf: what the broker.conf sets, by name; or the path of the file.
        any_version: the version counts though the broker's own index looks like another's.

    Returns:
        The verdict, what was found, and what is missing.

    Raises:
        ReputError: an argument is not fit, the log cannot be read, or the output is of another log.
        OSError: no permission, the device failed.
    """
    from reput.streaming.programs import verify as program  # noqa: PLC0415 - the compiler

    return program.verify(
        store,
        output,
        broker_version=broker_version,
        broker_conf=broker_conf,
        any_version=any_version,
    )


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # Slow to import, and the command takes signals only once this module is there.
        from importlib import metadata  # noqa: PLC0415

        return metadata.version("reput")
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
