"""Sends answers, at once or later, and has each counted; says what a failed request is told."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from reput.formats.errors import StoreError
from reput.remoting.counting.counters import Uncounted
from reput.remoting.reading.answer import Answer, RefusedError
from reput.remoting.wire import fields
from reput.remoting.wire.codes import ResponseCode
from reput.remoting.wire.errors import FieldError, FrameSizeError

if TYPE_CHECKING:
    from asyncio import Future

    from reput.remoting.counting.counters import Counters
    from reput.remoting.names.release import Release
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

LOG = logging.getLogger("reput")

_SAID_SECONDS = 60.0


class Replies:
    """What one server answers requests with."""

    def __init__(self, release: Release, counters: Counters | None = None) -> None:
        """Send nothing yet.

        Args:
            release: whose server it answers like.
            counters: what is told of answers; None for nobody.
        """
        self._release = release
        self._counters = counters or Uncounted()
        # By the words of an error of the disk, when it was said last.
        self._said_at: dict[str, float] = {}

    def send(self, request: Command, channel: Channel, said: Answer) -> None:
        """Send the answer to a request, or why it has no frame; nothing to one that wants none."""
        if request.is_oneway:
            self._counters.oneway(request.code)
            return
        try:
            self._send(request, channel, said)
        except ValueError as error:
            self._send(request, channel, self.failed(request, channel, error))

    def _send(self, request: Command, channel: Channel, said: Answer) -> None:
        header = None if said.header is None else fields.write(said.header)
        answer = request.answer(said.code, self._release.version, said.remark, header)
        channel.send(answer, said.pieces)
        self._counters.answered(request.code, said.code, said.size, said.messages)

    def result_of(self, done: Future[Answer], request: Command, channel: Channel) -> Answer:
        """Return what came of a request in the end, or what its client is told if it failed."""
        error = done.exception()
        return done.result() if error is None else self.failed(request, channel, error)

    def failed(self, request: Command, channel: Channel, error: BaseException) -> Answer:
        """Return what a client is told whose request failed; what is not its fault is logged."""
        if isinstance(error, RefusedError):
            return error.answer
        if isinstance(error, FieldError):
            return Answer(ResponseCode.SYSTEM_ERROR, error.remark)
        if isinstance(error, FrameSizeError):
            # A broker sends it, and its client closes the connection.
            remark = f"the answer is larger than clients read, ask for less: {error}"
            return Answer(ResponseCode.SYSTEM_ERROR, remark)
        if isinstance(error, StoreError):
            # `remoting.server.following` has said it once.
            remark = "the store's files are not there: try again later"
            return Answer(ResponseCode.SYSTEM_ERROR, remark)
        if isinstance(error, OSError) and error.errno is not None:
            self._say_of_disk(error)
        else:
            LOG.error("request %d of %s failed", request.code, channel.peer, exc_info=error)
        return Answer(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _say_of_disk(self, error: OSError) -> None:
        """Log what the disk does not do, at most once a minute: each client asks again."""
        now = time.monotonic()
        if now - self._said_at.get(str(error), -_SAID_SECONDS) < _SAID_SECONDS:
            return
        # Those of before, so that they do not pile up.
        self._said_at = {said: at for said, at in self._said_at.items() if now - at < _SAID_SECONDS}
        self._said_at[str(error)] = now
        LOG.error("requests fail, and clients ask again: %s (said once a minute)", error)
