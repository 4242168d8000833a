"""The dashboard's tiles: what they show while series are there, and when they are gone."""

import json

import pytest

from tests.helm.helm_tools import CHART, ROOT, find_tool, run

pytest.importorskip("yaml")
pytest.importorskip("grafana_foundation_sdk")

from helm.monitoring import panels
from helm.monitoring.dashboard.visualizations import GREY

BOARD = json.loads((CHART / "files" / "dashboard.json").read_text())
RULES = ROOT / "helm" / "monitoring" / "reput.rules.yaml"
GB = 10**9
ALIVE, GONE_AT = 60, 10


def series_of(store, behind, age, values):
    """Return what one dispatcher exports; `values(text)` makes a promtool series of a value."""
    labels = f'job="reput",namespace="mq",pod="reput-{store}-0",instance="{store}:9464"'
    of = f'{labels},cluster="c",store="{store}",node_type="dispatcher"'
    return {
        f"rocketmq_storage_dispatch_behind_bytes{{{of},"
        f'node_id="{store}",storage_type="local",storage_medium="disk"}}': values(behind),
        f"rocketmq_reput_oldest_undispatched_age_seconds{{{of}}}": values(age),
        f"rocketmq_reput_output_free_bytes{{{of}}}": values(60 * GB),
        f"rocketmq_reput_output_size_bytes{{{of}}}": values(100 * GB),
        f'rocketmq_reput_offset_bytes{{{of},which="log_end"}}': values(50 * GB),
        f'rocketmq_reput_offset_bytes{{{of},which="log_begin"}}': values(0),
        f"rocketmq_reput_log_bytes_total{{{of}}}": values("0+600000"),
        f"rocketmq_reput_messages_total{{{of}}}": values("0+6000"),
        f'rocketmq_reput_errors_total{{{of},kind="other"}}': values(0),
        f"rocketmq_reput_start_timestamp_seconds{{{labels}}}": values(1000),
    }


def always(value):
    return f"{value}x{ALIVE}"


def until_gone(value):
    return f"{value}x{GONE_AT} stale"


HEALTHY = series_of("a", 4096, 0.1, always)
LOST = series_of("b", 5 * GB, 700, until_gone)
TWO = [{"series": "reput:dispatchers:expected", "values": always(2)}]
# (what is so, series, minute, what the tiles have; tiles of several values by their legend)
CASES = [
    (
        "one store 5 GB behind, its dispatcher alive",
        HEALTHY | LOST,
        9,
        {
            "Keeping up?": 1,
            "Furthest behind": 5 * GB,
            "Longest wait": 700,
            "Room before retention": 0.9,
            "Room on disk": 0.6,
            "Things to look at": 0,
            "up": 2,
            "expected": 2,
            "missing": 0,
        },
    ),
    *(
        (
            f"its dispatcher is gone, minute {minute}",
            HEALTHY | LOST,
            minute,
            {
                "Keeping up?": 4,
                "Furthest behind": -1,
                "Longest wait": -1,
                "Room before retention": -1,
                "Room on disk": -1,
                "Things to look at": 1,
                "up": 1,
                "expected": 2,
                "missing": 1,
            },
        )
        for minute in (12, 30, 60)
    ),
    (
        "all are gone",
        LOST,
        30,
        {
            "Keeping up?": 4,
            "Furthest behind": -1,
            "Things to look at": -1,
            "up": 0,
            "expected": 2,
            "missing": 2,
        },
    ),
    (
        "nothing was ever there",
        {},
        30,
        {"Keeping up?": -1, "Room on disk": -1, "up": 0, "expected": 2, "missing": 2},
    ),
    (
        "all is well",
        HEALTHY | series_of("b", 0, 0, always),
        30,
        {"Keeping up?": 0, "Furthest behind": 4096, "up": 2, "expected": 2, "missing": 0},
    ),
]


def tiles():
    """Return the tiles' queries by title, or by legend where a tile has several."""
    found = {}
    for panel in BOARD["panels"]:
        if panel["type"] == "stat":
            for target in panel["targets"]:
                name = target["legendFormat"] or panel["title"]
                found[name] = panels.fill_variables(target["expr"])
    return found


def test_a_tile_is_not_green_because_a_series_is_gone(tmp_path):
    """
    Store b is 5 GB behind, then its process is gone: the tiles go from yellow to red or grey, and
    stay so; none goes back to green, as a maximum over what is left would.
    """
    queries = tiles()
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": [
                *({"series": k, "values": str(v)} for k, v in series.items()),
                *TWO,
            ],
            "promql_expr_test": [
                {
                    "expr": queries[tile],
                    "eval_time": f"{minute}m",
                    "exp_samples": [{"labels": "{}", "value": value}],
                }
                for tile, value in expected.items()
            ],
        }
        for name, series, minute, expected in CASES
    ]
    path = tmp_path / "cases.yaml"
    path.write_text(json.dumps({"evaluation_interval": "1m", "rule_files": [], "tests": tests}))

    result = run(find_tool("promtool"), "test", "rules", str(path))

    assert result.returncode == 0, result.stdout + result.stderr


def test_every_value_of_a_sick_store_has_a_colour_that_is_not_green():
    """
    What a tile has in place of a number is a word in red or grey, and nothing between.
    """
    for panel in BOARD["panels"]:
        if panel["type"] != "stat" or "-1" not in panel["targets"][0]["expr"]:
            continue
        (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
        for value in {"-1", "1", "2", "3", "4"} & set(mapping["options"]):
            assert mapping["options"][value]["color"] in {"red", "yellow", GREY}
        assert "-1" in mapping["options"]
