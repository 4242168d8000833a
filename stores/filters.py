"""The SQL92 consumers of a store, for the bit maps of its consume queue extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats import bloomfilter, consumerfilter, names
from formats.bloomfilter import BloomFilter
from formats.consumequeue_ext import MAX_UNIT_SIZE
from formats.consumerfilter import FilterBitmaps
from formats.errors import StoreError
from stores.layout import read_config

if TYPE_CHECKING:
    from pathlib import Path

    from formats.broker import BrokerSettings

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
    text = read_config(store, _FILE)
    try:
        filters = consumerfilter.parse(text) if text is not None else {}
        bloom = _bloom_of(filters, settings)
    except ValueError as error:
        raise StoreError(
            store / names.CONFIG / _FILE, str(error), f"Restore it, or take {_FILE}.bak"
        ) from error
    return FilterBitmaps(filters, bloom, string_operators=settings.version.has_string_operators)


def _bloom_of(filters: consumerfilter.Filters, settings: BrokerSettings) -> BloomFilter:
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
