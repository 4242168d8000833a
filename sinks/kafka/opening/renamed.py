"""Finds the position of a log that was sent under another id: the store was renamed.

The id is a prefix and the store's name, and both can change: a link is renamed, a `reput.toml`
gives a name where there was none. The log is the same then, and would be sent a second time from
its beginning. A position says of which log it is by the log's first record, and by records that
were sent; so all positions are looked at before a store begins where none is its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reput.sinks.kafka.position import progress
from reput.stores.log import trail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.sinks.kafka.client.settings import KafkaSettings
    from reput.sinks.kafka.position.position import Found, Position
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


class Me(NamedTuple):
    """The store that a position is looked for.

    Attributes:
        transactional_id: the store's own.
        path: of the store, resolved.
        remembered: id under which the output was sent to this Kafka, "" if that is not known.
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
    others = _others(positions, me, log)
    own = [other for other in others if other.is_remembered]
    direct = [other for other in own if other.is_certain or other.transactional_id == me.remembered]
    if direct:
        return direct
    certain = [other for other in others if other.is_certain]
    sent = max((other.found.position.end for other in certain), default=0)
    # These may be of this log as well, and were sent more: nothing says which of them counts.
    doubtful = [
        other
        for other in others
        if not other.is_certain
        and (other.is_remembered or other.found.position.origin == me.path)
        and other.found.position.end > sent
    ]
    ways = certain + doubtful if certain else own or others
    return sorted(ways, key=lambda other: -other.found.position.end)


def _others(positions: Mapping[str, Found], me: Me, log: CommitLog) -> list[Other]:
    """Return all positions that are, or may be, of this log."""
    others = []
    followed = _followed(positions, me)
    for each, found in positions.items():
        if each == me.transactional_id or found.position.moved:
            continue
        position, is_direct = found.position, each == me.remembered
        is_certain = _is_of(log, position, me, is_remembered=is_direct)
        is_hint = each == followed and not is_direct
        if is_certain is None and is_hint:
            # What moved there may have moved again, and the id may be another store's by now.
            is_there = _is_of(log, position, me, is_remembered=True) is not None
            is_certain = False if is_there else None
        if is_certain is not None:
            others.append(Other(each, found, is_certain, is_direct or is_hint))
    return others


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
    return _has_records_of(log, position, is_remembered=is_remembered)


def _has_records_of(log: CommitLog, position: Position, *, is_remembered: bool) -> bool | None:
    """Tell by the records that a position names whether it is of this log, see `_is_of`."""
    first = position.first
    left = [p.record for p in position.points if p.record.physical_offset >= log.min_offset]
    are_there = [trail.is_there(log, record) for record in left]
    if first is not None and first[0] >= log.min_offset and log.damage_at(first[0]) is None:
        is_same = trail.hash_at(log, first[0]) == first[1]
        return (all(are_there) or is_remembered) if is_same else None
    if any(are_there):
        return True
    if not is_remembered:
        return None
    # Where all has expired that was sent, nothing of it can be sent again. Else the log was cut
    # deeper than what is known; or another store has the name by now.
    return not left
