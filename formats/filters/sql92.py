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
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

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
    Properties,
    Property,
    Search,
    Truth,
    compare,
)

if TYPE_CHECKING:
    from lark.parsers.lalr_interactive_parser import InteractiveParser

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


class _OperandError(ExpressionError):
    """One that a broker raises before it reads the token that follows the operand."""


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
            raise EvaluationError("nested too deeply", "StackOverflowError") from None

    def matches(self, properties: Properties) -> bool:
        """Tell whether the message passes: TRUE does; FALSE, NULL and a failure do not."""
        try:
            return self.evaluate(properties) is True
        except EvaluationError:
            return False


def parse(text: str, *, string_operators: bool = True, strict: bool = False) -> Expression:
    """Return the expression that `text` begins with.

    Args:
        text: what the consumer subscribed with.
        string_operators: know CONTAINS, STARTSWITH and ENDSWITH, as brokers from 5.1.3 on do;
            older ones have them as ordinary names.
        strict: refuse as well what a broker takes but reads otherwise than it looks, and what can
            be true of no message.

    Raises:
        ExpressionError: the broker refuses the text, or it is not strictly right.
    """
    try:
        operand, end = _parse(text, _parser(string_operators, strict))
    except ExpressionError as error:
        _look_ahead(text, error, _scanner(string_operators))
        raise
    condition = _condition(operand, 0, strict=strict)
    if strict and end < len(text):
        raise ExpressionError("a broker ignores the text from here on", end, "")
    return Expression(text, condition)


def _parse(text: str, lark: Lark) -> tuple[Operand, int]:
    """Return what `text` begins with, and where that ends."""
    parser = lark.parse_interactive(text)
    end = len(text)
    try:
        for _ in parser.iter_parse():
            pass
    except UnexpectedToken as error:
        # This token does not continue the expression; if it is complete, the rest is ignored.
        end = _position(error.token)
    except UnexpectedCharacters as error:
        _finish_operand(parser)
        raise _no_token(error) from None
    return _complete(parser, text, end), end


def _no_token(error: UnexpectedCharacters) -> ExpressionError:
    return ExpressionError("no token", error.pos_in_stream or 0, "TokenMgrError")


def _look_ahead(text: str, found: ExpressionError, lark: Lark) -> None:
    """Raise what a broker finds before `found`: it reads the operand of a plus sign ahead.

    So what is wrong with the operand's syntax comes before what is wrong with its meaning.
    """
    if "+" not in text or not found.java:
        return
    parser = lark.parse_interactive(text)
    try:
        for _ in parser.iter_parse():
            pass
    except UnexpectedToken as error:
        at = _position(error.token)
        ahead = ExpressionError("this token is not expected", at, "ParseException")
    except UnexpectedCharacters as error:
        ahead = _no_token(error)
    else:
        return
    # An operand that is complete is taken as read.
    with suppress(UnexpectedToken):
        parser.feed_token(Token("OR", "OR"))
    waiting = (value for value in parser.parser_state.value_stack if isinstance(value, Token))
    if any(token.type == "PLUS" and _position(token) < found.position for token in waiting):
        raise ahead from None


def _complete(parser: InteractiveParser, text: str, end: int) -> Operand:
    """Return the operand that was parsed up to `end`."""
    try:
        operand: Operand = parser.feed_token(Token("$END", ""))
    except UnexpectedToken:
        # A broker finishes what stands in the parenthesis before it misses the other one.
        with suppress(UnexpectedToken):
            parser.feed_token(Token("RPAR", ")"))
        found = "the end" if end == len(text) else "this token"
        raise ExpressionError(f"{found} is not expected", end, "ParseException") from None
    return operand


def _finish_operand(parser: InteractiveParser) -> None:
    """Raise what a broker finds wrong with the last operand before it reads the next token."""
    try:
        parser.feed_token(Token("$END", ""))
    except _OperandError:
        raise
    except (ExpressionError, UnexpectedToken):
        pass


@cache
def _parser(string_operators: bool, strict: bool) -> Lark:
    return _lark(string_operators, _Builder(strict=strict))


@cache
def _scanner(string_operators: bool) -> Lark:
    """Return a parser that looks at the syntax alone."""
    return _lark(string_operators, None)


def _lark(string_operators: bool, builder: _Builder | None) -> Lark:
    def word(token: Token) -> Token:
        name = token.upper()
        if name in KEYWORDS:
            return token.update(type=name)
        if string_operators and name in SEARCHES:
            return token.update(type="STRING_OPERATOR")
        return token

    return Lark.open_from_package(
        "reput.formats.filters",
        "sql92_grammar.lark",
        parser="lalr",
        lexer="basic",
        maybe_placeholders=True,
        lexer_callbacks={"ID": word},
        transformer=builder,
    )


