"""What is checked in is what the code makes, and asks for nothing that is not exported."""

import json
import re

import pytest

pytest.importorskip("grafana_foundation_sdk")
pytest.importorskip("yaml")
promql_parser = pytest.importorskip("promql_parser")

import yaml  # noqa: E402

from helm.monitoring import generate, series  # noqa: E402
from helm.monitoring.alerts.placeholders import SCOPE, THRESHOLDS  # noqa: E402
from helm.monitoring.dashboard.board import all_panels, expressions  # noqa: E402

BOARD = json.loads(generate.CHART_DASHBOARD.read_text())
RULES = [
    rule
    for group in yaml.safe_load(generate.PLAIN_RULES.read_text())["groups"]
    for rule in group["rules"]
]
EXPRESSIONS = [
    *((title, text.replace("$__rate_interval", "1m")) for title, text in expressions(BOARD)),
    *((rule.get("alert") or rule["record"], rule["expr"]) for rule in RULES),
]


@pytest.mark.parametrize("path", generate.generated(), ids=lambda path: path.name)
def test_checked_in_is_what_the_code_makes(path):
    """
    Nobody edits the dashboard by hand and loses it with the next change of the code.
    """
    assert path.read_text() == generate.generated()[path], "run python -m helm.monitoring.generate"


@pytest.mark.parametrize(("title", "text"), EXPRESSIONS)
def test_expressions_are_promql_over_known_series(title, text):
    """
    A misspelt series gives no error, only an empty panel or an alert that never fires.
    """
    names = set()
    for match in re.finditer(r"([A-Za-z_:]{2,})\{|\b((?:reput|process|rocketmq)_[a-z_]+)", text):
        names.add(re.sub("_(bucket|sum|count)$", "", match[1] or match[2]))

    promql_parser.parse(text)
    assert names or text.startswith("vector(")
    assert names <= {*series.ALL, *series.SERVE, *series.OTHERS}


def test_every_series_is_shown():
    """
    What is exported and shown nowhere is found by nobody at night.
    """
    shown = " ".join(text for title, text in EXPRESSIONS)

    assert {name for name in (*series.ALL, *series.SERVE) if name not in shown} == set()


def test_panels_explain_themselves():
    """
    Each says what it tells; sizes fill rows, so nothing overlaps.
    """
    panels = all_panels(BOARD)
    places = [
        (x, y)
        for grid in (panel["gridPos"] for panel in panels)
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]

    assert len({panel["title"] for panel in panels}) == len(panels) > 20
    assert all(panel["description"] for panel in panels)
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) == 23


def test_the_dashboard_chooses_source_cluster_and_store():
    """
    One dashboard for all: nothing of an installation is in it.
    """
    variables = {each["name"]: each for each in BOARD["templating"]["list"]}

    assert list(variables) == ["datasource", "cluster", "store"]
    assert variables["store"]["multi"]
    assert variables["store"]["includeAll"]
    for panel in all_panels(BOARD):
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            # The tile of dispatchers says in its description that it is of all.
            if panel["title"] != "Dispatchers up / expected":
                assert 'cluster=~"$cluster",store=~"$store"' in target["expr"], panel["title"]


def test_what_few_look_at_is_folded():
    """
    Most have no Kafka or serve no clients, and those rows are empty for them; internals are for finding a cause.
    """
    folded = {row["title"] for row in BOARD["panels"] if row.get("collapsed")}

    assert folded == {"Internals", "Kafka", "Clients"}


def test_limits_are_drawn():
    """
    Where the alerts of lag begin is a line in its panel, and so is what a person has to act on.
    """
    limits = {
        panel["title"]: [
            step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        ]
        for panel in all_panels(BOARD)
        if panel["type"] == "timeseries"
        and panel["fieldConfig"]["defaults"]["custom"].get("thresholdsStyle", {}).get("mode")
        == "dashed"
    }

    assert limits == {
        "Behind, bytes": [None, THRESHOLDS["behindBytes"], THRESHOLDS["behindBytesCritical"]],
        "Oldest undispatched record": [
            None, THRESHOLDS["behindSeconds"], THRESHOLDS["behindSecondsCritical"],
        ],
        "Stores that have failed": [None, 1],
        "Silence of writers": [None, 30],
        "Kafka held back": [None, 1],
    }  # fmt: skip


@pytest.mark.parametrize("name", [series.KAFKA_HELD, series.KAFKA_CONNECTED, series.FAILED])
def test_a_state_stands_beside_no_counts(name):
    """
    A line at 1 is not to be seen beside one at thousands: what is 0 or 1 has a panel of its own,
    from 0 to 1.
    """
    (panel,) = (
        panel
        for panel in all_panels(BOARD)
        if panel["type"] == "timeseries"
        and any(name in target["expr"] for target in panel["targets"])
    )
    defaults = panel["fieldConfig"]["defaults"]

    assert len(panel["targets"]) == 1
    assert (defaults["min"], defaults["max"]) == (0, 1)


def test_placeholders_are_all_filled():
    """
    The plain rule file has every number in it; the chart's has them as placeholders.
    """
    text = generate.CHART_RULES.read_text()

    assert set(re.findall(r"\$\{(\w+)\}", text)) == {
        *THRESHOLDS,
        *SCOPE,
        "runbookUrl",
    }
    assert "${" not in generate.PLAIN_RULES.read_text()
