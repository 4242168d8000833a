"""The command `reput`: arguments in, exit codes out; the work is done elsewhere."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version as version_of
from typing import Any

import typer

from reput.formats.errors import ReputError, UsageError
from reput.streaming.cli.app import group, sign
from reput.streaming.cli.completions import SHELLS
from reput.streaming.cli.leaving import fail, leave, leave_unheard
from reput.streaming.endings import interruptions
from reput.streaming.endings.exit_codes import FAILED, OK, USAGE
from reput.streaming.endings.failures import FAILURES
from reput.streaming.endings.standard_output import OutputError
from reput.streaming.endings.verbosity import VERBOSITY
from reput.streaming.settings.model.option import options_of
from reput.streaming.settings.model.saying import Beginning
from reput.streaming.settings.reput_toml import in_keys

_NAME = "reput"
_COMPLETE = "_REPUT_COMPLETE"
_CLI = "reput.streaming.cli"
COMMANDS = {
    "run": f"{_CLI}.jobs.run:run",
    "rebuild": f"{_CLI}.jobs.rebuild:rebuild",
    "verify": f"{_CLI}.verify:verify",
    "handover": f"{_CLI}.handover:handover",
    "prepare": f"{_CLI}.prepare:prepare",
    "demo": f"{_CLI}.demo:demo",
    "topics": f"{_CLI}.topics:topics",
    "tail": f"{_CLI}.tail:tail",
    "export": f"{_CLI}.export:export",
    "serve": f"{_CLI}.serve.serve:serve",
    "query": f"{_CLI}.query.group:app",
    "inspect": f"{_CLI}.inspect.group:app",
}
_HELP = """
Dispatch RocketMQ commitlogs: build the consume queues, index files and checkpoint that a broker
would have written, byte for byte, with Spark Structured Streaming. And ask a store by key, id,
offset or time, without a broker.

Begin with `reput demo`. `reput COMMAND --help` explains a command, with an example.

Exit codes: 0 fine, 1 findings (verify) or nothing found (query), 2 wrong usage, 3 failed, 4
incomplete: interrupted, stopped at damage of the log, something is missing, or no index to look in.
"""


def _show_version(is_asked: Any) -> None:
    if is_asked:
        print(f"{_NAME} {version_of(_NAME)}")
        raise typer.Exit(OK)


def _show_completion(shell: str | None) -> None:
    if shell is None:
        return
    if shell not in SHELLS:
        raise UsageError(f"--show-completion {shell!r} is not one of {', '.join(SHELLS)}")
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name=_NAME, complete_var=_COMPLETE, shell=shell))
    raise typer.Exit(OK)


def _begin(*, verbose: int, quiet: bool, **_ends: Any) -> None:
    """Take what stands before a command's name."""
    VERBOSITY.add(verbose, is_quiet=quiet)


sign(
    _begin,
    options_of(Beginning),
    {"version": _show_version, "show_completion": _show_completion},
)
app = group(COMMANDS, _begin, name=_NAME, help=_HELP)


def main() -> None:
    """Run the command and exit with its code."""
    VERBOSITY.begin()
    if _COMPLETE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    try:
        # Without click's own handling, Exit comes back as a number and errors come as they are.
        code = app(prog_name=_NAME, standalone_mode=False)
    except OutputError as error:
        leave_unheard(error.error, OK if FAILURES.answer is None else FAILURES.answer)
    except (typer.Abort, KeyboardInterrupt):
        interruptions.tell_interrupted("SIGINT")
        leave(interruptions.interrupted_code())
    except interruptions.Interrupted as error:
        interruptions.tell_interrupted(str(error))
        interruptions.leave_at_once()
        leave(interruptions.interrupted_code())
    except Exception as error:  # noqa: BLE001 - each has an exit code of its own
        fail(*_said_of(error))
    leave(code if isinstance(code, int) else OK)


def _said_of(error: Exception) -> tuple[str, int]:
    """Return what is said of an error that ended a command, and the exit code."""
    if isinstance(error, UsageError):
        return str(error), USAGE
    if isinstance(error, ReputError):
        return in_keys(str(error)) if _uses_file() else str(error), FAILURES.code
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", FAILED
    # Of the library that parses the command line.
    if hasattr(error, "format_message"):
        return _with_page(error), USAGE
    return FAILURES.describe(error), FAILED


def _uses_file() -> bool:
    """Tell whether stores are named by a file: remedies are its keys then, and not options."""
    return any(word.partition("=")[0] == "--config" for word in sys.argv[1:])


def _with_page(error: Any) -> str:
    """Return what is wrong with a command line, and which page says how it goes."""
    # The words of the library that checks values.
    said = str(error.format_message()).rstrip().replace(": Value error, ", ": ")
    said = said if said.endswith((".", "?")) else f"{said}."
    command = getattr(getattr(error, "ctx", None), "command_path", None)
    return f"{said} See `{command or _NAME} --help`"
