"""Makes conditions from the productions of the filter language, and refuses what a broker refuses.

`sql92` parses a text and calls these; `sql92_conditions` says how the conditions are evaluated.
"""

from __future__ import annotations

import operator
from typing import Final

from lark import Token, Transformer, v_args

from reput.formats.errors import ExpressionError
from reput.formats.filters.sql92_conditions import (
    Cast,
    Condition,
    Equality,
    EvaluationError,
    Junction,
    Literal,
    Long,
    Membership,
    Negation,
    Not,
    Operand,
    Ordering,
    Property,
    Search,
    Truth,
    compare,
)

SEARCHES: Final = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
ORDERS: Final = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TRUTHS: Final = {"TRUE": True, "FALSE": False, "NULL": None}
LONG_MAX = (1 << 63) - 1
INT_MAX = (1 << 31) - 1


class OperandError(ExpressionError):
    """An error that a broker raises before it reads the token after the operand."""


def condition_of(operand: Operand, position: int, *, strict: bool) -> Condition:
    """Return `operand` as a condition: a property is cast, a number or a string is refused."""
    if isinstance(operand, Condition):
        return operand
    if isinstance(operand, Property):
        if strict:
            raise ExpressionError(f"a property is never TRUE: {operand.name} = TRUE", position, "")
        return Cast(operand)
    raise ExpressionError("a condition is expected", position, "ParseException")


def _ordered(left: Operand, order: str, right: Operand, position: int) -> Ordering:
    for operand in (left, right):
        text = isinstance(operand, Literal) and isinstance(operand.constant, str)
        if text or isinstance(operand, Condition):
            raise OperandError("a string or a condition has no order", position, "RuntimeException")
    return Ordering(left, right, ORDERS[order])


def _unquote(token: str) -> str:
    return token[1:-1].replace("''", "'")


@v_args(inline=True)
class _Builder(Transformer[Token, Operand]):
    """Makes the conditions, a method per production; refuses what the broker refuses."""

    def __init__(self, *, strict: bool) -> None:
        super().__init__()
        self._strict = strict

    def disjunction(self, left: Operand, word: Token, right: Operand) -> Condition:
        return self._junction(left, position_of(word), right, decisive=True)

    def conjunction(self, left: Operand, word: Token, right: Operand) -> Condition:
        return self._junction(left, position_of(word), right, decisive=False)

    def _junction(
        self, left: Operand, position: int, right: Operand, *, decisive: bool
    ) -> Condition:
        first = condition_of(left, position, strict=self._strict)
        second = condition_of(right, position, strict=self._strict)
        if isinstance(first, Junction) and first.decisive is decisive:
            # It has no other owner: thousands of alternatives stay one level, and one list.
            first.operands.append(second)
            return first
        return Junction([first, second], decisive)

    def equality(self, left: Operand, sign: Token, right: Operand) -> Condition:
        at = position_of(sign)
        if any(isinstance(side, Truth) and side.constant is None for side in (left, right)):
            raise ExpressionError("NULL is not compared: IS NULL", at, "RuntimeException")
        if isinstance(left, Truth) and isinstance(right, Literal):
            raise ExpressionError("a truth value is not compared with this", at, "RuntimeException")
        if self._strict:
            _refuse_unequal_kinds(left, right, at)
        equal = Equality(left, right)
        return equal if sign == "=" else Not(equal)

    def null_test(
        self, operand: Operand, _is: Token, inverted: Token | None, _null: Token
    ) -> Condition:
        test = Equality(operand, Truth(None))
        return Not(test) if inverted else test

    def ordering(self, left: Operand, order: Token, right: Operand) -> Condition:
        return _ordered(left, order, right, position_of(order))

    def search(
        self, operand: Operand, inverted: Token | None, name: Token, text: Token
    ) -> Condition:
        sought = _unquote(text)
        if self._strict:
            if not sought:
                raise ExpressionError(
                    "FALSE for an empty text, even with NOT", position_of(text), ""
                )
            _require_property(operand, position_of(name))
        return Search(operand, sought, SEARCHES[name.upper()], inverted is not None)

    def between(
        self,
        operand: Operand,
        inverted: Token | None,
        word: Token,
        low: Operand,
        _and: Token,
        high: Operand,
    ) -> Condition:
        at = position_of(word)
        if not inverted:
            _refuse_no_range(low, high, at)
        signs = ("<", ">") if inverted else (">=", "<=")
        sides = _ordered(operand, signs[0], low, at), _ordered(operand, signs[1], high, at)
        if self._strict:
            ends = _number(low), _number(high)
            if ends[0] is not None and ends[1] is not None and ends[1] < ends[0]:
                raise ExpressionError("the low end is above the high end", at, "")
        return Junction(list(sides), decisive=inverted is not None)

    def membership(
        self, operand: Operand, inverted: Token | None, word: Token, *texts: Token
    ) -> Condition:
        if not isinstance(operand, Property):
            raise OperandError("IN is for properties", position_of(word), "RuntimeException")
        return Membership(operand, frozenset(map(_unquote, texts)), inverted is not None)

    def negation(self, minus: Token, operand: Operand) -> Operand:
        if self._strict and _number(operand) is None:
            raise ExpressionError("minus is for numbers, NULL for all else", position_of(minus), "")
        return Negation(operand)

    def inversion(self, word: Token, operand: Operand) -> Condition:
        try:
            return Not(condition_of(operand, position_of(word), strict=self._strict))
        except ExpressionError as error:
            raise OperandError(error.reason, error.position, error.java) from None

    def string(self, token: Token) -> Operand:
        return Literal(_unquote(token))

    def decimal(self, token: Token) -> Operand:
        digits = token.rstrip("lL")
        # Python refuses to read some thousands of digits.
        if len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX:
            raise OperandError("beyond a Long", position_of(token), "NumberFormatException")
        number = int(digits)
        return Literal(number if number <= INT_MAX else Long(number))

    def double(self, token: Token) -> Operand:
        number = float(token)
        if number == 0 or number == float("inf"):
            reason = "beyond a Double, or 0.0, which is refused"
            raise OperandError(reason, position_of(token), "RuntimeException")
        return Literal(number)

    def truth(self, token: Token) -> Operand:
        return Truth(TRUTHS[token.upper()])

    def name(self, name: Token) -> Operand:
        return Property(str(name))


