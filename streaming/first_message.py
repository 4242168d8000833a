"""Has a broker got its first message? It makes its commitlog with that, not when it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stores.log_places import commitlog_directories

if TYPE_CHECKING:
    from streaming.config import StoreConfig


def is_awaited(config: StoreConfig) -> bool:
    """Tell whether a store has no commitlog file with anything in it yet.

    Raises:
        StoreError: it is no store.
    """
    directories = commitlog_directories(config.path, config.settings)
    return not any(
        path.stat().st_size for each in directories if each.is_dir() for path in each.iterdir()
    )
