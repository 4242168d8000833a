"""`reput rebuild`: all that a store has now."""

from __future__ import annotations

import typer

from reput.formats.errors import UsageError
from reput.streaming.cli.jobs.choice import configs_of, job_options
from reput.streaming.settings.model.choices import TailMode
from reput.streaming.settings.model.jobs import RebuildOptions


def rebuild(options: RebuildOptions) -> None:
    """Dispatch all that a store has now, then end with a summary. Resumes where it was left.

    Exit code 4: the log's rest is not dispatched. It was interrupted: run it again. Or the log is
    damaged there: the error names the place and what to do. With --repair: 1 if `reput verify`
    still finds something, 4 if something is still missing.

    Example: `reput rebuild --store /backup/store --output /backup/rebuilt --broker-version 4.9.8`
    """
    configs = configs_of(options)
    if options.repair:
        if options.tail == TailMode.FLUSHED or options.delete_expired:
            raise UsageError("--repair goes with neither --tail flushed nor --delete-expired")
        from reput.streaming.cli.jobs.repair import repair_outputs

        raise typer.Exit(repair_outputs(configs, options))
    from reput.streaming.cli.jobs.job import run_job

    job = job_options(options, available_now=True)
    as_json = options.as_json
    raise typer.Exit(run_job(configs, job, as_json=as_json, shows_progress=not as_json))
