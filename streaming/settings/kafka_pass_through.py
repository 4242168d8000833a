"""Settings of kafka-python that are passed on as they are, `[kafka.client]`, and token providers.

Passed on is what says how to connect. What exactly once depends on is ours, and what `[kafka]` has
a setting of its own for is set there.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.formats.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

# kafka-python's names: those that producer, consumer and administrator all have.
PASSED = (
    "api_version",
    "client_dns_lookup",
    "connections_max_idle_ms",
    "max_in_flight_requests_per_connection",
    "metadata_max_age_ms",
    "proxy_url",
    "receive_buffer_bytes",
    "receive_message_max_bytes",
    "reconnect_backoff_max_ms",
    "reconnect_backoff_ms",
    "retry_backoff_ms",
    "sasl_kerberos_domain_name",
    "sasl_kerberos_name",
    "sasl_kerberos_service_name",
    "send_buffer_bytes",
    "ssl_crlfile",
)
_EXACTLY_ONCE = {
    "acks", "enable_idempotence", "retries", "transactional_id", "isolation_level", "group_id",
    "partitioner", "key_serializer", "value_serializer", "auto_offset_reset", "enable_auto_commit",
}  # fmt: skip
# By kafka-python's name, the setting of [kafka].
_OURS = {
    "allow_auto_create_topics": "auto_create_topics",
    "batch_size": "batch_bytes",
    "bootstrap_servers": "bootstrap",
    "bootstrap_timeout_ms": "request_seconds",
    "client_id": "client_id",
    "compression_type": "compression",
    "delivery_timeout_ms": "request_seconds",
    "linger_ms": "transaction_seconds",
    "max_block_ms": "request_seconds",
    "max_request_size": "max_message_bytes",
    "request_timeout_ms": "request_seconds",
    "sasl_mechanism": "mechanism",
    "sasl_oauth_token_provider": "token_provider",
    "sasl_plain_password": "password_file",
    "sasl_plain_username": "username",
    "security_protocol": "protocol",
    "ssl_cafile": "ca_file",
    "ssl_certfile": "certificate_file",
    "ssl_check_hostname": "checks_hostname",
    "ssl_keyfile": "key_file",
    "ssl_password": "key_password_file",
    "transaction_timeout_ms": "transaction_timeout_seconds",
}
_NUMBERS = {
    "connections_max_idle_ms", "max_in_flight_requests_per_connection", "metadata_max_age_ms",
    "receive_buffer_bytes", "receive_message_max_bytes", "reconnect_backoff_max_ms",
    "reconnect_backoff_ms", "retry_backoff_ms", "send_buffer_bytes",
}  # fmt: skip
_FROM_ZERO = {"reconnect_backoff_max_ms", "reconnect_backoff_ms", "retry_backoff_ms"}
_CHOICES = {
    "client_dns_lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
}
_PROXIES = ("socks5", "socks5h", "http")
_VERSION_PARTS = 3
# With more, requests of one partition may overtake one another.
MOST_IN_FLIGHT = 5


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that may be passed on.

    Args:
        values: by kafka-python's names.

    Raises:
        UsageError: one that may not, with the reason.
    """
    for name, value in values.items():
        where = f"[kafka.client] {name}"
        if name in _EXACTLY_ONCE:
            raise UsageError(f"{where}: exactly once depends on it; it cannot be set")
        if name in _OURS:
            raise UsageError(f"{where}: [kafka] has the setting {_OURS[name]} for it")
        if name not in PASSED:
            raise UsageError(f"{where}: not passed on; known are {', '.join(PASSED)}")
        if isinstance(value, dict):
            raise UsageError(f"{where}: {value!r} is a table, and not a value")
        if (problem := _problem(name, value)) is not None:
            raise UsageError(f"{where}: {value!r}; it is {problem}")
        is_count = name == "max_in_flight_requests_per_connection"
        if is_count and not (isinstance(value, int) and 1 <= value <= MOST_IN_FLIGHT):
            raise UsageError(f"{where}: {value!r}; with idempotence it is 1 to {MOST_IN_FLIGHT}")
    return {n: _version(v) if n == "api_version" else v for n, v in values.items()}


def _problem(name: str, value: Any) -> str | None:
    """Return what a value has to be that it is not; None for one that is right."""
    if name in _NUMBERS:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        least = 0 if name in _FROM_ZERO else 1
        return None if is_number and least <= value < 1 << 31 else f"a whole number from {least} on"
    if name in _CHOICES:
        return None if value in _CHOICES[name] else " or ".join(_CHOICES[name])
    if name == "api_version":
        return None if _version(value) else 'a version of Kafka, such as "2.6" or [2, 6]'
    if not isinstance(value, str) or not value:
        return "a text"
    if name == "proxy_url":
        scheme, found, host = value.partition("://")
        is_one = scheme in _PROXIES and found and host.rpartition("@")[2].strip("/:")
        return None if is_one else f"SCHEME://HOST:PORT, with {', '.join(_PROXIES)}"
    return None


def _version(value: Any) -> list[int]:
    """Return the numbers of a version, none if it is not one."""
    parts = value.split(".") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not 2 <= len(parts) <= _VERSION_PARTS:
        return []
    texts = [str(part) for part in parts if not isinstance(part, bool)]
    is_one = len(texts) == len(parts) and all(text.isdecimal() for text in texts)
    return [int(text) for text in texts] if is_one else []


def value_of(name: str, text: str) -> Any:
    """Return what a text of the command line stands for: a number, true, false, a list, or itself.

    Args:
        name: of the setting.
        text: JSON, or any other text; a version such as 2.10 is not a number.
    """
    if name == "api_version" and not text.startswith("["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def client_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as kafka-python takes them: versions are tuples there.

    Raises:
        UsageError: a file is not there, which kafka-python would not miss.
    """
    path = values.get("ssl_crlfile")
    if path is not None and not Path(path).is_file():
        raise UsageError(f"[kafka.client] ssl_crlfile: {path}: no such file")
    return {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}


def token_provider(path: str) -> Any:
    """Return a new token provider.

    Args:
        path: `module:name` of a class of kafka-python's `AbstractTokenProvider`, or of anything
            that returns one when called without arguments.

    Raises:
        UsageError: there is none.
    """
    module, _, name = path.partition(":")
    where = f"[kafka] token_provider {path!r}"
    try:
        made = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise UsageError(
            f"{where} cannot be made: {error}. Write module:name; the module has to be on the "
            "PYTHONPATH of the job, and of executors that write"
        ) from error
    if not callable(getattr(made, "token", None)):
        raise UsageError(f"{where}: {type(made).__name__} has no method token()")
    return made
