"""What of a broker's settings counts for a server of its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypedDict

from reput.remoting.groups import consumers
from reput.remoting.groups.locks import Locks
from reput.remoting.groups.requests import GroupState
from reput.remoting.names.known import READABLE
from reput.remoting.sending.retries import Retries
from reput.remoting.sending.sent_back import Keeping, SentBack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.remoting.groups.consumers import Consumers
    from reput.remoting.groups.offset_file import OffsetFile
    from reput.remoting.keeping.keeper import Keeper
    from reput.remoting.names.release import Release
    from reput.remoting.reading.hosts import Host
    from reput.remoting.reading.replies import Replies
    from reput.remoting.reading.served import Served
    from reput.remoting.reading.turns import Turns
    from reput.remoting.sending.sent_back import OnSentBack
    from reput.remoting.server.broker import Identity
    from reput.stores.query.message_store import MessageStore


class ServedAs(TypedDict):
    """Some of the attributes of `remoting.reading.served.Served`."""

    is_readable: bool
    has_lite_pull: bool
    filters_properties: bool


class GroupSettings(NamedTuple):
    """What an operator wants of consumer groups.

    Attributes:
        file: where their offsets are kept.
        on_sent_back: what happens to messages that consumers send back.
        keeper: keeps them, if they are kept; closed with the broker.
        new_groups_read_all: see `remoting.groups.progress.Progress`.
    """

    file: OffsetFile
    on_sent_back: OnSentBack
    new_groups_read_all: bool = False
    keeper: Keeper | None = None


def served_as(properties: Mapping[str, str]) -> ServedAs:
    """Return what a broker.conf allows.

    SQL92 is allowed only where the broker allowed it: a broker whose setting is off has no filters
    that a client could rely on, and Java's clients do not start on it.
    """
    permission = properties.get("brokerPermission", "").strip()
    return {
        "is_readable": not permission.isdigit() or bool(int(permission) & READABLE),
        "has_lite_pull": _is_on(properties, "litePullMessageEnable", default=True),
        "filters_properties": _is_on(properties, "enablePropertyFilter", default=False),
    }


def release_as(release: Release, properties: Mapping[str, str]) -> Release:
    """Return a release as a broker.conf has it."""
    is_on = _is_on(properties, "useServerSideResetOffset", default=True)
    return release._replace(resets_offsets=release.resets_offsets and is_on)


def short_polling(properties: Mapping[str, str]) -> float | None:
    """Return the seconds that every pull waits, None to wait as long as each says."""
    if _is_on(properties, "longPollingEnable", default=True):
        return None
    said = properties.get("shortPollingTimeMills", "").strip()
    return int(said) / 1000 if said.isdigit() else 1.0


def consumers_of(store: MessageStore, identity: Identity, now: Callable[[], float]) -> Consumers:
    """Return the groups of a store, without members.

    Args:
        store: what is served.
        identity: what clients take it for.
        now: seconds, of a clock that never goes back.

    Raises:
        StoreError: a file of its broker's settings says something else.
    """
    makes = _is_on(identity.properties, "autoCreateSubscriptionGroup", default=True)
    return consumers.consumers_of(
        store.root, store.settings, identity.release, now, makes_unknown=makes
    )


def group_state(
    known: Consumers,
    served: Served,
    settings: GroupSettings,
    now: Callable[[], float],
    turns: Turns,
    host: Callable[[], Host],
    cluster: str,
    replies: Replies,
) -> GroupState:
    """Return what is known of groups as a server begins.

    Args:
        known: of `consumers_of`.
        served: the store.
        settings: the operator's.
        now: as of `consumers_of`.
        turns: of the event loop.
        host: returns what ids of kept messages lead to.
        cluster: of the broker.
        replies: send late answers.
    """
    file, keeper = settings.file, settings.keeper
    keeping = None if keeper is None else Keeping(keeper, turns, host)
    sent_back = SentBack(settings.on_sent_back, served, now, keeping, replies)
    locks = Locks(now)
    retries = None if keeping is None else Retries(sent_back, served, locks.has, cluster)
    return GroupState(known, file.offsets, locks, sent_back, file, retries)


def _is_on(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    said = properties.get(name)
    return default if said is None else said.strip().lower() == "true"
