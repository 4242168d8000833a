"""Options of the command itself, and those that every command has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from reput.streaming.settings.model.option import SAYING, SHOWING, Option

Json = Annotated[
    bool,
    Option(flag="--json", panel=SHOWING, help="Print one JSON document instead of tables."),
]
QUIET = Option(
    short="-q",
    panel=SAYING,
    shows_default=False,
    help="Only errors and warnings on standard error: no progress bars, no log lines.",
)
# Where -q is a queue.
LONG_QUIET = Option(panel=SAYING, shows_default=False, help=QUIET.help)


@dataclass(frozen=True, kw_only=True)
class Saying:
    """How much a command says beside its answer."""

    verbose: Annotated[
        int,
        Option(
            short="-v",
            is_count=True,
            metavar="",
            shows_default=False,
            panel=SAYING,
            help="Log what is done on standard error, and show all details of an unexpected error. "
            "Give it twice to log still more.",
        ),
    ] = 0
    quiet: Annotated[bool, QUIET] = False


@dataclass(frozen=True, kw_only=True)
class SayingWithQueue(Saying):
    """The same where -q is a queue."""

    quiet: Annotated[bool, LONG_QUIET] = False


@dataclass(frozen=True, kw_only=True)
class _First:
    version: Annotated[
        bool,
        Option(
            short="-V",
            is_eager=True,
            shows_default=False,
            panel=SAYING,
            help="Print the version.",
        ),
    ] = False
    show_completion: Annotated[
        str | None,
        Option(
            metavar="bash|zsh|fish",
            is_eager=True,
            completes="shells",
            panel=SAYING,
            help="Print what makes this shell complete commands, options and their values: "
            "`source <(reput --show-completion bash)`.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Beginning(Saying, _First):
    """What stands before a command's name."""
