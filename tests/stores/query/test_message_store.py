"""A store asked from its files: by key, id, offset and time; whole, damaged, and live.

That the answers are a broker's own is shown by `tests/oracle/queries.py`.
"""

from __future__ import annotations

import shutil

import pytest

from reput.formats.errors import FormatError, StoreError, UsageError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.stores.config.message_filter import compile_filter
from reput.stores.findings import Kind
from reput.stores.log.records import NoRecordError, read_record
from reput.stores.query.by_key import MAX_HITS, KeyKind, KeyStatus
from reput.stores.query.index_search import Window
from reput.stores.query.message_store import MessageStore
from reput.stores.query.tail import QueueTail
from reput.stores.queues.by_time import Boundary
from reput.stores.queues.pull import PullStatus
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.stores import Log, config_of, fill

NOW = 1_700_000_000_000


@pytest.fixture
def built(tmp_path):
    """Return a function that dispatches a log and opens a reader of it."""
    opened = []

    def build(log: Log, version: str = "5.5", **conf) -> MessageStore:
        config = config_of(log.write(tmp_path / "store"), tmp_path / "out", version, **conf)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.end)
        dispatcher.close()
        opened.append(MessageStore.open(config.path, config.output, config.settings))
        return opened[-1]

    yield build
    for each in opened:
        each.close()


def numbered(count: int, *, topic: str = "t", step: int = 1000, **fields) -> Log:
    """A log of one queue whose messages are stored `step` ms apart."""
    log = Log()
    for i in range(count):
        properties = {"KEYS": f"k{i} all", "UNIQ_KEY": f"U{i}", "TAGS": f"T{i % 3}"}
        log.append(
            Message(
                topic,
                f"body {i}".encode(),
                properties,
                queue_offset=i,
                store_timestamp=NOW + i * step,
                **fields,
            )
        )
    return log


def bodies(messages):
    return [message.body.decode() for message in messages]


class TestByKey:
    def test_every_key_of_a_random_log_is_found_in_the_logs_order(self, built):
        """
        13 slots and 11 items a file: every chain collides, every key lies in some rolled file.
        """
        log = fill(Log(), 3, 60)
        store = built(log)
        expected: dict[tuple[str, str], list[int]] = {}
        for record in log.records():
            if record.sys_flag & 12 == 12:
                continue
            keys = [k for k in record.properties.get("KEYS", "").split(" ") if k]
            for key in {*keys, record.properties.get("UNIQ_KEY", "")} - {""}:
                expected.setdefault((record.topic, key), []).append(record.physical_offset)

        assert len(expected) > 20
        for (topic, key), places in expected.items():
            hits = [r.physical_offset for r in store.by_key(topic, key).messages]
            assert list(dict.fromkeys(hits)) == places

    def test_what_only_shares_a_hash_is_left_out_unless_asked_for(self, built):
        """
        "Aa" and "BB" have one hash; a broker gives both, its clients look at the keys.
        """
        log = Log()
        for key in ("Aa", "BB"):
            log.append(Message("t", key.encode(), {"KEYS": key}))
        store = built(log)

        assert bodies(store.by_key("t", "BB").messages) == ["BB"]
        assert bodies(store.by_key("t", "BB", is_raw=True).messages) == ["Aa", "BB"]
        assert len(store.by_key("t", "BB").offsets) == 2
        assert store.by_key("u", "BB").status == KeyStatus.NOT_FOUND

    def test_no_more_than_a_broker_gives(self, built):
        log = numbered(MAX_HITS + 20)
        store = built(log)

        assert len(store.by_key("t", "all").messages) == MAX_HITS
        assert bodies(store.by_key("t", "all", limit=2).messages) == ["body 82", "body 83"]
        assert len(store.by_key("t", "all", limit=80).messages) == 80

    def test_kinds_are_told_apart(self, built):
        log = Log()
        for name in ("KEYS", "UNIQ_KEY", "TAGS"):
            log.append(Message("t", name.encode(), {name: "x"}))
        store = built(log)

        assert bodies(store.by_key("t", "x").messages) == ["KEYS", "UNIQ_KEY"]
        assert bodies(store.by_key("t", "x", kind=KeyKind.KEY).messages) == ["KEYS"]
        assert bodies(store.by_key("t", "x", kind=KeyKind.UNIQUE).messages) == ["UNIQ_KEY"]
        assert bodies(store.by_key("t", "x", kind=KeyKind.TAG).messages) == ["TAGS"]

    def test_a_version_without_tags_in_its_index_says_so(self, built):
        store = built(numbered(1), "4.9.8")

        with pytest.raises(UsageError, match="do not index tags"):
            store.by_key("t", "T0", kind=KeyKind.TAG)

    def test_a_window_holds_whole_seconds(self, built):
        store = built(numbered(8))

        found = store.by_key("t", "all", window=Window(NOW + 2000, NOW + 4000))

        assert bodies(found.messages) == ["body 2", "body 3", "body 4"]

    def test_not_found_no_index_and_a_bad_request_are_three_answers(self, built):
        store = built(numbered(3))
        assert store.by_key("t", "none").status == KeyStatus.NOT_FOUND
        for request in ({"topic": ""}, {"key": ""}, {"limit": 0}, {"window": Window(2, 1)}):
            with pytest.raises(UsageError):
                store.by_key(**{"topic": "t", "key": "k", **request})

        shutil.rmtree(store.output / names.INDEX)
        with MessageStore.open(store.root, store.output, store.settings) as other:
            assert other.by_key("t", "k1").status == KeyStatus.NO_INDEX


