"""The command's help: pages whose option names are never cut.

Typer's own pages are tables, whose columns cut long names where a terminal is narrow, and in pipes.
These are lists: a name that is too long for its column has a line of its own, and an example is a
line to copy, or several that end with a backslash.
"""

from __future__ import annotations

import inspect
import itertools
import re
import shutil
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from reput.formats.errors import UsageError
from reput.streaming.endings.exit_codes import USAGE
from reput.streaming.settings.model.option import (
    ENDING,
    KAFKA,
    MONITORING,
    READING,
    SAYING,
    SERVING,
    SHOWING,
    SPARK,
    WRITING,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_ORDER = ("Options", READING, WRITING, ENDING, SHOWING, SPARK, KAFKA, SERVING, MONITORING, SAYING)

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
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST}


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
    """A command with such a page.

    Attributes:
        path_flags: its options that name a file or a directory.
    """

    path_flags: frozenset[str] = frozenset()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse empty paths, then parse."""
        refuse_empty(args, self.path_flags)
        return super().parse_args(ctx, args)

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


def refuse_empty(words: Sequence[str], flags: frozenset[str]) -> None:
    """Refuse an empty text in the place of a path, which would be the current directory.

    A script whose variable is not set says that.

    Args:
        words: of the command line.
        flags: options that name a path.

    Raises:
        UsageError: names the option.
    """
    for word, following in itertools.zip_longest(words, words[1:]):
        name, is_joined, value = word.partition("=")
        if name in flags and "" in ((value,) if is_joined else (following,)):
            raise UsageError(f"{name} is empty: is a variable not set? Say `.` for this directory")
