"""The files of a store's `config/` that a broker writes again, where they count for dispatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.stores.config.filters import followed_filters
from reput.stores.config.followed import Followed
from reput.stores.config.topics import TOPICS, TopicTypes, parse_topics

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.filters.consumerfilter import Filters
    from reput.formats.rocketmq.broker import BrokerSettings


class Changing(NamedTuple):
    """The files, to be followed; None for one that does not count.

    Attributes:
        types: of topics.
        filters: of consumers.
    """

    types: Followed[TopicTypes] | None
    filters: Followed[Filters] | None

    @classmethod
    def of(cls, store: Path, settings: BrokerSettings) -> Changing:
        """Read the files of a store as they are now.

        Raises:
            StoreError: one of them cannot be read.
        """
        types = None
        # Older brokers neither know the type nor care what the file says of it.
        if settings.version.has_batch_queues:
            types = Followed(store, TOPICS, parse_topics, TopicTypes(frozenset(), frozenset()))
        has_filters = settings.writes_ext and settings.calculates_bitmaps
        return cls(types, followed_filters(store) if has_filters else None)
