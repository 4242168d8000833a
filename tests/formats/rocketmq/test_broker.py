"""A broker's version and settings: each option, what is refused, what two outputs must share."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from reput.formats.errors import UsageError
from reput.formats.rocketmq import broker, broker_conf
from reput.formats.rocketmq.broker import (
    BrokerSettings,
    BrokerVersion,
    settings_of,
    version_of,
)
from reput.formats.rocketmq.broker_conf import parse_delay_levels

ROOT = Path(__file__).parents[3]
DIFFERENCES = ROOT / "docs" / "formats" / "differences.md"
PACKAGES = ("formats", "stores", "checkpoints", "sinks", "remoting", "streaming")

OPTIONS = [
    ("mappedFileSizeCommitLog", "4096", "commitlog_file_size", 4096),
    ("mappedFileSizeConsumeQueue", "400", "consumequeue_file_size", 400),
    ("mappedFileSizeConsumeQueue", "401", "consumequeue_file_size", 420),
    ("mappedFileSizeConsumeQueue", "1", "consumequeue_file_size", 20),
    ("mappedFileSizeConsumeQueueExt", "1000", "ext_file_size", 1000),
    ("mapperFileSizeBatchConsumeQueue", "47", "batch_file_size", 47),
    ("maxHashSlotNum", "10", "index_slots", 10),
    ("maxIndexNum", "4", "index_items", 4),
    ("messageIndexEnable", "false", "writes_index", False),
    ("messageIndexEnable", " TRUE ", "writes_index", True),
    ("indexFileWriteEnable", "false", "writes_index", False),
    ("enableConsumeQueueExt", "true", "writes_ext", True),
    ("enableCalcFilterBitMap", "true", "calculates_bitmaps", True),
    ("enableMultiDispatch", "true", "multi_dispatch", True),
    ("enableLmq", "true", "lmq", True),
    ("messageDelayLevel", "1s 2m", "delays", (1000, 120_000)),
    ("messageDelayLevel", "", "delays", parse_delay_levels(broker_conf.DEFAULT_DELAY_LEVELS)),
    ("maxMessageSize", "1024", "max_message_size", 1024),
    ("enabledAppendPropCRC", "true", "checks_property_crc", True),
    ("forceVerifyPropCRC", "true", "requires_property_crc", True),
    ("maxErrorRateOfBloomFilter", "10", "bloom_error_rate", 10),
    ("expectConsumerNumUseFilter", "64", "bloom_consumers", 64),
    ("storePathCommitLog", "/a,/b,", "commitlog_paths", ("/a", "/b")),
    ("storePathCommitLog", "", "commitlog_paths", ()),
    ("readOnlyCommitLogStorePaths", "/c", "commitlog_paths", ()),
    ("aSettingOfNoMatter", "x", "version", broker.VERSIONS["5.5"]),
]


def _modules():
    """Yield each module of the packages but the version table, parsed."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.name != "broker.py":
                yield path, ast.parse(path.read_text())


class TestSettings:
    @pytest.mark.parametrize(("name", "text", "attribute", "expected"), OPTIONS)
    def test_an_option_changes_its_setting_and_nothing_else(self, name, text, attribute, expected):
        settings = settings_of("5.5", {name: text})
        plain = settings_of("5.5")

        assert getattr(settings, attribute) == expected
        assert dataclasses.replace(settings, **{attribute: getattr(plain, attribute)}) == plain

    def test_defaults_are_rocketmqs(self):
        settings = settings_of("5.5")

        assert settings == settings_of("5.5", {}) == BrokerSettings()
        assert settings.commitlog_file_size == 1_073_741_824
        assert settings.consumequeue_file_size == 6_000_000
        assert settings.ext_file_size == 50_331_648
        assert settings.batch_file_size == 13_800_000
        assert (settings.index_slots, settings.index_items) == (5_000_000, 20_000_000)
        assert settings.max_record_size == 4_194_304 + 65_536

    @pytest.mark.parametrize(
        "name",
        [
            "mappedFileSizeCommitLog",
            "mappedFileSizeConsumeQueue",
            "mappedFileSizeConsumeQueueExt",
            "mapperFileSizeBatchConsumeQueue",
            "maxHashSlotNum",
            "maxIndexNum",
            "maxMessageSize",
        ],
    )
    @pytest.mark.parametrize("text", ["0", "-1", "1.5", "1k", "0x10", "ten"])
    def test_a_size_that_is_none_names_its_option(self, name, text):
        with pytest.raises(UsageError, match=name):
            settings_of("5.5", {name: text})

    @pytest.mark.parametrize("text", ["yes", "1", "on", "truee"])
    def test_a_switch_is_true_or_false(self, text):
        with pytest.raises(UsageError, match=r"enableLmq.*neither true nor false"):
            settings_of("5.5", {"enableLmq": text})

    def test_files_too_small_for_one_thing_are_refused(self):
        for name, text in (
            ("mappedFileSizeCommitLog", "90"),
            ("maxIndexNum", "1"),
            ("mapperFileSizeBatchConsumeQueue", "45"),
        ):
            with pytest.raises(UsageError, match=name):
                settings_of("5.5", {name: text})

    @pytest.mark.parametrize("kind", ["defaultRocksDB", "default;defaultRocksDB", "RocksDB"])
    def test_consume_queues_in_rocksdb_are_refused(self, kind):
        with pytest.raises(UsageError, match="RocksDB"):
            settings_of("5.5", {"storeType": kind})

    def test_a_dledger_log_is_refused(self):
        with pytest.raises(UsageError, match="DLedger"):
            settings_of("4.9", {"enableDLegerCommitLog": " True"})
        assert settings_of("4.9", {"enableDLegerCommitLog": "false", "storeType": "default"})


