"""Do store, output and version that are to be served belong together? Said before a port is open.

An output of reput's names what it was made of. Where there is no such record, as of queues that
were copied, the queues' own entries are asked: the record that one points to says which queue it
is of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.checkpoints import output_record, progress, untouched
from reput.checkpoints.disk import locks
from reput.formats.errors import FormatError, StoreError
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, HEAD, head_of
from reput.stores.following.other_store import nothing_in_common
from reput.stores.log.records import read_record
from reput.streaming.cli.serve.queue_holes import hole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.stores.query.message_store import MessageStore
    from reput.stores.queues.reader import QueueReader
    from reput.streaming.settings.config import StoreConfig

# Queues whose entries are asked.
_QUEUES = 32


def refuse_strangers(config: StoreConfig, store: MessageStore) -> None:
    """Refuse an output whose queues are certainly of another store.

    Raises:
        StoreError: names both.
    """
    if config.output.resolve() == config.path.resolve():
        return
    if output_record.read(config.output):
        # Whatever opened the store has compared it.
        return
    seen = list(_agreeing(store))
    if seen and not any(seen):
        raise nothing_in_common(config.output, config.path)


def _agreeing(store: MessageStore) -> Iterator[bool]:
    """Tell of some entries whether they are of the log; those of expired records say nothing."""
    asked = 0
    for topic in store.topics():
        if store.is_batch(topic):
            continue
        for queue_id in store.queue_ids(topic):
            queue = store.queue(topic, queue_id)
            if queue is None or queue.is_batch:
                continue
            for position in _entries(queue):
                offset, size = head_of(queue.files.read(position, HEAD.size))
                if size > 0 and offset >= store.log.min_offset:
                    record = read_record(store.log, offset)
                    is_own = record is not None and record.size == size
                    yield is_own and store.log.holds(offset)
            asked += 1
            if asked >= _QUEUES:
                return


def _entries(queue: QueueReader) -> Iterator[int]:
    """Yield where the first entry of a queue's first file is, and its last one."""
    if queue.files.bases:
        yield queue.files.bases[0]
    if queue.end >= ENTRY_SIZE:
        yield queue.end - ENTRY_SIZE


def touched(config: StoreConfig, floor: int, known: str | None = None) -> str | None:
    """Return which file of the queues is not as its writer left it, None if none is known.

    A file of a queue that is missing is passed over by a broker's rules: consumers of the queue are
    not told, and their group has no lag. So it is said here.

    Args:
        config: the store and its output.
        floor: physical offset where the log begins.
        known: what was returned before; it holds while nothing can be told, as during a repair.
    """
    state = config.output / progress.STATE_DIRECTORY
    is_held = bool(locks.holder_of(state))
    try:
        found = progress.load(config.output)
        if found is None:
            return _with_hole(config, floor, known, is_held=is_held)
        untouched.check(config.output, found, config.settings, floor)
    except (StoreError, FormatError, OSError) as error:
        # The files of a writer may be ahead of its record for a moment, and it may come or end now.
        if is_held or locks.holder_of(state):
            return known
        return f"clients may miss messages of {config.output}: {error}"
    return None


def _with_hole(config: StoreConfig, floor: int, known: str | None, *, is_held: bool) -> str | None:
    """Return which file is missing in the middle of queues of which there is no record."""
    if is_held:
        return known
    missing = hole(config.output, config.settings, floor)
    if missing is None:
        return None
    return (
        f"clients may miss messages of {config.output}: {missing}: no such file, and there are "
        "others before and after it. Restore it, or have `reput rebuild` make an output"
    )


def doubts(config: StoreConfig) -> str | None:
    """Return what speaks against the broker version that is given, None if nothing does."""
    from reput.streaming.verify.version_seen import of_another_version

    given = config.settings.version.family
    record = output_record.read(config.output)
    settings = record.get("settings")
    made = settings.get("version") if isinstance(settings, dict) else None
    if made is not None:
        if made == given:
            return None
        return (
            f"{config.output}: its queues and index were made as by a broker {made}, and clients "
            f"are answered as by {given}: give --broker-version {made}, or rebuild it"
        )
    said = of_another_version(config)
    return None if said is None else said.partition(" If the broker was upgraded")[0]
