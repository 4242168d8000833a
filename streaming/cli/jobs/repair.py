"""`reput rebuild --repair`: outputs are mended one after another, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.checkpoints.progress import STATE_DIRECTORY
from reput.formats.errors import ReputError
from reput.streaming.endings.exit_codes import FAILED, FINDINGS, INCOMPLETE, OK
from reput.streaming.endings.failures import FAILURES
from reput.streaming.endings.verdict import Verdict
from reput.streaming.observe.error_kinds import kind_of
from reput.streaming.settings.model.choices import CorruptMode
from reput.streaming.show.bars import busy
from reput.streaming.show.console import ERR
from reput.streaming.show.reports import print_repairs
from reput.streaming.verify.repair import repair
from reput.streaming.verify.version_seen import refuse_version_of_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.settings.model.jobs import RebuildOptions
    from reput.streaming.verify.repair import Repair


def repair_outputs(configs: Sequence[StoreConfig], options: RebuildOptions) -> int:
    """Repair outputs, print what became of them, and return the exit code.

    Raises:
        ReputError: one cannot be repaired, or its log ends early; those before it are repaired.
    """
    for config in configs:
        refuse_version_of_store(config)
    FAILURES.writes(each.output / STATE_DIRECTORY for each in configs if not each.in_place)
    results: list[tuple[StoreConfig, Repair]] = []
    try:
        for config in configs:
            with busy("repairing"):
                done = repair(
                    config,
                    threads=options.threads,
                    fail_on_data_loss=options.fail_on_data_loss,
                    skips_corrupt=options.on_corrupt == CorruptMode.SKIP,
                )
            results.append((config, done))
    except (ReputError, OSError):
        if results and not options.as_json:
            print_repairs(results, as_json=False)
        raise
    code = FAILURES.answered(_code_of(results))
    print_repairs(results, as_json=options.as_json)
    for _, result in results:
        if result.failure is not None:
            ERR.print(f"reput: {result.failure}", markup=False, soft_wrap=True)
    return code


def _code_of(results: Sequence[tuple[StoreConfig, Repair]]) -> int:
    # At damage of the log, what is before it is repaired: that is not a failure.
    for config, result in results:
        if result.failure is not None and kind_of(result.failure, config) != "corrupt":
            return FAILED
    if any(result.verdict == Verdict.DAMAGED for _, result in results):
        return FINDINGS
    return OK if all(result.ok for _, result in results) else INCOMPLETE
