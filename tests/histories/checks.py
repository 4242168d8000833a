"""What is compared when a history is at rest; each function returns what differs, a line each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import EqualTo

from reput.formats.errors import FormatError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import COMMIT
from reput.stores.log.records import is_in_queue
from reput.stores.query.index_search import Window
from reput.stores.query.message_store import MessageStore
from reput.streaming.source.options import parse
from reput.streaming.source.pushdown import choosing
from reput.streaming.source.pushdown.filtered import FilteringReader
from tests.builders.slow_twins import SlowStore, differences
from tests.histories.messages import BATCHES

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from reput.streaming.settings.config import StoreConfig
    from tests.histories.logs import Rec
    from tests.histories.real import Real

FOREVER = (1 << 63) - 1
_ENTRY = 20
# Of it: physical offset and size.
_PLACE = 12
_LIMIT = 64
# What thousands of histories ask: a few questions at each rest.
_ASKED = 3


def twin(config: StoreConfig, records: Sequence[Rec], *, has_batches: bool) -> SlowStore:
    """Return what a broker derives from records, by the readable twin of the dispatch."""
    batches = {BATCHES} if has_batches and config.settings.version.has_batch_queues else ()
    return SlowStore(config.settings, batches).dispatch([r.record for r in records])


def files_of(output: Path) -> dict[str, bytes]:
    """Return what was dispatched: bytes by path; index files, named by a clock, by number."""
    found = {}
    cut = len(str(output)) + 1
    for kind in (names.CONSUMEQUEUE, names.CONSUMEQUEUE_EXT, names.BATCH_CONSUMEQUEUE):
        for directory, _, files in os.walk(output / kind):
            for file in files:
                found[f"{directory[cut:]}/{file}"] = _content(f"{directory}/{file}")
    index = output / names.INDEX
    if index.is_dir():
        for number, file in enumerate(sorted(path.name for path in index.iterdir())):
            found[f"{names.INDEX}/{number}"] = _content(f"{index}/{file}")
    return found


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a thousand times a second
        return file.read()


def output_differs(output: Path, expected: SlowStore) -> list[str]:
    """Compare all files of an output, every byte."""
    found = files_of(output)
    # The header of an index file without items is written when a 5.x broker stops.
    return min((differences(found, expected.files(empty_count=count)) for count in (1, 0)), key=len)


def identity(rec: Rec) -> tuple[Any, ...]:
    """Return what tells a message from any other, as a row of the DataFrame has it."""
    record = rec.record
    properties = record.properties
    return (
        record.physical_offset,
        record.topic,
        record.queue_id,
        record.queue_offset,
        properties.get("TAGS"),
        properties.get("KEYS"),
        bytes(record.body),
    )


def row_identity(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the same of a row."""
    return tuple(row.values())


def keys_of(rec: Rec) -> list[str]:
    """Return the keys that a message can be asked for."""
    properties = rec.record.properties
    found = [key for key in properties.get("KEYS", "").split(" ") if key]
    return found + [key for key in [properties.get("UNIQ_KEY")] if key]


def _is_indexed(rec: Rec) -> bool:
    return rec.record.sys_flag & 0xC != 0xC


