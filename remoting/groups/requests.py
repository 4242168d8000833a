"""What a broker answers about groups, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.remoting.groups.membership import Membership
from reput.remoting.groups.progress import Progress
from reput.remoting.groups.resets import Resets
from reput.remoting.reading.pull_checks import COMMIT_OFFSET
from reput.remoting.sending import refusals

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from reput.remoting.groups.consumers import Consumers
    from reput.remoting.groups.locks import Locks
    from reput.remoting.groups.offset_file import OffsetFile
    from reput.remoting.groups.offsets import Offsets
    from reput.remoting.reading.answer import Answer
    from reput.remoting.reading.served import Served
    from reput.remoting.sending.retries import Retries
    from reput.remoting.sending.sent_back import SentBack
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command
    from reput.remoting.wire.pull_headers import PullMessageRequestHeader

    Handler = Callable[[Command, Channel], Answer | Future[Answer] | None]


@dataclass(frozen=True)
class GroupState:
    """What a broker knows of groups while it runs.

    Attributes:
        consumers: configured groups, their members and filters.
        offsets: where they resume.
        locks: which member has which queue.
        sent_back: messages that members sent back.
        file: follows the offsets; None if they end with the server.
        retries: what members send to their retry topic; None if nothing is kept.
    """

    consumers: Consumers
    offsets: Offsets
    locks: Locks
    sent_back: SentBack
    file: OffsetFile | None = None
    retries: Retries | None = None

    def tick(self, now: float) -> None:
        """Do what is due; call it every second or so.

        Args:
            now: seconds, of the clock that all of these have.
        """
        self.consumers.members.tick(now)
        self.locks.tick(now)
        self.sent_back.tick(now)
        if self.file is not None:
            self.file.tick(now)

    def commit(self, header: PullMessageRequestHeader, channel: Channel, following: int) -> None:
        """Take down where the next pull begins, and the offset that a pull commits if it does.

        A reset that came while the pull's records were read stays: its client does not know it.
        """
        del channel
        place = header.consumer_group, header.topic, header.queue_id
        self.offsets.set_pulled(*place, following)
        if header.sys_flag & COMMIT_OFFSET:
            self.commit_to(*place, header.commit_offset)

    def commit_to(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Take down where a group is, unless it was reset and has not been told."""
        if not self.offsets.is_reset(group, topic, queue_id):
            self.offsets.set(group, topic, queue_id, offset)

    def closed(self, channel: Channel) -> None:
        """Forget a connection that has closed."""
        self.consumers.members.closed(channel)

    @property
    def unsaved_seconds(self) -> float:
        """Return how long the oldest offset waits to be saved, as of the last tick."""
        return self.file.unsaved_seconds if self.file is not None else 0.0

    def close(self) -> None:
        """Save what is to be kept.

        Raises:
            OSError: it could not be saved.
        """
        if self.file is not None:
            self.file.close()


def handlers(
    state: GroupState,
    served: Served,
    broker_name: str,
    *,
    new_groups_read_all: bool = False,
) -> dict[int, Handler]:
    """Return what is answered here, by code of the request.

    Args:
        state: what is known of groups.
        served: the store.
        broker_name: what it is called in queues.
        new_groups_read_all: see `Progress`.
    """
    read_all = new_groups_read_all
    progress = Progress(
        state.offsets, state.consumers.configs, served, new_groups_read_all=read_all
    )
    return {
        **refusals.handlers(),
        **Membership(state.consumers, served).handlers(),
        **progress.handlers(),
        **state.locks.handlers(),
        **state.sent_back.handlers(),
        **(state.retries.handlers() if state.retries is not None else {}),
        **Resets(state.consumers, state.offsets, served, broker_name).handlers(),
    }
