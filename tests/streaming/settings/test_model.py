"""Each option is stated once: the command line, a reput.toml and the chart take the same."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import math
from pathlib import Path

import pytest
import typer
import yaml

from helm import values_schema
from reput.formats.errors import UsageError
from reput.streaming.cli.jobs.choice import job_options
from reput.streaming.cli.main import app
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.dispatching import Dispatching
from reput.streaming.settings.kafka import KEYS, SECRETS, kafka_settings
from reput.streaming.settings.model.checks import (
    CheckOptions,
    DemoOptions,
    PrepareOptions,
)
from reput.streaming.settings.model.exports import ExportOptions
from reput.streaming.settings.model.inspections import (
    BatchOptions,
    ExtOptions,
    FileOptions,
    IndexOptions,
    LogOptions,
    QueueOptions,
)
from reput.streaming.settings.model.jobs import RebuildOptions, RunOptions
from reput.streaming.settings.model.option import options_of
from reput.streaming.settings.model.queries import (
    ConsumerOptions,
    DelayedOptions,
    IdOptions,
    KeyOptions,
    OffsetOptions,
    TailOptions,
    TimeOptions,
    TimerOptions,
    TopicsOptions,
    TransactionOptions,
)
from reput.streaming.settings.model.saying import Saying
from reput.streaming.settings.model.serving import ServeOptions
from reput.streaming.settings.model.stores import store_keys
from reput.streaming.settings.reput_toml import read_config
from reput.streaming.verify.repair import repair
from reput.streaming.writers.job_options import JobOptions

ROOT = Path(__file__).parents[3]
VALUES = yaml.safe_load((values_schema.CHART / "values.yaml").read_text("utf-8"))
SCHEMA = json.loads(values_schema.SCHEMA.read_text("utf-8"))
CLASSES = {
    "run": RunOptions,
    "rebuild": RebuildOptions,
    "verify": CheckOptions,
    "handover": CheckOptions,
    "prepare": PrepareOptions,
    "demo": DemoOptions,
    "topics": TopicsOptions,
    "tail": TailOptions,
    "export": ExportOptions,
    "serve": ServeOptions,
    "query key": KeyOptions,
    "query id": IdOptions,
    "query offset": OffsetOptions,
    "query time": TimeOptions,
    "query transactions": TransactionOptions,
    "query delayed": DelayedOptions,
    "query timer": TimerOptions,
    "query consumers": ConsumerOptions,
    "inspect commitlog": LogOptions,
    "inspect consumequeue": QueueOptions,
    "inspect ext": ExtOptions,
    "inspect batch": BatchOptions,
    "inspect index": IndexOptions,
    "inspect checkpoint": FileOptions,
}


def leaves(group, path=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


COMMANDS = dict(leaves(typer.main.get_command(app)))
FIELDS = [(name, field) for name, kind in CLASSES.items() for field in options_of(kind)]
CHARTED = [f for f in options_of(RunOptions) if f.option.chart and f.option.chart.is_value]


def ids(value):
    return value if isinstance(value, str) else value.name


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_options_of_its_class_and_no_others(name):
    """
    With their defaults, in the order of the class, and after them what all commands have.
    """
    fields = [*options_of(CLASSES[name]), *options_of(Saying)]
    params = COMMANDS[name].params

    assert [each.name for each in params] == [each.name for each in fields]
    for param, field in zip(params, fields, strict=True):
        if field.default is dataclasses.MISSING:
            assert param.required
        else:
            assert param.default == field.default
        if field.flag:
            assert field.flag in param.opts
        assert field.option.help in param.help or field.name == "quiet"


def refused(name, field, value):
    """Return what a command's line says of a value, "" where it takes it."""
    words = []
    for each in options_of(CLASSES[name]):
        value_of = value if each.name == field.name else 1
        if each.name == field.name or each.default is dataclasses.MISSING:
            words += ["--", value_of] if not each.flag else [each.flag, value_of]
    # Arguments last.
    if "--" in words:
        at = words.index("--")
        words = [*words[:at], *words[at + 2 :], *words[at : at + 2]]
    try:
        COMMANDS[name].make_context("reput", list(map(str, words)))
    except Exception as error:  # noqa: BLE001 - typer's own, which it does not export
        return str(error.format_message())
    return ""


@pytest.mark.parametrize(
    ("name", "field"),
    [each for each in FIELDS if {each[1].option.least, each[1].option.most} != {None}],
    ids=ids,
)
def test_bounds_are_those_of_the_command_line(name, field):
    """
    A bound itself is taken, what is past it is not.
    """
    for bound, step in ((field.option.least, -1), (field.option.most, 1)):
        if bound is not None:
            assert refused(name, field, bound) == ""
            past = bound + step if field.kind is int else math.nextafter(bound, step * math.inf)
            assert "should be" in refused(name, field, past)


def node(tree, path, *, is_schema=False):
    for part in path.split("."):
        tree = tree["properties"][part] if is_schema else tree[part]
    return tree


