"""Text from records, made safe for a terminal: the sender of a message chooses its bytes."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return `text` with all that is not visible as an escape such as ``\x1b`` or ``\u202e``.

    Control characters could move the cursor or forge lines, and marks of direction could turn
    text around.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(ord(c)) for c in text)


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
