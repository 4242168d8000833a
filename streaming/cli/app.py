"""Makes commands from functions and the classes of their options, and imports them when asked for.

A command is a function with one argument, a value of the class that states its options
(`streaming.settings.model`). Groups know their commands by name only: a look-up does not wait for
the imports of all others.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from reput.streaming.cli import completions
from reput.streaming.cli.help_pages import CONTEXT, Page, Pages
from reput.streaming.endings.verbosity import VERBOSITY
from reput.streaming.settings.model.option import Field, options_of
from reput.streaming.settings.model.saying import Saying, SayingWithQueue

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": CONTEXT,
}


class Commands(Mapping[str, Any]):
    """The commands of a group, by name, each imported when it is asked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """Know where they are.

        Args:
            places: "module:name" of each command's function, or of a group.
        """
        self._places = places
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Return a command.

        Raises:
            KeyError: there is none of this name.
        """
        if name not in self._made:
            module, _, attribute = self._places[name].partition(":")
            found = getattr(importlib.import_module(module), attribute)
            made = found if isinstance(found, typer.Typer) else command(found, name)
            self._made[name] = typer.main.get_command(made)
            self._made[name].name = name
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, which imports nothing."""
        return iter(self._places)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._places)


def _take_nothing() -> None:
    """Take no options before a command's name."""


def group(
    places: Mapping[str, str], begin: Callable[..., None] = _take_nothing, **settings: Any
) -> typer.Typer:
    """Return a group of commands.

    Args:
        places: see `Commands`.
        begin: called with what stands before a command's name.
        settings: typer's.
    """

    class Group(Pages):
        """A group that imports its commands when they are asked for."""

        def __init__(self, **given: Any) -> None:
            super().__init__(**{**given, "commands": None})
            self.commands = Commands(places)  # type: ignore[assignment]

        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
            """Return the names in the order of the page."""
            return list(places)

    made = typer.Typer(cls=Group, no_args_is_help=True, **_PLAIN, **settings)
    made.callback()(begin)
    return made


def command(function: Callable[[Any], Any], name: str) -> typer.Typer:
    """Return a command of a function.

    Args:
        function: its only argument is a value of the class of its options.
        name: the command's.
    """
    settings = get_type_hints(function)["options"]
    own = options_of(settings)
    # Where -q is a queue, only --quiet is quiet.
    saying = SayingWithQueue if any(each.option.short == "-q" for each in own) else Saying

    def run(**values: Any) -> Any:
        said = {each.name: values.pop(each.name) for each in dataclasses.fields(saying)}
        VERBOSITY.add(said["verbose"], is_quiet=said["quiet"])
        if VERBOSITY.more:
            from reput.streaming.show.log_lines import log_to_stderr

            log_to_stderr(usual=logging.WARNING)
        return function(settings(**values))

    run.__doc__ = function.__doc__
    sign(run, [*own, *options_of(saying)])
    flags = frozenset(each.flag for each in own if each.kind is Path)
    # Typer makes the page from a class, so what differs by command is in a class of its own.
    page = type("Page", (Page,), {"path_flags": flags - {""}})
    made = typer.Typer(**_PLAIN)
    made.command(name, cls=page, context_settings=CONTEXT)(run)
    return made


def sign(
    function: Callable[..., Any],
    fields: list[Field],
    callbacks: Mapping[str, Callable[..., Any]] | None = None,
) -> None:
    """Give a function the parameters that typer makes options of.

    Args:
        function: takes all of them by name.
        fields: the options.
        callbacks: of options that end the command at once, by name.
    """
    parameters = []
    for each in fields:
        kind: Any = Annotated[each.type, _of_typer(each, (callbacks or {}).get(each.name))]
        default = inspect.Parameter.empty if each.default is dataclasses.MISSING else each.default
        parameters.append(
            inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
        )
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in parameters}


def _of_typer(field: Field, callback: Callable[..., Any] | None) -> Any:
    """Return what typer knows of an option, or of an argument."""
    option = field.option
    completes = getattr(completions, option.completes) if option.completes else None
    both: dict[str, Any] = {
        "metavar": option.metavar,
        "help": option.help,
        "autocompletion": completes,
        "min": option.least,
        "max": option.most,
    }
    if option.is_argument:
        return typer.Argument(**both)
    # Of typer's own; its stub takes the first name for a default.
    make: Any = typer.Option
    return make(
        f"{field.flag}/{option.off}" if option.off else field.flag,
        *([option.short] if option.short else ()),
        rich_help_panel=option.panel or None,
        count=option.is_count,
        is_eager=option.is_eager,
        show_default=option.shows_default,
        callback=callback,
        **both,
    )
