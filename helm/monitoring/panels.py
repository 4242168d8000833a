"""Runs every query of dashboard and alerts against a Prometheus: `panels.py http://HOST:PORT`.

It names each query that fails and each panel that has nothing to show; the exit code is 1 then.
Kafka's panels need data where a store is sent to Kafka. An expression that compares returns nothing
while all is well, so alerts only have to run.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from helm.monitoring import generate
from helm.monitoring import series as s
from helm.monitoring.alerts.placeholders import SCOPE, THRESHOLDS, fill
from helm.monitoring.alerts.rules import ALERTS
from helm.monitoring.dashboard.board import expressions

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


def run_all(server: str) -> tuple[int, list[str]]:
    """Run every query.

    Args:
        server: URL of Prometheus.

    Returns:
        how many there are, and what is wrong with those that fail or have nothing to show.
    """
    board = json.loads(generate.CHART_DASHBOARD.read_text("utf-8"))
    # Without a Kafka there is nothing to show of it, and without a server nothing of clients.
    is_sent = bool(query(server, s.KAFKA_CONNECTED))
    is_served = bool(query(server, s.SERVE_READY))
    panels = [
        (title, fill_variables(text), is_sent or "_kafka_" not in text)
        for title, text in expressions(board)
        if is_served or "_serve_" not in text
    ]
    rules = [
        (alert.name, fill(alert.expression, {**THRESHOLDS, **SCOPE}), False)
        for alert in ALERTS
        if is_served or "_serve_" not in alert.expression
    ]
    wrong = []
    for title, expression, needs_data in [*panels, *rules]:
        try:
            found = query(server, expression)
        except ValueError as error:
            wrong.append(f"{title}: {error}")
            continue
        if needs_data and not found:
            wrong.append(f"{title}: no data: {expression}")
    return len(panels) + len(rules), wrong


def main(server: str) -> int:
    """Run all, say what is wrong, and return the exit code."""
    try:
        total, wrong = run_all(server)
    except (OSError, ValueError) as error:
        print(f"panels: {server} does not answer as a Prometheus: {error}", file=sys.stderr)
        return 2
    for each in wrong:
        print(each)
    print(f"{total - len(wrong)} passed, {len(wrong)} failed")
    return int(bool(wrong))


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].startswith(("http://", "https://")):
        # Help that is asked for is not an error.
        is_asked = sys.argv[1:] in (["-h"], ["--help"])
        print(__doc__, file=sys.stdout if is_asked else sys.stderr)
        sys.exit(0 if is_asked else 2)
    sys.exit(main(sys.argv[1].rstrip("/")))
