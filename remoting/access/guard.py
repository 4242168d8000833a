"""What guards a store: its ACL; or nothing, as its broker did or the operator says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.access.check import Access, Open
from reput.remoting.access.errors import AccessError
from reput.remoting.access.openness import refuse_open

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reput.remoting.access.check import Reports
    from reput.remoting.names.release import Release


def guard(
    acl: Path | None,
    broker_conf: tuple[str, Mapping[str, str]],
    release: Release,
    reports: Reports | None = None,
    *,
    is_open: bool = False,
) -> Access | Open:
    """Return what judges the requests for a store.

    Args:
        acl: `plain_acl.yml` or the broker's `conf`; None where the operator gave none.
        broker_conf: the name and the settings of the broker's broker.conf.
        release: whose broker it judges like.
        reports: what is told of an ACL.
        is_open: the operator says that anybody may read.

    Raises:
        AccessError: the files cannot be used, the operator says two things, or the broker checked
            who asks and nothing would here.
    """
    if acl is not None:
        if is_open:
            raise AccessError("--acl and --open-access are two answers to one question: give one")
        try:
            return Access(acl, release, reports)
        except OSError as error:
            raise AccessError(
                f"--acl {acl}: {error.strerror}; give the broker's plain_acl.yml, or its conf"
            ) from None
    if not is_open:
        name, properties = broker_conf
        refuse_open(properties, name)
    return Open()
