"""Dispatch and the way to Kafka in a process of its own, without Spark: to be killed.

    python -m tests.kafka.core STORE OUTPUT BOOTSTRAP END [KEY=VALUE...]

It ends by itself, with 0, once Kafka has the log up to END.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.settings.kafka import pairs
from tests.kafka import stores


def main(store: str, output: str, bootstrap: str, end: str, *settings: str) -> int:
    made = stores.config(Path(store), Path(output), bootstrap, **pairs(list(settings)))
    dispatcher = StoreDispatcher(made, flush=FlushPolicy(thorough_seconds=0.5))
    print("open", flush=True)
    while dispatcher.kafka is not None and dispatcher.kafka.state.end < int(end):
        tail = find_tail(dispatcher.log).end
        if tail > dispatcher.progress.end:
            dispatcher.dispatch(tail)
        dispatcher.flush_if_due()
        time.sleep(0.01)
    dispatcher.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
