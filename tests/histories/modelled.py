"""A broker that is modelled: what a real one does to its commitlog, a thousand times as fast.

Its bytes are compared with those of the real store classes on the same steps (`run --real`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import BLANK_HEAD, BLANK_SIZE, COMMIT, MAGIC_BLANK
from reput.formats.rocketmq.encode import Message, encode, fits
from tests.histories.logs import Files, Rec, properties_of
from tests.histories.messages import (
    BATCHES,
    BORN_HOST,
    BORN_PORT,
    FAN,
    STORE_HOST,
    STORE_PORT,
    pairs,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.histories.messages import Put, Traits

_TRANSACTION = 0xC


class Modelled:
    """Writes a log as a broker does; cuts it as recovery and replication do.

    Attributes:
        begin: the physical offset where the log begins.
        end: where it ends, as the broker knows it.
        is_running: it is started.
        is_clean: it was stopped in order.
    """

    def __init__(self, store: Path, traits: Traits) -> None:
        self.store = store
        self.store.mkdir(parents=True, exist_ok=True)
        self.traits = traits
        self.files = Files(store, traits.log_file, is_quiet=traits.is_quiet)
        self.begin = self.end = 0
        self.is_running = False
        self.is_clean = True
        self._next: dict[tuple[str, int], int] = {}
        # Also those that have expired: a queue's numbers continue after them.
        self._records: list[Rec] = []

    def start(self) -> None:
        """Start the broker: its recovery cuts the log where no record follows."""
        self.is_running = True
        (self.store / names.LOCK).write_text("lock")
        (self.store / names.ABORT).write_text("1")
        if not self.files.bases:
            return
        # Recovery of a log that was closed in order begins in one of the last files.
        known = [r for r in self._records if r.position >= self.begin]
        first = self.files.base_of(self.end - 1) if self.is_clean and self.end else self.begin
        first = max(first, self.begin)
        found, end = self.files.scan(first, self.traits.version)
        kept = [r for r in known if r.position < first]
        self._records = [r for r in self._records if r.position < self.begin] + kept + found
        self._cut(end)

    def stop(self) -> None:
        """Stop the broker in order."""
        self.files.unmap()
        self.is_running, self.is_clean = False, True
        (self.store / names.ABORT).unlink()

    def crash(self) -> None:
        """Kill the broker."""
        self.files.unmap()
        self.is_running, self.is_clean = False, False

    def truncate(self, position: int, kept: Sequence[int] = ()) -> None:
        """Cut the log at a record, as a replica does when its master has changed.

        Args:
            position: the first record that is cut.
            kept: where files begin that cannot be removed.
        """
        self._records = [r for r in self._records if r.position < position]
        self._cut(position, kept)

    def _cut(self, end: int, kept: Sequence[int] = ()) -> None:
        """Continue at another end: nothing is erased, only files after it go."""
        self.end = end
        self.files.remove_behind(end, kept)
        self._next = {}
        for each in self._records:
            self._count(each)
        if self.traits.has_batches:
            self._next |= self._batch_ends()

    def _batch_ends(self) -> dict[tuple[str, int], int]:
        """Return the ends of batch queues as a broker finds them there: by their last units."""
        ends = {}
        for record in (each.record for each in self._records):
            if record.topic == BATCHES and record.sys_flag & _TRANSACTION in {0, COMMIT}:
                base, number = (record.properties.get(k) for k in ("INNER_BASE", "INNER_NUM"))
                is_batch = base is not None and number is not None
                end = int(base) + int(number) if is_batch else record.queue_offset + 1
                ends[record.topic, record.queue_id] = end
        return ends

    def _count(self, rec: Rec) -> None:
        record = rec.record
        if record.sys_flag & _TRANSACTION in {0, COMMIT}:
            place = (record.topic, record.queue_id)
            self._next[place] = max(self._next.get(place, 0), record.queue_offset + 1)
            if "INNER_MULTI_DISPATCH" in record.properties:
                offset = int(record.properties["INNER_MULTI_QUEUE_OFFSET"])
                self._next[FAN, record.queue_id] = offset + 1

    def expire(self, count: int) -> int:
        """Remove the oldest files."""
        gone = self.files.remove_first(count, self.end)
        self.begin = self.files.bases[0] if self.files.bases else 0
        return gone

    def fan_offset(self, queue_id: int) -> int:
        """Return the next offset of the queue that messages fan out to."""
        return self._next.get((FAN, queue_id), 0)

    def put(self, puts: Sequence[Put], number: int | None = None) -> None:
        """Append messages; their time is set.

        Args:
            puts: the messages.
            number: queue offset of each if a real broker has given it; else the next one.
        """
        for put in puts:
            self._append(put, number)

    def _append(self, put: Put, number: int | None) -> None:
        is_queued = put.sys_flag & _TRANSACTION in {0, COMMIT}
        place = (put.topic, put.queue_id)
        if number is None:
            number = self._next.get(place, 0) if is_queued else 0
        properties = put.properties
        if (
            properties
            and not properties.endswith("\x02")
            and not self.traits.version.startswith("4")
        ):
            properties += "\x02"
        message = Message(
            topic=put.topic,
            body=put.body,
            properties=properties.encode(),
            queue_id=put.queue_id,
            queue_offset=number,
            store_timestamp=put.stored,
            born_timestamp=put.born,
            flag=put.flag,
            sys_flag=put.sys_flag,
            born_host=BORN_HOST,
            born_port=BORN_PORT,
            store_host=STORE_HOST,
            store_port=STORE_PORT,
        )
        raw = encode(message, self.end)
        left = self.files.file_size - self.end % self.files.file_size
        if not fits(len(raw), left):
            # Its head only: what stands after it stays.
            self.files.write(self.end, BLANK_HEAD.pack(left, MAGIC_BLANK)[:BLANK_SIZE])
            self.end += left
            raw = encode(message, self.end)
        self.files.write(self.end, raw)
        rec = Rec(self.end, raw)
        self._records.append(rec)
        self._count(rec)
        self.end = rec.end


def with_fan_out(put: Put, offset: int) -> Put:
    """Return a message with the further queue named, and its offset there."""
    more = pairs(INNER_MULTI_DISPATCH=FAN, INNER_MULTI_QUEUE_OFFSET=str(offset))
    assert properties_of(put.properties + more)
    return put._replace(properties=put.properties + more)
