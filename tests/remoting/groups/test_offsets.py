"""Where groups resume, as it is kept in memory."""

from __future__ import annotations

import pytest

from reput.remoting.groups import offsets as module
from reput.remoting.groups.offsets import Offsets


def test_an_offset_that_was_set_is_found():
    offsets = Offsets()
    assert offsets.find("g", "t", 0) is None

    offsets.set("g", "t", 0, 12)
    offsets.set("g", "t", 3, 7)
    assert offsets.find("g", "t", 0) == 12
    assert offsets.of("g", "t") == {0: 12, 3: 7}
    assert offsets.of("g", "u") == {}


def test_a_group_may_go_back():
    """
    A reset does; a broker stores any value.
    """
    offsets = Offsets()
    for value in (12, 3, -1):
        offsets.set("g", "t", 0, value)
        assert offsets.find("g", "t", 0) == value


def test_topics_of_a_group_and_groups_of_a_topic():
    offsets = Offsets()
    for group, topic in (("g", "t"), ("g", "u"), ("h", "t"), ("a@b", "t")):
        offsets.set(group, topic, 0, 1)

    assert offsets.topics("g") == ["t", "u"]
    assert offsets.groups("t") == ["g", "h"]
    assert offsets.groups() == ["g", "h"]


def test_groups_that_had_a_retry_topic():
    offsets = Offsets()
    for group, topic in (("g", "t"), ("h", "%RETRY%h"), ("g", "%RETRY%h")):
        offsets.set(group, topic, 0, 1)

    assert offsets.retrying() == ["h"]


def test_what_a_document_says_is_read_back():
    offsets = Offsets()
    offsets.set("g", "t", 2, 5)
    document = offsets.document()
    offsets.set("g", "t", 2, 6)

    assert document == {"offsetTable": {"t@g": {2: 5}}}
    assert Offsets(document).find("g", "t", 2) == 5


def test_each_change_is_a_version():
    offsets = Offsets({"offsetTable": {"t@g": {"0": 1}}})
    assert offsets.version == 0
    offsets.set("g", "t", 0, 2)
    assert offsets.version == 1


def test_the_number_of_queues_is_bounded(monkeypatch, caplog):
    """
    Peers name queues as they like. Those that are known are not affected.
    """
    monkeypatch.setattr(module, "_MOST_QUEUES", 2)
    offsets = Offsets({"offsetTable": {"t@g": {"0": 1}}})

    assert offsets.set("g", "t", 1, 1)
    assert not offsets.set("g", "t", 2, 1)
    assert not offsets.set("h", "t", 0, 1)
    assert offsets.set("g", "t", 0, 9)
    assert offsets.document() == {"offsetTable": {"t@g": {0: 9, 1: 1}}}
    assert (offsets.refused, len(caplog.messages)) == (2, 1)


@pytest.mark.parametrize(
    "table", [7, {"t@g": 7}, {"t@g": {"a": 1}}, {"t@g": {"0": 1.5}}, {"t@g": {"0": 1 << 63}}]
)
def test_what_is_no_table_is_refused(table):
    with pytest.raises(ValueError, match=r"t@g|offsetTable"):
        Offsets({"offsetTable": table})
