"""An output survives kill -9 at any moment; longer: `python -m tests.crash.kill_core`, `kill_job`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash import kill_core, kill_job, kill_large, kill_repair
from tests.crash.kill_points import BREAKS, PHASES

if TYPE_CHECKING:
    from pathlib import Path


def test_the_core_is_killed_200_times(tmp_path: Path) -> None:
    """
    At random times and at named points, recovery among them, while the log grows, is cut and is
    written again: what is there in the end is what an uninterrupted run writes.
    """
    result = kill_core.run(200, 1, tmp_path)

    assert result.failure == ""
    assert result.killed >= 200
    assert result.comparisons > 0
    assert {phase for phase, _, _ in result.kills} == set(PHASES)


@pytest.mark.oracle
def test_what_is_left_is_what_a_broker_rebuilds(tmp_path: Path) -> None:
    """
    The real RocketMQ makes the stores and judges.
    """
    result = kill_core.run(100, 2, tmp_path, fuzz=4)

    assert result.failure == ""
    assert result.with_broker > 0


@pytest.mark.parametrize("broken", BREAKS)
def test_a_recovery_that_does_not_work_is_found(tmp_path: Path, broken: str) -> None:
    """
    A harness that cannot fail proves nothing.
    """
    result = kill_core.run(300, 3, tmp_path, broken=broken, cuts=False)

    assert result.failure != ""


def test_threads_that_work_ahead_leave_nothing_behind(tmp_path: Path) -> None:
    """
    Among files of a broker's default size, which are prepared and flushed ahead.
    """
    result = kill_large.run(10, 4, tmp_path, mib=64)

    assert result.differences == []
    assert result.kills >= 10


def test_a_repair_is_killed_50_times(tmp_path: Path) -> None:
    """
    Whatever it leaves is refused, or found, and another repair ends with a rebuild's bytes.
    """
    result = kill_repair.run(50, 1, tmp_path)

    assert result.failure == ""
    assert result.kills.total() >= 50
    assert result.repairs > 0
    assert result.refused > 0


@pytest.mark.spark
def test_the_job_is_killed_5_times(tmp_path: Path) -> None:
    """
    Whichever of its processes dies, the job ends with a message or continues, and loses nothing.
    """
    result = kill_job.run(5, 1, tmp_path, rate=500)

    assert result.failure == ""
    assert result.killed == 5
