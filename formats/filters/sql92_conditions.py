"""What an expression of the filter language makes of a message's properties (see `sql92`).

A condition is TRUE, FALSE or NULL (None). A value is what Java has there: String (str), Boolean,
Integer (int), Long, Double (float) or null. Values of two types are compared by these rules of
RocketMQ's `ComparisonExpression`:

* a String beside a number is parsed into the number's type, so `a > 5` fails for a="7.5";
* two Strings are compared as Doubles; if one of them is not a Double, the evaluation fails;
* a String before a Boolean is TRUE if it says "true"; after a Boolean, the evaluation fails;
* any other mixture is unequal. NaN is equal to itself and above all, -0.0 is below 0.0.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reput.formats.java import strings

Properties = Mapping[str, str]
Comparable = str | bool | int | float
Value = Comparable | None


class EvaluationError(ValueError):
    """Java throws here: the broker takes the message as not matched.

    Attributes:
        java: the class of the exception.
    """

    def __init__(self, reason: str, java: str = "RuntimeException") -> None:
        super().__init__(reason)
        self.java = java


class Long(int):
    """A Java Long; a plain int is an Integer. Strings beside it are parsed with its range."""


class Operand(ABC):
    """Anything that has a value."""

    @abstractmethod
    def value(self, properties: Properties) -> Value:
        """Return the value for a message with these properties.

        Raises:
            EvaluationError: where Java throws.
        """


class Condition(Operand):
    """An operand that is TRUE, FALSE or NULL."""

    @abstractmethod
    def value(self, properties: Properties) -> bool | None:
        """Return TRUE, FALSE or NULL for a message with these properties."""


@dataclass(frozen=True, slots=True)
class Literal(Operand):
    """A string or a number."""

    constant: str | int | float

    def value(self, properties: Properties) -> Value:
        """Return the constant."""
        del properties
        return self.constant


@dataclass(frozen=True, slots=True)
class Truth(Condition):
    """The literals TRUE, FALSE and NULL."""

    constant: bool | None

    def value(self, properties: Properties) -> bool | None:
        """Return the constant."""
        del properties
        return self.constant


@dataclass(frozen=True, slots=True)
class Property(Operand):
    """A property of the message: a String, or null where the message has none of that name."""

    name: str

    def value(self, properties: Properties) -> Value:
        """Return the property's value."""
        return properties.get(self.name)


@dataclass(frozen=True, slots=True)
class Negation(Operand):
    """Unary minus: null for all but numbers."""

    operand: Operand

    def value(self, properties: Properties) -> Value:
        """Return the number with the other sign, in its own type."""
        value = self.operand.value(properties)
        if value is None or isinstance(value, str | bool):
            return None
        return type(value)(-value)


@dataclass(frozen=True, slots=True)
class Cast(Condition):
    """A property where a condition is wanted: a String is never a Boolean, so never TRUE."""

    operand: Property

    def value(self, properties: Properties) -> bool | None:
        """Return FALSE, NULL where the message lacks the property."""
        return None if self.operand.value(properties) is None else False


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """NOT: NULL stays NULL."""

    operand: Condition

    def value(self, properties: Properties) -> bool | None:
        """Return the opposite."""
        value = self.operand.value(properties)
        return None if value is None else not value


@dataclass(frozen=True, slots=True)
class Junction(Condition):
    """AND (`decisive` FALSE) or OR (`decisive` TRUE): left to right until one operand decides."""

    operands: list[Condition]
    decisive: bool

    def value(self, properties: Properties) -> bool | None:
        """Return the decisive value, else NULL where an operand is NULL, else the opposite."""
        result: bool | None = not self.decisive
        for operand in self.operands:
            value = operand.value(properties)
            if value is self.decisive:
                return value
            if value is None:
                result = None
        return result


@dataclass(frozen=True, slots=True)
class Equality(Condition):
    """`=`, and `IS NULL` with NULL on the right."""

    left: Operand
    right: Operand

    def value(self, properties: Properties) -> bool | None:
        """Return NULL for a null on the left only, FALSE for one on the right only."""
        left = self.left.value(properties)
        right = self.right.value(properties)
        if left is None:
            return True if right is None else None
        if right is None:
            return False
        if isinstance(left, str) and isinstance(right, str):
            return left == right
        return compare(left, right) == 0


