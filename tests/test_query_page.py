"""docs/query.md is right to the letter: its commands print what it shows, on a real broker's store."""

from __future__ import annotations

import re
import shlex
import sys
import time
from pathlib import Path

import pytest

from reput.streaming.cli.main import main

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "query.md").read_text("utf-8")
STORE = "/data/rocketmq/store"
EXAMPLES = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def source(golden, tmp_path, monkeypatch):
    """The store of the page, and its broker.conf; times are shown as there."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    store = golden("5.5.0", "trans")
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in store.conf.items()))
    yield store.path, conf
    monkeypatch.undo()
    time.tzset()


def test_there_are_examples():
    assert len(EXAMPLES) > 10


@pytest.mark.parametrize(("command", "expected"), EXAMPLES)
def test_a_command_prints_what_the_page_shows(command, expected, source, monkeypatch, capsys):
    path, conf = source
    words = [word.replace(STORE, str(path)) for word in shlex.split(command)]
    monkeypatch.setattr(sys, "argv", [*words, "--broker-conf", str(conf)])

    with pytest.raises(SystemExit):
        main()

    shown = capsys.readouterr()
    assert (shown.out + shown.err).replace(str(path), STORE).strip() == expected.strip()


def test_the_python_runs(source, capsys):
    """
    The snippet as it stands, but for the path and the broker's small files.
    """
    path, conf = source
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    settings = dict(line.split("=", 1) for line in conf.read_text().splitlines())
    code = code.replace(STORE, str(path)).replace('{"maxIndexNum": 20_000_000}', repr(settings))

    exec(compile(code, "docs/query.md", "exec"), {})

    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "0 0 b'\\x08<P\\x13\\xe1\\x0bS\\xe1\\xfaK}\\x12B/\\x13\\xfc\\x08\\xde'",
        "found 1",
        "not found 0",
        "FOUND 32",
        "[]",
    ]
