"""How far groups are in queues: what a broker's `ConsumerOffsetManager` keeps, in memory.

    {"offsetTable":{"TopicTest@group":{"0":12,"1":7}}}

An offset is where a group resumes: that of the first message it has not yet consumed. A group may
go back, so a smaller offset replaces a greater one.
"""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq.names import RETRY

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG = logging.getLogger("reput")
TABLE = "offsetTable"
_PULLED = "pullOffsetTable"

_SEPARATOR = "@"
# Any peer can name queues, so their number is bounded. It is that of a large cluster's.
_MOST_QUEUES = 1 << 20
_INT64 = 1 << 63


class Seed(enum.StrEnum):
    """Where groups begin as long as there is no file of ours."""

    BROKER = "broker"
    SCRATCH = "scratch"


class Offsets:
    """Offsets by topic, group and queue.

    Attributes:
        version: how often one was set; tells whether there is something to save.
        refused: offsets of new queues that were not kept: there are too many already.
        reset_count: how many a tool has set so far.
    """

    def __init__(self, said: Mapping[str, Any] | None = None) -> None:
        """Begin with what a file says.

        Args:
            said: the file as JSON, integer keys as texts.

        Raises:
            ValueError: the file does not say what such a file says; names the place.
        """
        self._queues = _table(said or {}, TABLE)
        # Where the next pull of a group begins. It ends with the server: each pull says it again.
        self._pulled = _table(said or {}, _PULLED)
        self._count = sum(len(each) for each in (*self._queues.values(), *self._pulled.values()))
        # Resets that no pull has been told of. They end with the server, as a broker's do.
        self._resets: set[tuple[str, int]] = set()
        self.version = 0
        self.refused = 0
        self.reset_count = 0

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where a group resumes, None if it has not said."""
        return self._queues.get(_key(topic, group), {}).get(queue_id)

    def of(self, group: str, topic: str) -> dict[int, int]:
        """Return where a group resumes in each queue of a topic for which it has said it."""
        return dict(self._queues.get(_key(topic, group), {}))

    def set(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Set where a group resumes; False if there are too many queues already."""
        queues = self._queues.get(_key(topic, group))
        if queues is None or queue_id not in queues:
            if self._count >= _MOST_QUEUES:
                self._refuse(group)
                return False
            queues = self._queues.setdefault(_key(topic, group), {})
            self._count += 1
        queues[queue_id] = offset
        self.version += 1
        return True

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Return where the next pull of a group begins, -1 if that is not known."""
        return self._pulled.get(_key(topic, group), {}).get(queue_id, -1)

    def set_pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set where the next pull of a group begins."""
        if self._count < _MOST_QUEUES:
            queues = self._pulled.setdefault(_key(topic, group), {})
            self._count += queue_id not in queues
            queues[queue_id] = offset

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Set where a group resumes, whatever its members say before they are told.

        Returns:
            False if there are too many queues already.
        """
        if not self.set(group, topic, queue_id, offset):
            return False
        self._resets.add((_key(topic, group), queue_id))
        self.reset_count += 1
        return True

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Tell whether a queue has been reset, and no pull has been told of it."""
        return bool(self._resets) and (_key(topic, group), queue_id) in self._resets

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where a reset has set a group to; the next time None, as without a reset."""
        if not self.is_reset(group, topic, queue_id):
            return None
        self._resets.remove((_key(topic, group), queue_id))
        return self.find(group, topic, queue_id)

    def _refuse(self, group: str) -> None:
        if not self.refused:
            LOG.error(
                "offsets of %d queues are kept, and no more: that of group %s is not",
                _MOST_QUEUES,
                group,
            )
        self.refused += 1

    def topics(self, group: str) -> list[str]:
        """Return the topics in which a group has offsets."""
        return [topic for topic, name in self._pairs() if name == group]

    def groups(self, topic: str | None = None) -> list[str]:
        """Return the groups that have offsets in a topic, or in any."""
        found = (name for each, name in self._pairs() if topic in {None, each})
        return list(dict.fromkeys(found))

    def retrying(self) -> list[str]:
        """Return the groups that have offsets in their own retry topic."""
        return [group for topic, group in self._pairs() if topic == RETRY + group]

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = (key.split(_SEPARATOR) for key in self._queues)
        # Only names that RocketMQ does not allow have a separator of their own.
        return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]

    def document(self) -> dict[str, dict[str, dict[int, int]]]:
        """Return what a file says, as it is now."""
        return {TABLE: {key: dict(queues) for key, queues in self._queues.items()}}


def _key(topic: str, group: str) -> str:
    return f"{topic}{_SEPARATOR}{group}"


def _table(said: Mapping[str, Any], name: str) -> dict[str, dict[int, int]]:
    found = {}
    for key, queues in _object(said, name, "the file").items():
        if not isinstance(queues, dict):
            raise ValueError(f"{key!r} is not an object")  # noqa: TRY004 - the file's value
        found[key] = {_number(n, key): _number(at, key) for n, at in queues.items()}
    return found


def _object(said: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = said.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"{name!r} of {where} is not an object")  # noqa: TRY004 - the file's value
    return found


def _number(value: Any, key: str) -> int:
    try:
        number = int(value) if isinstance(value, str) or type(value) is int else None
    except ValueError:
        number = None
    if number is None or not -_INT64 <= number < _INT64:
        raise ValueError(f"{key!r} has a number that is none: {str(value)[:40]}")
    return number
