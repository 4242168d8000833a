"""Our side of a history: the job's planner and dispatcher on one store, and a stream of messages."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.source.marks import marks_of
from reput.streaming.source.options import parse
from reput.streaming.source.ranges.reader import RangeReader
from reput.streaming.source.stream import StreamReader
from reput.streaming.writers import follower as live
from tests.histories.points import POINTS, Killed

if TYPE_CHECKING:
    from pathlib import Path

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.settings.config import StoreConfig

# Between two looks, s.
SECONDS = 0.6
_TURNS = 4
_TURN_SECONDS = 0.05


class Follower:
    """What a job does with one store, without Spark: plan, dispatch, tend; or follow it, live."""

    def __init__(self, config: StoreConfig, *, is_live: bool = False) -> None:
        """Open the output; see `StoreDispatcher`.

        Args:
            config: the store.
            is_live: do what `reput run` does; else what a batch of `reput rebuild` does.
        """
        self.config = config
        self._is_live = is_live
        self._live: live.Follower | None = None
        self.dispatcher = StoreDispatcher(config, threads=1)
        self.events: list[str] = list(self.dispatcher.recovery.reasons)
        end = self.dispatcher.progress.end
        options = _options(config) | {
            "rows": "ranges",
            "startingOffsets": json.dumps({"store": end if end >= 0 else "earliest"}),
        }
        self._reader = RangeReader(parse(options))
        self._offset: dict[str, int] | None = None

    @property
    def end(self) -> int:
        """Return the physical offset up to which the log is dispatched."""
        return self.dispatcher.progress.end

    def poll(self) -> None:
        """Do what a batch does, if there is something for one, and what comes between two."""
        try:
            self._poll()
        finally:
            self.events += [e for batch in self.dispatcher.take_ended() for e in batch.events]

    def _poll(self) -> None:
        POINTS.clock += SECONDS
        if self._is_live:
            self._follow()
            return
        if self._offset is None:
            self._offset = self._reader.initialOffset()
        rows, end = self._reader.read(self._offset)
        if end != self._offset:
            for _, _, stop in rows:
                self.events += self.dispatcher.dispatch(stop).events
            self._offset = json.loads(json.dumps(end))
        self.dispatcher.flush_if_due()
        if (batch := self.dispatcher.follow()) is not None:
            self.events += batch.events
        if self.dispatcher.waits:
            self.events += self.dispatcher.dispatch_waiting().events

    def _follow(self) -> None:
        """Take as many turns as a last record needs to settle."""
        if self._live is None:
            self._live = live.Follower(self.dispatcher, skips_corrupt=False)
        for _ in range(_TURNS):
            batches: list[Batch] = []
            self._live.turn(batches, lambda _: None, lambda: False)
            for batch in batches:
                self.events += batch.events
            POINTS.clock += _TURN_SECONDS

    def close(self) -> None:
        """Stop in order."""
        self.dispatcher.close()

    def abandon(self) -> None:
        """Give back what a killed process would no longer hold."""
        POINTS.is_dead = True
        discard(self.dispatcher)


def discard(dispatcher: StoreDispatcher) -> None:
    """Give back locks, maps and descriptors without changing a file."""
    output = dispatcher.parts.output
    for held in (dispatcher.pipeline, output.entries, output.special, output.index):
        with contextlib.suppress(Killed):
            held.close()
    with contextlib.suppress(Killed):
        dispatcher.abandon()


class Stream:
    """A query of messages with a checkpoint."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._reader = StreamReader(parse(options))
        self._offset: dict[str, Any] | None = None
        self.rows: list[dict[str, Any]] = []

    @property
    def position(self) -> int:
        """Return the physical offset up to which it has read, -1 before it has."""
        if self._offset is None:
            return -1
        return marks_of(self._offset)["store"].position

    def restart(self) -> None:
        """Begin another process with the same checkpoint."""
        self._reader = StreamReader(parse(self._options))

    def poll(self, pause: Any = None) -> None:
        """Read what is new; `pause` is called between planning and reading."""
        POINTS.clock += SECONDS
        reader = self._reader
        if self._offset is None:
            self._offset = reader.initialOffset()
        end = reader.latestOffset(self._offset, reader.getDefaultReadLimit())
        if pause is not None:
            pause()
        if end == self._offset:
            return
        rows: list[dict[str, Any]] = []
        for partition in reader.partitions(self._offset, end):
            for batch in reader.read(partition):
                rows += batch.select(COLUMNS).to_pylist()
        # Spark's checkpoint is JSON; a batch counts when all of it is there.
        self.rows += rows
        self._offset = json.loads(json.dumps(end))


COLUMNS = ["physicalOffset", "topic", "queueId", "queueOffset", "tags", "keys", "body"]


def _options(config: StoreConfig, output: Path | None = None) -> dict[str, str]:
    store = {
        "path": str(config.path),
        "brokerVersion": config.settings.version.family,
        "broker": dict(config.properties),
    } | ({"output": str(output)} if output is not None else {})
    return {"stores": json.dumps({"store": store})}


def stream_options(config: StoreConfig) -> dict[str, str]:
    """Return the options of a stream of a store's messages."""
    return _options(config)


def batch_options(config: StoreConfig, output: Path | None) -> dict[str, str]:
    """Return the options of a query of a store's messages, by the queues and index of an output."""
    return _options(config, output)
