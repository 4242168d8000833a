"""Options of `reput query …`, `reput topics` and `reput tail`: what is asked of a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from reput.stores.queues.by_time import Boundary
from reput.streaming.settings.model.choices import BodyMode
from reput.streaming.settings.model.option import SHOWING, Option
from reput.streaming.settings.model.saying import Json
from reput.streaming.settings.model.stores import StoreOptions

ROWS = 20
BODY_BYTES = 1024
_TAIL_BODY_BYTES = 200

Topic = Annotated[str, Option(short="-t", completes="topics", help="The topic.")]
OptionalTopic = Annotated[str | None, Option(short="-t", completes="topics", help="The topic.")]
QueueId = Annotated[int | None, Option(short="-q", least=0, help="Id of a queue.")]
Begin = Annotated[
    str | None,
    Option(unit="ms", help="Stored then or later: ms, or ISO 8601 (local if it names no zone)."),
]
End = Annotated[
    str | None,
    Option(unit="ms", help="Stored then or earlier: ms, or ISO 8601 (local if it names no zone)."),
]
Limit = Annotated[int, Option(short="-n", least=1, panel=SHOWING, help="Messages to show.")]
RowLimit = Annotated[int, Option(short="-n", least=0, panel=SHOWING, help="Rows to show; 0: all.")]
BodyBytes = Annotated[
    int,
    Option(unit="bytes", least=0, panel=SHOWING, help="Bytes of each body to show, decompressed."),
]
Tag = Annotated[str | None, Option(help='Only messages with these tags: "TagA || TagB".')]
Sql = Annotated[str | None, Option(help="Only messages for which this SQL92 filter is TRUE.")]


@dataclass(frozen=True, kw_only=True)
class AskOptions(StoreOptions):
    """What all that ask a store have in common."""

    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class Bodies:
    """How bodies are shown."""

    body: Annotated[
        BodyMode,
        Option(panel=SHOWING, help="How to show bodies. auto: text, or hex if it is not text."),
    ] = BodyMode.AUTO
    body_bytes: BodyBytes = BODY_BYTES


@dataclass(frozen=True, kw_only=True)
class KeyOptions(Bodies, AskOptions):
    """Options of `reput query key`."""

    key: Annotated[
        list[str],
        Option(
            is_argument=True,
            help="One word of KEYS, a UNIQ_KEY, or with --tag a tag. Several are looked up in "
            "turn.",
        ),
    ]
    topic: Topic
    unique: Annotated[bool, Option(help="Only as a UNIQ_KEY.")] = False
    tag: Annotated[bool, Option(help="As a tag (brokers 5.4 and later).")] = False
    begin: Begin = None
    end: End = None
    limit: Annotated[
        int | None,
        Option(
            short="-n",
            least=1,
            panel=SHOWING,
            help="Hits to take from the index, newest first. [default: 64; 32 with --unique]",
        ),
    ] = None
    raw: Annotated[
        bool, Option(panel=SHOWING, help="Also messages whose key only has the same hash.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class IdOptions(Bodies, AskOptions):
    """Options of `reput query id`."""

    message_id: Annotated[
        str, Option(is_argument=True, help="An offset id, or a UNIQ_KEY with --topic.")
    ]
    topic: OptionalTopic = None


@dataclass(frozen=True, kw_only=True)
class OffsetOptions(Bodies, AskOptions):
    """Options of `reput query offset`."""

    offset: Annotated[
        int, Option(is_argument=True, help="Queue offset; with --physical a physical offset.")
    ]
    topic: OptionalTopic = None
    queue: QueueId = None
    physical: Annotated[bool, Option(help="A physical offset: the record that begins there.")] = (
        False
    )
    tag: Tag = None
    sql: Sql = None
    limit: Limit = 1


@dataclass(frozen=True, kw_only=True)
class TimeOptions(Bodies, AskOptions):
    """Options of `reput query time`."""

    at: Annotated[
        str,
        Option(
            is_argument=True,
            unit="ms",
            metavar="TIME",
            help="Store time: ms, or ISO 8601 (local if it names no zone).",
        ),
    ]
    topic: OptionalTopic = None
    queue: QueueId = None
    boundary: Annotated[
        Boundary | None,
        Option(
            help="Of several messages of that time the first or the last. If there is none, the "
            "next one or the one before. [default: lower; before 5.1.1 the nearest]",
        ),
    ] = None
    ascending_store_time: Annotated[
        bool,
        Option(
            help="No clock of the broker ever went back: without --topic, the file is found by "
            "bisection instead of a look at all records before that time.",
        ),
    ] = False
    limit: Limit = 1


@dataclass(frozen=True, kw_only=True)
class TransactionOptions(AskOptions):
    """Options of `reput query transactions`."""

    state: Annotated[
        str | None,
        Option(
            completes="transaction_states",
            help="Only these: pending, committed, rolled back, discarded or ended.",
        ),
    ] = None
    everything: Annotated[
        bool,
        Option(
            flag="--all",
            help="Begin with the oldest one, instead of where the broker begins to check.",
        ),
    ] = False
    limit: RowLimit = ROWS


@dataclass(frozen=True, kw_only=True)
class DelayedOptions(AskOptions):
    """Options of `reput query delayed`."""

    level: Annotated[int | None, Option(least=1, help="Show the messages of this level.")] = None
    limit: RowLimit = ROWS


@dataclass(frozen=True, kw_only=True)
class TimerOptions(AskOptions):
    """Options of `reput query timer`."""

    everything: Annotated[
        bool, Option(flag="--all", help="Delivered, rolled and cancelled ones too.")
    ] = False
    limit: RowLimit = ROWS


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions(AskOptions):
    """Options of `reput query consumers`."""

    group: Annotated[
        str | None, Option(short="-g", completes="groups", help="Only this group.")
    ] = None
    topic: OptionalTopic = None


@dataclass(frozen=True, kw_only=True)
class TopicsOptions(AskOptions):
    """Options of `reput topics`."""

    topic: OptionalTopic = None


@dataclass(frozen=True, kw_only=True)
class TailOptions(Bodies, StoreOptions):
    """Options of `reput tail`."""

    topic: Topic
    queue: Annotated[
        list[int] | None, Option(short="-q", help="Only this queue. Repeat it for several.")
    ] = None
    tag: Tag = None
    sql: Sql = None
    from_start: Annotated[bool, Option(help="Begin with the oldest message there is.")] = False
    limit: Annotated[
        int | None,
        Option(short="-n", least=1, panel=SHOWING, help="End after this many messages."),
    ] = None
    seconds: Annotated[
        float | None, Option(unit="seconds", least=0.0, help="End after this many seconds.")
    ] = None
    body_bytes: BodyBytes = _TAIL_BODY_BYTES
    as_json: Annotated[
        bool,
        Option(
            flag="--json",
            panel=SHOWING,
            help="Print a JSON document for each message, one a line.",
        ),
    ] = False
