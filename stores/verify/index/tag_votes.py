"""What the items of an index say of the rule for tags by which they were written."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq import indexfile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput.formats.rocketmq.commitlog import Record


class TagVote(NamedTuple):
    """Items of one record with a tag, and whether the last of them is for the tag.

    Attributes:
        first: number of the first of them.
        end: number after the last of them.
        position: physical offset of the record.
        has_tag: it has an item for its tag.
    """

    first: int
    end: int
    position: int
    has_tag: bool


def tag_votes(
    items: Sequence[tuple[int, int, int, int]],
    record_at: Callable[[int], Record | None],
    *,
    is_end: bool = False,
) -> list[TagVote]:
    """Return what consecutive items say of the rule for tags.

    Items that are not all of a record's say nothing, nor do those beside them: one of them may be
    the item for the tag.

    Args:
        items: see `indexfile.ITEM_FIELDS`; numbered from 0.
        record_at: returns the record at a physical offset, None if none is there.
        is_end: nothing follows. The last record counts then if it has the item for its tag; else
            its items may be torn, or continue after these.
    """
    parsed: list[list[TagVote] | None] = []
    first = 0
    for position, group in itertools.groupby(items, key=lambda item: item[1]):
        hashes = [item[0] for item in group]
        record = record_at(position)
        parsed.append(None if record is None else _votes_of(record, hashes, first))
        first += len(hashes)
    if parsed and parsed[-1]:
        parsed[-1] = [vote for vote in parsed[-1] if is_end and vote.has_tag]
    padded = [[], *parsed, []]
    return [
        vote
        for before, votes, after in zip(padded, parsed, padded[2:], strict=False)
        if before is not None and votes is not None and after is not None
        for vote in votes
    ]


def _votes_of(record: Record, hashes: list[int], first: int) -> list[TagVote] | None:
    """Return a record's votes by its items, once or several times in a row; None if they are not.

    Args:
        record: the record.
        hashes: of its items.
        first: number of the first of them.
    """
    plain = _hashes(record, tag_entries=False)
    tag = _hashes(record, tag_entries=True)[len(plain) :]
    votes = []
    at = 0
    while at < len(hashes):
        end = at + len(plain)
        if hashes[at:end] != plain:
            return None
        has_tag = bool(tag) and hashes[end : end + 1] == tag
        end += has_tag
        if end == at:
            return None
        if tag:
            votes.append(TagVote(first + at, first + end, record.physical_offset, has_tag))
        at = end
    return votes


def _hashes(record: Record, *, tag_entries: bool) -> list[int]:
    keys = indexfile.index_keys(record.topic, record.properties, tag_entries=tag_entries)
    return [indexfile.key_hash(key) for key in keys]
