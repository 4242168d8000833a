"""`reput serve`: stores as brokers beside a name server, for stock clients and tools."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError, UsageError
from reput.remoting.access.errors import AccessError
from reput.remoting.server.descriptors import raise_limit
from reput.stores.heap import give_back_large
from reput.streaming.cli.asked import require_output
from reput.streaming.cli.jobs.looks import Looks
from reput.streaming.cli.serve.brokers import cluster_of, counters_of, name_of
from reput.streaming.cli.serve.checks import refuse_contradictions, refuse_names
from reput.streaming.cli.serve.places import places_of
from reput.streaming.cli.serve.stands import Stands, cannot_listen, new_loop
from reput.streaming.cli.store_choice import named_in_file, one_store
from reput.streaming.endings.interruptions import SIGNALS, leave_at_once
from reput.streaming.settings.model.choices import LogMode
from reput.streaming.settings.model.serving import ServeOptions
from reput.streaming.settings.option_values import refuse_blank
from reput.streaming.settings.reput_toml import in_keys, read_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.remoting.counting.counters import Counters
    from reput.remoting.names.release import Release
    from reput.remoting.server.ports import Place, Tls
    from reput.remoting.server.server import Server
    from reput.remoting.server.store_thread import StoreThread
    from reput.streaming.cli.serve.places import Places
    from reput.streaming.cli.serve.stands import Stand
    from reput.streaming.observe.serving import ServeMetrics
    from reput.streaming.settings.config import StoreConfig

LOG = logging.getLogger("reput")

# Texts that are something else when they are given than when they are not.
_NAMES = ("register", "advertise", "broker_name", "cluster", "sent_back_bytes", "metrics_host")
# Answers are smaller than this; frames that are not whole may be larger.
_LARGE, _KEPT = 1 << 20, 8 << 20
# A loop waits this long at most for a thread that has Python's lock; Python's default is 5 ms.
_SWITCH_SECONDS = 0.0005


def serve(options: ServeOptions) -> None:
    """Serve stores to stock RocketMQ clients, mqadmin and dashboards, until stopped.

    Each store is a broker that is only read, and a name server tells clients of all of them.
    Nothing is written into a store. SIGTERM and Ctrl-C end it.

    Example: `reput serve --store /data/rocketmq/store --broker-version 5.3`
    """
    # Slow to import.
    from reput.streaming.show.log_lines import log_to_stderr

    words = None if options.config is None else in_keys
    log_to_stderr(as_json=options.log_format == LogMode.JSON, words=words)
    give_back_large(_LARGE, _KEPT)
    raise_limit()
    sys.setswitchinterval(_SWITCH_SECONDS)
    refuse_blank(options, *_NAMES)
    configs = _configs_of(options)
    places = places_of(options, len(configs))
    refuse_contradictions(options, places)
    with contextlib.ExitStack() as stack:
        loop = stack.enter_context(contextlib.closing(new_loop()))
        try:
            loop.run_until_complete(_run(options, configs, places, stack))
        except AccessError as error:
            raise UsageError(str(error)) from error


def _configs_of(options: ServeOptions) -> list[StoreConfig]:
    """Return the stores that the options name.

    Raises:
        UsageError: none, or something wrong with them.
    """
    if options.config is None or options.store_name is not None:
        named = named_in_file(options)
        if named is None and options.output is not None:
            require_output(options.output)
        configs = [named if named is not None else one_store(options)]
    else:
        given = (options.store, options.output, options.broker_version, options.broker_conf)
        if any(each is not None for each in (*given, options.commitlog)):
            named_in_file(options)
        silent = Looks().silent
        configs = read_config(options.config, reads_kafka=False, needs_output=False, silent=silent)
    if options.broker_name is not None and len(configs) > 1:
        raise UsageError(
            f"--broker-name is for one store, and there are {len(configs)}: each is called as in "
            "its broker.conf, or else by its name"
        )
    refuse_names(options, [name_of(options, each) for each in configs])
    return configs


async def _run(
    options: ServeOptions,
    configs: Sequence[StoreConfig],
    places: Places,
    stack: contextlib.ExitStack,
) -> None:
    """Serve until a signal comes.

    Raises:
        ReputError: a port is taken, a file of the settings cannot be used, or a store was not
            served.
    """
    from reput.remoting.server.ports import Place

    metrics = _metrics(options, stack)
    stands = Stands(options, configs, places, metrics)
    begun = stands.begin()
    names = _name_server(options, configs[0], places, metrics)
    listened = [(Place(*stand.listened), thread) for stand, thread in begun]
    server = _listening(options, listened, names, places, stands)
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, server.end)
    await server.check()
    _warn(options, places)
    _report([stand for stand, _ in begun], server, places)
    try:
        await server.run(stands.run(server))
    finally:
        # What still compiles, or waits for a disk, is not waited for.
        leave_at_once()
    for number in SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    stands.require_all()
    LOG.info("ended")


def _name_server(
    options: ServeOptions, first: StoreConfig, places: Places, metrics: ServeMetrics | None
) -> tuple[Place, Release, Counters] | None:
    """Return what the name server is made of, None for none; it is of the first store's release."""
    from reput.remoting.names.release import RELEASES
    from reput.remoting.server.ports import Place
    from reput.streaming.observe.serving import NAME_SERVER

    if places.names is None:
        if options.accept_brokers:
            raise UsageError("--accept-brokers is about the name server, and that is off")
        return None
    counters = counters_of(metrics, cluster_of(options, first), NAME_SERVER)
    return Place(*places.names), RELEASES[first.settings.version.family], counters


