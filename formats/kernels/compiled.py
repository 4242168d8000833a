"""How kernels are compiled: once, kept on disk, without the interpreter's lock.

numba counts references to each array that a function is handed, by two locked instructions of the
processor a call, and two threads count the same ones. That was a quarter of what parsing a record
cost. A kernel's arrays are its caller's and outlive the call, so `kernel` has nothing counted;
only a kernel that makes an array needs the count: `making_kernel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit, typeof

if TYPE_CHECKING:
    from collections.abc import Callable

    Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# numba has no types for some of them.
_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
}


def kernel(function: Kernel) -> Kernel:
    """Compile a function that reads and writes arrays of its caller, and makes none."""
    return _compiled(function, _nrt=False)


def inlined_kernel(function: Kernel) -> Kernel:
    """Compile a function into each kernel that calls it."""
    return _compiled(function, _nrt=False, inline="always")


def making_kernel(function: Kernel) -> Kernel:
    """Compile a function that makes arrays."""
    return _compiled(function)


def called_with(compiled: Kernel, *arguments: Any) -> Kernel:
    """Return a kernel as a function of arguments that have the types of these, and no others.

    At each call numba looks at what types the arguments have, to find what it has compiled for
    them; that takes longer than a look into an index does. What comes back looks no further than
    to refuse what it cannot read.

    Args:
        compiled: the kernel; with the compiler off it comes back as it is.
        arguments: one of each parameter's type.
    """
    dispatcher: Any = compiled
    type_of: Any = typeof
    if not hasattr(dispatcher, "overloads"):
        return compiled
    types = tuple(type_of(argument) for argument in arguments)
    dispatcher.compile(types)
    entry: Kernel = dispatcher.overloads[types].entry_point
    return entry


def _compiled(function: Kernel, **options: Any) -> Kernel:
    compile_with: Any = njit
    compiled: Kernel = compile_with(**_OPTIONS, **options)(function)
    return compiled
