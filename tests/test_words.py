"""Texts for readers are plain English: no word order or idiom of another language.

CONTRIBUTING.md has the words that we use in place of these. To check more texts, add a reader to
`PLACES`; to ban another turn of phrase, add it to `FOREIGN`.
"""

from __future__ import annotations

import ast
import json
import re
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent
CHART = ROOT / "helm" / "reput"


class Foreign(NamedTuple):
    """A turn of phrase that a reader stumbles over.

    Attributes:
        pattern: what it looks like.
        better: what to write.
        sample: a sentence that has it, to see that the pattern works.
    """

    pattern: str
    better: str
    sample: str


FOREIGN = (
    Foreign(
        r"\bbehind\b",
        "after, past or beyond; `behind` is lag and nothing else",
        "the bytes behind the BLANK mean nothing",
    ),
    Foreign(r"\banew\b", "again", "computes them anew"),
    Foreign(
        r"\b[Ss]o (?:often|many|much|long)\b(?! as\b)(?!(?: [\w-]+){0,5} that\b)",
        "this often, that many, that long",
        "flush everything so often",
    ),
    Foreign(
        r"(?<!here )\b(?:is|are|was|were) no (?!(?:longer|more|less|fewer)\b|\w+er than\b)\w",
        "is not a",
        "bytes that are no record",
    ),
    Foreign(
        r"(?<!there )\b(?:is|are|was|were) none (?:of|that)\b|(?<=[,a] )(?:\w+ )?of no (?!time)\w",
        "is not one of, belongs to no",
        "the magic is none of RocketMQ's",
    ),
    Foreign(r"\bwait(?:s|ed|ing)? with\b", "held back", "a record that was waited with"),
    Foreign(
        r"\b(?:[Tt]ake[sn]?|[Tt]aking|took)(?: (?:it|them|all|items|entries|what \w+ \w+))? back\b",
        "rolled back, removed, reclaimed",
        "the next start takes it back",
    ),
    Foreign(r"\bma(?:k|d)e up for\b", "repeated", "the entry is made up for"),
    Foreign(r"\bany more(?=[.,;:)]|$| and\b| or\b)", "no longer", "it is not there any more."),
    Foreign(r"\bbeneath\b", "below", "the calls beneath"),
    Foreign(r"\bnone such\b", "no such", "there is none such"),
    Foreign(
        r"\b(?:[Gg]o|goes|[Gg]oing|gone|went) on\b",
        "resume after a stop, continue otherwise",
        "dispatch goes on after the gap",
    ),
    Foreign(r"\b[Ww]hoever\b", "anybody who; you", "whoever stops the job"),
    Foreign(
        r"(?:^|[.;:] +)Who\b(?![^.?]*\?)", "a reader who, you", "Who reads the output sees less."
    ),
    Foreign(r"\bcut(?:s|ting)? off\b", "cut away", "records that were cut off"),
    Foreign(
        r", for (?:it|they|there|nothing|none|we|he)\b"
        # A clause, and not a noun with a relative clause: `for the store that it is about`.
        r"|, for (?:(?!(?:that|which|who|whose|where|when|as|to|of|what|each)\b)[\w-]+ ){1,4}"
        r"(?:is|are|was|were|may|can|must|has|have|had|does|makes|goes|begins)\b",
        "because, as",
        "it is refused, for it would mean another time",
    ),
    Foreign(r"(?:^|[.:] +)Which is\b", "This is", "Which is exact."),
    Foreign(r"(?:^|\. +)Have (?!you\b)\w+", "a plain imperative", "Have every entry on disk."),
    Foreign(
        r"(?:^|\. +)Of (?:a|an|such|what|this|these|those)\b",
        "a sentence with a subject and a verb",
        "Of a block, this many records stand for all.",
    ),
    Foreign(
        r"\bso the (?:next (?:ones?|two|three|four|five|six|seven|eight)|rest)(?=[.;,]|$)",
        "say it where it belongs",
        "decimal text, so the next ones",
    ),
    Foreign(r"\bsee there\b", "the answer itself", "Sizes: see there."),
)

# `behind` where it is lag, or a term.
LAG = re.compile(
    r"\b(?:how far(?: it is)?|far|further|furthest|never|half an hour) behind\b"
    r"|\b(?:bytes|seconds|[KMG]i?B) behind(?:[.,;:]|$| \|| its log\b| the log\b| dispatch\b)"
    r"|\b(?:is|are|be|fall|falls|fell|lag|lags) behind(?: (?:its|their|the) (?:log|dispatch)\b"
    r"| (?:dispatch|by)\b|[.,;:]|$)"
    r"|\bbehind(?:,| by| bytes| seconds)"
    r"|\b(?:Kafka|grep) behind\b"
    # A file that a broker could not remove, or what a process did not: the word for it.
    r"|\b(?:left|leaves?)(?: [\w']+){0,4} behind\b"
    r"|\bready-behind\b|_behind_|\bbehind[A-Z]",
    re.IGNORECASE | re.MULTILINE,
)
# Quoted messages and names are the program's, and checked where they are written. Words in italics
# are named, not used.
_CODE = re.compile(
    r"^```.*?^```$|`[^`\n]*(?:\n[^`\n]*)?`|\]\([^)]*\)|(?<![*\w])\*[^*\n]+\*(?![*\w])",
    re.MULTILINE | re.DOTALL,
)


def page(path: Path) -> str:
    """Return a page without code, a paragraph a line."""
    text = _CODE.sub("", path.read_text("utf-8"))
    if path.name == "CHANGELOG.md":
        text = text.partition("\n## [Unreleased]\n")[2].partition("\n## [")[0] or text
    return re.sub(r"\n(?=[^\s|#*\d-])", " ", re.sub(r"\n {2,}", " ", text))


