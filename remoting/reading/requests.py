"""Which request is answered here, apart from pulls: the handlers by code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.reading import messages, offsets
from reput.remoting.wire import fields
from reput.remoting.wire.admin_headers import QueryMessageRequestHeader, ViewMessageRequestHeader
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.pull_headers import (
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    SearchOffsetRequestHeader,
)
from reput.stores.log.files import LogChangedError
from reput.stores.reads import patiently

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from reput.remoting.reading.answer import Answer
    from reput.remoting.reading.served import Served
    from reput.remoting.reading.turns import Turns
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command
    from reput.stores.reads import Steps

    Handler = Callable[[Command, Channel], Answer | Future[Answer]]

# Java's constant `MixAll.UNIQUE_MSG_QUERY_FLAG`.
_IS_UNIQUE = "_UNIQUE_KEY_QUERY"


def handlers(served: Served, turns: Turns) -> dict[int, Handler]:
    """Return what is answered about messages, offsets and times, by code of the request.

    Args:
        served: what is asked.
        turns: of the event loop: what is not in memory is waited for elsewhere.
    """

    def of_queue(answer: Callable[..., Answer], kind: type[fields.Header]) -> Handler:
        def handle(request: Command, _: Channel) -> Answer | Future[Answer]:
            header = fields.read(kind, request.fields)
            return turns.run(
                _though_files_go(lambda: patiently(lambda: answer(header, served)), served)
            )

        return handle

    def query(request: Command, _: Channel) -> Answer | Future[Answer]:
        header = fields.read(QueryMessageRequestHeader, request.fields)
        is_unique = (request.fields or {}).get(_IS_UNIQUE, "").lower() == "true"
        return turns.run(
            _though_files_go(
                lambda: messages.query_message(header, served, is_unique=is_unique), served
            )
        )

    return {
        RequestCode.GET_MAX_OFFSET: of_queue(offsets.max_offset, GetMaxOffsetRequestHeader),
        RequestCode.GET_MIN_OFFSET: of_queue(offsets.min_offset, GetMinOffsetRequestHeader),
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: of_queue(
            offsets.search_offset, SearchOffsetRequestHeader
        ),
        RequestCode.GET_EARLIEST_MSG_STORETIME: of_queue(
            offsets.earliest_store_time, GetEarliestMsgStoretimeRequestHeader
        ),
        RequestCode.VIEW_MESSAGE_BY_ID: of_queue(messages.view_message, ViewMessageRequestHeader),
        RequestCode.QUERY_MESSAGE: query,
    }


def _though_files_go(question: Callable[[], Steps[Answer]], served: Served) -> Steps[Answer]:
    """Ask once more where a file has expired, or the log was cut, since the last look."""
    try:
        return (yield from question())
    except LogChangedError:
        yield from patiently(served.look_at_files)
    return (yield from question())
