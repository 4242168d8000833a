"""Where the command begins: signals count before anything else is imported."""

from __future__ import annotations

from streaming import endings


def main() -> None:
    """Run `reput` and exit with its code."""
    endings.begin()
    from streaming.__main__ import main as run  # noqa: PLC0415 - it takes a while
    from streaming.failures import FAILURES  # noqa: PLC0415

    FAILURES.watch_threads()
    run()
