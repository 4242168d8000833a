"""Where a log parts from what was sent of it: one digest a record, in chunks of the progress topic."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reput.sinks.kafka.following.parting import first_digest, parting, sent_until
from reput.sinks.kafka.messages.blocks import RowReader
from reput.sinks.kafka.position.trail import Chunk, Trail
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.streaming.settings.config import store_config
from tests.builders.stores import Log
from tests.kafka import stores

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.encode import Message

COUNT = 2500


@pytest.fixture
def messages() -> list[Message]:
    return list(stores.messages(COUNT, ("x", "y"), random.Random(1)))


def written(path: Path, messages: list[Message], file_size: int = 1 << 20) -> tuple[Log, CommitLog]:
    made = Log(file_size)
    for message in messages:
        made.append(message)
    made.write(path)
    conf = {"mappedFileSizeCommitLog": str(file_size)}
    settings = store_config(path, path.parent / "out", broker_conf=conf).settings
    return made, CommitLog(commitlog_directories(path, settings), settings)


def columns_of(log: CommitLog, start: int, end: int) -> Any:
    """Yield the columns of a part of the log, which are used again for the next ones."""
    for block in RowReader(log, decompresses=True, block_bytes=1 << 16).blocks(start, end, {}):
        yield block.columns


def sent_in(log: CommitLog, ends: list[int], *, writes: Any = lambda _: True) -> list[Chunk]:
    """Return what is in a compacted topic when transactions have ended there."""
    trail = Trail("reput-x", 100_000)
    trail.begin(Chunk(1, 0, 0, np.zeros(0, np.uint32)))
    topic: dict[bytes, bytes] = {}
    start = 0
    for number, end in enumerate(ends):
        for columns in columns_of(log, start, end):
            trail.add(columns)
        found = trail.chunks(start, end)
        is_written = writes(number)
        if is_written:
            topic.update(found)
        trail.commit(is_written=is_written)
        start = end
    return [chunk for raw in topic.values() if (chunk := Chunk.unpack(raw)) is not None]


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


def test_what_was_not_worth_a_commit_comes_with_the_next_one(
    tmp_path: Path, messages: list[Message]
) -> None:
    made, log = written(tmp_path / "store", messages)
    ends = [made.places[i].position for i in (1500, 2400)] + [made.end]

    sent = sent_until(sent_in(log, ends, writes=lambda n: n == 2), made.end)

    assert (sent.start, len(sent.values)) == (0, COUNT)


@pytest.mark.parametrize("cut", [1, 1024, 2047])
@pytest.mark.parametrize("added", [0, 500])
def test_the_place_is_that_of_the_first_record_that_differs(
    tmp_path: Path, messages: list[Message], cut: int, added: int
) -> None:
    """
    Also where the log only became shorter; and the trail that goes on there is without a gap.
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
    As all is in one chunk where few records were sent: the log's first record tells where it goes
    on. If that is another one now, only the next chunk's border tells.
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


def test_a_chunk_that_is_not_one_is_passed_over() -> None:
    assert Chunk.unpack(b"") is None
    assert Chunk.unpack(b"{}" * 20) is None
