"""Where `reput serve` listens, and what clients dial: never guessed from an address of all."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import UsageError
from reput.remoting.access.openness import is_loopback

if TYPE_CHECKING:
    from reput.streaming.settings.model.serving import ServeOptions

_OFF = "off"
EVERYWHERE = {"", "0.0.0.0", "::"}  # noqa: S104 - compared with, not listened on
_MOST_PORT = 65535
# Names and addresses; what else a text has is a scheme, a list, or a slip.
_HOST = re.compile(r"[\w.:%-]+")
# No name, so an address of IPv4, or one with a slip.
_NUMBERS = re.compile(r"[0-9.]+")


class Address(NamedTuple):
    """A host and a port, as an option gives them."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Places(NamedTuple):
    """Where is listened, and what clients dial.

    Attributes:
        names: where the name server listens; None for none.
        brokers: where each listens.
        advertised: what clients dial for each.
        registered: name servers of others, at which the brokers register.
    """

    names: Address | None
    brokers: list[Address]
    advertised: list[Address]
    registered: list[Address]


def places_of(options: ServeOptions, count: int) -> Places:
    """Return where is listened.

    Raises:
        UsageError: an address is not one, or nothing says what clients dial.
    """
    first = _address("--listen", options.listen)
    listened = [_after(first, number, "--listen") for number in range(count)]
    listed = [each.strip() for each in (options.register or "").split(";")]
    registered = [_name_server(each) for each in dict.fromkeys(listed) if each]
    names = None
    if options.namesrv_listen != _OFF:
        names = _address("--namesrv-listen", options.namesrv_listen, or_else=f' or "{_OFF}"')
    if options.advertise is None:
        if first.host in EVERYWHERE:
            raise UsageError(
                f"--listen {first} is on all addresses, and clients dial one: say with --advertise "
                "HOST which of them they reach"
            )
        _refuse_to_send_home(names, first)
        return _reached(Places(names, listened, listened, registered))
    given = _dialled(options.advertise, first.port)
    advertised = [_after(given, number, "--advertise") for number in range(count)]
    return _reached(Places(names, listened, advertised, registered))


def _refuse_to_send_home(names: Address | None, listened: Address) -> None:
    """Refuse a name server that other machines reach, of a broker that they do not.

    Raises:
        UsageError: they would be told to dial themselves.
    """
    if names is not None and is_loopback(listened.host) and not _is_here(names):
        raise UsageError(
            f"--namesrv-listen {names}: clients of other machines would be told to dial {listened},"
            " which each of them takes for itself; give --listen and --advertise too"
        )


def _is_here(names: Address) -> bool:
    """Tell whether only this machine reaches what listens at an address, whose name may say it.

    Raises:
        UsageError: its name leads nowhere.
    """
    host = names.host
    if host in EVERYWHERE:
        return False
    # Whatever addresses the name has besides, no other is listened at.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        wrong = getattr(error, "strerror", None) or error
        raise UsageError(
            f"--namesrv-listen {names}: nothing can listen at {host!r}: {wrong}"
        ) from error
    return all(is_loopback(str(each[4][0])) for each in found)


def _reached(places: Places) -> Places:
    """Return the places, if clients of each name server reach what is registered there.

    Raises:
        UsageError: only this machine does.
    """
    dialled = places.advertised[0]
    others = [each for each in places.registered if not is_loopback(each.host)]
    if others and is_loopback(dialled.host):
        raise UsageError(
            f"--register {others[0]}: clients would be told to dial {dialled}, which each of them "
            "takes for itself; say with --advertise HOST where they reach this machine"
        )
    return places


def _address(option: str, text: str, port: int | None = None, or_else: str = "") -> Address:
    """Return the address that an option gives.

    Args:
        option: that it is of.
        text: of it.
        port: where the text has none; None if it has to have one.
        or_else: what else the option takes.

    Raises:
        UsageError: it is not one.
    """
    host, colon, number = text.rpartition(":")
    if port is not None and (not colon or text.endswith("]")):
        return Address(text.strip("[]"), port)
    is_number = number.isascii() and number.isdecimal()
    if not colon or not is_number or int(number) > _MOST_PORT:
        raise UsageError(
            f"{option} {text!r} is not HOST:PORT with a port up to {_MOST_PORT}{or_else}"
        )
    return Address(host.strip("[]"), int(number))


def _name_server(text: str) -> Address:
    """Return a name server of others, as it was given.

    Raises:
        UsageError: nothing can be registered there.
    """
    given = _address("--register", text)
    if not given.port or not _is_host(given.host):
        raise UsageError(
            f"--register {text!r}: a name server is one HOST:PORT, such as 10.0.0.5:9876 or "
            "[2001:db8::5]:9876; several have a semicolon between them"
        )
    return given


def _dialled(text: str, port: int) -> Address:
    """Return what clients dial, as it was given.

    Raises:
        UsageError: no client can dial it.
    """
    try:
        # An IPv6 address without a port; its last part is none.
        given = Address(str(ipaddress.IPv6Address(text)), port)
    except ValueError:
        given = _address("--advertise", text, port)
    if given.host in EVERYWHERE:
        raise UsageError(f"--advertise {given}: no client can dial all addresses; name a host")
    if given.port == 0 and port:
        raise UsageError(f"--advertise {text!r}: no client can dial port 0")
    if not _is_host(given.host):
        raise UsageError(
            f"--advertise {text!r}: clients dial one HOST or HOST:PORT, such as 10.0.0.7:10911 or "
            "[2001:db8::7]:10911"
        )
    return given


def _is_host(host: str) -> bool:
    """Tell whether a text is an address, or can be a name."""
    if ":" in host or _NUMBERS.fullmatch(host):
        try:
            return bool(ipaddress.ip_address(host))
        except ValueError:
            return False
    return _HOST.fullmatch(host) is not None


def _after(address: Address, number: int, option: str) -> Address:
    """Return the address of a store further on; any port stays any port."""
    port = address.port + number if address.port else 0
    if port > _MOST_PORT:
        raise UsageError(
            f"{option} {address}: each store has the next port, and there is none left"
        )
    return address._replace(port=port)
