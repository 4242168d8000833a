"""Writes the parts of the chart's values.schema.json that say what the code takes.

`python -m helm.values_schema`; with `--check` it writes nothing and says whether they differ. What
`[kafka]` takes, the versions of brokers and the names of alerts then have one source each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helm.monitoring import alerts
from reput.formats.rocketmq import broker
from reput.streaming.settings import config, kafka_pass_through
from reput.streaming.settings import kafka as kafka_config

if TYPE_CHECKING:
    from collections.abc import Iterator

CHART = Path(__file__).resolve().parent / "reput"
SCHEMA = CHART / "values.schema.json"
BROKER_SETTINGS = CHART / "files" / "broker-settings.json"
_SIZE = r"^[0-9]+\s*[kmgtKMGT]?([iI]?[bB])?$"
# A text in place of a value: helm prints it where somebody writes a secret.
_ELSEWHERE = "no secrets among values: name a file in {0}_file or a variable in {0}_env"


def setting(name: str) -> dict[str, Any]:
    """Return the schema of a setting of `[kafka]`, by the kinds of `kafka_config`."""
    if name in kafka_config.CHOICES:
        return {"enum": list(kafka_config.CHOICES[name])}
    if name in kafka_config.LISTS:
        return {"type": ["string", "array"], "items": {"type": "string"}}
    if name in kafka_config.SIZES:
        least = 0 if name == "max_lag" else 1
        return {"type": ["string", "integer"], "pattern": _SIZE, "minimum": least}
    if name in kafka_config.COUNTS:
        return {"type": "integer", "minimum": 0, "maximum": kafka_config.MOST_PARTITIONS}
    if name in kafka_config.SWITCHES:
        return {"type": "boolean"}
    if name.endswith("_seconds"):
        return {"type": "number", "minimum": kafka_config.least_seconds(name), "maximum": 1e9}
    if name.endswith("_file"):
        return {"type": "string", "pattern": "^/[^\\s]+$"}
    if name.endswith("_env"):
        return {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
    return {"type": "string"}


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
    properties = {name: setting(name) for name in kafka_config.KEYS if name != "client"}
    for name in sorted(kafka_config.SECRETS):
        properties[name] = {"const": _ELSEWHERE.format(kafka_config.secret_key(name))}
    properties["client"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": client,
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


class _Recorder(dict[str, str]):
    """Properties of which somebody reads; remembers which."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __bool__(self) -> bool:
        """Return true, or it would be taken for no properties at all."""
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
    """Yield each file and what belongs into it."""
    schema = json.loads(SCHEMA.read_text("utf-8"))
    families = [family.replace(".", r"\.") for family in broker.VERSIONS]
    definitions = schema["$defs"]
    definitions["kafkaSettings"] = kafka()
    definitions["brokerVersion"] = {
        "type": "string",
        "pattern": rf"^({'|'.join(families)})(\.[0-9]+)?$",
    }
    definitions["alert"] = {"enum": [alert.as_rule()["alert"] for alert in alerts.ALERTS]}
    yield SCHEMA, json.dumps(schema, indent=2) + "\n"
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
