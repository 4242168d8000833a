"""Filters of messages: what a consumer subscribes with, evaluated on files.

    keep = compile_filter("color = 'red' AND size > 5", "SQL92")
    if keep.matches_code(entry.tags_code) and keep.matches(properties): ...

As in a broker, the entry of the consume queue comes first (the hash of a tag, or the bit map of an
extension), then the message's properties. `mode="broker"` accepts what a broker accepts, and reads
it as a broker does. `mode="strict"` refuses expressions that a broker silently reads otherwise than
they look. Languages: `formats.filters.tag_expression`,
`formats.filters.sql92`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from reput.formats.errors import ExpressionError, UsageError
from reput.formats.filters import tag_expression
from reput.formats.filters.bloomfilter import mask
from reput.formats.filters.sql92_conditions import EvaluationError
from reput.formats.rocketmq.properties import TAGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.formats.filters.bloomfilter import BloomFilter
    from reput.formats.filters.consumerfilter import ConsumerFilter
    from reput.formats.filters.sql92 import Expression
    from reput.formats.rocketmq.consumequeue_ext import Unit

Kind = Literal["TAG", "SQL92"]
Mode = Literal["broker", "strict"]
KINDS: tuple[Kind, ...] = ("TAG", "SQL92")
MODES: tuple[Mode, ...] = ("broker", "strict")


class FilterError(UsageError):
    """An expression that is refused.

    Attributes:
        position: the character where it goes wrong, 0 the first; None: the whole of it.
        java: the class of the broker's exception; empty where only the strict mode refuses.
    """

    def __init__(self, message: str, position: int | None, java: str) -> None:
        super().__init__(message)
        self.position = position
        self.java = java

    def __reduce__(self) -> tuple[type[FilterError], tuple[str, int | None, str]]:
        """Keep all parts when another process gets it."""
        return type(self), (str(self), self.position, self.java)


class MessageFilter(Protocol):
    """Tells which messages pass. It counts, so each thread needs one of its own."""

    @property
    def kind(self) -> Kind:
        """Return the language of its expression."""

    @property
    def expression(self) -> str:
        """Return what it was made of."""

    @property
    def failures(self) -> int:
        """Return for how many messages the evaluation failed; they did not pass."""

    @property
    def first_failure(self) -> str:
        """Return what was wrong with the first of these, empty for none."""

    def matches_code(self, tags_code: int | None) -> bool:
        """Tell whether an entry of a consume queue may belong to a message that passes.

        Args:
            tags_code: 64 bits, an extension's where the entry has one; None where it is not known
                (an extension is missing), so the message may pass.
        """

    def matches_unit(self, unit: Unit | None) -> bool:
        """Tell the same of the unit of a consume queue extension, its bit map included."""

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Tell whether a message with these properties passes; ask about its entry first."""


def compile_filter(
    expression: str | None,
    kind: str = "TAG",
    mode: str = "broker",
    *,
    string_operators: bool = True,
) -> MessageFilter:
    """Return the filter of a consumer that subscribes with `expression`.

    Args:
        expression: None, nothing and `*` are every message for tags; SQL92 has to have one.
        kind: `TAG` or `SQL92`.
        mode: `broker` or `strict`.
        string_operators: know CONTAINS, STARTSWITH and ENDSWITH, as brokers from 5.1.3 on do.

    Raises:
        FilterError: the expression is refused, or the kind or mode is not known.
    """
    if mode not in MODES:
        raise FilterError(f"filter mode {mode!r} is not one of {', '.join(MODES)}", None, "")
    strict = mode == "strict"
    text = expression or ""
    try:
        if kind == "TAG":
            return TagFilter(tag_expression.parse(text, strict=strict))
        if kind == "SQL92":
            return _sql92_filter(text, string_operators=string_operators, strict=strict)
    except ExpressionError as error:
        by = "a broker refuses it" if error.java else "a broker takes it for something else"
        raise FilterError(
            f"{kind} filter {text[:200]!r}: {error} ({by})", error.position, error.java
        ) from None
    raise FilterError(
        f"filter kind {kind!r} is not one of {', '.join(KINDS)}", None, "NullPointerException"
    )


def _sql92_filter(text: str, *, string_operators: bool, strict: bool) -> Sql92Filter:
    if not text:
        raise FilterError("SQL92 has to have an expression", None, "IllegalArgumentException")
    # Its parser takes longer to import than a query of a queue takes.
    from reput.formats.filters import sql92  # noqa: PLC0415

    return Sql92Filter(sql92.parse(text, string_operators=string_operators, strict=strict))


class TagFilter:
    """`A || B`: the hash of the tag in the entry, then the tag itself."""

    kind: Kind = "TAG"
    failures = 0
    first_failure = ""

    def __init__(self, parsed: tag_expression.TagExpression) -> None:
        self._parsed = parsed

    @property
    def expression(self) -> str:
        """Return what it was made of; `*` for nothing."""
        return self._parsed.text

    @property
    def tags(self) -> frozenset[str]:
        """Return the tags that pass, none where all do."""
        return self._parsed.tags

    @property
    def codes(self) -> frozenset[int] | None:
        """Return the hashes of the tags, None where every message passes."""
        return self._parsed.codes

    def matches_code(self, tags_code: int | None) -> bool:
        """Tell whether the hash is one of those that are looked for."""
        return tags_code is None or self._parsed.matches_code(tags_code)

    def matches_unit(self, unit: Unit | None) -> bool:
        """Tell the same of the tags code of a unit."""
        return unit is None or self._parsed.matches_code(unit.tags_code)

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Tell whether the message's tag is one of those that are named."""
        return self._parsed.matches_tag(properties.get(TAGS))


class Sql92Filter:
    """An expression over properties; bit maps tell beforehand which messages cannot pass."""

    kind: Kind = "SQL92"

    def __init__(
        self,
        parsed: Expression,
        consumer: ConsumerFilter | None = None,
    ) -> None:
        """Keep the expression.

        Args:
            parsed: the expression.
            consumer: one that subscribed with it, whose bits are in the bit maps of messages that
                were stored since; see `reput.with_bitmaps`.
        """
        self.failures = 0
        self.first_failure = ""
        self._parsed = parsed
        self._consumer = consumer
        self._mask = mask(consumer.bit_positions) if consumer is not None else 0

    def of_consumer(self, consumer: ConsumerFilter, bloom: BloomFilter) -> Sql92Filter:
        """Return the filter as it is for a consumer with bits of this bloom filter.

        Raises:
            ValueError: the bits are not of this bloom filter.
        """
        if not consumer.fits(bloom):
            raise ValueError(f"the bits of {consumer.group} are of another bloom filter")
        return Sql92Filter(self._parsed, consumer)

    @property
    def expression(self) -> str:
        """Return what it was made of."""
        return self._parsed.text

    def matches_code(self, tags_code: int | None) -> bool:
        """Return True: a tag says nothing of properties."""
        del tags_code
        return True

    def matches_unit(self, unit: Unit | None) -> bool:
        """Tell whether the consumer's bits are set, where the unit has bits of its time."""
        if self._consumer is None or unit is None:
            return True
        if unit.store_timestamp <= self._consumer.born_time:
            return True
        if 8 * len(unit.bitmap) != self._consumer.bit_count:
            return True
        return int.from_bytes(unit.bitmap, "little") & self._mask == self._mask

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Tell whether the expression is TRUE; FALSE, NULL and a failure are not."""
        try:
            return self._parsed.evaluate(properties) is True
        except EvaluationError as error:
            self.failures += 1
            self.first_failure = self.first_failure or str(error)
            return False
