"""Options of `reput serve`: where clients find the stores, and who may come."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from reput.remoting.groups.offsets import Seed
from reput.remoting.sending.sent_back import OnSentBack
from reput.streaming.settings.model.choices import LogMode
from reput.streaming.settings.model.monitoring import MOST_PORT
from reput.streaming.settings.model.option import MONITORING, SERVING, Option
from reput.streaming.settings.model.stores import StoreOptions

SENT_BACK_BYTES = "256m"
"""What `--sent-back-bytes` is where messages are kept and nothing is said."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions(StoreOptions):
    """Options of `reput serve`."""

    listen: Annotated[
        str,
        Option(
            panel=SERVING,
            metavar="HOST:PORT",
            help="Where the broker listens. Of several stores, each has the next port.",
        ),
    ] = "127.0.0.1:10911"
    namesrv_listen: Annotated[
        str,
        Option(
            panel=SERVING,
            metavar="HOST:PORT",
            help='Where the name server listens; "off" for none.',
        ),
    ] = "127.0.0.1:9876"
    accept_brokers: Annotated[
        bool,
        Option(
            panel=SERVING,
            help="Brokers of others may register at the name server, as at RocketMQ's: anybody can "
            "who can connect.",
        ),
    ] = False
    register: Annotated[
        str | None,
        Option(
            panel=SERVING,
            metavar="HOST:PORT[;HOST:PORT]",
            help="Name servers of RocketMQ at which the broker registers itself. [default: none]",
        ),
    ] = None
    advertise: Annotated[
        str | None,
        Option(
            panel=SERVING,
            metavar="HOST[:PORT]",
            help="What clients dial to reach the broker. It has to be given if --listen is on all "
            "addresses. [default: as --listen]",
        ),
    ] = None
    rewrite_hosts: Annotated[
        bool,
        Option(
            panel=SERVING,
            help="Messages leave with the address that clients dial as their store host, so that "
            "tools find them here by their ids.",
        ),
    ] = False
    broker_name: Annotated[
        str | None,
        Option(
            panel=SERVING,
            help="The broker's name, of one store. [default: brokerName of its broker.conf, or the "
            "store's name]",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        Option(
            panel=SERVING,
            help="The cluster's name. [default: brokerClusterName of broker.conf, or "
            "DefaultCluster]",
        ),
    ] = None
    offsets: Annotated[
        Path,
        Option(
            panel=SERVING,
            help="Directory where offsets of consumer groups are kept, a file for each broker. The "
            "broker's own file is never written.",
        ),
    ] = Path("~/.local/state/reput")
    offsets_from: Annotated[
        Seed,
        Option(
            panel=SERVING,
            help="Where groups begin that have no offsets there: at the broker's, or from scratch.",
        ),
    ] = Seed.BROKER
    new_groups_read_all: Annotated[
        bool,
        Option(
            panel=SERVING,
            help="As a broker does it: a group without offsets begins with a queue's first message "
            "if that is message 0, whatever its clients ask for.",
        ),
    ] = False
    sent_back: Annotated[
        OnSentBack,
        Option(
            panel=SERVING,
            help="Messages that consumers send back to try again later. refuse: the consumer keeps "
            "them and tries itself. accept: they are counted, logged and gone. keep: they stand in "
            "a log beside the offsets, and are consumed again as with a broker.",
        ),
    ] = OnSentBack.REFUSE
    sent_back_bytes: Annotated[
        str | None,
        Option(
            unit="bytes",
            panel=SERVING,
            help="With --sent-back keep: the most that each broker's log takes, at least 64m. "
            f"[default: {SENT_BACK_BYTES}]",
        ),
    ] = None
    acl: Annotated[
        Path | None,
        Option(
            panel=SERVING,
            help="The broker's plain_acl.yml, or its conf directory: only its accounts may read.",
        ),
    ] = None
    open_access: Annotated[
        bool,
        Option(
            panel=SERVING,
            help="Serve to anybody who can connect, although the store's broker checked who asks.",
        ),
    ] = False
    tls_cert: Annotated[
        Path | None,
        Option(panel=SERVING, help="PEM file: the ports speak TLS with this certificate."),
    ] = None
    tls_key: Annotated[
        Path | None, Option(panel=SERVING, help="PEM file of the certificate's key.")
    ] = None
    tls_key_password_file: Annotated[
        Path | None, Option(panel=SERVING, help="File with the key's password.")
    ] = None
    tls_trusted: Annotated[
        Path | None,
        Option(
            panel=SERVING,
            help="PEM file: clients show a certificate signed by one of these CAs.",
        ),
    ] = None
    tls_required: Annotated[bool, Option(panel=SERVING, help="Refuse connections without TLS.")] = (
        False
    )
    metrics_port: Annotated[
        int | None,
        Option(
            least=0,
            most=MOST_PORT,
            panel=MONITORING,
            help="Answer /metrics (Prometheus), /healthz and /readyz on this port. [default: off]",
        ),
    ] = None
    metrics_host: Annotated[
        str, Option(panel=MONITORING, help="The address that the port is opened on.")
    ] = "127.0.0.1"
    log_format: Annotated[
        LogMode, Option(panel=MONITORING, help="Log lines as text, or as JSON.")
    ] = LogMode.TEXT
