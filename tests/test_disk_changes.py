"""Files are changed in `checkpoints/disk`, and in few other places, each named with its reason.

Tests of kills, faults and power cuts stand between the calls of `checkpoints/disk`. A change to an
output that is made elsewhere is one that they never try.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PACKAGES = ("reput", "formats", "stores", "checkpoints", "sinks", "remoting", "streaming")
ROOM = "checkpoints/disk/"
# Modules that change files outside of the room, and why they may.
ELSEWHERE = {
    "remoting/lanes/opened.py": "a file in memory, without a name, for answers",
    "streaming/demo/run.py": "the directory of a demonstration, made before there is a store",
    "streaming/demo/writer.py": "a demonstration's commitlog, written as a broker writes it",
    "streaming/dispatch/warm.py": "a log of one message in a temporary directory, to compile kernels",
    "streaming/endings/failures.py": "an account of an unexpected error, on which nothing relies",
    "streaming/export/target.py": "the directory of an export, which Spark fills; not an output",
    "streaming/spark/archive.py": "the JVM's own archive of classes, in the user's cache",
    "streaming/spark/typical_job.py": "a log of one message in a temporary directory, for the archive",
}
OF_OS = {
    "chmod", "chown", "fdatasync", "fsync", "ftruncate", "link", "makedirs", "mkdir", "mkfifo",
    "posix_fallocate", "pwrite", "pwritev", "remove", "removedirs", "rename", "renames", "replace",
    "rmdir", "symlink", "truncate", "unlink", "utime",
}  # fmt: skip
OF_PATH = {
    "chmod", "hardlink_to", "mkdir", "rename", "rmdir", "symlink_to", "touch", "unlink",
    "write_bytes", "write_text",
}  # fmt: skip
WRITING_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}


def mode_of(call: ast.Call, place: int) -> str:
    given = [each.value for each in call.keywords if each.arg == "mode"] + call.args[place:]
    mode = given[0] if given else None
    return mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, str) else ""


def is_change(call: ast.Call) -> bool:
    """
    Tell whether a call changes a file system, by its name.
    """
    called = call.func
    if isinstance(called, ast.Name):
        return called.id == "open" and bool(set("wax+") & set(mode_of(call, 1)))
    if not isinstance(called, ast.Attribute):
        return False
    owner = called.value.id if isinstance(called.value, ast.Name) else ""
    if owner == "os":
        flags = {each.attr for each in ast.walk(call) if isinstance(each, ast.Attribute)}
        # The null device is nobody's file.
        opens = called.attr == "open" and flags & WRITING_FLAGS and "devnull" not in flags
        return called.attr in OF_OS or bool(opens)
    if owner == "shutil":
        return called.attr not in {"disk_usage", "get_terminal_size", "which"}
    if called.attr == "open":
        return bool(set("wax+") & set(mode_of(call, 0)))
    # The room's own functions are called by some of these names, and Typer has a `write_text`.
    return called.attr in OF_PATH and owner not in {"changes", "disk", "formatter"}


def changes_in(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.Call) and is_change(node):
            yield ast.unparse(node.func)


def modules() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def test_files_are_changed_in_one_room():
    """
    What changes an output can be read in one place, and no module is excused without need.
    """
    found = {name for name, text in modules() if any(changes_in(text))}

    assert {name for name in found if not name.startswith(ROOM)} == set(ELSEWHERE)
    assert f"{ROOM}changes.py" in found


def test_formats_know_no_files():
    """
    What the bytes mean is known without a file system, so it is tested and compiled without one.
    """
    for name, text in modules():
        if not name.startswith("formats/"):
            continue
        for node in ast.walk(ast.parse(text)):
            imported = [each.name for each in getattr(node, "names", []) if hasattr(each, "name")]
            if isinstance(node, ast.Import):
                assert not {"os", "mmap", "shutil"} & set(imported), name
            if isinstance(node, ast.Call):
                called = node.func
                said = getattr(called, "id", None) or getattr(called, "attr", None)
                assert said not in {"open", "read_bytes", "read_text", "iterdir", "stat"}, name


@pytest.mark.parametrize(
    "line",
    [
        "os.rename(a, b)",
        "path.unlink()",
        "path.parent.mkdir(parents=True)",
        "open(path, 'wb')",
        "path.open('r+b')",
        "path.open(mode='a')",
        "os.open(path, os.O_RDWR | os.O_CREAT)",
        "shutil.rmtree(path)",
        "path.write_text('x')",
    ],
)
def test_a_change_is_found(line):
    assert list(changes_in(line))


@pytest.mark.parametrize(
    "line",
    [
        "text.replace('a', 'b')",
        "changes.rename(a, b)",
        "path.open('rb')",
        "os.open(path, os.O_RDONLY)",
        "os.open(os.devnull, os.O_WRONLY)",
    ],
)
def test_reading_is_not_a_change(line):
    assert not list(changes_in(line))