def queries_differ(  # noqa: C901, PLR0912 - each kind of query in turn
    config: StoreConfig,
    output: Path,
    now: Sequence[Rec],
    expired: Sequence[Rec],
    gone: Sequence[Rec],
    cut: Sequence[Rec],
    pick: random.Random,
    *,
    is_complete: bool,
    counts: Counter[str],
) -> list[str]:
    """Ask for messages by key, queue and place.

    Args:
        config: the store.
        output: where queues and index are.
        now: the log's records.
        expired: those before them that the output has had.
        gone: some that it had, and has no more.
        cut: all that were cut, whether it had them or not.
        pick: which are asked for.
        is_complete: the output has all records of the log: then each must be found.
        counts: of what was asked.
    """
    wrong = []
    numbers = _numbers([*expired, *now])
    there = {r.position: r.raw for r in now}
    lost = [r for r in gone if there.get(r.position) != r.raw]
    asked = pick.sample(now, min(_ASKED, len(now))) + pick.sample(lost, min(_ASKED, len(lost)))
    with MessageStore.open(config.path, output, config.settings) as store:
        for rec in asked:
            record = rec.record
            for key in keys_of(rec)[:2]:
                counts["query key"] += 1
                answer = store.by_key(record.topic, key, window=Window(0, FOREVER), limit=_LIMIT)
                found = sorted(m.physical_offset for m in answer.messages)
                having = [r for r in now if r.record.topic == record.topic and key in keys_of(r)]
                wanted = sorted(r.position for r in having if _is_indexed(r))
                # By the item of one that was cut, one that is not indexed may be found.
                is_right = set(wanted) if is_complete else {r.position for r in having}
                if not set(found) <= is_right:
                    wrong.append(f"key {key!r} of {record.topic}: {found}, in the log are {wanted}")
                elif is_complete and len(found) < _LIMIT and set(found) != set(wanted):
                    wrong.append(f"key {key!r} of {record.topic} finds {found} and not {wanted}")
            if record.topic == BATCHES or record.sys_flag & 0xC not in {0, COMMIT}:
                continue
            counts["query offset"] += 1
            asked_for = numbers.get(rec, record.queue_offset)
            pulled = store.pull(record.topic, record.queue_id, asked_for, 3)
            place = f"{record.topic} {record.queue_id} at {asked_for}"
            own = {numbers[r]: r.position for r in now if _place(r) == _place(rec) and r in numbers}
            # By the entry of a record that was cut a broker gives the bytes that stand there now.
            # We give them where they are a record of the queue and of this size.
            stood = {(r.position, len(r.raw)) for r in cut if _place(r) == _place(rec)}
            of_queue = [r for r in now if _place(r) == _place(rec)]
            stood_over = {r.position for r in of_queue if (r.position, len(r.raw)) in stood}
            for number, message in pulled.messages:
                at = message.physical_offset
                if own.get(number) != at and (is_complete or at not in stood_over):
                    wrong.append(f"queue {place} has {at} as {number}, not in the log")
            queue_end = 1 + max(own, default=-1)
            if is_complete and 0 < queue_end != pulled.max_offset:
                wrong.append(f"queue {place} ends at {pulled.max_offset} and not {queue_end}")
            if is_complete and rec not in lost and rec in numbers:
                first = [m.physical_offset for _, m in pulled.messages[:1]]
                if first != [rec.position]:
                    wrong.append(f"queue {place} has {first} and not {rec.position}")
        for rec in lost[:_ASKED]:
            counts["query place"] += 1
            try:
                found_at = store.at(rec.position)
            except FormatError:
                continue
            if found_at.physical_offset not in there:
                wrong.append(f"at {rec.position} stands a record that is not in the log")
    return wrong


def _numbers(records: Sequence[Rec]) -> dict[Rec, int]:
    """Return where a queue made of these records has the entry of each.

    At the record's queue offset; or below, where the log's numbers have a gap, because a broker has
    counted the entries of records that it had cut (`ConsumeQueue#putMessagePositionInfo` appends).
    A record whose number is an earlier one has no entry.
    """
    ends: dict[tuple[str, int, bool], int] = {}
    found = {}
    for rec in records:
        place = _place(rec)
        number = rec.record.queue_offset
        if place[2] and (number == 0 or number >= ends.get(place, number)):
            found[rec] = ends.get(place, number)
            ends[place] = found[rec] + 1
    return found


def _place(rec: Rec) -> tuple[str, int, bool]:
    record = rec.record
    return record.topic, record.queue_id, record.sys_flag & 0xC in {0, COMMIT}


def filters_differ(
    options: dict[str, str], now: Sequence[Rec], pick: random.Random, counts: Counter[str]
) -> list[str]:
    """Ask for rows by topic and key, and have queues and index chosen wherever they can be."""
    wrong = []
    keyed = [r for r in now if r.record.properties.get("KEYS")]
    # The newest ones are those that a cut makes special.
    for rec in keyed[-1:] + pick.sample(keyed, min(1, len(keyed))):
        topic, keys = rec.record.topic, rec.record.properties["KEYS"]
        counts["push-down"] += 1
        reader = FilteringReader(parse(options))
        reader.pushFilters([EqualTo(("topic",), topic), EqualTo(("keys",), keys)])
        found = sorted(
            row["physicalOffset"]
            for partition in reader.partitions()
            for batch in reader.read(partition)
            for row in batch.select(["physicalOffset", "topic", "keys"]).to_pylist()
            if row["topic"] == topic and row["keys"] == keys
        )
        wanted = [
            r.position
            for r in now
            if (r.record.topic, r.record.properties.get("KEYS")) == (topic, keys)
        ]
        if found != wanted:
            wrong.append(f"rows of {topic} with keys {keys!r}: {found} and not {wanted}")
    return wrong