class TestById:
    def test_an_offset_id_leads_to_its_record(self, built):
        log = numbered(5, store_host="10.0.0.7")
        store = built(log)
        place = log.places[3].position

        answer = store.by_id(f"0A000007{10911:08X}{place:016X}")

        assert answer.message.body == b"body 3"
        assert answer.is_offset
        assert answer.as_offset == ("10.0.0.7", 10911, place)

    def test_a_wrong_offset_is_an_error_and_never_other_bytes(self, built):
        log = numbered(5)
        store = built(log)
        starts = {place.position for place in log.places}

        for offset in range(-1, log.end + 300):
            answer = store.by_id(f"7F000001{10911:08X}{offset & (1 << 64) - 1:016X}")
            assert (answer.message is not None) == (offset in starts)
            assert (answer.problem is None) == (offset in starts)

    def test_another_brokers_id_is_not_this_ones_message(self, built):
        log = numbered(2)
        store = built(log)

        answer = store.by_id(f"0A000001{10911:08X}{log.places[1].position:016X}")

        assert answer.message is None
        assert "127.0.0.1:10911, not by the id's 10.0.0.1:10911" in answer.problem

    def test_a_unique_id_is_looked_for_with_its_topic(self, built):
        log = Log()
        unique = "7F000001BEEF18B4AAC2000003E80007"
        log.append(Message("t", b"mine", {"UNIQ_KEY": unique}))
        store = built(log)

        answer = store.by_id(unique, "t")

        assert answer.message.body == b"mine"
        assert not answer.is_offset
        assert answer.as_unique.process == 0xBEEF
        assert store.by_id(unique, "u").status == KeyStatus.NOT_FOUND
        with pytest.raises(UsageError, match="give its topic"):
            store.by_id("my-own-id")


