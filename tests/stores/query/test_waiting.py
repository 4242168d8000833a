"""What waits in a store: transactions, delayed messages, timers; and who has not had what."""

from __future__ import annotations

import json

import pytest

from reput.formats.errors import StoreError
from reput.formats.rocketmq import broker, names
from reput.formats.rocketmq.commitlog import COMMIT
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE
from reput.formats.rocketmq.encode import Message
from reput.stores.query import waiting
from reput.stores.query.consumers import lags, read_offsets
from reput.stores.query.message_store import MessageStore
from reput.stores.query.transactions import (
    DISCARDED_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    TransactionState,
    transactions,
)
from reput.stores.query.waiting import TimerState
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.stores import QUEUE_FILE, Log, config_of

NOW = 1_700_000_000_000


class Queues:
    """A log whose messages get their queue offsets by themselves."""

    def __init__(self):
        self.log = Log(1 << 14)
        self.next: dict[tuple[str, int], int] = {}

    def put(self, topic, body=b"", queue_id=0, **fields):
        offset = self.next.get((topic, queue_id), 0)
        self.next[topic, queue_id] = offset + 1
        properties = fields.pop("properties", {})
        message = Message(topic, body, properties, queue_id=queue_id, queue_offset=offset, **fields)
        return self.log.append(message).position

    def half(self, uniq_key, topic="pay", checks=0):
        properties = {"UNIQ_KEY": uniq_key, "REAL_TOPIC": topic, "REAL_QID": "1", "PGROUP": "g"}
        if checks:
            properties["TRANSACTION_CHECK_TIMES"] = str(checks)
        return self.put(HALF_TOPIC, b"half", properties=properties)

    def commit(self, uniq_key, half, topic="pay"):
        return self.put(
            topic,
            b"half",
            queue_id=1,
            properties={"UNIQ_KEY": uniq_key},
            sys_flag=COMMIT,
            prepared_transaction_offset=half,
        )

    def op(self, body):
        return self.put(OP_TOPIC, body, properties={"TAGS": "d"})


@pytest.fixture
def queues():
    return Queues()


@pytest.fixture
def opened(tmp_path):
    """Return a function that dispatches a log and opens a reader of it."""
    kept = []

    def build(queues: Queues, **conf) -> MessageStore:
        log = queues.log
        conf = {"mappedFileSizeCommitLog": str(1 << 14), **conf}
        config = config_of(log.write(tmp_path / "store"), tmp_path / "out", **conf)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.end)
        dispatcher.close()
        kept.append(MessageStore.open(config.path, config.output, config.settings))
        return kept[-1]

    yield build
    for each in kept:
        each.close()


def write_config(store, name, text):
    directory = store.root / names.CONFIG
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(text)


def states(store, **options):
    return {each.id: each.state for each in transactions(store, **options)}


class TestTransactions:
    @pytest.mark.parametrize("form", [(b"0", b"1"), (b"0,1,",), (b"1,0,",)])
    @pytest.mark.parametrize("has_index", [True, False])
    def test_both_forms_of_op_messages(self, queues, opened, form, has_index):
        """
        One offset a message before 5.1, several with commas later, in any order; with the index
        at hand, and by the real topic's queue alone.
        """
        half = queues.half("A")
        queues.half("B")
        queues.half("C")
        committed = queues.commit("A", half)
        for body in form:
            queues.op(body)
        store = opened(queues, messageIndexEnable=str(has_index).lower())

        found = {each.id: each for each in transactions(store)}

        assert found["A"].state == TransactionState.COMMITTED
        assert found["A"].final_offset == committed
        assert found["B"].state == TransactionState.ROLLED_BACK
        assert found["C"].state == TransactionState.PENDING
        assert (found["C"].topic, found["C"].queue_id, found["C"].half_offset) == ("pay", 1, 2)

    def test_checks_append_anew_what_is_one_transaction(self, queues, opened):
        queues.half("A")
        for checks in range(1, 4):
            queues.half("A", checks=checks)
        store = opened(queues)

        (found,) = transactions(store)

        assert (found.state, found.checks) == (TransactionState.PENDING, 3)
        assert (found.first_offset, found.half_offset) == (0, 3)

    def test_a_commit_of_an_earlier_half_counts(self, queues, opened):
        half = queues.half("A")
        queues.half("A", checks=1)
        queues.commit("A", half)
        queues.op(b"0")
        store = opened(queues)

        assert states(store) == {"A": TransactionState.COMMITTED}

    def test_what_was_given_up_is_discarded(self, queues, opened):
        queues.half("A", checks=15)
        queues.put(DISCARDED_TOPIC, b"half", properties={"UNIQ_KEY": "A"})
        store = opened(queues)

        assert states(store) == {"A": TransactionState.DISCARDED}

    def test_without_its_topics_queue_an_ended_one_is_only_that(self, queues, opened):
        queues.half("A", topic="gone")
        queues.op(b"0")
        store = opened(queues, messageIndexEnable="false")

        assert states(store) == {"A": TransactionState.ENDED}

    def test_what_the_broker_is_done_with_is_left_out_unless_asked_for(self, queues, opened):
        for name in "ABC":
            queues.half(name)
        queues.op(b"0,1,")
        store = opened(queues)
        group = "CID_RMQ_SYS_TRANS"
        text = f'{{"offsetTable":{{"{HALF_TOPIC}@{group}":{{0:2}},"{OP_TOPIC}@{group}":{{0:1}}}}}}'
        write_config(store, "consumerOffset.json", text)

        assert list(states(store)) == ["C"]
        assert list(states(store, is_all=True)) == ["A", "B", "C"]

    def test_an_op_message_of_other_text_is_named(self, queues, opened):
        queues.half("A")
        queues.op(b"0,x,\x1b[2J")
        store = opened(queues)

        assert list(states(store)) == ["A"]
        assert len(store.report.findings) == 2

    @pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.0"])
    def test_a_real_brokers_transactions(self, golden, version):
        """
        Committed is what has a record that names it. (A tenth of this golden's half messages are of
        the old kind, without an entry in their queue.)
        """
        source = golden(version, "trans")
        settings = broker.settings_of(version, source.conf)
        with MessageStore.open(source.path, settings=settings) as store:
            found = {each.half.physical_offset: each.state for each in transactions(store)}
            named = {
                r.prepared_transaction_offset
                for r in store.records_from(0)
                if r.sys_flag & 0xC == COMMIT
            }

            assert len(found) == 630
            assert {at for at, state in found.items() if state == "committed"} == named & set(found)
            assert set(found.values()) == {"committed", "rolled back"}
            assert store.report.ok


