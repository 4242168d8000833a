"""What is an alert? An expression, how long it holds, and what it says to you."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helm.monitoring.alerts.placeholders import RUNBOOK

WARNING, CRITICAL = "warning", "critical"
# How a summary names the store that an alert is about.
STORE = "{{ $labels.store }} of {{ $labels.cluster }}"


@dataclass(frozen=True)
class Alert:
    """One rule.

    Attributes:
        name: without prefix; the runbook's heading is the whole name in lower case.
        severity: `critical` is for a person now, `warning` for the next working day.
        hold: how long the expression has to hold.
        expression: PromQL.
        summary: a sentence; the runbook says what to do.
        description: what it means, with the value.
    """

    name: str
    severity: str
    hold: str
    expression: str
    summary: str
    description: str

    def as_rule(self) -> dict[str, Any]:
        """Return it as Prometheus reads it."""
        name = f"Reput{self.name}"
        return {
            "alert": name,
            "expr": self.expression,
            "for": self.hold,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{RUNBOOK}#{name.lower()}",
            },
        }
