"""Values that a shell can complete: versions of brokers, and names in a store or a reput.toml."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

from reput.formats.errors import ReputError
from reput.formats.rocketmq import broker

if TYPE_CHECKING:
    from reput.stores.query.message_store import MessageStore

SHELLS = ("bash", "zsh", "fish")


def versions(incomplete: str) -> list[str]:
    """Return the brokers whose files are known."""
    return [each for each in broker.VERSIONS if each.startswith(incomplete)]


def store_names(ctx: Any, incomplete: str) -> list[str]:
    """Return the names of the stores in the `--config` that is typed already."""
    from reput.streaming.settings.reput_toml import read_config

    path = ctx.params.get("config")
    # Where the line so far is wrong, there is nothing to complete.
    with contextlib.suppress(ReputError):
        if path is not None:
            stores = read_config(path, reads_kafka=False, needs_output=False)
            return [each.name for each in stores if each.name.startswith(incomplete)]
    return []


def _asked(ctx: Any) -> MessageStore:
    from reput.streaming.cli.asked import open_store
    from reput.streaming.settings.model.stores import StoreOptions

    names = (each.name for each in dataclasses.fields(StoreOptions))
    return open_store(StoreOptions(**{name: ctx.params.get(name) for name in names}))


def topics(ctx: Any, incomplete: str) -> list[str]:
    """Return the topics of the store that is typed already."""
    with contextlib.suppress(ReputError, OSError), _asked(ctx) as asked:
        return [each for each in asked.topics() if each.startswith(incomplete)]
    return []


def groups(ctx: Any, incomplete: str) -> list[str]:
    """Return the consumer groups of the store that is typed already."""
    with contextlib.suppress(ReputError, OSError), _asked(ctx) as asked:
        names = sorted({group for group, _ in asked.consumer_offsets()})
        return [each for each in names if each.startswith(incomplete)]
    return []


def transaction_states() -> list[str]:
    """Return the states of a transaction."""
    from reput.stores.query.transactions import TransactionState

    return [str(each) for each in TransactionState]


def shells() -> list[str]:
    """Return the shells that are known."""
    return list(SHELLS)
