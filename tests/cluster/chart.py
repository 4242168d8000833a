"""Installs the chart on a real Kubernetes API server: `python -m tests.cluster.chart`.

What it tries is what a linter cannot know: admission (Pod Security "restricted" is enforced),
server-side validation, scheduling beside the broker's pod, binding of claims, `--wait`, upgrade,
rollback, removal, refusals, the pods of a sidecar and of the Spark operator, and what becomes of a
volume when a broker moves. `helm/tools.sh --cluster` gets the programs.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.kubernetes.control_plane import Cluster
from tests.cluster.kubernetes.modes import check_sidecar, check_spark
from tests.cluster.kubernetes.moves import check_move
from tests.cluster.kubernetes.objects import furnish
from tests.cluster.kubernetes.release import (
    check_install,
    check_refusals,
    check_removal,
    check_upgrade,
)
from tests.cluster.rig import CheckError

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEPS = (
    furnish, check_install, check_upgrade, check_refusals, check_sidecar, check_spark, check_move,
    check_removal,
)  # fmt: skip


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long something took."""
    began = time.monotonic()
    yield
    print(f"== {what}: {time.monotonic() - began:.1f} s", flush=True)


def main() -> int:
    """Run all steps and return the exit code."""
    directory = Path(tempfile.mkdtemp(prefix="reput-cluster-"))
    try:
        with contextlib.ExitStack() as stack:
            with timed("start"):
                cluster = stack.enter_context(Cluster(directory))
            for step in _STEPS:
                with timed(step.__name__.removeprefix("check_")):
                    step(cluster)
    except CheckError as error:
        print(f"cluster: {error}\nlogs are in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    print(f"{len(_STEPS)} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
