"""Typed headers: the texts of a command's fields as values, and the other way round.

A header is a frozen dataclass with the fields of RocketMQ's class of that name, in snake case. A
field without a default is one that RocketMQ marks as not null; None is the default of one that may
be absent, and another default that of a Java primitive.

A broker takes a field that is missing for null, and fails where it uses it: the answer is 1 with a
NullPointerException. Here the answer is 1 with the name of the field. A number that is not one is
as good as missing in most headers; those with `IS_FAST` are refused for it.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeVar, get_type_hints

from reput.formats.java import strings
from reput.remoting.wire.errors import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Int = Annotated[int, 32]
Long = Annotated[int, 64]

_NAME = "name"
_NULL = "org.apache.rocketmq.remoting.exception.RemotingCommandException"
_NO_NUMBER = "java.lang.NumberFormatException"


@dataclasses.dataclass(frozen=True)
class Header:
    """The fields of one kind of request or answer.

    Attributes:
        IS_FAST: a `FastCodesHeader`, which refuses what is not a number.
    """

    IS_FAST: ClassVar[bool] = False


Kind = TypeVar("Kind", bound=Header)


class Place(NamedTuple):
    """Where a field stands, and how it is read.

    Attributes:
        attribute: its name in the dataclass.
        name: its name in the command's fields.
        kind: `str`, `bool`, `Int` or `Long`.
        is_required: it has no default.
    """

    attribute: str
    name: str
    kind: object
    is_required: bool


class _Reader(NamedTuple):
    """How a field is read; see `Place`."""

    attribute: str
    name: str
    read: Callable[[str], Any] | None
    is_required: bool


def named(name: str, **default: Any) -> Any:
    """Return a field whose name is not its attribute's in camel case.

    Args:
        name: its name in the command's fields.
        default: `default`, if it has one.
    """
    return dataclasses.field(metadata={_NAME: name}, **default)


@functools.cache
def places(kind: type[Header]) -> tuple[Place, ...]:
    """Return the fields of a kind of header."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        Place(
            field.name,
            field.metadata.get(_NAME) or _camel_case(field.name),
            _without_none(hints[field.name]),
            field.default is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
    )


def read(kind: type[Kind], fields: Mapping[str, str] | None) -> Kind:
    """Return the header that a command's fields say.

    Fields that the kind does not have are ignored: newer peers, and those with access keys, send
    some with every request.

    Raises:
        FieldError: a field is missing, or not a number; answer 1 with its remark.
    """
    readers, defaults = _readers(kind)  # type: ignore[arg-type] # a class has a hash
    find = (fields or {}).get
    values = defaults.copy()
    for attribute, name, reader, is_required in readers:
        text = find(name)
        if text is not None:
            value = text if reader is None else reader(text)
            if value is not None:
                values[attribute] = value
                continue
            if kind.IS_FAST:
                raise FieldError(_NO_NUMBER, f'For input string: "{text}"')
        if is_required:
            raise FieldError(_NULL, f"the custom field <{name}> is null")
    header = object.__new__(kind)
    # What the dataclass itself would do, field by field, takes longer than all of the above.
    header.__dict__.update(values)
    return header


@functools.cache
def _readers(kind: type[Header]) -> tuple[tuple[_Reader, ...], dict[str, Any]]:
    """Return how each field is read, None for as it is, and the values of those not given."""
    readers = tuple(
        _Reader(place.attribute, place.name, _READERS[place.kind], place.is_required)
        for place in places(kind)  # type: ignore[arg-type] # a class has a hash
    )
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(kind)
        if field.default is not dataclasses.MISSING
    }
    return readers, defaults


def write(header: Header) -> dict[str, str]:
    """Return a command's fields: texts, and nothing for None, as Go wants it."""
    written = {}
    for attribute, name, _, _ in places(type(header)):  # type: ignore[arg-type] # a class has a hash
        value = getattr(header, attribute)
        if value is None:
            continue
        written[name] = str(value) if type(value) is not bool else "true" if value else "false"
    return written


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _without_none(hint: Any) -> object:
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        (hint,) = (each for each in typing.get_args(hint) if each is not type(None))
    return hint


def _number(parse: Callable[[str], int]) -> Callable[[str], int | None]:
    def number(text: str) -> int | None:
        try:
            return parse(text)
        except ValueError:
            return None

    return number


_READERS: dict[object, Callable[[str], Any] | None] = {
    str: None,
    bool: lambda text: text.lower() == "true",
    Int: _number(strings.parse_int),
    Long: _number(strings.parse_long),
}
