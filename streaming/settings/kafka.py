"""Reads `[kafka]` of a `reput.toml`, and `--kafka KEY=VALUE`, into settings; finds the secrets."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.formats.errors import UsageError
from reput.sinks.kafka.client import settings as known
from reput.sinks.kafka.client.settings import KafkaSecurity, KafkaSettings
from reput.sinks.kafka.client.versions import check_version
from reput.streaming.settings import kafka_pass_through
from reput.streaming.settings.kafka_keys import FILES, KINDS, LISTS, SECURITY

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = sorted([*KINDS, "client"])
SECRETS = {"password", "sasl_password", "sasl_plain_password", "key_password", "ssl_password"}
_CLIENT = "client."
# Mechanisms with a user name and a password.
_WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PRODUCTS = {known.MESSAGES, known.ARRIVALS}


def kafka_settings(values: Mapping[str, Any], base: Path | None = None) -> KafkaSettings:
    """Return the settings that a table gives; texts may stand for numbers and lists.

    Args:
        values: by name, see `KafkaSettings` and `KafkaSecurity`.
        base: directory that relative paths of files begin at.

    Raises:
        UsageError: an unknown key, a value that cannot be, a secret that stands in the open, a
            kafka-python that is not known.
    """
    check_version()
    own = {n: v for n, v in values.items() if n != "client" and not n.startswith(_CLIENT)}
    client = _client(values)
    read: dict[str, Any] = {name: _read(name, value) for name, value in own.items()}
    for name in FILES:
        if read.get(name) and base is not None:
            read[name] = str(base / read[name])
    if not read.get("bootstrap"):
        raise UsageError("[kafka] bootstrap is missing: say where Kafka is, such as kafka:9092")
    if client:
        read["client"] = kafka_pass_through.checked(client)
    security = KafkaSecurity(**{name: read.pop(name) for name in SECURITY & read.keys()})
    settings = KafkaSettings(**read, security=security)
    _check(settings)
    return settings


def _client(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is to be passed on to Kafka's client, from a table or from `client.NAME`.

    Raises:
        UsageError: it is not a table.
    """
    client: dict[str, Any] = {}
    for name, value in values.items():
        if name == "client":
            if not isinstance(value, dict):
                raise UsageError("[kafka] client: write [kafka.client] and its settings below")
            client |= value
        elif name.startswith(_CLIENT):
            setting = name.removeprefix(_CLIENT)
            client[setting] = kafka_pass_through.value_of(setting, str(value))
    return client


def _read(name: str, value: Any) -> Any:
    """Return a setting's value.

    Raises:
        UsageError: an unknown key, a value that cannot be, a secret that stands in the open.
    """
    if name in SECRETS:
        raise UsageError(
            f"[kafka] {name}: secrets are not read from settings. Put it into a file or an "
            f"environment variable and name that: {secret_key(name)}_file or _env"
        )
    if name not in KINDS:
        raise UsageError(f"[kafka] {name}: unknown; known are {', '.join(KEYS)}")
    return KINDS[name].read(name, value)


def from_fields(fields: Mapping[str, Any]) -> KafkaSettings:
    """Return the settings whose `dataclasses.asdict` has been through JSON.

    Raises:
        UsageError: kafka-python is not the one that is known, on this host.
    """
    check_version()
    security = KafkaSecurity(**fields["security"])
    lists = {name: tuple(fields[name]) for name in LISTS}
    return KafkaSettings(**{**fields, **lists, "security": security})


def secret_key(name: str) -> str:
    """Return how the settings of a secret, `_file` and `_env`, begin."""
    return "key_password" if name in {"key_password", "ssl_password"} else "password"


def _check(settings: KafkaSettings) -> None:
    """Look at what does not go together.

    Raises:
        UsageError: something does not.
    """
    from reput.sinks.kafka.messages.routes import TagExpression, kafka_topic  # noqa: PLC0415 - numba is slow

    foreign = set(settings.products) - _PRODUCTS
    if foreign or not settings.products:
        raise UsageError(f"[kafka] products: {settings.products}; it is messages, arrivals or both")
    for template in (settings.topic, settings.arrivals_topic):
        kafka_topic(template, "topic", "store")
    TagExpression(settings.tags)
    if settings.transaction_timeout_seconds <= settings.transaction_seconds:
        raise UsageError("[kafka] transaction_timeout_seconds has to be above transaction_seconds")
    security = settings.security
    is_sasl = security.protocol.startswith("SASL")
    needs_name = security.mechanism in {"", *_WITH_PASSWORD}
    if is_sasl and (not security.mechanism or (needs_name and not security.username)):
        raise UsageError("[kafka] mechanism and username are missing for " + security.protocol)
    if (security.mechanism == "OAUTHBEARER") != bool(security.token_provider):
        raise UsageError(
            "[kafka] mechanism OAUTHBEARER and token_provider go together: "
            'token_provider = "module:name" is what makes the tokens'
        )
    if security.mechanism and not is_sasl:
        raise UsageError(
            f"[kafka] mechanism {security.mechanism} needs protocol SASL_SSL or SASL_PLAINTEXT"
        )


def access_of(security: KafkaSecurity) -> dict[str, Any]:
    """Return kafka-python's settings of security, secrets in them: not to be shown.

    Raises:
        UsageError: a secret is not where it should be.
    """
    access: dict[str, Any] = {"security_protocol": security.protocol}
    if security.protocol.endswith("SSL"):
        access |= {
            "ssl_cafile": security.ca_file or None,
            "ssl_certfile": security.certificate_file or None,
            "ssl_keyfile": security.key_file or None,
            "ssl_check_hostname": security.checks_hostname,
        }
        if security.key_password_env or security.key_password_file:
            access["ssl_password"] = _secret(
                "key_password", security.key_password_env, security.key_password_file
            )
        for path in (security.ca_file, security.certificate_file, security.key_file):
            if path and not Path(path).is_file():
                raise UsageError(f"[kafka] {path}: no such file")
    if security.mechanism:
        access["sasl_mechanism"] = security.mechanism
    if security.mechanism == "GSSAPI" and importlib.util.find_spec("gssapi") is None:
        raise UsageError(
            "[kafka] mechanism GSSAPI needs the Python package gssapi, and the Kerberos libraries: "
            "install them where the job runs"
        )
    if security.token_provider:
        provider = kafka_pass_through.token_provider(security.token_provider)
        access["sasl_oauth_token_provider"] = provider
    if security.mechanism in _WITH_PASSWORD:
        access |= {
            "sasl_plain_username": security.username,
            "sasl_plain_password": _secret(
                "password", security.password_env, security.password_file
            ),
        }
    return access


def _secret(name: str, variable: str, path: str) -> str:
    """Return a secret.

    Raises:
        UsageError: it is not there.
    """
    if bool(variable) == bool(path):
        raise UsageError(f"[kafka] give one of {name}_env and {name}_file")
    if variable:
        value = os.environ.get(variable)
        if value is None:
            raise UsageError(f"[kafka] {name}_env: there is no environment variable {variable}")
        return value
    try:
        return Path(path).read_text("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"[kafka] {name}_file {path} cannot be read: {reason}") from error


def pairs(texts: list[str]) -> dict[str, str]:
    """Return what `--kafka KEY=VALUE` says.

    Raises:
        UsageError: one has no `=`.
    """
    values = {}
    for text in texts:
        name, found, value = text.partition("=")
        if not found:
            raise UsageError(f"--kafka {text!r}: write KEY=VALUE, such as include=orders*")
        values[name.strip()] = value
    return values
