"""Defaults that help and pages state are those of the code: a changed one is found."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from reput.sinks.kafka.client.settings import KafkaSecurity, KafkaSettings
from reput.stores.query.by_key import MAX_HITS, MAX_UNIQUE_HITS
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.settings.model.exports import ExportOptions
from reput.streaming.settings.model.jobs import RunOptions
from reput.streaming.settings.model.option import options_of
from reput.streaming.settings.model.queries import KeyOptions
from reput.streaming.source.options import parse
from reput.streaming.writers import job_options

DOCS = Path(__file__).parents[3] / "docs"
README = DOCS.parent / "README.md"
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def short(size: int) -> str:
    """Return a size as people type it: 8g."""
    unit = max((name for name in UNITS if size % UNITS[name] == 0), key=UNITS.__getitem__)
    return f"{size // UNITS[unit]}{unit}"


def help_of(model: type, name: str) -> str:
    return next(each.option.help for each in options_of(model) if each.name == name)


def stated(page: Path, heading: str) -> list[tuple[str, str]]:
    """
    Return (name, default) of each row of the tables with a heading; a row may have several of each.
    """
    found = []
    for table in page.read_text("utf-8").split(heading)[1:]:
        for line in table.partition("\n\n")[0].splitlines()[1:]:
            names, default = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:3])
            names = re.findall(r"`([\w.-]+)[^`]*`", names)
            values = default.split(", ")
            values = values if len(values) == len(names) else values[:1] * len(names)
            found += zip(names, values, strict=True)
    return found


def as_value(text: str) -> Any:
    """Return what a cell states, as the settings have it."""
    text = text.strip("`").partition(":")[0]
    if text in {"", "none", "the system's"}:
        return ""
    if text in {"true", "false", "yes", "no"}:
        return text in {"true", "yes"}
    if size := re.fullmatch(r"(\d+)([kmg]?)", text):
        return int(size[1]) * UNITS.get(size[2], 1)
    return text


KAFKA = stated(DOCS / "kafka.md", "| setting | default | meaning |\n")


@pytest.mark.parametrize(("name", "default"), KAFKA, ids=[name for name, _ in KAFKA])
def test_a_setting_of_kafka(name, default):
    """
    The page is where an operator looks up how long a job waits before it gives up.
    """
    settings = KafkaSettings("")
    have = vars(settings) | vars(settings.security)
    value = have[name]
    if isinstance(value, tuple):
        value = ",".join(value)
    said = as_value(default)

    assert (said or "", type(said) is bool) == (
        ("" if value in ("none", {}) else value) or "",
        type(value) is bool,
    )


def test_the_page_has_each_setting_of_kafka():
    have = {
        each.name for kind in (KafkaSettings, KafkaSecurity) for each in dataclasses.fields(kind)
    }

    assert {name for name, _ in KAFKA} == have - {"security"}


RUN = [row for row in stated(README, "| option | default | meaning |\n") if row[0].startswith("--")]
EXPORT = [
    row
    for row in stated(DOCS / "spark.md", "| option | default | meaning |\n")
    if row[0].startswith("--")
]


@pytest.mark.parametrize(
    ("model", "name", "default"),
    [(RunOptions, *row) for row in RUN] + [(ExportOptions, *row) for row in EXPORT],
    ids=[name for name, _ in RUN + EXPORT],
)
def test_an_option(model, name, default):
    options = {each.flag.partition("/")[0]: each.default for each in options_of(model)}
    value = options[name]
    words = {"off": None, "": None, "all": None, "the store": None}
    said = words.get(default, as_value(default))

    if name in {"--placement", "--flush-seconds"}:
        # They depend on the cluster and on the broker's settings: see below.
        assert value is None
    elif said is None:
        assert value in (None, "", [], ()) or value is dataclasses.MISSING
    else:
        assert value == said


FRAME = [
    (name, default)
    for page in (README, DOCS / "spark.md")
    for name, default in stated(page, "| option | default | meaning |\n")
    if re.match(r"`(?:true|false|stop|earliest|latest)`", default)
    and not name.startswith("--")
    and "Timestamp" not in name
]


@pytest.mark.parametrize(("name", "default"), FRAME, ids=[name for name, _ in FRAME])
def test_an_option_of_a_data_frame(name, default, tmp_path):
    """
    Given as the page says, it changes nothing.
    """
    (tmp_path / "commitlog").mkdir()
    path = {"path": str(tmp_path)}

    assert parse(path | {name: default.strip("`")}) == parse(path)


def test_what_help_states_besides():
    """
    Where a default depends on something, the help has it in words.
    """
    sizes = (
        job_options.MAX_BATCH_BYTES,
        job_options.MAX_BATCH_BYTES_A_CORE,
        job_options.MAX_BATCH_BYTES_A_STORE,
    )
    most, a_core, a_store = map(short, sizes)
    seconds = FlushPolicy.of({}).thorough_seconds

    assert (
        f"[default: {most}; on executors {a_core} for each core, and {a_store} for each store]"
        in (help_of(RunOptions, "max_batch_bytes"))
    )
    assert f"flushConsumeQueueThoroughInterval, {seconds:g}]" in help_of(
        RunOptions, "flush_seconds"
    )
    assert dict(RUN)["--flush-seconds"] == f"{seconds:g}"
    assert f"[default: {MAX_HITS}; {MAX_UNIQUE_HITS} with --unique]" in help_of(KeyOptions, "limit")
