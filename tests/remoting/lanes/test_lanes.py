"""Lanes answer what Python answers, byte by byte, or leave it to Python."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import os
import random
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.errors import StoreError
from reput.remoting.counting.counters import Uncounted
from reput.remoting.groups.offsets import Offsets
from reput.remoting.lanes import learning, opened, places
from reput.remoting.lanes.lanes import Lanes
from reput.remoting.reading.pull import pull
from reput.remoting.reading.served import Online, Subscription
from reput.remoting.wire import fields, frames
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.command import Command
from reput.remoting.wire.pull_headers import PullMessageRequestHeader
from tests.builders.hypotheses import examples
from tests.builders.live import Live
from tests.builders.served import FixedGroups, dispatched, messages, request, served
from tests.builders.stores import Log, fill


class Outlet:
    """A connection whose peer reads all at once."""

    def __init__(self) -> None:
        self.said = b""
        self.outlet = -1

    def write(self, data):
        self.said += data


class Counted(Uncounted):
    def __init__(self) -> None:
        self.answers = []

    def answered(self, *said):
        self.answers.append(said)


def frame(header, opaque, code=RequestCode.PULL_MESSAGE, **more):
    command = Command(code, opaque, fields=fields.write(header) | more, version=513)
    return frames.encode(command)


def slowly(at, data):
    """Return what Python answers to one frame."""
    asked = frames.decode(memoryview(data)[4:])
    header = fields.read(PullMessageRequestHeader, asked.fields)
    said = pull(header, at, is_lite=asked.code == RequestCode.LITE_PULL_MESSAGE)
    written = None if said.header is None else fields.write(said.header)
    answer = asked.answer(said.code, at.release.version, said.remark, written)
    head = frames.encode(answer, said.size)
    return head + b"".join(said.pieces)


class Rig:
    """Lanes of a store, and how often they answered."""

    def __init__(self, at, **more) -> None:
        self.at, self.commits = at, []
        self.counted = Counted()
        self.lanes = Lanes(at, self.counted, lambda *said: self.commits.append(said), **more)
        self.outlet = Outlet()
        self.answered = 0

    def ask(self, header, opaque=7, **more):
        """Ask lanes; return whether they answered, as Python does."""
        data = frame(header, opaque, **more)
        left = self.lanes.take(data, self.outlet)
        said, self.outlet.said = self.outlet.said, b""
        if left:
            assert (left, said) == (data, b"")
            return False
        assert said == slowly(self.at, data)
        self.answered += 1
        return True

    def known(self, header, **more):
        """Ask twice, so that a lane is there; return whether there is one."""
        self.ask(header, **more)
        return self.ask(header, **more)


@pytest.fixture(params=["4.9", "5.5"])
def version(request):
    return request.param


def test_the_second_pull_of_an_outline_is_answered(tmp_path, version):
    with dispatched(messages(200, queues=2), tmp_path, version) as store:
        rig = Rig(served(store))
        assert [rig.ask(request(n), n) for n in range(5)] == [False, True, True, True, True]
        rig.lanes.close()


def test_another_connection_and_a_lite_pull(tmp_path):
    """
    A lane is of its outline: a lite pull has one of its own, and answers are counted by kind.
    """
    with dispatched(messages(200), tmp_path) as store:
        rig = Rig(served(store))
        assert rig.known(request())
        assert rig.known(request(), code=RequestCode.LITE_PULL_MESSAGE)
        rig.lanes.tick()
        size = len(b"".join(pull(request(), rig.at).pieces))
        assert rig.counted.answers == [(11, 0, size, 8, 1), (361, 0, size, 8, 1)]
        rig.lanes.tick()
        assert len(rig.counted.answers) == 2


ASKED = ((32, "*"), (1, "*"), (3, "TagA || 标签"), (800, "TagB"), (32, "TagA"), (32, "none"))


def unmapped(monkeypatch):
    """Be one who is not told what of the log's files is in memory."""
    monkeypatch.setattr(opened, "tells_residency", lambda *_: False)


def mapped_files(rig):
    """Return how many files of the log are mapped."""
    state = rig.lanes.arrays.state
    return int((state[places.FILE_MAPPED : places.FILE_MAPPED + places.LOG_FILES] > 0).sum())


