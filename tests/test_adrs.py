"""The decisions in docs/adr: numbered without holes, all of one form."""

from __future__ import annotations

import ast
import importlib
import re
from operator import attrgetter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ADRS = sorted((ROOT / "docs" / "adr").iterdir())
PARTS = ["Context", "Decision", "Price"]


def test_the_numbers_have_no_holes():
    assert [path.name[:5] for path in ADRS] == [f"{i + 1:04}-" for i in range(len(ADRS))]


@pytest.mark.parametrize("path", ADRS, ids=lambda path: path.stem)
def test_each_has_a_title_and_three_parts(path):
    """The title repeats the number; context, decision and price come in this order, once."""
    text = path.read_text()

    assert re.match(rf"# {path.name[:4]} \w", text)
    assert re.findall(rf"^\*\*({'|'.join(PARTS)})\.\*\*", text, re.MULTILINE) == PARTS


@pytest.mark.parametrize("path", ADRS, ids=lambda path: path.stem)
def test_paths_that_it_names_exist(path):
    """
    `streaming/job/job.py` is a file, `tests/oracle/` a folder.
    """
    folders = "|".join(
        each.name for each in ROOT.iterdir() if each.is_dir() and each.name[0] != "."
    )
    named = re.findall(rf"`((?:{folders})/[\w./-]*)", path.read_text("utf-8"))

    assert [name for name in named if not (ROOT / name).exists()] == []


KERNELS = {"kernel", "making_kernel"}


def kernels() -> set[str]:
    """Return every compiled function that other modules may call, by its full name."""
    found = set()
    for folder in ("formats", "stores", "sinks", "remoting", "streaming"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    called = [getattr(each, "func", each) for each in node.decorator_list]
                    if KERNELS & {getattr(each, "id", "") for each in called}:
                        module = path.relative_to(ROOT).with_suffix("").as_posix()
                        found.add(f"{module.replace('/', '.')}.{node.name}")
    return found


def test_each_kernel_is_on_the_page_of_twins():
    """
    With its twin and the test that compares the two, or among those that have none.
    """
    (page,) = (path.read_text("utf-8") for path in ADRS if path.name.startswith("0008"))
    rows = [line.split("|")[1:4] for line in page.splitlines() if re.match(r"  \| .*`tests/", line)]
    named = set(re.findall(r"`((?:formats|stores|remoting)\.[\w.]+)`", page)) - {
        "formats.kernels.compiled"
    }
    assert len(rows) > 15
    for kernel, _twin, test in rows:
        text = (ROOT / test.strip(" `")).read_text("utf-8")
        for name in re.findall(r"`([\w.]+)`", kernel):
            # By its own name, or over the module that calls it.
            assert any(part in text for part in name.split(".")[-3:]), (name, test)
    for name in named:
        module, _, rest = name.rpartition(".")
        if not (ROOT / module.replace(".", "/")).with_suffix(".py").is_file():
            module, _, kind = module.rpartition(".")
            if not (ROOT / module.replace(".", "/")).with_suffix(".py").is_file():
                assert (ROOT / name.replace(".", "/")).with_suffix(".py").is_file(), name
                continue
            rest = f"{kind}.{rest}"
        assert attrgetter(rest)(importlib.import_module(f"reput.{module}")), name

    assert kernels() <= named


def test_lark_is_imported_in_one_place():
    """
    As the page about libraries says: the grammar of SQL92 and what builds its trees.
    """
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("formats", "stores", "checkpoints", "sinks", "remoting", "streaming")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"^ *(?:from|import) lark\b", path.read_text("utf-8"), re.MULTILINE)
    }

    assert found == {"formats/filters/sql92.py", "formats/filters/sql92_builder.py"}


def test_a_number_that_is_named_leads_to_that_decision():
    """`[0010](0010-….md)` and `ADR 0010` name a decision that exists, and the one that they link."""
    pages = [ROOT / "ARCHITECTURE.md", ROOT / "README.md", ROOT / "CHANGELOG.md"]
    numbers = {path.name[:4] for path in ADRS}
    links = 0
    for page in [*pages, *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text()
        for words, name in re.findall(
            r"\[([^\]]*\b00\d\d)\]\((?:[\w/.-]*/)?(\d{4}-[\w-]+\.md)", text
        ):
            assert (words[-4:], (ROOT / "docs" / "adr" / name).exists()) == (name[:4], True), page
            links += 1
        assert set(re.findall(r"\bADR (\d{4})\b", text)) <= numbers, page
    assert links > 10