class TestPull:
    @pytest.mark.parametrize(
        ("offset", "status", "following"),
        [
            (-1, PullStatus.OFFSET_TOO_SMALL, 0),
            (0, PullStatus.FOUND, 3),
            (8, PullStatus.FOUND, 10),
            (10, PullStatus.OFFSET_OVERFLOW_ONE, 10),
            (11, PullStatus.OFFSET_OVERFLOW_BADLY, 10),
        ],
    )
    def test_status_and_next_offset(self, built, offset, status, following):
        pulled = built(numbered(10), mappedFileSizeConsumeQueue="400").pull("t", 0, offset, 3)

        assert (pulled.status, pulled.next_offset) == (status, following)
        assert (pulled.min_offset, pulled.max_offset) == (0, 10)

    def test_a_call_ends_with_its_queues_file(self, built):
        """
        8 entries a file: the next call continues in the next one.
        """
        pulled = built(numbered(20)).pull("t", 0, 5, 32)

        assert [at for at, _ in pulled.messages] == [5, 6, 7]
        assert pulled.next_offset == 8

    def test_a_queue_that_is_not_there_has_no_messages(self, built):
        store = built(numbered(1))

        for topic in ("none", "..", "a/b", "", "\0", "x" * 300):
            assert store.pull(topic, 0, 0).status == PullStatus.NO_MATCHED_LOGIC_QUEUE
            assert store.queue_ids(topic) == []

    def test_tags_by_hash_first_and_by_themselves_after(self, built):
        log = Log()
        for i, tag in enumerate(["Aa", "BB", "C", ""]):
            log.append(Message("t", tag.encode(), {"TAGS": tag} if tag else {}, queue_offset=i))
        store = built(log)

        def found(expression):
            pulled = store.pull("t", 0, 0, 32, compile_filter(expression))
            return bodies(record for _, record in pulled.messages), pulled.next_offset

        assert found("Aa") == (["Aa"], 4)
        assert found(" C || BB ") == (["BB", "C"], 4)
        assert found("*") == (["Aa", "BB", "C", ""], 4)
        assert found("none") == ([], 4)

    def test_sql_by_properties(self, built):
        store = built(numbered(6))
        wanted = compile_filter("TAGS = 'T1'", "SQL92")

        pulled = store.pull("t", 0, 0, 32, wanted)

        assert [at for at, _ in pulled.messages] == [1, 4]


