"""What a broker answers tools, in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.remoting.admin.broker import RuntimeInfo
from reput.remoting.admin.groups import Groups
from reput.remoting.admin.lacking import Lacking
from reput.remoting.admin.lags import Lags
from reput.remoting.admin.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.remoting.groups.requests import GroupState
    from reput.remoting.reading.answer import Answer
    from reput.remoting.reading.served import Served
    from reput.remoting.wire.channel import Channel
    from reput.remoting.wire.command import Command

    Handler = Callable[[Command, Channel], Answer | None]


def handlers(
    state: GroupState,
    served: Served,
    properties: Mapping[str, str],
    named: tuple[str, str],
    address: str,
) -> dict[int, Handler]:
    """Return what is answered here, by code of the request.

    Args:
        state: what is known of groups.
        served: the store.
        properties: its broker.conf.
        named: the broker's name and its cluster's.
        address: what clients dial.
    """
    return {
        **Topics(served, named).handlers(),
        **Groups(state, served, named[0]).handlers(),
        **Lags(state, served, named[0], address).handlers(),
        **Lacking(state, served, properties).handlers(),
        **RuntimeInfo(served, properties, named).handlers(),
    }
