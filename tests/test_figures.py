"""Each figure has one source; what repeats it elsewhere says the same.

Speed is in docs/performance.md, proofs are in docs/reliability.md. Other pages link to them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from helm.monitoring import generate, picture
from helm.monitoring.alerts.rules import ALERTS
from helm.monitoring.dashboard.board import all_panels, expressions
from reput.formats.rocketmq import broker
from reput.streaming.settings.config import FlushPolicy

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PERFORMANCE = (DOCS / "performance.md").read_text("utf-8")
PAGES = sorted(
    [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    + list(DOCS.rglob("*.md"))
    + list((ROOT / "helm" / "reput").glob("*.md"))
)
# Where figures of speed belong: whole pages, and chapters of others with a benchmark of their own.
SPEED = {"performance.md": "", "kafka.md": "## How fast", "query.md": "## How long it takes"}
# What was measured once and is told on several pages: the pattern, and where.
REPEATED = (
    (r"(\d+ µs)[^.]{0,30}on a virtual|first\s+time cost (\d+ µs)", ("performance", "adr/0005")),
    (r"(\d+ %)\. Arrays|(\d+ %) of parsing", ("performance", "adr/0008")),
    (r"takes (\d+ to \d+ minutes)|panels and upgrades.*\| (\d+ to \d+ minutes)",
     ("monitoring", "kubernetes")),
    (r"has (\d+) buckets|(\d+) buckets from", ("metrics", "../CHANGELOG")),
)  # fmt: skip


def number(text):
    """Return the first number of a table's cell; of `1/3.30`, the quotient."""
    over = re.match(r"1/([\d.]+)", text)
    if over:
        return 1 / float(over[1])
    return float(re.search(r"\d[\d,.]*", text)[0].rstrip(".,").replace(",", ""))


