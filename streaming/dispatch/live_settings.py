"""Settings in files that a broker changes while it runs: topics' types, consumers' filters.

A broker dispatches a record with what it has in memory at that moment, and writes its files after
each change (`topics.json`) or every ten seconds (`consumerFilter.json`). So the files are looked at
again before each block is written, and what changed is kept with its time: a record that is
dispatched late, or once more, gets the settings of the time when it was stored.
Source: RocketMQ `TopicConfigManager`, `ConsumeQueueStore#findOrCreateConsumeQueue`,
`ConsumerFilterManager`, `CommitLogDispatcherCalcBitMap`; docs/formats/differences.md.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from reput.checkpoints.disk import changes
from reput.checkpoints.progress import STATE_DIRECTORY
from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.stores.config import filters
from reput.stores.config.changing import Changing
from reput.streaming.events import SETTING, Event

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from reput.formats.filters.consumerfilter import FilterBitmaps
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.config.followed import Followed

FILE_NAME = "settings.json"
_FORMAT = 1
_ALWAYS = -(1 << 63)
# A topic's first record may be seen before the broker has written the topic's type.
_TOPIC_SECONDS = 0.5
_TOPIC_STEP = 0.01
_RECENT_MS = 10_000
# A broker makes the file's text up to this long before the file's modification time, ms.
_WRITING_MS = 500
# A broker writes its filters every 10 s; one that does not is not waited for.
FILTER_SECONDS = 15
_IDLE_SECONDS = 1.0
_NAMED = 5


class LiveSettings:
    """What the files of one store say, and said."""

    def __init__(self, store: Path, output: Path, settings: BrokerSettings) -> None:
        """Read the files as they are now, and what the output remembers of them.

        Raises:
            StoreError: one of them cannot be read.
        """
        self._directory = output / STATE_DIRECTORY
        self._settings = settings
        # For each topic that was ever of type BatchCQ: (since, is it one), since in ms.
        self._terms: dict[str, list[tuple[int, bool]]] = {}
        self._ordinary: set[str] = set()
        self.bitmaps: FilterBitmaps | None = None
        self._types, self._filters = Changing.of(store, settings)
        if self._filters is not None:
            self.bitmaps = filters.bitmaps_from(store, self._filters.value, settings)
        # The last look, ms by the clock that stamps files, and seconds by one that nobody sets.
        self._looked_at = _now()
        self._looked_steadily = time.monotonic()
        self._clock_ahead = 0
        self._restore()

    def begin(self, dispatched: int | None) -> None:
        """Take over what changed since the output was written last.

        Args:
            dispatched: store timestamp of the last record in it, ms; None for none.
        """
        since = _ALWAYS if dispatched is None else dispatched + 1
        if self._types is not None and since > _now():
            # The clock went back since then: new records are stored at earlier times.
            since = min(since, self._types.written or _now())
        if self._types is not None and dispatched is not None:
            # What was dispatched into plain queues was stored while its topic was an ordinary one.
            plain = self._directory.parent / names.CONSUMEQUEUE
            self._ordinary = {
                topic for topic in self._types.value.batch if (plain / topic).is_dir()
            }
        self._take_types(since)
        # Between two names, a broker's file is away for a moment: that ends no filter.
        if self.bitmaps is not None and self._filters is not None and self._filters.written:
            self.bitmaps.follow(self._filters.value, self._filters.written)

    def _restore(self) -> None:
        path = self._directory / FILE_NAME
        try:
            state = json.loads(path.read_bytes())
            if state["format"] != _FORMAT:
                raise ValueError(f"format {state['format']}")
            self._terms = {
                topic: [(int(since), bool(is_batch)) for since, is_batch in terms]
                for topic, terms in state["types"].items()
            }
            if self.bitmaps is not None:
                self.bitmaps.restore(state["filters"])
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                path,
                f"not readable: {error}",
                "Remove it; records that are dispatched again then get today's settings",
            ) from error

    def _state(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "types": {
                topic: [list(term) for term in terms] for topic, terms in self._terms.items()
            },
            "filters": self.bitmaps.state() if self.bitmaps is not None else {},
        }

    def save(self) -> None:
        """Sync what changed to disk, before anything is dispatched with it.

        Raises:
            OSError: no space, no permission.
        """
        state = self._state()
        path = self._directory / FILE_NAME
        if not state["types"] and not state["filters"] and not path.exists():
            return
        made = self._directory / f"{FILE_NAME}.new"
        changes.write_file(made, json.dumps(state).encode())
        changes.rename(made, path)
        changes.sync_directory(self._directory)

    def is_batch(self, topic: str, store_timestamp: int) -> bool:
        """Tell whether a record's queue is one of type BatchCQ.

        Args:
            topic: the record's.
            store_timestamp: the record's, ms.
        """
        terms = self._terms.get(topic)
        if terms is None:
            return False
        return next(
            (is_batch for since, is_batch in reversed(terms) if since <= store_timestamp), False
        )

    def needs_slow_path(self, topic: str) -> bool:
        """Tell whether a record of a topic can be more than one plain entry."""
        return self._settings.writes_ext or topic in self._terms

    def bitmap_for(
        self, topic: str, properties: Mapping[str, str], store_timestamp: int
    ) -> bytes | None:
        """Return the bit map of a record's extension, None for none."""
        if self.bitmaps is None:
            return None
        return self.bitmaps.bitmap_for(topic, properties, store_timestamp)

    @property
    def reads_properties(self) -> bool:
        """Tell whether a bit map may depend on a record's properties."""
        return self.bitmaps is not None

    def look(self) -> list[str]:
        """Look at the files again; return what changed, in words.

        Raises:
            OSError: no permission, the device failed.
        """
        events: list[str] = []
        # What was stored up to the last look was dispatched by what the files said then.
        now, steady = _now(), time.monotonic()
        since = self._last_look(now, steady) + 1
        if self._types is not None:
            if self._types.look() and (changed := self._take_types(since)):
                text = f"{self._types.path}: the type of {_some(changed)} is followed from now on"
                events.append(Event(text, SETTING))
            _add_problem(self._types, events)
        if self._filters is not None and self.bitmaps is not None:
            if self._filters.look() and (changed := self._take_filters()):
                text = f"{self._filters.path}: new filters of {_some(changed)} are followed"
                events.append(Event(text, SETTING))
            _add_problem(self._filters, events)
        self._looked_at, self._looked_steadily = now, steady
        if events:
            self.save()
        return events

    def look_if_idle(self) -> list[str]:
        """Look again if the last look was a second ago, so that no state of the files is missed."""
        is_due = time.monotonic() - self._looked_steadily >= _IDLE_SECONDS
        return self.look() if is_due else []

    def _last_look(self, now: int, steady: float) -> int:
        """Return the time of the last look, ms; as the clock has it now, if it went back since."""
        went_back = self._looked_at + (steady - self._looked_steadily) * 1000 - now
        return self._looked_at - max(int(went_back), 0)

    def forget(self, first: int, end: int) -> None:
        """Drop the filters that had ended before any record was stored that the log still has.

        Such a filter counts for no record, nor for one that a repair dispatches again. To be called
        with the log looked at just now.

        Args:
            first: the log's first physical offset.
            end: a physical offset after all records that are stored so far.

        Raises:
            OSError: no space, no permission.
        """
        if self.bitmaps is not None and self.bitmaps.forget(first, end):
            self.save()

    def _take_types(self, since: int) -> list[str]:
        """Take over what topics.json says now; return the topics that are of another type."""
        if self._types is None:
            return []
        known, batch = self._types.value
        changed = []
        for topic in sorted(batch):
            terms = self._terms.get(topic)
            if terms is None:
                is_other = topic in self._ordinary
                self._terms[topic] = [(_ALWAYS, not is_other)]
                if is_other:
                    self._terms[topic].append((since, True))
                changed.append(topic)
            elif not terms[-1][1]:
                terms.append((since, True))
                changed.append(topic)
        for topic, terms in self._terms.items():
            # A deleted topic keeps its type: its records are older than the deletion.
            if topic in known and topic not in batch and terms[-1][1]:
                terms.append((since, False))
                changed.append(topic)
        self._ordinary = (self._ordinary | known) - batch
        return changed

    def _take_filters(self) -> list[str]:
        if self._filters is None or self.bitmaps is None:
            return []
        if self.bitmaps.is_empty:
            # The first ones may say what the broker's settings, as given to us, do not.
            store = self._filters.path.parent.parent
            self.bitmaps = filters.bitmaps_from(store, self._filters.value, self._settings)
            return sorted(self._filters.value)
        return self.bitmaps.follow(self._filters.value, self._filters.written)

    def await_topics(self, topics: Collection[str], newest: int) -> list[str]:
        """Look until topics.json names all of some topics, for half a second at most.

        A broker has a new topic in memory, and takes messages, a moment before its file has it. One
        that stays absent is ordinary: that is what a broker makes of a topic it does not know.

        Args:
            topics: that have turned up.
            newest: store timestamp of their newest record, ms: an older one is not waited for.

        Returns:
            What changed, in words.
        """
        if self._types is None or not self._types.path.exists():
            return []
        events: list[str] = []
        end = time.monotonic() + _TOPIC_SECONDS
        while (
            not self._types.value.known.issuperset(topics)
            and newest > time.time() * 1000 - _RECENT_MS
            and time.monotonic() < end
        ):
            time.sleep(_TOPIC_STEP)
            events += self.look()
        return events

    def known_until(self) -> int | None:
        """Return the first store timestamp, ms, for which filters are not known; None: all are."""
        if self._filters is None:
            return None
        return max(self._filters.written - _WRITING_MS, self._long_ago() + self._clock_ahead)

    def stop_waiting_for(self, store_timestamp: int) -> None:
        """Assume that the broker's clock is ahead so far that a record's filters are known."""
        self._clock_ahead = max(self._clock_ahead, store_timestamp + 1 - self._long_ago())

    @staticmethod
    def _long_ago() -> int:
        return _now() - FILTER_SECONDS * 1000


