"""What an operator should know of: a sentence, and a word to find and count it by."""

from __future__ import annotations

from contextvars import ContextVar

# The store that what runs now is about, where all of it is about one: lines say so by themselves.
CURRENT_STORE: ContextVar[str | None] = ContextVar("store", default=None)

RECOVERY, TRUNCATION, GAP, CORRUPT = "recovery", "truncation", "gap", "corrupt"
SETTING = "setting"
# The log's last file does not have its full size yet.
UNFINISHED = "unfinished"
# Kafka is held back until the next start.
KAFKA = "kafka"
# Of the job: the settings in force, and those of a store; its end by a signal; its end by an error.
STARTED, STORE, ENDING, ENDED = "started", "store", "ending", "ended"
STOPPED, FAILED = "stopped", "failed"
# A store that had failed, beside others, is dispatched again.
RESUMED = "resumed"
# A store's writer was not seen to work for a while.
SILENT = "silent"
# All that has no word of its own.
NOTICE = "notice"


ALL = frozenset({
    RECOVERY, TRUNCATION, GAP, CORRUPT, SETTING, UNFINISHED, KAFKA, NOTICE,
    STARTED, STORE, ENDING, ENDED, STOPPED, FAILED, RESUMED, SILENT,
})  # fmt: skip


class Event(str):
    """A sentence of a log's timeline.

    Attributes:
        kind: one of the constants above; "notice" for the rest.
    """

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, text: str, kind: str = NOTICE) -> Event:
        """Return the sentence."""
        made = super().__new__(cls, text)
        made.kind = kind
        return made


def kind_of_event(text: str) -> str:
    """Return the kind of an event; of a plain sentence, "notice"."""
    return text.kind if isinstance(text, Event) else NOTICE
