"""Finds the message with an id: first as a broker's id, then as a producer's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import UsageError
from reput.formats.rocketmq import messageid
from reput.stores.log.records import NoRecordError
from reput.stores.query.by_key import KeyKind, KeyStatus

if TYPE_CHECKING:
    from reput.formats.rocketmq.commitlog import Record
    from reput.formats.rocketmq.messageid import OffsetId, UniqueId
    from reput.stores.query.message_store import MessageStore


class IdAnswer(NamedTuple):
    """What an id leads to.

    Attributes:
        message: the newest message with it, None if there is none.
        is_offset: it was found by the offset in the id; else by the index.
        as_offset: the id's parts if a broker gave it; None if it cannot be such an id.
        as_unique: the id's parts if a producer made it; None for an id of the producer's own kind.
        problem: why nothing stands where the id points to; None if something does.
        status: of the look into the index, None if there was none.
    """

    message: Record | None
    is_offset: bool
    as_offset: OffsetId | None
    as_unique: UniqueId | None
    problem: str | None
    status: KeyStatus | None


def find_by_id(store: MessageStore, message_id: str, topic: str | None = None) -> IdAnswer:
    """Return the message with an id; see `MessageStore.by_id`.

    Args:
        store: the store.
        message_id: an offset id, or a unique id.
        topic: where to look for a unique id; without it only the offset is tried.

    Raises:
        UsageError: it is not an offset id, and no topic is given.
    """
    offset_id = unique_id = None
    if messageid.is_message_id(message_id):
        unique_id = messageid.parse_unique_id(message_id)
    try:
        offset_id = messageid.parse_offset_id(message_id)
        record = store.at(offset_id.physical_offset)
        if record.store_host == offset_id.store_host:
            return IdAnswer(record, True, offset_id, unique_id, None, None)
        problem = (
            f"the record at physical offset {offset_id.physical_offset} was stored by "
            f"{record.store_host}, not by the id's {offset_id.store_host}"
        )
    except (ValueError, NoRecordError) as error:
        problem = str(error)
    if not topic:
        if offset_id is None:
            raise UsageError(
                f"this is not an offset id ({problem}): to look for it as a unique id, give "
                "its topic"
            )
        return IdAnswer(None, False, offset_id, unique_id, problem, None)
    answer = store.by_key(topic, message_id, kind=KeyKind.UNIQUE)
    newest = answer.messages[-1] if answer.messages else None
    return IdAnswer(newest, False, offset_id, unique_id, problem, answer.status)
