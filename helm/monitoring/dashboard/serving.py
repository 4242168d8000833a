"""Do clients get what they ask `reput serve` for? Who asks, what is held, who is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helm.monitoring import series as s
from helm.monitoring.dashboard.promql import RATE
from helm.monitoring.dashboard.visualizations import (
    BYTES_PER_SECOND,
    NAMED,
    PER_SECOND,
    SECONDS,
    SHORT,
    graph,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import timeseries

_SERVERS = f'{s.SERVER},cluster=~"$cluster",store=~"$store"'


def panels() -> list[timeseries.Panel]:
    """Return the row's graphs."""
    return [*_clients(), *_flow(), *_groups(), *_trouble(), *_names()]


def _one(name: str) -> str:
    return f"{name}{{{_SERVERS}}}"


def _rate(name: str) -> str:
    return f"rate({_one(name)}{RATE})"


def _in_an_hour(name: str) -> str:
    return f"increase({_one(name)}[1h])"


def _clients() -> list[timeseries.Panel]:
    """Graph who is there, and whether somebody answers."""
    return [
        graph(
            "Clients served",
            "1: clients are answered. 0: the process runs, and they are not.",
            SHORT,
            [(_one(s.SERVE_READY), NAMED)],
            8,
        ).max(1),
        graph(
            "Connections",
            "Open ones, and those that came within an hour: clients that connect again and again"
            " are seen by the difference.",
            SHORT,
            [
                (_one(s.SERVE_CONNECTIONS), NAMED),
                (_in_an_hour(s.SERVE_OPENED), f"{NAMED} came"),
            ],
            8,
        ),
        graph(
            "Held pulls, slow readers",
            "Pulls that wait for messages, which is well; and connections that more is to be sent"
            " to than they read.",
            SHORT,
            [
                (_one(s.SERVE_HELD), f"{NAMED} held"),
                (_one(s.SERVE_SLOW), f"{NAMED} slow"),
            ],
            8,
        ),
    ]


def _flow() -> list[timeseries.Panel]:
    """Graph how much is asked and sent."""
    by = "cluster, store, request, answer"
    return [
        graph(
            "Requests a second",
            "By what was asked and answered.",
            PER_SECOND,
            [(f"sum by ({by}) ({_rate(s.SERVE_REQUESTS)})", "{{store}} {{request}} {{answer}}")],
            8,
        ),
        graph(
            "Messages to clients a second",
            "Messages in answers, and questions that waited for what was not in memory.",
            PER_SECOND,
            [
                (_rate(s.SERVE_MESSAGES), NAMED),
                (_rate(s.SERVE_COLD), f"{NAMED} cold pulls"),
            ],
            8,
        ),
        graph(
            "Bytes to clients a second",
            "All answers.",
            BYTES_PER_SECOND,
            [(_rate(s.SERVE_BYTES), NAMED)],
            8,
        ),
    ]


def _groups() -> list[timeseries.Panel]:
    """Graph how far consumers are."""
    return [
        graph(
            "Messages that groups have not consumed",
            "By group; those that have no series of their own together. It is of the offsets that"
            " this server keeps, not of the broker's.",
            SHORT,
            [(_one(s.SERVE_LAG), "{{store}} {{group}}")],
            6,
        ),
        graph(
            "Offsets that wait to be saved",
            "How long the oldest has waited: what groups consume again if the server is killed. A"
            " few seconds are normal.",
            SECONDS,
            [(_one(s.SERVE_UNSAVED), NAMED)],
            6,
        ),
        graph(
            "Gaps in log and queues",
            "Places where files are missing or too short: consumers are led past the messages that"
            " stood there. An output counts as one place.",
            SHORT,
            [(_one(s.SERVE_GAPS), NAMED)],
            6,
        ),
        graph(
            "Consumer groups",
            "Groups whose lag is known.",
            SHORT,
            [(_one(s.SERVE_GROUPS), NAMED)],
            6,
        ),
    ]


def _trouble() -> list[timeseries.Panel]:
    """Graph what is refused, and what consumers do wrong."""
    return [
        graph(
            "Refused by the ACL, in an hour",
            "By what the request lacks.",
            SHORT,
            [(_in_an_hour(s.SERVE_REFUSED), f"{NAMED} {{{{reason}}}}")],
            8,
        ),
        graph(
            "ACL and TLS",
            "Accounts in force; broken is 1 while new files cannot be used.",
            SHORT,
            [
                (_one(s.SERVE_ACCOUNTS), f"{NAMED} accounts"),
                (_one(s.SERVE_ACL_BROKEN), f"{NAMED} ACL broken"),
                (_one(s.SERVE_TLS_BROKEN), f"{NAMED} TLS broken"),
            ],
            8,
        ),
        graph(
            "Trouble with clients, in an hour",
            "Messages sent back, client ids that two have, connections that were closed because"
            " the peer broke the protocol or read nothing.",
            SHORT,
            [
                (_in_an_hour(s.SERVE_SENT_BACK), f"{NAMED} sent back, {{{{outcome}}}}"),
                (_in_an_hour(s.SERVE_DUPLICATES), f"{NAMED} same id"),
                (_in_an_hour(s.SERVE_DROPPED), f"{NAMED} closed"),
            ],
            8,
        ),
    ]


def _names() -> list[timeseries.Panel]:
    """Graph which brokers know each other."""
    return [
        graph(
            "Brokers at the name server",
            "Brokers of others that are registered where clients look for these stores.",
            SHORT,
            [(_one(s.SERVE_BROKERS), NAMED)],
            8,
        ),
        graph(
            "Name servers of others",
            "At how many the broker is registered, and at how many it is to be.",
            SHORT,
            [
                (_one(s.SERVE_NAME_SERVERS), NAMED),
                (_one(s.SERVE_WANTED), f"{NAMED} wanted"),
            ],
            8,
        ),
        graph(
            "Not registered, in an hour",
            "Attempts at name servers that are away, have another broker of that name, or"
            " refuse it.",
            SHORT,
            [(_in_an_hour(s.SERVE_NOT_REGISTERED), f"{NAMED} {{{{reason}}}}")],
            8,
        ),
    ]
