"""What `reput verify` and `reput handover` say once records have expired that shaped an output."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest

from reput.checkpoints import progress
from reput.checkpoints.disk import recording
from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import ROLLBACK
from reput.formats.rocketmq.encode import Message
from reput.formats.rocketmq.indexfile import FIRST_ITEM, Header, item_position
from reput.stores.findings import Kind
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.verify.handover import examine
from reput.streaming.verify.output import verify
from reput.streaming.verify.repair import repair
from tests.builders.slow_twins import differences
from tests.builders.stores import (
    LOG_FILE,
    SLOTS,
    Log,
    config_of,
    files_of,
    name_batch_topics,
)

if TYPE_CHECKING:
    from pathlib import Path

SYNC = FlushPolicy(is_sync=True)
STORED_AT = 1_700_000_000_000
TIME_DIFF_AT = 12


class Entry(NamedTuple):
    """Where a record's entry stands in its queue."""

    position: int
    number: int


class Made:
    """A store of messages that come one by one, and its output."""

    def __init__(self, root: Path, **conf: str) -> None:
        self.root, self.store, self.output = root, root / "store", root / "out"
        self.log = Log()
        self.conf = conf
        self.config = config_of(self.store, self.output, **conf)
        self.following: dict[str, int] = {}
        self.gone = 0
        # Of the broker, ms.
        self.clock = 0

    def put(self, topic: str, count: int = 1, *, skipped: int = 0, seconds: int = 5) -> None:
        """Append messages; the numbers of `skipped` others before them are not in the log."""
        first = self.following.get(topic, 0) + skipped
        for number in range(first, first + count):
            at = STORED_AT + 1000 * seconds * len(self.log.places) + self.clock
            key = {"KEYS": f"{topic}{number}"}
            self.log.append(
                Message(
                    topic,
                    body=bytes(40),
                    properties=key,
                    queue_offset=number,
                    store_timestamp=at,
                )
            )
        self.following[topic] = first + count

    def fill_files(self, topic: str, count: int) -> None:
        """Append messages until the log has `count` more files, and a record in the next one."""
        end = (self.log.end // LOG_FILE + count) * LOG_FILE
        while self.log.end <= end:
            self.put(topic)

    def expire(self, count: int) -> int:
        """Take the oldest files away; return where the log begins now."""
        self.gone += count
        for path in sorted((self.store / names.COMMITLOG).iterdir())[:count]:
            path.unlink()
        return self.gone * LOG_FILE

    def dispatch(self, **options: bool) -> progress.Progress:
        self.log.write(self.store, first=self.gone)
        dispatcher = StoreDispatcher(self.config, **options)
        try:
            end = find_tail(dispatcher.log, skips_corrupt=True).end
            dispatcher.dispatch(end)
        finally:
            dispatcher.close()
        return dispatcher.progress

    def entries(self, topic: str = "t") -> dict[int, int]:
        """Return by physical offset at which number each record that the log has stands."""
        found = {}
        for path in sorted((self.output / names.CONSUMEQUEUE / topic / "0").iterdir()):
            for number, (offset, size, _) in enumerate(
                struct.iter_unpack(">qiq", path.read_bytes())
            ):
                if size and offset >= self.gone * LOG_FILE and size < LOG_FILE:
                    found[offset] = int(path.name) // 20 + number
        return found

    def wanted(self, topic: str = "t") -> dict[int, int]:
        """Return the same by the records' queue offsets."""
        floor = self.gone * LOG_FILE
        return {
            place.position: place.message.queue_offset
            for place in self.log.places
            if place.message.topic == topic and place.position >= floor
        }

    def harm(self, number: int) -> int:
        """Make a record unreadable; return its physical offset."""
        position = self.log.places[number].position
        self.log.data[position + 4] ^= 1
        return position


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path)


def shifts(config):
    return [found for found in verify(config).findings if found.kind == Kind.SHIFTED]


