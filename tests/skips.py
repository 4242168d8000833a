"""What a run of the tests has left out, why, and what runs it: at its end, never silently.

`tests/conftest.py` brings it in; with pytest-xdist it is the run's own process that says it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

# The command that has a test run, by a word of why it was skipped. Other reasons are of a test's
# own kind (of this machine's file system, of a draw at random), and nothing is missing then.
_COMMANDS = {
    "helm/tools.sh": "./dev chart",
    "could not import": "./dev setup",
    "No module named": "./dev setup",
    "no JDK": "./dev setup",
    "atheris": ".venv/bin/python -m pip install --group fuzz, then ./dev test tests/fuzz",
}


def reason_of(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Return why a test, or a file of tests, was skipped."""
    found = report.longrepr
    text = str(found[2] if isinstance(found, tuple | list) else found)
    return " ".join(text.removeprefix("Skipped: ").split())


def lines_of(reasons: Iterable[str]) -> list[str]:
    """Return a line for each reason, the most frequent first, with the command that helps."""
    lines = []
    for reason, count in Counter(reasons).most_common():
        command = next((to_run for word, to_run in _COMMANDS.items() if word in reason), None)
        lines.append(f"{count:>5}  {reason}" + (f"  [run: {command}]" if command else ""))
    return lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped."""
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    terminalreporter.section(f"{len(skipped)} skipped, which were not tested here")
    for line in lines_of(map(reason_of, skipped)):
        terminalreporter.line(line)