@pytest.mark.parametrize("field", CHARTED, ids=ids)
def test_the_chart_has_the_same_default_and_bounds(field):
    """
    Or narrower bounds and another default, where the model says that the chart has those.
    """
    chart, schema = field.option.chart, node(SCHEMA, field.option.chart.path, is_schema=True)
    wanted = field.default if chart.default is None else chart.default
    value = node(VALUES, chart.path)

    assert (value or None) == (wanted or None)
    least = field.option.least if chart.least is None else chart.least
    most = field.option.most if chart.most is None else chart.most
    assert (schema.get("minimum"), schema.get("maximum")) == (least, most)
    assert field.option.least is None or least >= field.option.least
    assert field.option.most is None or most <= field.option.most
    assert schema == values_schema.option(field, chart)


def test_every_value_of_run_is_an_option():
    """
    Further arguments aside: nothing below `run` is stated by the chart alone.
    """
    charted = {field.option.chart.path for field in CHARTED}

    assert {f"run.{name}" for name in VALUES["run"]} - charted == {"run.extraArgs"}


def test_every_key_of_a_store_is_taken(tmp_path):
    """
    And each but the name is an option of `run` and `rebuild` with the same type and default.
    """
    text = {"name": "a", "path": "s", "output": "o", "broker_version": "5.3", "commitlog": "log"}
    (tmp_path / "broker.conf").write_text("")
    text["broker_conf"] = "broker.conf"
    switches = {"any_version": True, "in_place": False}
    assert store_keys().keys() == text.keys() | switches.keys()
    lines = [f"{key} = {json.dumps(value)}" for key, value in (text | switches).items()]
    (tmp_path / "reput.toml").write_text("\n".join(["[[store]]", *lines]))
    (read,) = read_config(tmp_path / "reput.toml")

    assert (read.name, read.path, read.output) == ("a", tmp_path / "s", tmp_path / "o")
    assert (read.settings.version.family, read.any_version) == ("5.3", True)
    assert read.settings.commitlog_told == (str(tmp_path / "log"),)
    for name in ("run", "rebuild"):
        stated = {each.option.key: each for each in options_of(CLASSES[name]) if each.option.key}
        assert stated == {key: each for key, each in store_keys().items() if key != "name"}


@pytest.mark.parametrize("key", sorted(store_keys()))
def test_a_key_of_another_type_is_refused(tmp_path, key):
    other = '"x"' if store_keys()[key].kind is bool else "1"
    given = {"path": '"s"', "output": '"o"'} | {key: other}
    lines = [f"{name} = {value}" for name, value in given.items()]
    (tmp_path / "reput.toml").write_text("\n".join(["[[store]]", *lines]))

    with pytest.raises(UsageError, match=rf"{key} must be a "):
        read_config(tmp_path / "reput.toml")


def test_every_key_of_kafka_is_in_the_chart():
    """
    Secrets too, to be refused there with a sentence.
    """
    assert set(values_schema.kafka()["properties"]) == set(KEYS) | SECRETS


@pytest.mark.parametrize("key", sorted(set(KEYS) - {"client"}))
def test_the_least_of_a_kafka_key_is_the_charts(key):
    """
    What helm takes at its bounds, the job takes; past them neither does.
    """
    schema = values_schema.kafka()["properties"][key]
    for name, step in (("minimum", -1), ("maximum", 1)):
        if name in schema:
            whole = schema["type"] != "number"
            past = schema[name] + step if whole else math.nextafter(schema[name], step * math.inf)
            values = {"bootstrap": "k:1", "transaction_timeout_seconds": 1e9}
            if key in {"transaction_seconds", "transaction_timeout_seconds"}:
                # Each is a bound of the other.
                values["transaction_seconds"] = 0.01
            if (key, name) not in {
                ("transaction_timeout_seconds", "minimum"),
                ("transaction_seconds", "maximum"),
            }:
                kafka_settings(values | {key: schema[name]})
            with pytest.raises(UsageError, match=key):
                kafka_settings(values | {key: past})


@pytest.mark.parametrize("options", [RunOptions(), RebuildOptions()])
def test_a_job_by_default_is_what_the_command_starts_by_default(options):
    """
    Whether it ends by itself aside; a program that makes a job gets what the pages say.
    """
    assert job_options(options, available_now=False) == JobOptions()


@pytest.mark.parametrize("opens", [StoreDispatcher.__init__, repair])
def test_a_store_by_default_is_dispatched_as_a_job_does_by_default(opens):
    taken = inspect.signature(opens).parameters
    usual = dataclasses.asdict(Dispatching())
    stated = {name: taken[name].default for name in usual if name in taken}

    assert stated.keys() >= {"threads", "fail_on_data_loss", "skips_corrupt"}
    assert stated == {name: usual[name] for name in stated}
    assert usual.items() <= dataclasses.asdict(JobOptions()).items()


def test_no_option_is_declared_elsewhere():
    """
    Only one module makes options of typer's, and it makes them from the model.
    """
    found = []
    for path in sorted((ROOT / "streaming").rglob("*.py")):
        for each in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_made = isinstance(each, ast.Attribute) and each.attr in {"Option", "Argument"}
            if is_made and isinstance(each.value, ast.Name) and each.value.id == "typer":
                found.append(path.relative_to(ROOT).as_posix())

    assert set(found) == {"streaming/cli/app.py"}
