"""The filter language of tags: `A || B`, a message's tag is one of these.

A broker looks at the hash of the tag alone, which is what a consume queue's entry holds; the
consumer compares the tag itself. What they make of a text:

* nothing and `*` are every message; `*` among others is a tag of that name;
* pieces are what stands between two `||`, trimmed; empty pieces are left out, and of a text
  without any other the hash of no message is looked for;
* a text of `||` alone is refused.

Source: RocketMQ `FilterAPI#buildSubscriptionData`, `ExpressionMessageFilter`, `PullAPIWrapper`.
"""

from __future__ import annotations

from dataclasses import dataclass

from reput.formats.errors import ExpressionError
from reput.formats.java import strings

ALL = "*"
SEPARATOR = "||"


@dataclass(frozen=True, slots=True)
class TagExpression:
    """A parsed expression: `tags` are what it names, `codes` their hashes, None for every tag."""

    text: str
    tags: frozenset[str]
    codes: frozenset[int] | None

    def matches_code(self, tags_code: int) -> bool:
        """Tell whether a broker passes on an entry with this tags code; of its low 32 bits."""
        if self.codes is None:
            return True
        low = tags_code & 0xFFFFFFFF
        return (low - (1 << 32) if low & 0x80000000 else low) in self.codes

    def matches_tag(self, tag: str | None) -> bool:
        """Tell whether a consumer keeps a message with this tag: any, if no tags are named."""
        return not self.tags or tag in self.tags


def parse(text: str, *, strict: bool = False) -> TagExpression:
    """Return the expression that `text` is.

    Args:
        text: what the consumer subscribed with.
        strict: refuse what a broker takes otherwise than it looks: `A | B` is one tag, `* || A`
            does not mean every message, and an alternative is empty.

    Raises:
        ExpressionError: a broker refuses it, or it is not strictly right.
    """
    if text in {"", ALL}:
        return TagExpression(ALL, frozenset(), None)
    pieces = text.split(SEPARATOR)
    if not any(pieces):
        raise ExpressionError("no tag between the ||", 0, "Exception")
    at = 0
    for piece in pieces if strict else ():
        tag = strings.trim(piece)
        if not tag:
            raise ExpressionError("a tag is missing beside ||", at, "")
        if tag == ALL:
            raise ExpressionError("* among others, or with blanks, is a tag of that name", at, "")
        if "|" in tag:
            raise ExpressionError(f"| is part of a tag: {SEPARATOR} separates", at, "")
        at += len(piece) + len(SEPARATOR)
    tags = frozenset(tag for tag in map(strings.trim, pieces) if tag)
    return TagExpression(text, tags, frozenset(map(strings.hash_code, tags)))
