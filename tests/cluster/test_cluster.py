"""Our job beside a real broker, and a real broker on our files: the short runs."""

from __future__ import annotations

import pytest

from tests.cluster import cluster, soak, switches, takeover
from tests.cluster.soak import Plan, Result

pytestmark = [pytest.mark.oracle, pytest.mark.spark]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """
    A soak without kills: what came of it, and where its store and our output are.
    """
    directory = tmp_path_factory.mktemp("cluster") / "live"
    return soak.run(Plan(seconds=10, rate=2000), directory), directory


def test_what_we_write_beside_a_broker_is_what_it_writes(live):
    """
    Normal, batch, delayed, transactional and repeated messages: queues and index, every byte.
    """
    result, _ = live

    assert result.faults == []
    assert result.figures["transactions checked back"] > 0
    assert result.figures["deliveries repeated"] > 0


def test_a_broker_takes_over_our_files(live, tmp_path):
    """
    It rebuilds nothing, cuts nothing, and its clients find every message once.
    """
    _, directory = live
    result = Result()

    takeover.run(directory, tmp_path / "taken", cluster.SMALL_FILES, result)

    assert result.faults == []


def test_the_job_goes_on_through_kills_of_the_broker(tmp_path):
    """
    A broker that was killed cuts its log at the first torn record and writes over what followed.
    """
    result = soak.run(Plan(seconds=16, rate=4000, kills=(4, 10), settle=3), tmp_path / "killed")

    assert result.faults == []
    assert result.figures["broker killed"] == 2


def test_a_job_follows_a_master_and_its_slave_through_switches(tmp_path):
    """
    The log of the one that comes back is cut to what both have and written over; both outputs are right.
    """
    result = switches.run(5, tmp_path / "switches", seed=5, whole=False, every=2)

    assert result.faults == []
    assert result.figures["logs cut"] > 0
    assert result.figures["cuts that the job followed"] > 0
