"""Consumer groups as pulls need them: configured, online, with filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from reput.formats.filters.consumerfilter import ConsumerFilter
    from reput.remoting.groups.configs import GroupConfigs
    from reput.remoting.groups.members import Members
    from reput.remoting.groups.registered_filters import RegisteredFilters
    from reput.remoting.reading.served import GroupConfig, Online


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

    def config(self, group: str) -> GroupConfig | None:
        """Return a group's configuration, None if there is none and the broker makes none."""
        return self.configs.find(group)

    def online(self, group: str) -> Online | None:
        """Return a group that has members, None if it has none."""
        return self.members.online(group)

    def filter_of(self, topic: str, group: str) -> ConsumerFilter | None:
        """Return the SQL92 filter that a group registered for a topic, None if it has none."""
        return self.filters.get(topic, group)
