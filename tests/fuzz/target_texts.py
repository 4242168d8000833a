"""Texts and small files: broker.conf, reput.toml, SQL92, the config files, headers, names."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.checkpoints import marks, progress
from reput.formats.errors import ReputError, UsageError
from reput.formats.filters import consumerfilter, sql92
from reput.formats.filters.bloomfilter import BloomFilter
from reput.formats.filters.consumerfilter import FilterBitmaps
from reput.formats.filters.sql92 import EvaluationError, ExpressionError
from reput.formats.rocketmq import broker, consumequeue_ext, indexfile, names
from reput.stores.config.contradictions import contradictions
from reput.stores.config.deleted_topics import deleted_topics
from reput.stores.config.filters import bitmaps_of
from reput.stores.config.topics import batch_topics_for
from reput.stores.inspect.files import inspect_checkpoint, inspect_index
from reput.stores.inspect.printable import printable
from reput.streaming.settings.config import read_broker_conf, store_config
from reput.streaming.settings.reput_toml import read_config
from tests.fuzz import corpus
from tests.fuzz.mutate import I64, encode_text, soup, spoil_bytes, spoil_text
from tests.fuzz.target import Tree, WrongError, keep_tree, named, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from reput.formats.rocketmq.broker import BrokerSettings

_NUMBERS = ("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum",
            "mappedFileSizeConsumeQueueExt", "mapperFileSizeBatchConsumeQueue", "maxIndexNum",
            "maxMessageSize", "maxErrorRateOfBloomFilter", "expectConsumerNumUseFilter")  # fmt: skip
_SWITCHES = ("messageIndexEnable", "indexFileWriteEnable", "enableConsumeQueueExt", "enableLmq",
             "enableCalcFilterBitMap", "enableMultiDispatch", "forceVerifyPropCRC",
             "enabledAppendPropCRC", "enableDLegerCommitLog")  # fmt: skip
_VALUES = ("1", "0", "-1", "4096", "007", "6000000", "²", "٣", "1e3", "", " ", "true", "FALSE", "no",
           "9" * 19, "9" * 30, "9" * 5000, "0x10", "1_0", "default", "defaultRocksDB", "\\u00b2",
           "1s 5s", "1s  5s", "²s", "9999999999999999999d", "10", "99", "100", "1m\\ 2h")  # fmt: skip


class _OneFile:
    """A target whose cases are small texts or files, run in a directory that is made again."""

    name = ""
    size = 16

    def make(self, random: Random) -> list[Tree]:
        return [self.draw(random) for _ in range(self.size)]

    def draw(self, random: Random) -> Tree:
        raise NotImplementedError

    def run(self, root: Path, options: dict[str, Any]) -> str:
        raise NotImplementedError

    def keep(self, batch: list[Tree], directory: Path) -> None:
        for number, case in enumerate(batch):
            keep_tree(case, directory / f"{number:02d}")

    def check(self, batch: list[Tree]) -> list[str]:
        verdicts = []
        for case in batch:
            with tempfile.TemporaryDirectory() as directory:
                case.write(Path(directory))
                verdicts.append(self.run(Path(directory), case.options))
        return verdicts


class BrokerConf(_OneFile):
    """A broker.conf, to the settings made of it."""

    name = "broker.conf"

    def draw(self, random: Random) -> Tree:
        lines = [
            f"{random.choice(_NUMBERS + _SWITCHES)}{random.choice(('=', ':', ' = '))}"
            f"{random.choice(_VALUES)}"
            for _ in range(random.randrange(6))
        ]
        lines.append(f"messageDelayLevel={random.choice(_VALUES)}")
        lines.append(f"storePathCommitLog={random.choice(('', ',', 'a,b', 'a' + chr(0)))}")
        text = "\n".join(random.sample(lines, random.randint(1, len(lines))))
        if random.random() < 0.7:
            text = spoil_text(random, text, (*_NUMBERS, *_SWITCHES, *_VALUES))
        version = random.choice(
            (*broker.VERSIONS, "5.5.0", "5.9", "²", "", spoil_text(random, "5.3"))
        )
        return Tree({"broker.conf": encode_text(random, text)}, {"version": version})

    @staticmethod
    def run(root: Path, options: dict[str, Any]) -> str:
        return _settings(root / "broker.conf", options["version"])


def _settings_of(path: Path, version: str) -> str:
    settings = broker.settings_of(version, read_broker_conf(path))
    _check_settings(settings)
    return "read"


_settings = named(_settings_of, ReputError)


def _check_settings(settings: BrokerSettings) -> None:
    """Check that settings are what kernels and files can do with: 64 bits."""
    sizes = (settings.commitlog_file_size, settings.consumequeue_file_size, settings.ext_file_size,
             settings.batch_file_size, settings.max_record_size,
             indexfile.file_size(settings.index_slots, settings.index_items), *settings.delays)  # fmt: skip
    if max(sizes) >= 1 << 63:
        raise WrongError(f"a size or a delay beyond 64 bits: {max(sizes):.3g}")
    json.dumps(settings.fingerprint())


class ReputToml(_OneFile):
    """A reput.toml, to the configurations of stores."""

    name = "reput.toml"

    def draw(self, random: Random) -> Tree:
        stores = []
        for number in range(random.randint(1, 3)):
            lines = ["[[store]]", f'name = "s{number}"', f'path = "p{number}"',
                     f'output = "o{number}"', 'broker_version = "5.3"', 'broker_conf = "b.conf"',
                     "in_place = false"]  # fmt: skip
            stores.append(
                "\n".join(random.sample(lines, random.randint(4, 7)) if number else lines)
            )
        text = "\n".join(stores)
        words = ("[[store]]", "in_place = true", 'path = ""', 'output = "\\u0000"', '"a\\u0000b"',
                 "store = 1", "path = 1979-05-27", "name = [1]", '"/"', '"."', '".."', "'p0'",
                 f'"{"x" * 300}"')  # fmt: skip
        if random.random() < 0.9:
            text = spoil_text(random, text, words)
        conf = spoil_text(random, "maxIndexNum=5\n", _VALUES)
        files = {"reput.toml": encode_text(random, text), "b.conf": encode_text(random, conf)}
        return Tree(files, {})

    @staticmethod
    def run(root: Path, options: dict[str, Any]) -> str:
        return _stores(root / "reput.toml")


def _stores_of(path: Path) -> str:
    configs = read_config(path)
    same(len({config.output.resolve() for config in configs}), len(configs), "outputs")
    return "read"


_stores = named(_stores_of, ReputError)

_WORDS = ("a", "TAGS", "b1", "AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE",
          "CONTAINS", "STARTSWITH", "ENDSWITH", "=", "<>", "<", "<=", ">", ">=", "(", ")", ",", "-",
          "+", "'x'", "''", "'it''s'", "1", "5L", "0", "1.5", "2e3", ".5", "0.0", "1e400",
          "2147483648", "9223372036854775808", "9" * 5000, "$x", "_y", "/* c */", "-- c\n", "%",
          "'" , "not", "Between")  # fmt: skip
_SHAPES = ("a = 'x' AND (b BETWEEN 1 AND 5 OR c IS NOT NULL)", "NOT a IN ('x','y') OR b <> 2.5",
           "a CONTAINS 'b' AND c NOT STARTSWITH 'd'", "-a > 5 AND b <= -3L", "a = TRUE OR FALSE",
           "(((a = 1)))", "a NOT BETWEEN b AND c")  # fmt: skip
_PROPERTIES: tuple[dict[str, str], ...] = (
    {}, {"a": "x", "b": "3", "c": ""}, {"a": "1e999", "b": "NaN", "c": "²"},
    {"a": "9" * 400, "b": "-0.0", "c": "0x1p3"}, {"a": "1_000", "TAGS": "TagA", "b": " 5 "},
    {"a": "٣", "b": "5d", "c": "infinity", "b1": "1L", "TAGS": "\ud800"},
)  # fmt: skip


class Sql92(_OneFile):
    """Filter expressions: parsed and evaluated."""

    name = "sql92"

    def draw(self, random: Random) -> Tree:
        if random.random() < 0.5:
            text = " ".join(random.choices(_WORDS, k=random.randrange(14)))
        else:
            text = spoil_text(random, random.choice(_SHAPES), _WORDS, 3)
        if random.random() < 0.02:
            deep = random.choice((50, 300, 3000))
            text = (
                random.choice(("(", "NOT ", "-", "a AND (", "a OR NOT ")) * deep + "a" + ")" * deep
            )
        return Tree({}, {"text": text, "string_operators": random.random() < 0.5})

    def check(self, batch: list[Tree]) -> list[str]:
        return [_expression(**case.options) for case in batch]


def _expression_of(text: str, *, string_operators: bool) -> str:
    expression = sql92.parse(text, string_operators=string_operators)
    verdict = "parsed"
    for properties in _PROPERTIES:
        try:
            found = expression.evaluate(properties)
        except EvaluationError:
            same(expression.matches(properties), False, "match")
            verdict = "EvaluationError"
        else:
            same(found in {True, False, None}, True, "truth")
    return verdict


_expression = named(_expression_of, ExpressionError)


class ConfigFiles(_OneFile):
    """config/consumerFilter.json and topics.json, as the settings and the store read them."""

    name = "config"

    def draw(self, random: Random) -> Tree:
        topics = json.dumps({"topicConfigTable": {"t": {"attributes": {"queue.type": "BatchCQ"}},
                                                  "u": {"order": True}}, "dataVersion": {}})  # fmt: skip
        words = ("{}", "[]", "null", "5", "-5", '{"a":1}', '"x"', "{0:12,1:7}", "1e5", '"bitNum":8',
                 '"bitPos":[1]', '"deadTime":', "true", "[" * 500, '"attributes":5')  # fmt: skip
        filters = corpus.FILTERS
        if random.random() < 0.4:
            filters = filters.replace("TAGS = 'TagA'", " ".join(random.choices(_WORDS[:34], k=5)))
            filters = filters.replace(
                "112", random.choice(("111", "8", "0", "-8", "9" * 12, "112"))
            )
        if random.random() < 0.8:
            filters = spoil_text(random, filters, words)
        if random.random() < 0.8:
            topics = spoil_text(random, topics, words)
        files = {
            f"config/{name}{random.choice(('', '', '.bak'))}": encode_text(random, text)
            for name, text in (("consumerFilter.json", filters), ("topics.json", topics))
        }
        conf = {**corpus.BITMAPS}
        if random.random() < 0.3:
            conf["expectConsumerNumUseFilter"] = random.choice(("1", "32", "5000", "0"))
            conf["maxErrorRateOfBloomFilter"] = random.choice(("1", "20", "99", "100"))
        if random.random() < 0.1:
            files["config/topics.json/"] = b""
            files.pop("config/topics.json", None)
        return Tree(files, conf)

    @staticmethod
    def run(root: Path, options: dict[str, Any]) -> str:
        try:
            settings = broker.settings_of("5.5", options)
        except UsageError:
            return "UsageError"
        looks = (_batch_topics, _bitmaps, _contradictions)
        verdicts = [look(root, settings) for look in looks]
        deleted_topics(root)("t")
        return "+".join(verdicts)


def _bitmaps_of(root: Path, settings: BrokerSettings) -> str:
    bitmaps = bitmaps_of(root, settings)
    if bitmaps is not None:
        for properties in _PROPERTIES:
            bitmaps.bitmap_for("orders", properties, 1 << 41)
    return "bitmaps"


_bitmaps = named(_bitmaps_of, ReputError)


def _batch_topics_of(root: Path, settings: BrokerSettings) -> str:
    return "b" if batch_topics_for(root, settings) else ""


def _contradictions_of(root: Path, settings: BrokerSettings) -> str:
    return "c" if contradictions(root, settings) else ""


_batch_topics = named(_batch_topics_of, ReputError)
_contradictions = named(_contradictions_of, ReputError)


class Filters(_OneFile):
    """`consumerfilter.parse` of any text, without a store."""

    name = "filters"

    def draw(self, random: Random) -> Tree:
        text = spoil_text(random, corpus.FILTERS, ("{}", "[]", "null", "{0:1}", '"', "\\"), 6)
        return Tree({}, {"text": text})

    def check(self, batch: list[Tree]) -> list[str]:
        return [_filters(**case.options) for case in batch]


def _filters_of(text: str) -> str:
    found = consumerfilter.parse(text)
    bitmaps = FilterBitmaps(found, BloomFilter.sized())
    bitmaps.bitmap_for("orders", {"TAGS": "TagA"}, 1 << 41)
    return "parsed"


_filters = named(_filters_of, ValueError)


class SmallFiles(_OneFile):
    """checkpoint, an index file's header, a progress record, names: read, and read back."""

    name = "small"

    def draw(self, random: Random) -> Tree:
        longs = b"".join((random.choice(I64) & (1 << 64) - 1).to_bytes(8, "big") for _ in range(6))
        checkpoint = random.choice((longs, longs.ljust(4096, b"\0"), longs[: random.randrange(48)]))
        index = random.randbytes(40) + bytes(13 * 4 + 12 * 20)
        index = spoil_bytes(random, index) if random.random() < 0.8 else longs[:40] + index[40:]
        return Tree(
            {
                "checkpoint": spoil_bytes(random, checkpoint) if checkpoint else b"",
                "index": index,
                ".reput/progress.json": self._progress(random),
                "unit": spoil_bytes(random, consumequeue_ext.Unit(1, 2, bytes(14)).pack() * 3),
            },
            {
                "name": random.choice(("0" * 20, "9" * 20, "1" * 255, "²" * 20, "x", "0" * 19,
                                       soup(random, 6).decode("utf-8", "replace"))),
                "first": random.choice(I64),
                "limit": random.choice((None, 0, 1, 5)),
                "slots": random.random() < 0.5,
            },
        )  # fmt: skip

    @staticmethod
    def _progress(random: Random) -> bytes:
        raw = random.choice(corpus.sound_stores()).clean[".reput/progress.json"]
        if random.random() < 0.8:
            text = spoil_text(random, raw.decode(), ("null", "{}", "[]", '"crc": 0', "1e999"))
            raw = encode_text(random, text)
        return raw

    def run(self, root: Path, options: dict[str, Any]) -> str:
        settings = broker.settings_of("5.5", {"maxHashSlotNum": "13", "maxIndexNum": "12"})
        name, first, limit = options["name"], options["first"], options["limit"]
        names.parse_offset_file(name)
        names.topic_problem(name, nested=True)
        printable(name)
        looks: list[Callable[[], str]] = [
            lambda: _exhaust(inspect_checkpoint(root / "checkpoint").rows),
            lambda: _exhaust(
                inspect_index(
                    root / "index", settings, first, limit, shows_slots=options["slots"]
                ).rows
            ),
            lambda: str(marks.read_checkpoint(root) and "c"),
            lambda: str(progress.load(root) and "p"),
            lambda: _units((root / "unit").read_bytes()),
        ]
        return "+".join(named(look, ReputError)() for look in looks)


