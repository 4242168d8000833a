"""How the command leaves: what went wrong is said once, with the exit code for it."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from typing import NoReturn

from reput.streaming import events
from reput.streaming.endings import interruptions
from reput.streaming.endings.exit_codes import FAILED
from reput.streaming.endings.failures import FAILURES
from reput.streaming.endings.standard_output import OutputError, drop_output

LOG = logging.getLogger("reput")


def fail(message: str, code: int) -> NoReturn:
    """Say what went wrong and exit; with --json as a document."""
    # An exit code stays even where its reason cannot be said.
    with contextlib.suppress(OutputError):
        if interruptions.wants_json():
            print(json.dumps({**FAILURES.done, "error": message, "exit_code": code}), flush=True)
    with contextlib.suppress(OSError):
        if _logs_json():
            LOG.error(message, extra={"event": events.FAILED, "exit_code": code})
        else:
            print(f"reput: {message}", file=sys.stderr)
    leave(code)


def _logs_json() -> bool:
    # What was not imported has not begun to log.
    log_lines = sys.modules.get("reput.streaming.show.log_lines")
    return log_lines is not None and bool(log_lines.logs_json())


def leave(code: int) -> NoReturn:
    """Exit, once standard output has what was printed."""
    try:
        sys.stdout.flush()
    except OutputError as error:
        leave_unheard(error.error, code)
    interruptions.exit_with(code)


def leave_unheard(error: OSError, code: int) -> NoReturn:
    """Exit where standard output does not take what was printed.

    One that is not read to its end is fine; one that is full is not: the answer did not arrive.
    """
    drop_output()
    if not isinstance(error, BrokenPipeError):
        with contextlib.suppress(OSError):
            print(f"reput: standard output: {error.strerror}", file=sys.stderr)
        code = FAILED
    leave(code)
