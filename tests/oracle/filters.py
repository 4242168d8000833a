#!/usr/bin/env python3
"""Random filter expressions against the real filter module: equal results, error for error.

    python tests/oracle/filters.py --count 10000 --seed 1

An SQL92 expression is made from the grammar, from words thrown together, or is a good one that was
damaged; it is evaluated over maps of properties that are likely to matter to it. Compared are: the
class of the exception that refuses it; for each map TRUE, FALSE, NULL or the class of the exception
it fails with. Tag expressions: the look at the entry's code and the consumer's own at the tag. Bit
maps: a group's bits, and which units are left out.
"""

from __future__ import annotations

import argparse
import base64
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import oracle  # noqa: E402

from reput.formats.filters import sql92  # noqa: E402
from reput.formats.filters.bloomfilter import BloomFilter  # noqa: E402
from reput.formats.filters.consumerfilter import ConsumerFilter  # noqa: E402
from reput.formats.java import strings  # noqa: E402
from reput.formats.rocketmq import broker  # noqa: E402
from reput.formats.rocketmq.consumequeue_ext import Unit  # noqa: E402
from reput.stores.config.message_filter import FilterError, Sql92Filter, compile_filter  # noqa: E402

MAPS = 4
# Of ConsumerFilterManager's constructor without a broker.
BLOOM = BloomFilter.sized(20, 64)
NAMES = ("a", "b", "c", "A", "size", "$x", "_1", "TAGS", "contains", "index", "nullable")
VALUES = (
    *("", "x", "y", "it's", "é", "\U0001f600", "true", "TRUE", "false", "yes", "null"),
    # More digits than Python reads.
    *("0" * 4400 + "5", "-" + "0" * 4400, "9" * 4400),
    *("0", "1", "5", "+5", "-5", "7", "7.5", "5.0", "05", " 5", "5 ", "5L", "5d", "0x1p3"),
    *("2147483647", "2147483648", "-2147483648", "-3000000000", "9223372036854775807"),
    *(
        "9223372036854775808",
        "1e3",
        "1E400",
        "NaN",
        "Infinity",
        "-0.0",
        "0.0",
        "\u0665",
        ".5",
        "5.",
    ),
)
STRINGS = ("''", "'x'", "'y'", "'it''s'", "'5'", "'5.0'", "'true'", "'é'", "'a\nb'", "' '", "'e'")
NUMBERS = (
    *("0", "1", "5", "5L", "7", "7l", "10", "007", "2147483647", "2147483648", "3000000000"),
    *("9223372036854775807", "9223372036854775808", "99999999999999999999", "5.0", "5.", ".5"),
    *("1e3", "1E+3", "1e-3", "0.0", "0e0", "1e400", "1e-400", "4.9e-324", "7.5", "5e", "1.5.2"),
)
TRUTHS = ("TRUE", "FALSE", "NULL", "true", "Null")
WORDS = (
    *("AND", "OR", "NOT", "IS", "IN", "BETWEEN", "CONTAINS", "STARTSWITH", "ENDSWITH", "LIKE"),
    *("and", "Or", "nOT", "is", "in", "between", "contains", "=", "<>", "<", "<=", ">", ">="),
    *("+", "-", "(", ")", ",", "!=", "==", "%", "*", "/", ";", '"', "--", "-- x\n", "/* x */"),
    *("/**/", "/* x", "--\r", "é", ".", "a.b", "a-b", "a+b", "||", "&&"),
)
SPACES = (" ", " ", " ", " ", "  ", "\t", "\n", "\r\n", "\f", " /* c */ ", " -- c\n", "")
TAGS = ("A", "B", "Aa", "BB", "*", " A", "tag", "é", "|", "A | B", "", " ", "\t", "0", "\u3000")


class Case(NamedTuple):
    """One line of the exchange: what is asked, in the driver's form, and what we answer."""

    question: str
    answer: str
    shown: str


