"""What is missing, or a file in the place of a directory, is wrong usage in every command: 2."""

from __future__ import annotations

import json

import pytest

from formats.messageid import offset_id
from tests.streaming.test_query_commands import Reput

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
