"""The one entrance to rolling an output back: its files end where a record of progress says.

Whatever asks for it has recorded that progress first, or has recorded nothing else since: if the
process dies meanwhile, the next start does the same again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reput.checkpoints import progress
from reput.checkpoints.disk import marking
from reput.checkpoints.progress import Progress
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.formats.rocketmq.indexfile import Header
from reput.sinks.files.index import IndexPosition
from reput.sinks.upkeep import rollback

if TYPE_CHECKING:
    from reput.streaming.settings.config import StoreConfig


@dataclass
class Recovery:
    """What was rolled back of an output, and why.

    Attributes:
        entries: of queues.
        items: of the index.
        truncations: times that the log was found to be another one from some place on.
        reasons: what had happened, in words.
    """

    entries: int = 0
    items: int = 0
    truncations: int = 0
    reasons: list[str] = field(default_factory=list)

    def add(self, more: Recovery) -> None:
        """Count what was rolled back later, and keep its reasons."""
        self.entries += more.entries
        self.items += more.items
        self.truncations += more.truncations
        self.reasons += more.reasons


def roll_back_to(config: StoreConfig, known: Progress, recovery: Recovery) -> None:
    """Remove from an output's files all that lies beyond a record of progress.

    Args:
        config: the store; nobody has the files of its output mapped.
        known: where they are to end.
        recovery: counts what went.

    Raises:
        OSError: no permission, the device failed.
    """
    taken = rollback.restore(
        config.output,
        config.output / progress.STATE_DIRECTORY,
        config.settings,
        known.queues,
        IndexPosition(known.index_name, Header(*known.index_header)),
        known.ahead,
    )
    recovery.entries += taken.entries
    recovery.items += taken.items


def write_checkpoint(config: StoreConfig, known: Progress) -> None:
    """Make the checkpoint file say what the progress does: ahead of the queues, it does harm."""
    marking.write_checkpoint(
        config.output,
        config.output / progress.STATE_DIRECTORY,
        StoreCheckpoint(*known.checkpoint),
        config.settings.version.checkpoint_fields,
    )


def beginning(config: StoreConfig, generation: int = 0) -> Progress:
    """Return the progress of an output with nothing in it."""
    return Progress(
        end=-1,
        generation=generation,
        clean=False,
        messages=0,
        settings=config.settings.fingerprint(),
    )
