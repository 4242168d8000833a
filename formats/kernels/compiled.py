"""How kernels are compiled: once, kept on disk, without the interpreter's lock.

numba counts references to each array that a function is handed, by two locked instructions of the
processor a call, and two threads count the same ones. That was a quarter of what parsing a record
cost. A kernel's arrays are its caller's and outlive the call, so `kernel` has nothing counted;
only a kernel that makes an array needs the count: `making_kernel`.

By itself numba uses what it keeps for a kernel as long as the kernel's own module is the same. But
constants of other modules are compiled into it too, and kernels that it calls: an old layout would
meet new arrays, with no bounds checked. So what is kept names its `ingredients` as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from numba import njit, typeof
from numba.core.caching import FunctionCache

from reput.formats.kernels.ingredients import Ingredient, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# numba has no types for some of them.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
}

# What was looked at: most kernels share most of it.
_KNOWN: dict[int, Ingredient] = {}


class _CheckedCache(FunctionCache):
    """What is kept of a kernel on disk, used only if all that is compiled into it is the same."""

    def __init__(self, dispatcher: Any) -> None:
        """Find where it is kept.

        Args:
            dispatcher: the kernel.
        """
        super().__init__(dispatcher.py_func)  # type: ignore[no-untyped-call]
        self._dispatcher = dispatcher
        self._is_stamped = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what is kept for a signature, None if that is nothing, or not the same."""
        # Overloads are known from here on.
        target_context.refresh()
        self._stamp()
        return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature."""
        self._stamp()
        super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    def _stamp(self) -> None:
        # Not sooner: a kernel may name what its module defines after it.
        if not self._is_stamped:
            file = self._cache_file
            file._source_stamp = (file._source_stamp, digest_of(self._dispatcher, _KNOWN))  # noqa: SLF001 - numba has no other way
            self._is_stamped = True


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
    compiled: Any = compile_with(**_OPTIONS, **options)(function)
    # With the compiler off it is the function itself.
    if compiled is not function:
        compiled._cache = _CheckedCache(compiled)  # noqa: SLF001 - as `cache=True` does
    return cast("Kernel", compiled)
