"""A name that a store does not have is said to be one, with the names that it has."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from reput.formats.rocketmq import names
from reput.formats.rocketmq.broker import settings_of
from reput.streaming.cli import tail
from reput.streaming.cli.export import Origin, missing_in
from reput.streaming.cli.main import main
from reput.streaming.source.no_such import nearest
from reput.streaming.spark import session
from tests.builders.stores import SMALL
from tests.json_schema import fits
from tests.streaming.cli.test_query import Reput


@pytest.fixture
def reput(tmp_path, monkeypatch, capsys):
    made = Reput(tmp_path, monkeypatch, capsys)
    for topic in ("orders", "orders-eu", "payments"):
        made.put(b"body", topic=topic, properties={"KEYS": "k", "UNIQ_KEY": "U"})
    made.dispatch()
    return made


WORDS = "no such topic 'Oders'; there are orders, orders-eu, payments"


@pytest.mark.parametrize(
    "command",
    [
        "query key k",
        "query key k l",
        "query id U",
        "query offset 0 --queue 0",
        "query time 0",
        "query time 0 --queue 0",
        "topics",
    ],
)
def test_a_topic(reput, command):
    """
    A typing error must not look like a topic without messages: exit code 1, and the nearest names.
    """
    code, shown, error = reput(*command.split(), "--topic", "Oders")
    assert code == 1
    assert f"reput: {WORDS}\n" in error

    code, shown, _ = reput(*command.split(), "--topic", "Oders", "--json")
    assert (code, json.loads(shown)["missing"]) == (1, WORDS)


def test_a_topic_that_is_there_is_not_missing(reput):
    for command in ("query key other", "query id other", "query offset 9 --queue 0"):
        code, shown, error = reput(*command.split(), "--topic", "orders", "--json")
        assert (code, error) == (1, "")
        assert "missing" not in json.loads(shown)


@pytest.mark.parametrize("command", ["query offset 0", "query time 0"])
def test_a_queue(reput, command):
    _, _, error = reput(*command.split(), "--topic", "orders", "--queue", "7")

    assert error == "reput: topic orders has no queue 7; there are 0\n"


def test_tail_says_at_once_that_it_waits(reput):
    """
    A topic may come; a typing error must not wait for ever without a word.
    """
    words = ("tail", "--seconds", "0", "--topic")

    assert reput(*words, "Oders") == (1, "", f"reput: {WORDS}. Waiting for it to appear\n")
    assert "has no queue 3; there are 0. Waiting" in reput(*words, "orders", "--queue", "3")[2]
    assert reput(*words, "orders")[2] == ""


def test_tail_says_that_a_topic_has_come(reput, monkeypatch):
    """
    What was waited for is there: the first line is not the last word.
    """
    looks = []

    def sleep(_seconds):
        looks.append(1)
        if len(looks) == 2:
            (reput.output / "consumequeue" / "orders").rename(
                reput.output / "consumequeue" / "Oders"
            )

    monkeypatch.setattr(tail, "time", SimpleNamespace(sleep=sleep, monotonic=time_of(looks)))
    _, _, error = reput("tail", "--seconds", "5", "--topic", "Oders")

    assert error.splitlines()[0].endswith("Waiting for it to appear")
    assert error.splitlines()[1] == "reput: topic Oders is there now"


def time_of(looks):
    """A clock that advances a second for each look."""
    return lambda: float(len(looks))


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--tag", "none"), "reput: 3 messages came, and none passed --tag 'none'\n"),
        (("--sql", "a > 1"), "reput: 3 messages came, and none passed --sql 'a > 1'\n"),
        (("--tag", "TagA"), ""),
        ((), ""),
    ],
)
def test_a_filter_that_lets_nothing_pass_is_said_once(reput, monkeypatch, option, said):
    """
    After ten seconds if enough has come, or at the end; never where something is shown.
    """
    for i in range(1, 3):
        tag = "TagA" if i == 2 else "other"
        reput.put(b"body", topic="orders", queue_offset=i, properties={"TAGS": tag})
    reput.dispatch()
    looks = []
    clock = SimpleNamespace(sleep=looks.append, monotonic=time_of(looks))
    monkeypatch.setattr(tail, "time", clock)
    monkeypatch.setattr(tail, "_REMARK_MESSAGES", 3)
    words = ("tail", "--topic", "orders", "--from-start", *option, "--seconds")

    assert reput(*words, "30")[2] == said
    assert len(looks) == 30
    looks.clear()
    assert reput(*words, "0")[2] == said
    monkeypatch.setattr(tail, "_REMARK_MESSAGES", 4)
    looks.clear()
    assert reput(*words, "30")[2] == said


def test_a_store_without_queues_names_the_option(reput):
    for path in (reput.output / "consumequeue").iterdir():
        for queue in path.iterdir():
            for file in queue.iterdir():
                file.unlink()
            queue.rmdir()
        path.rmdir()

    _, _, error = reput("query", "offset", "0", "--topic", "orders", "--queue", "0")

    assert f"{reput.output} has no queues at all; if reput wrote them elsewhere" in error


def test_an_export_of_nothing_says_why(reput):
    """
    Unless the store has no queues at all: a log alone is exported as well.
    """
    settings = settings_of("5.5", SMALL)

    origin = Origin("store", reput.store, reput.output, {}, "5.5", settings)

    assert missing_in(origin, "Oders", None) == WORDS
    assert missing_in(origin, "orders", 0) is None
    assert missing_in(replace(origin, output=None), "Oders", None) is None


class SparkStartedError(Exception):
    """Spark was about to be started."""


@pytest.fixture
def without_spark(monkeypatch):
    def start(*_args, **_settings):
        raise SparkStartedError

    monkeypatch.setattr(session, "build_session", start)


class TestExportWithoutSpark:
    """What is known beforehand is said before Spark is started, and instead of starting it."""

    NOT_KNOWN = "The queues may not have all of the log: reading it\n"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--topic", "Oders"), WORDS),
            (("--topic", "orders", "--queue", "7"), "topic orders has no queue 7; there are 0"),
        ],
    )
    def test_no_topic_no_queue(self, reput, without_spark, tmp_path, words, said):
        """
        Exit code 1 as with the other commands; nothing is written.
        """
        to = tmp_path / "to"
        assert reput("export", "--to", to, *words) == (
            1,
            f"0 messages; nothing is written to {to}\n",
            f"reput: {said}\n",
        )
        code, shown, error = reput("export", "--to", to, *words, "--json")
        document = json.loads(shown)
        assert fits(document, "export")
        assert (code, document["messages"], document["missing"]) == (1, 0, said)
        assert error == f"reput: {said}\n"
        assert not to.exists()

    def test_an_earlier_export_stays(self, reput, without_spark, tmp_path):
        """
        A typing error with --overwrite leaves it alone.
        """
        (tmp_path / "to").mkdir()
        earlier = [tmp_path / "to" / name for name in ("_SUCCESS", "part-1.parquet")]
        for path in earlier:
            path.write_bytes(b"PAR1")
        code, _, error = reput("export", "--to", tmp_path / "to", "--overwrite", "--topic", "Oders")
        assert (code, error) == (1, f"reput: {WORDS}\n")
        assert all(path.exists() for path in earlier)

    def test_a_brokers_own_store(self, golden, without_spark, monkeypatch, capsys, tmp_path):
        """
        One that was closed in order has all of its log in its queues.
        """
        source = golden("5.5.0", "basic")
        conf = tmp_path / "broker.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in source.conf.items()))
        words = ["reput", "export", "--to", tmp_path / "to", "--topic", "pay-7"]
        words += ["--store", source.path, "--broker-conf", conf]
        monkeypatch.setattr(sys, "argv", [*map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()

        assert ended.value.code == 1
        assert "no such topic 'pay-7'; there are " in capsys.readouterr().err

    @pytest.mark.parametrize(
        "state",
        [
            "behind",
            "deleted",
            "running",
            "damaged record",
            "damaged log",
            "multi-dispatch",
            "skip",
        ],
    )
    def test_what_queues_cannot_know_is_not_refused(self, reput, without_spark, tmp_path, state):
        """
        The log may have it: it is read then, after a word about it.
        """
        if state == "behind":
            reput.put(b"body", topic="Oders")
            reput.log.write(reput.store)
        elif state == "deleted":
            shutil.rmtree(reput.output / "consumequeue" / "payments")
        elif state == "running":
            (reput.output / ".reput" / "progress.json").unlink()
            (reput.output / "abort").touch()
        elif state == "damaged record":
            (reput.output / ".reput" / "progress.json").write_bytes(b"{")
        elif state == "damaged log":
            path = reput.store / "commitlog" / names.offset_file(0)
            raw = bytearray(path.read_bytes())
            raw[reput.log.places[1].position + 4] ^= 0xFF
            path.write_bytes(raw)
        elif state == "multi-dispatch":
            with reput.conf.open("a") as file:
                file.write("enableMultiDispatch=true\n")
        asked = "Oders" if state != "deleted" else "payments"
        words = ("export", "--to", tmp_path / "to", "--topic", asked)
        code, _, error = reput(*words, *(("--on-corrupt", "skip") if state == "skip" else ()))

        assert error.startswith(f"reput: no such topic '{asked}'; there are orders, ")
        assert self.NOT_KNOWN in error
        assert "SparkStartedError" in error
        assert code == 3

    def test_a_store_without_queues_says_nothing(self, reput, without_spark, tmp_path):
        """
        Nothing is known of its topics.
        """
        for kind in ("consumequeue", "index"):
            shutil.rmtree(reput.output / kind)
        _, _, error = reput("export", "--to", tmp_path / "to", "--topic", "Oders")

        assert "SparkStartedError" in error
        assert "no such topic" not in error

    @pytest.mark.spark
    @pytest.mark.parametrize(("topic", "code"), [("late", 0), ("Oders", 1)])
    def test_what_is_not_dispatched_yet_is_exported(self, reput, tmp_path, topic, code):
        """
        With the word about it before, and once only.
        """
        reput.put(b"body", topic="late")
        reput.log.write(reput.store)
        line = [sys.executable, "-m", "reput"]
        line += reput.arguments("export", "--to", tmp_path / "to", "--topic", topic, "--json")
        root = Path(__file__).resolve().parents[3]
        done = subprocess.run(line, cwd=root, capture_output=True, text=True, check=False)
        document = json.loads(done.stdout)

        assert done.returncode == code, done.stderr
        assert fits(document, "export")
        assert document["messages"] == (topic == "late")
        assert (document["missing"] is None) == (topic == "late")
        assert done.stderr.count("no such topic") == 1
        assert self.NOT_KNOWN in done.stderr


def test_groups_and_topics_of_consumers(reput):
    config = reput.store / "config"
    config.mkdir(exist_ok=True)
    table = {"offsetTable": {"orders@billing": {"0": 1}, "payments@ledger": {"0": 1}}}
    (config / "consumerOffset.json").write_text(json.dumps(table))
    words = ("query", "consumers")

    assert reput(*words, "--group", "biling")[::2] == (
        1,
        "reput: no such group 'biling'; there are billing, ledger\n",
    )
    assert "no such topic 'x'; there are orders, payments" in reput(*words, "--topic", "x")[2]
    assert reput(*words, "--group", "billing")[0] == 0


def test_the_nearest_come_first_and_few_are_shown():
    known = [f"topic-{i}" for i in range(9)] + ["Orders", "orders"]

    assert nearest("ORDER", known) == "Orders, orders, topic-0, topic-1, topic-2 and 6 more"
    assert nearest("x", []) == ""
