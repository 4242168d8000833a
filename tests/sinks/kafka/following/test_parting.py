"""Where a log parts from what was sent of it: one digest a record."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from reput.sinks.kafka.following.parting import first_digest, parting, sent_until
from tests.builders.kafka_sinks import sent_in, written
from tests.kafka import stores

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.encode import Message

COUNT = 2500


@pytest.fixture
def messages() -> list[Message]:
    return list(stores.messages(COUNT, ("x", "y"), random.Random(1)))


@pytest.mark.parametrize("pieces", [1, 300])
def test_all_records_of_all_transactions_are_in_it(
    tmp_path: Path, messages: list[Message], pieces: int
) -> None:
    made, log = written(tmp_path / "store", messages)
    every = COUNT // pieces
    ends = [made.places[i].position for i in range(every, COUNT, every)] + [made.end]

    sent = sent_until(sent_in(log, ends), made.end)

    assert (sent.start, len(sent.values)) == (0, COUNT)
    assert len(set(sent.values.tolist())) > COUNT - 5
    found = parting(log, sent, made.end, made.end, {}, 1)
    assert (found.same, found.end) == (COUNT, made.end)


@pytest.mark.parametrize("cut", [1, 1024, 2047])
@pytest.mark.parametrize("added", [0, 500])
def test_the_place_is_that_of_the_first_record_that_differs(
    tmp_path: Path, messages: list[Message], cut: int, added: int
) -> None:
    """
    Also where the log only became shorter; and the trail that continues there is without a gap.
    """
    made, log = written(tmp_path / "store", messages)
    chunks = sent_in(log, [made.places[700].position, made.end])
    sent = sent_until(chunks, made.end)
    others = [m._replace(body=m.body + b"!") for m in messages[cut : cut + added]]
    new, new_log = written(tmp_path / "new", messages[:cut] + others)

    found = parting(new_log, sent, made.end, new.end, {}, 77)

    # A BLANK may stand between a file's last record and the next one.
    assert found.same == cut
    assert found.end in {new.places[cut].position if added else new.end, made.places[cut].position}
    assert found.last.number == 78
    assert (found.last.end, len(found.last.values) <= 1024) == (found.end, True)
    again = sent_until([*chunks, found.last], found.end)
    assert (again.start, len(again.values)) == (0, cut)


def test_what_has_expired_is_left_out(tmp_path: Path, messages: list[Message]) -> None:
    made, log = written(tmp_path / "store", messages)
    sent = sent_until(sent_in(log, [made.end]), made.end).after(made.places[1000].position)

    assert sent.start == made.places[1024].position
    assert len(sent.values) == COUNT - 1024
    assert parting(log, sent, made.end, made.end, {}, 1).end == made.end


def test_what_has_expired_within_a_chunk_leaves_the_rest_of_it(
    tmp_path: Path, messages: list[Message]
) -> None:
    """
    As all is in one chunk where few records were sent: the log's first record tells where it
    continues. If that is another one now, only the next chunk's border tells.
    """
    made, log = written(tmp_path / "store", messages, 1 << 16)
    sent = sent_until(sent_in(log, [made.end]), made.end)
    min((tmp_path / "store" / "commitlog").iterdir()).unlink()
    log.refresh()
    digest = first_digest(log)
    assert digest is not None
    left = [p for p in made.places if p.position >= log.min_offset]

    rest = sent.after(log.min_offset, digest)

    assert rest.start == log.min_offset
    assert len(rest.values) == len(left)
    found = parting(log, rest, made.end, made.end, {}, 7)
    assert (found.same, found.end, found.differs) == (len(left), made.end, False)
    border = next(at for at, _ in sent.borders if at >= log.min_offset)
    assert sent.after(log.min_offset, digest ^ 1).start == border
