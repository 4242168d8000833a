"""Do clients get what they ask `reput serve` for? Alerts about servers of stores."""

from __future__ import annotations

from helm.monitoring import series as s
from helm.monitoring.alerts.alert import CRITICAL, STORE, WARNING, Alert

_SERVER = f"{{{s.SERVER}}}"
# A second: a client that is set up wrongly asks more often than this; one that is set up rightly
# is never refused.
_REFUSED_A_SECOND = 0.1
# Offsets are saved every few seconds.
_UNSAVED_SECONDS = 60


def _risen(metric: str, labels: str = "") -> str:
    """Return an expression that holds where a counter has risen within the hour."""
    return f"increase({metric}{{{s.SERVER}{labels}}}[1h]) > 0"


_WANTED, _REGISTERED = f"{s.SERVE_WANTED}{_SERVER}", f"{s.SERVE_NAME_SERVERS}{_SERVER}"
_REFUSED_15M = f"rate({s.SERVE_REFUSED}{_SERVER}[15m])"
# A consumer asks again for each of its queues after three seconds.
_FAILED_A_SECOND = 0.1
_PULLS = ',request=~"PULL_MESSAGE|LITE_PULL_MESSAGE",answer="SYSTEM_ERROR"'
_FAILED_5M = f"rate({s.SERVE_REQUESTS}{{{s.SERVER}{_PULLS}}}[5m])"

# One for each store of a job, as servers elsewhere may have stores of the same name; a server's pod
# gets another name with each upgrade.
_EACH = "max by (namespace, job, cluster, store)"
_THERE = f"{_EACH} ({s.SERVE_READY}{_SERVER})"
_WAS_THERE = f"{_EACH} (max_over_time({s.SERVE_READY}{_SERVER}[6h]"
_KUBE_WAITS = f'{s.KUBE_WAITING}{{namespace=~"${{namespace}}",container="serve"}}'

ALERTS = (
    Alert(
        "ServeMissing",
        CRITICAL,
        "5m",
        # One that was there and is not; one that is there for less than half of the time; a
        # container that mostly waits, also one that was never scraped.
        f"{_WAS_THERE})) unless {_THERE}\n"
        f"or count_over_time(({_THERE})[15m:30s]) < 15 and {_WAS_THERE} offset 15m))\n"
        f"or count_over_time((max by (namespace, pod) ({_KUBE_WAITS} == 1))[15m:30s]) >= 15",
        "The server of {{ $labels.store }}{{ $labels.pod }} is gone",
        "It answers its scrapes rarely or never: it was removed, it does not start, or it keeps"
        " crashing. Clients get nothing from it.",
    ),
    Alert(
        "ServeNotReady",
        CRITICAL,
        "5m",
        f"{s.SERVE_READY}{_SERVER} == 0",
        f"Clients are not served from {STORE}",
        "The process answers its scrapes, and for 5 minutes no client of this store.",
    ),
    Alert(
        "ServeGaps",
        CRITICAL,
        "1m",
        f"{s.SERVE_GAPS}{_SERVER} > 0",
        f"Consumers of {STORE} are led past messages that are missing",
        "In {{ $value | humanize }} places, files of its log or of its queues are missing or short."
        " Consumers get what comes after, and their offsets move past the gap.",
    ),
    Alert(
        "ServeFailing",
        CRITICAL,
        "10m",
        f"sum without (request, answer) ({_FAILED_5M}) > {_FAILED_A_SECOND}"
        f" and {s.SERVE_READY}{_SERVER} == 1",
        f"Pulls from {STORE} fail again and again",
        "{{ $value | humanize }} a second for 10 minutes. The consumers of a queue get no further:"
        " a file of the store cannot be read, or a consumer asks for what this broker refuses.",
    ),
    Alert(
        "ServeRegisteredNowhere",
        CRITICAL,
        "5m",
        f"{_WANTED} > 0 and {_REGISTERED} == 0",
        f"Clients do not find {STORE}: no name server has it",
        "Its broker is to be registered at {{ $value | humanize }} name servers, and has been at"
        " none for 5 minutes.",
    ),
    Alert(
        "ServeNotRegistered",
        WARNING,
        "15m",
        f"{_WANTED} - {_REGISTERED} > 0",
        f"Not all name servers have {STORE}",
        "{{ $value | humanize }} of those at which its broker is to be registered do not have it."
        " Clients that ask these do not find the store.",
    ),
    Alert(
        "ServeAclBroken",
        WARNING,
        "2m",
        f"{s.SERVE_ACL_BROKEN}{_SERVER} == 1",
        f"The new ACL of {STORE} is not in force",
        "Its files changed and cannot be used. The accounts that were read before them count, so an"
        " account that was removed still reads.",
    ),
    Alert(
        "ServeTlsNotRenewed",
        WARNING,
        "5m",
        f"{s.SERVE_TLS_BROKEN}{_SERVER} == 1",
        f"The new certificate of {STORE} is not in force",
        "Its files changed and cannot be used. The certificate before them is shown to clients, and"
        " they refuse it once it has expired.",
    ),
    Alert(
        "ServeRefusing",
        WARNING,
        "15m",
        f"sum without (reason) ({_REFUSED_15M}) > {_REFUSED_A_SECOND}",
        f"The ACL of {STORE} refuses requests again and again",
        "{{ $value | humanize }} a second over 15 minutes. A client has no account, a wrong secret"
        " or no permission, or somebody tries secrets.",
    ),
    Alert(
        "ServeSlowReaders",
        WARNING,
        "15m",
        f"{s.SERVE_SLOW}{_SERVER} > 0",
        f"Clients of {STORE} do not read what they asked for",
        "More is to be sent to {{ $value | humanize }} of their connections than they read.",
    ),
    Alert(
        "ServeOffsetsUnsaved",
        WARNING,
        "2m",
        f"{s.SERVE_UNSAVED}{_SERVER} > {_UNSAVED_SECONDS}",
        f"Offsets of consumer groups of {STORE} are not saved",
        "The oldest waits for {{ $value | humanizeDuration }}. If the server ends now, groups get"
        " again what they have consumed since.",
    ),
    Alert(
        "ServeDuplicateClients",
        WARNING,
        "0s",
        _risen(s.SERVE_DUPLICATES),
        f"Consumers of {STORE} have the same client id",
        "{{ $value | humanize }} times within the hour, a client came with the id of another. Both"
        " take the same queues, and others nobody reads.",
    ),
    Alert(
        "ServeSentBackRefused",
        WARNING,
        "0s",
        _risen(s.SERVE_SENT_BACK, ',outcome="refused"'),
        f"Consumers of {STORE} send messages back, and nobody keeps them",
        "{{ $value | humanize }} within the hour. The consumer tries again itself, and its offset"
        " does not pass such a message.",
    ),
)
