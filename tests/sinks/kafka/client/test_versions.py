"""Only what was tested of kafka-python is let in, and its inner parts are touched in one folder."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from reput.formats.errors import UsageError
from reput.sinks.kafka.client import versions
from reput.streaming.settings.kafka import kafka_settings

ROOT = Path(__file__).resolve().parents[4]
# What kafka-python documents; the rest of it is its own.
PUBLIC = {"kafka", "kafka.errors"}


def test_another_version_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Before anything is connected, with both versions in the message.
    """
    assert kafka_settings({"bootstrap": "k:1"}).bootstrap == "k:1"
    monkeypatch.setattr(metadata, "version", lambda _: "3.0.13")
    with pytest.raises(UsageError, match=r"3\.0\.13 is installed.* tested with 3\.0\.12 only"):
        kafka_settings({"bootstrap": "k:1"})


def test_a_missing_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(UsageError, match="kafka-python is not installed"):
        kafka_settings({"bootstrap": "k:1"})


def test_what_is_installed_with_this_is_one_of_them() -> None:
    """
    Package and image ask for the version that is let in.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (wanted,) = [d for d in project["dependencies"] if d.startswith(versions.PACKAGE)]
    image = (ROOT / "helm" / "image" / "requirements.txt").read_text()
    (locked,) = re.findall(r"^kafka-python==(\S+)", image, re.MULTILINE)

    assert wanted == f"{versions.PACKAGE}=={versions.TESTED[-1]}"
    assert locked == versions.TESTED[-1]


def test_its_inner_parts_are_used_in_one_folder() -> None:
    """
    Modules that are not for users are imported in `sinks/kafka/client` only.
    """
    found = set()
    for path in [*(ROOT / "sinks").rglob("*.py"), *(ROOT / "streaming").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [n.name for n in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            if any(n.startswith("kafka.") and n not in PUBLIC for n in names):
                found.add(path.relative_to(ROOT).parent.as_posix())
    assert found == {"sinks/kafka/client"}
