"""What a name server or a broker tells of itself, while it answers.

A broker's rooms tell it from the event loop of their store; what is about the whole server, as TLS
and registrations are, is told from the server's own. So what is added up comes from one thread.
`streaming.observe.serving` shows it to Prometheus, whose scrapes run on another one: values are
handed over, and nothing is asked of a room.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class SentBack(Enum):
    """What became of a message that a consumer sent back (`CONSUMER_SEND_MSG_BACK`)."""

    REFUSED = "refused"
    ACCEPTED = "accepted"
    KEPT = "kept"


class NotRegistered(Enum):
    """Why a broker of ours is not registered at a name server of others."""

    AWAY = "away"
    TAKEN = "taken"
    REFUSED = "refused"


class Counters(Protocol):
    """What is told of one server: the name server, or the broker of one store."""

    def connected(self, change: int) -> None:
        """Take that a connection came (1) or went (-1)."""

    def answered(
        self, request: int, answer: int, size: int, messages: int = 0, answers: int = 1
    ) -> None:
        """Count an answer, or several of the same kind.

        Args:
            request: the code that was asked.
            answer: the code that was said.
            size: bytes of the body, or of all of them.
            messages: in its body, or in all of them.
            answers: how many.
        """

    def oneway(self, request: int) -> None:
        """Count a request that wants no answer."""

    def held(self, count: int) -> None:
        """Take how many pulls wait now."""

    def slow(self, count: int) -> None:
        """Take to how many connections more is to be sent than they read."""

    def dropped(self) -> None:
        """Count a connection closed because its peer broke the protocol or read nothing."""

    def refused(self, reason: str) -> None:
        """Count a request that an ACL refused; see `remoting.access.check`."""

    def acl_read(
        self, accounts: int, repeated: Sequence[str] = (), error: str | None = None
    ) -> None:
        """Take what of an ACL is in force; see `remoting.access.check`."""

    def tls_read(self, *, is_broken: bool) -> None:
        """Take whether the newest files of TLS cannot be used, and those before them count."""

    def sent_back(self, outcome: SentBack) -> None:
        """Count a message that a consumer sent back."""

    def duplicate_client(self) -> None:
        """Count a client whose id another connection has: both get the same share of queues."""

    def cold_pull(self) -> None:
        """Count a pull, or another question, that had to wait for what was not in memory."""

    def offsets_unsaved(self, seconds: float) -> None:
        """Take how long the oldest offset of a group waits to be saved."""

    def gaps(self, count: int) -> None:
        """Take in how many places files of the log or of its queues are missing, or too short."""

    def lags(self, by_group: Mapping[str, int]) -> None:
        """Take how many messages each group has not consumed, all its topics together."""

    def registered(self, brokers: int) -> None:
        """Take how many brokers of others are registered at the name server."""

    def wanted_at_name_servers(self, count: int) -> None:
        """Take at how many name servers of others the broker is to be registered."""

    def at_name_servers(self, count: int) -> None:
        """Take at how many name servers of others the broker is registered."""

    def not_registered(self, reason: NotRegistered) -> None:
        """Count that the broker could not be registered."""

    def ready(self, *, is_ready: bool) -> None:
        """Take whether clients are served."""

    def alive(self) -> None:
        """Take that the event loop runs; to be told each second or so."""


class Uncounted:
    """Takes everything and shows nothing."""

    def connected(self, change: int) -> None:
        """Do nothing."""

    def answered(
        self, request: int, answer: int, size: int, messages: int = 0, answers: int = 1
    ) -> None:
        """Do nothing."""

    def oneway(self, request: int) -> None:
        """Do nothing."""

    def held(self, count: int) -> None:
        """Do nothing."""

    def slow(self, count: int) -> None:
        """Do nothing."""

    def dropped(self) -> None:
        """Do nothing."""

    def refused(self, reason: str) -> None:
        """Do nothing."""

    def acl_read(
        self, accounts: int, repeated: Sequence[str] = (), error: str | None = None
    ) -> None:
        """Do nothing."""

    def tls_read(self, *, is_broken: bool) -> None:
        """Do nothing."""

    def sent_back(self, outcome: SentBack) -> None:
        """Do nothing."""

    def duplicate_client(self) -> None:
        """Do nothing."""

    def cold_pull(self) -> None:
        """Do nothing."""

    def offsets_unsaved(self, seconds: float) -> None:
        """Do nothing."""

    def gaps(self, count: int) -> None:
        """Do nothing."""

    def lags(self, by_group: Mapping[str, int]) -> None:
        """Do nothing."""

    def registered(self, brokers: int) -> None:
        """Do nothing."""

    def wanted_at_name_servers(self, count: int) -> None:
        """Do nothing."""

    def at_name_servers(self, count: int) -> None:
        """Do nothing."""

    def not_registered(self, reason: NotRegistered) -> None:
        """Do nothing."""

    def ready(self, *, is_ready: bool) -> None:
        """Do nothing."""

    def alive(self) -> None:
        """Do nothing."""
