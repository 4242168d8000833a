"""What is known of one option, and how the options of a command are read from its class.

A command's options are the fields of a frozen dataclass. The annotation of a field is its type and
an `Option`: help, bounds, unit, and the other places where it can be set. The command line, the
keys of a `reput.toml` and the chart's schema are all made from these fields.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

# Groups of options, in the order of a help page; those of no group come first.
ASKING = ""
READING = "Store"
WRITING = "Writing"
SHOWING = "What is shown"
SPARK = "Spark"
ENDING = "What stops it"
KAFKA = "Kafka"
SERVING = "Serving"
MONITORING = "Monitoring"
SAYING = "Help and log lines"


@dataclasses.dataclass(frozen=True)
class Chart:
    """Where the Helm chart sets an option.

    Attributes:
        path: of the value, such as "run.threads".
        is_value: the value is the option's own, and its schema comes from here; else the chart
            makes the option from what is there.
        default: the value's, where the chart has another one than the command.
        least, most: bounds of the value, where the chart has narrower ones than the command.
    """

    path: str
    is_value: bool = True
    default: Any = None
    least: float | None = None
    most: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """What is known of an option beside its name, type and default, which are its field's.

    Attributes:
        help: one or two sentences for the help page.
        panel: the group of the page.
        flag: "--name", where that is not the field's name.
        short: "-n".
        off: the option that says no.
        metavar: what stands for the value in the page.
        unit: of the value; a text whose unit is "bytes" is a size such as 256m.
        least, most: bounds of a number, both allowed.
        completes: name of a function of `streaming.cli.completions`.
        is_argument: it stands on the command line without a name.
        is_count: it may be given several times, and that is its value.
        shows_default: the page names the default.
        is_eager: it is looked at before all others.
        key: in a `[[store]]` table of a `reput.toml`.
        chart: where the Helm chart sets it.
    """

    help: str
    panel: str = ASKING
    flag: str = ""
    short: str = ""
    off: str = ""
    metavar: str | None = None
    unit: str = ""
    least: float | None = None
    most: float | None = None
    completes: str = ""
    is_argument: bool = False
    is_count: bool = False
    shows_default: bool = True
    is_eager: bool = False
    key: str = ""
    chart: Chart | None = None


class Field(NamedTuple):
    """An option of a command.

    Attributes:
        name: of the field.
        type: of its value, `X | None` where it may be left out.
        default: `dataclasses.MISSING` where it has to be given.
        option: the rest.
    """

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """Return the name on the command line, "" for an argument."""
        if self.option.is_argument:
            return ""
        return self.option.flag or f"--{self.name.replace('_', '-')}"

    @property
    def kind(self) -> Any:
        """Return the type of one value: `Path` for `list[Path] | None`."""
        kind = self.type
        if get_origin(kind) in {Union, types.UnionType}:
            kind = next(each for each in get_args(kind) if each is not type(None))
        return get_args(kind)[0] if get_origin(kind) is list else kind

    @property
    def is_list(self) -> bool:
        """Tell whether it may be given several times."""
        return any(get_origin(each) is list for each in (self.type, *get_args(self.type)))


def options_of(settings: type) -> list[Field]:
    """Return the options of a command, in the order of its page.

    Args:
        settings: the dataclass.
    """
    hints = get_type_hints(settings, include_extras=True)
    return [
        Field(each.name, *_split(hints[each.name], each.default))
        for each in dataclasses.fields(settings)
    ]


def _split(annotation: Any, default: Any) -> tuple[Any, Any, Option]:
    kind, option = get_args(annotation)
    return kind, default, option
