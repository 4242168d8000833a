"""What clients dial, as records and the ids of messages have it: an address, and never a name."""

from __future__ import annotations

import functools
import ipaddress
import socket

from reput.formats.errors import UsageError
from reput.remoting.reading.hosts import Host, address_of


@functools.lru_cache(64)
def resolved(address: str) -> Host:
    """Return an address whose host may be a name.

    Raises:
        UsageError: the name is not known.
    """
    host, port = address_of(address)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise UsageError(
                f"--advertise {address}: ids of messages have an address, and this name has none "
                f"({error})"
            ) from error
        # Ids with an IPv4 address are those that all tools read.
        family = min(found, key=lambda each: each[0] != socket.AF_INET)
        return Host(str(family[4][0]), port)
    return Host(host, port)
