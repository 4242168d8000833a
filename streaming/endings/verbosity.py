"""How much the command says beside its answer: `-v` and `-q`.

The answer on standard output and errors on standard error come always. In between are log lines,
which begin at a level of the command's own, and progress bars, which are for people who watch.
"""

from __future__ import annotations

import logging

_STEP = logging.INFO - logging.DEBUG


class Verbosity:
    """What the options ask for, of the whole command line.

    Attributes:
        more: how many `-v` there are.
        is_quiet: `-q` is there.
    """

    def __init__(self) -> None:
        self.more = 0
        self.is_quiet = False

    def begin(self) -> None:
        """Forget what an earlier command line of this process asked for."""
        self.more, self.is_quiet = 0, False

    def add(self, more: int, *, is_quiet: bool) -> None:
        """Take what stands before the command's name, or after it."""
        self.more += more
        self.is_quiet = self.is_quiet or is_quiet

    @property
    def shows_bars(self) -> bool:
        """Tell whether bars may be drawn: log lines would run through them."""
        return not self.is_quiet and not self.more

    @property
    def shows_tracebacks(self) -> bool:
        """Tell whether unexpected errors come with all their details."""
        return self.more > 0

    def level(self, usual: int) -> int:
        """Return the level of log lines for a command whose usual level is another.

        Args:
            usual: such as `logging.INFO`, for `run`.
        """
        if self.is_quiet:
            return logging.WARNING
        return max(usual - self.more * _STEP, logging.DEBUG)


VERBOSITY = Verbosity()
