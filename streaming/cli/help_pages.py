"""The command's help: pages whose option names are never cut, and what all commands have in common.

Typer's own pages are tables, whose columns cut long names where a terminal is narrow, and in pipes.
These are lists: a name that is too long for its column has a line of its own, and an example is a
line to copy, or several that end with a backslash.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
import shutil
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from reput.streaming.endings.exit_codes import USAGE
from reput.streaming.endings.verbosity import VERBOSITY

if TYPE_CHECKING:
    from collections.abc import Callable

# Groups of options, in the order of a page; those of no group come first.
READING = "Store"
WRITING = "Writing"
SHOWING = "What is shown"
SPARK = "Spark"
ENDING = "What stops it"
KAFKA = "Kafka"
MONITORING = "Monitoring"
SAYING = "Help and log lines"
_ORDER = ("Options", READING, WRITING, ENDING, SHOWING, SPARK, KAFKA, MONITORING, SAYING)

_WIDEST = 100
_NARROWEST = 50
_NARROW = 70
_COLUMN, _NARROW_COLUMN = 30, 22
_EXAMPLE = re.compile(r"Examples?:\s*((?:`[^`]+`[\s,;]*)+)")
_QUOTED = re.compile(r"`([^`]+)`")
_TYPES = (
    (r"<list\[(\w+)\]>", lambda found: f"<{found[1].lower()}>"),
    (r"<(\w+) range>", r"<\1>"),
    (r"<str>", "<text>"),
    (r"<(int|float)>", "<number>"),
)
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST}

Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        metavar="",
        show_default=False,
        rich_help_panel=SAYING,
        help="Log what is done on standard error, and show all details of an unexpected error; "
        "twice: log still more.",
    ),
]
_QUIET_HELP = "Only errors and warnings on standard error: no progress bars, no log lines."


def _quiet(*names: str) -> Any:
    return Annotated[
        bool,
        typer.Option(*names, show_default=False, rich_help_panel=SAYING, help=_QUIET_HELP),
    ]


Quiet = _quiet("--quiet", "-q")
# Where -q is a queue.
_LongQuiet = _quiet("--quiet")


class App(typer.Typer):
    """A typer app whose pages are ours, and whose commands all know `-h`, `-v` and `-q`."""

    def __init__(self, **settings: Any) -> None:
        """Begin without commands.

        Args:
            settings: typer's.
        """
        super().__init__(
            cls=Pages,
            no_args_is_help=True,
            add_completion=False,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
            context_settings=_CONTEXT,
            **settings,
        )

    def command(  # type: ignore[override]
        self, name: str | None = None, *, quiet_is_long: bool = False
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that makes a function a command.

        Args:
            name: the command's; None: the function's.
            quiet_is_long: `-q` is another option of this command.
        """
        register = super().command(name, cls=Page, context_settings=_CONTEXT)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            register(_told_how_much(function, _LongQuiet if quiet_is_long else Quiet))
            return function

        return decorate


def _told_how_much(function: Callable[..., Any], quiet_option: Any) -> Callable[..., Any]:
    """Return a command's function with the options that all commands have."""
    signature = inspect.signature(function, eval_str=True)
    more = {"verbose": (Verbose, 0), "quiet": (quiet_option, False)}

    @functools.wraps(function)
    def run(*, verbose: int, quiet: bool, **options: Any) -> Any:
        VERBOSITY.add(verbose, is_quiet=quiet)
        if VERBOSITY.more:
            from reput.streaming.show import console  # noqa: PLC0415 - slow to import

            console.log_to_stderr(usual=logging.WARNING)
        return function(**options)

    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, (annotation, default) in more.items()
    ]
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *parameters]
    )
    run.__annotations__ = {
        **function.__annotations__,
        **{name: annotation for name, (annotation, _) in more.items()},
    }
    return run


def _write_page(command: Any, context: Any, formatter: Any) -> None:
    """Write a command's page, as plain text that is wrapped where the terminal ends."""
    # COLUMNS, the terminal's width, or 80 in a pipe.
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    formatter.width = max(width - 2, _NARROWEST)
    command.format_usage(context, formatter)
    _write_text(command, formatter)
    if isinstance(command, TyperGroup):
        _write_commands(command, context, formatter)
    _write_options(command, context, formatter)


def _write_text(command: Any, formatter: Any) -> None:
    """Write what a command does, then its examples as they are to be typed."""
    text = inspect.cleandoc(command.help or "")
    examples = [
        line for found in _EXAMPLE.finditer(text) for line in _QUOTED.findall(found.group(1))
    ]
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(_EXAMPLE.sub("", text).strip())
    if examples:
        with formatter.section("Examples" if len(examples) > 1 else "Example"):
            for example in examples:
                formatter.write(_to_copy(" ".join(example.split()), formatter.width))


def _write_commands(group: TyperGroup, context: Any, formatter: Any) -> None:
    """Write a group's commands, each with the first paragraph of its page."""
    rows = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            text = inspect.cleandoc(command.help or "").split("\n\n")[0]
            rows.append((name, " ".join(text.split())))
    with formatter.section("Commands"):
        formatter.write_dl(rows)


def _write_options(command: Any, context: Any, formatter: Any) -> None:
    """Write arguments, then options by group."""
    groups: dict[str, list[tuple[str, str]]] = {}
    arguments = []
    for each in command.get_params(context):
        record = each.get_help_record(context)
        if record is None:
            continue
        record = (_plain(record[0]), record[1])
        if each.param_type_name == "argument":
            arguments.append(record)
            continue
        is_help = "--help" in each.opts
        group = SAYING if is_help else getattr(each, "rich_help_panel", None) or _ORDER[0]
        groups.setdefault(group, []).append(record)
    column = _COLUMN if formatter.width >= _NARROW else _NARROW_COLUMN
    if arguments:
        with formatter.section("Arguments"):
            formatter.write_dl(arguments, col_max=column)
    for group in sorted(groups, key=_ORDER.index):
        with formatter.section(group):
            formatter.write_dl(groups[group], col_max=column)


def _plain(names: str) -> str:
    """Return an option's names, with what it takes in a person's words."""
    for pattern, word in _TYPES:
        names = re.sub(pattern, word, names)
    return names.strip()


def _to_copy(command: str, width: int) -> str:
    """Return a command line in lines of a width, each but the last one to be continued."""
    lines = [""]
    for part in re.split(r" (?=-)", command):
        if lines[-1] and len(lines[-1]) + len(part) + 9 > width:
            lines[-1] += " \\"
            lines.append(f"    {part}")
        else:
            lines[-1] += f" {part}" if lines[-1] else part
    return "".join(f"    {line}\n" for line in lines)


class Page(TyperCommand):
    """A command with such a page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page."""
        _write_page(self, ctx, formatter)


class Pages(TyperGroup):
    """A group of commands with such a page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page."""
        _write_page(self, ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the page where nothing is asked for: that is wrong usage."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(USAGE)
        return super().parse_args(ctx, args)
