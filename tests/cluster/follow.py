"""Dispatches the stores of a configuration until it is killed or told to end, without Spark.

    python -m tests.cluster.follow reput.toml

What the job does with its batches taken away: the watch of each log's end and the dispatcher are the
job's. It starts within a second, so it can be killed more often. Its log lines are those that
`reput run --log-format json` has for events.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from pathlib import Path

from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.tail_watch import TailWatch
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.events import kind_of_event
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.settings.reput_toml import read_config

_POLL_SECONDS = 0.05
_POLICY = FlushPolicy(is_sync=False, seconds=0.5, least_pages=2, thorough_seconds=1.0)


def _tell(**said: object) -> None:
    now = time.time()
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f",{int(now % 1 * 1000):03d}"
    print(json.dumps({"time": text, **said}), flush=True)


def _tell_event(store: str, event: str) -> None:
    _tell(message=event, store=store, event=kind_of_event(event))


def main(config: Path) -> None:
    """Follow until SIGTERM."""
    # No threading.Event: a handler that comes while one is waited for would wait for it as well.
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    with contextlib.ExitStack() as opened:
        followed = []
        for store in read_config(config):
            dispatcher = StoreDispatcher(store, flush=_POLICY)
            opened.callback(dispatcher.close)
            for reason in dispatcher.recovery.reasons:
                _tell_event(store.name, reason)
            log = CommitLog(commitlog_directories(store.path, store.settings), store.settings)
            opened.callback(log.close)
            followed.append((dispatcher, TailWatch(log)))
        _tell(message="follows", batch=0)
        while not ended:
            time.sleep(_POLL_SECONDS)
            for dispatcher, watch in followed:
                batches = [dispatcher.dispatch(watch.look().end), dispatcher.follow()]
                dispatcher.flush_if_due()
                for batch in batches:
                    if batch is None:
                        continue
                    name = dispatcher.config.name
                    for event in batch.events:
                        _tell_event(name, event)
                    if batch.messages:
                        _tell(message="dispatched", batch=0, store=name, end=batch.end)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
