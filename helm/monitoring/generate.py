"""Writes what is checked in: dashboard, the chart's rules, and rules for a plain Prometheus.

`python -m helm.monitoring.generate`; with `--check` it writes nothing and says what differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from helm.monitoring.alerts import placeholders, rules
from helm.monitoring.dashboard import board

HELM = Path(__file__).resolve().parent.parent
CHART_RULES = HELM / "reput" / "files" / "alerts.yaml"
CHART_DASHBOARD = HELM / "reput" / "files" / "dashboard.json"
PLAIN_RULES = HELM / "monitoring" / "reput.rules.yaml"
_NOTE = "# Made by helm/monitoring/generate.py; what is written here by hand is lost.\n"


class _Lines(yaml.SafeDumper):
    """Writes text of several lines as lines."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Return a node of a text."""
        style = "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style)


_Lines.add_representer(str, _Lines.represent_text)


def generated() -> dict[Path, str]:
    """Return the text of each file that is made."""
    # Where the runbook is kept is unknown here, and a broken link does not help.
    plain = _written(rules.rule_file(has_links=False))
    values = {**placeholders.THRESHOLDS, **placeholders.SCOPE}
    return {
        CHART_RULES: _written(rules.rule_file()),
        CHART_DASHBOARD: json.dumps(board.build(), indent=2, sort_keys=True) + "\n",
        PLAIN_RULES: placeholders.fill(plain, values),
    }


def _written(rule_file: dict[str, Any]) -> str:
    return _NOTE + yaml.dump(rule_file, Dumper=_Lines, sort_keys=False, width=1000)


def main() -> int:
    """Write, or with `--check` compare, and return the exit code."""
    is_check = "--check" in sys.argv[1:]
    differing = [
        path
        for path, text in generated().items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    for path in differing:
        print(f"{path.relative_to(HELM.parent)}: {'differs' if is_check else 'written'}")
        if not is_check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(generated()[path], "utf-8")
    return int(is_check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())
