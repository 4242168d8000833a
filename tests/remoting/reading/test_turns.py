"""What is not in memory is read by other threads, and long scans give others their turn."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from reput.remoting.holding.pulls import Pulls
from reput.remoting.reading.pull import pull, steps
from reput.remoting.reading.turns import Turns
from reput.remoting.wire import fields
from reput.remoting.wire.command import Command
from reput.stores import reads
from reput.stores.reads import ColdError, Span, impatience, patiently
from tests.builders.channels import Clock, KeptChannel
from tests.builders.served import dispatched, messages, request, served

LARGE = {"mappedFileSizeConsumeQueue": str(100_000 * 20)}


def evict(directory, files="**/*"):
    """Let go of what is in memory of files; skip where the file system keeps it."""
    probe = directory / "probe"
    probe.write_bytes(bytes(1 << 16))
    for path in (probe, *directory.glob(files)):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with probe.open("rb") as file:
        # Even this look begins to read what is not there, so the store's files are left alone.
        try:
            os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except BlockingIOError:
            return
        except OSError:
            pass
    pytest.skip("the file system keeps everything in memory")


@pytest.fixture
def store(tmp_path):
    with dispatched(messages(900, queues=2), tmp_path, **LARGE) as found:
        yield found


def in_loop(question):
    """Run it with the turns of a loop; return what it returns and how many questions were cold."""

    async def run():
        turns = Turns(asyncio.get_running_loop())
        found = question(turns)
        found = await found if isinstance(found, asyncio.Future) else found
        turns.close()
        return found, turns.cold

    return asyncio.run(run())


def test_what_is_in_memory_is_answered_at_once(store):
    at = served(store)
    expected = pull(request(100), at)

    async def run():
        return Turns(asyncio.get_running_loop()).run(steps(request(100), at))

    assert asyncio.run(run()) == expected
    assert reads._patience.waits


@pytest.mark.parametrize(
    ("expression", "kind"), [("*", None), ("T1 || T2", None), ("none", None), ("a > 7", "SQL92")]
)
@pytest.mark.parametrize("is_known", [True, False])
def test_what_is_cold_is_the_same_in_the_end(
    store, tmp_path, monkeypatch, expression, kind, is_known
):
    at = served(store, filters_properties=True)
    asked = request(100, expression=expression, kind=kind)
    expected = pull(asked, at)
    evict(tmp_path)
    if not is_known:
        monkeypatch.setattr(reads, "_NOWAIT", 1 << 30)
    found, cold = in_loop(lambda turns: turns.run(steps(asked, at)))

    assert found == expected
    assert cold == 1


def test_a_queue_that_is_opened_cold(tmp_path):
    dispatched(messages(900), tmp_path, **LARGE).close()
    with dispatched(messages(900), tmp_path, **LARGE) as store:
        at = served(store)
        store.log.end()
        evict(tmp_path)
        found, cold = in_loop(lambda turns: turns.run(steps(request(100), at)))

    assert found.messages == 32
    # However many reads it takes.
    assert cold == 1


def test_a_failure_reaches_whoever_waits(store, tmp_path, monkeypatch):
    at = served(store)
    pull(request(100), at)
    evict(tmp_path)

    def run(turns):
        found = turns.run(steps(request(100), at))
        monkeypatch.setattr("reput.remoting.reading.pull._by_columns", lambda *_: 1 / 0)
        return found

    with pytest.raises(ZeroDivisionError):
        in_loop(run)
    assert reads._patience.waits


def test_a_long_scan_gives_others_their_turn(store):
    """
    A filter that nothing passes, over all of the queue.
    """
    at = served(store, filters_properties=True)
    asked = request(expression="a = 'none'", kind="SQL92", limit=1 << 20)
    turns = sum(1 for _ in steps(asked, at))

    assert turns >= 450 // 64
    assert pull(asked, at).header.next_begin_offset == 450


def test_a_file_that_expires_is_looked_for_without_waiting(tmp_path):
    log = messages(40, size=300)
    with dispatched(log, tmp_path) as store:
        at = served(store)
        assert pull(request(), at).messages == 8
        first, *_ = sorted((tmp_path / "store" / "commitlog").iterdir())
        first.unlink()
        store.log.close()
        evict(tmp_path)
        found, _ = in_loop(lambda turns: turns.run(steps(request(), at)))

    assert (found.code, found.remark) == (20, "MESSAGE_WAS_REMOVING")


def test_a_read_that_may_wait_waits(store, tmp_path):
    evict(tmp_path)

    assert pull(request(100), served(store)).messages == 32


def test_only_the_thread_that_asked_does_not_wait(store, tmp_path):
    at = served(store)
    pull(request(100), at)
    evict(tmp_path)
    with impatience():
        with pytest.raises(ColdError):
            store.queue("t", 0).files.read(2000, 640)
        found = asyncio.run(asyncio.to_thread(pull, request(100), at))

    assert found.messages == 32


def test_a_thread_that_does_not_wait_looks_no_cold_key_up(store, tmp_path):
    """A page of a mapped file would stop all threads of Python until a disk has brought it."""
    found = store.by_key("t", "k7")
    evict(tmp_path, "out/index/*")
    with impatience(), pytest.raises(ColdError):
        store.by_key("t", "k7")

    assert len(found.messages) == 1
    assert store.by_key("t", "k7") == found


def test_a_cold_key_is_looked_up_later(store, tmp_path):
    found = store.by_key("t", "k7")
    evict(tmp_path, "out/index/*")
    again, cold = in_loop(lambda turns: turns.run(patiently(lambda: store.by_key("t", "k7"))))

    assert again == found
    assert cold > 0


def test_where_no_thread_can_be_had_a_question_fails_and_no_disk_is_blamed():
    def steps():
        yield None
        yield ColdError([Span(-1, 0, 1)])

    async def run():
        turns = Turns(asyncio.get_running_loop())
        turns.close()
        found = turns.run(steps())
        with pytest.raises(RuntimeError):
            await asyncio.wait_for(found, 30)
        await asyncio.sleep(0.05)
        return turns.stuck_seconds

    assert asyncio.run(run()) == 0


@pytest.mark.parametrize(("count", "again", "may_wait"), [(600, 1, False), (1, 600, True)])
def test_a_question_with_many_cold_bytes_waits_for_none(tmp_path, count, again, may_wait):
    """
    A key in hundreds of index files, or a filter that looks at hundreds of records; bytes that are
    gone whenever they were brought are waited for in the end.
    """
    path = tmp_path / "file"
    path.write_bytes(bytes(count))
    waited = []

    def steps():
        with path.open("rb") as file:
            for at in range(count):
                for _ in range(again):
                    yield ColdError([Span(file.fileno(), at, 1)])
                    waited.append(reads._patience.waits)

    in_loop(lambda turns: turns.run(steps()))
    assert any(waited) is may_wait
    assert not any(waited[:256])


def test_how_long_a_disk_has_brought_nothing():
    """
    The thread has something else to wait for: so the disk brings nothing.
    """

    def steps():
        yield ColdError([Span(-1, 0, 1)])

    async def run():
        turns, brings = Turns(asyncio.get_running_loop(), 1), threading.Event()
        turns._threads.submit(brings.wait)
        before = turns.stuck_seconds
        found = turns.run(steps())
        await asyncio.sleep(0.05)
        meanwhile = turns.stuck_seconds
        brings.set()
        await found
        turns.close()
        return before, meanwhile, turns.stuck_seconds

    before, meanwhile, after = asyncio.run(run())

    assert before == after == 0
    assert meanwhile > 0


def test_a_cold_pull_is_answered_later_and_once(store, tmp_path):
    at = served(store)
    expected = pull(request(100), at)
    channel = KeptChannel()
    evict(tmp_path)

    async def run():
        turns = Turns(asyncio.get_running_loop())
        pulls = Pulls(at, Clock(), turns)
        command = Command(11, 77, fields=fields.write(request(100)))
        assert pulls.pull(command, channel) is None
        for _ in range(1000):
            if channel.sent:
                break
            await asyncio.sleep(0.002)
        turns.close()

    asyncio.run(run())
    ((command, body),) = channel.sent
    assert (command.code, command.opaque) == (0, 77)
    assert body == b"".join(expected.pieces)


def test_a_cold_pull_that_finds_nothing_waits(store, tmp_path):
    at = served(store)
    store.log.end()
    channel = KeptChannel()
    store.queue("t", 0)
    evict(tmp_path)

    async def run():
        turns = Turns(asyncio.get_running_loop())
        pulls = Pulls(at, Clock(), turns)
        command = Command(11, 77, fields=fields.write(request(450, flags=6)))
        assert pulls.pull(command, channel) is None
        for _ in range(1000):
            if len(pulls.holds):
                break
            await asyncio.sleep(0.002)
        turns.close()
        return len(pulls.holds)

    assert asyncio.run(run()) == 1
    assert channel.sent == []


def test_a_pull_that_fails_late_gets_an_answer(store, tmp_path, monkeypatch):
    at = served(store)
    pull(request(100), at)
    channel = KeptChannel()
    evict(tmp_path)

    async def run():
        turns = Turns(asyncio.get_running_loop())
        pulls = Pulls(at, Clock(), turns)
        pulls.pull(Command(11, 77, fields=fields.write(request(100))), channel)
        monkeypatch.setattr("reput.remoting.reading.pull._by_columns", lambda *_: 1 / 0)
        for _ in range(1000):
            if channel.sent:
                break
            await asyncio.sleep(0.002)
        turns.close()

    asyncio.run(run())
    ((command, _),) = channel.sent
    assert (command.code, command.remark) == (1, "ZeroDivisionError: division by zero")
