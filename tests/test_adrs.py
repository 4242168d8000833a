"""The decisions in docs/adr: numbered without holes, all of one form."""

from __future__ import annotations

import re
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
