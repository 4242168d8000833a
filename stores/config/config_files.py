"""Reads the files of a store's config/ directory, as a broker does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import StoreError
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from pathlib import Path


def read_config(store: Path, name: str) -> str | None:
    """Return the text of `config/NAME`, None when the store has none.

    A broker writes these in place and keeps the previous text beside it as `.bak`. An empty or
    half-written file is one that it is writing.

    Raises:
        StoreError: the file is not text.
    """
    for candidate in (name, f"{name}.bak"):
        path = store / names.CONFIG / candidate
        if path.is_file():
            raw = path.read_bytes()
            if raw.strip().endswith(b"}"):
                try:
                    return raw.decode()
                except UnicodeDecodeError as error:
                    raise unreadable(path, str(error)) from error
    return None


def unreadable(path: Path, why: str) -> StoreError:
    """Return the error for a file that does not hold what it should."""
    found = f"not readable as JSON ({why})"
    return StoreError(path, found, "Restore it from the broker, or from its .bak")
