"""Who writes stores, and who does if nobody says so; `streaming.writers.placement` has it done."""

from __future__ import annotations

import os

from reput.streaming.settings.model.choices import Placement


def default_placement(master: str) -> Placement:
    """Return where stores are written if nobody says so: a cluster's driver has other work."""
    return Placement.DRIVER if master.startswith("local") else Placement.EXECUTORS


def submitted_master() -> str:
    """Return the master that spark-submit was given; without it there is no cluster."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return "local[*]"
    from reput.streaming.spark.session import _submitted  # noqa: PLC0415 - Spark is slow to import

    return _submitted().get("spark.master", "local[*]")
