"""Answers pulls, now or when something has come: the handler of `PULL_MESSAGE` and its lite twin.

Source: RocketMQ `PullMessageProcessor#processRequest`, `executeRequestWhenWakeup`,
`DefaultPullMessageResultHandler`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.holding.holds import Held, Holds
from reput.remoting.holding.watch import Watch
from reput.remoting.reading.answer import Answer, RefusedError
from reput.remoting.reading.pull import pull, steps
from reput.remoting.reading.pull_checks import SUSPEND, filter_of, topic_and_group
from reput.remoting.reading.replies import Replies
from reput.remoting.wire import fields
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.pull_headers import (
    PullMessageRequestHeader,
    PullMessageResponseHeader,
)

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from reput.remoting.reading.served import Served
    from reput.remoting.reading.turns import Turns
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer | None]
    Commit = Callable[[PullMessageRequestHeader, Channel, int], None]


class Pulls:
    """The pulls of one store. Call `look` after each `pause` while `holds` has any.

    Attributes:
        holds: those that wait.
        watch: sees what comes for them.
    """

    def __init__(
        self,
        served: Served,
        now: Callable[[], float],
        turns: Turns | None = None,
        commit: Commit | None = None,
        short_polling: float | None = None,
        replies: Replies | None = None,
    ) -> None:
        """Wait for nothing yet.

        Args:
            served: what is asked.
            now: seconds, of a clock that never goes back.
            turns: of the event loop; None answers each pull at once, whatever it takes.
            commit: keeps the offset that a pull commits, and where the next one begins; called once
                for each pull that passes the checks, and looks at its flags itself.
            short_polling: see `Holds`.
            replies: send late answers; None for ones that nobody counts.
        """
        self._served = served
        self._replies = replies or Replies(served.release)
        self._turns = turns
        self._commit = commit
        self.holds = Holds(self._wake, now, short_polling)
        self.watch = Watch(served, self.holds, now)

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.LITE_PULL_MESSAGE: self.pull,
        }

    def pull(self, request: Command, channel: Channel) -> Answer | None:
        """Answer a pull; None if it waits, or if its answer is sent once it has been read.

        Raises:
            FieldError: a field is missing, or not a number.
        """
        header = fields.read(PullMessageRequestHeader, request.fields)
        found = self._run(request, header, channel)
        if isinstance(found, Answer):
            return self._held_or(found, request, header, channel)

        def then(done: Future[Answer]) -> None:
            found = self._replies.result_of(done, request, channel)
            answer = self._held_or(found, request, header, channel)
            if answer is not None:
                self._send(request, answer, channel)

        found.add_done_callback(then)
        return None

    def _run(
        self, request: Command, header: PullMessageRequestHeader, channel: Channel
    ) -> Answer | Future[Answer]:
        is_lite = request.code == RequestCode.LITE_PULL_MESSAGE
        peer = f"/{channel.peer}"
        if self._turns is None:
            return pull(header, self._served, peer, is_lite=is_lite)
        return self._turns.run(steps(header, self._served, peer, is_lite=is_lite))

    def _held_or(
        self, answer: Answer, request: Command, header: PullMessageRequestHeader, channel: Channel
    ) -> Answer | None:
        """Return the first answer to a pull, None if the pull waits instead."""
        if self._commit is not None and isinstance(answer.header, PullMessageResponseHeader):
            self._commit(header, channel, int(answer.header.next_begin_offset))
        if answer.code != ResponseCode.PULL_NOT_FOUND or not header.sys_flag & SUSPEND:
            return answer
        try:
            is_lite = request.code == RequestCode.LITE_PULL_MESSAGE
            _, group = topic_and_group(header, self._served, "", is_lite=is_lite)
            wanted = filter_of(header, self._served, group)
        except RefusedError as error:
            return error.answer
        self.holds.hold(request, header, channel, wanted)
        self.watch.add((header.topic, header.queue_id), header.queue_offset)
        return None

    def _wake(self, held: Held) -> None:
        try:
            found = self._run(held.request, held.header, held.channel)
        except Exception as error:  # noqa: BLE001 - one pull must not end all connections
            found = self._replies.failed(held.request, held.channel, error)
        if isinstance(found, Answer):
            self._send(held.request, found, held.channel)
        else:
            found.add_done_callback(
                lambda done: self._send(
                    held.request,
                    self._replies.result_of(done, held.request, held.channel),
                    held.channel,
                )
            )

    def _send(self, request: Command, answer: Answer, channel: Channel) -> None:
        """Send a late answer, unless its client is gone."""
        if channel.is_open:
            self._replies.send(request, channel, answer)

    @property
    def pause(self) -> float:
        """Return the seconds until the next `look`; as few as possible while many are answered."""
        return 0.0 if self.holds.is_ready else self.watch.pause

    def look_at_files(self) -> None:
        """Look at the store's files again; call it each second.

        Raises:
            StoreError: the log or all queues are not there.
        """
        self.watch.look_at_files()

    def look(self) -> None:
        """See what has come, and answer those that wait for it."""
        if self._served.store.presence.away is None:
            self.watch.look()
        else:
            # What waits still waits, as long as it says.
            self.holds.tick()
        self.holds.answer()
