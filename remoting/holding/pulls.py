"""Answers pulls, now or when something has come: the handler of `PULL_MESSAGE` and its lite twin.

Source: RocketMQ `PullMessageProcessor#processRequest`, `executeRequestWhenWakeup`,
`DefaultPullMessageResultHandler`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.holding.holds import Held, Holds
from reput.remoting.holding.watch import Watch
from reput.remoting.reading.answer import RefusedError
from reput.remoting.reading.pull import pull
from reput.remoting.reading.pull_checks import SUSPEND, filter_of, topic_and_group
from reput.remoting.wire import fields
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.pull_headers import PullMessageRequestHeader

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.reading.answer import Answer
    from reput.remoting.reading.served import Served
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer | None]
    Commit = Callable[[PullMessageRequestHeader, Channel], None]


class Pulls:
    """The pulls of one store. Call `look` each millisecond while `holds` has any.

    Attributes:
        holds: those that wait.
    """

    def __init__(
        self,
        served: Served,
        now: Callable[[], float],
        commit: Commit | None = None,
        short_polling: float | None = None,
    ) -> None:
        """Wait for nothing yet.

        Args:
            served: what is asked.
            now: seconds, of a clock that never goes back.
            commit: keeps the offset that a pull commits; called once for each pull that passes the
                checks, and looks at its flags itself.
            short_polling: see `Holds`.
        """
        self._served = served
        self._commit = commit
        self.holds = Holds(self._wake, now, short_polling)
        self._watch = Watch(served.store, self.holds, now)

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.LITE_PULL_MESSAGE: self.pull,
        }

    def pull(self, request: Command, channel: Channel) -> Answer | None:
        """Answer a pull; None if it waits.

        Raises:
            FieldError: a field is missing, or not a number.
        """
        header = fields.read(PullMessageRequestHeader, request.fields)
        answer = self._answer(request, header, channel)
        if self._commit is not None and answer.header is not None:
            self._commit(header, channel)
        if answer.code != ResponseCode.PULL_NOT_FOUND or not header.sys_flag & SUSPEND:
            return answer
        try:
            is_lite = request.code == RequestCode.LITE_PULL_MESSAGE
            _, group = topic_and_group(header, self._served, "", is_lite=is_lite)
            wanted = filter_of(header, self._served, group)
        except RefusedError as error:
            return error.answer
        self.holds.hold(request, header, channel, wanted)
        self._watch.add((header.topic, header.queue_id), header.queue_offset)
        return None

    def _answer(
        self, request: Command, header: PullMessageRequestHeader, channel: Channel
    ) -> Answer:
        is_lite = request.code == RequestCode.LITE_PULL_MESSAGE
        return pull(header, self._served, f"/{channel.peer}", is_lite=is_lite)

    def _wake(self, held: Held) -> None:
        answer = self._answer(held.request, held.header, held.channel)
        send(held.request, answer, held.channel, self._served.release.version)

    def look(self) -> None:
        """See what has come, and answer those that wait for it."""
        self._watch.look()
        self.holds.answer()


def send(request: Command, answer: Answer, channel: Channel, version: int) -> None:
    """Send a late answer, unless its client wants none.

    Args:
        request: what is answered.
        answer: what it gets.
        channel: where it came from.
        version: the ordinal of the release that answers.
    """
    if request.is_oneway:
        return
    said = fields.write(answer.header) if answer.header is not None else None
    channel.send(request.answer(answer.code, version, answer.remark, said), answer.pieces)
