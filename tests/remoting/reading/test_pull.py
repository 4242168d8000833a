"""What pulls are answered with: records as they lie in the log, and where the next one resumes.

`tests/oracle/queries.py` asks real brokers the same.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.rocketmq.consumequeue import ENTRY_STRUCT
from reput.formats.rocketmq.encode import Message
from reput.remoting.reading import entries
from reput.remoting.reading import pull as pulls
from reput.remoting.reading.filters import HashFilter, by_tags
from reput.remoting.reading.pull import pull
from reput.remoting.wire import fields
from reput.remoting.wire.codes import ResponseCode
from reput.stores.query.message_store import MessageStore
from reput.stores.queues.pull import PullLimits, PullStatus
from tests.builders.hypotheses import examples
from tests.builders.served import dispatched, messages, request, served
from tests.builders.stores import Log, fill, name_batch_topics


def body(answer):
    return b"".join(answer.pieces)


def as_stored(log, *numbers):
    places = [log.places[number] for number in numbers]
    return b"".join(bytes(log.data[p.position : p.end]) for p in places)


@pytest.fixture(params=["4.9", "5.5"])
def version(request):
    return request.param


class TestFound:
    def test_records_of_one_queue_lie_side_by_side_and_are_one_piece(self, tmp_path, version):
        log = messages(10)
        with dispatched(log, tmp_path, version) as store:
            answer = pull(request(2, limit=5), served(store))

        assert (answer.code, answer.remark, answer.messages) == (0, "FOUND", 5)
        assert len(answer.pieces) == 1
        assert body(answer) == as_stored(log, *range(2, 7))
        said = {"suggestWhichBrokerId": "0", "nextBeginOffset": "7", "minOffset": "0"}
        said |= {"maxOffset": "10"}
        said |= {"topicSysFlag": "0", "groupSysFlag": "0"} if version == "5.5" else {}
        assert fields.write(answer.header) == said

    def test_records_of_several_queues_are_a_piece_each(self, tmp_path):
        log = messages(12, queues=3)
        with dispatched(log, tmp_path) as store:
            answer = pull(request(1, queue=2, limit=3), served(store))

        assert body(answer) == as_stored(log, 5, 8, 11)
        assert (len(answer.pieces), answer.size) == (3, len(body(answer)))

    def test_records_in_two_files_of_the_log_come_together(self, tmp_path):
        log = messages(30, size=200)
        assert log.blanks
        with dispatched(log, tmp_path, mappedFileSizeConsumeQueue=str(100 * 20)) as store:
            answer = pull(request(limit=100), served(store))

        assert body(answer) == as_stored(log, *range(30))

    def test_a_pull_ends_with_the_file_of_its_queue(self, tmp_path):
        log = messages(20)
        with dispatched(log, tmp_path) as store:
            answer = pull(request(3), served(store))

        # Eight entries a file.
        assert (answer.messages, answer.header.next_begin_offset) == (5, 8)

    @pytest.mark.parametrize("limit", [0, 1, -1])
    def test_one_message_is_always_given(self, tmp_path, limit):
        with dispatched(messages(5), tmp_path) as store:
            assert pull(request(limit=limit), served(store)).messages == 1

    def test_what_is_not_in_memory_is_given_in_small_portions(self, tmp_path):
        log = messages(40)
        size = log.places[0].size
        with dispatched(log, tmp_path, mappedFileSizeConsumeQueue=str(100 * 20)) as store:
            all_in_memory = pull(request(limit=100), served(store))
            cold = pull(request(limit=100), served(store, memory=0))
            later = pull(request(4, limit=100), served(store, memory=30 * size))

        assert all_in_memory.messages == 32
        assert cold.messages == 8
        # Entry 10 is the first that is in memory, with six taken: then 32 are the most.
        assert later.messages == 32

    def test_bytes_are_limited_but_not_for_the_first(self, tmp_path):
        with dispatched(messages(9, size=300), tmp_path) as store:
            some = served(store, limits=PullLimits(bytes=900))
            none = served(store, limits=PullLimits(bytes=1))
            assert pull(request(), some).messages == 2
            assert pull(request(), none).messages == 1


class TestNotFound:
    @pytest.mark.parametrize(
        ("offset", "code", "status", "following"),
        [
            (-1, 21, "OFFSET_TOO_SMALL", 0),
            (6, 19, "OFFSET_OVERFLOW_ONE", 6),
            (7, 21, "OFFSET_OVERFLOW_BADLY", 6),
        ],
    )
    def test_an_offset_outside_of_the_queue(self, tmp_path, offset, code, status, following):
        with dispatched(messages(6), tmp_path) as store:
            answer = pull(request(offset), served(store))

        assert (answer.code, answer.remark, answer.pieces) == (code, status, ())
        header = answer.header
        assert (header.next_begin_offset, header.min_offset, header.max_offset) == (following, 0, 6)

    @pytest.mark.parametrize(("offset", "code"), [(0, 19), (5, 21), (-5, 21)])
    def test_a_queue_that_nothing_was_written_to(self, tmp_path, offset, code):
        """
        A broker makes it for the question; only a client at its beginning is where it should be.
        """
        with dispatched(messages(3), tmp_path) as store:
            answer = pull(request(offset, queue=3), served(store))

        assert (answer.code, answer.remark) == (code, "NO_MESSAGE_IN_QUEUE")
        assert answer.header.next_begin_offset == 0

    def test_a_tag_that_none_has_moves_the_consumer_on(self, tmp_path):
        with dispatched(messages(20), tmp_path) as store:
            answer = pull(request(2, expression="none"), served(store))

        assert (answer.code, answer.remark) == (20, "NO_MATCHED_MESSAGE")
        assert answer.header.next_begin_offset == 8

    def test_every_status_has_a_code(self):
        assert {status: pulls.code_of(status, 0) for status in PullStatus} == {
            PullStatus.FOUND: ResponseCode.SUCCESS,
            PullStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
            PullStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
            PullStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
            PullStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
            PullStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
            PullStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
            PullStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
            PullStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_NOT_FOUND,
            PullStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_NOT_FOUND,
        }


class TestChangedLog:
    def test_a_file_that_expires_between_two_pulls(self, tmp_path):
        """
        The broker's own code, and at the next pull the records that are left.
        """
        log = messages(40, size=300)
        with dispatched(log, tmp_path) as store:
            assert pull(request(), served(store)).messages == 8
            first, *_ = sorted((tmp_path / "store" / "commitlog").iterdir())
            first.unlink()
            store.log.close()
            removing = pull(request(), served(store))
            left = pull(request(removing.header.next_begin_offset), served(store))

        expected = next(n for n, p in enumerate(log.places) if p.position >= log.file_size)
        assert (removing.code, removing.remark) == (20, "MESSAGE_WAS_REMOVING")
        assert removing.header.next_begin_offset == 8
        assert body(left).startswith(as_stored(log, expected))

    def test_a_record_that_was_overwritten_is_not_sent(self, tmp_path):
        log = messages(30, size=200)
        with dispatched(log, tmp_path) as store:
            first, *_ = sorted((tmp_path / "store" / "commitlog").iterdir())
            with first.open("r+b") as file:
                file.seek(log.places[2].position)
                file.write(bytes(50))
            answer = pull(request(limit=5), served(store))

        assert body(answer) == as_stored(log, 0, 1, 3, 4, 5)
        assert answer.header.next_begin_offset == 6


def slowly(offsets, sizes, passing, max_messages, limits):
    """The broker's loop, entry by entry."""
    count = transferred = seen = 0
    for offset, size, passes in zip(offsets, sizes, passing, strict=True):
        most, most_bytes = limits.at(offset)
        if count and (
            count + 1 > max_messages or transferred + size > most_bytes or count > most - 1
        ):
            break
        seen += 1
        if passes:
            count, transferred = count + 1, transferred + size
    return seen


