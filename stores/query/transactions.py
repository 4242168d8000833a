"""Tells what became of transactions by their messages.

A half message waits in a topic of its own; each check appends it again. An op message that names
its queue offset tells that it is settled, one way or the other: brokers before 5.1 name one offset,
later ones several with commas. A record in its real topic that names the half's physical offset
tells that it was committed, and a copy in a third topic that it was given up.
Source: RocketMQ `TransactionalMessageServiceImpl`, `TransactionalMessageBridge`,
`DefaultTransactionalMessageCheckListener`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq import indexfile
from reput.stores.findings import Kind
from reput.stores.log.records import read_record
from reput.stores.query.index_search import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.query.message_store import MessageStore

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DISCARDED_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "CID_RMQ_SYS_TRANS"
_HITS = 64
# Messages of a queue that are looked through for a commit where the index does not help.
_SCANNED = 100_000


class TransactionState(StrEnum):
    """What became of a half message.

    ENDED: committed or rolled back; what would tell which is gone.
    """

    PENDING = "pending"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    DISCARDED = "discarded"
    ENDED = "ended"


class Transaction(NamedTuple):
    """One transaction.

    Attributes:
        state: what became of it.
        half: its newest half message.
        half_offset: queue offset of that.
        first_offset: queue offset of its first half message; checks append further ones.
        checks: how often the broker has asked the producer.
        topic: the real one.
        queue_id: in that.
        op_offset: physical offset of the op message, None without one.
        final_offset: physical offset of the committed message, or of the copy that was discarded.
    """

    state: TransactionState
    half: Record
    half_offset: int
    first_offset: int
    checks: int
    topic: str
    queue_id: int
    op_offset: int | None = None
    final_offset: int | None = None

    @property
    def id(self) -> str:
        """Return the transaction's id: the message's unique id."""
        names = ("__transactionId__", "UNIQ_KEY")
        return next((v for n in names if (v := self.half.properties.get(n))), "")


def transactions(store: MessageStore, *, is_all: bool = False) -> Iterator[Transaction]:
    """Yield transactions, oldest first.

    Args:
        store: the store.
        is_all: from the oldest half message that is there; else from where the broker's checks
            stand by `consumerOffset.json`: what is before that is settled.
    """
    offsets = store.consumer_offsets()
    for queue_id in store.queue_ids(HALF_TOPIC):
        progress = 0 if is_all else offsets.get((GROUP, HALF_TOPIC), {}).get(queue_id, 0)
        ops = _settled(store, queue_id, offsets, is_all=is_all)
        yield from _of_queue(store, queue_id, progress, ops)


def _settled(
    store: MessageStore,
    queue_id: int,
    offsets: dict[tuple[str, str], dict[int, int]],
    *,
    is_all: bool,
) -> dict[int, int]:
    """Return the half messages that op messages name, with the op's physical offset."""
    first = 0 if is_all else offsets.get((GROUP, OP_TOPIC), {}).get(queue_id, 0)
    settled: dict[int, int] = {}
    for _, record in store.messages(OP_TOPIC, queue_id, first):
        for text in record.body.split(b","):
            if text.strip().isdigit():
                settled.setdefault(int(text), record.physical_offset)
            elif text.strip():
                path, byte = store.log.file_of(record.physical_offset)
                store.report.add(
                    Kind.WRONG_BYTES, path, byte, f"an op message that names {text[:20]!r}"
                )
    return settled


def _of_queue(
    store: MessageStore, queue_id: int, first: int, ops: dict[int, int]
) -> Iterator[Transaction]:
    groups: dict[str, list[tuple[int, Record]]] = {}
    for offset, half in store.messages(HALF_TOPIC, queue_id, first):
        # Without an id a half message cannot be told from others: it stands for itself.
        name = half.properties.get("UNIQ_KEY") or f"at {half.physical_offset}"
        groups.setdefault(name, []).append((offset, half))
    discarded = _discarded(store)
    for name, halves in groups.items():
        yield _judge(store, name, halves, ops, discarded)


def _discarded(store: MessageStore) -> dict[str, int]:
    return {
        record.properties.get("UNIQ_KEY", ""): record.physical_offset
        for queue_id in store.queue_ids(DISCARDED_TOPIC)
        for _, record in store.messages(DISCARDED_TOPIC, queue_id, 0)
    }


def _judge(
    store: MessageStore,
    name: str,
    halves: list[tuple[int, Record]],
    ops: dict[int, int],
    discarded: dict[str, int],
) -> Transaction:
    offset, half = halves[-1]
    properties = half.properties
    topic = properties.get("REAL_TOPIC", "")
    transaction = Transaction(
        TransactionState.PENDING,
        half,
        offset,
        halves[0][0],
        _number(properties.get("TRANSACTION_CHECK_TIMES")),
        topic,
        _number(properties.get("REAL_QID")),
    )
    settled = [(each, ops[at]) for at, each in halves if at in ops]
    if not settled:
        if name in discarded:
            return transaction._replace(
                state=TransactionState.DISCARDED, final_offset=discarded[name]
            )
        return transaction
    op_offset = max(op for _, op in settled)
    state, final = _final(store, transaction, [each for _, each in halves], op_offset)
    return transaction._replace(state=state, op_offset=op_offset, final_offset=final)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else 0


def _final(
    store: MessageStore, transaction: Transaction, halves: list[Record], op_offset: int
) -> tuple[TransactionState, int | None]:
    """Tell a commit from a rollback: a commit has a record in the real topic, before the op."""
    prepared = {half.physical_offset for half in halves}
    committed = TransactionState.COMMITTED
    uniq_key = transaction.half.properties.get("UNIQ_KEY")
    if uniq_key and transaction.topic:
        hashed = indexfile.key_hash(f"{transaction.topic}#{uniq_key}")
        hits, _, last_offset = store.index.offsets(hashed, ALWAYS, _HITS)
        for hit in hits:
            record = read_record(store.log, hit)
            if record is not None and record.prepared_transaction_offset in prepared:
                return committed, hit
        if last_offset >= op_offset and len(hits) < _HITS:
            return TransactionState.ROLLED_BACK, None
    queue = store.queue(transaction.topic, transaction.queue_id)
    if queue is None:
        return TransactionState.ENDED, None
    first = min(prepared)
    for scanned, entry in enumerate(queue.all_entries(queue.first_after(first))):
        if entry.physical_offset > op_offset:
            break
        if scanned >= _SCANNED:
            return TransactionState.ENDED, None
        record = read_record(store.log, entry.physical_offset)
        if record is not None and record.prepared_transaction_offset in prepared:
            return committed, entry.physical_offset
    return TransactionState.ROLLED_BACK, None
