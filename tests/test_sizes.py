"""How large a room, a module and a function may be; what is larger is listed with its reason.

The rule is for the packages, the chart's programs, the benchmarks, and the rig that makes alerts
fire. Other tests are excepted: their cases stand side by side and each is read alone, so a module
of them may be long. Ruff's rules of complexity hold for tests as well.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
FOLDERS = (
    "reput",
    "formats",
    "remoting",
    "sinks",
    "checkpoints",
    "stores",
    "streaming",
    "helm",
    "benchmarks",
    "tests/alerts",
)
MODULES_IN_A_ROOM = 16
LINES_OF_A_MODULE = 350
LINES_OF_A_FUNCTION = 40
# Compiled code is one function where calls would cost, and a command's signature is its help page.
FREE = {"kernel", "making_kernel", "command"}

LARGE_ROOMS: dict[str, str] = {}
LONG_MODULES: dict[str, str] = {
    "benchmarks/query.py": "one measurement, read like a recipe from its store to its table",
}
LONG_FUNCTIONS: dict[str, str] = {
    "formats/rocketmq/commitlog.py:_read_record": (
        "fields and checks in the order of the bytes; queries read each message by it, a call counts"
    ),
    "benchmarks/kafka.py:main": "options, then rounds in the order that makes them comparable",
    "benchmarks/logs.py:fill": "compiled: a record's fields in the order of its bytes",
    "benchmarks/scale_out.py:run_job": "a driver in a process of its own, from start to figures",
}


def modules() -> list[Path]:
    """Return the modules of the folders, each by its place in the repository."""
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def is_free(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for each in function.decorator_list:
        called = each.func if isinstance(each, ast.Call) else each
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in FREE:
            return True
    return False


def long_functions() -> Iterator[str]:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_free(node):
                continue
            if (node.end_lineno or 0) - node.lineno + 1 > LINES_OF_A_FUNCTION:
                yield f"{named(path)}:{node.name}"


def test_rooms():
    """
    A room that you can take in at a glance: one question, about fifteen modules.
    """
    rooms = {path.parent for path in modules()}
    large = {named(r) for r in rooms if len(list(r.glob("*.py"))) > MODULES_IN_A_ROOM}

    assert large == set(LARGE_ROOMS)


def test_each_room_asks_its_question():
    """
    The first line of a room is a question; what does not answer it belongs elsewhere.
    """
    inits = [
        path for path in modules() if path.name == "__init__.py" and path.parent.name != "reput"
    ]
    assert len(inits) > 30
    for path in inits:
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        assert "? " in docstring.splitlines()[0], path


def test_modules():
    """
    A module that you can read in one sitting.
    """
    long = {
        named(p) for p in modules() if len(p.read_text("utf-8").splitlines()) > LINES_OF_A_MODULE
    }

    assert long == set(LONG_MODULES)


def test_functions():
    """
    A function that you can see whole.
    """
    assert set(long_functions()) == set(LONG_FUNCTIONS)


@pytest.mark.parametrize("listed", [LARGE_ROOMS, LONG_MODULES, LONG_FUNCTIONS])
def test_each_exception_has_a_reason(listed):
    """
    And a reason says why a division would read worse, so it is a sentence.
    """
    assert all(len(reason.split()) > 4 for reason in listed.values())
