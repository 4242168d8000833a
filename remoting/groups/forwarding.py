"""Asks a client what a tool wants to know of it (307, 309, 221), and hands on what it says.

Source: RocketMQ `AdminBrokerProcessor#callConsumer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.reading.answer import Answer
from reput.remoting.wire.codes import ResponseCode
from reput.remoting.wire.command import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.groups.members import Members
    from reput.remoting.wire.channel import Channel

# 3.1.8: older clients do not know these requests.
_SINCE = 62


def forward(
    request: Command, channel: Channel, members: Members, group: str, client_id: str, version: int
) -> Answer | None:
    """Send a tool's request to a member of a group.

    What the member says is sent to the tool word for word; even a remark that nobody has set.

    Args:
        request: the tool's.
        channel: the tool's.
        members: those that are there.
        group: the member's.
        client_id: the member's.
        version: the ordinal of the release that answers.

    Returns:
        None if the answer comes later.
    """
    member = members.find(group, client_id)
    if member is None:
        remark = f"The Consumer <{group}> <{client_id}> not online"
        return Answer(ResponseCode.SYSTEM_ERROR, remark)
    if member.version < _SINCE:
        remark = f"The Consumer <{client_id}> is of a release before 3.1.8: it cannot say this"
        return Answer(ResponseCode.SYSTEM_ERROR, remark)
    silence = f"consumer <{group}> <{client_id}> Timeout: it closed, or did not answer"
    then = _handing_on(request, channel, version, silence)
    # The body is a view of what arrived, and may not outlive this call.
    body = bytes(request.body)
    member.channel.ask(
        Command(request.code, version=version, fields=request.fields, body=body), then
    )
    return None


def _handing_on(
    request: Command, channel: Channel, version: int, silence: str
) -> Callable[[Command | None], None]:
    """Return what takes a client's answer; `silence` is the remark if none comes."""

    def then(answer: Command | None) -> None:
        if request.is_oneway or not channel.is_open:
            return
        if answer is None:
            channel.send(request.answer(ResponseCode.CONSUME_MSG_TIMEOUT, version, silence))
            return
        said = (answer.code, version, answer.remark, answer.fields, bytes(answer.body))
        channel.send(request.answer(*said))

    return then
