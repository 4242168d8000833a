"""A store that a reput.toml names is asked by --config, in every command that is about one."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest
import typer

from reput.streaming.cli.main import app, main
from tests.builders.stores import SMALL
from tests.streaming.cli.test_query import Reput


@pytest.fixture
def made(tmp_path, monkeypatch, capsys):
    """A file with two stores, of which the second has messages, and the command."""
    store = Reput(tmp_path, monkeypatch, capsys)
    store.put(b"body", properties={"KEYS": "k", "UNIQ_KEY": "U"})
    store.dispatch()
    file = tmp_path / "reput.toml"
    file.write_text(
        "[[store]]\nname='a'\npath='none'\noutput='nowhere'\n"
        "[[store]]\nname='b'\npath='store'\noutput='out'\nbroker_conf='broker.conf'\n"
        "[kafka]\nbootstrap='kafka:9092'\n"
    )

    def reput(*words):
        monkeypatch.setattr(sys, "argv", ["reput", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return store, file, reput


def _leaves(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command, (*path, name))
        else:
            yield (*path, name), command


LEAVES = dict(_leaves(typer.main.get_command(app)))
COMMANDS = (
    "query key k --topic t",
    "query id U --topic t",
    "query offset 0 --topic t --queue 0",
    "query time 0",
    "query transactions",
    "query delayed",
    "query timer",
    "query consumers",
    "topics",
    "tail --topic t --from-start --limit 1",
    "verify",
    "handover",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_what_store_and_the_rest_name(made, command):
    store, file, reput = made
    words = [*command.split(), "--json"]
    code, shown, error = store(*words)
    by_file = reput(*words, "--config", file, "--store-name", "b")

    def without_time(text):
        return {name: value for name, value in json.loads(text).items() if name != "seconds"}

    if command == "handover":
        document, other = json.loads(shown), json.loads(by_file[1])
        document["verify"].pop("seconds"), other["verify"].pop("seconds")
        assert {**document, "seconds": 0} == {**other, "seconds": 0}
    else:
        assert without_time(by_file[1]) == without_time(shown)
    assert (by_file[0], by_file[2]) == (code, error)


@pytest.mark.parametrize("command", [*COMMANDS, "export --to made"])
def test_what_is_wrong_is_said(made, command):
    store, file, reput = made
    words = command.split()

    for more, problem in (
        ([], "say what to read with --store DIR, or name it with --config FILE"),
        (["--config", file], "has 2 stores, a, b: say which with --store-name"),
        (["--config", file, "--store-name", "B"], "no such store 'B'; there are b, a"),
        (["--store-name", "b"], "--store-name is for a store of --config"),
        (["--config", file, "--store", store.store], "leave --store, --output, --broker-version"),
        (["--config", store.directory / "none.toml"], "cannot be read"),
    ):
        code, shown, error = reput(*words, *more)
        assert (code, shown) == (2, "")
        assert problem in error


def _takes(path, option):
    return any(option in each.opts for each in LEAVES[path].get_params(typer.Context(LEAVES[path])))


WITH_CONFIG = [path for path in LEAVES if _takes(path, "--config")]
# What a table of a reput.toml says, so that no option of a command may say it as well.
OF_STORES = {
    "--store": ["store"],
    "--output": ["out"],
    "--broker-version": ["5.5"],
    "--broker-conf": ["broker.conf"],
    "--commitlog": ["log"],
    "--in-place": [],
    "--any-version": [],
}


@pytest.mark.parametrize(
    ("path", "option"),
    [
        pytest.param(path, option, id=" ".join([*path, option]))
        for path in WITH_CONFIG
        for option in OF_STORES
        if _takes(path, option)
    ],
)
def test_no_option_is_ignored_beside_a_file(made, path, option):
    """
    Each command that takes --config refuses each option that the file's tables stand for, also one
    with the value that counts without it: nobody is to believe that it counts.
    """
    _, file, reput = made
    words = {"inspect": [file], "query key": ["k"], "query id": ["U"], "query offset": ["0"]}
    words = words.get(" ".join(path), words.get(path[0], []))
    needed = {"--topic": ["t"], "--queue": ["0"], "--to": ["made"]}
    for name, value in needed.items():
        if _takes(path, name):
            words = [*words, name, *value]
    if path == ("query", "time"):
        words = ["0", *words]

    if path in {("handover",), ("verify",)} and option == "--any-version":
        # There it is about the command, and adds to what the file says.
        return
    several = path[0] in {"run", "rebuild"}
    which = [] if several else ["--store-name", "b"]
    code, shown, error = reput(*path, *words, "--config", file, *which, option, *OF_STORES[option])

    assert (code, shown) == (2, "")
    assert "--config names the store" in error
    assert option in error


def test_all_commands_that_read_a_store_take_a_file():
    """
    The test above is over what there is: it has every command but those that read no store.
    """
    others = {" ".join(path) for path in LEAVES} - {" ".join(path) for path in WITH_CONFIG}
    files = {f"inspect {kind}" for kind in ("batch", "checkpoint", "consumequeue", "ext")}
    assert others == {"demo", "prepare", *files}


def test_a_single_store_needs_no_name(made):
    store, file, reput = made
    file.write_text("[[store]]\npath='store'\noutput='out'\nbroker_conf='broker.conf'\n")

    assert reput("topics", "--config", file) == store("topics")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_of_a_file_without_output_has_its_own_queues(made, command):
    """
    As without --output, and as in `reput serve`: one file is enough for all that only read.
    """
    store, file, reput = made
    for place in ("consumequeue", "index"):
        shutil.copytree(store.output / place, store.store / place)
    file.write_text(
        "[[store]]\nname='a'\npath='none'\n"
        "[[store]]\nname='b'\npath='store'\nbroker_conf='broker.conf'\n"
    )
    words = command.split()
    by_file = reput(*words, "--config", file, "--store-name", "b")
    by_store = reput(*words, "--store", store.store, "--broker-conf", store.conf)

    assert _untimed(by_file) == _untimed(by_store)
    assert by_file[0] != 2


@pytest.mark.parametrize("command", ["topics", "query time 0", "verify"])
def test_such_a_store_that_is_not_there_is_no_output(made, command):
    _, file, reput = made
    file.write_text("[[store]]\npath='none'\nbroker_conf='broker.conf'\n")
    by_file = reput(*command.split(), "--config", file)

    assert by_file == reput(*command.split(), "--store", file.parent / "none")
    assert by_file[0] == 3


def _untimed(ended):
    code, shown, error = ended
    return code, re.sub(r"in [0-9.]+ s", "in S s", shown), error


def test_inspect_takes_its_settings(made):
    store, file, reput = made
    (index,) = (store.output / "index").iterdir()

    assert reput("inspect", "index", index)[0] == 3
    code, shown, _ = reput(
        "inspect", "index", index, "--config", file, "--store-name", "b", "--json"
    )
    assert code == 0
    assert json.loads(shown)["file"]["slots"] == int(SMALL["maxHashSlotNum"])


def test_remedies_are_keys_where_a_file_names_the_store(made):
    """
    An option that is not on the command line is not a remedy; with --store it is one.
    """
    store, file, reput = made
    file.write_text("[[store]]\npath='store'\noutput='out'\n")

    code, _, error = reput("verify", "--config", file)
    assert code == 3
    assert "mappedFileSizeCommitLog in broker_conf." in error
    assert "--" not in error
    code, _, error = reput("verify", "--store", store.store, "--output", store.output)
    assert "mappedFileSizeCommitLog in --broker-conf." in error


def test_an_output_that_is_not_there_is_named(made):
    store, file, reput = made
    file.write_text("[[store]]\npath='store'\noutput='later'\nbroker_conf='broker.conf'\n")

    code, _, error = reput("topics", "--config", file)

    assert code == 2
    assert f"output {store.directory / 'later'}: no such directory" in error
