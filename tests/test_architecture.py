"""ARCHITECTURE.md names rooms and functions that are there, and every room.

`python -m tests.test_architecture` writes the table of rooms from the packages' first lines.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
FOLDERS = ("streaming", "remoting", "sinks", "checkpoints", "stores", "formats")
_TABLE = re.compile(r"(?<=\| room \| question \|\n\|---\|---\|\n).*?(?=\n\n)", re.DOTALL)
_STEP = re.compile(r"^\d+\. `([\w.]+)`", re.MULTILINE)


def room_table() -> str:
    """Return the rooms of all folders with their questions, as the page has them."""
    rows = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("__init__.py")):
            docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
            place = f"{path.parent.relative_to(ROOT)}/"
            shown = f"**`{place}`**" if place.count("/") == 1 else f"`{place}`"
            rows.append(f"| {shown} | {docstring.splitlines()[0]} |")
    return "\n".join(rows)


def steps() -> list[str]:
    walks = PAGE.read_text("utf-8").partition("## Five walks")[2].partition("\n## ")[0]
    return _STEP.findall(walks)


def test_every_room_is_on_the_page():
    """
    With its question, word for word.
    """
    assert _TABLE.search(PAGE.read_text("utf-8"))[0] == room_table()


@pytest.mark.parametrize("step", steps())
def test_each_step_of_a_walk_is_there(step):
    """
    A module's function, or a method of a class in it.
    """
    module, rest = step, []
    while True:
        module, _, name = module.rpartition(".")
        rest.insert(0, name)
        if (ROOT / module.replace(".", "/")).with_suffix(".py").is_file():
            break
        assert module, step
    found = importlib.import_module(f"reput.{module}")
    for name in rest:
        found = getattr(found, name)
    assert callable(getattr(found, "py_func", found))


def test_there_are_five_walks():
    text = PAGE.read_text("utf-8")

    assert len(re.findall(r"^\*\*One .*\*\*$", text, re.MULTILINE)) == 5
    assert len(steps()) > 40


if __name__ == "__main__":
    written = _TABLE.sub(lambda _: room_table(), PAGE.read_text("utf-8"))
    PAGE.write_text(written, "utf-8")
    subprocess.run(["git", "diff", "--stat", PAGE], cwd=ROOT, check=True)