@examples(300)
@given(
    rows=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30), st.booleans()), min_size=1),
    max_messages=st.integers(-2, 20),
    limits=st.builds(
        PullLimits, *[st.integers(0, n) for n in (12, 150, 9, 90)], st.integers(-5, 70)
    ),
    filtered=st.booleans(),
)
def test_full_at_is_the_brokers_loop(rows, max_messages, limits, filtered):
    offsets, sizes, passing = map(list, zip(*rows, strict=True))
    if not filtered:
        passing = [True] * len(rows)
    found = entries.full_at(
        np.array(offsets),
        np.array(sizes),
        np.array(passing) if filtered else None,
        max_messages,
        limits,
    )

    assert found == slowly(offsets, sizes, passing, max_messages, limits)


@examples(300)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 30), st.integers(-2, 2)),
        min_size=1,
        max_size=entries.FEW,
    ),
    codes=st.none() | st.frozensets(st.integers(-2, 2)),
    max_messages=st.integers(-2, 20),
    limits=st.builds(PullLimits, st.integers(0, 12), st.integers(0, 150)),
)
def test_few_entries_one_by_one_are_the_same(rows, codes, max_messages, limits):
    offsets, sizes, hashes = map(list, zip(*rows, strict=True))
    raw = b"".join(ENTRY_STRUCT.pack(*row) for row in rows)
    passing = [codes is None or code in codes for code in hashes]
    seen = slowly(offsets, sizes, passing, max_messages, limits)
    found = entries.first(raw, codes, max_messages, limits)
    if found is None:
        return

    taken = [number for number in range(seen) if passing[number]]
    assert found.seen == seen
    assert list(found.offsets) == [offsets[number] for number in taken]
    assert list(found.sizes) == [sizes[number] for number in taken]


