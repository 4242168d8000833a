"""A few verbs of the real mqadmin at a real broker and at ours; `python -m` shows all of them."""

from __future__ import annotations

import pytest

from tests.remoting.server.verbs import rig
from tests.remoting.server.verbs.text import DIFFER, REFUSED, UNKNOWN

pytestmark = pytest.mark.oracle

SOME = r"^(topicStatus -t T1|brokerConsumeStats|consumerProgress -g|queryCq|exportMetadata|updateTopic|deleteSub)"


def test_mqadmin_prints_the_same_and_nothing_is_written(tmp_path):
    rows = rig.run("4.9.8", tmp_path, rig.Asked(SOME, requests=False, members=False))

    wrong = [(row.name, row.verdict) for row in rows if row.verdict.kind in {DIFFER, UNKNOWN}]
    assert wrong == []
    assert any(row.verdict.kind == REFUSED for row in rows)
    assert len(rows) > 40