def comments(path: Path) -> str:
    """Return the comments of a YAML file, one a line."""
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    text = "\n".join(line for line in lines if line.startswith("#"))
    return re.sub(r"\n# (?!--|@)", " ", text).replace("# -- ", "")


def template(path: Path) -> str:
    """Return a template's sentences: all of its text, or those of a refusal."""
    text = path.read_text("utf-8")
    if path.suffix == ".tpl":
        return "\n".join(re.findall(r'fail \(?(?:printf )?"([^"]*)"', text))
    return re.sub(r"\{\{.*?\}\}", "", text)


def alerts(path: Path) -> str:
    """Return summaries and descriptions."""
    rules = yaml.safe_load(path.read_text("utf-8"))["groups"]
    every = [rule.get("annotations", {}) for group in rules for rule in group["rules"]]
    return "\n".join(each[name] for each in every for name in each if name != "runbook_url")


def described(path: Path) -> str:
    """Return titles and descriptions of a JSON file."""

    def each(value: Any) -> Iterator[str]:
        if isinstance(value, list):
            for part in value:
                yield from each(part)
        elif isinstance(value, dict):
            for name, part in value.items():
                if name in {"title", "description"} and isinstance(part, str):
                    yield part
                yield from each(part)

    return "\n".join(each(json.loads(path.read_text("utf-8"))))


def said(path: Path) -> str:
    """Return the texts of a module: docstrings, help, errors."""
    lines = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [p.value if isinstance(p, ast.Constant) else "X" for p in parts]
        if isinstance(parts[0], ast.Constant) and all(isinstance(text, str) for text in texts):
            # Words of a sentence: names, options and patterns have no blanks.
            lines += [
                " ".join(_CODE.sub("", each).split()) for each in "".join(texts).split("\n\n")
            ]
    return "\n".join(line for line in lines if " " in line)


def module(path: Path) -> str:
    """Return the texts of a module and its comments, a run of comments a line."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    notes, last = [""], 0
    for token in tokenize.generate_tokens(iter(lines).__next__):
        if token.type == tokenize.COMMENT:
            text = _CODE.sub("", token.string.lstrip("#: "))
            if token.start[0] == last + 1:
                notes[-1] += f" {text}"
            else:
                notes.append(text)
            last = token.start[0]
    return "\n".join([said(path), *notes])


# Which texts are read, and how: a pattern below the checkout, and what returns its sentences.
PLACES: tuple[tuple[str, Callable[[Path], str]], ...] = (
    ("README.md", page),
    ("CHANGELOG.md", page),
    ("CONTRIBUTING.md", page),
    ("docs/**/*.md", page),
    ("docs/json/*.json", described),
    ("tests/*/README.md", page),
    ("helm/reput/*.md", page),
    ("helm/reput/values.yaml", comments),
    ("helm/reput/templates/NOTES.txt", template),
    ("helm/reput/templates/*.tpl", template),
    ("helm/reput/files/alerts.yaml", alerts),
    ("helm/reput/files/dashboard.json", described),
    ("ARCHITECTURE.md", page),
    ("checkpoints/**/*.py", module),
    ("formats/**/*.py", module),
    ("reput/*.py", module),
    ("remoting/**/*.py", module),
    ("sinks/**/*.py", module),
    ("stores/**/*.py", module),
    ("streaming/**/*.py", module),
    ("docs/examples/*.py", module),
    ("benchmarks/*.py", module),
    ("helm/**/*.py", module),
    ("tests/**/*.py", module),
)


def texts() -> list[tuple[str, str]]:
    """Return (name, sentences) of every text that is checked."""
    return [
        (str(path.relative_to(ROOT)), read(path))
        for pattern, read in PLACES
        for path in sorted(ROOT.glob(pattern))
        # It has samples of what is foreign.
        if path != Path(__file__)
    ]


def found(text: str) -> list[str]:
    """Return what is foreign in a text, with what to write."""
    hits = []
    for phrase in FOREIGN:
        where = LAG.sub("", text) if "behind" in phrase.pattern else text
        hits += [
            f"{where[max(0, m.start() - 50) : m.end() + 30]!r}: {phrase.better}"
            for m in re.finditer(phrase.pattern, where, re.MULTILINE)
        ]
    return hits


def test_every_place_has_sentences():
    for pattern, read in PLACES:
        assert sum(len(read(path)) for path in ROOT.glob(pattern)) > 500, pattern


@pytest.mark.parametrize(("name", "text"), texts(), ids=[name for name, _ in texts()])
def test_nothing_is_foreign(name, text):
    assert found(text) == []


@pytest.mark.parametrize("phrase", FOREIGN, ids=lambda phrase: phrase.pattern)
def test_a_pattern_finds_its_sample(phrase):
    assert any(phrase.better in hit for hit in found(phrase.sample))


@pytest.mark.parametrize(
    "text",
    [
        "The dispatcher falls behind its log.",
        "Kafka is behind dispatch by 2 GiB.",
        "It is 1 MiB behind.",
        "Furthest behind",
        "rocketmq_storage_dispatch_behind_bytes",
        "There is no record after it, and it is no longer than before.",
        "So many records were cut that no point is left.",
        "Kafka does not take holds back Kafka only.",
        "Who reads it?",
        "The name is for it alone, and for nothing else.",
        "It is counted, for the store that it is about.",
        "A file left behind holds nothing of the log.",
    ],
)
def test_plain_english_passes(text):
    """Lag, and words that only look like one of the patterns."""
    assert found(text) == []
