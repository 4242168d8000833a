"""Alerts and panels over real jobs: what `tests.alerts.live` does, in short."""

import http.client
import json
import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("yaml")

import yaml

from helm.monitoring import panels, series
from helm.monitoring.alerts.placeholders import SCOPE, fill
from helm.monitoring.alerts.rules import ALERTS, rule_file
from helm.monitoring.dashboard.board import build, expressions
from tests.alerts.causes import CAUSES
from tests.alerts.server import SPEED, THRESHOLDS, Server
from tests.cluster.rig import CheckError, free_port
from tests.helm.helm_tools import ROOT, TOOLS, find_tool, run

# With a unit, or the seconds that `predict_linear` looks ahead, or of a process's age.
DURATION = re.compile(
    r"\d+(ms|[smh])\b|(?<=\], )\d+(?=\))|(?<=timestamp_seconds < )\d+|(?<=timestamp_seconds >= )\d+"
)


def test_shortened_rules_are_the_same_but_for_durations():
    """
    What is made to fire within minutes is what fires in production.
    """
    rules, short = (rule_file(speed)["groups"][1]["rules"] for speed in (1, SPEED))

    for rule, other in zip(rules, short, strict=True):
        assert DURATION.sub("_", rule.pop("expr")) == DURATION.sub("_", other.pop("expr"))
        rule.pop("for")
        assert re.fullmatch(r"\d+ms|\$\{\w+\}", other.pop("for"))
        assert rule == other


def seconds(text):
    """Return a duration of an expression in seconds; of a bare number, that."""
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600}[unit]


def test_shortened_rules_have_each_duration_divided():
    """
    To a second at least, as Prometheus takes no window of none; no other number is this long.
    """
    rules, short = (rule_file(speed)["groups"][1]["rules"] for speed in (1, SPEED))
    looked_at = 0

    for rule, other in zip(rules, short, strict=True):
        for name in ("expr", "for"):
            found, divided = (
                [seconds(each[0]) for each in DURATION.finditer(text[name])]
                for text in (rule, other)
            )
            assert divided == [
                pytest.approx(max(each / SPEED, min(each, 1)), abs=0.001) for each in found
            ], rule["alert"]
            looked_at += len(found)
            assert not re.search(r"\b\d{4,}\b", DURATION.sub("_", rule[name])), rule["alert"]
    assert looked_at > len(rules)


