"""What to say where a store's log was sent under another id, and the operator has to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.sinks.kafka.client.settings import KafkaSettings
    from reput.sinks.kafka.opening.renamed import Me, Other
    from reput.sinks.kafka.position.position import Position
    from reput.sinks.kafka.position.start import Start


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
            f"{position.origin or 'its path is not known'}). It no longer has any record that is "
            "known of that: its beginning has expired and it was cut, or that position is another "
            "store's by now. If it is the same store, give it the name and "
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
        "is to continue, which make up the id; or give the output that was sent under it: it "
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
        'that name and id_prefix again; or set on_rename = "continue" for one start, which resumes '
        "there under the new id, and ends a job that still sends under the old one. "
        '(on_rename = "begin" is for a second way beside that one: it sends from where start says, '
        "and so what the other one has sent as well)"
    )


def _how_far(position: Position) -> str:
    if position.is_unsent:
        return f"it was to be sent from physical offset {position.end} on, and nothing was sent yet"
    return f"it was sent up to physical offset {position.end}"