def _exhaust(rows: Any) -> str:
    count = 0
    for row in rows:
        printable(str(row))
        count += 1
    return "rows" if count else "none"


def _units(raw: bytes) -> str:
    at = 0
    try:
        while (unit := consumequeue_ext.unpack(raw, at)) is not None:
            same(unit.pack(), raw[at : at + unit.size], "unit")
            at += unit.size
    except ValueError:
        return "unit"
    return "units"


class Usage(_OneFile):
    """What goes together on a command line: paths of a store and an output."""

    name = "usage"

    def draw(self, random: Random) -> Tree:
        paths = ("a", "b", "a/../a", ".", "", "\0", "a/b", "x" * 300, "link")
        return Tree(
            {"a/": b"", "b/": b""},
            {
                "store": random.choice(paths),
                "output": random.choice((*paths, None)),
                "in_place": random.random() < 0.3,
            },
        )

    def run(self, root: Path, options: dict[str, Any]) -> str:
        store, output = options["store"], options["output"]
        if not (root / "link").is_symlink():
            (root / "link").symlink_to("a")
        return named(_config_of, ReputError)(
            root / store, None if output is None else root / output, in_place=options["in_place"]
        )


def _config_of(store: Path, output: Path | None, *, in_place: bool) -> str:
    config = store_config(store, output, in_place=in_place)
    return "in place" if config.in_place else "beside"
