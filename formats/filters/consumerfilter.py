"""config/consumerFilter.json: the filters of SQL92 consumers, and the bit maps made of them.

    {"filterDataByTopic": {TOPIC: {"groupFilterData": {GROUP: {
        "expression": "a > 5", "expressionType": "SQL92", "bornTime": ms, "deadTime": ms or 0,
        "bloomFilterData": {"bitNum": 112, "bitPos": [47, 102, 45]}, "clientVersion": n, …}}}}}

Source: RocketMQ `ConsumerFilterManager`, `CommitLogDispatcherCalcBitMap`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from reput.formats.filters import sql92
from reput.formats.filters.bloomfilter import BloomFilter, mask
from reput.formats.java import fastjson

SQL92 = "SQL92"
# Beyond every store timestamp.
NEVER = (1 << 63) - 1
# `filterDataCleanTimeSpan`, ms: how long a broker keeps a filter whose consumers are gone.
CLEAN_TIME_SPAN = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class ConsumerFilter:
    """What one consumer group subscribed to a topic with.

    `bit_positions` and `bit_count` are the group's bits in a bloom filter of `bit_count` bits;
    0 bits where the file has none. Times are ms; a `dead_time` of 0 means none.
    """

    group: str
    expression: str
    expression_type: str
    born_time: int
    dead_time: int
    bit_positions: tuple[int, ...]
    bit_count: int
    client_version: int

    @property
    def dead(self) -> bool:
        """Tell whether the group has unsubscribed since; a broker that starts takes all as dead."""
        return self.dead_time >= self.born_time

    def expired(self, now: int, clean_time_span: int = CLEAN_TIME_SPAN) -> bool:
        """Tell whether a broker would drop it at `now`, ms, when it next writes the file."""
        return self.dead and now - self.dead_time >= clean_time_span

    def means_the_same_as(self, other: ConsumerFilter) -> bool:
        """Tell whether it sets the same bits, since the same time."""
        # These two may change without changing the filter.
        return replace(self, dead_time=0, client_version=0) == replace(
            other, dead_time=0, client_version=0
        )

    def fits(self, bloom: BloomFilter) -> bool:
        """Tell whether its bits are of a bloom filter of this size (`BloomFilter#isValid`)."""
        return self.bit_count == bloom.bits and len(self.bit_positions) == bloom.hashes


Filters = Mapping[str, tuple[ConsumerFilter, ...]]


def parse(text: str) -> dict[str, tuple[ConsumerFilter, ...]]:
    """Return the filters of each topic in the text of a consumerFilter.json.

    Fields that are not known are passed over, missing ones are empty or 0, as in the broker.

    Raises:
        ValueError: the text is not such a file; says where.
    """
    topics = _section(fastjson.loads(text), "filterDataByTopic", "the file")
    filters = {}
    for topic, data in topics.items():
        groups = _section(data, "groupFilterData", f"topic {topic}")
        filters[topic] = tuple(
            _filter(group, fields, f"group {group} of topic {topic}")
            for group, fields in groups.items()
            if fields is not None
        )
    return filters


def _section(holder: Any, name: str, where: str) -> dict[str, Any]:
    """Return the object that `holder` has under `name`, empty where it is absent or null."""
    if holder is None:
        return {}
    section = holder.get(name) if isinstance(holder, dict) else holder
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise _broken(f"{name} of {where} is not an object")
    return section


def _broken(what: str) -> ValueError:
    return ValueError(f"consumerFilter.json: {what}")


def _filter(group: str, fields: Any, where: str) -> ConsumerFilter:
    if not isinstance(fields, dict):
        raise _broken(f"{where} is not an object")

    def number(name: str, holder: Mapping[str, Any] = fields) -> int:
        value = holder.get(name)
        if value is None:
            return 0
        if type(value) is not int:
            raise _broken(f"{name} of {where} is not an integer")
        return value

    def string(name: str) -> str:
        value = fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise _broken(f"{name} of {where} is not a string")
        return value

    bloom = _section(fields, "bloomFilterData", where)
    bit_count = number("bitNum", bloom)
    positions = bloom.get("bitPos") or []
    if not isinstance(positions, list) or not all(
        type(position) is int and 0 <= position < bit_count for position in positions
    ):
        raise _broken(f"bitPos of {where} does not list bits below {bit_count}")
    return ConsumerFilter(
        group,
        string("expression"),
        string("expressionType"),
        number("bornTime"),
        number("deadTime"),
        tuple(positions),
        bit_count,
        number("clientVersion"),
    )


class FilterBitmaps:
    """The bit maps that a broker with these filters stores beside a consume queue's entries.

    A broker makes them with `enableCalcFilterBitMap=true` and stores them in ConsumeQueueExt
    files, which it keeps with `enableConsumeQueueExt=true`; both are off unless set. (It uses
    them for consumers with `enablePropertyFilter=true`.) The size is the bloom filter's alone:
    it overrules `bitMapLengthConsumeQueueExt`.

    Which filters count (not what one would think):

    * a dead one does, for as long as the file has it: drop the `expired` ones before, if a
      running broker would have;
    * one that is not of type SQL92, or that the broker cannot parse, sets no bits; but its topic
      has bit maps, if only empty ones;
    * if a single one has bits for a bloom filter of another size, the broker that reads the file
      ignores it as a whole: no topic has bit maps;
    * one that was born after a record was stored: the broker dispatched the record without it.

    `follow` takes later states of the file in, so that a record gets the filters of its time.
    """

    def __init__(
        self, filters: Filters, bloom: BloomFilter, *, string_operators: bool = True
    ) -> None:
        """Parse the expressions.

        Args:
            filters: what `parse` returned.
            bloom: `BloomFilter.sized` of the broker's two settings.
            string_operators: see `sql92.parse`; False for a broker before 5.1.3.
        """
        self._bloom = bloom
        self._string_operators = string_operators
        self._topics: dict[str, list[_Term]] = {}
        self.follow(filters, 0)

    def follow(self, filters: Filters, written: int) -> list[str]:
        """Take over what the file says now; return the topics that something changed for.

        A filter counts from its birth on. One that another one of its group replaces counts until
        then; one that is no longer in the file, until the file was written: a broker drops filters
        when it writes them (`ConsumerFilterManager#clean`).

        Args:
            filters: what `parse` returned.
            written: when the file was written, ms.
        """
        if not all(entry.fits(self._bloom) for entries in filters.values() for entry in entries):
            filters = {}
        changed = []
        for topic in filters.keys() | self._topics.keys():
            terms = self._topics.get(topic, [])
            left = {entry.group: entry for entry in filters.get(topic, ())}
            after = []
            for term in terms:
                found = left.get(term.entry.group) if term.until == NEVER else None
                if found is not None and found.means_the_same_as(term.entry):
                    del left[found.group]
                    after.append(term)
                elif term.until == NEVER:
                    after.append(term.ended(found.born_time if found is not None else written))
                else:
                    after.append(term)
            after += [self._term(entry, NEVER) for entry in left.values()]
            if after != terms:
                self._topics[topic] = after
                changed.append(topic)
        return sorted(changed)

    @property
    def is_empty(self) -> bool:
        """Tell whether there has been no filter yet."""
        return not self._topics

    def state(self) -> dict[str, list[dict[str, Any]]]:
        """Return all filters with their ends, for `restore`."""
        return {
            topic: [
                {**asdict(term.entry), "until": term.until, "log_end": term.log_end}
                for term in terms
            ]
            for topic, terms in self._topics.items()
        }

    def forget(self, first: int, end: int) -> bool:
        """Drop filters that ended before the oldest record was stored; tell if there were any.

        It goes by places in the log and by no clock: a filter that has ended counts for no record
        that is stored after the log's end of that time.

        Args:
            first: the log's first physical offset.
            end: a physical offset after all records that are stored so far.
        """
        kept = {}
        for topic, terms in self._topics.items():
            marked = (
                replace(term, log_end=end) if term.until != NEVER and term.log_end is None else term
                for term in terms
            )
            kept[topic] = [t for t in marked if t.log_end is None or t.log_end > first]
        is_less = any(len(kept[topic]) < len(terms) for topic, terms in self._topics.items())
        self._topics = {topic: terms for topic, terms in kept.items() if terms}
        return is_less

    def restore(self, state: dict[str, list[dict[str, Any]]]) -> None:
        """Be as when `state` returned this.

        Raises:
            ValueError, TypeError, KeyError: it is not one.
        """
        if not state:
            return
        names = [field.name for field in fields(ConsumerFilter)]
        self._topics = {}
        for topic, terms in state.items():
            self._topics[topic] = []
            for term in terms:
                entry = ConsumerFilter(**{name: term[name] for name in names})
                entry = replace(entry, bit_positions=tuple(entry.bit_positions))
                restored = self._term(entry, term["until"])
                log_end = term.get("log_end")
                log_end = None if log_end is None else int(log_end)
                self._topics[topic].append(replace(restored, log_end=log_end))
        every = [term.entry for terms in self._topics.values() for term in terms]
        if not all(entry.fits(self._bloom) for entry in every):
            # The broker's bloom filter settings have changed; the broker ignores such filters too.
            self._topics = {}

    def _term(self, entry: ConsumerFilter, until: int) -> _Term:
        return _Term(entry, until, *_compile(entry, string_operators=self._string_operators))

    def bitmap_for(
        self, topic: str, properties: Mapping[str, str], store_timestamp: int
    ) -> bytes | None:
        """Return the bit map for a message, None (a unit's bit map size 0) for a topic without.

        Args:
            topic: of the queue that the message is dispatched to.
            properties: the message's.
            store_timestamp: the message's, ms.
        """
        terms = self._topics.get(topic, ())
        in_force = [t for t in terms if t.entry.born_time <= store_timestamp < t.until]
        if not in_force:
            return None
        bits = 0
        for term in in_force:
            if term.expression is not None and term.expression.matches(properties):
                bits |= term.bits
        return bits.to_bytes(self._bloom.bits // 8, "little")


@dataclass(frozen=True)
class _Term:
    """A filter from its birth until `until`, ms; without an expression it sets no bits.

    `log_end` is a physical offset after all records that were stored before the filter ended; None
    if it is not known yet.
    """

    entry: ConsumerFilter
    until: int
    expression: sql92.Expression | None
    bits: int
    log_end: int | None = None

    def ended(self, at: int) -> _Term:
        return replace(self, until=at)


def _compile(
    entry: ConsumerFilter, *, string_operators: bool
) -> tuple[sql92.Expression | None, int]:
    if entry.expression_type != SQL92:
        return None, 0
    try:
        expression = sql92.parse(entry.expression, string_operators=string_operators)
    except sql92.ExpressionError:
        # As the broker has it: such a group matches nothing, and gets every message to look at.
        return None, 0
    return expression, mask(entry.bit_positions)
