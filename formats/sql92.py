"""The message filter language of RocketMQ ("SQL92"): consumers subscribe with it.

    color = 'red' AND (size BETWEEN 2 AND 5 OR size IS NULL) AND NOT shape IN ('disc', 'box')

Names are properties of the message, which are Strings or absent. What a broker accepts, this
accepts, its oddities included, for the bit maps it stores must come out the same:

* the text may go on after a complete expression: `a LIKE 'x'` is `a`, `a = 007` is `a = 0`. Only
  the token that follows the expression is looked at: it must be one, and must not continue it;
* no LIKE, no arithmetic, no `!=`; minus and NOT bind to the operand alone: `NOT a = b` is
  `(NOT a) = b`;
* a decimal literal is an Integer or a Long, by its size; `0.0` is refused as too small;
* FALSE, not NULL, is what NOT CONTAINS makes of an absent property; `a = b` is TRUE with both
  absent.

How values compare: `sql92_conditions`. Source: RocketMQ `filter`, SelectorParser.jj.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cache
from typing import Final

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from formats.sql92_conditions import (
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
    Properties,
    Property,
    Search,
    Truth,
    compare,
)

__all__ = ["EvaluationError", "Expression", "ExpressionError", "parse"]

KEYWORDS: Final = {"AND", "BETWEEN", "FALSE", "IN", "IS", "NOT", "NULL", "OR", "TRUE"}
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


class ExpressionError(ValueError):
    """A broker refuses the text. `position` is the character where it goes wrong, 0 the first."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason}, at character {position}")
        self.position = position


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed filter expression."""

    text: str
    condition: Condition

    def evaluate(self, properties: Properties) -> bool | None:
        """Return TRUE, FALSE or NULL (None) for a message with these properties.

        Raises:
            EvaluationError: where Java throws: a property is no number, or of the wrong type.
        """
        try:
            return self.condition.value(properties)
        except RecursionError:
            # As Java's StackOverflowError would be, if some thousands of levels deeper.
            raise EvaluationError("nested too deeply") from None

    def matches(self, properties: Properties) -> bool:
        """Tell whether the message passes: TRUE does; FALSE, NULL and a failure do not."""
        try:
            return self.evaluate(properties) is True
        except EvaluationError:
            return False


def parse(text: str, *, string_operators: bool = True) -> Expression:
    """Return the expression that `text` begins with.

    Args:
        text: what the consumer subscribed with.
        string_operators: know CONTAINS, STARTSWITH and ENDSWITH, as brokers from 5.1.3 on do;
            older ones have them as ordinary names.

    Raises:
        ExpressionError: the broker refuses the text.
    """
    parser = _parser(string_operators).parse_interactive(text)
    end = len(text)
    try:
        try:
            for _ in parser.iter_parse():
                pass
        except UnexpectedToken as error:
            # This token does not continue the expression; if it is complete, the rest is ignored.
            end = _position(error.token)
        return Expression(text, _condition(parser.feed_token(Token("$END", "")), 0))
    except UnexpectedCharacters as error:
        raise ExpressionError("no token", error.pos_in_stream or 0) from None
    except UnexpectedToken:
        found = "the end" if end == len(text) else "this token"
        raise ExpressionError(f"{found} is not expected", end) from None


@cache
def _parser(string_operators: bool) -> Lark:
    def word(token: Token) -> Token:
        name = token.upper()
        if name in KEYWORDS:
            return token.update(type=name)
        if string_operators and name in SEARCHES:
            return token.update(type="STRING_OPERATOR")
        return token

    return Lark.open_from_package(
        "formats",
        "sql92_grammar.lark",
        parser="lalr",
        lexer="basic",
        maybe_placeholders=True,
        lexer_callbacks={"ID": word},
        transformer=_Builder(),
    )


def _condition(operand: Operand, position: int) -> Condition:
    """Return `operand` as a condition: a property is cast, a number or a string is refused."""
    if isinstance(operand, Condition):
        return operand
    if isinstance(operand, Property):
        return Cast(operand)
    raise ExpressionError("a condition is expected", position)


def _ordered(left: Operand, order: str, right: Operand, position: int) -> Ordering:
    for operand in (left, right):
        text = isinstance(operand, Literal) and isinstance(operand.constant, str)
        if text or isinstance(operand, Condition):
            raise ExpressionError("a string or a condition has no order", position)
    return Ordering(left, right, ORDERS[order])


def _unquote(token: str) -> str:
    return token[1:-1].replace("''", "'")


@v_args(inline=True)
class _Builder(Transformer[Token, Operand]):
    """Makes the conditions, a method for each production; refuses what the broker refuses."""

    def disjunction(self, *parts: Operand | Token) -> Condition:
        return self._junction(parts, decisive=True)

    def conjunction(self, *parts: Operand | Token) -> Condition:
        return self._junction(parts, decisive=False)

    def _junction(self, parts: tuple[Operand | Token, ...], *, decisive: bool) -> Condition:
        operands = [part for part in parts if isinstance(part, Operand)]
        position = _position(parts[1])
        return Junction(tuple(_condition(operand, position) for operand in operands), decisive)

    def equality(self, left: Operand, sign: Token, right: Operand) -> Condition:
        if any(isinstance(side, Truth) and side.constant is None for side in (left, right)):
            raise ExpressionError("NULL is not compared: IS NULL", _position(sign))
        if isinstance(left, Truth) and isinstance(right, Literal):
            raise ExpressionError("a truth value is not compared with this", _position(sign))
        equal = Equality(left, right)
        return equal if sign == "=" else Not(equal)

    def null_test(
        self, operand: Operand, _is: Token, inverted: Token | None, _null: Token
    ) -> Condition:
        test = Equality(operand, Truth(None))
        return Not(test) if inverted else test

    def ordering(self, left: Operand, order: Token, right: Operand) -> Condition:
        return _ordered(left, order, right, _position(order))

    def search(
        self, operand: Operand, inverted: Token | None, name: Token, text: Token
    ) -> Condition:
        return Search(operand, _unquote(text), SEARCHES[name.upper()], inverted is not None)

    def between(
        self,
        operand: Operand,
        inverted: Token | None,
        word: Token,
        low: Operand,
        _and: Token,
        high: Operand,
    ) -> Condition:
        at = _position(word)
        if inverted:
            sides = _ordered(operand, "<", low, at), _ordered(operand, ">", high, at)
            return Junction(sides, decisive=True)
        sides = _ordered(operand, ">=", low, at), _ordered(operand, "<=", high, at)
        if isinstance(low, Literal) and isinstance(high, Literal):
            if compare(high.constant, low.constant) < 0:
                raise ExpressionError("the low end is above the high end", at)
        return Junction(sides, decisive=False)

    def membership(
        self, operand: Operand, inverted: Token | None, word: Token, *texts: Token
    ) -> Condition:
        if not isinstance(operand, Property):
            raise ExpressionError("IN is for properties", _position(word))
        return Membership(operand, frozenset(map(_unquote, texts)), inverted is not None)

    def negation(self, operand: Operand) -> Operand:
        return Negation(operand)

    def inversion(self, word: Token, operand: Operand) -> Condition:
        return Not(_condition(operand, _position(word)))

    def string(self, token: Token) -> Operand:
        return Literal(_unquote(token))

    def decimal(self, token: Token) -> Operand:
        digits = token.rstrip("lL")
        # Python refuses to read some thousands of digits.
        if len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX:
            raise ExpressionError("beyond a Long", _position(token))
        number = int(digits)
        return Literal(number if number <= INT_MAX else Long(number))

    def double(self, token: Token) -> Operand:
        number = float(token)
        if number == 0 or number == float("inf"):
            raise ExpressionError("beyond a Double, or 0.0, which is refused", _position(token))
        return Literal(number)

    def truth(self, token: Token) -> Operand:
        return Truth(TRUTHS[token.upper()])

    def name(self, name: Token) -> Operand:
        return Property(str(name))


def _position(token: Operand | Token) -> int:
    return token.start_pos or 0 if isinstance(token, Token) else 0
