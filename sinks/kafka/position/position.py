"""How far a store has been sent: the value of its record in the topic of the positions, as JSON."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.errors import KafkaError
from reput.sinks.kafka.position.start import pack_points, unpack_points

if TYPE_CHECKING:
    from reput.stores.log.trail import Point

_VERSION = 2
_WITHOUT_CUTS = 1


@dataclass(frozen=True)
class Position:
    """How far a store has been sent.

    Attributes:
        end: physical offset where sending resumes.
        points: records before `end`, to find again in the log; only `record` and `end` count.
        messages: sent in all.
        dead_letters: of these, to the dead-letter topic.
        cut: number of the last cut of the log that sending has followed, see
            `checkpoints.progress.Progress.cuts`.
        store_timestamp: of the last record before `end`, ms; 0 if not known.
        first: physical offset and hash of the first record that the log had when this was written:
            it tells a store from another one of the same name. None if not known.
        origin: path of the store, for messages.
        writer: the process that wrote this position, under a new name at each start.
        began: when that writer began, ms, and after every writer whose position it found: of two
            writers the one with the greater number is the later one. 0 if not known.
        chunk: number of the last chunk of the trail, see `sinks.kafka.position.trail`.
        accepted: physical offset where the log was found to end though more of it was sent, which
            the operator accepted; -1 if the log was not found so.
        moved: id under which the store has been sent since; "" while it is this one.
        since: physical offset where sending began: of what is before it nothing was sent. -1 if
            not known.
    """

    end: int
    points: tuple[Point, ...] = ()
    messages: int = 0
    dead_letters: int = 0
    cut: int = 0
    store_timestamp: int = 0
    first: tuple[int, int] | None = None
    origin: str = ""
    writer: str = ""
    began: int = 0
    chunk: int = 0
    accepted: int = -1
    moved: str = ""
    since: int = -1

    @property
    def is_unsent(self) -> bool:
        """Tell whether nothing that the log has before `end` was sent."""
        return self.end <= self.since

    @property
    def has_no_record(self) -> bool:
        """Tell whether no record says whose it is: the log had none when this was written."""
        return self.is_unsent and self.first is None and not self.points

    def pack(self) -> bytes:
        """Return the record's value."""
        values = {
            "version": _VERSION,
            "end": self.end,
            "trail": pack_points(self.points),
            "messages": self.messages,
            "deadLetters": self.dead_letters,
            "cut": self.cut,
            "storeTimestamp": self.store_timestamp,
            "first": self.first,
            "origin": self.origin,
            "writer": self.writer,
            "began": self.began,
            "chunk": self.chunk,
            "accepted": self.accepted,
            "moved": self.moved,
            "since": self.since,
        }
        return json.dumps(values).encode()

    @classmethod
    def unpack(cls, raw: bytes, where: str) -> Position:
        """Return what a record says.

        Args:
            raw: its value.
            where: it was found, for messages.

        Raises:
            KafkaError: it is not a position.
        """
        try:
            values: dict[str, Any] = json.loads(raw)
            if values["version"] == _WITHOUT_CUTS:
                # Its points have fingerprints of another kind; its end is still good.
                values |= {"trail": [], "cut": 0}
            elif values["version"] != _VERSION:
                raise ValueError(f"version {values['version']}")
            first = values.get("first")
            return cls(
                end=int(values["end"]),
                points=unpack_points(values["trail"]),
                messages=int(values["messages"]),
                dead_letters=int(values["deadLetters"]),
                cut=int(values["cut"]),
                # Positions of earlier versions do not have what follows.
                store_timestamp=int(values.get("storeTimestamp", 0)),
                first=(int(first[0]), int(first[1])) if first is not None else None,
                origin=str(values.get("origin", "")),
                writer=str(values.get("writer", "")),
                began=int(values.get("began", 0)),
                chunk=int(values.get("chunk", 0)),
                accepted=int(values.get("accepted", -1)),
                moved=str(values.get("moved", "")),
                since=int(values.get("since", -1)),
            )
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise KafkaError(
                f"{where} is not a position of a store: {error!r}. Another program writes to this "
                "topic; give another progress_topic"
            ) from error


class Found(NamedTuple):
    """A position, and in which partition it stands: the next one goes there too."""

    position: Position
    partition: int


def partition_of(transactional_id: str, partitions: int) -> int:
    """Return the partition that a store's first position goes to."""
    return zlib.crc32(transactional_id.encode()) % partitions
