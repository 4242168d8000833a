"""Standard streams: errors of the output are told from those of files, and none of them is closed.

The module is imported before all others, and so imports little.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys


class OutputError(Exception):
    """Standard output has not taken what was printed.

    Not an OSError: that may be of any file, and click has an exit code of its own for broken pipes.

    Attributes:
        error: why.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output: {error.strerror}")
        self.error = error


class _Output(io.TextIOWrapper):
    """Standard output whose errors are told from those of files."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise OutputError(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputError(error) from error


def take_over() -> None:
    """Open closed standard streams, and tell errors of the output from those of files."""
    _open_missing_streams()
    if type(sys.stdout) is io.TextIOWrapper:
        before = sys.stdout
        sys.stdout = _Output(
            before.buffer, before.encoding, before.errors, line_buffering=before.line_buffering
        )
        before.detach()


def _open_missing_streams() -> None:
    """Give closed standard streams a descriptor, or files of a store would get theirs.

    Writing to standard output then fails, as it has to: the answer would be lost.
    """
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is not None:
            continue
        # The lowest free number is taken: they come in order.
        opened = os.open(os.devnull, os.O_RDWR if name == "stderr" else os.O_RDONLY)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def drop_output() -> None:
    """Forget what could not be printed, or Python would try once more at its very end."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
