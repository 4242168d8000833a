"""Stock consumers of three kinds get each message as it is stored, while members join and leave."""

from __future__ import annotations

import numpy as np
import pytest

from tests.remoting.consuming import checking, members, rig, stored, taken
from tests.remoting.consuming.checking import Event, Expected
from tests.remoting.consuming.members import Asked

COUNT = 2000
SHORT = (
    (0.0, "join", "m1"),
    (0.0, "join", "m2"),
    (0.3, "close", "m1"),
    (0.4, "join", "m3"),
    (0.6, "kill", "m2"),
)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("client", "way", "rate", "plan"),
    [
        ("5.5.0", "clustering", 1000, SHORT),
        ("4.9.8", "tags", 500, SHORT),
        ("go", "clustering", 1000, SHORT),
        ("go", "sql92", 0, rig.STEADY),
        ("4.9.8", "lite-assign", 0, None),
        ("5.5.0", "pull", 0, None),
    ],
)
def test_each_message_comes_as_stored(tmp_path, client, way, rate, plan):
    """And once, in the order of its queue: again only around the close or the death of a member."""
    if client == "go" and not members.has_go():
        pytest.skip("no Go toolchain, which builds the client in Go")
    members.prepare(client)

    found = rig.run(Asked(client, way, 0, "", "g", rate=rate), COUNT, tmp_path, plan)

    assert found.shared.faults == []


class TestChecks:
    """What a run must not miss: each fault is made here, and is found."""

    @pytest.fixture
    def expected(self, tmp_path):
        return Expected(stored.compose(tmp_path, 400), "clustering")

    @pytest.fixture
    def rows(self, expected):
        """What one member gets, a millisecond after the other."""
        written = expected.written
        rows = np.zeros(400, taken.ROW)
        for name, column in {
            "time": 1_000_000 + np.arange(400),
            "place": written.place,
            "offset": written.offset,
            "queue": written.queue,
            "body": written.body_crc,
            "facts": written.facts_crc,
        }.items():
            rows[name] = column
        return rows

    def faults(self, expected, parts, events=()):
        rows = checking.rows_of(expected, parts)
        return checking.check_shared(expected, rows, events).faults

    def test_all_is_right(self, expected, rows):
        assert expected.wrong(rows, "m1") == []
        assert self.faults(expected, [rows]) == []

    @pytest.mark.parametrize("name", ["place", "body", "facts", "times"])
    def test_a_wrong_field(self, expected, rows, name):
        rows[name][7] += 1
        assert len(expected.wrong(rows, "m1")) == 1

    def test_a_message_that_is_not_there(self, expected, rows):
        rows["offset"][7] = 5000
        assert "wrong queue and offset" in expected.wrong(rows, "m1")[0]

    def test_a_lost_message(self, expected, rows):
        assert "never came" in self.faults(expected, [np.delete(rows, 7)])[0]

    def test_wrong_order(self, expected, rows):
        first, second = np.flatnonzero(rows["queue"] == 3)[:2]
        rows[[first, second]] = rows[[second, first]]
        rows["time"] = 1_000_000 + np.arange(400)
        found = self.faults(expected, [rows])
        assert len(found) == 2
        assert "out of order" in found[0]

    def test_a_member_that_goes_back_to_what_another_has_had(self, expected, rows):
        """Explained where the server was killed: it resumes at offsets of a moment before."""
        when = int(rows["time"][250])
        second = np.concatenate([rows[250:300], rows[200:250]])
        second["time"] = when + 1000 + np.arange(100)
        last = rows[300:].copy()
        last["time"] += 5000
        parts = [rows[:250], second, last]
        server = Event(when + 1020, checking.SERVER, "", when + 1030)
        close = Event(when, "close", "m1", when)
        found = self.faults(expected, parts, [server, close])
        assert [each for each in found if "out of order" in each and "member" in each] == []
        found = self.faults(expected, parts, [close])
        assert any("of member 1" in each for each in found)

    def test_again(self, expected, rows):
        """Explained by a death after the first receipt, and not by one long before or after it."""
        again = rows[200:210].copy()
        again["time"] += 5000

        def around(time):
            return self.faults(expected, [rows, again], [Event(time, "kill", "m1", time)])

        when = int(rows["time"][210])
        assert around(when) == []
        assert len(self.faults(expected, [rows, again])) == 1
        assert len(around(when - 2 * checking.AFTER)) == 1
        assert len(around(when + 2 * checking.AFTER)) == 1

    def test_again_late(self, expected, rows):
        """Explained where the server was killed meanwhile, for as long as a heartbeat may take."""
        when, late = int(rows["time"][210]), checking.AFTER + checking.HEARTBEAT // 2
        again = rows[200:210].copy()

        def after(time, *events):
            again["time"] = time + np.arange(10)
            join = Event(when, "join", "m2", when)
            return self.faults(expected, [rows, again], [join, *events])

        kill = Event(when + 1000, checking.SERVER, "", when + 1500)
        before = Event(when - 2000, checking.SERVER, "", when - 1500)
        # By itself the kill explains what its own offsets let come again.
        far = Event(when + 2 * checking.BACK, checking.SERVER, "", when + 2 * checking.BACK)
        assert len(after(when + late)) == 1
        assert len(after(when + late, before)) == 1
        assert after(when + late, far) == []
        assert after(when + late, kill) == []
        assert len(after(when + 2 * late, kill)) == 1

    def test_pauses(self, expected, rows):
        """From the last receipt of the one that left to the next one of another, queue by queue."""
        later = rows[200:].copy()
        later["time"] += 3000
        # Also where the one that leaves has ended only after that.
        for ended in (1_000_199, 1_009_000):
            events = [Event(1_000_199, "close", "m1", ended)]
            found = checking.pauses(
                checking.rows_of(expected, [rows[:200], later]), events, ["m1", "m2"]
            )
            assert 3000 <= found["close"][0] < 3100
            assert found["kill"] == []

    def test_rounds(self, expected, rows):
        ends = expected.written.ends().tolist()
        assert checking.check_rounds(expected, rows, [[0] * 8]) == []
        assert len(checking.check_rounds(expected, rows[1:], [[0] * 8])) == 1
        assert checking.check_rounds(expected, rows, [[0] * 8, ends]) == []
