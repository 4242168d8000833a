"""How many files a server may have open: as many as the system lets it, and a share for queues."""

from __future__ import annotations

import resource

# A queue has a file or two of its own, and lanes up to four more.
_A_QUEUE = 16
_MOST_QUEUES = 1024
# Where there is no limit.
_ENOUGH = 1 << 16


def raise_limit() -> None:
    """Let this process open as many files as it may: each client takes one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def queues_kept_open(stores: int = 1) -> int:
    """Return how many queues each of some stores may keep open.

    To open one again takes milliseconds.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = _ENOUGH if soft == resource.RLIM_INFINITY else soft
    return min(max(soft // _A_QUEUE // stores, 1), _MOST_QUEUES)
