"""Where the command begins: signals count before anything else is imported."""

from __future__ import annotations

from reput.streaming.endings import interruptions


def main() -> None:
    """Run `reput` and exit with its code."""
    interruptions.begin()
    from reput.streaming.cli.main import main as run
    from reput.streaming.endings.failures import FAILURES

    FAILURES.watch_threads()
    run()
