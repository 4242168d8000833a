"""What differs between the name servers of RocketMQ's releases."""

from __future__ import annotations

from typing import NamedTuple


class Release(NamedTuple):
    """A release as its name server shows.

    Attributes:
        version: its ordinal, which stands in each answer.
        help_page: where the remark about a topic without a route leads.
        has_acting_master: brokers say whether a slave may act as master.
    """

    version: int
    help_page: str
    has_acting_master: bool


RELEASE_4_9 = Release(409, "http://rocketmq.apache.org/docs/faq/", has_acting_master=False)
RELEASE_5_5 = Release(
    513, "https://rocketmq.apache.org/docs/bestPractice/06FAQ", has_acting_master=True
)
