"""Machine code that is kept is used only while all that was compiled into it is the same."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
import types
from enum import Enum
from pathlib import Path

import numba
import numpy as np
import pytest

from reput.formats.kernels import consumequeue, heads, memory
from reput.formats.kernels.compiled import kernel, making_kernel
from reput.formats.kernels.ingredients import digest_of

ROOT = Path(__file__).parent.parent.parent.parent
DECORATORS = {"kernel", "inlined_kernel", "making_kernel"}

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def kernels() -> dict[str, object]:
    """Return all kernels of the project by their full names."""
    found = {}
    for folder in ("formats", "stores", "remoting", "sinks", "streaming"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.FunctionDef) and DECORATORS & {
                    getattr(each, "id", "") for each in node.decorator_list
                }:
                    parts = path.relative_to(ROOT).with_suffix("").parts
                    module = ".".join(("reput", *parts))
                    found[f"{module}.{node.name}"] = getattr(
                        importlib.import_module(module), node.name
                    )
    return found


def digests() -> dict[str, str]:
    # Imported first: numba hears of overloads when it is refreshed.
    found, known = kernels(), {}
    numba.core.registry.cpu_target.target_context.refresh()
    return {name: digest_of(each, known) for name, each in found.items()}


def run(code, **environment) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout


class TestKernels:
    """Those of the project."""

    def test_another_process_finds_the_same(self):
        """Or nothing that is kept would ever be used."""
        ours = digests()
        assert len(ours) > 50

        code = "import json; from tests.formats.kernels.test_ingredients import *; print(json.dumps(digests()))"
        assert json.loads(run(code, PYTHONHASHSEED="7")) == ours

    def test_each_number_that_a_kernel_names_counts(self, monkeypatch):
        found, tried = kernels(), 0
        numba.core.registry.cpu_target.target_context.refresh()
        for name, each in found.items():
            known = digest_of(each)
            names = each.py_func.__globals__
            for constant in each.py_func.__code__.co_names:
                value = names.get(constant)
                if isinstance(value, (int, np.integer)):
                    with monkeypatch.context() as changed:
                        one = type(value)(1) if isinstance(value, np.integer) else 1
                        changed.setitem(names, constant, value ^ one)
                        assert digest_of(each) != known, (name, constant)
                    tried += 1
            assert digest_of(each) == known
        assert tried > 200

    @pytest.mark.parametrize("name", ["SLOTS", "OUTLINE_ROOM", "TALLY"])
    def test_places_of_lanes_count(self, monkeypatch, name):
        """The kernel that reads sockets names none of them: those that it calls do."""
        ready = importlib.import_module("reput.remoting.lanes.ready").answer_ready
        places = importlib.import_module("reput.remoting.lanes.places")
        before, others = digest_of(ready), digest_of(consumequeue.put)
        monkeypatch.setattr(places, name, getattr(places, name) + 1)

        assert digest_of(ready) != before
        assert digest_of(consumequeue.put) == others

    def test_what_an_intrinsic_emits_counts(self, monkeypatch):
        """Keys of the hash of records: a constant of one module, emitted by an intrinsic of another."""
        numba.core.registry.cpu_target.target_context.refresh()
        before = digest_of(heads.sum_heads)
        monkeypatch.setattr(memory, "KEYS", (1, *memory.KEYS[1:]))

        assert digest_of(heads.sum_heads) != before

    def test_an_overload_stands_in_for_a_function_of_ours(self):
        """What is put in place of numpy's or numba's own functions and methods would not be seen."""
        kernels()
        registry = numba.core.typing.templates.builtin_registry
        ours = [
            getattr(template, "key", None)
            for template in [*registry.functions, *registry.attributes]
            if "_overload_func" in vars(template)
            and (template._overload_func.__module__ or "").startswith("reput.")
        ]

        assert len(ours) > 20
        assert [key for key in ours if not isinstance(key, types.FunctionType)] == []
        assert all(key.__module__.startswith("reput.") for key in ours)


class Colour(Enum):
    RED = "red"


def loader(bits):
    def load(x):
        return x + bits

    return load


BYTE, WORD = kernel(loader(8)), kernel(loader(16))
SCALE, TABLE, MODULE, NAMES = 3, np.arange(4), types.ModuleType("names"), frozenset(("a", "b"))
MODULE.ROOM = 5
UNKNOWN = object()


@kernel
def whole(x, by=2):
    """Return nothing of interest."""
    part = BYTE(x) - WORD(x)
    return part * SCALE + TABLE[1] * MODULE.ROOM * by


@making_kernel
def made(x):
    return [each + SCALE for each in range(x)]


class TestDigest:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("SCALE", 4),
            ("SCALE", 3.0),
            ("SCALE", True),
            ("SCALE", np.int32(3)),
            ("SCALE", "3"),
            ("SCALE", (3,)),
            ("SCALE", Colour.RED),
            ("SCALE", Colour),
            ("TABLE", np.arange(5)),
            ("TABLE", np.arange(4).reshape(2, 2)),
            ("TABLE", np.arange(4, dtype=np.int32)),
            ("WORD", BYTE),
            ("SCALE", len),
            ("SCALE", loader),
            ("SCALE", types),
        ],
    )
    def test_each_value_counts(self, monkeypatch, name, value):
        before = digest_of(whole)
        monkeypatch.setitem(globals(), name, value)

        assert digest_of(whole) != before

    def test_what_is_the_same_is(self, monkeypatch):
        """
        A constant that a kernel does not name, and a docstring, are not compiled into it.
        """
        before = digest_of(whole)
        monkeypatch.setattr(MODULE, "OTHER", 1, raising=False)
        monkeypatch.setitem(globals(), "TABLE", TABLE.copy())
        monkeypatch.setitem(globals(), "NAMES", ())

        assert digest_of(whole) == before

    def test_which_is_which_counts(self, monkeypatch):
        """Two kernels of one name and one code, that differ in what encloses them."""
        before = digest_of(whole)
        monkeypatch.setitem(globals(), "BYTE", WORD)
        monkeypatch.setitem(globals(), "WORD", BYTE)

        assert digest_of(whole) != before

    def test_options_and_defaults_count(self, monkeypatch):
        before = digest_of(whole)
        with monkeypatch.context() as changed:
            changed.setitem(whole.targetoptions, "boundscheck", True)
            assert digest_of(whole) != before
        monkeypatch.setattr(whole.py_func, "__defaults__", (3,))
        assert digest_of(whole) != before

    def test_what_a_part_of_the_code_names_counts(self, monkeypatch):
        before = digest_of(made)
        monkeypatch.setitem(globals(), "SCALE", 4)

        assert digest_of(made) != before

    def test_what_a_function_of_c_takes_counts(self, monkeypatch):
        found = set()
        for takes in (numba.int32, numba.int64):
            function = numba.types.ExternalFunction("usleep", numba.int32(takes))
            monkeypatch.setitem(globals(), "SCALE", function)
            found |= {digest_of(whole), digest_of(whole)}

        assert len(found) == 2

    def test_what_cannot_be_compared_is_refused(self, monkeypatch):
        """Else a change of it would not be seen, or nothing that is kept would ever be used."""
        monkeypatch.setitem(globals(), "SCALE", UNKNOWN)

        with pytest.raises(TypeError, match="nothing tells whether it is the same"):
            digest_of(whole)


PARTS = """
from numba import types
from numba.extending import intrinsic, overload, register_jitable
from reput.formats.kernels.compiled import kernel

