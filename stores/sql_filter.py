"""SQL92 subscriptions: by a message's properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats import sql92
from formats.errors import UsageError

if TYPE_CHECKING:
    from formats.broker import BrokerVersion
    from formats.commitlog import Record
    from formats.consumequeue_ext import Unit


@dataclass(frozen=True)
class SqlFilter:
    """Messages for which an expression is TRUE."""

    expression: sql92.Expression

    @classmethod
    def parse(cls, text: str, version: BrokerVersion) -> SqlFilter:
        """Return what a subscription means to a broker of a version.

        Raises:
            UsageError: the broker refuses it.
        """
        try:
            return cls(sql92.parse(text, string_operators=version.has_string_operators))
        except sql92.ExpressionError as error:
            raise UsageError(f"{text!r}: {error}") from error

    def matches_code(self, _tags_code: int | None, _unit: Unit | None) -> bool:
        """Tell whether an entry may be of such a message: its hash does not say."""
        return True

    def matches(self, record: Record) -> bool:
        """Tell whether the expression is TRUE for a message."""
        return self.expression.matches(record.properties)