SMALL_STEPS = {"_NEAR": 16, "_BEGINNING": 0, "_WORTH": 100, "ENTRY_SIZE": 0}
"""Of `streaming.source.pushdown.choosing`, for logs whose records are close together."""
assert all(hasattr(choosing, name) for name in SMALL_STEPS)


def broker_queues_differ(
    broker: Real,
    config: StoreConfig,
    output: Path,
    expected: SlowStore,
    counts: Counter[str],
    now: Mapping[int, Rec],
    *,
    cut_to: int,
) -> list[str]:
    """Compare each entry that the broker has, up to each queue's end, with the output's.

    Args:
        broker: is running.
        config: the store.
        output: has all of the log.
        expected: the output's queues.
        counts: of what was compared.
        now: the log's records by position.
        cut_to: where the last record ended that was ever cut, 0 if none was: the broker may have
            counted entries of records that are gone, and may pass over records before that.
    """
    wrong = []
    size = config.settings.consumequeue_file_size
    # The broker may have a second unit of a record that it built twice.
    compared = _PLACE if config.settings.writes_ext else _ENTRY
    batches = set(expected.batch_topics)
    for topic, queue_id, low, high in broker.queues():
        if topic in batches:
            continue
        ours = expected.queues.get((topic, queue_id))
        end = (ours.last + ours.wrote) // _ENTRY if ours is not None and ours.files else 0
        counts["broker's queue"] += 1
        name = f"{names.CONSUMEQUEUE}/{topic}/{queue_id}"
        theirs = _entries(broker.store / name, low, high, size)
        found = _entries(output / name, low, end, size)
        if [e[:compared] for e in theirs] == [e[:compared] for e in found] or high <= low:
            continue
        if _differ_where_expired(theirs, found, compared, broker.begin):
            counts["broker's queue that names entries of files that it has removed"] += 1
            continue
        if cut_to:
            # Entries of records that were cut may count again: those of the log's are the same.
            counts["broker's queue with entries of what was cut"] += 1
            theirs = [e for n, e in enumerate(theirs, low) if _is_own(e, n, topic, queue_id, now)]
            found = _entries(output / name, 0, end, size)
            found = [e for e in found if int.from_bytes(e[:8]) in now]
            if [e[:compared] for e in theirs] == [e[:compared] for e in found]:
                continue
            if [e[:_PLACE] for e in theirs] == [e[:_PLACE] for e in found]:
                # It has dispatched a record before what has no CRC, its properties, was torn.
                counts["broker's queue with codes of what was torn"] += 1
                continue
            raw = _entries(broker.store / name, 0, high, size)
            own = {e[:compared] for e in found}
            # A record of the same size may stand where one was cut: its codes tell them apart.
            stale = [e for e in raw if e[:compared] not in own]
            kept = [e for e in raw if _is_of_log(e, now) and e not in stale]
            if _lacks_only(kept, found, compared, cut_to):
                counts["broker's queue that lacks what its start passed over"] += 1
                continue
        first = next((i for i, (a, b) in enumerate(zip(theirs, found, strict=False)) if a != b), -1)
        wrong.append(
            f"queue {topic} {queue_id} from {low} to {high} in the broker's, to {end} in ours; "
            f"entry {first}: the broker has {theirs[first].hex() if theirs else ''}, "
            f"we have {found[first].hex() if found else ''}"
        )
    return wrong


def _lacks_only(theirs: Sequence[bytes], ours: Sequence[bytes], compared: int, start: int) -> bool:
    """Tell whether entries are ours but for some of records before a physical offset.

    A broker that starts dispatches from where the records end that its queues name (4.9.8
    `DefaultMessageStore#start`: `maxPhysicalPosInLogicQueue`; 5.x recovers from there). If one of
    them was cut, that may be past a record that was written later, or that has become the log's
    again: it gets no entry, and those after it move up.
    """
    there = {int.from_bytes(e[:8]) for e in theirs}
    both = [e[:compared] for e in ours if int.from_bytes(e[:8]) in there]
    lacking = [int.from_bytes(e[:8]) for e in ours if int.from_bytes(e[:8]) not in there]
    return both == [e[:compared] for e in theirs] and all(each < start for each in lacking)


