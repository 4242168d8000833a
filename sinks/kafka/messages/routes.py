"""Which messages go to Kafka, and where each goes: decided once for a queue, then looked up."""

from __future__ import annotations

import fnmatch
import json
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.errors import KafkaError, UsageError
from reput.formats.java import strings
from reput.formats.kafka.headers import header
from reput.formats.kafka.partitions import partitions_by_key
from reput.formats.kafka.records import RoutePieces
from reput.formats.kafka.tags import match_tags
from reput.formats.kernels.routes import lookup_rows
from reput.formats.rocketmq.commitlog import COMMIT, TRANSACTION_TYPE
from reput.formats.rocketmq.names import DEAD_LETTERS, RETRY
from reput.formats.rows.texts import Slices
from reput.sinks.kafka.client.partition import Partition
from reput.sinks.kafka.client.settings import ARRIVALS, KEY, MESSAGES
from reput.sinks.routes import RouteTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes
    from reput.formats.rows.columns import RowColumns
    from reput.sinks.kafka.client.settings import KafkaSettings

# Half messages and what decides on them, and messages that are not due: the log has them again,
# under their own topic, once they are committed or due.
# Source: RocketMQ `TopicValidator`, `TimerMessageStore`.
NEVER = frozenset({"RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX",
                   "rmq_sys_wheel_timer"})  # fmt: skip
_SYSTEM = frozenset({"TBW102", "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
                     "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"})  # fmt: skip
_SYSTEM_PREFIXES = ("rmq_sys_", "RMQ_SYS_", RETRY, DEAD_LETTERS, "%SYS%")
# What Kafka does not take in a topic's name, and how long that may be. RocketMQ takes only two of
# those characters: % and |.
_FOREIGN = re.compile(r"[^a-zA-Z0-9._-]")
_MOST = 249
NOWHERE, DEAD = -1, -2


class TagExpression:
    """`*`, or tags with `||` between them, as a consumer subscribes to them."""

    def __init__(self, text: str) -> None:
        """Read an expression.

        Raises:
            UsageError: it has no tag in it.
        """
        tags = [tag.strip() for tag in text.split("||")]
        self.takes_all = text.strip() in {"", "*"}
        if not self.takes_all and not all(tags):
            raise UsageError(f"tags={text!r}: write * or such as TagA || TagB")
        raw = [tag.encode() for tag in tags]
        self._codes = np.array([strings.hash_code(tag) for tag in tags], np.int64)
        self._data, self._texts = _laid(raw)

    def matches(self, data: Bytes, tags: Slices) -> NDArray[np.bool_]:
        """Tell by row whether it is wanted."""
        if self.takes_all:
            return np.ones(len(tags.length), np.bool_)
        return match_tags(data, tags, self._codes, self._texts, self._data)


class Target(NamedTuple):
    """A topic of Kafka, where its partitions begin in our numbering, and how many it has."""

    topic: str
    first: int
    partitions: int


class Rows(NamedTuple):
    """What becomes of the rows of a block.

    Attributes:
        routes: by row.
        messages: by row, number of the partition it goes to; `NOWHERE` if it does not, `DEAD` if
            its topic is refused.
        notices: likewise for its arrival notice.
    """

    routes: NDArray[np.int32]
    messages: NDArray[np.int32]
    notices: NDArray[np.int32]


def kafka_topic(template: str, topic: str, store: str) -> str:
    """Return the Kafka topic of a RocketMQ topic.

    What Kafka does not take in a name becomes a dot where RocketMQ takes it (% and |), else the
    hexadecimal of its UTF-8.

    Raises:
        UsageError: the template has an unknown field, or makes no name that Kafka takes.
    """
    try:
        name = _FOREIGN.sub(_replaced, template.format(topic=topic, store=store))
    except (KeyError, IndexError, ValueError) as error:
        raise UsageError(
            f"topic template {template!r}: it may have the fields {{topic}} and {{store}}"
        ) from error
    if not 0 < len(name) <= _MOST or name in {".", ".."}:
        raise UsageError(
            f"topic template {template!r} makes {name!r} of {topic!r}, which is not a name that a "
            "Kafka topic can have"
        )
    return name


def _replaced(match: re.Match[str]) -> str:
    character = match[0]
    return "." if character in "%|" else f"_{character.encode('utf-8', 'replace').hex()}"


