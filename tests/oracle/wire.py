#!/usr/bin/env python3
"""Random and damaged frames against the real codec and decoder: the same commands, the same ends.

    python tests/oracle/wire.py --count 10000 --seed 1

Compared are: what a server reads of a frame that we wrote, whole or damaged, and whether it closes
the connection; what we read of a frame that RocketMQ wrote; what typed headers are made of fields;
which fields a header has, and which of them must be there.
"""

from __future__ import annotations

import argparse
import base64
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import oracle  # noqa: E402

from reput.remoting.wire import (  # noqa: E402
    admin_headers,
    fields,
    frames,
    name_headers,
    pull_headers,
    send_headers,
)
from reput.remoting.wire.codes import LanguageCode, SerializeType  # noqa: E402
from reput.remoting.wire.command import Command  # noqa: E402
from reput.remoting.wire.errors import FieldError, FrameError  # noqa: E402

VERSIONS = ("5.5.0", "4.9.8")
TEXTS = ("a", "topic", "é", "\U0001f600", 'q"\\\n\x01\x7f', "1", " ", "{}", "x" * 300, "\u2028")
NUMBERS = ("0", "1", "-1", "+5", "2147483648", "9223372036854775808", "", "x", " 1", "1.5", "true")
PIECES = (
    *(
        '"code":105',
        '"code":"105"',
        '"code":1.5',
        '"code":null',
        '"code":2147483648',
        '"code":true',
    ),
    *('"opaque":7', '"opaque":-0', '"opaque":1e2', '"opaque":"x"', '"flag":1', '"flag":"+3"'),
    *(
        '"language":"GO"',
        '"language":"java"',
        '"language":"COBOL"',
        '"language":9',
        '"version":513',
    ),
    *('"remark":"r"', '"remark":null', '"remark":5', '"remark":true', '"remark":{"a":1}'),
    *('"extFields":{}', '"extFields":null', '"extFields":{"a":1,"b":null,"c":true,"d":1.50}'),
    *('"extFields":[]', '"extFields":{"e":{"f":[]},"g":[1,"x"]}', '"nobody":[{}]', '"oneway":true'),
)
# Whole headers that both versions refuse, or read in a way of their own that we refuse.
BROKEN = (
    "",
    "{",
    "{}}",
    "null",
    "[]",
    "1",
    '"a"',
    "{} {}",
    '{"code":0x10}',
    '{"code":1,"flag":[]}',
)
KINDS = {
    kind.__name__: kind
    for module in (pull_headers, admin_headers, name_headers, send_headers)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, fields.Header) and kind is not fields.Header
}
JAVA = {str: {"String", "BoundaryType"}, bool: {"Boolean", "boolean"},
        fields.Int: {"Integer", "int"}, fields.Long: {"Long", "long"}}  # fmt: skip


class Case(NamedTuple):
    """One line of the exchange: what is asked, and what we answer."""

    question: str
    answer: str


def coded(text: str | None) -> str:
    return "-" if text is None else base64.b64encode(text.encode()).decode()


def said_fields(given: dict[str, str] | None) -> str:
    if given is None:
        return "-"
    pairs = sorted((coded(name), coded(value)) for name, value in given.items())
    return ",".join(f"{name}:{value}" for name, value in pairs) or "*"


def said(command: Command) -> str:
    language = "-" if command.language is None else command.language.name
    numbers = (command.code, command.opaque, command.flag, language, command.version)
    rest = (coded(command.remark), said_fields(command.fields), bytes(command.body).hex())
    return "\t".join(map(str, (*numbers, *rest)))


def read(data: bytes) -> str:
    """Return what our decoder makes of one frame, in the driver's words."""
    decoder = frames.FrameDecoder()
    try:
        found = [said(command) for command in decoder.feed(data)]
    except FrameError:
        return "nothing\tclosed"
    return f"{found[0] if found else 'nothing'}\topen"