class TestLeftOut:
    """Entries after records that the output has nothing of stand before their places."""

    def lose(self, made: Made, **options: bool) -> None:
        """Let records expire before they are dispatched."""
        made.put("t", 10)
        made.dispatch()
        made.fill_files("t", 3)
        made.log.write(made.store)
        made.expire(1)
        made.dispatch(fail_on_data_loss=False, **options)

    @pytest.mark.parametrize("is_again", [False, True])
    @pytest.mark.parametrize("removes_expired", [False, True])
    def test_records_that_expired_before_dispatch(self, made, removes_expired, is_again):
        """
        Also after more of the log has expired, and the files of the queue with it.
        """
        self.lose(made, removes_expired=removes_expired)
        if is_again:
            made.expire(1)
            made.dispatch(removes_expired=removes_expired)
        first, *_ = made.wanted()
        (found,) = verify(made.config).findings
        result = examine(made.config)
        assert made.entries()[first] < made.wanted()[first]

        assert found.kind == Kind.SHIFTED
        at = int(found.path.rpartition("/")[2]) + found.position
        assert at == made.entries()[first] * 20
        assert f"physical offset {first}, which says {made.wanted()[first]}" in found.detail
        assert not result.is_safe
        assert result.is_damaged
        (problem,) = result.problems
        assert "`reput rebuild --repair`" in problem

    @pytest.mark.parametrize("kept", [0, 1, 1000])
    def test_all_such_queues_are_counted(self, made, monkeypatch, kept):
        """
        Of many findings only the first are kept; those beyond are not of another kind, with
        another remedy.
        """
        for topic in "tuv":
            made.put(topic, 3)
        made.dispatch()
        for topic in "uv":
            made.put(topic, 3)
        made.fill_files("t", 1)
        for topic in "uv":
            made.put(topic, 3)
        made.fill_files("t", 1)
        made.log.write(made.store)
        made.expire(1)
        made.dispatch(fail_on_data_loss=False)
        monkeypatch.setattr("reput.stores.findings.KEPT", kept)
        (problem,) = examine(made.config).problems

        assert "their records name: 3" in problem
        assert ("The first: " in problem) == (kept > 0)

    def test_a_repair_puts_them_right(self, made):
        self.lose(made)
        result = repair(made.config)

        assert result.ok
        assert made.entries() == made.wanted()
        assert examine(made.config).is_safe

    @pytest.mark.parametrize("removes_expired", [False, True])
    def test_a_place_that_was_passed_over_and_has_expired(self, made, removes_expired):
        """
        A broker does not meet the place, so it is not a reason; what it did to the queue is.
        """
        made.fill_files("t", 3)
        made.harm(10)
        made.dispatch(skips_corrupt=True)
        before = examine(made.config)
        assert verify(made.config).ok
        assert any("a broker cuts its log there" in problem for problem in before.problems)

        made.expire(1)
        made.dispatch(removes_expired=removes_expired)
        (found,) = verify(made.config).findings
        (problem,) = examine(made.config).problems
        assert found.kind == Kind.SHIFTED
        assert found.detail in problem
        assert "cuts its log" not in problem

        assert repair(made.config).ok
        assert made.entries() == made.wanted()
        assert examine(made.config).is_safe

    def test_one_that_shifted_nothing_is_forgotten(self, made):
        """
        The record was of a queue that has no others.
        """
        made.put("t", 10)
        made.put("single")
        made.fill_files("t", 2)
        made.harm(10)
        made.dispatch(skips_corrupt=True)
        assert not examine(made.config).is_safe
        made.expire(1)
        made.dispatch()

        assert made.entries() == made.wanted()
        assert verify(made.config).ok
        assert examine(made.config).is_safe

    def test_a_gap_of_the_logs_own_is_none(self, made):
        """
        A broker appends as well where its numbers have a gap, and its queue stays as it is.
        """
        made.put("t", 10)
        made.put("t", skipped=4)
        made.fill_files("t", 3)
        made.dispatch()
        made.expire(1)
        made.dispatch()
        first, *_ = made.wanted()

        assert made.entries()[first] == made.wanted()[first] - 4
        assert verify(made.config).ok
        assert examine(made.config).is_safe

    def test_nor_is_one_of_a_queue_that_began_after_what_was_left_out(self, made):
        self.lose(made)
        made.put("late", 3)
        made.put("late", skipped=4)
        made.fill_files("late", 2)
        made.dispatch()
        made.expire(4)
        made.dispatch()
        first, *_ = made.wanted("late")

        assert not made.wanted()
        assert made.entries("late")[first] == made.wanted("late")[first] - 4
        assert shifts(made.config) == []

    def test_nor_is_a_batch_queue(self, tmp_path):
        """
        Its units say themselves which numbers they have, wherever they stand.
        """
        made = Made(tmp_path)
        name_batch_topics(made.store, "t")
        self.lose(made)

        assert (made.output / names.BATCH_CONSUMEQUEUE / "t" / "0").is_dir()
        assert verify(made.config).ok