@dataclass(frozen=True, slots=True)
class Ordering(Condition):
    """`<`, `<=`, `>`, `>=`: NULL where a side is null."""

    left: Operand
    right: Operand
    holds: Callable[[int, int], bool]

    def value(self, properties: Properties) -> bool | None:
        """Return whether the order holds."""
        left = self.left.value(properties)
        # Java does not look at the right side then, which may be a failure.
        if left is None:
            return None
        right = self.right.value(properties)
        if right is None:
            return None
        if isinstance(left, str) and isinstance(right, str):
            left, right = parse_double(left), parse_double(right)
        return self.holds(compare(left, right), 0)


@dataclass(frozen=True, slots=True)
class Search(Condition):
    """[NOT] CONTAINS, STARTSWITH, ENDSWITH: FALSE, even with NOT, for all but Strings."""

    operand: Operand
    text: str
    holds: Callable[[str, str], bool]
    inverted: bool

    def value(self, properties: Properties) -> bool | None:
        """Return whether the text is there; FALSE, even with NOT, for an empty text."""
        # Java does not look at the operand then, which may be a failure.
        if not self.text:
            return False
        value = self.operand.value(properties)
        return isinstance(value, str) and self.holds(value, self.text) is not self.inverted


@dataclass(frozen=True, slots=True)
class Membership(Condition):
    """[NOT] IN: NULL where the message lacks the property."""

    operand: Property
    texts: frozenset[str]
    inverted: bool

    def value(self, properties: Properties) -> bool | None:
        """Return whether the property is one of the texts."""
        value = self.operand.value(properties)
        return None if value is None else (value in self.texts) is not self.inverted


def compare(left: Comparable, right: Comparable) -> int:
    """Return -1, 0 or 1 by the rules on top of this module.

    Raises:
        EvaluationError: a String that is not of the number's type, or one after a Boolean.
    """
    if isinstance(left, bool) and isinstance(right, str):
        raise EvaluationError(
            f"a Boolean is not compared with the String {right!r}", "ClassCastException"
        )
    if isinstance(left, str) and isinstance(right, bool):
        left = left.lower() == "true"
    if isinstance(left, bool) is not isinstance(right, bool):
        return -1
    if isinstance(left, str):
        if isinstance(right, str):
            return (left > right) - (left < right)
        left = _parse_as(right, left)
    elif isinstance(right, str):
        right = _parse_as(left, right)
    if isinstance(left, float) or isinstance(right, float):
        return _compare_doubles(float(left), float(right))
    return (left > right) - (left < right)


def _parse_as(number: float, text: str) -> int | float:
    """Return `text` as a number of the type of `number`."""
    if isinstance(number, float):
        return parse_double(text)
    try:
        return strings.parse_long(text) if isinstance(number, Long) else strings.parse_int(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _compare_doubles(left: float, right: float) -> int:
    """Return `Double.compare(left, right)`."""
    if left == right:
        left, right = math.copysign(1, left), math.copysign(1, right)
    elif math.isnan(left) or math.isnan(right):
        return math.isnan(left) - math.isnan(right)
    return (left > right) - (left < right)


_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
)
_NAMED = re.compile(r"[+-]?(?:NaN|Infinity)")


def parse_double(text: str) -> float:
    """Return `Double.valueOf(text)`.

    Raises:
        EvaluationError: where Java throws NumberFormatException.
    """
    trimmed = strings.trim(text)
    if _NAMED.fullmatch(trimmed):
        return float(trimmed)
    digits = trimmed[:-1] if trimmed.endswith(("f", "F", "d", "D")) else trimmed
    if _DECIMAL.fullmatch(digits):
        return float(digits)
    if _HEXADECIMAL.fullmatch(digits):
        try:
            return float.fromhex(digits)
        except OverflowError:
            return -math.inf if digits.startswith("-") else math.inf
    raise EvaluationError(f"not a number: {text!r}")
