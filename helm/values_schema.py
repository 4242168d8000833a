"""Writes the parts of the chart's values.schema.json that say what the code takes.

`python -m helm.values_schema`; with `--check` it writes nothing and says whether they differ.
Options of `reput run`, the keys of `[kafka]`, the versions of brokers and the names of alerts then
have one source each.
"""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helm.monitoring.alerts.rules import ALERTS
from reput.formats.rocketmq import broker
from reput.streaming.settings import config, kafka_pass_through
from reput.streaming.settings import kafka as kafka_config
from reput.streaming.settings.kafka_keys import KINDS
from reput.streaming.settings.model.jobs import RunOptions
from reput.streaming.settings.model.option import options_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.streaming.settings.model.option import Chart, Field

CHART = Path(__file__).resolve().parent / "reput"
SCHEMA = CHART / "values.schema.json"
OWN_OPTIONS = CHART / "files" / "own-options.json"
BROKER_SETTINGS = CHART / "files" / "broker-settings.json"
_SIZE = "[1-9][0-9]*[kmgt]?b?"
_PATH = "/.+"
_WORD = r"\S+"
# A text in place of a value: helm prints it where you write a secret.
_ELSEWHERE = "no secrets among values: name a file in {0}_file or a variable in {0}_env"


def option(field: Field, chart: Chart) -> dict[str, Any]:
    """Return the schema of a value that is an option of `reput run`."""
    if issubclass(field.kind, StrEnum):
        return {"enum": [str(each) for each in field.kind]}
    if field.kind is bool:
        return {"type": "boolean"}
    may_be_empty = field.default in {None, ""}
    if field.kind in {int, float}:
        bounds = {
            "minimum": _narrower(chart.least, field.option.least),
            "maximum": _narrower(chart.most, field.option.most),
        }
        name = "integer" if field.kind is int else "number"
        may_be_null = may_be_empty and chart.default is None
        kind = [name, "null"] if may_be_null else name
        return {"type": kind, **{n: bound for n, bound in bounds.items() if bound is not None}}
    pattern = _PATH if field.kind is Path else _SIZE if field.option.unit == "bytes" else _WORD
    return {"type": "string", "pattern": f"^({pattern})?$" if may_be_empty else f"^{pattern}$"}


def _narrower(of_chart: float | None, of_command: float | None) -> float | None:
    """Return a bound as the chart has it, which may leave out what the command takes."""
    bound = of_command if of_chart is None else of_chart
    return int(bound) if bound is not None and bound == int(bound) else bound


def set_options(schema: dict[str, Any]) -> None:
    """Put the schemas of options into the chart's, each at its path."""
    for field in options_of(RunOptions):
        chart = field.option.chart
        if chart is None or not chart.is_value:
            continue
        node = schema
        *above, name = chart.path.split(".")
        for each in above:
            node = node["properties"][each]
        node["properties"][name] = option(field, chart)


def own_options() -> dict[str, str]:
    """Return the names of the options that the chart sets, and where it sets each."""
    return {
        flag.removeprefix("--"): field.option.chart.path
        for field in options_of(RunOptions)
        for flag in (field.flag, field.option.off)
        if flag and field.option.chart is not None
    }


def client_setting(name: str) -> dict[str, Any]:
    """Return the schema of a setting that is passed on to Kafka's client."""
    if name == "max_in_flight_requests_per_connection":
        most = kafka_pass_through.MOST_IN_FLIGHT
        return {"type": "integer", "minimum": 1, "maximum": most}
    if name == "api_version":
        return {"type": ["array", "string"], "items": {"type": "integer"}}
    if name.endswith(("_ms", "_bytes")):
        return {"type": "integer", "minimum": 0}
    return {"type": "string"}


def kafka() -> dict[str, Any]:
    """Return the schema of `kafka.settings`."""
    client = {name: client_setting(name) for name in kafka_pass_through.PASSED}
    properties = {name: KINDS[name].schema for name in sorted(KINDS)}
    for name in sorted(kafka_config.SECRETS):
        properties[name] = {"const": _ELSEWHERE.format(kafka_config.secret_key(name))}
    properties["client"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": client,
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


class _Recorder(dict[str, str]):
    """Properties that remember which of them were read."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __bool__(self) -> bool:
        """Return true, as an empty mapping would count as no properties at all."""
        return True

    def get(self, name: str, default: Any = None) -> Any:
        """Return the default, as a broker.conf without the setting does."""
        self.names.add(name)
        return default


def broker_settings() -> list[str]:
    """Return the settings of a broker.conf that the job reads, by asking for all of them."""
    seen = _Recorder()
    for version in broker.VERSIONS:
        broker.settings_of(version, seen)
    config.FlushPolicy.of(seen)
    return sorted(seen.names | {"brokerClusterName", "brokerName"})


def generated() -> Iterator[tuple[Path, str]]:
    """Yield each file and its text."""
    schema = json.loads(SCHEMA.read_text("utf-8"))
    families = [family.replace(".", r"\.") for family in broker.VERSIONS]
    definitions = schema["$defs"]
    definitions["kafkaSettings"] = kafka()
    definitions["brokerVersion"] = {
        "type": "string",
        "pattern": rf"^({'|'.join(families)})(\.[0-9]+)?$",
    }
    set_options(schema)
    definitions["alert"] = {"enum": [alert.as_rule()["alert"] for alert in ALERTS]}
    yield SCHEMA, json.dumps(schema, indent=2) + "\n"
    yield OWN_OPTIONS, json.dumps(dict(sorted(own_options().items())), indent=2) + "\n"
    yield BROKER_SETTINGS, json.dumps(broker_settings(), indent=2) + "\n"


def main() -> int:
    """Write, or with `--check` compare, and return the exit code."""
    is_check = "--check" in sys.argv[1:]
    differing = 0
    for path, text in generated():
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        differing += 1
        print(f"{path.name}: {'differs' if is_check else 'written'}")
        if not is_check:
            path.write_text(text, "utf-8")
    return int(is_check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())