class Maker:
    """Makes questions from a seed."""

    def __init__(self, seed: int, known: dict[str, dict[str, str]]) -> None:
        self.random = random.Random(seed)
        self.known = known

    def command(self) -> Command:
        pick, choose = self.random.random, self.random.choice
        names = self.random.sample(TEXTS, self.random.randint(1, 4))
        return Command(
            self.random.randint(-(1 << 15), (1 << 15) - 1),
            self.random.randint(-(1 << 31), (1 << 31) - 1),
            self.random.randint(0, 3),
            # 4.9.8 does not know the last one.
            choose(list(LanguageCode)[:-1]),
            self.random.randint(0, 600),
            choose(TEXTS) if pick() < 0.5 else None,
            {name: choose(TEXTS) for name in names} if pick() < 0.7 else None,
            self.random.randbytes(choose((0, 1, 40))),
            choose(list(SerializeType)),
        )

    def frame(self) -> Case:
        """A frame that we write, whole; or with damage in the lengths of a ROCKETMQ header."""
        command = self.command()
        data = bytearray(frames.encode(command) + command.body)
        if self.random.random() < 0.6:
            command = command._replace(codec=SerializeType.ROCKETMQ)
            data = bytearray(frames.encode(command) + command.body)
            for _ in range(self.random.randint(1, 2)):
                # Not the frame's own length: what is not whole is not read at all.
                at = self.random.randrange(5, len(data))
                data[at] = self.random.choice((0, 1, 2, 8, 0x41, 0x7F, 0xC3, 0xFF))
        return Case(f"FRAME\t{data.hex()}", read(bytes(data)))

    def header(self) -> Case:
        """A JSON header as no encoder of ours writes it."""
        # The generations of fastjson differ in which value of a repeated name they take.
        chosen = ['"opaque":1', *self.random.sample(PIECES, self.random.randint(1, 6))]
        pieces = list({each.partition(":")[0]: each for each in chosen}.values())
        blank = self.random.choice(("", "", " ", "\n\t"))
        text = "{" + f",{blank}".join(pieces) + "}"
        raw = (self.random.choice(BROKEN) if self.random.random() < 0.1 else text).encode()
        data = (4 + len(raw)).to_bytes(4, "big") + len(raw).to_bytes(4, "big") + raw
        return Case(f"FRAME\t{data.hex()}", read(data))

    def encoded(self) -> tuple[str, Command]:
        """A command that RocketMQ writes, and we read."""
        command = self.command()
        assert command.language is not None
        language = command.language.name
        numbers = (command.code, command.opaque, command.flag, language, command.version)
        rest = (coded(command.remark), said_fields(command.fields), bytes(command.body).hex())
        words = (command.codec.name, *numbers, *rest)
        return "\t".join(map(str, ("ENCODE", *words))), command

    def typed(self) -> Case:
        """Fields of a header: all that this version has, with values of any kind."""
        name = self.random.choice(sorted(self.known))
        kind = KINDS[name]
        given = {
            place.name: self.random.choice(TEXTS if place.kind is str else NUMBERS)
            for place in fields.places(kind)
            # An enumeration in Java: any text is one of its two.
            if place.name in self.known[name] and place.name != "boundaryType"
        }
        question = f"FIELDS\t{name}\t{said_fields(given)}"
        try:
            header = fields.read(kind, given)
        except FieldError as error:
            if not kind.IS_FAST:
                # Where a broker takes null for a number, the answer is of the place that uses it.
                return self.typed()
            return Case(question, "!" + coded(error.remark))
        default = {place.name for place in fields.places(kind)} - set(self.known[name])
        written = fields.write(header).items()
        return Case(question, said_fields({k: v for k, v in written if k not in default}))


def ask(version: str, questions: list[str]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="wire-") as root:
        asked, answers = Path(root) / "questions", Path(root) / "answers"
        asked.write_text("".join(f"{each}\n" for each in questions), "utf-8")
        oracle.run(version, "Wire", asked, answers, timeout=120 + len(questions) // 100)
        found = answers.read_text("utf-8").splitlines()
    if len(found) != len(questions):
        raise oracle.OracleError(f"{len(found)} answers to {len(questions)} questions")
    return found


def layouts(version: str) -> dict[str, dict[str, str]]:
    """Return the fields of each of our headers in that version: Java's types, * if it must be there."""
    found = ask(version, [f"LAYOUT\t{name}" for name in KINDS])
    return {
        name: dict(pair.split(":") for pair in answer.split(",") if pair)
        for name, answer in zip(KINDS, found, strict=True)
        # Some came with 5.0.
        if answer != "!" or version == VERSIONS[0]
    }


def other_fields(version: str, known: dict[str, dict[str, str]]) -> list[str]:
    """Return where our headers have other fields than that version's."""
    wrong = []
    for name, theirs in known.items():
        places = {place.name: place for place in fields.places(KINDS[name])}
        for place in places.values():
            java = theirs.get(place.name)
            if java is None:
                # Some came with 5.0.
                if place.is_required or version == VERSIONS[0]:
                    wrong.append(f"{name}.{place.name} is not there")
            elif java.rstrip("*") not in JAVA[place.kind]:
                wrong.append(f"{name}.{place.name} is {java}")
            elif java.endswith("*") is not place.is_required:
                wrong.append(f"{name}.{place.name} is {java}, ours {place}")
        lacking = [each for each, java in theirs.items() if java[-1] == "*" and each not in places]
        wrong += [f"{name}.{each} must be there" for each in lacking]
    return wrong


def compare(version: str, count: int, seed: int) -> tuple[list[str], Counter[str]]:
    """Compare `count` questions of each kind with that version's answers.

    Returns:
        What differs, a line each; how often each kind of answer came.
    """
    oracle.build(version)
    known = layouts(version)
    maker = Maker(seed, known)
    cases = [make() for make in (maker.frame, maker.header, maker.typed) for _ in range(count)]
    encoded = [maker.encoded() for _ in range(count)]
    found = ask(version, [*(case.question for case in cases), *(each for each, _ in encoded)])
    kinds: Counter[str] = Counter()
    differences = other_fields(version, known)
    for case, answer in zip(cases, found[: len(cases)], strict=True):
        is_frame = case.question.startswith("FRAME")
        end = answer.rpartition("\t")[2] if is_frame else "refused" if answer[0] == "!" else "read"
        kinds[f"{'FRAME' if is_frame else 'FIELDS'} {end}"] += 1
        if answer != case.answer:
            differences.append(f"{case.question}: ours {case.answer!r}, theirs {answer!r}")
    for (_, command), answer in zip(encoded, found[len(cases) :], strict=True):
        got = read(bytes.fromhex(answer))
        kinds["ENCODE"] += 1
        if got != f"{said(command)}\topen":
            differences.append(f"ENCODE: ours {got!r}, sent {said(command)!r}")
    return differences, kinds


def main() -> int:
    """Run the comparisons; the exit code says whether anything differed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000, help="questions of each kind")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    bad = 0
    for version in VERSIONS:
        differences, kinds = compare(version, args.count, args.seed)
        for line in differences[:20]:
            print(line)
        bad += len(differences)
        print(f"{version}: {args.count} questions of each kind: {len(differences)} differences")
        print("  " + ", ".join(f"{kind} {times}" for kind, times in sorted(kinds.items())))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