class TestDelayed:
    def test_levels_against_delay_offset_json(self, queues, opened):
        for i in range(4):
            queues.put(
                "SCHEDULE_TOPIC_XXXX",
                str(i).encode(),
                queue_id=2,
                properties={"DELAY": "3", "REAL_TOPIC": "t", "REAL_QID": "5"},
                store_timestamp=NOW + i,
            )
        store = opened(queues)
        write_config(store, "delayOffset.json", '{"offsetTable":{3:1}}')

        (level,) = waiting.delay_levels(store)
        messages = list(waiting.delayed(store, 3))

        assert (level.level, level.delay, level.waiting) == (3, 10_000, 3)
        assert level.next_due == NOW + 1 + 10_000
        assert [m.due for m in messages] == [NOW + i + 10_000 for i in (1, 2, 3)]
        assert (messages[0].topic, messages[0].queue_id) == ("t", "5")
        assert list(waiting.delayed(store, 4)) == []

    @pytest.mark.parametrize(
        "text", ["[]", '{"offsetTable":{"x":1}}', '{"offsetTable":[1]}', '{"offsetTable":{1:{}}}']
    )
    def test_a_file_that_says_something_else_is_named(self, queues, opened, text):
        queues.put("SCHEDULE_TOPIC_XXXX", properties={"DELAY": "1"})
        store = opened(queues)
        write_config(store, "delayOffset.json", text)
        if text == "[]":
            # Half-written: the broker's own backup counts, and there is none.
            assert [each.next_offset for each in waiting.delay_levels(store)] == [0]
            return
        with pytest.raises(StoreError, match=r"delayOffset\.json"):
            list(waiting.delay_levels(store))


