"""Groups of stock consumers lose nothing while the server is killed, and while a log grows."""

from __future__ import annotations

import json

import pytest

from tests.remoting.consuming import kills, members, soak, stored
from tests.remoting.consuming.kills import Witness

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(
        not members.has_go(), reason="no Go toolchain, which builds the client in Go"
    ),
]


def test_nothing_is_lost_when_the_server_is_killed(tmp_path):
    """Its members continue with the next one, and a new member begins where that one says."""
    found = kills.run(2, 100, tmp_path, clients=("go",), change=2, seconds=(0.2, 1.0))

    assert found.groups["go"].faults == []
    assert len(found.back) == 2


def test_nothing_is_lost_while_a_log_grows(tmp_path):
    found = soak.run(3, 100, tmp_path, clients=("go",), look=1.0, change=2)

    assert found.groups["go"].faults == []
    assert len(found.looks) >= 3
    assert all(each.own > 0 for each in found.looks)


def test_growth_is_seen():
    """From the second quarter to the last; what the first one needs to warm up does not count."""
    looks = [soak.Look(100, 10 * number, 5) for number in (1, 5, 6, 6, 7, 7, 6, 9)]
    assert soak.Found(0, 0, looks, {}).growth("own") == 15
    assert soak.Found(0, 0, looks, {}).faults == []
    grown = [each._replace(own=each.own << 20) for each in looks]
    assert soak.Found(0, 0, grown, {}).faults == ["memory has grown"]


class TestWitness:
    """It has to see that offsets were set back, and for how long they had been told."""

    @pytest.fixture
    def witness(self, monkeypatch):
        monkeypatch.setattr(Witness, "_run", lambda self: None)
        return Witness(0, ["g"])

    def kept(self, tmp_path, **queues):
        file = tmp_path / "reput.json"
        table = {f"{stored.TOPIC}@g": {name[1:]: at for name, at in queues.items()}}
        file.write_text(json.dumps({"offsetTable": table}))
        return file

    @pytest.mark.parametrize(
        ("kept", "back"),
        [
            (7, 0),  # all that was told
            (8, 0),  # and what came since
            (6, 0.9),  # 7 came after that
            (5, 5.9),  # between two askings
            (3, 8.9),  # nothing of it
        ],
    )
    def test_how_far_back_it_is(self, witness, tmp_path, kept, back):
        witness._heard = {("g", 0): [(1.1, 4), (4.1, 6), (9.1, 7)], ("g", 1): [(1.1, 3)]}
        found = witness.back(self.kept(tmp_path, q0=kept, q1=3), 10.0)
        assert found == pytest.approx(back)

    def test_offsets_become_smaller(self, witness, tmp_path):
        """Two members that both have a queue: what counts is what was told last."""
        witness._heard = {("g", 0): [(1.0, 9), (3.0, 5), (7.0, 6)]}
        assert witness.back(self.kept(tmp_path, q0=6), 10.0) == 0
        assert witness.back(self.kept(tmp_path, q0=5), 10.0) == pytest.approx(3)
        assert witness.back(self.kept(tmp_path, q0=9), 10.0) == pytest.approx(7)

    def test_there_is_no_file(self, witness, tmp_path):
        witness._heard = {("g", 0): [(1.5, 5)]}
        assert witness.back(tmp_path / "none", 10.0) == pytest.approx(8.5)
