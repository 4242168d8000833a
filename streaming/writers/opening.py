"""Opens the output of a writer process, once a writer that is about to end has ended."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reput.checkpoints.disk import locks
from reput.checkpoints.progress import STATE_DIRECTORY
from reput.formats.errors import StoreError
from reput.stores.heap import give_back_large
from reput.streaming.dispatch.warm import warm_up
from reput.streaming.events import Event, kind_of_event
from reput.streaming.settings.config import StoreConfig, store_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.writers.executors.protocol import Spec

_LOCK_POLL_SECONDS = 0.5


def open_output(spec: Spec, patience: float, is_over: Callable[[], bool]) -> StoreDispatcher:
    """Open the output of a writer.

    Args:
        spec: what the writer is for.
        patience: seconds to wait for another writer's lock.
        is_over: tells whether to wait no longer.

    Raises:
        ReputError: what is wrong with the store or the output; which process has it locked.
        OSError: no permission, no space.
    """
    if spec.follows:
        give_back_large()
    warming = warm_up()
    config = _config_of(spec)
    lock = Path(spec.output, STATE_DIRECTORY, locks.WRITER_LOCK)
    deadline = time.monotonic() + patience
    while True:
        try:
            dispatcher = spec.options.open(config)
            break
        except StoreError:
            if time.monotonic() > deadline or not locks.is_held(lock) or is_over():
                raise
        time.sleep(_LOCK_POLL_SECONDS)
    warming.join()
    return dispatcher


def _config_of(spec: Spec) -> StoreConfig:
    config = store_config(
        Path(spec.path),
        None if spec.in_place else Path(spec.output),
        name=spec.name,
        broker_version=spec.version,
        broker_conf=spec.properties,
        in_place=spec.in_place,
        commitlog=[Path(place) for place in spec.commitlog],
    )
    if spec.kafka is None:
        return config
    from reput.streaming.settings.kafka import from_fields  # noqa: PLC0415 - a client few need

    return replace(config, kafka=from_fields(spec.kafka))


def events_of(dispatcher: StoreDispatcher) -> list[str]:
    """Return what an operator should know of the opening: what was rolled back, and warnings."""
    recovery = dispatcher.recovery
    rolled_back = [
        Event(
            f"{reason}; {recovery.entries} entries and {recovery.items} index items "
            "beyond its progress were rolled back",
            kind_of_event(reason),
        )
        for reason in recovery.reasons
    ]
    return [*rolled_back, *map(Event, dispatcher.warnings)]
