"""The SQL92 consumers of a store, for the bit maps of its consume queue extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from formats.broker import BrokerSettings


def bitmaps_of(store: Path, settings: BrokerSettings) -> None:
    return None
