"""The commands of `reput query`, each imported when it is asked for."""

from __future__ import annotations

from reput.streaming.cli.app import group

_HERE = "reput.streaming.cli.query"
COMMANDS = {
    "key": f"{_HERE}.key:key",
    "id": f"{_HERE}.message_id:by_id",
    "offset": f"{_HERE}.offset:offset",
    "time": f"{_HERE}.store_time:by_time",
    "transactions": f"{_HERE}.transactions:transactions",
    "delayed": f"{_HERE}.delayed:delayed",
    "timer": f"{_HERE}.delayed:timer",
    "consumers": f"{_HERE}.consumers:consumers",
}
_HELP = """
Ask a store, from its files alone: ours, a broker's own, or a backup; live or not.

Exit codes: 0 found, 1 nothing found, 2 wrong usage, 3 failed, 4 no answer: there is no index to
look in, or it was interrupted.
"""
app = group(COMMANDS, help=_HELP)