class Maker:
    """Makes expressions from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def sql92(self) -> str:
        kind = self.random.random()
        if kind < 0.70:
            return self.expression(self.random.randint(0, 4))
        if kind < 0.88:
            return self.damaged(self.expression(self.random.randint(0, 3)))
        words = (*WORDS, *NAMES, *STRINGS, *NUMBERS, *TRUTHS)
        count = self.random.randint(0, 9)
        return self.join(*(self.random.choice(words) for _ in range(count)))

    def join(self, *parts: str) -> str:
        text = ""
        for part in parts:
            text += part if not text else self.random.choice(SPACES) + part
        return text

    def word(self, text: str) -> str:
        return self.random.choice((text, text, text.lower(), text.title()))

    def expression(self, depth: int) -> str:
        pick = self.random.random
        if depth == 0 or pick() < 0.15:
            return self.comparison(0)
        if pick() < 0.2:
            return self.join("(", self.expression(depth - 1), ")")
        if pick() < 0.2:
            return self.join(self.word("NOT"), self.operand(depth - 1))
        if pick() < 0.3:
            return self.comparison(depth - 1)
        parts = [self.expression(depth - 1)]
        for _ in range(self.random.randint(1, 3)):
            parts += [self.word(self.random.choice(("AND", "OR"))), self.expression(depth - 1)]
        return self.join(*parts)

    def comparison(self, depth: int) -> str:  # noqa: PLR0911 - a line for each form
        choose = self.random.choice
        left = self.operand(depth)
        negated = [self.word("NOT")] if self.random.random() < 0.4 else []
        kind = self.random.randrange(12)
        if kind < 3:
            return self.join(left, choose(("=", "<>")), self.operand(depth))
        if kind < 6:
            return self.join(left, choose(("<", "<=", ">", ">=")), self.operand(depth))
        if kind == 6:
            return self.join(left, self.word("IS"), *negated, self.word("NULL"))
        if kind == 7:
            low, high = self.operand(depth), self.operand(depth)
            return self.join(left, *negated, self.word("BETWEEN"), low, self.word("AND"), high)
        if kind == 8:
            texts = [choose(STRINGS) for _ in range(self.random.randint(1, 7))]
            inside = [part for text in texts for part in (",", text)][1:]
            return self.join(left, *negated, self.word("IN"), "(", *inside, ")")
        if kind < 11:
            name = choose(("CONTAINS", "STARTSWITH", "ENDSWITH"))
            return self.join(left, *negated, self.word(name), choose(STRINGS))
        return left

    def operand(self, depth: int) -> str:  # noqa: PLR0911 - a line for each form
        choose = self.random.choice
        kind = self.random.random()
        if kind < 0.45:
            return choose(NAMES[:3])
        if kind < 0.50:
            return choose(NAMES)
        if kind < 0.75:
            return choose(NUMBERS if self.random.random() < 0.3 else ("1", "5", "7", "7.5", "5L"))
        if kind < 0.82:
            return choose(STRINGS)
        if kind < 0.88:
            return choose(TRUTHS)
        if kind < 0.94:
            inner = self.operand(depth if self.random.random() < 0.5 else 0)
            return self.join(choose(("-", "-", "+", "NOT")), inner)
        return self.join("(", self.expression(depth) if depth else choose(NAMES), ")")

    def damaged(self, text: str) -> str:
        for _ in range(self.random.randint(1, 2)):
            at = self.random.randrange(len(text) + 1)
            until = at + self.random.choice((0, 0, 1, 1, 3))
            text = text[:at] + self.random.choice(("", *WORDS, *NUMBERS, *STRINGS)) + text[until:]
        return text

    def properties(self) -> dict[str, str]:
        choose = self.random.choice
        names = [name for name in NAMES[:3] if self.random.random() < 0.75]
        names += [choose(NAMES)] if self.random.random() < 0.3 else []
        # One in three is such that most comparisons can be made.
        plain = self.random.random() < 0.34
        return {name: choose(("1", "5", "7", "10") if plain else VALUES) for name in names}

    def tags(self) -> str:
        parts = [self.random.choice(TAGS) for _ in range(self.random.randint(0, 4))]
        return self.random.choice(("||", " || ", "|", "|||")).join(parts)


def _text(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def sql92_case(maker: Maker, *, string_operators: bool) -> Case:
    text = maker.sql92()
    maps = [maker.properties() for _ in range(MAPS)]
    words = [
        ",".join(f"{_text(name)}:{_text(value)}" for name, value in properties.items()) or "-"
        for properties in maps
    ]
    question = "\t".join(["SQL92", _text(text), *words])
    shown = f"{text!r} over {maps}"
    try:
        keep = compile_filter(text, "SQL92", string_operators=string_operators)
    except FilterError as error:
        return Case(question, f"!{error.java}", shown)
    expression = sql92.parse(text, string_operators=string_operators)
    answers = []
    for properties in maps:
        try:
            value = expression.evaluate(properties)
            answers.append({True: "T", False: "F", None: "N"}[value])
        except sql92.EvaluationError as error:
            answers.append(f"!{error.java}")
        if keep.matches(properties) != (answers[-1] == "T"):
            answers.append("matches() says something else")
    return Case(question, "\t".join(answers), shown)


def tag_case(maker: Maker) -> Case:
    text = maker.tags()
    tags = [None, *maker.random.choices([tag for tag in TAGS if tag], k=5)]
    words = ["-" if tag is None else _text(tag) for tag in tags]
    question = "\t".join(["TAG", _text(text), *words])
    shown = f"{text!r} over {tags}"
    try:
        keep = compile_filter(text, "TAG")
    except FilterError as error:
        return Case(question, f"!{error.java}", shown)
    answers = []
    for tag in tags:
        by_code = keep.matches_code(strings.hash_code(tag) if tag is not None else 0)
        by_tag = keep.matches({"TAGS": tag} if tag is not None else {})
        answers.append(f"{'FT'[by_code]}{'FT'[by_tag]}")
    return Case(question, "\t".join(answers), shown)


def bits_case(maker: Maker) -> Case:
    group = "".join(maker.random.choices("CID_abé%#", k=maker.random.randint(1, 12)))
    positions = BLOOM.positions(group, "topic")
    consumer = ConsumerFilter(group, "a > 5", "SQL92", 1000, 0, positions, BLOOM.bits, 1)
    keep = compile_filter("a > 5", "SQL92")
    assert isinstance(keep, Sql92Filter)
    keep = keep.of_consumer(consumer, BLOOM)
    units = []
    for _ in range(6):
        size = maker.random.choice((BLOOM.bits // 8,) * 3 + (0, BLOOM.bits // 8 - 1))
        bits = maker.random.getrandbits(8 * size)
        for position in positions:
            bits |= maker.random.choice((0, 1, 1, 1)) << position
        bitmap = (bits & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        units.append(Unit(0, maker.random.choice((999, 1000, 1001, 5000)), bitmap))
    words = [f"{unit.store_timestamp}:{unit.bitmap.hex()}" for unit in units]
    question = "\t".join(["BITS", _text(group), _text("a > 5"), "1000", *words])
    answers = [",".join(map(str, positions)), *("FT"[keep.matches_unit(unit)] for unit in units)]
    return Case(question, "\t".join(answers), f"{group} {words}")


def compare(version: str, count: int, seed: int) -> tuple[list[str], Counter[str]]:
    """Compare `count` SQL92 expressions, and a tenth as many of the others, with that version's.

    Returns:
        What differs, a line each; how often each kind of answer came.
    """
    oracle.build(version)
    known = broker.version_of(version)
    maker = Maker(seed)
    cases = [sql92_case(maker, string_operators=known.has_string_operators) for _ in range(count)]
    others = max(1, count // 10)
    cases += [tag_case(maker) for _ in range(others)]
    cases += [bits_case(maker) for _ in range(others)]
    with tempfile.TemporaryDirectory(prefix="filters-") as root:
        questions, answers = Path(root) / "questions", Path(root) / "answers"
        questions.write_text("".join(f"{case.question}\n" for case in cases), "utf-8")
        oracle.run(version, "Filters", questions, answers, timeout=120 + count // 100)
        found = answers.read_text("utf-8").splitlines()
    if len(found) != len(cases):
        raise oracle.OracleError(f"{len(found)} answers to {len(cases)} questions")
    kinds: Counter[str] = Counter()
    differences = []
    for case, answer in zip(cases, found, strict=True):
        kind = case.question.partition("\t")[0]
        for each in answer.split("\t"):
            kinds[f"{kind} {each if kind != 'BITS' or len(each) == 1 else 'bits'}"] += 1
        if answer != case.answer:
            differences.append(f"{kind} {case.shown}: ours {case.answer!r}, theirs {answer!r}")
    return differences, kinds


def main() -> int:
    """Run the comparisons; the exit code says whether anything differed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000, help="expressions for each version")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--version", action="append", choices=oracle.VERSIONS, help="default: all")
    args = parser.parse_args()
    bad = 0
    for version in args.version or oracle.VERSIONS:
        start = time.monotonic()
        differences, kinds = compare(version, args.count, args.seed)
        for line in differences[:20]:
            print(line)
        bad += len(differences)
        seconds = time.monotonic() - start
        print(
            f"{version}: {args.count} SQL92 expressions, each over {MAPS} maps, from seed {args.seed}:"
            f" {len(differences)} differences ({seconds:.0f} s)"
        )
        print("  " + ", ".join(f"{kind} {times}" for kind, times in sorted(kinds.items())))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
