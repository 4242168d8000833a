"""Words for names that a store does not have: which there are instead, the nearest first."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from reput.stores.inspect.printable import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from reput.stores.query.message_store import MessageStore

_SHOWN = 5
_NEAR = 0.5


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known names that are most like one, then others, as text; empty for none."""
    by_lower: dict[str, list[str]] = {}
    for each in sorted(known):
        by_lower.setdefault(each.lower(), []).append(each)
    near = difflib.get_close_matches(name.lower(), by_lower, _SHOWN, _NEAR)
    ordered = [*near, *(lower for lower in by_lower if lower not in near)]
    every = [each for lower in ordered for each in by_lower[lower]]
    shown = ", ".join(printable(each) for each in every[:_SHOWN])
    more = len(every) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def no_such(what: str, name: str, known: Iterable[str], none: str) -> str:
    """Return that there is nothing of a name, and what there is.

    Args:
        what: a noun: topic, group.
        name: that was asked for.
        known: all that there are.
        none: what to say if there are none.
    """
    there = nearest(name, known)
    return f"no such {what} {printable(name)!r}; {f'there are {there}' if there else none}"


def no_such_topic(
    asked: MessageStore, topic: str | None, queue_ids: Collection[int] = ()
) -> str | None:
    """Return that a topic has no queues, or not these; None if it has, or none was asked for.

    Args:
        asked: the store.
        topic: that was asked for.
        queue_ids: of it, that were asked for.
    """
    if topic is None:
        return None
    there = asked.queue_ids(topic)
    if not there:
        known = asked.topics()
        return None if topic in known else no_such("topic", topic, known, _no_queues(asked))
    lacking = [each for each in queue_ids if each not in there]
    if not lacking:
        return None
    numbers = ", ".join(map(str, there[:_SHOWN]))
    if len(there) > _SHOWN:
        numbers += f" and {len(there) - _SHOWN} more"
    return f"topic {printable(topic)} has no queue {lacking[0]}; there are {numbers}"


def _no_queues(asked: MessageStore) -> str:
    return (
        f"{asked.output} has no queues at all; if reput wrote them elsewhere, say where with "
        "--output"
    )
