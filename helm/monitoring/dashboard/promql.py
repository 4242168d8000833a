"""How does a panel ask Prometheus? For the series of the chosen stores."""

from __future__ import annotations

from helm.monitoring import series as s

# A store that was dispatched within this time and is not now is gone.
REMEMBERED = "7d"
LOG_END = 'which="log_end"'
RATE = "[$__rate_interval]"
_STORES = f'{s.NODE},cluster=~"$cluster",store=~"$store"'


def one(name: str, *labels: str) -> str:
    """Return the selector of a store's series, with further matchers."""
    return f"{name}{{{','.join([_STORES, *labels])}}}"


def rate(name: str, *labels: str) -> str:
    """Return a counter's rate."""
    return f"rate({one(name, *labels)}{RATE})"


def more(name: str, window: str) -> str:
    """Return how much more there is than a window ago, of what may get less as well."""
    return f"clamp_min(delta({one(name)}[{window}]), 0)"


def quantile(share: float, name: str, *labels: str) -> str:
    """Return a quantile of a histogram, a store each."""
    buckets = rate(f"{name}_bucket", *labels)
    return f"histogram_quantile({share}, sum by (cluster, store, le) ({buckets}))"


def at(which: str) -> str:
    """Return one of a store's offsets, fit to be subtracted from another."""
    matcher = f'which="{which}"'
    return f"sum by (cluster, store) ({one(s.OFFSET, matcher)})"


def gone() -> str:
    """Return an expression with a result for each store that was dispatched and is not now."""
    seen = f"count by (cluster, store) (last_over_time({one(s.BEHIND_BYTES)}[{REMEMBERED}]))"
    return f"({seen} unless count by (cluster, store) ({one(s.BEHIND_BYTES)}))"


def if_none_is_gone(expression: str) -> str:
    """Return an expression that is -1 where a store's series are gone, or there are none."""
    return f"({expression} unless on () count({gone()})) or vector(-1)"


def of_stores(metric: str) -> str:
    """Return a process's series, of the dispatchers of the chosen stores."""
    matcher = 'kind="other"'
    return f"{metric} and on (job, instance) {one(s.ERRORS, matcher)}"
