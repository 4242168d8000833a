"""Offsets read off a dtype, so that a layout is stated once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def field_offsets(layout: np.dtype[Any]) -> tuple[int, ...]:
    """Return the byte offset of every field of `layout`, in the order of its names."""
    fields = layout.fields
    if fields is None:
        raise TypeError(f"{layout} has no fields")
    return tuple(int(fields[name][1]) for name in layout.names or ())
