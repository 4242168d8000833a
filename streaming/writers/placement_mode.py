"""Where stores are written: in the driver or beside executors."""

from __future__ import annotations

import os

from reput.streaming.settings.model.choices import Placement


def default_placement(master: str) -> Placement:
    """Return where stores are written by default: a cluster's driver has other work."""
    return Placement.DRIVER if master.startswith("local") else Placement.EXECUTORS


def submitted_master() -> str:
    """Return the master that spark-submit was given; without it there is no cluster."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return "local[*]"
    from reput.streaming.spark.session import submitted_settings  # noqa: PLC0415 - slow to import

    return submitted_settings().get("spark.master", "local[*]")
