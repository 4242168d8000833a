"""`reput verify`: an output is compared with what its log gives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from reput.streaming.cli.store_choice import one_store
from reput.streaming.endings.failures import FAILURES
from reput.streaming.settings.model.checks import CheckOptions

if TYPE_CHECKING:
    from reput.streaming.settings.config import StoreConfig


def checked_store(options: CheckOptions) -> StoreConfig:
    """Return the store that is to be checked.

    Raises:
        UsageError: none, several, or something wrong with it.
    """
    chosen = one_store(options)
    return replace(chosen, any_version=chosen.any_version or options.any_version)


def verify(options: CheckOptions) -> None:
    """Compare consume queues, extensions, index and checkpoint with the commitlog.

    Without --output a broker's own store is checked. The last line begins with the verdict: sound
    (exit code 0), damaged (1), incomplete or skipped (4): something is not dispatched, or places of
    the log were passed over.

    Example: `reput verify --store /data/rocketmq/store --output /data/rebuilt --broker-version 5.3`
    """
    from reput.streaming.endings.verdict import code_of, verdict_of
    from reput.streaming.show.bars import busy
    from reput.streaming.show.reports import print_report
    from reput.streaming.verify.output import verify as verify_store

    chosen = checked_store(options)
    with busy("verifying"):
        report = verify_store(chosen)
    code = FAILURES.answered(code_of(verdict_of(report)))
    print_report(report, as_json=options.as_json)
    raise typer.Exit(code)