class TestIndex:
    """An index whose older files were removed with their records."""

    @pytest.fixture
    def made(self, tmp_path):
        """Let the first of two index files expire: it ends where the log's first file does."""
        return self.make(tmp_path)

    def make(self, root: Path, clock: int = 0, items: int = 0) -> Made:
        """Make it, with `items` less in the first; and a clock that advances so at the second."""
        made = Made(root, maxIndexNum="40")
        while made.log.end < LOG_FILE:
            made.put("t")
        in_first = len([p for p in made.log.places if p.position < LOG_FILE]) - items
        made = Made(root, maxIndexNum=str(in_first + FIRST_ITEM))
        made.put("t", 10)
        made.dispatch()
        made.put("t", in_first - 10)
        made.clock = clock
        while made.log.end < LOG_FILE:
            made.put("t")
        made.put("t", 3)
        made.dispatch()
        assert len(self.files(made)) == 2
        return made

    def files(self, made: Made) -> list[Path]:
        return sorted((made.output / names.INDEX).iterdir())

    def test_the_checkpoint_keeps_the_end_of_one_that_is_gone(self, made):
        before = progress.load(made.output).checkpoint
        made.expire(1)
        for _ in range(2):
            made.dispatch(removes_expired=True)
            report = verify(made.config)

            assert len(self.files(made)) == 1
            assert before[2] > 0
            assert progress.load(made.output).checkpoint == before
            assert report.findings == []
            assert examine(made.config).is_safe

    @pytest.mark.parametrize("is_killed", [False, True])
    @pytest.mark.parametrize("items", [0, 4], ids=["whole", "across"])
    @pytest.mark.parametrize("removes_expired", [True, False])
    def test_also_after_a_clock_that_went_back(self, tmp_path, removes_expired, items, is_killed):
        """
        The newest file begins before the one ends that it follows. A start, one after a kill, and a
        repair keep what was recorded, and `verify` takes it. Where the log has no item before the
        index's first, a repair gives what a rebuild does.
        """
        made = self.make(tmp_path, clock=-60_000, items=items)
        before = progress.load(made.output).checkpoint
        made.expire(1)
        made.dispatch(removes_expired=removes_expired)
        left = self.files(made)
        begun = Header.unpack(left[-1].read_bytes()).begin_timestamp
        assert (len(left), begun < before[2]) == (1 if removes_expired else 2, True)
        assert progress.load(made.output).checkpoint == before
        assert verify(made.config).findings == []
        if is_killed:
            recording.save(made.output, replace(progress.load(made.output), clean=False))
            assert verify(made.config).findings == []
        else:
            content = files_of(made.output)
            begins_with_log = removes_expired and not items
            for changed in (1 if begins_with_log else 0, 0):
                result = repair(made.config)
                assert (result.ok, len(result.changes)) == (True, changed)
            assert files_of(made.output) == content
            if begins_with_log:
                before = (*before[:2], 0, *before[3:])
        made.dispatch(removes_expired=removes_expired)

        assert progress.load(made.output).checkpoint == before
        assert verify(made.config).findings == []
        assert examine(made.config).is_safe

    def test_the_end_of_a_later_file_is_not_taken_for_it(self, tmp_path):
        """
        The log was cut so that the files after the oldest one are gone: nothing that is recorded
        says when the file before that one ended.
        """
        made = self.make(tmp_path, items=4)
        made.expire(1)
        made.dispatch(removes_expired=True)
        (oldest,) = self.files(made)
        made.put("t", 60)
        made.dispatch()
        assert len(self.files(made)) > 2
        kept = [place for place in made.log.places if place.position < LOG_FILE + 400]
        made.log.places, end = kept, kept[-1].end
        del made.log.data[end:]
        for path in sorted((made.store / names.COMMITLOG).iterdir()):
            path.unlink()
        made.log.write(made.store, first=made.gone)
        assert repair(made.config).ok

        assert self.files(made) == [oldest]
        assert progress.load(made.output).checkpoint[2] == 0
        assert verify(made.config).findings == []

    def test_a_checkpoint_with_another_end_is_found(self, made):
        made.expire(1)
        made.dispatch(removes_expired=True)
        path = made.output / names.CHECKPOINT
        raw = bytearray(path.read_bytes())
        raw[23] ^= 1
        path.write_bytes(raw)

        assert {found.kind for found in verify(made.config).findings} >= {Kind.CHECKPOINT}

    def test_the_first_item_counts_from_the_end_of_one_that_is_gone(self, made):
        """
        Its record is there, and the file that its time counts from is not.
        """
        made.expire(1)
        made.dispatch(removes_expired=True)
        (path,) = self.files(made)
        raw = path.read_bytes()
        at = item_position(FIRST_ITEM, SLOTS)
        _, offset, seconds, _ = struct.unpack_from(">iqii", raw, at)

        assert (offset, seconds) == (LOG_FILE, 5)
        assert verify(made.config).findings == []

        changed = bytearray(raw)
        changed[at + TIME_DIFF_AT + 3] ^= 2
        path.write_bytes(changed)
        (found,) = verify(made.config).findings
        assert found.kind == Kind.WRONG_BYTES

    def test_one_that_was_just_begun_has_the_end_of_one_that_is_gone(self, tmp_path):
        """
        It has no item yet: a record without keys began it, and its header tells of the file before.
        """
        made = Made(tmp_path, maxIndexNum=str(3 + FIRST_ITEM))
        made.put("t", 3)
        end = made.log.places[-1].message.store_timestamp
        while made.log.end <= LOG_FILE:
            made.log.append(Message("t", store_timestamp=end + 5000, sys_flag=ROLLBACK))
        made.dispatch()
        made.expire(1)
        made.dispatch(removes_expired=True)

        (path,) = self.files(made)
        assert Header.unpack(path.read_bytes()).begin_timestamp == end
        assert verify(made.config).findings == []
        assert examine(made.config).is_safe

        raw = bytearray(path.read_bytes())
        raw[7] ^= 1
        path.write_bytes(raw)
        assert {found.kind for found in verify(made.config).findings} >= {Kind.HEADER}

    def test_a_log_that_ends_in_expired_records_again(self, made, tmp_path):
        """
        Its older state came back. The start says what is missing and what to do, and that does it.
        """
        backup = shutil.copytree(made.store, tmp_path / "backup")
        made.expire(1)
        made.fill_files("t", 1)
        made.dispatch(removes_expired=True)
        shutil.rmtree(made.store)
        backup.rename(made.store)
        made.gone = 0
        before = progress.load(made.output)
        made.log.places = made.log.places[:15]
        del made.log.data[made.log.places[-1].end :]
        (made.store / names.COMMITLOG / names.offset_file(LOG_FILE)).unlink()
        with pytest.raises(StoreError, match="removed when its records had expired") as raised:
            made.dispatch()

        assert "--repair" in str(raised.value)
        assert progress.load(made.output) == before
        assert repair(made.config).ok
        assert made.entries() == made.wanted()