class TestByTime:
    @pytest.mark.parametrize("boundary", Boundary)
    def test_every_boundary(self, built, boundary):
        """
        Three messages a time, eight entries a file: against the definition, entry by entry.
        """
        log = Log()
        times = [NOW + 10 * (i // 3) for i in range(30)]
        for i, stored in enumerate(times):
            log.append(Message("t", b"x", queue_offset=i, store_timestamp=stored))
        store = built(log)

        for asked in range(times[0] - 1, times[-1] + 2):
            found = store.offset_by_time("t", 0, asked, boundary)
            if boundary == Boundary.LOWER:
                expected = next((i for i, t in enumerate(times) if t >= asked), len(times))
            else:
                expected = max((i for i, t in enumerate(times) if t <= asked), default=0)
            assert found == expected, asked

    def test_over_the_whole_log(self, built):
        log = numbered(40, step=7)
        store = built(log)

        for asked in range(NOW - 1, NOW + 40 * 7):
            expected = next(
                (p.position for p in log.places if p.message.store_timestamp >= asked), None
            )
            assert store.first_since(asked) == expected
        assert [r.physical_offset for r in store.records_from(log.places[10].position)] == [
            p.position for p in log.places[10:]
        ]


class TestRefresh:
    def test_log_files_that_came_since_are_read(self, built):
        log = numbered(6)
        store = built(log)
        log.blank()
        place = log.append(Message("t", b"behind", store_timestamp=NOW + 9000))
        log.write(store.root)

        assert read_record(store.log, place.position) is None
        store.refresh()
        record = read_record(store.log, place.position)
        assert record is not None
        assert record.body == b"behind"


class TestDamage:
    def test_a_truncated_log_file_is_named(self, built):
        """
        And the others can be read.
        """
        store = built(numbered(60))
        path = min((store.root / names.COMMITLOG).iterdir())
        path.write_bytes(path.read_bytes()[:-1])

        with MessageStore.open(store.root, store.output, store.settings) as opened:
            assert [f.path for f in opened.report.findings] == [str(path)]

    def test_a_log_without_a_whole_file_is_refused(self, built):
        store = built(numbered(60))
        for path in (store.root / names.COMMITLOG).iterdir():
            path.write_bytes(path.read_bytes()[:-1])

        with pytest.raises(FormatError, match="mappedFileSizeCommitLog"):
            MessageStore.open(store.root, store.output, store.settings)

    def test_no_store_is_named(self, tmp_path):
        with pytest.raises(StoreError, match="no such directory"):
            MessageStore.open(tmp_path / "none")

    def test_entries_that_point_elsewhere_give_no_message(self, built):
        """
        Each byte of a queue's entries in turn: messages of the queue or none, never other bytes.
        """
        log = numbered(6)
        store = built(log)
        path = store.output / names.CONSUMEQUEUE / "t" / "0" / f"{0:020d}"
        whole = path.read_bytes()
        places = {place.position for place in log.places}
        for at in range(6 * 20):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
            store.refresh()
            for offset in range(8):
                pulled = store.pull("t", 0, offset)
                assert {r.physical_offset for _, r in pulled.messages} <= places
            for moment in (NOW, NOW + 3000, NOW + 9000):
                store.offset_by_time("t", 0, moment)

    @pytest.mark.parametrize("size", [0, 1, 19, 20, 50])
    def test_a_cut_queue_file_is_named(self, built, size):
        store = built(numbered(6))
        path = store.output / names.CONSUMEQUEUE / "t" / "0" / f"{0:020d}"
        path.write_bytes(path.read_bytes()[:size])

        pulled = store.pull("t", 0, 0)

        assert len(pulled.messages) == size // 20
        assert [f.kind for f in store.report.findings] == [Kind.SIZE]

    def test_foreign_files_in_a_queue_are_named(self, built):
        store = built(numbered(6))
        directory = store.output / names.CONSUMEQUEUE / "t" / "0"
        (directory / "notes.txt").write_text("hello")

        assert len(store.pull("t", 0, 0).messages) == 6
        assert [f.kind for f in store.report.findings] == [Kind.NAME]

    def test_at_every_place_of_the_log_what_is_there_or_none(self, built):
        log = fill(Log(), 4, 20)
        store = built(log)
        records = {r.physical_offset: r for r in log.records()}

        for position in range(-1, log.end + 200):
            assert read_record(store.log, position) == records.get(position)
            if position not in records:
                with pytest.raises(NoRecordError):
                    store.at(position)

    def test_a_size_of_a_gigabyte_is_not_read(self, built):
        """
        The bytes of a record that says it is larger than any the broker writes.
        """
        log = numbered(2)
        store = built(log, mappedFileSizeCommitLog="4096", maxMessageSize="1000")
        path = store.root / names.COMMITLOG / f"{0:020d}"
        raw = bytearray(path.read_bytes())
        raw[0:4] = (1 << 30).to_bytes(4, "big")
        path.write_bytes(raw)

        with pytest.raises(NoRecordError, match="do not add up"):
            store.at(0)


class TestQueueTail:
    def test_messages_are_given_as_they_come(self, tmp_path):
        """
        What is dispatched between two looks, by queue, once; new queues and files as well.
        """
        log = Log()
        config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
        first = log.append(Message("t", b"0", {"TAGS": "a"}))
        log.write(tmp_path / "store")
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.end)
        with MessageStore.open(config.path, config.output, config.settings) as store:
            tail = QueueTail(store, "t")
            wanted = QueueTail(store, "t", compile_filter("a"), from_start=True)
            assert list(tail.look()) == []
            assert [a.record.physical_offset for a in wanted.look()] == [first.position]
            for i in range(1, 30):
                queue_id, at = (0, i) if i % 2 else (1, i // 2 - 1)
                queue_offset = (i + 1) // 2 if queue_id == 0 else at
                tag = {"TAGS": "a" if i % 3 else "b"}
                log.append(
                    Message("t", str(i).encode(), tag, queue_id=queue_id, queue_offset=queue_offset)
                )
                log.write(tmp_path / "store")
                dispatcher.dispatch(log.end)
                assert bodies(a.record for a in tail.look()) == [str(i)]
                assert bodies(a.record for a in wanted.look()) == ([str(i)] if i % 3 else [])
            assert list(tail.look()) == []
        dispatcher.close()


def test_our_output_and_a_brokers_own_are_read_alike(golden):
    """
    Queues and index stand in the store itself, with RocketMQ's own files around them.
    """
    source = golden("5.5.0", "basic")
    from reput.formats.rocketmq import broker

    settings = broker.settings_of("5.5.0", source.conf)
    with MessageStore.open(source.path, settings=settings) as store:
        counts = {
            t: sum(store.queue(t, q).max_offset for q in store.queue_ids(t)) for t in store.topics()
        }
        assert sum(counts.values()) > 1000
        records = list(store.records_from(0))
        assert len(records) == sum(counts.values())
        assert store.report.ok
