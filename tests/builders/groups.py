"""Groups of consumers on channels that keep what is sent, and clients that speak like real ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reput.formats.rocketmq.broker import BrokerSettings, version_of
from reput.remoting.groups.configs import GroupConfigs
from reput.remoting.groups.consumers import Consumers
from reput.remoting.groups.members import Members
from reput.remoting.groups.registered_filters import RegisteredFilters
from reput.remoting.names.release import RELEASES
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.command import Command
from tests.builders.channels import Clock, KeptChannel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def consumers(version: str = "5.5", clock: Clock | None = None, said=None, **options) -> Consumers:
    """Return the groups of a broker that has none but those that a file says."""
    release = RELEASES[version]
    filters = RegisteredFilters(BrokerSettings(version_of(version)), {}, clock or Clock())
    members = Members(release, filters, clock or Clock())
    return Consumers(GroupConfigs(said or {}, release, **options), members, filters)


@dataclass(eq=False)
class Client(KeptChannel):
    """A connection with what its client says of itself."""

    client_id: str = "127.0.0.1@c"
    groups: dict[str, dict] = field(default_factory=dict)
    producers: Iterable[str] = ()
    asked: list[tuple[Command, Callable[[Command | None], None]]] = field(default_factory=list)

    def ask(self, command: Command, then: Callable[[Command | None], None]) -> None:
        self.asked.append((command, then))

    def heartbeat(self, **more) -> Command:
        """Return a heartbeat as a Java client of 5.5.0 writes it."""
        said = {
            "clientID": self.client_id,
            "consumerDataSet": list(self.groups.values()),
            "heartbeatFingerprint": 0,
            "producerDataSet": [{"groupName": name} for name in self.producers],
            "withoutSub": False,
        }
        body = json.dumps(said | more).encode()
        return Command(RequestCode.HEART_BEAT, 1, version=513, body=body)

    def consumes(self, group: str = "g", *subscriptions: dict, model: str = "CLUSTERING") -> Client:
        """Say from now on that it consumes for a group."""
        self.groups[group] = {
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": group,
            "messageModel": model,
            "subscriptionDataSet": list(subscriptions or (subscribed(),)),
            "unitMode": False,
        }
        return self

    def told(self) -> list[str]:
        """Return the groups that it was told have changed, and forget them."""
        found = [
            command.fields["consumerGroup"]
            for command, _ in self.sent
            if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        ]
        self.sent.clear()
        return found


def subscribed(topic: str = "t", text: str = "*", kind: str = "TAG", version: int = 1) -> dict:
    """Return a subscription as it stands in a heartbeat."""
    return {
        "classFilterMode": False,
        "codeSet": [],
        "expressionType": kind,
        "subString": text,
        "subVersion": version,
        "tagsSet": [],
        "topic": topic,
    }
