"""Where an output resumes: at its own progress, once files and log are certain to agree with it.

What an earlier writer left beyond the progress is rolled back. Where the log has been cut and
written again since, the output goes back to the last point that both have in common. What somebody
else has done to the files is refused. Source: docs/adr/0010-one-record-after-a-flush.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reput.checkpoints import marks, progress, untouched
from reput.checkpoints.disk import changes
from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.sinks.upkeep import retention
from reput.streaming.dispatch.resuming import recovery, truncation
from reput.streaming.events import RECOVERY, Event

if TYPE_CHECKING:
    from pathlib import Path

    from reput.checkpoints.progress import Progress
    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.resuming.recovery import Recovery
    from reput.streaming.settings.config import StoreConfig

# Where `reput rebuild --repair` builds an output once more.
REPAIR = "repair"


def check_output(output: Path) -> None:
    """Refuse a directory that holds somebody else's files.

    Raises:
        StoreError: which.
    """
    staging = output / progress.STATE_DIRECTORY
    if marks.is_repairing(staging):
        raise StoreError(
            staging / marks.REPAIRING,
            "`reput rebuild --repair` was interrupted while it exchanged files",
            "Run it again with the same store and output; it starts over",
        )
    if (staging / progress.FILE_NAME).exists() or not output.exists():
        return
    for kind in names.DISPATCHED:
        if (output / kind).exists():
            raise StoreError(
                output / kind,
                "it is there already and was not written by reput, or its progress record is gone",
                "Move it away, or give an empty directory as the output; if reput has written it, "
                "`reput rebuild --repair` makes another record",
            )


def resume(config: StoreConfig, log: CommitLog, done: Recovery) -> Progress:
    """Return where an output resumes, after rolling back what lies beyond that.

    Args:
        config: the store; the caller holds the lock of its output.
        log: its log.
        done: gets what was rolled back.

    Raises:
        StoreError: it was written with other settings, of another log, or by somebody else since.
    """
    # Left by a repair that was interrupted before it changed anything.
    changes.remove_tree(config.output / progress.STATE_DIRECTORY / REPAIR)
    found = progress.load(config.output)
    if found is None:
        return recovery.beginning(config)
    check_settings(config, found)
    if config.in_place:
        # Recorded before the output became one: a broker may have written to these files since.
        found = replace(found, tails={})
    found = replace(
        found, firsts=untouched.check(config.output, found, config.settings, log.min_offset)
    )
    for path in retention.left_behind(config.output, config.settings, found.firsts):
        changes.remove_file(path)
    if not found.clean:
        failure = marks.failure(config.output)
        why = f"its last writer failed: {failure}" if failure else "its last writer was killed"
        done.reasons.append(Event(why, RECOVERY))
        if (config.output / names.CHECKPOINT).exists():
            # It may be of a flush that was not recorded: that is rolled back now.
            recovery.write_checkpoint(config, found)
        recovery.roll_back_to(config, found, done)
    return truncation.follow(config, log, found, done)


def check_settings(config: StoreConfig, found: Progress) -> None:
    """Refuse an output that was written with other settings.

    Raises:
        StoreError: which.
    """
    for name, value in config.settings.fingerprint().items():
        if found.settings.get(name) != value:
            raise StoreError(
                config.output,
                f"it was written with {name} = {found.settings.get(name)}, now it is {value}",
                "Use the same broker version and broker.conf, or another output",
            )
