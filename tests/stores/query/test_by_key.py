"""Kernels that find messages by key, and several keys at once: the answers of the readable way.

The store holds keys that are hard to tell apart; then bytes of its index and of its log are changed.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.errors import UsageError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.stores.log import files
from reput.stores.log.files import LogChangedError
from reput.stores.query.by_key import KeyKind, KeyStatus
from reput.stores.query.compiled.by_key_kernels import MOST, ROOM
from reput.stores.query.index_search import ALWAYS, Window
from reput.stores.query.message_store import MessageStore
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.hypotheses import examples
from tests.builders.stores import Log, config_of

NOW = 1_700_000_000_000
# "Aa" and "BB" have one hash, and so what begins with them; texts of two topics, of several
# scripts, of several words, of bytes that are not UTF-8.
KEYS = [
    "Aa",
    "BB",
    "AaAa",
    "BBBB",
    "AaBB",
    "ключ",
    "鍵🔑",
    "\ufffd",
    "a b",
    "b",
    "x" * 90,
    "k\x01k",
]
ASKED = [*KEYS, "none", "\ud800", "a", "T#Aa", "K", "Aa BB"]
# The readable way reads records that are larger than what is read at first, with all of their key's.
LARGE = {"KEYS": "b"}
TOPICS = ["t", "Aa", "BB", "тема", "none", "\ufffd", "\ud800"]
PROPERTIES = [
    *({"KEYS": key} for key in KEYS),
    *({"UNIQ_KEY": key, "TAGS": key} for key in KEYS),
    {"KEYS": "Aa BB ключ", "UNIQ_KEY": "AaAa"},
    {"KEYS": "  b  a ", "TAGS": "K"},
    b"KEYS\x01\xed\xa0\x80 b\x02UNIQ_KEY\x01\xff\x02",
    b"KEYS\x01Aa\x02KEYS\x01BB\x02TAGS\x02UNIQ_KEY\x01\x01\x02",
    b"KEYS\x01BB",
]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A store of small files, dispatched: most records of one topic, a few larger than is read at first."""
    root = tmp_path_factory.mktemp("keys")
    log = Log()
    for i in range(240):
        topic = ("t", "t", "t", "Aa", "BB", "тема", b"\xff")[i % 7]
        properties = PROPERTIES[i * 7 % len(PROPERTIES)]
        body = b"x" * (ROOM + 100 if properties == LARGE else i)
        at = NOW + 300 * i
        log.append(Message(topic, body, properties, queue_offset=i, store_timestamp=at))
    config = config_of(log.write(root / "store"), root / "out", "5.5")
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(log.end)
    dispatcher.close()
    return config


def comparable(answer):
    """All of an answer; what has not been looked at yet included."""
    return [*answer[:1], list(answer.messages), *answer[2:]]


@contextmanager
def changed(paths, changes):
    """Put bytes in the place of others, and those back afterwards."""
    before = {path: path.read_bytes() for path in paths}
    for place, byte in changes:
        path = paths[place % len(paths)]
        data = bytearray(path.read_bytes())
        data[place // len(paths) % len(data)] = byte
        path.write_bytes(data)
    yield
    for path, data in before.items():
        path.write_bytes(data)


REQUESTS = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(TOPICS),
        "kind": st.sampled_from(KeyKind),
        "window": st.sampled_from([ALWAYS, Window(NOW + 5000, NOW + 15_000)]),
        "limit": st.sampled_from([None, 1, 3, 300, 5000]),
        "is_raw": st.booleans(),
    }
)
CHANGES = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=40)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("kind", KeyKind)
def test_every_key_of_every_topic(config, topic, kind):
    where = config.path, config.output, config.settings
    found = 0
    with MessageStore.open(*where) as store, MessageStore.open(*where, is_compiled=True) as fast:
        for is_raw in (False, True):
            request = {"topic": topic, "kind": kind, "is_raw": is_raw}
            one_by_one = [comparable(store.by_key(key=key, **request)) for key in ASKED]
            found += sum(len(messages) for _, messages, *_ in one_by_one)

            assert [comparable(fast.by_key(key=key, **request)) for key in ASKED] == one_by_one
            assert [comparable(a) for a in fast.by_keys(keys=ASKED, **request)] == one_by_one
    assert (found > 0) == (topic not in {"none", "\ud800"})


@examples(100)
@given(
    keys=st.lists(st.sampled_from(ASKED), max_size=30),
    request=REQUESTS,
    in_index=CHANGES,
    in_log=CHANGES,
)
def test_all_ways_give_the_same_answers(config, keys, request, in_index, in_log):
    """
    One by one and together, by kernels and without: messages, order, hits, status.
    """
    index = sorted((config.output / names.INDEX).iterdir())
    log = sorted((config.path / names.COMMITLOG).iterdir())
    where = config.path, config.output, config.settings
    with (
        changed(index, in_index),
        changed(log, in_log),
        MessageStore.open(*where) as store,
        MessageStore.open(*where, is_compiled=True) as fast,
    ):
        one_by_one = [comparable(store.by_key(key=key, **request)) for key in keys]

        assert [comparable(fast.by_key(key=key, **request)) for key in keys] == one_by_one
        assert [comparable(a) for a in store.by_keys(keys=keys, **request)] == one_by_one
        assert [comparable(a) for a in fast.by_keys(keys=keys, **request)] == one_by_one


@pytest.fixture(params=[False, True], ids=["readable", "compiled"])
def store(config, request):
    where = config.path, config.output, config.settings
    with MessageStore.open(*where, is_compiled=request.param) as opened:
        yield opened


