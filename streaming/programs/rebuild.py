"""`reput.rebuild`: all that a store has is dispatched, for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.checkpoints.disk import locks
from reput.formats.errors import BodyError, FileSizeError, FormatError, UsageError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import Verdict
from reput.stores.config.changing import Changing
from reput.stores.log.holes import HoleWatch, flaw_after
from reput.stores.log.tail import find_tail
from reput.stores.log.unreadable import place_of
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.dispatch.log.damage import explained
from reput.streaming.programs.answers import Dispatched
from reput.streaming.programs.arguments import config_of, naming_arguments, path_of
from reput.streaming.verify.version_seen import refuse_version_of_store

if TYPE_CHECKING:
    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.programs.arguments import AnyPath, BrokerConf
    from reput.streaming.settings.config import StoreConfig

_ON_CORRUPT = ("stop", "skip")


def rebuild(
    store: AnyPath,
    output: AnyPath,
    *,
    broker_version: str,
    broker_conf: BrokerConf | None,
    on_corrupt: str,
    any_version: bool,
) -> Dispatched:
    """Dispatch what a store has, up to its end or to damage of its log; see `reput.rebuild`."""
    if on_corrupt not in _ON_CORRUPT:
        raise UsageError(f'on_corrupt must be "stop" or "skip", and not {on_corrupt!r}')
    with naming_arguments():
        config = config_of(
            store,
            path_of("output", output),
            broker_version=broker_version,
            broker_conf=broker_conf,
            any_version=any_version,
        )
        refuse_version_of_store(config)
        try:
            return _dispatched(config, skips_corrupt=on_corrupt == "skip")
        except (BodyError, FileSizeError):
            raise
        except FormatError as error:
            # Once all is closed: it says how much is dispatched.
            said = explained(error, config) if on_corrupt == "stop" else None
            if said is None:
                raise
            raise said from error


def _dispatched(config: StoreConfig, *, skips_corrupt: bool) -> Dispatched:
    """Dispatch up to the log's end, or to what cannot be passed over there.

    Raises:
        FormatError: that, after what is before it.
    """
    dispatcher = StoreDispatcher(config, skips_corrupt=skips_corrupt)
    try:
        log = dispatcher.log
        end, flaw = _end_of(config, log, skips_corrupt=skips_corrupt)
        batch = dispatcher.dispatch(end)
        if flaw is not None:
            raise flaw
        # As a start does: what they said when this began may be old.
        Changing.of(config.path, config.settings)
        return Dispatched(
            start=batch.start,
            end=batch.end,
            # If only a BLANK is left, nothing is.
            log_end=batch.end if log.after_blank(batch.end) == end else end,
            messages=batch.messages,
            entries=batch.entries,
            items=batch.items,
            skipped=batch.skipped,
            events=tuple(batch.events),
        )
    finally:
        dispatcher.close()


def _end_of(
    config: StoreConfig, log: CommitLog, *, skips_corrupt: bool
) -> tuple[int, FormatError | None]:
    """Return where to end, and what is wrong there.

    A broker that holds the store has recovered it: it drops what follows its log's end.
    """

    def is_live() -> bool:
        return locks.is_held(config.path / names.LOCK)

    holes = HoleWatch(log, is_live) if skips_corrupt else None
    try:
        tail = find_tail(log, skips_corrupt=skips_corrupt, holes=holes)
        if tail.reason == Verdict.SHORT and log.wait_for_rest():
            # A record that counts as torn while a broker may write it is whole if none does.
            tail = find_tail(log, skips_corrupt=skips_corrupt, holes=holes)
    except FormatError as error:
        place = place_of(log, error)
        if place is None:
            raise
        return place, error
    if is_live():
        return tail.end, None
    return tail.end, flaw_after(log, tail.end, tolerates_damage=skips_corrupt)
