"""The SQL92 expressions that groups subscribe with: a broker's `ConsumerFilterManager`.

A pull without an expression of its own is filtered by what is registered here, not by the group's
subscription. Both have versions of their own, and clients wait until both are new enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reput.formats.filters.consumerfilter import ConsumerFilter
from reput.remoting.reading.filters import is_tag
from reput.stores.config.filters import bloom_of
from reput.stores.config.message_filter import FilterError, compile_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.formats.filters.consumerfilter import Filters
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.remoting.reading.served import Subscription

DEAD_MS = 24 * 3600 * 1000
# Any peer can register filters, so their number is bounded. Dead ones go first.
_MOST = 1 << 14


class RegisteredFilters:
    """Filters by topic and group. Those of a group that left are kept, marked as dead."""

    def __init__(
        self, settings: BrokerSettings, saved: Filters, clock: Callable[[], float]
    ) -> None:
        """Begin with what the broker had registered.

        Args:
            settings: the broker's.
            saved: its `consumerFilter.json`.
            clock: seconds since 1970. Bit maps are made for filters that were born before.

        Raises:
            ValueError: a setting of the bloom filter is beyond its range.
        """
        self._string_operators = settings.version.has_string_operators
        self._bloom = bloom_of(saved, settings)
        self._clock = clock
        # As the broker does when it starts: where one has another size, none counts.
        fits = all(entry.fits(self._bloom) for entries in saved.values() for entry in entries)
        now = self._now()
        self._filters = {
            (topic, entry.group): entry if entry.dead else replace(entry, dead_time=now)
            for topic, entries in (saved if fits else {}).items()
            for entry in entries
        }

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        """Return what a group registered for a topic, None if it did not."""
        return self._filters.get((topic, group))

    def register(self, group: str, subscriptions: Mapping[str, Subscription]) -> None:
        """Take over what a member of a group subscribes to."""
        for topic, subscription in subscriptions.items():
            if not is_tag(subscription.kind) and subscription.expression:
                self._register(topic, group, subscription)
        self._mark_dead(group, subscriptions)

    def unregister(self, group: str) -> None:
        """Mark the filters of a group as dead: it has no members."""
        self._mark_dead(group, ())

    def drop_dead(self) -> None:
        """Forget the filters of groups that left a day ago (`ConsumerFilterManager#clean`)."""
        now = self._now()
        self._filters = {
            key: each for key, each in self._filters.items() if not each.expired(now, DEAD_MS)
        }

    def _register(self, topic: str, group: str, said: Subscription) -> None:
        key = topic, group
        known = self._filters.get(key)
        if known is not None and said.version <= known.client_version:
            if said.version == known.client_version and known.dead:
                self._filters[key] = replace(known, dead_time=0)
            return
        if known is not None and (known.expression, known.expression_type) == said[:2]:
            self._filters[key] = replace(known, client_version=said.version, dead_time=0)
            return
        if not self._compiles(said) or (known is None and not self._has_room()):
            # Its pulls are answered with 27.
            self._filters.pop(key, None)
            return
        positions = self._bloom.positions(group, topic)
        self._filters[key] = ConsumerFilter(
            group,
            said.expression,
            said.kind,
            self._now(),
            0,
            positions,
            self._bloom.bits,
            said.version,
        )

    def _has_room(self) -> bool:
        if len(self._filters) >= _MOST:
            self._filters = {key: each for key, each in self._filters.items() if not each.dead}
        return len(self._filters) < _MOST

    def _compiles(self, said: Subscription) -> bool:
        try:
            compile_filter(said.expression, said.kind, string_operators=self._string_operators)
        except FilterError:
            return False
        return True

    def _mark_dead(self, group: str, besides: object) -> None:
        for key, known in self._filters.items():
            topic, name = key
            if name == group and topic not in besides and not known.dead:  # type: ignore[operator]
                self._filters[key] = replace(known, dead_time=self._now())

    def _now(self) -> int:
        return int(self._clock() * 1000)
