"""A position is read as it was written."""

from __future__ import annotations

import json

from reput.sinks.kafka.position.position import Position


def test_a_position_says_since_where_a_store_is_sent() -> None:
    """
    One of an earlier version does not, and counts as sent.
    """
    position = Position(700, since=700)
    values = json.loads(position.pack())

    assert Position.unpack(position.pack(), "x") == position
    assert position.is_unsent
    del values["since"]
    assert not Position.unpack(json.dumps(values).encode(), "x").is_unsent
