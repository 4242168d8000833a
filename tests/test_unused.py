"""Helpers of tests are used: one that is left over was meant for a call that names another one."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parent
ROOT = TESTS.parent
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def trees() -> dict[Path, ast.Module]:
    """Return what of the repository may name a function of tests."""
    folders = (TESTS, ROOT / "benchmarks", ROOT / "helm")
    paths = (path for folder in folders for path in folder.rglob("*.py"))
    return {path: ast.parse(path.read_text("utf-8")) for path in paths}


def names_in(tree: ast.AST) -> Iterator[str]:
    """Yield what is named anywhere in a piece of code, but not what it is given as its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.arg):
            # A fixture.
            yield node.arg


def unused_locals(tree: ast.Module) -> Iterator[str]:
    """Yield functions within functions that these do not name; decorators may use them."""
    for outer in ast.walk(tree):
        if isinstance(outer, Function):
            used = set(names_in(outer))
            for inner in statements_of(outer):
                if isinstance(inner, Function) and not inner.decorator_list:
                    if inner.name not in used:
                        yield f"{inner.name} in {outer.name}"


def statements_of(function: Function) -> Iterator[ast.AST]:
    """Yield what is inside a function, but not inside its classes and functions."""
    found: list[ast.AST] = list(function.body)
    while found:
        node = found.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            found += ast.iter_child_nodes(node)


def unused_helpers(tree: ast.Module, named: set[str]) -> Iterator[str]:
    """Yield functions of a module that are not named anywhere; pytest calls some by their names."""
    for node in tree.body:
        if isinstance(node, Function) and not node.decorator_list:
            if not node.name.startswith(("test_", "pytest_")) and node.name not in named:
                yield node.name


def test_a_function_within_a_function_is_named_there():
    found = {path: list(unused_locals(tree)) for path, tree in trees().items()}

    assert {path: names for path, names in found.items() if names} == {}


def test_a_function_of_a_module_is_named_somewhere():
    named = {name for tree in trees().values() for name in names_in(tree)}
    found = {path: list(unused_helpers(tree, named)) for path, tree in trees().items()}

    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def test():\n def greet(): pass\n call(greet)", []),
        ("def test():\n def greet(): pass\n call(greet_as_another)", ["greet in test"]),
        ("def test():\n with all:\n  def greet(): pass", ["greet in test"]),
        ("def test():\n @fixture\n def greet(): pass", []),
        ("def test():\n class Full:\n  def emit(self): pass\n call(Full)", []),
    ],
)
def test_what_is_looked_for_is_found(code, expected):
    assert list(unused_locals(ast.parse(code))) == expected
