"""What came back from the writers, counted in the summary and the metrics, and logged."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError, mark
from reput.formats.rocketmq import names
from reput.streaming.events import FAILED, RESUMED, kind_of_event
from reput.streaming.job.silences import Silences
from reput.streaming.job.summary import StoreSummary, Summary
from reput.streaming.kafka.news import KafkaNews
from reput.streaming.observe.observer import Observer, Unobserved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.base import Result, Writers
    from reput.streaming.writers.state import State

LOG = logging.getLogger("reput")


class Accounts:
    """What a job has done so far."""

    def __init__(self, writers: Writers, configs: Sequence[StoreConfig], *, is_live: bool) -> None:
        """Begin with nothing done.

        Args:
            writers: say where outputs stand.
            configs: the stores.
            is_live: the job runs until it is stopped.
        """
        self.summary = Summary([StoreSummary(each.name) for each in configs], is_live=is_live)
        self.metrics: Observer = Unobserved()
        # When the first batch began, by the monotonic clock; None before.
        self.began: float | None = None
        self._writers = writers
        self._configs = configs
        self._stores = {each.name: each for each in self.summary.stores}
        self._news = KafkaNews()
        self._silences = Silences(writers, {each.name: each.output for each in configs})
        # What was done since the last batch of Spark's was logged, by store.
        self._untold: dict[str, Batch] = {}
        # By what the failures of stores are known that were logged last.
        self._failures: dict[str, tuple[object, ...]] = {}

    def note_ends(self) -> None:
        """Take over where the outputs stand."""
        for store in self.summary.stores:
            store.end = max(self._writers.end(store.name), 0)

    def take(self, results: Iterable[Result]) -> BaseException | None:
        """Count and say what writers have done; return the first error."""
        failure: BaseException | None = None
        for result in results:
            store = result.store
            self.metrics.phases(store, result.phases)
            for batch in result.batches:
                self._count(store, batch)
            self._say(store, result.events)
            if result.kafka is not None:
                self._stores[store].kafka = result.kafka
            else:
                self.look(store)
            if result.error is not None:
                mark(result.error, store)
                self.metrics.error(store, result.error)
            failure = failure or result.error
        return failure

    def look(self, store: str) -> State | None:
        """Look where a store's output is, and show it; None while its writer has not said so."""
        state = self._writers.state(store)
        if state is not None:
            self._news.say(store, state.kafka)
            self.metrics.state(store, state)
        return state

    def look_at_failure(self, store: str) -> BaseException | None:
        """Return what a store has failed with; say it when it is new, or over."""
        self._silences.look(store)
        failure = self._writers.failure(store)
        self.metrics.seen(store, self._writers.seen_at(store), failure)
        said, known = self._failures.get(store, ()), () if failure is None else _known_by(failure)
        if known:
            self._failures[store] = known
        else:
            self._failures.pop(store, None)
        if known and known != said and len(self._configs) > 1:
            goes_on = len(self._failures) < len(self._configs)
            rest = "; the other stores are dispatched" if goes_on else ""
            LOG.error("%s: %s%s", store, failure, rest, extra={"store": store, "event": FAILED})
        elif said and not known:
            LOG.warning("%s: is dispatched again", store, extra={"store": store, "event": RESUMED})
        return failure

    def failed_stores(self) -> list[str]:
        """Return the names of stores that have failed, the first one first."""
        return list(self._failures)

    def ends(self) -> dict[str, int]:
        """Return how far the stores are dispatched that have neither failed nor are silent."""
        names = (each.name for each in self._configs)
        lost = self._failures.keys() | self._silences.stores
        return {name: self._writers.end(name) for name in names if name not in lost}

    def log_batch(self, batch_id: int) -> None:
        """Log what was done since the last batch of Spark's.

        Args:
            batch_id: Spark's number of the batch.
        """
        untold, self._untold = self._untold, {}
        for store, batch in untold.items():
            _log(store, batch, f"batch {batch_id} of", {"batch": batch_id})

    def log_rest(self) -> None:
        """Log what was done after the last batch of Spark's that was logged, as stores ended."""
        untold, self._untold = self._untold, {}
        for store, batch in untold.items():
            if batch.bytes:
                _log(store, batch, "after the last batch of", {})

    def _count(self, store: str, batch: Batch) -> None:
        if store in self._untold:
            self._untold[store].add(batch)
        else:
            self._untold[store] = replace(batch)
        summary = self._stores[store]
        summary.messages += batch.messages
        summary.bytes += batch.bytes
        summary.batches += 1
        summary.busy_seconds += batch.seconds
        if self.summary.is_live:
            self.summary.busy_seconds += batch.seconds
        summary.end = batch.end
        if batch.messages and self.began is not None:
            since = batch.seconds - batch.dispatch_seconds
            self.summary.dispatch_seconds = time.monotonic() - since - self.began
        self._say(store, batch.events)
        if (state := self._writers.state(store)) is not None:
            self.metrics.batch(store, batch, state)

    def _say(self, store: str, events: Sequence[str]) -> None:
        self._stores[store].events += events
        for event in events:
            kind = kind_of_event(event)
            LOG.warning("%s: %s", store, event, extra={"store": store, "event": kind})

    def finish(self) -> Summary:
        """Return the summary, with the files that the outputs have now."""
        self.summary.seconds = time.monotonic() - self.began if self.began else 0.0
        for config, store in zip(self._configs, self.summary.stores, strict=True):
            store.files = sorted(
                str(path.relative_to(config.output))
                for kind in names.DISPATCHED
                for path in (config.output / kind).rglob("*")
                if path.is_file()
            )
        return self.summary


def _known_by(error: BaseException) -> tuple[object, ...]:
    """Return what an error has in common with the same one later: all but how long it lasts."""
    if isinstance(error, ReputError):
        lasting = [value for name, value in error.fields.items() if name != "seconds"]
        return error.code, *lasting
    return type(error), str(error)


def _log(store: str, batch: Batch, which: str, numbers: Mapping[str, int]) -> None:
    LOG.info(
        "%s %s: %d messages, %d bytes in %.3f s, at %d",
        which,
        store,
        batch.messages,
        batch.bytes,
        batch.seconds,
        batch.end,
        extra={
            **numbers,
            "store": store,
            "messages": batch.messages,
            "bytes": batch.bytes,
            "seconds": round(batch.seconds, 3),
            "end": batch.end,
        },
    )
