"""Whether a topic without queues can be known to have no messages: by queues that have all the log.

A queue that is not there says little by itself: a broker removes the queues of a topic that it
deletes and leaves the records, and what is not dispatched yet is in no queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import ReputError
from reput.stores.query import coverage
from reput.streaming.source.datasource import BatchReader
from reput.streaming.source.opening import open_stores
from reput.streaming.source.pushdown.trust import trust_in

if TYPE_CHECKING:
    from reput.streaming.source.options import SourceOptions


def queues_have_all(options: SourceOptions) -> bool:
    """Tell whether the queues of a store name every record of its log.

    Then a topic, or a queue, that is not among them has no record at all.

    Args:
        options: of the source, for one store; its log is read up to where they say.

    Returns:
        False too where that cannot be said: a broker runs, or was killed, and may not have
        dispatched the newest records; entries may be of other topics' records.
    """
    [store] = options.stores
    if store.settings.multi_dispatch:
        return False
    root = store.output or store.path
    try:
        stores = open_stores(options)
        starts, ends = BatchReader(options).bounds(stores)
        log = stores[store.name].log()
        if log is None:
            return False
        start, end = starts[store.name], ends[store.name]
        # Before the queues: what is dispatched meanwhile is found in them.
        trust = trust_in(root, log, end, never_cut=False)
        if not trust.is_closed and (trust.queues is None or trust.queues < end):
            return False
        queues = coverage.read_queues(root, start, end)
        if trust.queues is None:
            queues, _ = coverage.settled(queues, log, is_closed=True)
        return coverage.gaps_of(coverage.before(queues, end), log, start, end) == []
    except (ReputError, coverage.TooManyEntriesError):
        # The export reads the log next, and says what is wrong with it.
        return False
