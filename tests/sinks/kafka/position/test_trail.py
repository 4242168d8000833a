"""What was sent is kept in chunks of the progress topic, one digest a record."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from reput.sinks.kafka.following.parting import sent_until
from reput.sinks.kafka.position.trail import Chunk
from tests.builders.kafka_sinks import sent_in, written
from tests.kafka import stores

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.encode import Message

COUNT = 2500


@pytest.fixture
def messages() -> list[Message]:
    return list(stores.messages(COUNT, ("x", "y"), random.Random(1)))


def test_what_was_not_worth_a_commit_comes_with_the_next_one(
    tmp_path: Path, messages: list[Message]
) -> None:
    made, log = written(tmp_path / "store", messages)
    ends = [made.places[i].position for i in (1500, 2400)] + [made.end]

    sent = sent_until(sent_in(log, ends, writes=lambda n: n == 2), made.end)

    assert (sent.start, len(sent.values)) == (0, COUNT)


def test_a_chunk_that_is_not_one_is_passed_over() -> None:
    assert Chunk.unpack(b"") is None
    assert Chunk.unpack(b"{}" * 20) is None