def builder(*, strict: bool) -> Transformer[Token, Operand]:
    """Return what makes the conditions of a parse; see `sql92.parse` for `strict`."""
    return _Builder(strict=strict)


def _refuse_no_range(low: Operand, high: Operand, position: int) -> None:
    """Refuse two constants if the first is above the second."""
    if not (isinstance(low, Literal | Truth) and isinstance(high, Literal | Truth)):
        return
    reason = "these are not a low and a high end"
    if low.constant is None or high.constant is None:
        raise OperandError(reason, position, "RuntimeException")
    try:
        if compare(high.constant, low.constant) < 0:
            raise OperandError("the low end is above the high end", position, "RuntimeException")
    except EvaluationError as error:
        raise OperandError(reason, position, error.java) from None


def _refuse_unequal_kinds(left: Operand, right: Operand, position: int) -> None:
    """Refuse `=` between values that are never equal, or that fail at every message."""
    if isinstance(left, Condition) != isinstance(right, Condition):
        if isinstance(left, Condition):
            raise ExpressionError("a condition is compared with a value", position, "")
        if not isinstance(left, Property) or not isinstance(right, Truth):
            raise ExpressionError("a value is compared with a condition", position, "")
    if isinstance(left, Literal) and isinstance(right, Literal):
        try:
            compare(left.constant, right.constant)
        except EvaluationError as error:
            raise ExpressionError(str(error), position, "") from None


def _require_property(operand: Operand, position: int) -> None:
    if not isinstance(operand, Property):
        raise ExpressionError("this is for properties, FALSE for all else", position, "")


def _number(operand: Operand) -> int | float | None:
    """Return the number that an operand is, None for anything else."""
    if isinstance(operand, Negation):
        number = _number(operand.operand)
        return None if number is None else -number
    if isinstance(operand, Literal) and not isinstance(operand.constant, str):
        return operand.constant
    return None


def position_of(token: Operand | Token) -> int:
    """Return where a token stands in the text."""
    return token.start_pos or 0 if isinstance(token, Token) else 0