@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_each_offset_of_random_stores(tmp_path, version, seed, is_mapped, monkeypatch):
    """
    Queues with tags, delays and transactions, in files of a few entries and in one.
    """
    if not is_mapped:
        unmapped(monkeypatch)
    log = fill(Log(), seed, 2500, wide=version != "4.9")
    pick = random.Random(seed)
    size = pick.choice([160, 100 * 20, 10_000 * 20])
    with dispatched(log, tmp_path, version, mappedFileSizeConsumeQueue=str(size)) as store:
        rig = Rig(served(store))
        for topic in store.topics():
            for queue in store.queue_ids(topic):
                high = store.queue(topic, queue).max_offset
                for limit, expression in pick.sample(ASKED, 3):
                    said = {"topic": topic, "queue": queue, "expression": expression}
                    for offset in pick.sample(range(-1, max(high - 50, 12)), 12):
                        rig.ask(request(offset, limit=limit, **said), offset + 1)
        assert rig.answered > 50
        assert (mapped_files(rig) > 0) == is_mapped
        rig.lanes.close()


def test_a_file_that_is_cut_under_its_mapping(tmp_path):
    """
    A read of such bytes by the process would end it; what stands before the cut is answered.
    """
    with dispatched(messages(400), tmp_path, mappedFileSizeConsumeQueue=str(1000 * 20)) as store:
        rig = Rig(served(store))
        assert rig.known(request(100, limit=4))
        assert rig.ask(request(0, limit=4))
        assert mapped_files(rig) > 1
        _, *others = sorted((tmp_path / "store" / "commitlog").iterdir())
        for other in others:
            os.truncate(other, 0)
        data = frame(request(100, limit=4), 9)
        assert rig.lanes.take(data, rig.outlet) == data
        assert rig.outlet.said == b""
        assert rig.ask(request(1, limit=4))


def test_bytes_that_are_not_in_memory_are_left_to_python(tmp_path):
    """
    Also in a file that is mapped: touching them would wait for a device.
    """
    with dispatched(messages(400), tmp_path, mappedFileSizeConsumeQueue=str(1000 * 20)) as store:
        rig = Rig(served(store))
        assert rig.known(request())
        # Files that it holds mapped are not taken out of memory, and nor is what is not written.
        _, *others = sorted((tmp_path / "store" / "commitlog").iterdir())
        for path in others:
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        if _is_in_memory(others[-1]):
            pytest.skip("this file system keeps all in memory")
        before = mapped_files(rig)
        assert not rig.ask(request(200))
        assert mapped_files(rig) > before
        list(store.messages("t", 0, 0))
        assert rig.ask(request(200))


def _is_in_memory(path):
    told = ctypes.create_string_buffer(1)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        address = np.frombuffer(data, np.uint8).ctypes.data
        assert ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(1), told) == 0
    return told.raw[0] & 1 == 1


def test_records_that_lie_far_apart(tmp_path):
    """
    Each queue has one record in thousands of bytes, at times in the next file.
    """
    with dispatched(messages(1500, queues=20, size=600), tmp_path) as store:
        rig = Rig(served(store))
        for queue in range(3):
            assert rig.known(request(queue=queue, limit=8))
            for offset in range(1, 9):
                assert rig.ask(request(offset, queue=queue, limit=8))
        assert mapped_files(rig) > 1


def test_what_python_has_to_answer(tmp_path):
    with dispatched(messages(200), tmp_path) as store:
        rig = Rig(served(store, filters_properties=True))
        assert not rig.known(request(limit=0))
        assert not rig.known(request(limit=801))
        assert not rig.known(request(expression="a > 3", kind="SQL92"))
        assert not rig.known(request(topic="no"))
        assert not rig.known(request(queue=3))
        assert rig.known(request())
        for offset in (136, 199, 200, 201, 1 << 40):
            assert not rig.ask(request(offset))
        assert rig.ask(request(135))


