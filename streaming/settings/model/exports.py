"""Options of `reput export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from reput.streaming.settings.model.choices import CorruptMode, FileFormat, FilterMode
from reput.streaming.settings.model.option import ENDING, WRITING, Option
from reput.streaming.settings.model.queries import (
    AskOptions,
    Begin,
    End,
    OptionalTopic,
    QueueId,
    Sql,
    Tag,
)


@dataclass(frozen=True, kw_only=True)
class ExportOptions(AskOptions):
    """Options of `reput export`."""

    to: Annotated[Path, Option(panel=WRITING, help="The directory to make.")]
    file_format: Annotated[
        FileFormat,
        Option(flag="--format", panel=WRITING, help="parquet, or json: a message a line."),
    ] = FileFormat.PARQUET
    topic: OptionalTopic = None
    queue: QueueId = None
    begin: Begin = None
    end: End = None
    tag: Tag = None
    sql: Sql = None
    filter_mode: Annotated[
        FilterMode,
        Option(
            help="broker: filters mean what they mean to a broker. strict: those that a broker "
            "silently takes for something else are refused.",
        ),
    ] = FilterMode.BROKER
    by_day: Annotated[
        bool, Option(panel=WRITING, help="A directory for each day (UTC): day=2026-11-21.")
    ] = False
    stored_bodies: Annotated[
        bool,
        Option(
            panel=WRITING,
            help="Leave bodies compressed as they are stored. Otherwise they are decompressed, up "
            "to 64 MiB each, and the column bodyProblem says why a body is not what its sender "
            'sent: null where it is, "not decompressed: …" where the body is as stored, "cut: …" '
            "where it is only a beginning.",
        ),
    ] = False
    ascending_store_time: Annotated[
        bool,
        Option(
            help="No clock of the broker ever went back: --begin and --end leave out parts of the "
            "log unread.",
        ),
    ] = False
    on_corrupt: Annotated[
        CorruptMode,
        Option(
            panel=ENDING,
            help="At what is corrupt or missing in the log: stop with exit code 3, or skip: export "
            "what is there, name each place that was passed over, and end with exit code 4.",
        ),
    ] = CorruptMode.STOP
    overwrite: Annotated[
        bool, Option(panel=WRITING, help="Replace an earlier export in the directory.")
    ] = False
