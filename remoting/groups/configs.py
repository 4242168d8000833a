"""What a broker has configured of groups: `config/subscriptionGroup.json`, and what it makes up.

    {"dataVersion":{…},"subscriptionGroupTable":{"G":{"groupName":"G","consumeEnable":true,…}},
    "forbiddenTable":{"G":{"T1":4}}}

A broker makes the configuration of a group that it does not know, and writes it down. Here it is
kept in memory, and the broker's file stays as it is.

Source: RocketMQ `SubscriptionGroupManager`, `TopicValidator#validateGroup`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq import names
from reput.remoting.reading.served import GroupConfig
from reput.remoting.wire import bodies
from reput.remoting.wire.errors import JsonError
from reput.stores.config.config_files import read_config, unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reput.remoting.names.release import Release

FILE = "subscriptionGroup.json"
# A new broker has these (`SubscriptionGroupManager#init`).
PREDEFINED = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
_MORE_OF_5 = ("CID_RMQ_SYS_TRANS",)
_SYSTEM = "CID_RMQ_SYS_"
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_LONGEST = 120
_FORBIDS_READING = 1 << 2
# Any peer can name groups, so what is kept of those made here is bounded; none is refused for it.
_MOST_MADE = 1 << 16


class GroupConfigs:
    """The configurations of a broker's groups.

    Attributes:
        documents: what the broker's file says of each group. To be read only.
        forbidden: its `forbiddenTable`. To be read only.
        data_version: the file's own.
        made: groups that a broker would have configured since. To be read only.
    """

    def __init__(
        self, said: Mapping[str, Any], release: Release, *, makes_unknown: bool = True
    ) -> None:
        """Take over what a broker's file says.

        Args:
            said: the file as JSON.
            release: whose rules of names are followed.
            makes_unknown: `autoCreateSubscriptionGroup`.

        Raises:
            ValueError: the file does not say what such a file says.
        """
        self._release = release
        self._makes_unknown = makes_unknown
        own = PREDEFINED + (_MORE_OF_5 if release.has_flags else ())
        predefined: dict[str, Any] = {name: {"groupName": name} for name in own}
        self.documents = predefined | _table(said, "subscriptionGroupTable")
        self.forbidden = _table(said, "forbiddenTable")
        self.data_version = said.get("dataVersion")
        self.made: dict[str, GroupConfig] = {}
        self._known = {name: self._config(name, each) for name, each in self.documents.items()}

    def __contains__(self, group: object) -> bool:
        """Tell whether a group has a configuration already."""
        return group in self._known or group in self.made

    def find(self, group: str) -> GroupConfig | None:
        """Return the configuration of a group; make one for a group that has none, if allowed."""
        known = self._known.get(group) or self.made.get(group)
        if known is not None or not self._may_make(group):
            return known
        made = GroupConfig()
        if len(self.made) < _MOST_MADE:
            self.made[group] = made
        return made

    def tells(self, group: str) -> bool:
        """Tell whether members are told of changes (`notifyConsumerIdsChangedEnable`)."""
        return bool(self.documents.get(group, {}).get("notifyConsumerIdsChangedEnable", True))

    def _may_make(self, group: str) -> bool:
        if not self._makes_unknown and not group.startswith(_SYSTEM):
            return False
        is_right = _NAME.fullmatch(group) is not None and len(group) <= _LONGEST
        return is_right or not self._release.checks_names

    def _config(self, group: str, said: Mapping[str, Any]) -> GroupConfig:
        forbidden = self.forbidden.get(group, {})

        def number(name: str, default: int) -> int:
            value = said.get(name)
            return value if type(value) is int else default

        return GroupConfig(
            may_consume=said.get("consumeEnable") is not False,
            may_broadcast=said.get("consumeBroadcastEnable") is not False,
            sys_flag=number("groupSysFlag", 0),
            forbidden=frozenset(
                topic
                for topic, bits in forbidden.items()
                if type(bits) is int and bits > 0 and bits & _FORBIDS_READING
            ),
            retries=number("retryMaxTimes", GroupConfig().retries),
            retry_queues=number("retryQueueNums", GroupConfig().retry_queues),
        )


def configs_of(store: Path, release: Release, *, makes_unknown: bool = True) -> GroupConfigs:
    """Return the groups of the broker that wrote a store.

    Args:
        store: its directory.
        release: see `GroupConfigs`.
        makes_unknown: see `GroupConfigs`.

    Raises:
        StoreError: the broker's file cannot be read.
    """
    text = read_config(store, FILE)
    try:
        said = bodies.loads(text.encode()) if text is not None else {}
        if not isinstance(said, dict):
            raise JsonError("the file is not an object")
        return GroupConfigs(said, release, makes_unknown=makes_unknown)
    except ValueError as error:
        raise unreadable(store / names.CONFIG / FILE, str(error)) from error


def _table(said: Mapping[str, Any], name: str) -> dict[str, dict[str, Any]]:
    found = said.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise ValueError(f"{name} is not a table of objects")
    return found
