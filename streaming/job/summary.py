"""What a job did: figures by store, as the summary and `--json` show them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.streaming.kafka.state import KafkaState


@dataclass
class StoreSummary:
    """What was dispatched of one store.

    Attributes:
        busy_seconds: in its batches, their flushes included.
    """

    name: str
    messages: int = 0
    bytes: int = 0
    batches: int = 0
    busy_seconds: float = 0.0
    end: int = 0
    files: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    kafka: KafkaState | None = None


@dataclass
class Summary:
    """What a job did.

    Attributes:
        stores: each of them.
        seconds: from the first batch to everything being on disk.
        dispatch_seconds: from the first batch to the last entry; what a broker's rate is about.
        busy_seconds: in batches; in the rest of the time the job waited for the log.
        is_live: the job waits for the log: then rates are those of its batches. Else they are those
            of `seconds`, the last flush included.
        writer_cpu_seconds: processor time of the writers on executors, None without them.
    """

    stores: list[StoreSummary]
    seconds: float = 0.0
    dispatch_seconds: float = 0.0
    busy_seconds: float = 0.0
    is_live: bool = False
    writer_cpu_seconds: float | None = None

    def rate(self, store: StoreSummary | None = None) -> float:
        """Return messages a second, of one store or of all."""
        seconds = self.seconds
        if self.is_live:
            seconds = self.busy_seconds if store is None else store.busy_seconds
        counted = self.stores if store is None else [store]
        return sum(each.messages for each in counted) / seconds if seconds else 0.0

    def as_dict(self) -> dict[str, object]:
        """Return what `--json` prints."""
        messages = sum(store.messages for store in self.stores)
        total = {
            "messages": messages,
            "bytes": sum(store.bytes for store in self.stores),
            "seconds": round(self.seconds, 3),
            "messages_per_second": round(self.rate()),
            "dispatch_seconds": round(self.dispatch_seconds, 3),
            "busy_seconds": round(self.busy_seconds, 3),
            "files": sum(len(store.files) for store in self.stores),
        }
        if self.writer_cpu_seconds is not None:
            total["writer_cpu_seconds"] = round(self.writer_cpu_seconds, 3)
        stores = [
            {
                "name": store.name,
                "messages": store.messages,
                "bytes": store.bytes,
                "batches": store.batches,
                "end": store.end,
                "seconds": round(self.seconds, 3),
                "messages_per_second": round(self.rate(store)),
                "busy_seconds": round(store.busy_seconds, 3),
                "files": store.files,
                "events": store.events,
                **({"kafka": _kafka_dict(store.kafka)} if store.kafka is not None else {}),
            }
            for store in self.stores
        ]
        return {**total, "stores": stores}


def _kafka_dict(state: KafkaState) -> dict[str, object]:
    """Return what `--json` prints of a store's way to Kafka."""
    return {
        "end": state.end,
        "messages": state.messages,
        "arrivals": state.notices,
        "dead_letters": state.dead_letters,
        "transactions": state.transactions,
        "retries": state.retries,
        "lag_bytes": state.confirmed_lag,
        "trouble": state.trouble,
        "stopped": state.stopped,
    }
