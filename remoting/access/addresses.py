"""Which addresses need no signature: `RemoteAddressStrategyFactory` of 4.9.8 and 5.1.

========================== ====================================================
text                       addresses
========================== ====================================================
nothing, blanks            none
`*`  `*.*.*.*`             all; so does `*:*:*:*:*:*:*:*`
`10.0.0.1`  `fe80::1`      that one
`10.0.0.1,10.0.0.2`        those, without blanks between them
`10.0.0.{1,2}`             those; braces are the last part
`10.0.0.*`  `10.0.1-9.*`   a range; what follows its first part does not matter
`fe80::1:1-200`            a range in the last part, or in the two last: `fe80::1:1-200:*`
`fe80:0:*`                 a range after fewer parts: what follows does not matter
========================== ====================================================
"""

from __future__ import annotations

import functools
import ipaddress
from typing import NamedTuple

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_ALL = {"*", "*.*.*.*", "*:*:*:*:*:*:*:*"}


class Range(NamedTuple):
    """Addresses whose first parts are given, and whose next part lies between two.

    Attributes:
        version: 4 or 6.
        head: the parts before it.
        low: the first of them.
        high: the last of them.
    """

    version: int
    head: tuple[int, ...]
    low: int
    high: int

    def has(self, address: Address) -> bool:
        """Tell whether an address lies in it."""
        if address.version != self.version:
            return False
        raw, size = address.packed, 1 if self.version == 4 else 2
        parts = [int.from_bytes(raw[at : at + size], "big") for at in range(0, len(raw), size)]
        count = len(self.head)
        return tuple(parts[:count]) == self.head and self.low <= parts[count] <= self.high


class Addresses(NamedTuple):
    """What one text allows.

    Attributes:
        is_all: every peer, even one without an address.
        each: single ones.
        range: None where there is none.
    """

    is_all: bool = False
    each: frozenset[Address] = frozenset()
    range: Range | None = None

    def has(self, address: Address | None) -> bool:
        """Tell whether a peer is one of them; None is a peer that has no such address."""
        if self.is_all:
            return True
        if address is None:
            return False
        return address in self.each or (self.range is not None and self.range.has(address))


NONE = Addresses()


def parse(text: str | None) -> Addresses:
    """Return the addresses that a text of `plain_acl.yml` allows.

    A broker takes some texts at its start, and fails with each request afterwards: `*.1.2.3`. Those
    are refused here.

    Raises:
        ValueError: it is not one of the forms above.
    """
    if text is None or not text.strip():
        return NONE
    if text in _ALL:
        return Addresses(is_all=True)
    if text.endswith("}"):
        return Addresses(each=frozenset(map(_one, _expanded(text))))
    if "," in text:
        return Addresses(each=frozenset(_one(each) for each in text.split(",") if each))
    if "*" in text or "-" in text:
        return Addresses(range=_range6(text) if ":" in text else _range4(text))
    return Addresses(each=frozenset({_one(text)}))


@functools.lru_cache(maxsize=4096)
def of_peer(peer: str) -> Address | None:
    """Return the address of a connection's other side, None if it has none.

    It is asked with each request of a connection.

    Args:
        peer: "127.0.0.1:4711", "[::1]:4711", or as Java writes it: "0:0:0:0:0:0:0:1:4711".
    """
    host = peer.rpartition(":")[0] if ":" in peer else peer
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    # Java knows an IPv4 peer of an IPv6 socket as what it is.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _one(text: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an address") from None


def _expanded(text: str) -> list[str]:
    mark = ":" if ":" in text else "."
    parts = [each for each in text.split(mark) if each]
    if not parts[-1].startswith("{") or (mark == "." and len(parts) < 4):
        raise ValueError(f"{text!r}: braces stand for the last part of an address, and only there")
    head = text[: text.index("{")]
    return [head + each for each in parts[-1][1:-1].split(",") if each]


def _range4(text: str) -> Range:
    parts = [each.strip() for each in text.split(".")]
    if len(parts) != 4:
        raise ValueError(f"{text!r} does not have four parts")
    for at in (1, 2, 3):
        if parts[at] == "*" or "-" in parts[at]:
            low, high = _bounds(text, parts[at], 10, 255)
            if high:
                return Range(4, tuple(_part(text, each, 10, 255) for each in parts[:at]), low, high)
    raise ValueError(f"{text!r}: a range stands in the second, third or fourth part")


def _range6(text: str) -> Range:
    parts = text.split(":")
    ranges = [at for at, part in enumerate(parts) if part == "*" or "-" in part]
    last = len(parts) - 1
    if ranges not in ([last], [last - 1, last]) or (len(ranges) == 2 and parts[last] != "*"):
        raise ValueError(f"{text!r}: a range stands in the last part, or before a last part of *")
    head = _head6(text, parts[: ranges[0]], 8 - len(ranges))
    low, high = _bounds(text, parts[ranges[0]], 16, 0xFFFF)
    return Range(6, head, low, high)


def _head6(text: str, parts: list[str], count: int) -> tuple[int, ...]:
    """Return the parts before a range, `::` among them expanded to `count` parts.

    Where `::` is the last thing before the range, it is one part of zero: `fe80::*` begins with
    `fe80:0`, and says nothing of the rest.
    """
    prefix = ":".join(parts)
    if "::" in prefix:
        raw = _one(prefix + ":0" * (8 - count)).packed[: 2 * count]
        return tuple(int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2))
    if not parts[0] or len(parts) > count:
        raise ValueError(f"{text!r} has too many parts, or none before its range")
    return tuple(_part(text, each or "0", 16, 0xFFFF) for each in parts)


def _bounds(text: str, part: str, base: int, most: int) -> tuple[int, int]:
    if part == "*":
        return 0, most
    bounds = [each for each in part.split("-") if each]
    if part.startswith("-") or len(bounds) < 2:
        raise ValueError(f"{text!r}: a range is two numbers, 1-9")
    low, high = (_part(text, each, base, most) for each in bounds[:2])
    if low > high:
        raise ValueError(f"{text!r}: {bounds[0]} is past {bounds[1]}")
    return low, high


def _part(text: str, part: str, base: int, most: int) -> int:
    try:
        number = int(part, base)
    except ValueError:
        raise ValueError(f"{text!r}: {part!r} is not a number") from None
    if not 0 <= number <= most:
        raise ValueError(f"{text!r}: {part} is not between 0 and {most:x}")
    return number
