"""What an output remembers of Kafka: one file, for when Kafka cannot be asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.checkpoints import checked_line
from reput.checkpoints.disk import changes
from reput.formats.errors import KafkaError
from reput.sinks.kafka.position.start import Start

if TYPE_CHECKING:
    from pathlib import Path

# Bytes of a damaged file that an error shows.
_SHOWN = 200
# What reading a damaged file raises, depending on what stands in the wrong place.
_DAMAGE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)


class Memory(NamedTuple):
    """What an output remembers of Kafka while Kafka cannot be asked.

    Attributes:
        cluster: the name by which Kafka tells itself from others.
        transactional_id: whose position it has.
        end: physical offset that was committed, or an earlier one; -1 if not known.
        store_timestamp: of the last record before it, ms; 0 if not known.
        bootstrap: where that Kafka was; "" if not known.
        latest: where a store with `start` "latest" begins that has nothing in Kafka yet.
        sent: how far it was sent, with records before that: where such a store begins in another
            Kafka that answers in this one's place. None if not known.
    """

    cluster: str
    transactional_id: str
    end: int = -1
    store_timestamp: int = 0
    bootstrap: str = ""
    latest: Start | None = None
    sent: Start | None = None


def remembered(path: Path) -> Memory | None:
    """Return what is remembered of a position; None if there is nothing.

    Raises:
        KafkaError: the file is damaged, or cannot be read. `remember` leaves none that is half
            written.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KafkaError(
            f"{path}: it cannot be read, so what Kafka was sent of this output is not known: "
            f"{error.strerror}. See to that, then start the job again"
        ) from error
    try:
        values = _checked(raw)
        end, stored = int(values.get("end", -1)), int(values.get("storeTimestamp", 0))
        latest, sent = values.get("latest"), values.get("sent")
        return Memory(
            str(values["cluster"]),
            str(values["id"]),
            end,
            stored,
            str(values.get("bootstrap", "")),
            Start.unpack(latest) if latest is not None else None,
            Start.unpack(sent) if sent is not None else None,
        )
    except _DAMAGE as error:
        raise KafkaError(
            f"{path}: it is damaged, so what Kafka was sent of this output is not known: {error!r} "
            f"in {raw[:_SHOWN]!r}. Restore the file; or stop the job and remove it. Without it "
            "sending resumes at the position that Kafka has. If Kafka has none of this store, "
            'start = "earliest" sends everything, also what was sent before, and start = "latest" '
            "only what comes after the next start"
        ) from error


def _checked(raw: bytes) -> Any:
    """Return what a memory's bytes say, if they match the CRC in their first line.

    An earlier version has written one line, without a CRC.

    Raises:
        ValueError, LookupError, TypeError, RecursionError: they are damaged.
    """
    if b"\n" in raw:
        line = checked_line.parted(raw)
        if not line.is_whole:
            raise ValueError("it does not match its CRC")
        return json.loads(b"{" + line.rest)
    values = json.loads(raw)
    if "crc" in values:
        raise ValueError("its CRC is not in a line of its own")
    return values


def remember(path: Path, memory: Memory) -> None:
    """Remember that there is a position; `remembered` tells.

    Raises:
        OSError: the file cannot be written.
    """
    temporary = path.with_suffix(".new")
    values = {
        "cluster": memory.cluster,
        "id": memory.transactional_id,
        "end": memory.end,
        "storeTimestamp": memory.store_timestamp,
        "bootstrap": memory.bootstrap,
        "latest": memory.latest.pack() if memory.latest is not None else None,
        "sent": memory.sent.pack() if memory.sent is not None else None,
    }
    changes.write_file(temporary, checked_line.checked(json.dumps(values)))
    changes.rename(temporary, path)
    changes.sync_directory(path.parent)
