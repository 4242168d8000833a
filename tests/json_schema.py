"""Checks documents against the JSON schemas of docs/json: the few keywords that these use.

A keyword that is not known here is an error, so a schema cannot ask for more than is checked.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parent.parent / "docs" / "json"
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_SAYS_NOTHING = {"$schema", "$comment", "title", "description", "$defs"}
# What a `$comment` begins with where a schema leaves something open on purpose; the reason follows.
_OPEN = "open: "
# What a number may be of: a measure, what it counts, or what it is a name of. `'s` is not a second.
_UNITS = re.compile(
    r"(?<!')\b(ms|s|bytes?|physical offset|queue offset"
    r"|messages(/s)?|records|entries|items|units|files|slots|queues|rows|findings|notes|notices"
    r"|places|batches|transactions|attempts|times that"
    r"|bits|hash|id|port|exit code|number of the|number that|without a unit)\b"
)


def load(name: str) -> dict[str, Any]:
    """Return a schema by the name of its file."""
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    return schema


def problems(value: Any, schema: dict[str, Any], at: str = "$") -> list[str]:
    """Return what of a value is not as a schema says, with where; empty if all is.

    Raises:
        ValueError: a keyword that is not known here.
    """
    found: list[str] = []
    for keyword, wanted in schema.items():
        if keyword in _SAYS_NOTHING:
            continue
        check = _CHECKS.get(keyword)
        if check is None:
            raise ValueError(f"{at}: keyword {keyword!r} is not known")
        found += check(value, wanted, schema, at)
    return found


def fits(document: Any, name: str) -> bool:
    """Return True for a document that is as the schema of a name says.

    Raises:
        AssertionError: it is not; says where.
    """
    found = problems(document, load(name))
    assert not found, found
    return True


def gaps(schema: Any, at: str = "$") -> list[str]:  # noqa: C901 - each keyword of a schema
    """Return where a schema takes whatever comes, or does not say what it means; empty if nowhere.

    Each object is closed, or says of what kind all of its values are. Each value has a type. The
    description of a number has a word of `_UNITS`, that of a field that is not required has
    "absent" or "only with"; whether the rest of it is true is not looked at. A `$comment` gives the
    reason for all else.
    """
    if not isinstance(schema, dict) or schema.get("$comment", "").startswith(_OPEN):
        return []
    found = []
    kinds = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    if not schema.keys() & {"$ref", "type", "enum", "anyOf", "$defs"}:
        found.append(f"{at}: no type")
    if "object" in kinds or "properties" in schema:
        others = schema.get("additionalProperties")
        if others is not False and not isinstance(others, dict):
            found.append(f"{at}: open")
        if "properties" in schema and "required" not in schema:
            found.append(f"{at}: nothing is required")
        unknown = set(schema.get("required", ())) - schema.get("properties", {}).keys()
        found += [f"{at}: {name} is required and not there" for name in sorted(unknown)]
        found += [
            f"{at}: nothing says when {name} is there"
            for name, each in schema.get("properties", {}).items()
            if name not in schema.get("required", ())
            and not re.search("absent|only with", each.get("description", ""))
        ]
    if "array" in kinds and "items" not in schema:
        found.append(f"{at}: items of any kind")
    if {"integer", "number"} & set(kinds) and not _UNITS.search(schema.get("description", "")):
        found.append(f"{at}: a number of what")
    for part in ("properties", "$defs"):
        for name, each in schema.get(part, {}).items():
            found += gaps(each, f"{at}.{name}")
    for number, each in enumerate(schema.get("anyOf", ())):
        found += gaps(each, f"{at}|{number}")
    for part in ("items", "additionalProperties"):
        found += gaps(schema.get(part), f"{at}[]")
    return found


def _ref(value: Any, wanted: str, _schema: dict[str, Any], at: str) -> list[str]:
    file, _, name = wanted.partition("#/$defs/")
    return problems(value, load(file.removesuffix(".json"))["$defs"][name], at)


def _type(value: Any, wanted: str | list[str], _schema: dict[str, Any], at: str) -> list[str]:
    names = [wanted] if isinstance(wanted, str) else wanted
    is_one = any(
        isinstance(value, _TYPES[name]) and (not isinstance(value, bool) or name == "boolean")
        for name in names
    )
    return [] if is_one else [f"{at}: {value!r} is not of type {' or '.join(names)}"]


def _properties(value: Any, wanted: dict[str, Any], _schema: dict[str, Any], at: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [
        problem
        for name in wanted.keys() & value.keys()
        for problem in problems(value[name], wanted[name], f"{at}.{name}")
    ]


def _required(value: Any, wanted: list[str], _schema: dict[str, Any], at: str) -> list[str]:
    missing = [name for name in wanted if isinstance(value, dict) and name not in value]
    return [f"{at}: {name} is missing" for name in missing]


def _additional(value: Any, wanted: Any, schema: dict[str, Any], at: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    more = value.keys() - schema.get("properties", {}).keys()
    if wanted is False:
        return [f"{at}: {name} is in no schema" for name in sorted(more)]
    return [problem for name in more for problem in problems(value[name], wanted, f"{at}.{name}")]


def _items(value: Any, wanted: Any, _schema: dict[str, Any], at: str) -> list[str]:
    if not isinstance(value, list):
        return []
    return [
        problem
        for number, each in enumerate(value)
        for problem in problems(each, wanted, f"{at}[{number}]")
    ]


def _enum(value: Any, wanted: list[Any], _schema: dict[str, Any], at: str) -> list[str]:
    return [] if value in wanted else [f"{at}: {value!r} is not one of {wanted}"]


def _any_of(value: Any, wanted: list[Any], _schema: dict[str, Any], at: str) -> list[str]:
    tried = [problems(value, each, at) for each in wanted]
    return [] if not all(tried) else [f"{at}: no form fits: {tried}"]


def _pattern(value: Any, wanted: str, _schema: dict[str, Any], at: str) -> list[str]:
    is_fine = not isinstance(value, str) or re.search(wanted, value)
    return [] if is_fine else [f"{at}: {value!r} is not like {wanted}"]


_CHECKS = {
    "$ref": _ref,
    "type": _type,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "items": _items,
    "enum": _enum,
    "anyOf": _any_of,
    "pattern": _pattern,
}