@pytest.mark.parametrize(
    "change",
    [
        (b'"opaque":7', b'"opaque":7.0'),
        (b'"opaque":7', b'"opaque": 7'),
        (b'"opaque":7', b'"opaque":"7"'),
        (b'"opaque":7', b'"opaque":2147483648'),
        (b'"queueOffset":"1"', b'"queueOffset":"01"'),
        (b'"queueOffset":"1"', b'"queueOffset":1'),
        (b'"queueOffset":"1"', b'"queueOffset":"+1"'),
        (b'"queueOffset":"1"', b'"queueOffset":"1","queueOffset":"1"'),
        (b'"queueOffset":"1"', b'"queueOffset":"1","x":"\\u0041"'),
        (b'"flag":0', b'"flag":2'),
    ],
)
def test_requests_of_other_forms_are_left_to_python(tmp_path, change):
    with dispatched(messages(200), tmp_path) as store:
        rig = Rig(served(store))
        whole = frame(request(1), 7)
        before, after = change
        assert whole.count(before) == 1
        header = whole[8:].replace(before, after)
        data = (len(header) + 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
        for _ in range(3):
            assert rig.lanes.take(data, rig.outlet) == data
        assert rig.outlet.said == b""


@examples(150)
@given(
    extra=st.lists(
        st.tuples(
            st.sampled_from(["opaque", "queueOffset", "commitOffset", "topic", "a", "é", "code"]),
            st.sampled_from(["1", '"1"', "null", '"x"', '{"opaque":1}', '["queueOffset"]', "1e0"]),
        ),
        max_size=3,
    ),
    at=st.integers(0, 400),
    inside=st.booleans(),
)
def test_odd_headers_are_read_as_python_reads_them(store, extra, at, inside):
    """
    Names that are there twice, numbers in other places: Python answers, or says the same.
    """
    rig = Rig(served(store))
    text = ",".join(f'"{name}":{value}' for name, value in extra)

    def asked(offset, opaque):
        header = frame(request(offset), opaque)[8:].decode()
        place = header.index("{", 1) + 1 if inside else 1
        header = header[:place] + text + "," * bool(text) + header[place:]
        raw = header.encode()
        return (len(raw) + 4).to_bytes(4, "big") + len(raw).to_bytes(4, "big") + raw

    for number in range(3):
        data = asked(at % 100 + number, 1 + number)
        left = rig.lanes.take(data, rig.outlet)
        said, rig.outlet.said = rig.outlet.said, b""
        assert left in {b"", data}
        if not left:
            assert said == slowly(rig.at, data)
    rig.lanes.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    large = str(1000 * 20)
    place = tmp_path_factory.mktemp("store")
    with dispatched(messages(300), place, mappedFileSizeConsumeQueue=large) as store:
        store.log.end()
        yield store


def test_several_frames_and_a_part_of_one(store):
    rig = Rig(served(store))
    assert rig.known(request())
    whole = [frame(request(n), n) for n in range(40)]
    for each in whole:
        rig.lanes.take(each, rig.outlet)
    rig.outlet.said = b""
    data = b"".join(whole)
    # As many as a connection's turn has.
    assert rig.lanes.take(data, rig.outlet) == b"".join(whole[32:])
    assert rig.outlet.said == b"".join(slowly(rig.at, each) for each in whole[:32])
    rig.outlet.said = b""
    for cut in (1, 5, 9, len(whole[1]) - 1):
        assert rig.lanes.take(whole[0] + whole[1][:cut], rig.outlet) == whole[1][:cut]
    held = frame(request(300), 9)
    rig.outlet.said = b""
    assert rig.lanes.take(whole[0] + held + whole[1], rig.outlet) == held + whole[1]
    assert rig.outlet.said == slowly(rig.at, whole[0])


def test_a_frame_with_a_body_is_left_to_python(store):
    rig = Rig(served(store))
    assert rig.known(request())
    plain = frame(request(), 7)
    data = (len(plain) - 4 + 3).to_bytes(4, "big") + plain[4:] + b"abc"
    assert rig.lanes.take(data, rig.outlet) == data


def test_offsets_are_committed_as_the_flag_says(store):
    rig = Rig(served(store))
    for flags in (4, 5):
        header = dataclasses.replace(request(3, flags=flags), commit_offset=3)
        assert rig.known(header)
        assert rig.ask(dataclasses.replace(header, queue_offset=9, commit_offset=8))
    assert rig.commits == [("g", "t", 0, 3), ("g", "t", 0, 8)]


def test_where_the_next_pull_begins_is_told_each_second(store):
    """
    Tools ask how far a group has pulled.
    """
    told = []
    rig = Rig(served(store), pulled=lambda *said: told.append(said))
    assert rig.known(request(3, limit=5))
    assert rig.ask(request(8, limit=5))
    rig.lanes.tick()
    rig.lanes.tick()
    assert told == [("g", "t", 0, 13)]


def test_a_subscription_that_changes(store):
    """
    What a group subscribes to by heartbeat counts from the next pull on.
    """
    groups = FixedGroups()
    groups.members["g"] = Online(False, {"t": Subscription("T1", version=5)})
    rig = Rig(served(store, groups=groups))
    header = request(flags=0, expression=None)
    assert rig.known(header)
    groups.members["g"] = Online(False, {"t": Subscription("T2", version=5)})
    groups.changes += 1
    assert not rig.ask(header)
    assert rig.ask(header)
    groups.members.clear()
    groups.changes += 1
    assert not rig.known(header)
    assert rig.known(request())


def test_topics_and_resets_that_change(store):
    resets = Offsets()
    rig = Rig(served(store, resets=resets))
    assert rig.known(request())
    resets.reset("g", "t", 0, 5)
    said = rig.lanes.take(frame(request(), 7), rig.outlet)
    assert said == frame(request(), 7)
    assert rig.lanes.take(said, rig.outlet) == said
    assert resets.take_reset("g", "t", 0) == 5
    assert rig.known(request())
    del rig.at.topics["t"]
    rig.lanes.forget()
    assert not rig.known(request())


def test_who_may_not_pass(store):
    """
    Accounts are asked for by connection: a peer may become one that needs a signature.
    """
    allowed = [True]
    rig = Rig(served(store), may_pass=lambda _: allowed[0])
    assert rig.known(request())
    allowed[0] = False
    assert not rig.ask(request())


def test_more_outlines_than_lanes(store, monkeypatch):
    monkeypatch.setattr(places, "LANES", 3)
    rig = Rig(served(store))
    for _ in range(2):
        for group in "abcde":
            assert rig.known(request(group=group))


def test_two_stores_in_one_process(tmp_path):
    with (
        dispatched(messages(200), tmp_path / "a") as one,
        dispatched(messages(300, size=30), tmp_path / "b", "4.9") as two,
    ):
        rigs = Rig(served(one)), Rig(served(two))
        for rig in rigs:
            assert rig.known(request())
        for offset in range(0, 100, 7):
            for rig in rigs:
                assert rig.ask(request(offset), offset)


@pytest.fixture
def live(tmp_path):
    grown = Live(tmp_path, mappedFileSizeConsumeQueue=str(1000 * 20))
    grown.append(count=150)
    grown.dispatch()
    grown.store.refresh()
    yield grown
    grown.dispatcher.close()
    grown.store.close()


def test_a_queue_that_grows(live):
    """
    Answers say where the queue ends, as far as anything has looked.
    """
    rig = Rig(live.served)
    assert rig.known(request(3))
    for _ in range(5):
        live.append(count=9)
        live.dispatch()
        assert rig.ask(request(3))
        assert live.store.queue_now("t", 0).max_offset == live.counts["t", 0]
        assert rig.ask(request(3))
        assert rig.ask(request(live.counts["t", 0] - 70))


def test_a_log_that_is_cut(live):
    rig = Rig(live.served)
    assert rig.known(request(3))
    cut = live.log.places[-80].position
    live.dispatcher.close()
    live.dispatcher = None
    del live.log.data[cut:]
    live.log.places = [place for place in live.log.places if place.position < cut]
    live.counts["t", 0] = 151 - 80
    live.append(count=3, size=9)
    live.dispatch()
    rig.ask(request(3))
    live.store.queue_now("t", 0)
    live.store.presence.look()
    live.store.log.end()
    for offset in (0, 3, 8, 70, 80, 100):
        for _ in range(3):
            rig.ask(request(offset))
    live.append(count=90)
    live.dispatch()
    live.store.queue_now("t", 0)
    rig.ask(request(70))
    assert rig.ask(request(3))


def test_files_that_expire(tmp_path):
    large = str(1000 * 20)
    log = messages(400, size=300)
    with dispatched(log, tmp_path, mappedFileSizeConsumeQueue=large) as store:
        rig = Rig(served(store))
        assert rig.known(request())
        first, second, *_ = sorted((tmp_path / "store" / "commitlog").iterdir())
        first.unlink()
        second.unlink()
        store.presence.look()
        assert not rig.ask(request())
        low = store.queue("t", 0).min_offset
        assert low > 0
        assert rig.known(request(low))


def test_files_that_have_expired_are_let_go_though_nobody_pulls(tmp_path):
    """
    What is removed takes its space on the disk as long as somebody has it open, or mapped.
    """
    with dispatched(messages(400), tmp_path, mappedFileSizeConsumeQueue=str(1000 * 20)) as store:
        rig = Rig(served(store))
        assert rig.known(request())
        first, *_ = sorted((tmp_path / "store" / "commitlog").iterdir())
        assert str(first) in _held_files()
        first.unlink()
        store.presence.look()
        rig.lanes.tick()
        assert str(first) not in _held_files()
        rig.lanes.close()


def _held_files():
    """Return what this process has open or mapped, as text."""
    names = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return "\n".join([*names, Path("/proc/self/maps").read_text()])


@pytest.mark.parametrize("what", ["store/commitlog", "out/consumequeue"])
def test_files_that_are_away_are_not_answered_from(tmp_path, what):
    """
    Descriptors are still open: what stands in them is no longer the store's.
    """
    with dispatched(messages(400), tmp_path, mappedFileSizeConsumeQueue=str(1000 * 20)) as store:
        rig = Rig(served(store))
        assert rig.known(request(3))
        (tmp_path / what).rename(tmp_path / "away")
        with pytest.raises(StoreError):
            store.presence.look()
        assert not rig.ask(request(3))
        (tmp_path / "away").rename(tmp_path / what)
        store.presence.look()
        assert rig.ask(request(3))
        assert rig.ask(request(3))


def test_queues_of_kept_messages_are_left_to_python(store):
    """
    They stand in another log than the store's.
    """

    class Kept:
        store = None

        def has(self, topic, queue_id):
            return queue_id == 0

    other = dataclasses.replace(served(store), kept=Kept())
    assert learning.queue_of(_lane(), served(store)) is not None
    assert learning.queue_of(_lane(), other) is None


def _lane():
    return learning.Lane("g", "t", 0, 0, commits=False, max_messages=32, codes=None, parts=())


def test_a_record_that_was_overwritten_is_left_to_python(tmp_path):
    log = messages(300)
    with dispatched(log, tmp_path) as store:
        rig = Rig(served(store))
        assert rig.known(request(16))
        first, *_ = sorted((tmp_path / "store" / "commitlog").iterdir())
        with first.open("r+b") as file:
            file.seek(log.places[2].position)
            file.write(bytes(50))
        assert not rig.ask(request(0))
        assert rig.ask(request(3))


def test_queues_that_are_closed_and_opened_again(tmp_path):
    with dispatched(messages(900, queues=4), tmp_path) as store:
        store.keep_open(2)
        rig = Rig(served(store))
        for _ in range(3):
            for queue in range(4):
                rig.ask(request(queue=queue))
                assert rig.ask(request(queue=queue))
                rig.lanes.tick()
        opened = len(list(Path("/proc/self/fd").iterdir()))
        rig.lanes.close()
        assert len(list(Path("/proc/self/fd").iterdir())) < opened


def test_no_more_files_of_the_log_are_open_than_there_are_descriptors_for(tmp_path):
    with dispatched(messages(300, size=1000), tmp_path) as store:
        store.keep_open(2)
        rig = Rig(served(store))
        asked = [request(offset, limit=1) for offset in range(0, 300, 4)]
        answers = [slowly(rig.at, frame(each, 7)) for each in asked]
        by_python = open_below(tmp_path / "store")
        assert [rig.ask(each) for each in asked[1:]].count(True) > len(asked) // 2
        assert by_python < open_below(tmp_path / "store") <= 2 * by_python
        rig.lanes.close()
        assert len(list((tmp_path / "store" / "commitlog").iterdir())) > 50
        assert (all(answers), by_python) == (True, 8)


def test_one_file_of_the_log_at_a_time(tmp_path):
    with dispatched(messages(300, size=1000), tmp_path) as store:
        store.log.most_open = 1
        rig = Rig(served(store))
        asked = [request(offset, limit=1) for offset in range(0, 300, 30)]
        assert all(slowly(rig.at, frame(each, 7)) for each in asked)
        assert True in map(rig.ask, asked)
        rig.lanes.close()


def open_below(directory: Path) -> int:
    """Return how many descriptors of this process are of files in a directory."""
    found = (os.path.realpath(each) for each in Path("/proc/self/fd").iterdir())
    return sum(each.startswith(f"{directory.resolve()}/") for each in found)


def test_what_a_socket_does_not_take_is_sent_after_it(store):
    rig = Rig(served(store))
    assert rig.known(request())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        rig.outlet.outlet = ours.fileno()
        data = b"".join(frame(request(n), n) for n in range(30))
        assert rig.lanes.take(data, rig.outlet) == b""
        theirs.settimeout(0.2)
        came = b""
        expected = b"".join(slowly(rig.at, frame(request(n), n)) for n in range(30))
        came = theirs.recv(1 << 20)
        while len(came) < len(expected) - len(rig.outlet.said):
            came += theirs.recv(1 << 20)
        assert came + rig.outlet.said == expected
        theirs.close()
        rig.outlet.said = b""
        assert rig.lanes.take(frame(request(1), 1), rig.outlet) == b""
        assert rig.outlet.said == slowly(rig.at, frame(request(1), 1))
