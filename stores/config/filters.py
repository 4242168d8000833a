"""The SQL92 consumers of a store, for the bit maps of its consume queue extensions.

The bit maps are made with these when messages are dispatched, and save a look at messages when
they are read by a filter that a consumer has subscribed with.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reput.formats.errors import StoreError
from reput.formats.filters import bloomfilter, consumerfilter
from reput.formats.filters.bloomfilter import BloomFilter
from reput.formats.filters.consumerfilter import FilterBitmaps
from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue_ext import MAX_UNIT_SIZE
from reput.stores.config.config_files import read_config
from reput.stores.config.followed import Followed
from reput.stores.config.message_filter import Sql92Filter

if TYPE_CHECKING:
    from os import PathLike

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.config.message_filter import MessageFilter

_FILE = "consumerFilter.json"
# No unit holds more; what states more is damaged.
_MAX_BITS = 8 * MAX_UNIT_SIZE


def bitmaps_of(store: Path, settings: BrokerSettings) -> FilterBitmaps | None:
    """Return what gives a record its bit map, None where the broker makes none.

    The filter's size is the broker's setting; where its properties do not name it, the size that
    the store's own file was written with.

    Raises:
        StoreError: the file of the consumers' filters cannot be read.
    """
    if not (settings.writes_ext and settings.calculates_bitmaps):
        return None
    filters, bloom = _read(store, settings)
    return FilterBitmaps(filters, bloom, string_operators=settings.version.has_string_operators)


def followed_filters(store: Path) -> Followed[consumerfilter.Filters]:
    """Return the consumers' filters of a store, to be followed.

    Raises:
        StoreError: the file of the consumers' filters cannot be read.
    """
    return Followed(store, _FILE, consumerfilter.parse, {})


def bitmaps_from(
    store: Path, filters: consumerfilter.Filters, settings: BrokerSettings
) -> FilterBitmaps:
    """Return what gives a record its bit map by these filters; see `bitmaps_of`.

    Raises:
        StoreError: a setting of the bloom filter is beyond its range.
    """
    try:
        bloom = bloom_of(filters, settings)
    except ValueError as error:
        raise StoreError(store / names.CONFIG / _FILE, str(error), "Correct the setting") from error
    return FilterBitmaps(filters, bloom, string_operators=settings.version.has_string_operators)


def with_bitmaps(
    message_filter: MessageFilter,
    store: str | PathLike[str],
    settings: BrokerSettings,
    topic: str,
) -> MessageFilter:
    """Return the filter with the bits of a group that subscribed to `topic` with its expression.

    It then leaves out messages by the bit maps of their units; what a broker does for that group.
    A filter that no group subscribed with, or one of tags, comes back as it is.

    Raises:
        StoreError: the file of the consumers' filters cannot be read.
    """
    if not isinstance(message_filter, Sql92Filter):
        return message_filter
    filters, bloom = _read(Path(store), settings)
    groups = [
        entry
        for entry in filters.get(topic, ())
        if entry.expression_type == consumerfilter.SQL92
        and entry.expression == message_filter.expression
        and entry.fits(bloom)
    ]
    if not groups:
        return message_filter
    # The one whose bits are in the most messages.
    return message_filter.of_consumer(min(groups, key=lambda entry: entry.born_time), bloom)


def _read(store: Path, settings: BrokerSettings) -> tuple[consumerfilter.Filters, BloomFilter]:
    text = read_config(store, _FILE)
    try:
        filters = consumerfilter.parse(text) if text is not None else {}
        return filters, bloom_of(filters, settings)
    except ValueError as error:
        raise StoreError(
            store / names.CONFIG / _FILE, str(error), f"Restore it, or take {_FILE}.bak"
        ) from error


def bloom_of(filters: consumerfilter.Filters, settings: BrokerSettings) -> BloomFilter:
    """Return the bloom filter of a broker: as its settings say, else as its filters have it.

    Raises:
        ValueError: a setting is beyond its range.
    """
    sized = BloomFilter.sized(
        settings.bloom_error_rate or bloomfilter.ERROR_RATE,
        settings.bloom_consumers or bloomfilter.EXPECTED_GROUPS,
    )
    if settings.bloom_error_rate or settings.bloom_consumers:
        return sized
    found = {
        (len(entry.bit_positions), entry.bit_count)
        for entries in filters.values()
        for entry in entries
        if 0 < entry.bit_count <= _MAX_BITS and entry.bit_count % 8 == 0
    }
    return BloomFilter(*found.pop()) if len(found) == 1 else sized