@pytest.mark.parametrize("code", [-(1 << 63) + 40, 1 << 40])
def test_few_entries_without_hashes_are_left_to_columns(code):
    raw = ENTRY_STRUCT.pack(100, 50, 5) + ENTRY_STRUCT.pack(150, 50, code)

    assert entries.first(raw, frozenset({5}), 1, PullLimits()) is None
    assert entries.first(raw[:20], frozenset({5}), 1, PullLimits()) == (1, [100], [50])


@given(codes=st.frozensets(st.integers(-9, 9)), given=st.lists(st.integers(-(1 << 31), 1 << 40)))
def test_hashes_are_compared_by_their_low_bits(codes, given):
    wanted = HashFilter(by_tags("x")._parsed.__class__("x", frozenset(), codes))
    found = entries.with_codes(np.array(given, np.int64), codes)

    assert found.tolist() == [wanted.matches_code(code) for code in given]


def test_an_address_in_place_of_a_hash_is_left_to_the_slow_way():
    assert entries.with_codes(np.array([5, -(1 << 63) + 40]), frozenset({5})) is None


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", ["4.9", "5.5"])
def test_both_ways_give_the_same(tmp_path, monkeypatch, seed, version):
    """
    Random logs, every offset of every queue, limits and tags: by columns, and entry by entry.
    """
    log = fill(Log(), seed, 120, wide=version != "4.9")
    pick = random.Random(seed)
    compared = 0
    with dispatched(log, tmp_path, version) as store:
        at = served(store, memory=pick.choice([None, 0, 1500]))
        asked = [
            (request(offset, topic=topic, queue=queue, limit=limit, expression=expression), topic)
            for topic in store.topics()
            for queue in store.queue_ids(topic)
            for offset in range(-1, store.queue(topic, queue).max_offset + 2)
            for limit, expression in ((1, "*"), (32, "*"), (3, "TagA || 标签"), (32, "TagB"))
        ]
        fast = [pull(header, at) for header, _ in asked]
        monkeypatch.setattr(pulls, "_by_columns", lambda *_: None)
        for (header, _), one in zip(asked, fast, strict=True):
            other = pull(header, at)
            assert one._replace(pieces=()) == other._replace(pieces=())
            assert body(one) == body(other)
            compared += one.messages
    assert compared > 200


def test_a_batch_queue_gives_whole_batches(tmp_path):
    log = Log()
    for i in range(3):
        properties = {"INNER_NUM": "4", "INNER_BASE": str(4 * i)}
        log.append(Message("batches", b"b", properties, 0, 4 * i, sys_flag=0xC0))
    (tmp_path / "store").mkdir()
    name_batch_topics(tmp_path / "store", "batches")
    with dispatched(log, tmp_path) as store:
        answer = pull(request(4, topic="batches", limit=6), served(store))

    assert (answer.code, answer.header.next_begin_offset) == (0, 8)
    assert body(answer) == as_stored(log, 1)


def test_a_store_of_its_own_queues_is_read(tmp_path):
    """
    Nothing is written: what a pull opens it opens for reading.
    """
    with dispatched(messages(3), tmp_path) as store:
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with MessageStore.open(store.root, store.output, store.settings) as again:
            assert pull(request(), served(again)).messages == 3

    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
