"""The README is right to the letter: its commands and its Python run, on a real broker's store."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reput.streaming.settings.reput_toml import read_config

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
STORE = "/data/rocketmq/store"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def data(golden, tmp_path):
    """A directory in the place of /data, with a store and the broker.conf of the README."""
    source = golden("5.3.3", "basic")
    source.copy_input(tmp_path / "rocketmq" / "store")
    conf = "".join(f"{name}={value}\n" for name, value in source.conf.items())
    (tmp_path / "broker.conf").write_text(conf)
    return tmp_path


def expanded(word):
    """A word with what a shell puts in the place of $(…)."""
    if "$(" not in word:
        return word
    echo = ["sh", "-c", f'printf %s "{word}"']
    return subprocess.run(echo, capture_output=True, text=True, check=True).stdout


def commands(data):
    """The README's reput commands, told to look at `data`; sizes of files are the golden's own."""
    for block in blocks("sh"):
        for line in block.splitlines():
            if not line.startswith(".venv/bin/reput"):
                continue
            words = shlex.split(line.replace("/etc/rocketmq/broker.conf", "BROKER_CONF"))[1:]
            words = [expanded(word.replace("/data", str(data))) for word in words]
            if "BROKER_CONF" in words:
                words[words.index("BROKER_CONF")] = str(data / "broker.conf")
            elif words[:2] != ["inspect", "commitlog"]:
                words += ["--broker-conf", str(data / "broker.conf")]
            yield words


@pytest.mark.spark
def test_the_commands_do_what_the_text_says(data):
    """
    In the README's order: rebuild, verify, inspect, handover end with 0; run does not end itself.
    """
    ran = []
    for words in commands(data):
        if words[0] == "run":
            # It ends by a signal: tests/test_command.py does that; here its arguments are checked.
            words += ["--help"]
        done = subprocess.run(
            [sys.executable, "-m", "reput", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        assert done.returncode == 0, (words, done.stderr)
        ran.append(words[0])
    looked = ["verify", "inspect", "inspect"]
    assert ran == ["rebuild", *looked, "rebuild", "topics", "query", "run", "handover"]


@pytest.mark.spark
def test_the_python_runs(data, spark):
    """
    The snippet is executed as it stands, but for the path and the broker's small files.
    """
    (code,) = blocks("python")
    options = f'.options(brokerConf="{data / "broker.conf"}", brokerVersion="5.3.3")'
    code = code.replace("/data/rocketmq/store", str(data / "rocketmq" / "store"))
    code = code.replace('.format("rocketmq")', f'.format("rocketmq"){options}')
    names: dict = {}

    exec(code, names)

    assert names["messages"].count() == 3004
    assert names["live"].isStreaming


def test_the_configuration_is_read(tmp_path):
    """
    The reput.toml of the README names two stores.
    """
    (text,) = blocks("toml")
    (tmp_path / "a.conf").write_text("")
    path = tmp_path / "reput.toml"
    path.write_text(text.replace("/etc/rocketmq/broker-a.conf", str(tmp_path / "a.conf")))

    configs = read_config(path)

    assert [config.name for config in configs] == ["broker-a", "broker-b"]
    assert configs[0].settings.version.family == "5.3"


def test_every_setting_of_the_table_is_known():
    """
    What the README promises to honour is what `broker_conf.py` and `settings/config.py` read.
    """
    table = README.split("what it changes |\n")[1].split("\n\n")[0]
    named = set(
        re.findall(
            r"`([a-z][A-Za-z]+)`", "\n".join(r.split("|")[1] for r in table.splitlines()[1:])
        )
    )
    source = "".join(
        (ROOT / path).read_text()
        for path in (
            "formats/rocketmq/broker.py",
            "formats/rocketmq/broker_conf.py",
            "streaming/settings/config.py",
        )
    )

    assert len(named) > 12
    assert {name for name in named if f'"{name}"' not in source} == set()


def test_every_file_that_is_named_is_there():
    """
    Links and paths in README and ARCHITECTURE.md lead somewhere.
    """
    for page in ("README.md", "ARCHITECTURE.md"):
        text = (ROOT / page).read_text()
        paths = set(
            re.findall(r"`((?:formats|stores|sinks|checkpoints|streaming|docs)/[\w./-]+)`", text)
        )
        paths |= {link for link in re.findall(r"\]\((\w[\w./-]*)\)", text) if "://" not in link}
        missing = {path for path in paths if "*" not in path and not (ROOT / path).exists()}
        assert missing == set()
        assert paths
