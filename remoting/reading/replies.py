"""Sends answers, at once or later, and has each counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.counting.counters import Uncounted
from reput.remoting.wire import fields

if TYPE_CHECKING:
    from reput.remoting.counting.counters import Counters
    from reput.remoting.names.release import Release
    from reput.remoting.reading.answer import Answer
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command


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

    def send(self, request: Command, channel: Channel, said: Answer) -> None:
        """Send the answer to a request; nothing to one that wants none."""
        if request.is_oneway:
            self._counters.oneway(request.code)
            return
        self._counters.answered(request.code, said.code, said.size, said.messages)
        header = None if said.header is None else fields.write(said.header)
        answer = request.answer(said.code, self._release.version, said.remark, header)
        channel.send(answer, said.pieces)
