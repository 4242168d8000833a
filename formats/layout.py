"""Layouts: fields stated once, from which offsets, a Struct and a numpy dtype are derived.

A dtype is made when it is first asked for. Reading one record needs no numpy, and importing numpy
takes a tenth of a second.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

# Name and kind of each field: a signed big-endian integer of 2, 4 or 8 bytes, or `x` and a number
# of other bytes.
Fields = tuple[tuple[str, str], ...]
_CODES = {"i2": "h", "i4": "i", "i8": "q"}


def field_offsets(layout: np.dtype[Any]) -> tuple[int, ...]:
    """Return the byte offset of every field of `layout`, in the order of its names."""
    fields = layout.fields
    if fields is None:
        raise TypeError(f"{layout} has no fields")
    return tuple(int(fields[name][1]) for name in layout.names or ())


def struct_of(fields: Fields) -> struct.Struct:
    """Return the Struct that packs and unpacks one unit of these fields, which are integers."""
    return struct.Struct(">" + "".join(_CODES[kind] for _, kind in fields))


def struct_of_some(fields: Fields, wanted: tuple[str, ...]) -> struct.Struct:
    """Return the Struct of a unit's wanted fields, in their order, up to the last of them."""
    code, gap = ">", 0
    for name, kind in fields:
        if name in wanted:
            code += f"{gap}x{_CODES[kind]}" if gap else _CODES[kind]
            gap = 0
        else:
            gap += int(kind[1:])
    return struct.Struct(code)


def offsets_of(fields: Fields) -> tuple[int, ...]:
    """Return the byte offset of every field."""
    return tuple(struct_of(fields[:i]).size for i in range(len(fields)))


def dtype_of(fields: Fields) -> np.dtype[Any]:
    """Return the numpy dtype of these fields."""
    import numpy as np  # noqa: PLC0415 - see the module

    described: Sequence[tuple[str, str]] = [(name, f">{kind}") for name, kind in fields]
    return np.dtype(list(described))


def lazy_dtype(module: dict[str, Any], dtype_name: str, fields: Fields) -> Callable[[str], Any]:
    """Return a module's `__getattr__`, which makes the module's dtype at its first use.

    Args:
        module: the module's `globals()`; the dtype is put there.
        dtype_name: the dtype's name in the module.
        fields: the dtype's fields.
    """

    def module_getattr(name: str) -> Any:
        if name != dtype_name:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        value = module[name] = dtype_of(fields)
        return value

    return module_getattr
