"""YAML as brokers read it: SnakeYAML, which is a translation of PyYAML.

Brokers of 4.9 resolve a value first and write it as a text afterwards, so `secretKey: 012345678`
may be another number there. Those of 5.x know that it is a text, and take it as it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from reput.remoting.access.errors import AccessError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KIND = "tag:yaml.org,2002:"
_TRUE, _FALSE = {"yes", "true", "on"}, {"no", "false", "off"}


class Source(NamedTuple):
    """Where a document comes from, and how its broker takes values.

    Attributes:
        path: its file.
        is_typed: 5.x: texts stand as they are, and names that it does not know are refused.
    """

    path: Path
    is_typed: bool

    def wrong(self, node: Any, why: str) -> AccessError:
        """Return an error that names the line."""
        return AccessError(f"{self.path}, line {node.start_mark.line + 1}: {why}")


def read(source: Source, raw: bytes) -> Mapping[str, Any] | None:
    """Return the nodes of a file by name, None for an empty file.

    Raises:
        AccessError: not YAML, several documents, or no map.
    """
    loader = None
    try:
        loader = _LOADER(raw)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        # Not its whole text, which may show a line with a secret: this stands in logs.
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise AccessError(f"{source.path}{line} is not YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        # Its own text has two lines.
        why = f"is not YAML, a text in UTF-8: {error.reason}"
        raise AccessError(f"{source.path} at byte {error.position} {why}") from None
    except yaml.YAMLError as error:
        raise AccessError(f"{source.path} is not YAML: {error}") from None
    except RecursionError:
        raise AccessError(f"{source.path} is not YAML: nested too deeply") from None
    finally:
        if loader is not None:
            loader.dispose()
    if node is None or _is_null(node):
        return None
    return mapping(source, node)


def mapping(source: Source, node: Any) -> dict[str, Any]:
    """Return the nodes of a map by name. A name that is there twice has its last value.

    Raises:
        AccessError: not a map.
    """
    if not isinstance(node, yaml.MappingNode):
        raise source.wrong(node, "expected names with values, such as `accessKey: …`")
    try:
        yaml.constructor.SafeConstructor().flatten_mapping(node)
    except yaml.MarkedYAMLError as error:
        raise source.wrong(node, str(error.problem)) from None
    return {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def listing(source: Source, node: Any | None) -> list[Any]:
    """Return the nodes of a list; none where there is nothing.

    Raises:
        AccessError: not a list.
    """
    if node is None or _is_null(node):
        return []
    if not isinstance(node, yaml.SequenceNode):
        raise source.wrong(node, "expected a list: lines that begin with `- `")
    return list(node.value)


def text(source: Source, node: Any | None) -> str | None:
    """Return a text, None where there is nothing.

    Raises:
        AccessError: a list or a map; for a broker of 4.9, a value that it would write in its own
            way.
    """
    if node is None or _is_null(node):
        return None
    if not isinstance(node, yaml.ScalarNode):
        raise source.wrong(node, "expected a text")
    kind = node.tag.removeprefix(_KIND)
    if source.is_typed or kind == "str":
        return str(node.value)
    if kind in {"int", "bool"}:
        return str(_made(source, node, kind)).lower()
    # Without the value, which may be a secret.
    raise source.wrong(node, f"put this value into quotes: brokers of 4.9 read it as a {kind}")


def switch(source: Source, node: Any | None) -> bool:
    """Return true or false; false where there is nothing.

    Raises:
        AccessError: neither. Brokers of 4.9 also take numbers, and a name without a value.
    """
    if node is None or (_is_null(node) and not source.is_typed):
        return False
    found = node.value.lower() if isinstance(node, yaml.ScalarNode) else None
    if found in _TRUE or found in _FALSE:
        return found in _TRUE
    if found is not None and not source.is_typed and node.tag == f"{_KIND}int":
        return _made(source, node, "int") == 1
    raise source.wrong(node, "expected true or false")


def _made(source: Source, node: Any, kind: str) -> int:
    """Return what a broker of 4.9 makes of a value whose kind is int or bool.

    Raises:
        AccessError: its text is none, as of `!!int abc`, `0x_` or thousands of digits.
    """
    maker = yaml.constructor.SafeConstructor()
    make = maker.construct_yaml_int if kind == "int" else maker.construct_yaml_bool
    try:
        return int(make(node)) if kind == "int" else bool(make(node))
    except (ValueError, KeyError):
        # Without the value, which may be a secret.
        raise source.wrong(
            node, f"this value cannot be read as {kind}: put it into quotes"
        ) from None


def _is_null(node: Any) -> bool:
    return bool(node.tag == f"{_KIND}null")
