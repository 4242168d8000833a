"""Alerts and panels over real jobs: what `helm.monitoring.live` does, in short."""

import http.client
import json
import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("yaml")

import yaml

from helm.cluster import CheckError, free_port
from helm.monitoring import alerts, panels
from helm.monitoring.causes import CAUSES
from helm.monitoring.server import SPEED, THRESHOLDS, Server
from tests.helm.helm_tools import ROOT, TOOLS, find_tool, run

# With a unit, or the seconds that `predict_linear` looks ahead, or of a process's age.
DURATION = re.compile(r"\d+(ms|[smh])\b|(?<=\], )\d+(?=\))|(?<=timestamp_seconds < )\d+")


def test_shortened_rules_are_the_same_but_for_durations():
    """
    What is made to fire within minutes is what fires in production.
    """
    rules, short = (alerts.rule_file(speed)["groups"][1]["rules"] for speed in (1, SPEED))

    for rule, other in zip(rules, short, strict=True):
        assert DURATION.sub("_", rule.pop("expr")) == DURATION.sub("_", other.pop("expr"))
        rule.pop("for")
        assert re.fullmatch(r"\d+ms|\$\{\w+\}", other.pop("for"))
        assert rule == other


def test_shortened_rules_are_rules(tmp_path):
    """
    Prometheus takes them; a window of no time would be refused.
    """
    text = yaml.safe_dump(alerts.rule_file(SPEED))
    path = tmp_path / "rules.yaml"
    path.write_text(alerts.fill(text, {**THRESHOLDS, **alerts.SCOPE, "runbookUrl": "x"}))
    result = run(find_tool("promtool"), "check", "rules", str(path))

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Return a function that has a server note what fires, by answers of Prometheus in turn."""

    def watch(*answers):
        server = Server(tmp_path / "server", "pod", free_port())
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


def test_every_alert_but_kafka_s_has_a_cause():
    """
    And a line in the table of what was seen. Those of Kafka fire in tests of series only, and the
    page says so.
    """
    caused = [name for _, expected in CAUSES for name in expected]
    seen = re.findall(
        r"^\| Reput(\w+) \|", (ROOT / "docs" / "monitoring.md").read_text(), re.MULTILINE
    )

    names = {alert.name for alert in alerts.ALERTS}
    of_kafka = {name for name in names if name.startswith("Kafka")}
    assert sorted(caused) == sorted(names - of_kafka)
    assert sorted(seen) == sorted(caused)
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert f"all {len(names)} alerts but Kafka's {len(of_kafka)} fire" in " ".join(page.split())


@pytest.mark.spark
def test_a_job_beside_a_live_writer_is_seen_and_an_alert_fires(tmp_path):
    """
    Real Prometheus, real jobs: lag, upgrades, each panel's query, nothing lost; a gap is told.
    """
    find_tool("prometheus")
    result = subprocess.run(
        [
            sys.executable, "-m", "helm.monitoring.live", "--seconds", "150",
            "--only", "live", "--only", "gap", "--directory", str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "REPUT_TOOLS": str(TOOLS)},
    )  # fmt: skip

    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 alerts fired, 0 failed" in result.stdout
    assert "none lost, none repeated" in result.stdout
    assert json.loads((tmp_path / "live-output/.reput/progress.json").read_text())["clean"]
