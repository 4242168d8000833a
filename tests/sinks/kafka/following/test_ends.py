"""What looking at a log costs the way to Kafka while nothing happens to it."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from reput.sinks.kafka.client.settings import CONTINUE
from reput.sinks.kafka.extent import Extent
from reput.sinks.kafka.following import ends
from reput.sinks.kafka.position import progress
from reput.sinks.kafka.position.position import Position
from reput.sinks.kafka.sink import KafkaSink
from reput.stores.log import trail
from tests.builders.kafka_sinks import sent_in, written
from tests.kafka import stores

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.builders.stores import Log


def dispatched(tmp_path: Path, made: Log) -> Extent:
    """Return what dispatch says that has gone over all of a log."""
    last = made.places[-1]
    _, log = written(tmp_path / "store", [place.message for place in made.places])
    return Extent(made.end, trail.fingerprint(log, last.position, last.size), (), ((1, 0),))


def test_after_an_accepted_cut_a_log_at_rest_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Kafka stays ahead of the log; only once dispatch has come further it is looked where it ends.
    """
    found = list(stores.messages(900, ("x",), random.Random(1)))
    old, log = written(tmp_path / "store", found[:600])
    chunks = sent_in(log, [old.end])
    made = stores.config(tmp_path / "store", tmp_path / "out", "nowhere:1", on_truncation=CONTINUE)
    cut, _ = written(tmp_path / "store", found[:400])
    assert made.kafka is not None
    sink = KafkaSink(made.kafka, {}, made.name, made.path, made.settings)
    sink._client = SimpleNamespace(in_flight=0)  # type: ignore[assignment]
    sink._follower.comparison.begin(0)
    sink.position = Position(old.end, cut=1, chunk=chunks[-1].number, accepted=cut.end)
    looks: list[int] = []
    find_tail = ends.find_tail

    def counting(*args: Any) -> Any:
        looks.append(1)
        return find_tail(*args)

    monkeypatch.setattr(ends, "find_tail", counting)
    monkeypatch.setattr(progress, "read_chunks", lambda *_: chunks)
    extent = dispatched(tmp_path, cut)
    assert sink.send(extent) is None
    before = len(looks)
    for _ in range(5):
        assert sink.send(extent) is None
    assert (before > 0, len(looks)) == (True, before)
    assert sink.position.end == old.end

    other = found[:400] + [m._replace(body=b"other") for m in found[400:450]]
    new, _ = written(tmp_path / "store", other)
    sink.log.refresh()
    sent = sink._prepared(dispatched(tmp_path, new))
    assert sent is not None
    assert sent.start == cut.end
    sink.close_log()
