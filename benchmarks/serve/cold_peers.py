"""Two clients of one store: one pulls its end at a rate, the other one drains it.

    python -m benchmarks.serve.cold_peers hot PORT SECONDS RATE ENDS...
    python -m benchmarks.serve.cold_peers cold PORT ENDS...

Each writes what it found to its standard output, as a line of JSON. The one that drains writes an
empty line before, when it has got something, and ends where its input ends. ENDS are the max
offsets of the first topic's queues.
"""

from __future__ import annotations

import json
import select
import sys
import time

from benchmarks.logs import topic_name
from benchmarks.serve.peers import Puller

_MESSAGES = 32
# Entries before a queue's end that are pulled again and again.
HOT = 1024


def hot(port: int, seconds: float, rate: float, ends: list[int]) -> list[float]:
    """Pull what is in memory at a rate; return the ms of each answer."""
    pullers = [Puller(port, topic_name(0), queue) for queue in range(len(ends))]
    taken = []
    began = time.monotonic()
    for number in range(round(rate * seconds)):
        while (left := began + number / rate - time.monotonic()) > 0:
            time.sleep(left)
        queue = number % len(ends)
        offset = ends[queue] - HOT + number * _MESSAGES % (HOT - _MESSAGES)
        asked = time.monotonic()
        answer = pullers[queue].pull(offset, _MESSAGES)
        if answer.code or not answer.body:
            raise RuntimeError(f"an answer with code {answer.code}")
        taken.append((answer.at - asked) * 1000)
    return taken


def cold(port: int, ends: list[int]) -> dict[str, float]:
    """Drain the log from its beginning until the input ends; return bytes and seconds.

    Raises:
        RuntimeError: there was nothing left before that.
    """
    pullers = [Puller(port, topic_name(0), queue) for queue in range(len(ends))]
    offsets, size, began = [0] * len(ends), 0, time.monotonic()
    while not select.select([sys.stdin], [], [], 0)[0]:
        # Messages of all queues lie evenly in the log.
        queue = min(range(len(ends)), key=lambda each: offsets[each] / ends[each])
        if offsets[queue] > ends[queue] - 16 * HOT:
            raise RuntimeError("all cold data was drained before the end: make the log larger")
        answer = pullers[queue].pull(offsets[queue], _MESSAGES)
        if not size:
            print(flush=True)
        size += answer.body
        offsets[queue] = answer.next_offset
    return {"bytes": size, "seconds": time.monotonic() - began}


def main() -> None:
    name, port, *words = sys.argv[1:]
    if name == "hot":
        seconds, rate, *ends = words
        found: object = hot(int(port), float(seconds), float(rate), list(map(int, ends)))
    else:
        found = cold(int(port), list(map(int, words)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