def _now() -> int:
    """Return the time by the clock that brokers stamp records with, ms."""
    return time.time_ns() // 1_000_000


def _add_problem(followed: Followed[Any], events: list[str]) -> None:
    problem = followed.take_problem()
    if problem is not None:
        text = (
            f"{followed.path} cannot be read ({problem}); what it said before counts until it can"
        )
        events.append(Event(text, SETTING))


def _some(topics: list[str]) -> str:
    more = len(topics) - _NAMED
    return ", ".join(topics[:_NAMED]) + (f" and {more} more topics" if more > 0 else "")


def copy(store: Path, output: Path, other: Path, settings: BrokerSettings) -> str:
    """Let another output begin with what is known of an output's types and filters.

    Args:
        store: the broker's storePathRootDir.
        output: its root. A file that cannot be read there is removed: today's settings count then.
        other: the other one's root, which has a state directory and nothing in it.
        settings: the broker's.

    Returns:
        What was wrong with the file, "" for nothing.

    Raises:
        StoreError: the broker's own files cannot be read.
        OSError: no space, no permission.
    """
    known, taken = (root / STATE_DIRECTORY / FILE_NAME for root in (output, other))
    if not known.exists():
        return ""
    changes.write_file(taken, known.read_bytes())
    try:
        LiveSettings(store, other, settings)
    except StoreError as error:
        if error.path != str(taken):
            raise
        changes.remove_file(taken)
        changes.remove_file(known)
        return f"{known}: {error.problem}"
    return ""