def _condition(operand: Operand, position: int, *, strict: bool) -> Condition:
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
            raise _OperandError(
                "a string or a condition has no order", position, "RuntimeException"
            )
    return Ordering(left, right, ORDERS[order])


def _unquote(token: str) -> str:
    return token[1:-1].replace("''", "'")


@v_args(inline=True)
class _Builder(Transformer[Token, Operand]):
    """Makes the conditions, a method for each production; refuses what the broker refuses."""

    def __init__(self, *, strict: bool) -> None:
        super().__init__()
        self._strict = strict

    def disjunction(self, left: Operand, word: Token, right: Operand) -> Condition:
        return self._junction(left, _position(word), right, decisive=True)

    def conjunction(self, left: Operand, word: Token, right: Operand) -> Condition:
        return self._junction(left, _position(word), right, decisive=False)

    def _junction(
        self, left: Operand, position: int, right: Operand, *, decisive: bool
    ) -> Condition:
        first = _condition(left, position, strict=self._strict)
        second = _condition(right, position, strict=self._strict)
        if isinstance(first, Junction) and first.decisive is decisive:
            # It has no other owner: thousands of alternatives stay one level, and one list.
            first.operands.append(second)
            return first
        return Junction([first, second], decisive)

    def equality(self, left: Operand, sign: Token, right: Operand) -> Condition:
        at = _position(sign)
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
        return _ordered(left, order, right, _position(order))

    def search(
        self, operand: Operand, inverted: Token | None, name: Token, text: Token
    ) -> Condition:
        sought = _unquote(text)
        if self._strict:
            if not sought:
                raise ExpressionError("FALSE for an empty text, even with NOT", _position(text), "")
            _require_property(operand, _position(name))
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
        at = _position(word)
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
            raise _OperandError("IN is for properties", _position(word), "RuntimeException")
        return Membership(operand, frozenset(map(_unquote, texts)), inverted is not None)

    def negation(self, minus: Token, operand: Operand) -> Operand:
        if self._strict and _number(operand) is None:
            raise ExpressionError("minus is for numbers, NULL for all else", _position(minus), "")
        return Negation(operand)

    def inversion(self, word: Token, operand: Operand) -> Condition:
        try:
            return Not(_condition(operand, _position(word), strict=self._strict))
        except ExpressionError as error:
            raise _OperandError(error.reason, error.position, error.java) from None

    def string(self, token: Token) -> Operand:
        return Literal(_unquote(token))

    def decimal(self, token: Token) -> Operand:
        digits = token.rstrip("lL")
        # Python refuses to read some thousands of digits.
        if len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX:
            raise _OperandError("beyond a Long", _position(token), "NumberFormatException")
        number = int(digits)
        return Literal(number if number <= INT_MAX else Long(number))

    def double(self, token: Token) -> Operand:
        number = float(token)
        if number == 0 or number == float("inf"):
            reason = "beyond a Double, or 0.0, which is refused"
            raise _OperandError(reason, _position(token), "RuntimeException")
        return Literal(number)

    def truth(self, token: Token) -> Operand:
        return Truth(TRUTHS[token.upper()])

    def name(self, name: Token) -> Operand:
        return Property(str(name))


def _refuse_no_range(low: Operand, high: Operand, position: int) -> None:
    """Refuse two constants of which the first is above the second."""
    if not (isinstance(low, Literal | Truth) and isinstance(high, Literal | Truth)):
        return
    reason = "these are no low and no high end"
    if low.constant is None or high.constant is None:
        raise _OperandError(reason, position, "RuntimeException")
    try:
        if compare(high.constant, low.constant) < 0:
            raise _OperandError("the low end is above the high end", position, "RuntimeException")
    except EvaluationError as error:
        raise _OperandError(reason, position, error.java) from None


def _refuse_unequal_kinds(left: Operand, right: Operand, position: int) -> None:
    """Refuse `=` between what is never equal, or where the broker fails at every message."""
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
    """Return the number that stands there, None if another thing does."""
    if isinstance(operand, Negation):
        number = _number(operand.operand)
        return None if number is None else -number
    if isinstance(operand, Literal) and not isinstance(operand.constant, str):
        return operand.constant
    return None


def _position(token: Operand | Token) -> int:
    return token.start_pos or 0 if isinstance(token, Token) else 0
