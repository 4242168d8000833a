"""`reput demo`: the job at work, without RocketMQ."""

from __future__ import annotations

import typer

from reput.streaming.endings.exit_codes import FINDINGS, OK
from reput.streaming.endings.failures import FAILURES
from reput.streaming.endings.interruptions import tidying
from reput.streaming.settings.model.checks import DemoOptions


def demo(options: DemoOptions) -> None:
    """Show it at work, without RocketMQ: a live log, the job beside it, and proof at the end.

    Example: `reput demo --seconds 5 --directory /tmp/reput-demo`
    """
    from reput.streaming.demo.run import print_demo, run_demo

    with tidying():
        shown = run_demo(options.seconds, options.rate, options.directory)
    code = FAILURES.answered(OK if shown.ok else FINDINGS)
    print_demo(shown, as_json=options.as_json)
    raise typer.Exit(code)