def rows(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def compared():
    """Return the rows of docs/performance.md that have RocketMQ, reput and a ratio."""
    table = PERFORMANCE.partition("| live")[0]
    return [row for row in rows(table) if len(row) == 4 and re.search(r"\d", row[1])]


def squeezed(path):
    return " ".join(path.read_text("utf-8").split())


@pytest.mark.parametrize("row", compared(), ids=lambda row: row[0][:40])
def test_a_ratio_is_that_of_its_figures(row):
    """But for rounding: seconds have one digit after the point."""
    assert number(row[3]) == pytest.approx(number(row[2]) / number(row[1]), rel=0.02)


def test_there_are_ratios_for_both_sizes_and_both_brokers():
    assert len(compared()) >= 13


def test_what_is_not_reached_repeats_the_tables():
    """The last chapter sums up: each ratio in it stands in a table above, or follows from one."""
    above, _, last = PERFORMANCE.partition("## What is not reached yet")
    ratios = [row[3] for row in compared()]
    stores = [number(row[1]) for row in rows(above) if re.fullmatch(r"[1248]", row[0])]
    growth = next(row for row in rows(above) if row[0] == "16 GiB, 128 queues")
    small = next(row for row in rows(above) if row[0] == "1 GiB, 128 queues")
    runs = [
        [number(each) for each in re.findall(r"[\d,]{7,}", row[1])[1:]] for row in (small, growth)
    ]
    serving = next(row for row in rows(above) if row[0] == "cached pulls a second")
    ratios.append(serving[3].split()[0])
    ratios += [row[3] for row in rows(above) if row[0].startswith("`reput r")]
    derived = [stores[-1] / stores[0], *(large / small for small, large in zip(*runs, strict=True))]
    known = {*ratios, *(f"{each:.2f}" for each in derived)}
    named = [each for row in rows(last)[2:] for each in re.findall(r"\b(?:1/)?\d\.\d\d\b", row[1])]

    assert len(named) >= 9
    assert set(named) <= known


def test_the_stages_add_up():
    """The sum of all stages is told, and the rate that two cores would reach with it."""
    stages = rows(PERFORMANCE.partition("| stage | ns |")[2].partition("\n\n")[0])[1:]
    total = sum(number(row[1]) for row in stages)
    told, rate, real = re.search(
        r"That is (\d+) ns of one core, so two cores .*? ([\d.]+)\s+M/s;.*?([\d.]+)\s+M/s",
        PERFORMANCE,
        re.DOTALL,
    ).groups()
    three_keys = next(row for row in compared() if "the same as 5.5.0" in row[0])

    assert float(told) == pytest.approx(total, rel=0.02)
    assert float(rate) == pytest.approx(2000 / total, rel=0.02)
    assert real == f"{number(three_keys[2]) / 1e6:.1f}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_speed_is_told_in_one_place(path):
    """Other pages link: a copy stays as it was when the figure is measured again."""
    text = path.read_text("utf-8")
    if path.name in SPEED and path.parent == DOCS:
        chapter = SPEED[path.name]
        start = text.index(chapter)
        end = text.find("\n## ", start + 1) if chapter else len(text)
        text = text[:start] + text[end:]
    told = re.findall(
        r"\d[\d.,]* times (?:as fast|as many|faster|the broker)|\d[\d.,]*x faster"
        r"|\d[\d.,]* (?:million|M) (?:messages|records|entries)(?:/s| a second)|\d messages/s",
        text,
    )

    assert told == []


def test_proofs_are_told_in_one_place():
    """A figure of docs/reliability.md that is not round stands on no other page."""
    source = DOCS / "reliability.md"
    table = source.read_text("utf-8").partition("## What each test is")[0]
    figures = set(re.findall(r"\b\d{1,3}(?:,\d{3})+\b", table))
    figures = {each for each in figures if not each.endswith("000")}

    assert len(figures) > 10
    for path in PAGES:
        if path != source:
            assert figures & set(re.findall(r"[\d,]*\d", path.read_text("utf-8"))) == set(), path


@pytest.mark.parametrize(("pattern", "pages"), REPEATED, ids=lambda each: str(each)[:30])
def test_what_is_repeated_is_the_same(pattern, pages):
    told = set()
    for page in pages:
        (path,) = DOCS.glob(f"{page}*.md") if not page.startswith("..") else [DOCS / f"{page}.md"]
        found = {"".join(each) for each in re.findall(pattern, squeezed(path))}
        assert found, path
        told |= found

    assert len(told) == 1


# Jobs were seen at work; alerts about servers of stores are judged by promtool alone.
OF_JOBS = [alert for alert in ALERTS if not alert.name.startswith("Serve")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_alerts_are_counted_right(path):
    """Alerts in all, and Kafka's."""
    words = {"four": 4, "five": 5, "six": 6}
    text = squeezed(path)

    assert {int(each) for each in re.findall(r"\b(\d+) alerts\b", text)} <= {len(OF_JOBS)}
    of_kafka = len([alert for alert in ALERTS if alert.name.startswith("Kafka")])
    assert {words[each] for each in re.findall(r"Kafka's (four|five|six)\b", text)} <= {of_kafka}


def test_what_was_seen_is_counted_right():
    """docs/monitoring.md: queries, tiles and panels are as many as there are now."""
    text = (DOCS / "monitoring.md").read_text("utf-8")
    board = json.loads(generate.CHART_DASHBOARD.read_text("utf-8"))
    tiles = [panel for panel in all_panels(board) if panel["type"] == "stat"]
    words = {8: "Eight", 9: "Nine", 12: "twelve"}

    assert f"![{words[len(tiles)]} tiles and {words[len(picture.MAIN)]} panels" in text
    assert f"![{words[len(picture.KAFKA)]} panels" in text
    of_jobs = [text for _, text in expressions(board) if "_serve_" not in text]
    queries = len(of_jobs) + len(OF_JOBS)
    assert f"| queries of dashboard and alerts | {queries} passed, 0 failed |" in text


def defaults():
    """Yield (setting, default) of the README's table of settings, where it is one word."""
    table = (ROOT / "README.md").read_text("utf-8").split("what it changes |\n")[1]
    for row in rows(table.partition("\n\n")[0])[1:]:
        values = [value.strip() for value in row[1].split(",")]
        names = re.findall(r"`(\w+)`", row[0])
        for name, value in zip(names, values * len(names), strict=False):
            if re.fullmatch(r"\d+|true|false", value):
                yield name, value


def settings(conf):
    """Return what a broker.conf makes of a store and of its flushes."""
    return broker.settings_of("5.5", conf), FlushPolicy.of(conf)


@pytest.mark.parametrize(("name", "value"), list(defaults()), ids=str)
def test_a_default_in_the_readme_is_the_default(name, value):
    """A broker.conf that has it changes nothing, and one with another value does."""
    other = {"true": "false", "false": "true"}.get(value) or str(int(value) // 2)

    assert settings({name: value}) == settings({})
    assert settings({name: other}) != settings({})


def test_panels_of_the_runbook_are_on_the_dashboard():
    """
    An operator at night finds the panel by the name that the page gives it.
    """
    named = set(
        re.findall(r"(?<!\*)\*([A-Z][^*\n]+)\*(?!\*)", (DOCS / "runbook.md").read_text("utf-8"))
    )
    board = json.loads(generate.CHART_DASHBOARD.read_text("utf-8"))
    rows = [panel for panel in board["panels"] if panel["type"] == "row"]
    shown = board["panels"] + [panel for row in rows for panel in row.get("panels", ())]

    assert len(named) > 5
    # That is a chapter of another page.
    assert named - {panel["title"] for panel in shown} == {"What can still be seen"}
