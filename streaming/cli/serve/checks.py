"""Which options of `reput serve` cannot be meant together? Said before anything is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import UsageError
from reput.streaming.cli.serve.places import EVERYWHERE, Address
from reput.streaming.settings.option_values import number_of_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reput.streaming.cli.serve.places import Places
    from reput.streaming.settings.model.serving import ServeOptions


def refuse_contradictions(options: ServeOptions, places: Places) -> None:
    """Refuse what cannot be meant.

    Raises:
        UsageError: names the options.
    """
    sent_back_bytes(options)
    _refuse_file(options.offsets.expanduser())
    if options.metrics_port is not None:
        _refuse_taken(Address(options.metrics_host, options.metrics_port), places)


def refuse_names(options: ServeOptions, names: Sequence[str]) -> None:
    """Refuse brokers that clients, or the metrics, would take for another one.

    Raises:
        UsageError: names one.
    """
    # Slow to import.
    from reput.streaming.observe.serving import NAME_SERVER

    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"two stores are of a broker called {twice!r}, and clients tell brokers by name: serve "
            "each by itself, with --store-name and a --broker-name"
        )
    if options.metrics_port is not None and NAME_SERVER in names:
        raise UsageError(
            f"a broker called {NAME_SERVER!r} has the series of the name server, which hide "
            "whether its store is served: give --broker-name"
        )


def sent_back_bytes(options: ServeOptions) -> int | None:
    """Return the most that a log of messages that are sent back takes; None if none is kept.

    Raises:
        UsageError: it is too little, or no number, or nothing is kept.
    """
    # Slow to import.
    from reput.remoting.keeping.kept import LEAST_BYTES
    from reput.remoting.sending.sent_back import OnSentBack
    from reput.streaming.settings.model.serving import SENT_BACK_BYTES

    given = options.sent_back_bytes
    if options.sent_back is not OnSentBack.KEEP:
        if given is not None:
            raise UsageError(
                f"--sent-back-bytes {given}: nothing is kept of what consumers send back; give "
                "--sent-back keep too, or leave it out"
            )
        return None
    most = number_of_bytes(given or SENT_BACK_BYTES, "--sent-back-bytes ")
    if most < LEAST_BYTES:
        raise UsageError(
            f"--sent-back-bytes {given}: a log of messages that are sent back takes at least "
            f"{LEAST_BYTES >> 20}m, four files"
        )
    return most


def _refuse_file(directory: Path) -> None:
    """Refuse to keep offsets where a file is, or below one."""
    there = next((each for each in (directory, *directory.parents) if each.exists()), None)
    if there is not None and not there.is_dir():
        raise UsageError(
            f"--offsets {directory}: {there} is not a directory; give one, where each broker has "
            "a file of its own"
        )


def _refuse_taken(metrics: Address, places: Places) -> None:
    """Refuse a port of metrics on which clients are to be answered."""
    taken = [("--listen", each) for each in places.brokers]
    if places.names is not None:
        taken.append(("--namesrv-listen", places.names))
    for option, place in taken:
        hosts = {metrics.host, place.host}
        if metrics.port == place.port != 0 and (len(hosts) == 1 or hosts & EVERYWHERE):
            raise UsageError(
                f"--metrics-port {metrics.port}: clients are answered there, by {option} {place}; "
                "give the metrics another port"
            )
