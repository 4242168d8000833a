"""What is missing, or a file in the place of a directory, is wrong usage in every command: 2."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import get_args

import pytest
import typer

from reput.formats.rocketmq.messageid import offset_id
from reput.streaming.cli.main import app
from tests.streaming.cli.test_query import Reput

READING = (
    "verify",
    "handover",
    "topics",
    "tail --topic t --seconds 0",
    "query key k --topic t",
    f"query id {offset_id('127.0.0.1:10911', 0)}",
    "query offset 0 --topic t --queue 0",
    "query time 0",
    "query transactions",
    "query delayed",
    "query timer",
    "query consumers",
    "export --to {directory}/to",
)
WRITING = ("run", "rebuild", "rebuild --repair")


class Bare(Reput):
    """The command without any store; `options` are given in its place."""

    options: tuple[object, ...] = ()

    def arguments(self, *words):
        words = [str(word).format(directory=self.directory) for word in words]
        return [*map(str, words), *map(str, self.options)]


@pytest.fixture
def bare(tmp_path, monkeypatch, capsys):
    made = Bare(tmp_path, monkeypatch, capsys)
    made.put(b"body")
    made.dispatch()
    return made


@pytest.mark.parametrize("command", [*READING, *WRITING])
def test_no_store(bare, command):
    code, _, error = bare(*command.split())

    assert code == 2
    assert "say what to read with --store DIR" in error


@pytest.mark.parametrize("command", WRITING)
def test_no_output(bare, command):
    bare.options = ("--store", bare.store)
    code, _, error = bare(*command.split())

    assert (code, error.count("\n")) == (2, 1)
    assert "--output is missing: say where to write" in error


@pytest.mark.parametrize("command", [*READING, *WRITING])
@pytest.mark.parametrize("option", ["--store", "--output"])
def test_a_file_is_no_directory(bare, command, option):
    """
    In one sentence that names the option or the output, and the file.
    """
    places = {"--store": bare.store, "--output": bare.output, option: bare.conf}
    bare.options = [*(word for pair in places.items() for word in pair), "--broker-conf", bare.conf]
    code, _, error = bare(*command.split())

    assert (code, error.count("\n")) == (2, 1)
    assert option.removeprefix("--") in error
    assert f"{bare.conf} is a file; name a directory" in error


def path_options(command, name="reput"):
    """Yield commands, and options of theirs that name a file or a directory."""
    for each in getattr(command, "params", ()):
        kind = getattr(getattr(each, "type_descriptor", None), "annotation", None)
        if Path in {kind, *get_args(kind)}:
            yield from ((name, option) for option in each.opts if option.startswith("--"))
    for below, found in getattr(command, "commands", {}).items():
        yield from path_options(found, f"{name} {below}")


PATHS = sorted(path_options(typer.main.get_command(app)))


@pytest.mark.parametrize(("command", "option"), PATHS)
def test_no_option_takes_an_empty_path(bare, command, option):
    """
    Each command refuses it, before it looks at anything else.
    """
    code, _, error = bare(*command.split()[1:], f"{option}=")

    assert (code, error.count("\n")) == (2, 1)
    assert f"{option} is empty" in error


def test_paths_are_found():
    assert {("reput verify", "--store"), ("reput export", "--to")} < set(PATHS)


@pytest.mark.parametrize("form", ["--store ''", "--output ''", "--output="])
@pytest.mark.parametrize("command", ["verify", "query time 0", "rebuild"])
def test_an_empty_path_is_not_the_current_directory(bare, monkeypatch, command, form):
    """
    It is that of a variable that is not set.
    """
    monkeypatch.chdir(bare.store)
    bare.options = ("--broker-conf", bare.conf)
    others = {"--store": bare.store, "--output": bare.directory / "new"}
    option, *value = shlex.split(form)
    given = [w for name, place in others.items() if name not in form for w in (name, place)]
    code, _, error = bare(*command.split(), *given, option, *value)

    assert (code, error.count("\n")) == (2, 1)
    assert f"{option.rstrip('=')} is empty" in error
    assert not (bare.store / ".reput").exists()


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(("run", option) for option in ("--kafka-bootstrap", "--metrics-host", "--cluster")),
        ("rebuild", "--kafka-bootstrap"),
        ("rebuild --repair", "--kafka-bootstrap"),
    ],
)
@pytest.mark.parametrize("blank", ["", " "])
def test_a_blank_text_is_not_the_default(bare, command, option, blank):
    """
    Without Kafka's address nothing would be sent, and without a host the port of the metrics would
    be open on all addresses: both without a word.
    """
    places = ("--store", bare.store, "--output", bare.directory / "new", "--broker-conf", bare.conf)
    bare.options = (*places, option, blank)
    code, _, error = bare(*command.split())

    assert (code, error.count("\n")) == (2, 1)
    assert f"{option} {blank!r}: nothing is named; is a variable not set?" in error
    assert not (bare.directory / "new").exists()


@pytest.mark.parametrize(
    ("command", "option"),
    [("run", "--max-batch-bytes"), ("run", "--ready-behind"), ("rebuild", "--max-batch-bytes")],
)
def test_a_size_that_is_none_names_its_option(bare, command, option):
    places = ("--store", bare.store, "--output", bare.directory / "new", "--broker-conf", bare.conf)
    bare.options = (*places, option, "much")
    code, _, error = bare(*command.split())

    assert (code, error.count("\n")) == (2, 1)
    assert f"{option} 'much' is not a number of bytes" in error


@pytest.mark.parametrize("key", ["path", "output", "commitlog"])
def test_an_empty_path_in_a_file_is_not_its_directory(bare, key):
    keys = {"path": "store", "output": "out", key: ""}
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
    (bare.directory / "reput.toml").write_text(f"[[store]]\n{text}")
    bare.options = ("--config", bare.directory / "reput.toml")
    code, _, error = bare("rebuild")

    assert (code, error.count("\n")) == (2, 1)
    assert f"{key} is empty" in error


@pytest.mark.parametrize("option", ["--output", "--spark-checkpoint"])
def test_a_link_to_nothing_is_named(bare, option):
    link = bare.directory / "link"
    link.symlink_to("nowhere")
    places = {"--store": bare.store, "--output": bare.directory / "new", option: link}
    bare.options = [*(word for pair in places.items() for word in pair), "--broker-conf", bare.conf]
    code, _, error = bare("rebuild")

    assert (code, error.count("\n")) == (2, 1)
    assert f"{link} is a link to nowhere, which is not there" in error


def test_a_file_is_no_place_for_spark_s_record(bare):
    bare.options = (
        *("--store", bare.store, "--output", bare.directory / "new", "--broker-conf", bare.conf),
        *("--spark-checkpoint", bare.conf),
    )
    code, _, error = bare("rebuild")

    assert (code, error.count("\n")) == (2, 1)
    assert f"--spark-checkpoint {bare.conf}: {bare.conf} is a file" in error


@pytest.mark.parametrize("command", READING)
def test_an_output_that_is_not_there(bare, command):
    bare.options = ("--store", bare.store, "--output", bare.directory / "none")
    code, _, error = bare(*command.split(), "--broker-conf", bare.conf)

    assert code == 3
    assert f"{bare.directory / 'none'}: " in error


def test_inspect_shows_bodies_and_times_as_queries_do(bare):
    path = next((bare.store / "commitlog").iterdir())
    words = ("inspect", "commitlog", path, "--broker-conf", bare.conf, "--limit", "1")
    _, plain, _ = bare(*map(str, words), "--json")
    _, shown, _ = bare(*map(str, words), "--json", "--body", "text", "--body-bytes", "2")
    row, more = json.loads(plain)["rows"][0], json.loads(shown)["rows"][0]

    assert {name: more[name] for name in set(more) - set(row)} == {"body": "bo", "body_shown": 2}
    assert {name: more[name] for name in row} == row
    assert row["body_size"] == 4
    assert isinstance(row["stored_ms"], int)
    assert "body  bo\n" in bare(*map(str, words), "--body", "auto", "--body-bytes", "2")[1]
