"""The terminal: standard output for the answer, standard error for remarks."""

from __future__ import annotations

import sys

from rich.console import Console

# Into a pipe or a file, lines may be long: a truncated table is useless there.
_PIPE_WIDTH = 200


class _Remarks(Console):
    """Standard error: nothing depends on it."""

    def on_broken_pipe(self) -> None:
        """Say nothing more."""
        self.quiet = True


OUT = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
ERR = _Remarks(stderr=True, highlight=False)
