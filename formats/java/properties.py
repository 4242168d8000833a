r"""Java's properties files, which a broker.conf is: `java.util.Properties#load(InputStream)`.

The bytes are ISO 8859-1, whatever their writer meant; other characters are written as ``\uXXXX``.
A line ends with LF, CR or both. A backslash at its end joins the next line to it, whose first
blanks do not count. Lines that begin with ``#`` or ``!`` are comments, and end with it.
A name ends at the first ``=``, ``:`` or blank that has no backslash before it.

Sources: JDK 17 `Properties.LineReader#readLine`, `Properties#load0`, `Properties#loadConvert`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reput.formats.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANKS = " \t\f"
_ENDS = "\r\n"
_LETTERS = {"t": "\t", "r": "\r", "n": "\n", "f": "\f"}
_HEX = re.compile("[0-9A-Fa-f]{4}")


def load(raw: bytes) -> dict[str, str]:
    r"""Return the properties of a file; of a name that comes twice, the last one.

    Raises:
        UsageError: a ``\u`` without four hexadecimal digits after it, which Java refuses as well.
    """
    found = {}
    for line in _lines(raw.decode("iso8859-1")):
        end, start = _split(line)
        found[_plain(line[:end])] = _plain(line[start:])
    return found


def _lines(text: str) -> Iterator[str]:  # noqa: C901 - as Java reads them, one rule after the other
    """Yield lines as they are once joined: without comments and empty ones."""
    line: list[str] = []
    is_beginning, is_continued, is_escaped = True, False, False
    position = 0
    while position < len(text):
        letter = text[position]
        position += 1
        if is_beginning:
            if letter in _BLANKS or (letter in _ENDS and not is_continued):
                continue
            is_beginning = is_continued = False
        if not line and letter in "#!":
            while position < len(text) and text[position] not in _ENDS:
                position += 1
            is_beginning = True
        elif letter not in _ENDS:
            line.append(letter)
            is_escaped = letter == "\\" and not is_escaped
        elif not line:
            is_beginning = True
        elif not is_escaped:
            yield "".join(line)
            line.clear()
            is_beginning = True
        elif position < len(text):
            line.pop()
            is_beginning, is_continued, is_escaped = True, True, False
            position += letter == "\r" and text[position] == "\n"
    if line:
        yield "".join(line[:-1] if is_escaped else line)


def _split(line: str) -> tuple[int, int]:
    """Return where a line's name ends, and where its value begins."""
    end, is_escaped = 0, False
    while end < len(line) and (is_escaped or line[end] not in f"=:{_BLANKS}"):
        is_escaped = line[end] == "\\" and not is_escaped
        end += 1
    start, has_separator = end, False
    while start < len(line):
        is_separator = line[start] in "=:" and not has_separator
        if not is_separator and line[start] not in _BLANKS:
            break
        has_separator = has_separator or is_separator
        start += 1
    return end, start


def _plain(text: str) -> str:
    """Return a name or a value without its backslashes."""
    if "\\" not in text:
        return text
    letters = []
    position = 0
    while position < len(text):
        letter = text[position]
        position += 1
        if letter == "\\":
            letter = text[position]
            position += 1
            if letter == "u":
                digits = text[position : position + 4]
                if not _HEX.fullmatch(digits):
                    raise UsageError(
                        f"\\u{digits} is not an escape: four hexadecimal digits follow a \\u, and "
                        "a backslash itself is written as two"
                    )
                letter = chr(int(digits, 16))
                position += 4
            else:
                letter = _LETTERS.get(letter, letter)
        letters.append(letter)
    # Two escapes may be the halves of one character.
    units = "".join(letters).encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "surrogatepass")
