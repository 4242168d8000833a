"""The command line as people expect it: help, version, completion, and how much is said."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from reput.streaming.cli import help_pages
from reput.streaming.cli.main import app, main
from reput.streaming.endings.verbosity import VERBOSITY, Verbosity
from reput.streaming.settings.model.queries import ROWS
from reput.streaming.show import log_lines

ROOT = Path(__file__).parents[3]


def _tree(group, path=()):
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from _tree(command, (*path, name))


COMMANDS = dict(_tree(typer.main.get_command(app)))
LEAVES = [path for path, command in COMMANDS.items() if not hasattr(command, "commands")]


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command in this process; return exit code, standard output and standard error."""

    def run(*words, columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "argv", ["reput", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run


def reput(*words):
    command = [sys.executable, "-m", "reput", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


class TestPages:
    @pytest.mark.parametrize("columns", [40, 60, 80, 120])
    @pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
    def test_names_are_never_cut(self, run, path, columns):
        """
        Each option's full names are in the page, on a line that begins with them, and no line is
        wider than the terminal but for such a name, a usage line and an example.
        """
        code, page, error = run(*path, "--help", columns=columns)
        first_words = [line.split("  ")[0] for line in map(str.strip, page.splitlines())]

        assert (code, error) == (0, "")
        context = typer.Context(COMMANDS[path])
        names = [
            name
            for each in COMMANDS[path].get_params(context)
            if each.param_type_name == "option"
            for name in (*each.opts, *(each.secondary_opts if "-" in name_of(each) else ()))
        ]
        assert names
        for name in names:
            assert any(name in re.split(r"[ ,/]+", line) for line in first_words), name
        assert "…-" not in page
        assert "Traceback" not in page

    @pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
    def test_h_is_help(self, run, path):
        assert run(*path, "-h") == run(*path, "--help")

    @pytest.mark.parametrize("path", LEAVES, ids=" ".join)
    def test_each_command_has_an_example_that_it_takes(self, path):
        """
        What the page says to type is parsed by the command, so its options are there.
        """
        page = COMMANDS[path].get_help(
            COMMANDS[path].make_context("reput", ["-h"], resilient_parsing=True)
        )
        examples = page.partition("Example")[2].partition("\n\n")[0].partition(":\n")[2]
        lines = examples.replace("\\\n", " ").strip().splitlines()

        assert lines
        for line in lines:
            words = shlex.split(line)
            assert words[: len(path) + 1] == ["reput", *path]
            COMMANDS[path].make_context("reput", words[len(path) + 1 :])

    def test_an_example_that_is_too_long_can_be_pasted(self, run):
        _, page, _ = run("run", "--help", columns=60)

        assert "    reput run --store /data/rocketmq/store \\\n        --output" in page

    def test_options_stand_in_groups(self, run):
        _, page, _ = run("run", "--help")
        headings = re.findall(r"^(\S.*):$", page, re.MULTILINE)

        others = {"Options", "Serving"}
        assert headings == ["Example", *(each for each in help_pages._ORDER if each not in others)]
        assert page.index("Kafka:") < page.index("--kafka-bootstrap") < page.index("Monitoring:")


def name_of(option):
    return "-" if option.secondary_opts else ""


class TestTheBeginning:
    @pytest.mark.parametrize("option", ["--version", "-V"])
    def test_the_version(self, run, option):
        code, shown, error = run(option)

        assert (code, error) == (0, "")
        assert re.fullmatch(r"reput \d+\.\d+\.\d+\S*\n", shown)

    @pytest.mark.parametrize("path", [(), ("query",), ("inspect",)], ids=" ".join)
    def test_nothing_to_do_shows_the_page(self, run, path):
        """
        On standard error, with the code of wrong usage: a script that forgot its command fails.
        """
        code, shown, error = run(*path)

        assert (code, shown) == (2, "")
        assert error.startswith("Usage: reput")
        assert "reput: " not in error

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("rebuil",), "No such command 'rebuil'. Did you mean 'rebuild'? See `reput --help`"),
            (("run", "--otput", "x"), "No such option: --otput"),
            (("query", "key"), "See `reput query key --help`"),
        ],
    )
    def test_wrong_usage_names_the_page(self, run, words, said):
        code, _, error = run(*words)

        assert code == 2
        assert said in error
        assert "--help`\n" in error


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_the_script_asks_this_command(self, run, shell):
        code, script, _ = run("--show-completion", shell)

        assert code == 0
        assert f"_REPUT_COMPLETE=complete_{shell}" in script
        assert "reput" in script

    def test_another_shell_is_wrong_usage(self, run):
        assert (
            "--show-completion 'csh' is not one of bash, zsh, fish"
            in run("--show-completion", "csh")[2]
        )

    @pytest.mark.parametrize(
        ("line", "values"),
        [
            ("reput ver", ["verify"]),
            ("reput query tim", ["time", "timer"]),
            ("reput run --flush ", ["sync", "async"]),
            ("reput verify --broker-version 5.", ["5.3", "5.4", "5.5"]),
            ("reput topics --store {store} --broker-conf {conf} --topic topic-1", ["topic-1"]),
            ("reput query offset --topic hash --store {store} --broker-version 4", ["4.9"]),
            ("reput verify --config {toml} --store-name b", ["basic"]),
            ("reput verify --config /nowhere --store-name b", []),
            ("reput topics --store /nowhere --topic t", []),
        ],
    )
    def test_what_is_offered(self, run, monkeypatch, golden, tmp_path, line, values):
        """
        Commands, options, their values, and names of the store that the line names.
        """
        source = golden("5.5.0", "basic")
        conf, toml = tmp_path / "broker.conf", tmp_path / "reput.toml"
        conf.write_text("".join(f"{name}={value}\n" for name, value in source.conf.items()))
        toml.write_text(f'[[store]]\nname = "basic"\npath = "{source.path}"\noutput = "out"\n')
        line = line.format(store=source.path, conf=conf, toml=toml)
        monkeypatch.setenv("_REPUT_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        code, offered, error = run()

        assert (offered.split(), code, error) == (values, 0, "")


class TestHowMuchIsSaid:
    def test_levels(self):
        """
        Each -v shows a level more than a command's own; -q shows errors and warnings of all.
        """
        said = Verbosity()
        assert (said.level(20), said.level(30), said.shows_bars) == (20, 30, True)
        said.add(1, is_quiet=False)
        assert (said.level(20), said.level(30), said.shows_bars) == (10, 20, False)
        said.add(5, is_quiet=False)
        assert said.level(30) == 10
        said.add(0, is_quiet=True)
        assert (said.level(20), said.shows_bars) == (30, False)

    @pytest.mark.parametrize("before", [True, False])
    @pytest.mark.parametrize("option", ["-q", "--quiet"])
    def test_an_option_may_stand_before_the_command_or_after_it(self, run, before, option):
        words = [option, "verify"] if before else ["verify", option]
        run(*words, "--store", "/nowhere")

        assert VERBOSITY.is_quiet

    def test_errors_are_always_shown(self, run):
        code, _, error = run("-q", "verify", "--store", "/nowhere")

        assert code == 3
        assert error.startswith("reput: /nowhere")

    def test_where_q_is_a_queue_it_stays_one(self, run, golden):
        source = golden("5.5.0", "basic")
        words = ("query", "offset", "0", "--topic", "topic-1", "--store", source.path)
        run(*words, "-q", "9")
        assert not VERBOSITY.is_quiet
        run(*words, "-q", "9", "--quiet")
        assert VERBOSITY.is_quiet

    def test_v_logs_what_is_read(self, golden, tmp_path):
        """
        In every command, as log lines on standard error; the answer is the same.
        """
        source = golden("5.5.0", "basic")
        conf = tmp_path / "broker.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in source.conf.items()))
        for command in ("topics", "verify"):
            words = (command, "--store", source.path, "--broker-conf", conf, "--json")
            usual, more = reput(*words), reput(*words, "-v")

            assert usual.stderr == ""
            assert f"path={source.path}" in more.stderr
            assert " INFO " in more.stderr
            assert "broker_version=5.5" in more.stderr
            assert re.sub(r'"seconds": [\d.]+', "", more.stdout) == re.sub(
                r'"seconds": [\d.]+', "", usual.stdout
            )

    def test_an_unexpected_error_is_shown_whole(self, run, monkeypatch, tmp_path):
        """
        With -v; without it there is one line, and a file.
        """
        monkeypatch.setattr("reput.streaming.cli.topics.open_store", lambda *_: 1 // 0)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        code, _, error = run("topics", "--store", "x")
        assert (code, error.count("\n")) == (3, 1)
        monkeypatch.setattr(log_lines, "log_to_stderr", lambda **_: None)
        code, _, error = run("topics", "--store", "x", "-v")
        assert code == 3
        assert error.startswith("Traceback")
        assert "unexpected ZeroDivisionError" in error.splitlines()[-1]


def test_rows_are_named_in_the_page(run):
    """
    A default that a page names is the one that is used.
    """
    assert f"[default: {ROWS}" in run("query", "timer", "--help")[1]
