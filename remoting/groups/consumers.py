"""Consumer groups as pulls need them: configured, online, with filters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.filters import consumerfilter
from reput.formats.rocketmq import names
from reput.remoting.groups.configs import configs_of
from reput.remoting.groups.members import Members
from reput.remoting.groups.registered_filters import RegisteredFilters
from reput.stores.config.config_files import read_config, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reput.formats.filters.consumerfilter import ConsumerFilter
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.remoting.groups.configs import GroupConfigs
    from reput.remoting.names.release import Release
    from reput.remoting.reading.served import GroupConfig, Online

_FILTERS = "consumerFilter.json"


class Consumers(NamedTuple):
    """The `Groups` of a store that is served.

    Attributes:
        configs: what is configured.
        members: who is there.
        filters: the SQL92 expressions that groups subscribe with.
    """

    configs: GroupConfigs
    members: Members
    filters: RegisteredFilters

    @property
    def changes(self) -> int:
        """Return how often what `online` returns has become another answer."""
        return self.members.changes

    def config(self, group: str) -> GroupConfig | None:
        """Return a group's configuration, None if there is none and the broker makes none."""
        return self.configs.find(group)

    def online(self, group: str) -> Online | None:
        """Return a group that has members, None if it has none."""
        return self.members.online(group)

    def filter_of(self, topic: str, group: str) -> ConsumerFilter | None:
        """Return the SQL92 filter that a group registered for a topic, None if it has none."""
        return self.filters.get(topic, group)


def consumers_of(
    store: Path,
    settings: BrokerSettings,
    release: Release,
    now: Callable[[], float],
    *,
    makes_unknown: bool = True,
    clock: Callable[[], float] = time.time,
) -> Consumers:
    """Return the groups of the broker that wrote a store; none of them has members.

    Args:
        store: its directory.
        settings: the broker's.
        release: whose rules are followed.
        now: seconds, of a clock that never goes back.
        makes_unknown: `autoCreateSubscriptionGroup`.
        clock: seconds since 1970.

    Raises:
        StoreError: a file of the broker cannot be read.
    """
    configs = configs_of(store, release, makes_unknown=makes_unknown)
    text = read_config(store, _FILTERS)
    try:
        saved = consumerfilter.parse(text) if text is not None else {}
        filters = RegisteredFilters(settings, saved, clock)
    except ValueError as error:
        raise unreadable(store / names.CONFIG / _FILTERS, str(error)) from error
    return Consumers(configs, Members(release, filters, now), filters)
