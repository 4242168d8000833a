"""What is compiled into a kernel, as one digest: the same digest, the same machine code.

numba freezes what a kernel's code names: constants, the kernels that it calls, and what `overload`
and `intrinsic` put in place of a call. So the digest is of all that can be reached over names: of
our functions the code, of numbers, texts and arrays the value, and the name of what is Python's,
numpy's or numba's own.

It looks at what the process holds, not at files: they may be newer than what was imported.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core.registry import cpu_target
from numba.core.types import ExternalFunction, Function, Type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Packages whose functions count with their name. What numba keeps names its version.
_FOREIGN = {"", "numba", "numpy", "llvmlite", *sys.stdlib_module_names}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def digest_of(kernel: Any, known: dict[int, Ingredient] | None = None) -> str:
    """Return the digest of a kernel.

    Args:
        kernel: as numba's `njit` returned it.
        known: what earlier calls found, by identity, to look at once; grows. What it has is not
            looked at again, so nothing may have changed since.

    Raises:
        TypeError: the kernel reaches an object of a kind that is not known here.
    """
    known = {} if known is None else known
    whole = hashlib.sha256()
    reached = [kernel]
    numbers = {id(kernel): 0}
    # Grows meanwhile.
    for each in reached:
        if id(each) not in known:
            known[id(each)] = Ingredient(each)
        ingredient = known[id(each)]
        for other in ingredient.leads_to:
            if id(other) not in numbers:
                numbers[id(other)] = len(reached)
                reached.append(other)
        ways = [numbers[id(other)] for other in ingredient.leads_to]
        whole.update(ingredient.digest)
        whole.update(repr(ways).encode())
    return whole.hexdigest()


class Ingredient:
    """A function, kernel, intrinsic or class of ours, without what it leads to.

    Attributes:
        digest: of its code and the values that it names.
        leads_to: functions, kernels, intrinsics and classes of ours that it names.
    """

    def __init__(self, subject: Any) -> None:
        """Look at it.

        Args:
            subject: the function, kernel, intrinsic or class.
        """
        # As long as it is held here, no other object has its identity.
        self._subject = subject
        self._modules: set[ModuleType] = set()
        self._hash = hashlib.sha256()
        self.leads_to: list[Any] = []
        if isinstance(subject, type):
            self._take_class(subject)
        else:
            self._take_callable(subject)
        self.digest = self._hash.digest()

    def _tell(self, *words: Any) -> None:
        self._hash.update(repr(words).encode())

    def _take_callable(self, subject: Any) -> None:
        if self._take_overloads(subject):
            # Its own code is never compiled then.
            return
        # Kernels have options. They wrap their function, as intrinsics do.
        self._tell(sorted(getattr(subject, "targetoptions", {}).items()))
        function = inspect.unwrap(subject)
        self._take_code(function.__code__, function.__globals__, without=function.__doc__)
        self._take(function.__defaults__, ())
        for value in _enclosed(function):
            self._take(value, function.__code__.co_names)

    def _take_class(self, subject: type) -> None:
        if issubclass(subject, Enum):
            self._take([(each.name, each.value) for each in subject], ())
            return
        for base in subject.__mro__[1:]:
            self._take(base, ())
        for name, member in vars(subject).items():
            part = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            is_value = isinstance(part, (tuple, *_PLAIN)) and not name.startswith("__")
            if is_value or isinstance(part, FunctionType):
                self._tell(name)
                self._take(part, ())

    def _take_code(self, code: CodeType, names: dict[str, Any], without: Any = None) -> None:
        self._tell(code.co_code, code.co_names, code.co_varnames)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._take_code(constant, names)
            elif constant is not without or constant is None:
                self._take(constant, ())
        for name in code.co_names:
            # Names of attributes are among them, and Python's own, which have no value here.
            if name in names:
                self._tell(name)
                self._take(names[name], code.co_names)

    def _take_overloads(self, function: Any) -> bool:
        """Take what numba compiles where a kernel calls a function; False if that is its code."""
        found = False
        for template in _templates(function):
            overload = getattr(template, "_overload_func", None)
            if overload is None or not (_is_ours(function) or _is_ours(overload)):
                continue
            self._tell(sorted(template._jit_options.items()))  # noqa: SLF001 - numba has no other way
            # `register_jitable` is an overload of numba's own that leads to the function.
            if _is_ours(overload):
                self.leads_to.append(overload)
                found = True
        return found

    def _take(self, value: Any, attributes: Iterable[str]) -> None:
        """Take what a name stands for.

        Args:
            value: what it is.
            attributes: that the code names, of a module.
        """
        if isinstance(value, _PLAIN):
            self._tell(type(value).__name__, value)
        elif isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            self._tell(value.dtype.descr, value.shape, value.tobytes())
        elif isinstance(value, (frozenset, set)):
            self._take(sorted(value, key=repr), ())
        elif isinstance(value, dict):
            self._take(list(value.items()), ())
        elif isinstance(value, (tuple, list)):
            self._tell(type(value).__name__, len(value))
            for each in value:
                self._take(each, attributes)
        elif isinstance(value, ModuleType):
            self._take_module(value, attributes)
        elif hasattr(value, "__qualname__"):
            self._tell(getattr(value, "__module__", None), value.__qualname__)
            if _is_ours(value):
                self.leads_to.append(value)
            else:
                self._take_overloads(value)
        else:
            self._take_other(value)

    def _take_module(self, module: ModuleType, attributes: Iterable[str]) -> None:
        self._tell(module.__name__)
        # `os.path` has `os` again.
        if module not in self._modules:
            self._modules.add(module)
            for name in attributes:
                if name in vars(module):
                    self._tell(name)
                    value = vars(module)[name]
                    # What is in a module of others is known by its name.
                    if (
                        _is_ours(module)
                        or isinstance(value, _PLAIN)
                        or hasattr(value, "__qualname__")
                    ):
                        self._take(value, attributes)

    def _take_other(self, value: Any) -> None:
        if isinstance(value, ExternalFunction):
            self._tell(value.symbol, str(value.sig))
        elif isinstance(value, (Type, ir.Type, Enum, np.dtype)):
            self._tell(type(value).__name__, repr(value))
        else:
            raise TypeError(f"a kernel names {value!r}, and nothing tells whether it is the same")


def _is_ours(value: Any) -> bool:
    name: str = getattr(value, "__module__", None) or ""
    if isinstance(value, ModuleType):
        name = value.__name__
    return name.partition(".")[0] not in _FOREIGN


def _enclosed(function: Any) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            # A name that is not bound yet.
            yield None


def _templates(function: Any) -> Iterable[Any]:
    if not isinstance(function, (FunctionType, BuiltinFunctionType)):
        return ()
    try:
        found = cpu_target.typing_context.resolve_value_type(function)
    except ValueError:
        return ()
    return found.templates if isinstance(found, Function) else ()
