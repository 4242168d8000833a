"""Runs every query of dashboard and alerts against a Prometheus: `panels.py http://HOST:PORT`.

A query that fails, or a panel that has nothing to show, is said; the exit code is 1 then. An
expression that compares returns nothing while all is well, so alerts only have to run.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from helm.monitoring import dashboard, generate
from helm.monitoring.alerts import ALERTS, SCOPE, THRESHOLDS, fill

_RATE_INTERVAL = "1m"


def query(server: str, expression: str, at: float | None = None) -> list[Any]:
    """Return the results of an instant query.

    Args:
        server: URL of Prometheus.
        expression: PromQL.
        at: Unix time; now by default.

    Raises:
        ValueError: Prometheus says why not.
    """
    when = {"time": str(at)} if at is not None else {}
    text = urllib.parse.urlencode({"query": expression, **when})
    try:
        with urllib.request.urlopen(f"{server}/api/v1/query?{text}", timeout=30) as answer:  # noqa: S310
            found: list[Any] = json.load(answer)["data"]["result"]
            return found
    except urllib.error.HTTPError as error:
        raise ValueError(error.read().decode()) from error


def fill_variables(expression: str, store: str = ".*") -> str:
    """Return an expression of the dashboard as Grafana sends it, with all stores or one chosen."""
    chosen = {"$__rate_interval": _RATE_INTERVAL, "$cluster": ".*", "$store": store}
    for name, value in chosen.items():
        expression = expression.replace(name, value)
    return expression


def legend(template: str, labels: dict[str, str]) -> str:
    """Return a legend with its labels filled in."""
    return re.sub(r"{{(\w+)}}", lambda match: labels.get(match[1], ""), template)


def main(server: str) -> int:
    """Run all and return the exit code."""
    board = json.loads(generate.CHART_DASHBOARD.read_text("utf-8"))
    wrong = total = 0
    panels = [
        # Without a Kafka there is nothing to show of it.
        (title, fill_variables(text), "_kafka_" not in text)
        for title, text in dashboard.expressions(board)
    ]
    rules = [
        (alert.name, fill(alert.expression, {**THRESHOLDS, **SCOPE}), False) for alert in ALERTS
    ]
    for title, expression, needs_data in [*panels, *rules]:
        total += 1
        try:
            found = query(server, expression)
        except ValueError as error:
            print(f"{title}: {error}")
            wrong += 1
            continue
        if needs_data and not found:
            print(f"{title}: no data: {expression}")
            wrong += 1
    print(f"{total - wrong} passed, {wrong} failed")
    return int(wrong > 0)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].startswith(("http://", "https://")):
        # Help that is asked for is no error.
        is_asked = sys.argv[1:] in (["-h"], ["--help"])
        print(__doc__, file=sys.stdout if is_asked else sys.stderr)
        sys.exit(0 if is_asked else 2)
    sys.exit(main(sys.argv[1].rstrip("/")))
