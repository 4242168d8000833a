"""Answers how far groups are, and takes down how far they say they are: 14, 15.

Source: RocketMQ `ConsumerManageProcessor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.reading.answer import Answer, success
from reput.remoting.wire import fields
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.fields import Header
from reput.remoting.wire.pull_headers import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.groups.configs import GroupConfigs
    from reput.remoting.groups.offsets import Offsets
    from reput.remoting.reading.served import Served
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer | None]


class Progress:
    """Answers what concerns the offsets of groups."""

    def __init__(
        self,
        offsets: Offsets,
        configs: GroupConfigs,
        served: Served,
        *,
        new_groups_read_all: bool = False,
    ) -> None:
        """Answer for a store.

        Args:
            offsets: its groups'.
            configs: its groups.
            served: how it is served.
            new_groups_read_all: as a broker does it, a group without an offset begins at 0 where
                the queue's first message is in memory, see `Served.memory`. Otherwise what clients
                want of new groups decides (`CONSUME_FROM_LAST_OFFSET`).
        """
        self._offsets = offsets
        self._configs = configs
        self._served = served
        self._new_groups_read_all = new_groups_read_all
        # Their members may commit before the first heartbeat after a restart.
        for group in offsets.groups():
            configs.find(group)

    def handlers(self) -> dict[int, Handler]:
        """Return what is answered here, by code of the request."""
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
        }

    def query(self, request: Command, channel: Channel) -> Answer:
        """Answer where a group resumes.

        Raises:
            FieldError: a field is missing.
        """
        del channel
        header = fields.read(QueryConsumerOffsetRequestHeader, request.fields)
        found = self._offsets.find(header.consumer_group, header.topic, header.queue_id)
        if found is not None and found >= 0:
            return success(QueryConsumerOffsetResponseHeader(found))
        if header.set_zero_if_not_found is False:
            return _not_found("Not found, do not set to zero, maybe this group boot first")
        if self._new_groups_read_all and self._is_first_in_memory(header.topic, header.queue_id):
            return success(QueryConsumerOffsetResponseHeader(0))
        return _not_found("Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")

    def _is_first_in_memory(self, topic: str, queue_id: int) -> bool:
        served = self._served
        store = served.store_of(topic, queue_id)
        queue = store.queue_now(topic, queue_id)
        if queue is not None and queue.min_offset > 0:
            return False
        first = next(queue.all_entries(), None) if queue is not None else None
        if first is None:
            # A broker of 4.9 asks whether it is on disk, and of nothing it is not.
            return not served.release.has_flags
        if first.queue_offset != 0:
            return False
        if served.memory is None:
            return True
        return store.log.end() - first.physical_offset <= served.memory

    def update(self, request: Command, channel: Channel) -> Answer:
        """Take down where a group resumes.

        Raises:
            FieldError: a field is missing.
        """
        del channel
        header = fields.read(UpdateConsumerOffsetRequestHeader, request.fields)
        group, topic = header.consumer_group, header.topic
        if self._served.release.checks_names:
            if group not in self._configs:
                code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
                return Answer(code, f"Group {group} not exist!", Header())
            if topic not in self._served.topics:
                return Answer(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!", Header())
        if self._offsets.is_reset(group, topic, header.queue_id):
            # The client has not seen it yet: what it says is where it was before.
            return Answer(ResponseCode.SUCCESS, "Offset has been previously reset", Header())
        if not self._offsets.set(group, topic, header.queue_id, header.commit_offset):
            return Answer(ResponseCode.SYSTEM_ERROR, "too many queues have offsets", Header())
        return success(Header())


def _not_found(remark: str) -> Answer:
    return Answer(ResponseCode.QUERY_NOT_FOUND, remark, Header())
