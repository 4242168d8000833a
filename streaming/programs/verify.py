"""`reput.verify`: an output is compared with its log, for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.streaming.programs.answers import Verification
from reput.streaming.programs.arguments import config_of, naming_arguments
from reput.streaming.verify import output as verification

if TYPE_CHECKING:
    from reput.streaming.programs.arguments import AnyPath, BrokerConf


def verify(
    store: AnyPath,
    output: AnyPath | None,
    *,
    broker_version: str,
    broker_conf: BrokerConf | None,
    any_version: bool,
) -> Verification:
    """Compare an output, or a broker's own files, with the log; see `reput.verify`."""
    with naming_arguments():
        config = config_of(
            store,
            output,
            broker_version=broker_version,
            broker_conf=broker_conf,
            any_version=any_version,
        )
        return Verification.of(verification.verify(config))
