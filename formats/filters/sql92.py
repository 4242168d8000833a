"""The message filter language of RocketMQ ("SQL92"): consumers subscribe with it.

    color = 'red' AND (size BETWEEN 2 AND 5 OR size IS NULL) AND NOT shape IN ('disc', 'box')

Names are properties of the message, which are Strings or absent. What a broker accepts, this
accepts, its oddities included: the bit maps that it stores must come out the same.

* the text may continue after a complete expression: `a LIKE 'x'` is `a`, `a = 007` is `a = 0`. Only
  the token that follows the expression is looked at: it must be one, and must not continue it;
* no LIKE, no arithmetic, no `!=`; minus and NOT bind to the operand alone: `NOT a = b` is
  `(NOT a) = b`;
* a decimal literal is an Integer or a Long, by its size; `0.0` is refused as too small;
* FALSE, not NULL, is what NOT CONTAINS makes of an absent property; `a = b` is TRUE with both
  absent.

What a production makes: `sql92_builder`. How values compare: `sql92_conditions`. Source: RocketMQ
`filter`, SelectorParser.jj.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from reput.formats.errors import ExpressionError
from reput.formats.filters.sql92_builder import (
    SEARCHES,
    OperandError,
    builder,
    condition_of,
    position_of,
)
from reput.formats.filters.sql92_conditions import (
    Condition,
    EvaluationError,
    Operand,
    Properties,
)

if TYPE_CHECKING:
    from lark import Transformer
    from lark.parsers.lalr_interactive_parser import InteractiveParser

__all__ = ["EvaluationError", "Expression", "ExpressionError", "parse"]

KEYWORDS: Final = {"AND", "BETWEEN", "FALSE", "IN", "IS", "NOT", "NULL", "OR", "TRUE"}


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed filter expression."""

    text: str
    condition: Condition

    def evaluate(self, properties: Properties) -> bool | None:
        """Return TRUE, FALSE or NULL (None) for a message with these properties.

        Raises:
            EvaluationError: where Java throws: a property is not a number, or is of the wrong type.
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
        strict: refuse also what a broker takes but reads otherwise than it looks, and what no
            message can satisfy.

    Raises:
        ExpressionError: the broker refuses the text, or it is not strictly right.
    """
    try:
        operand, end = _parse(text, _parser(string_operators=string_operators, strict=strict))
    except ExpressionError as error:
        _look_ahead(text, error, _scanner(string_operators=string_operators))
        raise
    condition = condition_of(operand, 0, strict=strict)
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
        end = position_of(error.token)
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
        at = position_of(error.token)
        ahead = ExpressionError("this token is not expected", at, "ParseException")
    except UnexpectedCharacters as error:
        ahead = _no_token(error)
    else:
        return
    # An operand that is complete is taken as read.
    with suppress(UnexpectedToken):
        parser.feed_token(Token("OR", "OR"))
    waiting = (value for value in parser.parser_state.value_stack if isinstance(value, Token))
    if any(token.type == "PLUS" and position_of(token) < found.position for token in waiting):
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
    except OperandError:
        raise
    except (ExpressionError, UnexpectedToken):
        pass


@cache
def _parser(*, string_operators: bool, strict: bool) -> Lark:
    return _lark(builder(strict=strict), string_operators=string_operators)


@cache
def _scanner(*, string_operators: bool) -> Lark:
    """Return a parser that looks at the syntax alone."""
    return _lark(None, string_operators=string_operators)


def _lark(transformer: Transformer[Token, Operand] | None, *, string_operators: bool) -> Lark:
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
        transformer=transformer,
    )