def _differ_where_expired(
    theirs: Sequence[bytes], ours: Sequence[bytes], compared: int, begin: int
) -> bool:
    """Tell whether entries are ours but for files that are gone, whose records have expired.

    A broker whose records of a queue have all expired does not move its first offset
    (`ConsumeQueue#correctMinOffset` looks for an entry that is left).
    """
    return len(theirs) == len(ours) and all(
        a[:compared] == b[:compared] or (not a and int.from_bytes(b[:8]) < begin)
        for a, b in zip(theirs, ours, strict=True)
    )


def _is_of_log(entry: bytes, now: Mapping[int, Rec]) -> bool:
    rec = now.get(int.from_bytes(entry[:8]))
    return rec is not None and int.from_bytes(entry[8:12]) == len(rec.raw)


def _entries(directory: Path, low: int, high: int, size: int) -> list[bytes]:
    places = [divmod(number * _ENTRY, size) for number in range(low, high)]
    return [_bytes(directory / names.offset_file(file * size), at) for file, at in places]


def _is_own(entry: bytes, number: int, topic: str, queue_id: int, now: Mapping[int, Rec]) -> bool:
    """Tell whether an entry is that of a record of the log, by what the record says."""
    if not _is_of_log(entry, now):
        return False
    record = now[int.from_bytes(entry[:8])].record
    properties = record.properties
    if properties.get("INNER_MULTI_DISPATCH") == topic:
        return properties["INNER_MULTI_QUEUE_OFFSET"] == str(number)
    return (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, number)