def _warn(options: ServeOptions, places: Places) -> None:
    """Say loudly what anybody who reaches the ports may do."""
    from reput.remoting.access.openness import announcement

    hosts = {each.host for each in places.brokers}
    if places.names is not None:
        hosts.add(places.names.host)
    warning = announcement(
        sorted(hosts),
        has_accounts=options.acl is not None,
        has_tls=options.tls_required,
        knows_clients=options.tls_trusted is not None and options.tls_required,
    )
    if warning is not None:
        LOG.warning("%s", warning)


def _listening(
    options: ServeOptions,
    listened: list[tuple[Place, StoreThread]],
    names: tuple[Place, Release, Counters] | None,
    places: Places,
    stands: Stands,
) -> Server:
    from reput.remoting.server.ports import Place
    from reput.remoting.server.server import Others, Server

    registered = [Place(*each) for each in places.registered]
    others = Others(options.accept_brokers, registered, stands.missing, stands.lost)
    try:
        return Server(listened, names, _tls(options), others)
    except OSError as error:
        raise ReputError(cannot_listen(error)) from error


def _report(stands: Sequence[Stand], server: Server, places: Places) -> None:
    ports = list(server.ports)
    if places.names is not None:
        LOG.info("name server on %s", places.names._replace(port=ports.pop(0)))
    for stand, port in zip(stands, ports, strict=True):
        stand.tell(port)


def _tls(options: ServeOptions) -> Tls | None:
    """Return how TLS is spoken; None for plain connections only.

    Raises:
        UsageError: something of it is given without a certificate.
        AccessError: a file cannot be used.
    """
    from reput.remoting.access.tls import ClientAuth, Mode, Renewed, TlsFiles
    from reput.remoting.server.ports import Tls

    if options.tls_cert is None:
        others = (options.tls_key, options.tls_key_password_file, options.tls_trusted)
        if any(others) or options.tls_required:
            raise UsageError("TLS needs a certificate: give it with --tls-cert FILE")
        return None
    mode = Mode.ENFORCING if options.tls_required else Mode.PERMISSIVE
    auth = ClientAuth.NONE if options.tls_trusted is None else ClientAuth.REQUIRE
    renewed = Renewed(
        TlsFiles(
            options.tls_cert,
            options.tls_key,
            options.tls_key_password_file,
            trusted=options.tls_trusted,
            client_auth=auth,
            mode=mode,
        )
    )
    return Tls(lambda: renewed.context, mode, renewed.tick, lambda: renewed.is_broken)


def _metrics(options: ServeOptions, stack: contextlib.ExitStack) -> ServeMetrics | None:
    """Answer to Prometheus and to health checks until the stack ends; None where it is off."""
    if options.metrics_port is None:
        return None
    from reput.streaming.observe.server import serve as answer
    from reput.streaming.observe.serving import ServeMetrics

    metrics = ServeMetrics()
    server = answer(metrics, options.metrics_host, options.metrics_port, 0)
    stack.callback(server.server_close)
    stack.callback(server.shutdown)
    LOG.info("metrics on http://%s:%d/metrics", options.metrics_host, server.server_port)
    return metrics
