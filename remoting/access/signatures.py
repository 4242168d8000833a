"""Did the owner of a secret send a request? `AclUtils#combineRequestContent`, `AclSigner`."""

from __future__ import annotations

import binascii
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.remoting.wire.command import Command

KEY, SIGNATURE = "AccessKey", "Signature"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
"""Clients up to 4.9.3 add this field after they have signed."""

V4_9_3 = 399


def content(request: Command) -> bytes:
    """Return what a client signs: the values of all fields in the order of their names, the body.

    Brokers of 4.9 leave `UNIQUE_KEY_QUERY` out for all, and so refuse the queries of clients
    from 4.9.4 on. This is what those of 5.x do.

    Args:
        request: it has fields.
    """
    left_out = {SIGNATURE}
    if request.version <= V4_9_3:
        left_out.add(UNIQUE_KEY_QUERY)
    given = request.fields or {}
    values = "".join(given[name] for name in sorted(given) if name not in left_out)
    return values.encode("utf-8", "replace") + bytes(request.body)


def sign(signed: bytes, secret: bytes) -> bytes:
    """Return the signature: HMAC-SHA1 in Base64."""
    return binascii.b2a_base64(hmac.digest(secret, signed, "sha1"), newline=False)


def is_right(given: str | None, signed: bytes, secret: bytes) -> bool:
    """Tell whether a signature is the one of that content, in a time that does not tell more."""
    return hmac.compare_digest(sign(signed, secret), (given or "").encode("utf-8", "replace"))