class TestTimers:
    def put(self, queues, uniq_key, due, **properties):
        queues.put(
            waiting.TIMER_TOPIC,
            properties={"UNIQ_KEY": uniq_key, "TIMER_OUT_MS": str(due), **properties},
        )

    def test_states(self, queues, opened):
        self.put(queues, "due", NOW - 1)
        self.put(queues, "later", NOW + 1)
        self.put(queues, "rolled", NOW + 9)
        self.put(queues, "rolled", NOW + 9, TIMER_ROLL_TIMES="1")
        self.put(queues, "recalled", NOW + 9)
        self.put(queues, "x", NOW + 9, TIMER_DEL_UNIQKEY="recalled")
        self.put(queues, "fresh", NOW + 9)
        store = opened(queues)
        (store.root / names.CONFIG).mkdir(exist_ok=True)
        raw = b"".join(n.to_bytes(8, "big") for n in (NOW, 0, 6))
        (store.root / names.CONFIG / "timercheck").write_bytes(raw)

        found = [(t.record.properties["UNIQ_KEY"], t.state) for t in waiting.timers(store, 0)]

        assert found == [
            ("due", TimerState.DELIVERED),
            ("later", TimerState.WAITING),
            ("rolled", TimerState.ROLLED),
            ("rolled", TimerState.WAITING),
            ("recalled", TimerState.CANCELLED),
            ("fresh", TimerState.NEW),
        ]

    @pytest.mark.parametrize(
        ("key", "due", "stored", "state"),
        [
            ("my_order_7", 9000, 0, TimerState.CANCELLED),
            ("my_topic+my_order_7", 9000, 0, TimerState.CANCELLED),
            ("other+my_order_7", 9000, 0, TimerState.DELIVERED),
            ("my_topic_my_order_7", 9000, 0, TimerState.DELIVERED),
            ("7", 9000, 0, TimerState.DELIVERED),
            ("my_topic+my_order_7", 8000, 0, TimerState.DELIVERED),
            ("my_topic+my_order_7", 9000, 10_000, TimerState.DELIVERED),
        ],
    )
    def test_a_recall_counts_in_the_messages_slot_and_in_time(
        self, queues, opened, key, due, stored, state
    ):
        """
        As on a broker's wheel: whole key, with topic and `+` or without, same time, not too late.
        """
        self.put(queues, "my_order_7", NOW + 9000, REAL_TOPIC="my_topic")
        queues.put(
            waiting.TIMER_TOPIC,
            store_timestamp=NOW + stored,
            properties={
                "UNIQ_KEY": "x",
                "TIMER_OUT_MS": str(NOW + due),
                "REAL_TOPIC": "my_topic",
                "TIMER_DEL_UNIQKEY": key,
            },
        )
        store = opened(queues)

        assert [t.state for t in waiting.timers(store, NOW + 20_000)] == [state]

    @pytest.mark.parametrize("raw", [None, b"", b"\0" * 8])
    def test_without_the_wheels_own_record_the_clock_counts(self, queues, opened, raw):
        self.put(queues, "a", NOW)
        self.put(queues, "b", "9" * 30)
        store = opened(queues)
        if raw is not None:
            (store.root / names.CONFIG).mkdir(exist_ok=True)
            (store.root / names.CONFIG / "timercheck").write_bytes(raw)

        assert [t.state for t in waiting.timers(store, NOW - 1)] == [
            TimerState.WAITING,
            TimerState.DELIVERED,
        ]


class TestConsumers:
    def test_lag_by_group_and_queue(self, queues, opened):
        for queue_id in (0, 0, 0, 1):
            queues.put("t", queue_id=queue_id, store_timestamp=NOW)
        store = opened(queues)
        text = '{"offsetTable":{"t@g":{0:1},"t@behind":{0:9,1:1},"gone@g":{0:4}}}'
        write_config(store, "consumerOffset.json", text)

        found = {(x.group, x.topic, x.queue_id): (x.lag, x.waiting_since) for x in lags(store)}

        assert found == {
            ("behind", "t", 0): (-6, None),
            ("behind", "t", 1): (0, None),
            ("g", "gone", 0): (-4, None),
            ("g", "t", 0): (2, NOW),
            ("g", "t", 1): (1, NOW),
        }
        assert {x.group for x in lags(store, group="g", topic="t")} == {"g"}

    def test_a_queue_without_an_offset_counts_from_0(self, queues, opened):
        """
        As `mqadmin consumerProgress` has it, also where the queue's first messages have expired.
        """
        for _ in range(200):
            queues.put("t", store_timestamp=NOW)
        queues.put("t", queue_id=1, store_timestamp=NOW)
        store = opened(queues)
        first = min(store.log.bases)
        (store.log.file_of(first)[0]).unlink()
        # With the log's file go the queue's whose entries all point into it.
        gone = sum(place.position < 1 << 14 for place in queues.log.places)
        for path in (store.output / names.CONSUMEQUEUE / "t" / "0").iterdir():
            if int(path.name) + QUEUE_FILE <= gone * ENTRY_SIZE:
                path.unlink()
        store.refresh()
        write_config(store, "consumerOffset.json", '{"offsetTable":{"t@g":{1:0}}}')

        found = {x.queue_id: x for x in lags(store)}
        assert found[0].min_offset > 0
        assert (found[0].offset, found[0].lag) == (0, found[0].max_offset) == (0, 200)

    def test_a_store_without_the_file_has_no_consumers(self, queues, opened):
        queues.put("t")

        assert list(lags(opened(queues))) == []

    @pytest.mark.parametrize("table", [[], [1], {"t@g": 1}, {"t@g": {"x": 1}}, {"t@g": {"0": []}}])
    def test_a_file_that_says_something_else_is_named(self, tmp_path, table):
        (tmp_path / "config").mkdir()
        path = tmp_path / "config" / "consumerOffset.json"
        path.write_text(json.dumps({"offsetTable": table}))
        if not table:
            assert read_offsets(tmp_path) == {}
            return
        with pytest.raises(StoreError, match=r"consumerOffset\.json"):
            read_offsets(tmp_path)
