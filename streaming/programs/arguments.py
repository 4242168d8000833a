"""What programs give: paths, settings and versions; and errors in the words of arguments."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from reput.formats.errors import ReputError, UsageError, made_again
from reput.formats.rocketmq.broker_conf import as_texts
from reput.streaming.settings.config import StoreConfig, read_broker_conf, store_config

AnyPath = str | os.PathLike[str]
BrokerConf = Mapping[str, str | int] | AnyPath

# Options of the command, and the arguments that they are here; the longer ones first.
_ARGUMENTS = {
    " (broker_version in a reput.toml)": "",
    "--any-version (any_version = true)": "any_version=True",
    "--on-corrupt skip": 'on_corrupt="skip"',
    "--broker-version": "broker_version",
    "--broker-conf": "broker_conf",
    "--output": "output",
    "--store": "store",
}


def config_of(
    store: AnyPath,
    output: AnyPath | None,
    *,
    broker_version: str,
    broker_conf: BrokerConf | None,
    any_version: bool,
) -> StoreConfig:
    """Return what is asked for; without an output it is the store itself.

    Raises:
        UsageError: an argument is of another type, or wrong.
    """
    if not isinstance(broker_version, str):
        raise UsageError(f'broker_version must be text, such as "5.3", and not {broker_version!r}')
    return store_config(
        path_of("store", store),
        None if output is None else path_of("output", output),
        broker_version=broker_version,
        broker_conf=_properties(broker_conf),
        in_place=output is None,
        any_version=any_version,
    )


def path_of(name: str, given: object) -> Path:
    """Return the path that an argument gives.

    Raises:
        UsageError: it gives none.
    """
    path = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or not path:
        raise UsageError(f"{name} must be a path, as text or as a pathlib.Path, and not {given!r}")
    return Path(path)


def _properties(given: BrokerConf | None) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return read_broker_conf(path_of("broker_conf", given))
    return dict(as_texts(given))


@contextlib.contextmanager
def naming_arguments() -> Iterator[None]:
    """Name arguments in errors where the command's errors name options."""
    try:
        yield
    except ReputError as error:
        fields = {name: _in_arguments(value) for name, value in error.fields.items()}
        if fields == error.fields:
            raise
        raise made_again(error.code, fields) from None


def _in_arguments(value: object) -> object:
    if isinstance(value, str):
        for option, argument in _ARGUMENTS.items():
            value = value.replace(option, argument)
    return value