def test_shortened_rules_are_rules(tmp_path):
    """
    Prometheus takes them; a window of no time would be refused.
    """
    text = yaml.safe_dump(rule_file(SPEED))
    path = tmp_path / "rules.yaml"
    path.write_text(fill(text, {**THRESHOLDS, **SCOPE, "runbookUrl": "x"}))
    result = run(find_tool("promtool"), "check", "rules", str(path))

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Return a function that has a server note what fires, by answers of Prometheus in turn."""

    def watch(*answers, change=lambda server: None):
        server = Server(tmp_path / "server", "pod", free_port())
        monkeypatch.setattr(server, "expect_dispatchers", lambda number: None)
        change(server)
        left = list(answers)

        def query(url, expression):
            answer = left.pop(0)
            if not left:
                server._ending.set()
            if isinstance(answer, Exception):
                raise answer
            return [{"metric": {"alertname": name}} for name in answer]

        monkeypatch.setattr(panels, "query", query)
        server._watch()
        return server

    return watch


def test_what_fires_is_noted_after_answers_that_are_cut_off(watched):
    """
    As while Prometheus loads its rules again.
    """
    no_json = json.JSONDecodeError("Expecting value", "", 0)
    server = watched(["ReputOne"], no_json, http.client.IncompleteRead(b""), ["ReputTwo"])

    assert server.has_fired("One")
    assert server.has_fired("Two")
    assert not server.has_fired("Three")


def test_an_end_of_the_watch_is_told(watched):
    """
    No alert is said not to have fired because nobody looked.
    """
    server = watched(["ReputOne"], KeyError("alertname"))

    with pytest.raises(CheckError, match="is not noted: KeyError"):
        server.has_fired("Two")


@pytest.mark.parametrize("is_sent", [True, False])
def test_kafka_s_panels_need_data_where_a_store_is_sent_to_kafka(monkeypatch, is_sent):
    """
    A panel of Kafka that shows nothing is said there, and nowhere else.
    """

    def query(url, expression):
        if expression == series.KAFKA_CONNECTED:
            return ["1"] * is_sent
        return [] if "_kafka_" in expression else ["1"]

    monkeypatch.setattr(panels, "query", query)
    total, wrong = panels.run_all("http://127.0.0.1:1")

    asked = [text for _, text in expressions(build())]
    assert total == len(asked) + len(ALERTS)
    assert len(wrong) == is_sent * sum("_kafka_" in text for text in asked)
    assert all(": no data: " in each for each in wrong)


def test_queries_about_servers_are_left_out_where_there_is_none(monkeypatch):
    """
    Most have a Prometheus that knows no server of stores; what was checked there is counted right.
    """

    def query(url, expression):
        return [] if "_serve_" in expression else ["1"]

    monkeypatch.setattr(panels, "query", query)
    total, wrong = panels.run_all("http://127.0.0.1:1")

    asked = [*(text for _, text in expressions(build())), *(each.expression for each in ALERTS)]
    assert wrong == []
    assert total == sum("_serve_" not in text for text in asked)


@pytest.mark.parametrize("is_due", [True, False])
def test_a_job_is_scraped_once_it_is_due(watched, is_due):
    """
    For a job whose start is not to be seen, Prometheus has no address before.
    """
    server = watched([], change=lambda server: setattr(server, "is_due", lambda: is_due))
    targets = json.loads((server.directory / "targets.json").read_text())

    assert [each["labels"]["pod"] for each in targets] == ["pod"] * is_due


def test_every_alert_has_a_cause():
    """
    And a line in the table of what was seen; the page says how many there are.
    """
    caused = [name for _, expected in CAUSES for name in expected]
    seen = re.findall(
        r"^\| Reput(\w+) \|", (ROOT / "docs" / "monitoring.md").read_text(), re.MULTILINE
    )

    # Jobs are seen at work, servers of stores are not.
    names = {alert.name for alert in ALERTS if not alert.name.startswith("Serve")}
    assert sorted(caused) == sorted(names)
    assert sorted(seen) == sorted(caused)
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert f"all {len(names)} alerts fire by their real causes" in " ".join(page.split())


@pytest.mark.spark
def test_a_job_beside_a_live_writer_is_seen_and_an_alert_fires(tmp_path):
    """
    Real Prometheus, real jobs: lag, upgrades, each panel's query, nothing lost; a gap is told.
    """
    find_tool("prometheus")
    result = subprocess.run(
        [
            sys.executable, "-m", "tests.alerts.live", "--seconds", "150",
            "--only", "live", "--only", "gap", "--directory", str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "REPUT_TOOLS": str(TOOLS)},
    )  # fmt: skip

    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 alert fired, 0 failed" in result.stdout
    assert "none lost, none repeated" in result.stdout
    assert json.loads((tmp_path / "live-output/.reput/progress.json").read_text())["clean"]


def words(*line):
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_misspelt_cause_is_refused():
    """
    A script that asks for one cause does not pass by trying none.
    """
    code, said = words(sys.executable, "-m", "tests.alerts.live", "--only", "nope")

    assert code == 2
    assert "no such cause; there are live, unflushed," in said


def test_a_prometheus_that_is_not_there_is_one_line():
    url = f"http://127.0.0.1:{free_port()}"
    code, said = words(sys.executable, "-m", "helm.monitoring.panels", url)

    assert code == 2
    assert re.fullmatch(rf"panels: {url} does not answer as a Prometheus: .*\n", said)


def test_a_misspelt_tool_is_refused():
    code, said = words("bash", "helm/tools.sh", "nope")

    assert code == 2
    assert re.fullmatch(r"tools: there is no nope; there are --quick, .* promtool schemas\n", said)