class TestMany:
    def test_more_keys_than_one_call_of_the_kernel_takes(self, store):
        keys = ["Aa", "none", "BB"] * 300
        found = store.by_keys("t", keys)

        assert len(found) == 900
        assert [a.status for a in found[:3]] == ["found", "not found", "found"]
        assert all(found[i].offsets == found[i % 3].offsets for i in range(900))
        assert all(
            list(found[i].messages) == list(found[i % 3].messages) for i in range(0, 900, 37)
        )

    def test_no_keys_are_no_answers(self, store):
        assert store.by_keys("t", []) == []

    @pytest.mark.parametrize(
        "request_", [{"topic": ""}, {"keys": ["a", ""]}, {"limit": 0}, {"window": Window(2, 1)}]
    )
    def test_what_cannot_be_asked_of_one_key_cannot_of_several(self, store, request_):
        with pytest.raises(UsageError):
            store.by_keys(**{"topic": "t", "keys": ["a"], **request_})

    def test_without_an_index_no_key_has_an_answer(self, config, tmp_path):
        for is_compiled in (False, True):
            where = config.path, tmp_path, config.settings
            with MessageStore.open(*where, is_compiled=is_compiled) as empty:
                statuses = [a.status for a in empty.by_keys("t", ["Aa", "BB"])]
                assert statuses == [KeyStatus.NO_INDEX] * 2
                assert empty.by_key("t", "Aa").status == KeyStatus.NO_INDEX


def test_messages_are_a_sequence(store):
    found = store.by_key("t", "Aa").messages

    assert len(found) > 2
    every = list(found)
    assert [found[i] for i in range(len(found))] == every
    assert found[-1] == every[-1]
    assert found[1:] == every[1:]
    assert list(reversed(found)) == every[::-1]
    with pytest.raises(IndexError):
        found[len(found)]


class TestLogFiles:
    """One record a file, so that keys lead to more files than are kept open."""

    FILES = 3 * MOST
    FILE_SIZE = 2048

    @pytest.fixture
    def config(self, tmp_path):
        log = Log(self.FILE_SIZE)
        for i in range(self.FILES):
            words = f"k{i} {'some' if i % 4 == 0 else 'most'} all"
            log.append(Message("t", b"x" * 1200, {"KEYS": words}, store_timestamp=NOW + i))
        sizes = {"mappedFileSizeCommitLog": str(self.FILE_SIZE), "maxIndexNum": "4000"}
        config = config_of(log.write(tmp_path / "store"), tmp_path / "out", **sizes)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.end)
        dispatcher.close()
        return config

    @pytest.fixture
    def fast(self, config):
        where = config.path, config.output, config.settings
        with MessageStore.open(*where, is_compiled=True) as opened:
            yield opened

    @pytest.mark.parametrize("limit", [1, MOST, MOST + 1, 1000])
    @pytest.mark.parametrize("key", ["all", "most", "some"])
    def test_hits_in_many_files(self, config, fast, key, limit):
        keys = [*(f"k{i}" for i in range(0, self.FILES, 5)), key, "k1", key]
        with MessageStore.open(config.path, config.output, config.settings) as store:
            expected = [comparable(store.by_key("t", each, limit=limit)) for each in keys]

        assert [comparable(fast.by_key("t", each, limit=limit)) for each in keys] == expected
        assert [comparable(a) for a in fast.by_keys("t", keys, limit=limit)] == expected

    def test_no_more_files_are_open_than_a_key_has_hits(self, fast):
        def opened() -> int:
            return len(list(Path("/proc/self/fd").iterdir()))

        before = opened()
        assert len(fast.by_keys("t", [f"k{i}" for i in range(self.FILES)])) == self.FILES
        # The twin has looked for the BLANK of each file, and keeps some of its own.
        assert MOST - 1 <= opened() - before <= MOST + files._OPEN_FILES + 1
        fast.close()
        assert opened() <= before

    def test_a_file_that_has_expired(self, config, fast):
        assert fast.by_key("t", "k5").messages
        first = config.path / names.COMMITLOG / names.offset_file(0)
        first.unlink()

        with pytest.raises(LogChangedError, match=first.name):
            fast.by_key("t", "k0")
        with pytest.raises(LogChangedError, match=first.name):
            fast.by_keys("t", ["k7", "k0"])
        assert fast.by_key("t", "k6").messages
        fast.refresh()
        assert fast.by_key("t", "k0").status == KeyStatus.NOT_FOUND
        assert [len(a.messages) for a in fast.by_keys("t", ["k5", "k0", "k1"])] == [1, 0, 1]

    def test_a_file_that_was_cut_has_no_message_any_more(self, config, fast):
        assert fast.by_key("t", "k5").messages
        os.truncate(config.path / names.COMMITLOG / names.offset_file(5 * self.FILE_SIZE), 600)

        assert fast.by_key("t", "k5").status == KeyStatus.NOT_FOUND
        assert [len(a.messages) for a in fast.by_keys("t", ["k5", "k6"])] == [0, 1]

    def test_what_a_kernel_cannot_read_is_read_again_and_named(self, config, fast, monkeypatch):
        """
        The kernel's descriptor is a directory's: its call fails, and the readable way answers, or
        says which file failed.
        """
        assert fast.by_key("t", "k5").messages
        place = os.open(config.path, os.O_RDONLY)
        os.dup2(place, fast._lookup._open[5])
        os.close(place)

        assert len(fast.by_key("t", "k5").messages) == 1
        assert [len(a.messages) for a in fast.by_keys("t", ["k6", "k5"])] == [1, 1]

        def fails(*_args):
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(files, "preadv", fails)
        with pytest.raises(OSError, match=names.offset_file(5 * self.FILE_SIZE)):
            fast.by_key("t", "k5")
