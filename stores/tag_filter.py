"""Tag subscriptions, `A || B`: by the hash in the queue's entry first, then by the tag itself.

Source: RocketMQ `FilterAPI#buildSubscriptionData`, `ExpressionMessageFilter`, `PullAPIWrapper`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats import java
from formats.errors import UsageError

if TYPE_CHECKING:
    from formats.commitlog import Record
    from formats.consumequeue_ext import Unit

_ALL = "*"
_INT = 0xFFFFFFFF
# What Java's String.trim takes away: all up to the space, and no other space.
_TRIMMED = "".join(map(chr, range(0x21)))


@dataclass(frozen=True)
class TagFilter:
    """The tags that are wanted; none for all messages."""

    tags: frozenset[str]
    codes: frozenset[int]

    @classmethod
    def parse(cls, expression: str) -> TagFilter:
        """Return what a subscription means.

        Raises:
            UsageError: separators with nothing between them.
        """
        if expression.strip(_TRIMMED) in {"", _ALL}:
            return cls(frozenset(), frozenset())
        tags = frozenset(tag for part in expression.split("||") if (tag := part.strip(_TRIMMED)))
        if not tags:
            raise UsageError(f"no tag in {expression!r}: say TagA || TagB, or * for all")
        return cls(tags, frozenset(java.hash_code(tag) & _INT for tag in tags))

    def matches_code(self, tags_code: int | None, _unit: Unit | None) -> bool:
        """Tell whether an entry may be of such a message; one without a code may."""
        return not self.tags or tags_code is None or tags_code & _INT in self.codes

    def matches(self, record: Record) -> bool:
        """Tell whether a message has one of the tags."""
        return not self.tags or record.properties.get("TAGS") in self.tags
