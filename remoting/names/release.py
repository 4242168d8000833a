"""What differs between the name servers and brokers of RocketMQ's releases."""

from __future__ import annotations

from typing import NamedTuple

from reput.remoting.wire.codes import ResponseCode

# The ordinal of 5.0.0.
_V5_0_0 = 413


class Release(NamedTuple):
    """A release as its name server and its broker show.

    Attributes:
        version: its ordinal, which stands in each answer.
        help_page: where the remark about a topic without a route leads.
        has_acting_master: brokers say whether a slave may act as master.
        illegal_queue: a broker's code for a queue that the topic does not have.
        has_flags: answers to pulls have the flags of topic and group, or say what is forbidden.
        min_offset_remark: stands in the answer to `GET_MIN_OFFSET`.
        heartbeat_says_more: answers to heartbeats say which kinds of heartbeats are known.
        notifies_broadcasting: members of broadcasting groups are told of changes, too.
        checks_names: groups are made only for names that RocketMQ allows, and offsets are kept only
            for groups and topics that are there.
        resets_offsets: offsets are reset at the broker, for groups that are not online as well
            (`useServerSideResetOffset`).
        counts_pages: lists of topics and groups come in pages, with how many there are in all.
    """

    version: int
    help_page: str
    has_acting_master: bool
    illegal_queue: ResponseCode
    has_flags: bool
    min_offset_remark: str | None
    heartbeat_says_more: bool
    notifies_broadcasting: bool
    checks_names: bool
    resets_offsets: bool
    counts_pages: bool = False

    @property
    def is_5(self) -> bool:
        """Tell whether it is of 5.0 or later: its tools ask, and are told, more."""
        return self.version >= _V5_0_0


RELEASE_4_9 = Release(
    409,
    "http://rocketmq.apache.org/docs/faq/",
    has_acting_master=False,
    illegal_queue=ResponseCode.SYSTEM_ERROR,
    has_flags=False,
    min_offset_remark=None,
    heartbeat_says_more=False,
    notifies_broadcasting=True,
    checks_names=False,
    resets_offsets=False,
)
RELEASE_5_5 = Release(
    513,
    "https://rocketmq.apache.org/docs/bestPractice/06FAQ",
    has_acting_master=True,
    illegal_queue=ResponseCode.INVALID_PARAMETER,
    has_flags=True,
    min_offset_remark="",
    heartbeat_says_more=True,
    notifies_broadcasting=False,
    checks_names=True,
    resets_offsets=True,
    counts_pages=True,
)
RELEASES = {
    "4.9": RELEASE_4_9,
    "5.3": RELEASE_5_5._replace(version=479, counts_pages=False),
    "5.4": RELEASE_5_5._replace(version=493),
    "5.5": RELEASE_5_5,
}
"""Whose broker a store of each family is served like: the last release of the family."""