def _bytes(path: Path, at: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(_ENTRY)
    except FileNotFoundError:
        return b""


def answers_differ(  # noqa: C901, PLR0912 - each kind of answer in turn
    broker: Real,
    config: StoreConfig,
    now: Sequence[Rec],
    gone: Sequence[Rec],
    pick: random.Random,
    counts: Counter[str],
    *,
    was_cut: bool,
) -> list[str]:
    """Ask the broker and us what its own store says, and compare the answers.

    A broker that cuts its log moves the ends of its queues in memory only
    (`ConsumeQueue#truncateDirtyLogicFiles` erases nothing), and files cannot show that: entries
    whose records were cut count again once the log has grown past them. They do for the next
    broker that starts, too, and its answer is ours then.

    Args:
        broker: is running.
        config: the store.
        now: the log's records.
        gone: some that it had, and no longer has.
        pick: which are asked for.
        counts: of what was asked.
        was_cut: the log was cut: where an answer differs, a broker that starts has to give ours.
    """
    from tests.oracle import queries

    wrong = []
    pulled: list[tuple[list[str], Any, Any]] = []
    asked: list[list[str]] = []
    for rec in pick.sample(now, min(_ASKED, len(now))) + pick.sample(gone, min(_ASKED, len(gone))):
        record = rec.record
        topic = queries.word(record.topic)
        for key in keys_of(rec)[:1]:
            ends = ["64", "0", str(FOREVER)]
            asked += [[kind, topic, queries.word(key), *ends] for kind in ("KEY", "OFFSETS")]
        offset = record.queue_offset + pick.choice((0, 0, 1, 5))
        if record.topic != BATCHES:
            asked.append(["GET", topic, str(record.queue_id), str(offset), "3", ""])
        asked.append(["AT", str(rec.position)])
    theirs = broker.answers(asked)
    with MessageStore.open(config.path, None, config.settings) as store:
        for words, answer in zip(asked, theirs, strict=True):
            if isinstance(answer, dict) and "thrown" in answer:
                if not was_cut:
                    wrong.append(f"{_shown(words)}: the broker throws {answer['thrown']}")
                # Else it trips over bytes that it has cut.
                counts["broker's exceptions"] += 1
                continue
            counts[f"asked {words[0]}"] += 1
            try:
                ours = queries.answer(store, words)
            except FormatError:
                ours = None
            if (
                words[0] == "GET"
                and answer["status"] == "NO_MESSAGE_IN_QUEUE"
                and answer["max"] == 0
            ):
                # A running broker makes the queue that it is asked for.
                answer["status"] = ours["status"]
            if ours != answer and was_cut and words[0] == "GET":
                pulled.append((words, answer, ours))
            elif was_cut and _is_without_cut(words[0], ours, answer, now):
                counts["what was cut, or no record, that the broker gives"] += 1
            elif ours != answer:
                wrong.append(f"{_shown(words)}: the broker says {answer}, we say {ours}")
    if pulled:

        def ask_files(store_path: Path) -> list[Any]:
            with MessageStore.open(store_path, None, config.settings) as store:
                return [_without_empty_file(store, words) for words, _, _ in pulled]

        started = broker.answers_after_start([words for words, _, _ in pulled], ask_files)
        if started is None:
            counts["a broker that cannot start with these files"] += 1
            return wrong
        for (words, answer, ours), other, (again, empty) in zip(pulled, *started, strict=True):
            counts["asked a broker that starts"] += 1
            own = [r for r in now if is_in_queue(r.record, queries.text(words[1]), int(words[2]))]
            theirs = [other, answer]
            if empty:
                asked_for = int(words[3])
                theirs += [_with_fewer(each, empty, asked_for) for each in theirs if "max" in each]
            # Those of the one that starts; where it has dispatched what lacked, the files say so.
            if not any(each in theirs[::2] for each in (ours, again)) and not any(
                _is_without_pieces(ours, each, own) for each in theirs
            ):
                wrong.append(
                    f"{_shown(words)}: the broker says {answer}, one that starts {other}, we {ours}"
                )
    return wrong


def _with_fewer(answer: dict[str, Any], entries: int, asked_for: int) -> dict[str, Any]:
    """Return what a broker would have answered if its queue had ended this many entries earlier."""
    end = answer["max"] - entries
    found = {**answer, "max": end}
    if answer["status"].startswith("OFFSET_OVERFLOW"):
        kind = "ONE" if asked_for == end else "BADLY"
        found |= {"status": f"OFFSET_OVERFLOW_{kind}", "next": end}
    return found


def _without_empty_file(store: MessageStore, words: list[str]) -> tuple[Any, int]:
    """Return our answer, and how many entries a broker counts more: of a last file that has none.

    A broker that starts takes a file's first entry for one if its physical offset is before the
    log's end, and that of zeros is (`ConsumeQueue#truncateDirtyLogicFiles`).
    """
    from tests.oracle import queries

    queue = store.queue(queries.text(words[1]), int(words[2]))
    is_empty = (
        queue is not None
        and queue.end in queue.files.bases
        and not any(queue.files.read(queue.end, queue.files.unit))
    )
    return queries.answer(store, words), int(is_empty)


def _is_without_pieces(ours: Any, theirs: Any, now: Sequence[Rec]) -> bool:
    """Tell whether an answer is the broker's without what is not a record of the queue.

    By an entry of a record that was cut a broker hands out that many bytes of whatever stands there
    (`CommitLog#getMessage` looks at none of them); we pass over such an entry, and continue.
    """
    there = {(r.position, len(r.raw)) for r in now}
    records = [each for each in theirs["messages"] if tuple(each) in there]
    if len(records) == len(theirs["messages"]) or ours is None:
        return False
    found = ours["messages"]
    return bool(
        (ours["min"], ours["max"]) == (theirs["min"], theirs["max"])
        and ours["next"] >= theirs["next"]
        and found[: len(records)] == records
        and all(tuple(each) in there for each in found)
        and ours["status"] == ("FOUND" if found else "MESSAGE_WAS_REMOVING")
    )


def _is_without_cut(kind: str, ours: Any, theirs: Any, now: Sequence[Rec]) -> bool:
    """Tell whether an answer is the broker's without what is not a record of the log.

    A broker believes its index and the place it is asked for (`DefaultMessageStore#lookMessageByOffset`): by an
    item of a record that was cut it gives what stands there now. It may be a record that was cut,
    in the space of a BLANK, or a piece of another record.
    """
    there = {r.position for r in now}
    if kind == "AT":
        return ours is None and theirs is not None and theirs[0] not in there
    if kind != "KEY":
        return False
    kept = [position for position in theirs if position in there]
    return len(kept) < len(theirs) and ours == kept


def _shown(words: Sequence[str]) -> str:
    from tests.oracle import queries

    return " ".join([words[0], *(queries._shown(word) for word in words[1:])])
