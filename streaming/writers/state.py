"""Where a store's output stands, as its writer says between batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reput.streaming.settings.space import Space, space_of

if TYPE_CHECKING:
    from reput.checkpoints.progress import Progress
    from reput.formats.errors import FormatError
    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.kafka.state import KafkaState


@dataclass(frozen=True)
class State:
    """Where a store's output stands, as its writer last said.

    Attributes:
        progress: the output's record of it.
        recorded_end: physical offset that is on disk and recorded.
        index_fill: of the newest index file, 0 to 1.
        holds: an out-of-turn record is held back.
        kafka: how far its messages are sent to Kafka, None if they are not.
        flaw: what is wrong past the log's end, None for nothing: the job waits there.
        space: of the output's file system, None if that is not known.
    """

    progress: Progress
    recorded_end: int
    index_fill: float = 0.0
    holds: bool = False
    kafka: KafkaState | None = None
    flaw: FormatError | None = None
    space: Space | None = None

    @classmethod
    def of(cls, dispatcher: StoreDispatcher, sent: KafkaState | None = None) -> State:
        """Return the state of an output that is open in this process.

        Args:
            dispatcher: of the output.
            sent: what was sent to Kafka before it was opened again, None for nothing.
        """
        return cls(
            progress=dispatcher.progress,
            recorded_end=dispatcher.recorded_end,
            index_fill=dispatcher.index.fill,
            holds=dispatcher.holds,
            kafka=dispatcher.kafka.state.since(sent) if dispatcher.kafka is not None else None,
            flaw=dispatcher.flaw,
            space=space_of(dispatcher.config.output),
        )

    def to_send(self) -> State:
        """Return what goes to the driver: queues and trail are long, and stay with the writer."""
        return replace(self, progress=replace(self.progress, queues={}, trail=()))
