"""`reput handover`: whether a broker may be started with an output's files."""

from __future__ import annotations

import typer

from reput.streaming.cli.verify import checked_store
from reput.streaming.endings.failures import FAILURES
from reput.streaming.settings.model.checks import CheckOptions


def handover(options: CheckOptions) -> None:
    """Say whether a broker may be started with an output's files in place of its own.

    Nothing is changed. Exit code 0: it may, and what is printed are commands to paste into a shell,
    which move the files and keep the broker's own. Otherwise it says why not: 1: something is
    wrong; 4: something is only missing. Without --output: a store that was written in place.

    Example: `reput handover --store /data/rocketmq/store --output /data/rebuilt`
    """
    from reput.streaming.endings.verdict import code_of
    from reput.streaming.show.bars import busy
    from reput.streaming.show.reports import print_handover
    from reput.streaming.verify.handover import examine

    chosen = checked_store(options)
    with busy("verifying"):
        result = examine(chosen)
    code = FAILURES.answered(code_of(result.verdict))
    print_handover(result, as_json=options.as_json)
    raise typer.Exit(code)