@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize(
    "directory", [names.CONSUMEQUEUE, names.CONSUMEQUEUE_EXT, names.BATCH_CONSUMEQUEUE]
)
def test_what_a_start_refuses_is_not_sound(tmp_path, directory, is_clean):
    """
    The only file of a queue is zeros. All its records have expired, so the log says nothing of it.
    As long as the file is right, it is not left over, also of a writer that was killed, or runs.
    """
    is_ext = directory == names.CONSUMEQUEUE_EXT
    made = Made(tmp_path, **({"enableConsumeQueueExt": "true"} if is_ext else {}))
    if directory == names.BATCH_CONSUMEQUEUE:
        name_batch_topics(made.store, "gone")
    made.put("gone", 3)
    made.fill_files("t", 1)
    made.log.write(made.store)
    dispatcher = StoreDispatcher(made.config)
    dispatcher.dispatch(find_tail(dispatcher.log).end)
    dispatcher.flush()
    dispatcher.parts.output.is_consistent = is_clean
    dispatcher.close()
    made.expire(1)
    assert verify(made.config).ok

    (path,) = (made.output / directory / "gone" / "0").iterdir()
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(StoreError):
        StoreDispatcher(made.config)
    report = verify(made.config)
    assert not report.ok
    assert {found.path for found in report.findings} == {str(path)}
    assert not examine(made.config).is_safe


