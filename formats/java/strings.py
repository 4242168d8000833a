"""What Java makes of bytes: String.hashCode, UTF-8 decoding with its replacement rules, parseInt.

A tag, a key and a topic reach RocketMQ's hashes as a Java String: bytes are decoded as UTF-8
(`new String(bytes, UTF_8)`), a malformed piece becomes U+FFFD, and hashing runs over UTF-16 code
units. Python's decoder replaces some malformed input piece by piece where Java replaces it once
(an encoded surrogate, ED A0 80, is one U+FFFD in Java and three here), so malformed bytes need
the rules of `sun.nio.cs.UTF_8` written out.
"""

from __future__ import annotations

import unicodedata

REPLACEMENT = "\ufffd"
INT_MAX = 0x7FFFFFFF
# Decimal digits of the largest long.
# Digits from which on a number may need more bits.
_ALWAYS_FITS = {32: 10, 64: 19}
_MOST_DIGITS = 19
_SHOWN = 40
_TRIMMED = "".join(map(chr, range(0x21)))
_CONTROL_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
_NO_BREAK = "\u00a0\u2007\u202f"


def decode(raw: bytes) -> str:
    """Decode UTF-8 as Java does; every malformed piece becomes one U+FFFD."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        pieces = []
        at = 0
        while at < len(raw):
            length, valid = _piece(raw, at)
            pieces.append(raw[at : at + length].decode("utf-8") if valid else REPLACEMENT)
            at += length
        return "".join(pieces)


def _piece(raw: bytes, at: int) -> tuple[int, bool]:  # noqa: C901, PLR0911 - Java's own rules, one after the other
    """Return the length of the piece at `at` and whether it is a character (`UTF_8#malformedN`)."""
    first = raw[at]
    rest = raw[at + 1 : at + 4]

    def continues(i: int) -> bool:
        return i < len(rest) and rest[i] & 0xC0 == 0x80

    if first < 0x80:
        return 1, True
    if 0xC2 <= first <= 0xDF:
        return (2, True) if continues(0) else (1, False)
    if 0xE0 <= first <= 0xEF:
        if not continues(0) or (first == 0xE0 and rest[0] & 0xE0 == 0x80):
            return 1, False
        if not continues(1):
            return 2, False
        surrogate = first == 0xED and rest[0] >= 0xA0
        return 3, not surrogate
    if 0xF0 <= first <= 0xF4:
        bad_second = (first == 0xF0 and rest[:1] < b"\x90") or (
            first == 0xF4 and rest[:1] > b"\x8f"
        )
        if not continues(0) or bad_second:
            return 1, False
        if not continues(1):
            return 2, False
        if not continues(2):
            return 3, False
        return 4, True
    return 1, False


def hash_code(text: str) -> int:
    """Return `text.hashCode()`: a signed 32-bit integer over UTF-16 code units."""
    state = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        state = (31 * state + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return state - (1 << 32) if state & 0x80000000 else state


def trim(text: str) -> str:
    """Return `text.trim()`: without the blank and every character below it at both ends."""
    return text.strip(_TRIMMED)


def is_whitespace(character: str) -> bool:
    """Return `Character.isWhitespace(character)`: false for no-break spaces."""
    if character in _NO_BREAK:
        return False
    return character in _CONTROL_BLANKS or unicodedata.category(character) in {"Zs", "Zl", "Zp"}


def is_blank(text: str) -> bool:
    """Return `StringUtils.isBlank(text)` of commons-lang, for a text that is there."""
    return all(map(is_whitespace, text))


def parse_int(text: str) -> int:
    """Return `Integer.parseInt(text)`.

    Raises:
        ValueError: where Java throws NumberFormatException.
    """
    return _parse_number(text, 32)


def parse_long(text: str) -> int:
    """Return `Long.parseLong(text)`.

    Raises:
        ValueError: where Java throws NumberFormatException.
    """
    return _parse_number(text, 64)


def _parse_number(text: str, bits: int) -> int:
    # Most numbers are short ones, and this is asked for each field of each request.
    if len(text) < _ALWAYS_FITS[bits] and text.isascii() and text.isdigit():
        return int(text)
    digits = text[1:] if text[:1] in {"+", "-"} else text
    # Java's Character.digit knows the decimal digits of every script, as str.isdecimal does.
    if not digits.isdecimal() or any(ord(c) > 0xFFFF for c in digits):
        raise ValueError(f"not an integer: {text!r}")
    # Java passes over any number of zeros at the beginning; Python refuses thousands of digits.
    leading = next((i for i, digit in enumerate(digits) if int(digit)), len(digits))
    if len(digits) - leading > _MOST_DIGITS:
        raise ValueError(f"beyond {bits} bits: {text[:_SHOWN]!r}…")
    value = int(digits[leading:] or "0")
    if text[0] == "-":
        value = -value
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"beyond {bits} bits: {text[:_SHOWN]!r}")
    return value
