"""Is a store to be served openly? Only if its broker did so too, or if the operator says so."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from reput.remoting.access.errors import AccessError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PLAIN = "aclEnable"
"""ACL 1.0: `plain_acl.yml`, up to 5.2."""
NEWER = ("authenticationEnabled", "authorizationEnabled")
"""ACL 2.0, from 5.3 on: users and rules in a RocksDB of the broker."""


def refuse_open(properties: Mapping[str, str], name: str) -> None:
    """Refuse to serve a store without an ACL if its broker had one.

    Call it where the operator gave neither accounts nor leave to serve the store openly.

    Args:
        properties: the broker's broker.conf.
        name: what that file is called in messages.

    Raises:
        AccessError: the broker checked who asks.
    """
    guards = [
        each for each in (PLAIN, *NEWER) if properties.get(each, "").strip().lower() == "true"
    ]
    if not guards:
        return
    if guards[0] == PLAIN:
        remedy = "give the broker's conf/plain_acl.yml, or its conf, with --acl"
    else:
        remedy = (
            "its users and rules are in a RocksDB that reput does not read: write a "
            "plain_acl.yml with those that may read and give it with --acl; clients sign alike"
        )
    raise AccessError(
        f"{name} has {guards[0]}=true, so the broker of this store checked who asks; {remedy}. To "
        "serve it to anybody who can connect, say --open-access"
    )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address that is listened on."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        # A name, or nothing, which is all addresses.
        return False


def announcement(
    hosts: Iterable[str], *, has_accounts: bool, has_tls: bool, knows_clients: bool
) -> str | None:
    """Return what an operator is told of a server that others reach, None if all is guarded.

    Args:
        hosts: what is listened on.
        has_accounts: an ACL is in force.
        has_tls: plain connections are refused.
        knows_clients: TLS asks for a certificate and requires it.
    """
    reached = [host or "all addresses" for host in hosts if not is_loopback(host)]
    if not reached:
        return None
    where = ", ".join(reached)
    if not has_accounts and not knows_clients:
        read = "anybody who can connect reads every message"
        seen = "" if has_tls else ", and anybody between sees it: nothing is encrypted"
        return f"listening on {where}: {read}{seen}. Give --acl, --tls-cert, or a NetworkPolicy"
    if not has_tls:
        return f"listening on {where} without TLS: messages are not encrypted. Give --tls-cert"
    return None
