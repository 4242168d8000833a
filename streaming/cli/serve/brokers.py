"""What is served of one store: its broker, with its offsets, accounts and kept messages."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from reput.formats.errors import UsageError
from reput.formats.rocketmq.broker import whole
from reput.formats.rocketmq.names import RETRY, has_bytes
from reput.streaming.cli.serve.checks import sent_back_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from reput.remoting.access.check import Access, Open
    from reput.remoting.counting.counters import Counters
    from reput.remoting.groups.offset_file import OffsetFile
    from reput.remoting.keeping.keeper import Keeper
    from reput.remoting.server.broker import StoreBroker
    from reput.remoting.server.rules import GroupSettings
    from reput.stores.query.message_store import MessageStore
    from reput.streaming.cli.serve.places import Address
    from reput.streaming.observe.serving import ServeMetrics
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.settings.model.serving import ServeOptions


def name_of(options: ServeOptions, config: StoreConfig) -> str:
    """Return what a store's broker is called."""
    return options.broker_name or config.properties.get("brokerName", "").strip() or config.name


def cluster_of(options: ServeOptions, config: StoreConfig) -> str:
    """Return the cluster that a store's broker belongs to."""
    return (
        options.cluster
        or config.properties.get("brokerClusterName", "").strip()
        or "DefaultCluster"
    )


def broker_of(
    options: ServeOptions,
    config: StoreConfig,
    store: MessageStore,
    address: Address,
    metrics: ServeMetrics | None,
) -> StoreBroker:
    """Return the broker of a store.

    Raises:
        ReputError: a file of the settings cannot be used.
    """
    from reput.remoting.names.release import RELEASES
    from reput.remoting.sending.sent_back import OnSentBack
    from reput.remoting.server.addresses import resolved
    from reput.remoting.server.broker import Identity, StoreBroker

    name, cluster = name_of(options, config), cluster_of(options, config)
    release = RELEASES[config.settings.version.family]
    identity = Identity(
        name, cluster, str(address), release, config.properties, options.rewrite_hosts
    )
    if address.port and (options.rewrite_hosts or options.sent_back is OnSentBack.KEEP):
        # A name that has no address is an error now, and not with the first message.
        resolved(str(address))
    loop, counters = asyncio.get_running_loop(), counters_of(metrics, cluster, name)
    access = _access(options, config, counters)
    path = _offsets_of(options, config, name)
    with contextlib.ExitStack() as undone:
        groups = _groups(options, config, store, path, undone)
        made = StoreBroker(store, identity, counters, loop, groups, access)
        undone.pop_all()
    return made


def _groups(
    options: ServeOptions,
    config: StoreConfig,
    store: MessageStore,
    path: Path,
    undone: contextlib.ExitStack,
) -> GroupSettings:
    """Return what is kept of consumer groups, and how they are served.

    Args:
        options: of the command.
        config: of the store.
        store: whose groups they are.
        path: of the file of offsets.
        undone: lets others have the files, if what needs them fails.

    Raises:
        ReputError: another process has one of them, or it is damaged, or of another store.
    """
    from reput.remoting.groups.offset_file import OffsetFile
    from reput.remoting.server.rules import GroupSettings

    # A disk that takes its time keeps no client waiting.
    saving = ThreadPoolExecutor(1, "offsets")
    file = OffsetFile(path, config.path, options.offsets_from, saving, store.log)
    undone.callback(file.leave)
    keeper = _keeper(options, config, path.with_suffix(".sent-back"), file)
    if keeper is not None:
        undone.callback(keeper.close)
    return GroupSettings(file, options.sent_back, options.new_groups_read_all, keeper)


def _offsets_of(options: ServeOptions, config: StoreConfig, name: str) -> Path:
    """Return where a broker's offsets are kept.

    Raises:
        UsageError: its name leads to another directory, or the directory is the store's.
    """
    if "/" in name or "\0" in name or not has_bytes(name):
        raise UsageError(
            f"a broker called {name!r} has no file of offsets, as files are called: give "
            "--broker-name"
        )
    path = options.offsets.expanduser() / f"{name}.json"
    if path.resolve().is_relative_to(config.path.resolve()):
        raise UsageError(
            f"--offsets {options.offsets}: it is in the store {config.path}, where nothing is "
            "written; keep offsets in another directory"
        )
    return path


def _keeper(
    options: ServeOptions, config: StoreConfig, directory: Path, file: OffsetFile
) -> Keeper | None:
    """Return what keeps messages that are sent back; None if they are not kept.

    Raises:
        ReputError: another process keeps them there, or they are damaged.
    """
    from reput.remoting.keeping.keeper import RESERVED_HOURS, keeper_of

    most = sent_back_bytes(options)
    if most is None:
        return None
    hours = whole(config.properties, "fileReservedTime", RESERVED_HOURS)

    def consumed(topic: str, queue_id: int) -> int | None:
        return file.offsets.find(topic.removeprefix(RETRY), topic, queue_id)

    return keeper_of(
        directory,
        most,
        config.settings,
        consumed,
        asyncio.get_running_loop(),
        ThreadPoolExecutor(1, "sent-back"),
        hours,
    )


def _access(options: ServeOptions, config: StoreConfig, counters: Counters) -> Access | Open:
    """Return what judges requests to a store.

    Raises:
        AccessError: its broker checked who asks, and nothing says who may.
    """
    from reput.remoting.access.guard import guard
    from reput.remoting.names.release import RELEASES

    conf = f"the broker.conf of {config.name}", config.properties
    release = RELEASES[config.settings.version.family]
    return guard(options.acl, conf, release, counters, is_open=options.open_access)


def counters_of(metrics: ServeMetrics | None, cluster: str, name: str) -> Counters:
    """Return what a server tells of itself."""
    from reput.remoting.counting.counters import Uncounted

    return Uncounted() if metrics is None else metrics.server(cluster, name)
