"""Takes a position over from another id, with its trail."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.sinks.kafka.client.errors import AwayError, FencedError
from reput.sinks.kafka.client.partition import Partition
from reput.sinks.kafka.client.producer import Client
from reput.sinks.kafka.client.settings import TRANSACTIONS
from reput.sinks.kafka.position import progress
from reput.sinks.kafka.position.position import partition_of
from reput.sinks.kafka.position.trail import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.sinks.kafka.client.settings import KafkaSettings
    from reput.sinks.kafka.opening.renamed import Me, Other
    from reput.sinks.kafka.position.position import Position


class Writer(NamedTuple):
    """The process that takes a position over.

    Attributes:
        name: by which positions tell it from others.
        began: when it did, ms.
        is_late: it has waited long enough for a later process to be there.
    """

    name: str
    began: int
    is_late: bool


class Takeover(NamedTuple):
    """A position that changes its id.

    Attributes:
        settings: the operator's.
        access: kafka-python's settings of security.
        me: whose it becomes.
        other: whose it was.
        partitions: how many the progress topic has.
        writer: this process.
    """

    settings: KafkaSettings
    access: Mapping[str, Any]
    me: Me
    other: Other
    partitions: int
    writer: Writer


def take_over(what: Takeover) -> None:
    """Write a position, and its trail, again under our own id, and that it has moved there.

    The trail under the other id is erased.

    With `mode` "transactions" all of it is one transaction of the other id: a job that still sends
    under that is ended. Without, both ids may have the position for a moment, and after a kill for
    good.

    Nothing is written where another job of our name has done so since the look for our position.

    Raises:
        FencedError: a later process has the position.
        AwayError: it has moved to a third id meanwhile: look again.
        KafkaError: it could not be written.
    """
    settings, other = what.settings, what.other
    is_transactional = settings.mode == TRANSACTIONS
    # The opening below would end that process's transaction.
    _require_earlier(what, other.found.position)
    client = Client(settings, what.access, other.transactional_id if is_transactional else None)
    try:
        position = _position_now(what)
        if position is not None:
            _require_earlier(what, position)
            _move(what, client, position)
    finally:
        client.close()


def _position_now(what: Takeover) -> Position | None:
    """Return the other id's position after its last transaction; None if ours is there already.

    Raises:
        AwayError: it has moved to a third id.
        KafkaError: the topic cannot be read.
    """
    settings, access, other = what.settings, what.access, what.other
    # Our opening has ended its last transaction.
    last = progress.last_of(settings, access, other.transactional_id, other.found.partition)
    position = last[1] if last is not None else other.found.position
    own = progress.read(settings, access, what.me.transactional_id, what.partitions)
    if own is not None and not own.position.moved:
        # It may have sent more since.
        return None
    if position.moved:
        raise AwayError(
            f"{settings.progress_topic}: what was sent under {other.transactional_id} has just "
            f"been taken over by a job that sends it under {position.moved}"
        )
    return position


def _move(what: Takeover, client: Client, position: Position) -> None:
    """Write a position and its trail under our id, and erase the trail of the other one.

    Raises:
        KafkaError: it could not be written.
    """
    settings, me, other, writer = what.settings, what.me, what.other, what.writer
    there = other.found.partition
    chunks = progress.read_chunks(settings, what.access, other.transactional_id, there)
    records = [
        (key_of(me.transactional_id, chunk.number), chunk.pack())
        for chunk in sorted(chunks, key=lambda chunk: chunk.number)
    ]
    records.append((me.transactional_id.encode(), position.pack()))
    # A process whose clock is ahead of ours was still there first, unless we are late: then a
    # later process is to see that it is the later one, and takes the position back.
    began = writer.began if writer.is_late else max(writer.began, position.began + 1)
    moved = replace(position, writer=writer.name, began=began, moved=me.transactional_id)
    client.begin()
    home = Partition(settings.progress_topic, partition_of(me.transactional_id, what.partitions))
    progress.put_records(settings, client, home, records)
    client.flush()
    # A store that gets this id from now on has its own trail.
    old: list[tuple[bytes, bytes | None]] = [
        (key_of(other.transactional_id, chunk.number), None) for chunk in chunks
    ]
    old.append((other.transactional_id.encode(), moved.pack()))
    progress.put_records(settings, client, Partition(settings.progress_topic, there), old)
    client.commit()


def _require_earlier(what: Takeover, position: Position) -> None:
    """Require that no process has a position that began after the one that takes it over.

    Raises:
        FencedError: one has.
    """
    writer = what.writer
    is_later = position.began > writer.began and position.writer not in {"", writer.name}
    if writer.is_late and is_later:
        raise FencedError(
            f"Kafka at {what.settings.bootstrap}: this log is sent under "
            f"{what.other.transactional_id} by another process, which has begun later, so this one "
            "does not take that over. Only one job may send a store: stop one of them, and leave "
            'out on_rename = "continue" in the other one. If there is only this one, start it '
            "again while Kafka answers"
        )
