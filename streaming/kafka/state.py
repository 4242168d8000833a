"""How far a store's messages are sent to Kafka, and what keeps them from it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.sinks.kafka.sent import Sent

# Upper bounds of `KafkaState.seconds`, seconds.
TRANSACTION_BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_COUNTS = (
    "messages", "notices", "dead_letters", "bytes", "retries", "transactions", "total_seconds",
    "truncations",
)  # fmt: skip


@dataclass(frozen=True)
class KafkaState:
    """Where a store's way to Kafka is; all counts since the process began.

    Attributes:
        end: physical offset that is committed, as far as is known; -1 while nothing is known of it.
        wanted: physical offset that dispatch has reached.
        store_timestamp: of the last message sent, ms; 0 for none.
        messages: sent.
        notices: sent.
        dead_letters: of both, to the dead-letter topic.
        bytes: of records.
        retries: attempts that failed.
        transactions: committed.
        seconds: transactions by duration, see `TRANSACTION_BOUNDS`; the last count is of longer
            ones.
        total_seconds: sum of that.
        in_flight: bytes that are sent and not acknowledged yet.
        is_connected: the last attempt went well; None before the first one.
        truncations: times that the log was cut, or has expired, below what had been sent.
        trouble: why the last attempt failed, "" if it did not.
        stopped: what has stopped it until the job starts again, "" for nothing.
        is_confirmed: this process has `end` from Kafka itself.
        cut: number of the last cut of the log that sending has followed.
        wanted_cut: of the last one that dispatch has found.
    """

    end: int = -1
    wanted: int = 0
    store_timestamp: int = 0
    messages: int = 0
    notices: int = 0
    dead_letters: int = 0
    bytes: int = 0
    retries: int = 0
    transactions: int = 0
    seconds: tuple[int, ...] = field(default_factory=lambda: (0,) * (len(TRANSACTION_BOUNDS) + 1))
    total_seconds: float = 0.0
    in_flight: int = 0
    is_connected: bool | None = None
    truncations: int = 0
    trouble: str = ""
    stopped: str = ""
    is_confirmed: bool = False
    cut: int = 0
    wanted_cut: int = 0

    @property
    def lag(self) -> int | None:
        """Return the bytes of log that are dispatched and not committed; None if not known.

        Below a place that was sent there may be new records since the log was cut.
        """
        if self.wanted < 0:
            return 0
        is_known = self.wanted > self.end or self.wanted_cut <= self.cut
        return max(self.wanted - self.end, 0) if self.end >= 0 and is_known else None

    @property
    def confirmed_lag(self) -> int | None:
        """Return the lag, None if this process has not asked Kafka for its position."""
        return self.lag if self.is_confirmed or self.wanted < 0 else None

    def since(self, before: KafkaState | None) -> KafkaState:
        """Return the state with what was counted before the output was opened again.

        Args:
            before: when it was closed last, None if it was not.
        """
        if before is None:
            return self
        counts = {name: getattr(self, name) + getattr(before, name) for name in _COUNTS}
        seconds = tuple(map(sum, zip(self.seconds, before.seconds, strict=True)))
        return replace(self, **counts, seconds=seconds)

    def after(self, sent: Sent, truncations: int) -> KafkaState:
        """Return the state after a transaction.

        Args:
            sent: what it has sent.
            truncations: that were met since the last one.
        """
        seconds = list(self.seconds)
        seconds[bisect_left(TRANSACTION_BOUNDS, sent.seconds)] += 1
        return replace(
            self,
            end=sent.end,
            store_timestamp=sent.store_timestamp or self.store_timestamp,
            messages=self.messages + sent.messages,
            notices=self.notices + sent.notices,
            dead_letters=self.dead_letters + sent.dead_letters,
            bytes=self.bytes + sent.bytes,
            transactions=self.transactions + 1,
            seconds=tuple(seconds),
            total_seconds=self.total_seconds + sent.seconds,
            is_connected=True,
            truncations=self.truncations + truncations,
        )
