"""What `reput serve` shows to Prometheus, and to health checks.

Each server counts in plain numbers on its event loop. A scrape, on another thread, copies them.
Nothing that a client sends becomes a label, groups aside, of which each server shows `MOST_GROUPS`.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from reput.remoting.counting.counters import NotRegistered, SentBack
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.streaming.events import SETTING
from reput.streaming.observe.families import LABELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

LOG = logging.getLogger("reput")
_OF_SETTING = {"event": SETTING}
MOST_GROUPS = 100
NAME_SERVER = "namesrv"
"""The label `store` of the name server."""
OTHERS = "(others)"
"""The label of all groups past `MOST_GROUPS`; no group may be called so."""
# Longer than any stall that is not one of the machine; the loop tells each second that it runs.
_ALIVE_SECONDS = 30.0
_ONEWAY = "(oneway)"
_NODE = "server"
_REASONS = ("account", "signature", "admin", "permission", "request")
_PREFIX = "rocketmq_reput_serve_"

# By name without the prefix: what it says, and its labels besides those of a store.
TEXTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ready": ("1 if clients are served.", ()),
    "connections": ("Connections that are open.", ()),
    "connections_opened_total": ("Connections that came.", ()),
    "connections_dropped_total": (
        "Connections closed because the peer broke the protocol or read nothing.",
        (),
    ),
    "requests_total": (
        "Requests by what was asked and answered.",
        ("request", "answer"),
    ),
    "answer_bytes_total": ("Bytes of the bodies of answers.", ()),
    "messages_total": ("Messages in answers.", ()),
    "held_pulls": ("Pulls that wait for messages.", ()),
    "slow_readers": ("Connections that more is to be sent to than they read.", ()),
    "refused_total": ("Requests that the ACL refused, by what they lack.", ("reason",)),
    "acl_accounts": ("Accounts that are in force.", ()),
    "acl_broken": ("1 if the newest files of the ACL cannot be used and those before count.", ()),
    "tls_broken": (
        "1 if the newest files of TLS cannot be used and those before count.",
        (),
    ),
    "sent_back_total": (
        "Messages that consumers sent back, by what became of them.",
        ("outcome",),
    ),
    "duplicate_clients_total": ("Clients whose id another connection has.", ()),
    "cold_pulls_total": (
        "Pulls, and other questions, that had to wait for what was not in memory.",
        (),
    ),
    "offsets_unsaved_seconds": (
        "How long the oldest offset of a group waits to be saved.",
        (),
    ),
    "gaps": ("Places in the log, and in its queues, where files are missing or too short.", ()),
    "registered_brokers": ("Brokers of others that are registered at the name server.", ()),
    "name_servers_wanted": (
        "Name servers of others at which the broker is to be registered.",
        (),
    ),
    "name_servers": ("Name servers of others at which the broker is registered.", ()),
    "not_registered_total": (
        "Attempts to register the broker at a name server that failed, by why.",
        ("reason",),
    ),
    "groups": ("Consumer groups whose lag is known.", ()),
    "group_lag_messages": (
        f"Messages that a group has not consumed; those past {MOST_GROUPS} together.",
        ("group",),
    ),
}


def _names(codes: type[RequestCode | ResponseCode]) -> dict[int, str]:
    return {code.value: code.name for code in codes}


_REQUESTS, _ANSWERS = _names(RequestCode), _names(ResponseCode)


class ServerCounters:
    """What one server has told; a `remoting.counting.counters.Counters`."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin with zeros.

        Args:
            now: a clock that never goes back, seconds.
        """
        self._now = now
        names = [name for name, (_, labels) in TEXTS.items() if not labels]
        self._values: dict[str, float] = dict.fromkeys(names, 0)
        self._requests: dict[tuple[str, str], int] = {}
        self._refused = dict.fromkeys(_REASONS, 0)
        self._sent_back = {each.value: 0 for each in SentBack}
        self._not_registered = {each.value: 0 for each in NotRegistered}
        self._lags: dict[str, int] = {}
        # Groups that have a series of their own keep it while they are there.
        self._shown: dict[str, None] = {}
        self._has_acl = self._has_tls = False
        self.seen = now()
        """When its event loop was last known to run."""

    @property
    def is_ready(self) -> bool:
        """Tell whether clients are served."""
        return bool(self._values["ready"]) and self.is_alive

    @property
    def is_alive(self) -> bool:
        """Tell whether the event loop runs."""
        return self.seen >= self._now() - _ALIVE_SECONDS

    def connected(self, change: int) -> None:
        """Take that a connection came or went."""
        self._values["connections"] += change
        if change > 0:
            self._values["connections_opened_total"] += change

    def answered(
        self, request: int, answer: int, size: int, messages: int = 0, answers: int = 1
    ) -> None:
        """Count answers. Codes that RocketMQ does not have are one series."""
        self._count(_REQUESTS.get(request, "OTHER"), _ANSWERS.get(answer, "OTHER"), answers)
        self._values["answer_bytes_total"] += size
        self._values["messages_total"] += messages

    def oneway(self, request: int) -> None:
        """Count a request that wants no answer."""
        self._count(_REQUESTS.get(request, "OTHER"), _ONEWAY)

    def held(self, count: int) -> None:
        """Take how many pulls wait now."""
        self._values["held_pulls"] = count

    def slow(self, count: int) -> None:
        """Take how many connections read too slowly."""
        self._values["slow_readers"] = count

    def dropped(self) -> None:
        """Count a connection that was closed."""
        self._values["connections_dropped_total"] += 1

    def refused(self, reason: str) -> None:
        """Count a request that an ACL refused."""
        self._refused[reason] += 1

    def acl_read(
        self, accounts: int, repeated: Sequence[str] = (), error: str | None = None
    ) -> None:
        """Take what of an ACL is in force, and log what an operator has to know of it."""
        self._has_acl = True
        for key in repeated:
            LOG.warning(
                "accessKey %s is in the ACL again; its first account counts", key, extra=_OF_SETTING
            )
        self._values["acl_accounts"] = accounts
        self._values["acl_broken"] = int(error is not None)

    def tls_read(self, *, is_broken: bool) -> None:
        """Take whether the newest files of TLS cannot be used."""
        self._has_tls = True
        self._values["tls_broken"] = int(is_broken)

    def sent_back(self, outcome: SentBack) -> None:
        """Count a message that a consumer sent back."""
        self._sent_back[outcome.value] += 1

    def duplicate_client(self) -> None:
        """Count a client whose id another connection has."""
        self._values["duplicate_clients_total"] += 1

    def cold_pull(self) -> None:
        """Count a pull, or another question, that had to wait for what was not in memory."""
        self._values["cold_pulls_total"] += 1

    def offsets_unsaved(self, seconds: float) -> None:
        """Take how long the oldest offset of a group waits to be saved."""
        self._values["offsets_unsaved_seconds"] = seconds

    def gaps(self, count: int) -> None:
        """Take in how many places files of the log or of its queues are missing, or too short."""
        self._values["gaps"] = count

    def lags(self, by_group: Mapping[str, int]) -> None:
        """Take the groups' lags; the ones that are gone make room."""
        shown = {group: None for group in self._shown if group in by_group}
        for group in by_group:
            if len(shown) >= MOST_GROUPS:
                break
            shown[group] = None
        lags = {group: by_group[group] for group in shown}
        if len(by_group) > len(shown):
            lags[OTHERS] = sum(by_group.values()) - sum(lags.values())
        self._shown, self._lags = shown, lags
        self._values["groups"] = len(by_group)

    def registered(self, brokers: int) -> None:
        """Take how many brokers of others are registered."""
        self._values["registered_brokers"] = brokers

    def wanted_at_name_servers(self, count: int) -> None:
        """Take at how many name servers the broker is to be registered."""
        self._values["name_servers_wanted"] = count

    def at_name_servers(self, count: int) -> None:
        """Take at how many name servers the broker is registered."""
        self._values["name_servers"] = count

    def not_registered(self, reason: NotRegistered) -> None:
        """Count an attempt to register the broker that failed."""
        self._not_registered[reason.value] += 1

    def ready(self, *, is_ready: bool) -> None:
        """Take whether clients are served."""
        self._values["ready"] = int(is_ready)

    def alive(self) -> None:
        """Take that the event loop runs."""
        self.seen = self._now()

    def rows(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Return name, labels and value of each series, for a scrape on another thread."""
        values = self._values.copy() | {"ready": int(self.is_ready)}
        for name, value in values.items():
            if name.startswith("acl_") and not self._has_acl:
                continue
            if name.startswith("tls_") and not self._has_tls:
                continue
            yield name, (), value
        for labels, value in self._requests.copy().items():
            yield "requests_total", labels, value
        tables: dict[str, dict[str, int]] = {
            "refused_total": self._refused if self._has_acl else {},
            "sent_back_total": self._sent_back,
            "not_registered_total": self._not_registered,
            "group_lag_messages": self._lags,
        }
        for name, table in tables.items():
            for label, value in table.copy().items():
                yield name, (label,), value

    def _count(self, request: str, answer: str, answers: int = 1) -> None:
        key = request, answer
        self._requests[key] = self._requests.get(key, 0) + answers


class ServeMetrics:
    """The series and the health of all servers of a process."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Begin without servers.

        Args:
            now: a clock that never goes back, seconds.
        """
        self._now = now
        self._servers: dict[tuple[str, str], ServerCounters] = {}
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.registry.register(_Collector(self._servers))

    def server(self, cluster: str, name: str) -> ServerCounters:
        """Return what a server tells its figures to.

        Args:
            cluster: the broker's.
            name: of the broker's store, or `NAME_SERVER`.
        """
        return self._servers.setdefault((cluster, name), ServerCounters(self._now))

    def is_alive(self) -> bool:
        """Tell whether the name server's event loop runs, and that of any store.

        A store whose disk does not answer is not ready; a restart would end the others.
        """
        servers = self._servers.copy().items()
        stores = [server.is_alive for (_, name), server in servers if name != NAME_SERVER]
        has_names = all(server.is_alive for (_, name), server in servers if name == NAME_SERVER)
        return has_names and (any(stores) or not stores)

    def is_ready(self, _bytes: int = 0) -> bool:
        """Tell whether all servers answer clients."""
        servers = list(self._servers.values())
        return bool(servers) and all(server.is_ready for server in servers)

    def scraped(self, began: float) -> None:
        """Do nothing: a scrape leaves nothing to be done."""


class _Collector:
    def __init__(self, servers: Mapping[tuple[str, str], ServerCounters]) -> None:
        self._servers = servers

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Any] = {}
        for name, (text, labels) in TEXTS.items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            whole = _PREFIX + name.removesuffix("_total")
            families[name] = kind(whole, text, labels=(*LABELS, *labels))
        for (cluster, name), counters in list(self._servers.items()):
            for series, values, value in counters.rows():
                families[series].add_metric((cluster, name, _NODE, *values), value)
        yield from families.values()
