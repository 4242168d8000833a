"""A store that has no position under its own id, and whose log was sent under another one.

The id is a prefix and the store's name, and both can change: a link is renamed, a `reput.toml`
gives a name where there was none. The log is the same then, and would be sent a second time from
its beginning. A position says of which log it is by the log's first record, and by records that
were sent; so all positions are looked at before a store begins where none is its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.sinks.kafka.client.errors import AwayError, FencedError
from reput.sinks.kafka.client.partition import Partition
from reput.sinks.kafka.client.producer import Client
from reput.sinks.kafka.client.settings import TRANSACTIONS
from reput.sinks.kafka.position import progress
from reput.sinks.kafka.position import trail as kafka_trail
from reput.sinks.kafka.position.position import partition_of
from reput.stores.log import trail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reput.sinks.kafka.client.settings import KafkaSettings
    from reput.sinks.kafka.position.position import Found, Position
    from reput.sinks.kafka.position.start import Start
    from reput.stores.log.commitlog import CommitLog


class Other(NamedTuple):
    """A position of another id: whose it is, and where it stands.

    Attributes:
        transactional_id: whose.
        found: it.
        is_certain: it is of this log; else of one that begins like this one and parts from it,
            which a copy does that went its own way, as well as a log that was cut.
        is_remembered: the output was sent under that id.
    """

    transactional_id: str
    found: Found
    is_certain: bool = True
    is_remembered: bool = False


class Writer(NamedTuple):
    """The process that takes a position over.

    Attributes:
        name: by which positions tell it from others.
        began: when it did, ms.
        is_late: it has waited so long that a later process may be there by now.
    """

    name: str
    began: int
    is_late: bool


class Me(NamedTuple):
    """The store that a position is looked for.

    Attributes:
        transactional_id: the store's own.
        path: of the store, resolved.
        remembered: under which id the output was sent to this Kafka, "" if that is not known.
        leaves_out: physical offset before which it would leave out all that the log has.
    """

    transactional_id: str
    path: str
    remembered: str
    leaves_out: int = 0


def find(
    settings: KafkaSettings, access: Mapping[str, Any], me: Me, partitions: int, log: CommitLog
) -> list[Other]:
    """Return the positions that this log was sent to under other ids, the farthest first.

    One alone if the output remembers which it was sent under: a log may have several ways to Kafka.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        me: the store.
        partitions: how many the progress topic has.
        log: the store's, as it is now.

    Raises:
        KafkaError: the topic cannot be read.
    """
    return chosen(progress.read_all(settings, access, partitions), me, log)


def chosen(positions: Mapping[str, Found], me: Me, log: CommitLog) -> list[Other]:
    """Return which of all positions are of this log, see `find`.

    Args:
        positions: by id.
        me: the store.
        log: the store's, as it is now.
    """
    others = []
    followed = _followed(positions, me)
    for each, found in positions.items():
        if each != me.transactional_id and not found.position.moved:
            position, is_direct = found.position, each == me.remembered
            is_certain = _is_of(log, position, me, is_remembered=is_direct)
            is_hint = each == followed and not is_direct
            if is_certain is None and is_hint:
                # What has moved there may have moved on, and the id be another store's by now.
                is_there = _is_of(log, position, me, is_remembered=True) is not None
                is_certain = False if is_there else None
            if is_certain is not None:
                others.append(Other(each, found, is_certain, is_direct or is_hint))
    own = [other for other in others if other.is_remembered]
    direct = [other for other in own if other.is_certain or other.transactional_id == me.remembered]
    certain = [other for other in others if other.is_certain]
    sent = max((other.found.position.end for other in certain), default=0)
    # What may be this log's way as well, and was sent more: which of them counts is not known.
    doubtful = [
        other
        for other in others
        if not other.is_certain
        and (other.is_remembered or other.found.position.origin == me.path)
        and other.found.position.end > sent
    ]
    ways = certain + doubtful if certain else own or others
    return direct or sorted(ways, key=lambda other: -other.found.position.end)


def _followed(positions: Mapping[str, Found], me: Me) -> str:
    """Return the id under which stands by now what the output remembers under another one."""
    remembered = me.remembered
    passed = {me.transactional_id}
    while remembered in positions and remembered not in passed:
        passed.add(remembered)
        remembered = positions[remembered].position.moved or remembered
    return remembered


def _is_of(log: CommitLog, position: Position, me: Me, *, is_remembered: bool) -> bool | None:
    """Tell whether a position is of this log: True, False if that cannot be told, None if not.

    Stores of several brokers may have one path, on hosts or in pods of one layout, so a path says
    something only of a log whose beginning is the same.
    """
    if not position.points:
        if position.is_unsent and me.leaves_out <= position.end:
            # Nothing was sent there, and nothing is left out here.
            return None
        if position.has_no_record:
            return False if position.origin == me.path and not is_remembered else None
        if position.first is None:
            return None
    left = [p.record for p in position.points if p.record.physical_offset >= log.min_offset]
    are_there = [trail.is_there(log, record) for record in left]
    first = position.first
    if first is not None and first[0] >= log.min_offset and log.damage_at(first[0]) is None:
        if trail.hash_at(log, first[0]) != first[1]:
            return None
        return all(are_there) or is_remembered
    if not left:
        # Where all has expired that was sent, nothing of it can be sent again.
        return is_remembered or None
    if any(are_there):
        return True
    # Cut deeper than what is known; or another store has the name by now.
    return False if is_remembered else None


def alike(settings: KafkaSettings, name: str, other: Other) -> str:
    """Return what to say of a log that begins like another one."""
    position = other.found.position
    how_far = (
        f"is to be sent under {other.transactional_id} from physical offset {position.end} on"
        if position.is_unsent
        else f"was sent under {other.transactional_id} up to physical offset {position.end}"
    )
    if other.is_remembered:
        return (
            f"{name}: the log of this output {how_far} ({settings.progress_topic}; "
            f"{position.origin or 'its path is not known'}), and has none of the records any "
            "longer that are known of that: its beginning has expired, and it was cut; or that "
            "position is another store's by now. If it is the same store, give it the name and "
            "id_prefix again that make up that id: then the cut is looked at. If not, set "
            'on_rename = "begin" for one start: it sends from where start says, which can be '
            "a second time"
        )
    return (
        f"{name}: the log begins like the one that {how_far} ({settings.progress_topic}; "
        f"{position.origin or 'its path is not known'}), and parts from it. If it is a "
        'copy, which is another store now, set on_rename = "begin" for one start: it sends from '
        "where start says. If it is the same store, give it the name and id_prefix again that make "
        "up that id"
    )


def without_record(
    settings: KafkaSettings, me: Me, others: Sequence[Other], begin: Start | None
) -> str:
    """Return what to say where a log at this path had no record when its place was written.

    Args:
        settings: the operator's.
        me: the store.
        others: the positions of such logs.
        begin: the place that a way beside those has, None if it is decided only then.
    """
    then = "it sends only what is dispatched after that start"
    if begin is not None:
        then = f"sending begins at {begin.end} then"
    ids = ", ".join(f"{each.transactional_id} ({each.found.position.end})" for each in others)
    return (
        f"{settings.progress_topic} has no position of {me.transactional_id}, but says for "
        f"a log at {me.path}, which had no record then, from which physical offset on it is to be "
        f"sent: {ids}. Nothing tells yet whether it is this log; it does as soon as one of its "
        "messages is sent. If it is, give the store the name and id_prefix that make up that id. "
        f'If it is another one, set on_rename = "begin" for one start: {then}'
    )


def several(settings: KafkaSettings, name: str, others: Sequence[Other]) -> str:
    """Return what to say where it cannot be told which way to Kafka a store was."""
    ids = ", ".join(f"{each.transactional_id} ({each.found.position.end})" for each in others)
    return (
        f"{name}: several positions of {settings.progress_topic} are of this log, each at "
        f"another physical offset: {ids}. Give the store the name and id_prefix of the one that it "
        "is to go on with, which make up the id; or give the output that was sent under it: it "
        "remembers the id"
    )


def refusal(settings: KafkaSettings, name: str, me: Me, other: Other) -> str:
    """Return what to say to the operator."""
    position = other.found.position
    origin = f", written for {position.origin}," if position.origin else ""
    return (
        f"{name}: {settings.progress_topic} has no position of {me.transactional_id}, but the one "
        f"of {other.transactional_id}{origin} is of this log: {_how_far(position)} under that id, "
        "which is id_prefix and the store's name. Give the store "
        'that name and id_prefix again; or set on_rename = "continue" for one start, which goes on '
        "there under the new id, and ends a job that still sends under the old one. "
        '(on_rename = "begin" is for a second way beside that one: it sends from where start says, '
        "and so what the other one has sent as well)"
    )


def _how_far(position: Position) -> str:
    if position.is_unsent:
        return f"it was to be sent from physical offset {position.end} on, and nothing was sent yet"
    return f"it was sent up to physical offset {position.end}"


def take_over(
    settings: KafkaSettings,
    access: Mapping[str, Any],
    me: Me,
    other: Other,
    partitions: int,
    writer: Writer,
) -> None:
    """Write a position, and its trail, again under our own id, and that it has moved there.

    The trail under the other id is erased.

    With `mode` "transactions" all of it is one transaction of the other id: a job that still sends
    under that is ended. Without, both ids may have the position for a moment, and after a kill for
    good.

    Nothing is written where another job of our name has done so since the look for our position.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        me: whose it becomes.
        other: whose it was.
        partitions: how many the progress topic has.
        writer: us.

    Raises:
        FencedError: a later process has the position.
        AwayError: it has moved to a third id meanwhile: look again.
        KafkaError: it could not be written.
    """
    topic = settings.progress_topic
    is_transactional = settings.mode == TRANSACTIONS
    # Opening would end its transaction.
    _require_earlier(settings, other.transactional_id, other.found.position, writer)
    client = Client(settings, access, other.transactional_id if is_transactional else None)
    try:
        # Its last transaction has ended with that.
        last = progress.last_of(settings, access, other.transactional_id, other.found.partition)
        position = last[1] if last is not None else other.found.position
        own = progress.read(settings, access, me.transactional_id, partitions)
        if own is not None and not own.position.moved:
            # It may have sent more since.
            return
        if position.moved:
            raise AwayError(
                f"{topic}: what was sent under {other.transactional_id} has just been taken over "
                f"by a job that sends it under {position.moved}"
            )
        _require_earlier(settings, other.transactional_id, position, writer)
        chunks = progress.read_chunks(
            settings, access, other.transactional_id, other.found.partition
        )
        records = [
            (kafka_trail.key_of(me.transactional_id, chunk.number), chunk.pack())
            for chunk in sorted(chunks, key=lambda chunk: chunk.number)
        ]
        records.append((me.transactional_id.encode(), position.pack()))
        # One whose clock is ahead of ours was there first all the same, unless we are late: then a
        # later process is to see that it is the later one, and takes the position back.
        began = writer.began if writer.is_late else max(writer.began, position.began + 1)
        moved = replace(position, writer=writer.name, began=began, moved=me.transactional_id)
        client.begin()
        home = partition_of(me.transactional_id, partitions)
        progress.put_records(settings, client, Partition(topic, home), records)
        client.flush()
        there = Partition(topic, other.found.partition)
        # A store that is given this id from now on has a trail of its own.
        old: list[tuple[bytes, bytes | None]] = [
            (kafka_trail.key_of(other.transactional_id, chunk.number), None) for chunk in chunks
        ]
        old.append((other.transactional_id.encode(), moved.pack()))
        progress.put_records(settings, client, there, old)
        client.commit()
    finally:
        client.close()


def _require_earlier(
    settings: KafkaSettings, transactional_id: str, position: Position, writer: Writer
) -> None:
    """Require that no process has a position that began after the one that takes it over.

    Raises:
        FencedError: one has.
    """
    is_later = position.began > writer.began and position.writer not in {"", writer.name}
    if writer.is_late and is_later:
        raise FencedError(
            f"Kafka at {settings.bootstrap}: this log is sent under {transactional_id} by another "
            "process, which has begun later, so this one does not take that over. Only one job may "
            'send a store: stop one of them, and leave out on_rename = "continue" in the other '
            "one. If there is only this one, start it again while Kafka answers"
        )