class Routes:
    """The table of one store; made again with each producer, which knows the partitions."""

    def __init__(
        self, settings: KafkaSettings, store: str, partitions: Callable[[str], int]
    ) -> None:
        """Begin with nothing.

        Args:
            settings: the operator's.
            store: its name.
            partitions: how many a Kafka topic has, 0 for one that nothing goes to.
        """
        self._settings = settings
        self._store = store
        self._partitions = partitions
        self._table = RouteTable()
        self._tags = TagExpression(settings.tags)
        self._include = [_pattern(text) for text in settings.include]
        self._exclude = [_pattern(text) for text in settings.exclude]
        self._topics: dict[str, Target] = {}
        self.targets: list[Partition] = []
        self._count = 0
        self._columns = _columns(64)
        self._pieces: list[tuple[bytes, bytes, bytes]] = []
        self.pieces = self._laid_pieces()

    def forget(self) -> None:
        """Ask for all partitions again: a topic may be there now, or gone."""
        self._table = RouteTable()
        self._topics = {}
        self.targets = []
        self._count = 0
        self._pieces = []

    def takes(self, topic: str) -> bool:
        """Tell whether messages of a RocketMQ topic are wanted."""
        if topic in NEVER:
            return False
        if not self._settings.system_topics and is_system(topic):
            return False
        if any(pattern.fullmatch(topic) for pattern in self._exclude):
            return False
        return any(pattern.fullmatch(topic) for pattern in self._include)

    def of_rows(self, data: Bytes, columns: RowColumns) -> Rows:
        """Return what becomes of the rows of a block.

        Raises:
            KafkaError: a topic's partitions cannot be had.
        """
        count = len(columns.size)
        routes = np.zeros(count, np.int32)
        known = self._count
        row = 0
        while True:
            row = lookup_rows(
                data, *columns.topic, columns.queue_id, row, self._table.arrays, routes
            )
            if row == count:
                break
            at, length = int(columns.topic.at[row]), int(columns.topic.length[row])
            self._add(data[at : at + length].tobytes(), int(columns.queue_id[row]))
        if self._count != known:
            self.pieces = self._laid_pieces()
        kinds = columns.sys_flag & TRANSACTION_TYPE
        selected = (self._columns["taken"][routes] > 0) & ((kinds == 0) | (kinds == COMMIT))
        if not self._tags.takes_all and selected.any():
            selected &= self._tags.matches(data, columns.tags)
        by_queue = self._columns["partition"][routes]
        first = self._columns["first"][routes]
        if self._settings.partition_by == KEY:
            keys = columns.uniq_key if self._settings.key == "uniq_key" else columns.keys
            partitions = self._columns["partitions"][routes]
            by_queue = partitions_by_key(data, keys, partitions, by_queue)
        placed = np.where(first >= 0, first + by_queue, first)
        messages = np.where(selected, placed, NOWHERE)
        notices = np.where(selected, self._columns["notice"][routes], NOWHERE)
        return Rows(routes, messages.astype(np.int32), notices.astype(np.int32))

    def _add(self, raw: bytes, queue_id: int) -> None:
        topic = strings.decode(raw)
        route = self._table.add(raw, queue_id, self._count, 0)
        if route == len(self._columns["taken"]):
            self._columns = {
                name: np.concatenate([column, column]) for name, column in self._columns.items()
            }
        taken = self.takes(topic)
        message = notice = None
        if taken and MESSAGES in self._settings.products:
            message = self._target(self.topic_of(topic, MESSAGES))
        if taken and ARRIVALS in self._settings.products:
            notice = self._target(self.topic_of(topic, ARRIVALS))
        columns = self._columns
        columns["taken"][route] = taken
        columns["first"][route], columns["partition"][route] = _place(message, queue_id)
        columns["partitions"][route] = message.partitions if message else 0
        columns["notice"][route] = sum(_place(notice, queue_id))
        self._pieces.append(_pieces_of(topic, queue_id, self._store))
        self._count += 1

    def topic_of(self, topic: str, product: str) -> str:
        """Return the Kafka topic that a product of a RocketMQ topic's messages goes to."""
        is_notice = product == ARRIVALS
        template = self._settings.arrivals_topic if is_notice else self._settings.topic
        try:
            return kafka_topic(template, topic, self._store)
        except UsageError as error:
            # The settings are wrong only for this topic of the log.
            raise KafkaError(f"{error}. Exclude this topic") from error

    def _target(self, topic: str) -> Target:
        """Return a topic's place in the numbering."""
        known = self._topics.get(topic)
        if known is None:
            count = self._partitions(topic)
            known = self._topics[topic] = Target(topic, len(self.targets), count)
            self.targets += [Partition(topic, i) for i in range(count)]
        return known

    def _laid_pieces(self) -> RoutePieces:
        pieces = self._pieces or [(b"", b"", b"")]
        data, all_slices = _laid([piece for each in pieces for piece in each])
        headers, keys, heads = (
            Slices(all_slices.at[i::3].copy(), all_slices.length[i::3].copy()) for i in range(3)
        )
        return RoutePieces(headers, _ROUTE_HEADERS, keys, heads, data)


_ROUTE_HEADERS = 3


def _place(target: Target | None, queue_id: int) -> tuple[int, int]:
    """Return where a topic's partitions begin and which one of them a queue's is."""
    if target is None:
        return NOWHERE, 0
    if not target.partitions:
        return DEAD, 0
    return target.first, queue_id % target.partitions


def _pieces_of(topic: str, queue_id: int, store: str) -> tuple[bytes, bytes, bytes]:
    headers = (
        header("rmq.store", store)
        + header("rmq.topic", topic)
        + header("rmq.queueId", str(queue_id))
    )
    head = f'{{"topic":{json.dumps(topic)},"queueId":{queue_id},"queueOffset":'
    return headers, f"{topic}@{queue_id}".encode(), head.encode()


def _laid(pieces: list[bytes]) -> tuple[Bytes, Slices]:
    """Return pieces laid end to end, and where each one is."""
    lengths = np.array([len(piece) for piece in pieces], np.int32)
    at = (np.cumsum(lengths) - lengths).astype(np.int64)
    # A kernel's array is never empty.
    data = np.frombuffer(b"".join(pieces) + b"\0", np.uint8).copy()
    return data, Slices(at, lengths)


def _columns(capacity: int) -> dict[str, NDArray[np.int32]]:
    names = ("taken", "first", "partitions", "partition", "notice")
    return {name: np.zeros(capacity, np.int32) for name in names}


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(text))


def is_system(topic: str) -> bool:
    """Tell whether a topic is RocketMQ's own, or a consumer group's retries and dead letters."""
    return topic in _SYSTEM or topic in NEVER or topic.startswith(_SYSTEM_PREFIXES)
