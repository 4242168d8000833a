"""Judges a request as Python would answer it, so that its like need no judging again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import ReputError
from reput.remoting.lanes.places import MOST_CODES, MOST_ENTRIES, OUTLINE_ROOM, PART_COUNT
from reput.remoting.reading.answer import RefusedError
from reput.remoting.reading.filters import HashFilter
from reput.remoting.reading.pull import said_of
from reput.remoting.reading.pull_checks import COMMIT_OFFSET, filter_of, topic_and_group
from reput.remoting.wire import fields, frames
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.errors import FieldError, FrameError
from reput.remoting.wire.pull_headers import PullMessageRequestHeader
from reput.stores.queues.pull import PullStatus
from reput.stores.reads import ColdError, impatience

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.remoting.names.known import Topic
    from reput.remoting.reading.pull_checks import Filter
    from reput.remoting.reading.served import GroupConfig, Served
    from reput.remoting.wire.command import Command
    from reput.stores.queues.reader import QueueReader

KINDS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_NAMES = ("queueOffset", "commitOffset")
# Numbers that stand nowhere else in a header.
_OTHER_NUMBERS = (1_907_654_321, 807_654_321_907_654_321, 707_654_321_807_654_321)
_PLACES = (101_907_654_321, 102_907_654_321, 103_907_654_321)


class Lane(NamedTuple):
    """What is the same of all pulls of one outline.

    Attributes:
        group: who pulls.
        topic: of the queue.
        queue_id: of the queue.
        kind: index of its code in `KINDS`.
        commits: each of them says where the group is.
        max_messages: that each asks for.
        codes: hashes of tags, None for every message.
        parts: of the answer's header, between which there are numbers.
    """

    group: str
    topic: str
    queue_id: int
    kind: int
    commits: bool
    max_messages: int
    codes: tuple[int, ...] | None
    parts: Sequence[bytes]


def lane_of(frame: bytes, numbers: Sequence[int], served: Served) -> Lane | None:
    """Return the lane of a request, None for one that Python has to answer each time.

    Args:
        frame: without its length.
        numbers: what was taken for its opaque, its offset, and the one that it commits.
        served: what is asked.
    """
    try:
        request = frames.decode(memoryview(frame))
        if request.flag or request.code not in KINDS:
            return None
        header = fields.read(PullMessageRequestHeader, request.fields)
        if (request.opaque, header.queue_offset, header.commit_offset) != tuple(numbers):
            return None
        is_lite = request.code == RequestCode.LITE_PULL_MESSAGE
        topic, group = topic_and_group(header, served, "", is_lite=is_lite)
        wanted = filter_of(header, served, group)
    except (FrameError, FieldError, RefusedError):
        return None
    if not _is_plain(header, wanted, served):
        return None
    return Lane(
        header.consumer_group,
        header.topic,
        header.queue_id,
        KINDS.index(RequestCode(request.code)),
        bool(header.sys_flag & COMMIT_OFFSET),
        header.max_msg_nums,
        None if wanted is None else tuple(sorted(wanted.codes or ())),  # type: ignore[union-attr]
        _parts(request, topic, group, served),
    )


def _is_plain(header: PullMessageRequestHeader, wanted: Filter, served: Served) -> bool:
    if not 1 <= header.max_msg_nums <= MOST_ENTRIES:
        return False
    if wanted is not None and not (
        isinstance(wanted, HashFilter) and len(wanted.codes or ()) <= MOST_CODES
    ):
        return False
    place = header.consumer_group, header.topic, header.queue_id
    return served.resets is None or not served.resets.is_reset(*place)


def says(frame: bytes, other: bytes, numbers: Sequence[int]) -> bool:
    """Tell whether a request says the same as another, whose numbers are others.

    Args:
        frame: without its length.
        other: the other one.
        numbers: opaque, offset, and the offset that it commits, of the other one.
    """
    try:
        one, two = frames.decode(memoryview(frame)), frames.decode(memoryview(other))
    except FrameError:
        return False
    given = dict(one.fields or {})
    given.update(zip(_NAMES, map(str, numbers[1:]), strict=True))
    return two == one._replace(opaque=numbers[0], fields=given)


def other_frame(outline: bytes, places: Sequence[int]) -> tuple[bytes, tuple[int, int, int]]:
    """Return a request of an outline with numbers of our own, without its length, and those.

    Args:
        outline: see `outlines`.
        places: where each number was taken out.
    """
    header = outline
    for place, number in sorted(zip(places, _OTHER_NUMBERS, strict=True), reverse=True):
        header = header[:place] + str(number).encode() + header[place:]
    return len(header).to_bytes(4, "big") + header, _OTHER_NUMBERS


def _parts(request: Command, topic: Topic, group: GroupConfig, served: Served) -> list[bytes]:
    """Return an answer's header as Python writes it, without its numbers."""
    release = served.release
    said = said_of(_PLACES, topic, group, has_flags=release.has_flags)
    asked = request._replace(opaque=_OTHER_NUMBERS[0])
    code, remark = ResponseCode.SUCCESS, PullStatus.FOUND
    answer = asked.answer(code, release.version, remark, fields.write(said))
    rest = frames.encode(answer)[8:]
    parts = []
    for number in (*_PLACES, asked.opaque):
        part, _, rest = rest.partition(str(number).encode())
        parts.append(part)
    parts.append(rest)
    if len(parts) != PART_COUNT or sum(map(len, parts)) > OUTLINE_ROOM or not all(parts):
        raise RuntimeError("an answer's header has not the form that it had")
    return parts


def queue_of(lane: Lane, served: Served) -> QueueReader | None:
    """Return a lane's queue, None where Python has to look at it: it is cold, or of batches.

    Messages that were sent back stand in another log than the store's.
    """
    if served.kept is not None and served.kept.has(lane.topic, lane.queue_id):
        return None
    try:
        with impatience():
            queue = served.store.queue(lane.topic, lane.queue_id)
    except (ColdError, ReputError, OSError):
        return None
    return None if queue is None or queue.is_batch else queue
