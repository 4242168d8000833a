"""A store and what is set for it, as frozen values: places, the broker's settings, flushes."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.formats.errors import UsageError
from reput.formats.java import properties as javaproperties
from reput.formats.rocketmq import broker
from reput.formats.rocketmq.broker import BrokerSettings
from reput.stores.log.places import refuse_led_away
from reput.streaming.settings.separate import refuse_files, refuse_overlaps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reput.sinks.kafka.client.settings import KafkaSettings

# What settings of brokers are called, those of every version; some editors begin a file with a mark
# of UTF-8, which is a part of its first name then.
_SETTING = re.compile("(?:\xef\xbb\xbf)?[a-z][a-z0-9]*[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True)
class StoreConfig:
    """One store and where its dispatch goes.

    Attributes:
        name: what logs and metrics call it.
        path: a broker's storePathRootDir.
        output: the root that is written to.
        settings: the broker's.
        in_place: `output` is the store itself.
        properties: the broker.conf that `settings` came from.
        kafka: how its messages go to Kafka; None: they do not.
        any_version: the version counts though the store's own index looks like another's.
        is_unchecked: nobody has compared its places yet, as its disk did not answer.
        check: of a live store that could not be looked at, what its writer calls before it opens
            the output; raises what speaks against that.
    """

    name: str
    path: Path
    output: Path
    settings: BrokerSettings = field(default_factory=BrokerSettings)
    in_place: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    kafka: KafkaSettings | None = None
    any_version: bool = False
    is_unchecked: bool = False
    check: Callable[[], None] | None = field(default=None, compare=False)

    def kafka_access(self) -> dict[str, Any]:
        """Return what Kafka's client needs beside our own settings, secrets in it: not to be shown.

        Raises:
            UsageError: a secret is not where it should be.
        """
        from reput.streaming.settings.kafka import access_of  # noqa: PLC0415 - a client few need
        from reput.streaming.settings.kafka_pass_through import client_settings  # noqa: PLC0415 - a client few need

        if self.kafka is None:
            return {}
        return {**client_settings(self.kafka.client), **access_of(self.kafka.security)}


@dataclass(frozen=True)
class FlushPolicy:
    """When what is written has to be on disk.

    Attributes:
        seconds: queues with enough new pages are flushed this often (`flushIntervalConsumeQueue`).
        least_pages: enough new pages (`flushConsumeQueueLeastPages`).
        thorough_seconds: everything is flushed and recorded this often
            (`flushConsumeQueueThoroughInterval`).
        is_sync: everything is flushed and recorded after each batch.
    """

    seconds: float = 1.0
    least_pages: int = 2
    thorough_seconds: float = 60.0
    is_sync: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> FlushPolicy:
        """Return the policy of a broker.conf, the broker's own defaults for what it leaves out.

        Raises:
            UsageError: a value that is not a number.
        """
        milliseconds = 1000
        return cls(
            seconds=broker.whole(properties, "flushIntervalConsumeQueue", 1000) / milliseconds,
            least_pages=broker.whole(properties, "flushConsumeQueueLeastPages", 2),
            thorough_seconds=(
                broker.whole(properties, "flushConsumeQueueThoroughInterval", 60_000) / milliseconds
            ),
        )


def store_config(
    path: Path,
    output: Path | None,
    *,
    name: str = "",
    broker_version: str = broker.NEWEST,
    broker_conf: Path | Mapping[str, str] | None = None,
    in_place: bool = False,
    commitlog: Sequence[Path] = (),
    any_version: bool = False,
    is_unchecked: bool = False,
) -> StoreConfig:
    """Return the configuration of one store.

    Args:
        path: a broker's storePathRootDir.
        output: where its dispatch goes.
        name: what logs and metrics call it.
        broker_version: such as "5.5".
        broker_conf: the broker's properties file, or the properties.
        in_place: the output is the store itself.
        commitlog: where the log is, whatever the store and its broker.conf say.
        any_version: see `StoreConfig`.
        is_unchecked: leave its disk alone.

    Raises:
        UsageError: what does not go together, or a wrong setting.
    """
    properties = _properties(broker_conf)
    config = StoreConfig(
        output=_target(path, output, in_place=in_place),
        name=name or _name_of(path, is_unchecked=is_unchecked),
        path=path,
        settings=broker.settings_of(broker_version, properties, [str(each) for each in commitlog]),
        in_place=in_place,
        properties=properties,
        any_version=any_version,
        is_unchecked=is_unchecked,
    )
    return config if is_unchecked else refuse_places(config)


def _properties(broker_conf: Path | Mapping[str, str] | None) -> Mapping[str, str]:
    return read_broker_conf(broker_conf) if isinstance(broker_conf, Path) else broker_conf or {}


def _target(path: Path, output: Path | None, *, in_place: bool) -> Path:
    """Return where to write.

    Raises:
        UsageError: that is not said, or said twice.
    """
    if in_place and output not in {None, path}:
        raise UsageError("--in-place writes into the store itself: leave --output out")
    if output is None and not in_place:
        raise UsageError("--output is missing: say where to write, or give --in-place")
    target = path if in_place or output is None else output
    if "\0" in f"{path}{target}":
        raise UsageError("a path holds a NUL, which no path can have")
    return target


def _name_of(path: Path, *, is_unchecked: bool) -> str:
    return (path.absolute() if is_unchecked else path.resolve()).name


def refuse_places(config: StoreConfig) -> StoreConfig:
    """Return a store, unless its output is a file, or not apart from what is read.

    Raises:
        UsageError: names both.
    """
    try:
        refuse_led_away(config.path, config.settings)
        refuse_files(config.output)
        refuse_overlaps([config])
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise UsageError(f"{error.filename}: no path can be that long") from error
    return config


def read_broker_conf(path: Path) -> dict[str, str]:
    """Return the properties of a broker.conf, as the broker reads them.

    Its bytes are ISO 8859-1, whatever their writer meant (`BrokerStartup`, by `Properties#load`): a
    comment may be in any encoding, and a value in UTF-8 is another one to the broker, too. Other
    characters are written as escapes.

    Raises:
        UsageError: it cannot be read, or is certainly another file.
    """
    try:
        found = javaproperties.load(path.read_bytes())
    except (OSError, ValueError, UsageError) as error:
        # ValueError: a NUL in the path.
        raise UsageError(f"broker_conf {path} cannot be read: {error}") from error
    if found and not any(map(_SETTING.fullmatch, found)):
        raise UsageError(
            f"broker_conf {path} is not a broker.conf: no line of it is a setting of a broker, as "
            "brokerName=broker-a is; name the file that the broker was started with"
        )
    return found
