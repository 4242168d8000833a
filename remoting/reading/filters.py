"""The filter that a broker makes of what a pull or a subscription says.

Of tags a broker compares hashes only; the tag itself is its client's business. The rest is as in
`stores.config.message_filter`, with what a broker makes of expressions that it cannot read.
Source: RocketMQ `FilterAPI#build`, `ConsumerFilterManager#build`, `ExpressionMessageFilter`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from reput.formats.errors import ExpressionError
from reput.formats.filters import tag_expression
from reput.formats.filters.tag_expression import TagExpression
from reput.stores.config.filters import bloom_of
from reput.stores.config.message_filter import (
    FilterError,
    Sql92Filter,
    TagFilter,
    compile_filter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.formats.filters.bloomfilter import BloomFilter
    from reput.formats.filters.consumerfilter import ConsumerFilter
    from reput.stores.query.message_store import MessageStore

TAG, SQL92 = "TAG", "SQL92"
# What clients subscribe with comes from outside: its number is bounded.
_KEPT = 1024
_NO_CODE: frozenset[int] = frozenset()


class HashFilter(TagFilter):
    """Messages whose tag has one of the hashes."""

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return True: a broker does not look at the tag itself."""
        del properties
        return True


def is_tag(kind: str | None) -> bool:
    """Tell whether a kind of expression is that of tags (`ExpressionType#isTagType`)."""
    return kind in {None, "", TAG}


@functools.lru_cache(_KEPT)
def by_tags(expression: str) -> HashFilter | None:
    """Return the filter of tags, None for one that every message passes.

    Raises:
        ExpressionError: a broker refuses it.
    """
    parsed = tag_expression.parse(expression)
    return HashFilter(parsed) if parsed.codes is not None else None


def of_request(
    expression: str | None, kind: str | None, *, string_operators: bool
) -> HashFilter | Sql92Filter | None:
    """Return the filter that a pull itself names, None for one that every message passes.

    Args:
        expression: `subscription`.
        kind: `expressionType`.
        string_operators: see `compile_filter`.

    Raises:
        ExpressionError: a broker refuses it.
    """
    text = expression or ""
    if kind is None or kind == TAG:
        return by_tags(text)
    if not text:
        raise ExpressionError("an expression that is not of tags has to say something", 0, "")
    if not kind:
        # It counts as one of tags, whose hashes were never made.
        every = text == tag_expression.ALL
        return None if every else HashFilter(TagExpression(text, frozenset(), _NO_CODE))
    return _by_properties(text, kind, string_operators=string_operators)


@functools.lru_cache(_KEPT)
def _by_properties(text: str, kind: str, *, string_operators: bool) -> Sql92Filter | None:
    try:
        found = compile_filter(text, kind, string_operators=string_operators)
    except FilterError:
        # A broker logs it, and then has no filter.
        return None
    return found if isinstance(found, Sql92Filter) else None


def of_consumer(store: MessageStore, known: ConsumerFilter) -> Sql92Filter | None:
    """Return the filter that a group registered, with its bits where units have bit maps.

    Args:
        store: its settings, and its file of filters, say how large bit maps are.
        known: what the group registered.

    Returns:
        None for one that every message passes.
    """
    settings = store.settings
    operators = settings.version.has_string_operators
    found = _by_properties(known.expression, known.expression_type, string_operators=operators)
    if found is None:
        return None
    bloom: BloomFilter = bloom_of({"": (known,)}, settings)
    return found.of_consumer(known, bloom) if known.fits(bloom) else found