class TestMadeAhead:
    """A queue whose only file is the next one, made by a repeated record; all before has expired.

    A broker never removes a queue's last file, and makes a file before it looks whether the record
    is a new one.
    """

    QUEUE = f"{names.CONSUMEQUEUE}/t/0"

    @pytest.fixture(autouse=True)
    def quick_looks(self, monkeypatch):
        monkeypatch.setattr("reput.streaming.dispatch.log.following._FOLLOW_SECONDS", 0)

    @staticmethod
    def step(dispatcher: StoreDispatcher) -> None:
        dispatcher.log.refresh()
        dispatcher.follow()
        dispatcher.dispatch(find_tail(dispatcher.log).end)

    def filled(self, made: Made, output: Path) -> StoreDispatcher:
        """Dispatch 8 entries of `t`, the file after them, and that much of `u` that it expires."""
        made.gone, made.following, made.log = 0, {}, Log()
        shutil.rmtree(made.store / names.COMMITLOG, ignore_errors=True)
        config = config_of(made.store, output, **made.conf)
        made.put("t", 8)
        made.following["t"] = 1
        made.put("t")
        made.fill_files("u", 2)
        made.log.write(made.store)
        dispatcher = StoreDispatcher(config, flush=SYNC, removes_expired=True)
        for place in made.log.places[-12::3]:
            dispatcher.dispatch(place.end)
        self.step(dispatcher)
        made.expire(1)
        dispatcher.log.refresh()
        dispatcher.flush()
        assert [path.name for path in (output / self.QUEUE).iterdir()] == [f"{160:020d}"]
        return dispatcher

    @pytest.mark.parametrize("number", [8, 3])
    @pytest.mark.parametrize("is_cut", [False, True], ids=["continues", "is cut"])
    @pytest.mark.parametrize("end", ["closed", "killed"])
    def test_a_start_continues(self, tmp_path, end, is_cut, number):
        """
        A job that is stopped writes what one does that continues: whatever number the queue's next
        record has, and where the log is cut and written again after the queue's last record.
        """
        made = Made(tmp_path)
        found = []
        for output in (tmp_path / "open", tmp_path / "out"):
            dispatcher = self.filled(made, output)
            if output == made.output:
                if end == "closed":
                    dispatcher.close()
                    assert examine(made.config).problems == []
                else:
                    dispatcher.abandon()
                assert verify(made.config).ok
            if is_cut:
                made.log.places = made.log.places[:-5]
                del made.log.data[made.log.places[-1].end :]
                made.following["u"] -= 5
                made.put("u", 2, seconds=6)
                shutil.rmtree(made.store / names.COMMITLOG)
                made.log.write(made.store, first=1)
            if output == made.output:
                dispatcher = StoreDispatcher(made.config, flush=SYNC, removes_expired=True)
            self.step(dispatcher)
            assert dispatcher.progress.queues[self.QUEUE] == 160
            assert dispatcher.progress.ahead == (self.QUEUE,)
            made.following["t"] = number
            made.put("t", 3)
            made.log.write(made.store, first=1)
            self.step(dispatcher)
            dispatcher.close()
            assert dispatcher.progress.truncations == is_cut
            found.append(dispatcher.progress)
        assert differences(files_of(made.output), files_of(tmp_path / "open")) == []
        one, other = found
        for field in ("queues", "firsts", "lasts", "ahead", "messages", "repeated", "tails"):
            assert getattr(one, field) == getattr(other, field), field
        if number == 8:
            assert made.entries() == made.wanted()
            assert verify(made.config).ok

    def test_what_is_not_as_it_was_left_is_refused(self, tmp_path):
        """
        The file is gone, has an entry or another size, or nobody says that it was made ahead; all are
        said by a start, and by `verify`.
        """
        made = Made(tmp_path)
        self.filled(made, made.output).close()
        path = made.output / self.QUEUE / names.offset_file(160)
        raw = path.read_bytes()
        for harm in (
            path.unlink,
            lambda: path.write_bytes(b"\1" * 20 + raw[20:]),
            lambda: path.write_bytes(raw[:-20]),
        ):
            harm()
            with pytest.raises(StoreError, match=str(path)):
                StoreDispatcher(made.config)
            report = verify(made.config)
            assert not report.ok
            assert str(path) in {finding.path for finding in report.findings}
        path.write_bytes(raw)
        assert verify(made.config).ok

        known = progress.load(made.output)
        assert self.QUEUE in known.ahead
        recording.save(made.output, replace(known, ahead=(), clean=False))
        with pytest.raises(StoreError, match="were removed as expired"):
            StoreDispatcher(made.config)