class TestVersion:
    @pytest.mark.parametrize(
        ("text", "family"),
        [
            ("5.5", "5.5"),
            ("5.5.1", "5.5"),
            ("v5.3.3", "5.3"),
            (" 4.9.8 ", "4.9"),
            ("V5.4.0", "5.4"),
        ],
    )
    def test_a_version_is_one_of_its_family(self, text, family):
        assert version_of(text).family == family

    @pytest.mark.parametrize(
        "text", ["", "5", "4.8.0", "5.6", "6.0.0", "5.5.x", "5.5-SNAPSHOT", "latest"]
    )
    def test_an_unknown_one_is_refused_with_those_that_are_known(self, text):
        with pytest.raises(UsageError, match=r"4\.9, 5\.3, 5\.4, 5\.5"):
            version_of(text)

    def test_each_column_is_in_the_page_with_its_values(self):
        """
        docs/formats/differences.md shows all families side by side, and is where users look.
        """
        _, header, table = DIFFERENCES.read_text().partition("\n| column |")
        rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", table, re.MULTILINE)
        page = {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}
        columns = [each.name for each in dataclasses.fields(BrokerVersion)]
        shown = {True: "yes", False: "no"}

        assert columns.pop(0) == "family"
        assert (header + table).startswith(f"\n| column | {' | '.join(broker.VERSIONS)} |")
        assert list(page) == columns
        for name in columns:
            values = [getattr(version, name) for version in broker.VERSIONS.values()]
            assert page[name][: len(values)] == [
                shown[value] if isinstance(value, bool) else str(value) for value in values
            ]

    def test_each_column_is_a_difference_with_its_class_of_rocketmq(self):
        """
        A column without a difference, or without the place in RocketMQ, is one for another.
        """
        entries = re.split(r"\n {8}(?=\w+: )", BrokerVersion.__doc__.partition("Attributes:")[2])
        described = {name: text for name, _, text in (each.partition(":") for each in entries[1:])}

        assert list(described) == [each.name for each in dataclasses.fields(BrokerVersion)]
        for name in list(described)[1:]:
            assert len({getattr(each, name) for each in broker.VERSIONS.values()}) > 1
            assert re.search(r"`[A-Z]\w+(\.\w+)?(#\w+)?`", described[name]), name

    def test_no_code_compares_versions(self):
        """
        A version is asked for a difference by its column, never for its number.
        """
        texts = "|".join(map(re.escape, broker.VERSIONS))
        number = re.compile(rf"[vV]?({texts})(\.\d+)?|[45]\.?")
        found = []
        for path, tree in _modules():
            for node in ast.walk(tree):
                parts = [node] if isinstance(node, ast.Compare | ast.Subscript) else []
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    parts = [node] if node.func.attr in {"startswith", "removeprefix"} else []
                found += [
                    f"{path}:{node.lineno}"
                    for part in parts
                    for each in ast.walk(part)
                    if (isinstance(each, ast.Constant) and number.fullmatch(str(each.value)))
                    and isinstance(each.value, str)
                ]
                if isinstance(node, ast.Compare):
                    sides = [node.left, *node.comparators]
                    found += [
                        f"{path}:{node.lineno}"
                        for side in sides
                        if isinstance(side, ast.Attribute) and side.attr == "family"
                    ]

        assert not found

    def test_each_column_is_asked_for(self):
        trees = [tree for _, tree in _modules()] + [ast.parse(Path(broker.__file__).read_text())]
        nodes = [node for tree in trees for node in ast.walk(tree)]
        used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}

        assert {each.name for each in dataclasses.fields(BrokerVersion)} <= used

    def test_how_records_are_read(self):
        assert not settings_of("4.9").read_rules.accepts_v2
        assert settings_of("5.3").read_rules == (True, True, False, False, True)
        assert settings_of("5.3", {"forceVerifyPropCRC": "true"}).read_rules.requires_property_crc

    def test_an_old_broker_has_no_switch_for_index_files(self):
        assert settings_of("5.3", {"indexFileWriteEnable": "false"}).writes_index


class TestDelays:
    def test_the_default_levels(self):
        delays = settings_of("5.5").delays

        assert len(delays) == 18
        assert delays[:6] == (1000, 5000, 10_000, 30_000, 60_000, 120_000)
        assert delays[-2:] == (3_600_000, 7_200_000)

    def test_units(self):
        assert parse_delay_levels("1s 1m 1h 1d") == (1000, 60_000, 3_600_000, 86_400_000)

    @pytest.mark.parametrize("text", ["10", "s", "10x", "1s  2s", "-1s", "1.5h", "1s,2s"])
    def test_what_is_no_delay_is_named(self, text):
        with pytest.raises(UsageError, match="messageDelayLevel"):
            settings_of("5.5", {"messageDelayLevel": text})


class TestFingerprint:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            (name, text)
            for name, text, attribute, expected in OPTIONS
            if attribute in settings_of("5.5").fingerprint()
            and getattr(settings_of("5.5"), attribute) != expected
        ],
    )
    def test_what_changes_bytes_changes_it(self, name, text):
        assert settings_of("5.5", {name: text}).fingerprint() != settings_of("5.5").fingerprint()

    def test_what_does_not_change_bytes_does_not(self):
        """
        A broker may move its log or raise its limits; the output continues.
        """
        conf = {"maxMessageSize": "100000", "storePathCommitLog": "/elsewhere"}

        assert settings_of("5.5.0", conf).fingerprint() == settings_of("5.5.1").fingerprint()