SCALE = 3

@kernel
def shifted(x):
    return x + 1

def weight(x):
    return x

@overload(weight)
def _weight(x):
    return lambda x: x * 10

@register_jitable
def halved(x):
    return x // 2

@intrinsic
def _plus(context, x):
    def generate(context, builder, signature, arguments):
        return builder.add(arguments[0], arguments[0].type(100))
    return types.int64(types.int64), generate

def plus(x):
    return x

@overload(plus)
def _plus_100(x):
    return lambda x: _plus(x)
"""
WHOLE = """
from reput.formats.kernels.compiled import kernel
from tiny import parts as p
from tiny.parts import halved, plus, shifted, weight

@kernel
def whole(x):
    return p.SCALE * shifted(x) + weight(x) + halved(x) + plus(x)
"""
ASK = """
from reput.formats.kernels.compiled import called_with
from tiny.whole import whole

print(called_with(whole, 1)(8), *(each.total() for each in whole.stats[1:]))
"""


def test_what_is_kept_is_used_until_a_part_changes(tmp_path):
    """
    Each process is new, as after an upgrade; the kernel's own module stays the same throughout.
    """
    package = tmp_path / "tiny"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "whole.py").write_text(WHOLE)
    parts = package / "parts.py"
    text = PARTS

    def answer() -> list[int]:
        parts.write_text(text)
        return [int(each) for each in run(ASK, PYTHONPATH=str(tmp_path)).split()]

    expected = 3 * 9 + 80 + 4 + 108
    assert answer() == [expected, 0, 1]
    for old, new, more in (
        ("SCALE = 3", "SCALE = 4", 9),
        ("x + 1", "x + 2", 4),
        ("x * 10", "x * 20", 80),
        ("x // 2", "x // 4", -2),
        ("type(100)", "type(300)", 200),
    ):
        text = text.replace(old, new)
        expected += more
        assert answer() == [expected, 0, 1], new
    text += "# Nothing that is compiled.\n"
    assert answer() == [expected, 1, 0]
