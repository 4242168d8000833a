"""Consume queues: each rule of STORE.md section 3, in turn or not, and continuing after a close."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from reput.checkpoints.disk import changes
from reput.formats.kernels.scan import Columns
from reput.formats.rocketmq.broker import BrokerSettings
from reput.formats.rocketmq.commitlog import COMMIT, PREPARED, ROLLBACK
from reput.formats.rocketmq.consumequeue import PRE_BLANK, Entry
from reput.formats.rocketmq.names import QueueName, offset_file
from reput.sinks.files import consumequeue
from reput.sinks.files.consumequeue import ConsumeQueueSink
from reput.sinks.files.mapped_file import MappedFile
from reput.sinks.files.queues import QueueDirectory
from reput.streaming.dispatch.queue_writer import QueueWriter
from tests.builders.blocks import block_of
from tests.builders.slow_twins import SlowQueue, differences
from tests.builders.stores import files_of

PER_FILE = 4
SETTINGS = replace(BrokerSettings(), consumequeue_file_size=PER_FILE * 20)
EMPTY = bytes(20)


class Sink:
    """A sink of one queue, with each record 100 bytes after the one before."""

    def __init__(self, root, settings=SETTINGS) -> None:
        self.root = root
        self.settings = settings
        self.position = 0
        self.open()

    def open(self) -> None:
        self.queues = QueueDirectory(lambda topic: False)
        self.number = self.queues.number("t", 3)
        self.sink = ConsumeQueueSink(self.root, self.root / ".reput", self.settings, self.queues)

    def put(self, *queue_offsets: int) -> None:
        for queue_offset in queue_offsets:
            self.sink.put_entry(self.number, queue_offset, Entry(self.position, 100, 7))
            self.position += 100

    def reopen(self) -> None:
        self.sink.close()
        self.open()

    def entries(self) -> dict[int, list[bytes]]:
        """Return the entries of each file by its name's number."""
        found = {}
        for path in sorted((self.root / "consumequeue" / "t" / "3").iterdir()):
            raw = path.read_bytes()
            found[int(path.name)] = [raw[i : i + 20] for i in range(0, len(raw), 20)]
        return found


def entry(position: int) -> bytes:
    return Entry(position, 100, 7).pack()


@pytest.fixture
def sink(root):
    made = Sink(root)
    yield made
    made.sink.close()


class TestPutEntry:
    def test_a_queue_has_no_file_before_its_first_entry(self, root, sink):
        assert not (root / "consumequeue").exists()

    def test_entries_one_after_the_other(self, sink):
        sink.put(0, 1)

        assert sink.entries() == {0: [entry(0), entry(100), EMPTY, EMPTY]}
        assert sink.sink.path_of(QueueName("t", 3)) == sink.root / "consumequeue/t/3"

    def test_a_full_file_is_followed_by_the_next_with_its_first_entry_only(self, sink):
        """
        Rule 2. A file without entries would count as one entry when the broker starts.
        """
        sink.put(0, 1, 2, 3)
        assert list(sink.entries()) == [0]
        sink.put(4)

        assert sink.entries()[80] == [entry(400), EMPTY, EMPTY, EMPTY]

    def test_a_queue_that_begins_late_is_filled_up_to_its_first_entry(self, sink):
        """
        Rule 3: its file is the one of that entry, what lies before it is pre-blank.
        """
        sink.put(10)

        assert sink.entries() == {160: [PRE_BLANK, PRE_BLANK, entry(0), EMPTY]}

    def test_a_queue_that_begins_with_a_file_has_nothing_to_fill(self, sink):
        sink.put(8)

        assert sink.entries() == {160: [entry(0), EMPTY, EMPTY, EMPTY]}

    def test_an_entry_before_the_next_one_is_skipped(self, sink):
        """
        Rule 4: it is taken for one that was put before.
        """
        sink.put(4, 5, 4, 5, 6)

        assert sink.entries() == {80: [entry(0), entry(100), entry(400), EMPTY]}
        assert sink.sink.counts.repeated == 2

    def test_an_entry_beyond_the_next_one_is_appended_all_the_same(self, sink):
        """
        Rule 4: the broker logs an error, and leaves no gap.
        """
        sink.put(0, 3, 2)

        assert sink.entries() == {0: [entry(0), entry(100), entry(200), EMPTY]}
        assert sink.sink.counts.misplaced == 1

    def test_offset_0_is_appended_wherever_the_queue_is(self, sink):
        """
        Rule 5: no check at all.
        """
        sink.put(4, 0, 0)

        assert sink.entries() == {80: [entry(0), entry(100), entry(200), EMPTY]}
        assert sink.sink.counts.misplaced == 2

    def test_a_record_that_ends_before_the_last_one_is_skipped(self, sink):
        """
        Rule 1, whatever its queue offset: a repeated batch changes nothing.
        """
        sink.put(0, 1)
        before = sink.entries()
        for position in (0, 100):
            for queue_offset in (0, 1, 2, 3):
                sink.sink.put_entry(sink.number, queue_offset, Entry(position, 100, 9))

        assert sink.entries() == before
        assert sink.sink.counts.repeated == 8

    def test_a_skipped_entry_in_front_of_a_full_file_has_still_made_the_next(self, sink):
        """
        Rule 2 comes before rule 4: the broker makes the file, then finds the entry repeated.
        """
        sink.put(0, 1, 2, 3, 2)

        assert sink.entries()[80] == [EMPTY] * 4
        sink.put(4)
        assert sink.entries()[80][0] == entry(500)

    @pytest.mark.parametrize("queue_offset", [-1, -(1 << 40), 1 << 60, (1 << 63) - 1])
    def test_a_queue_offset_that_no_broker_gives_leaves_an_output_that_can_be_opened(
        self, root, queue_offset
    ):
        """
        A name with a sign or a byte beyond 63 bits would keep a broker, and us, from starting.
        """
        sink = Sink(root)
        try:
            sink.put(queue_offset)
        except Exception as error:  # noqa: BLE001 - refused is as good
            assert type(error).__name__ in {"ReputError", "FormatError", "ValueError"}  # noqa: PT017
        sink.sink.close()
        queue = root / "consumequeue" / "t" / "3"
        found = sorted(queue.iterdir()) if queue.exists() else []

        assert all(len(path.name) == 20 and path.name.isdigit() for path in found)
        assert all(int(path.name) + 80 < 1 << 63 for path in found)


class TestReopen:
    @pytest.mark.parametrize("count", range(1, 10))
    def test_it_continues_after_the_last_entry(self, sink, count):
        sink.put(*range(2, 2 + count))
        sink.reopen()
        sink.put(*range(2 + count, 12))
        whole = [raw for raws in sink.entries().values() for raw in raws]

        assert whole[:2] == [PRE_BLANK] * 2
        assert whole[2:12] == [entry(100 * i) for i in range(10)]

    def test_what_was_put_is_known_again(self, sink):
        sink.put(0, 1, 2, 3)
        before = sink.entries()
        sink.reopen()
        for position in (0, 100, 200, 300):
            sink.sink.put_entry(sink.number, position // 100, Entry(position, 100, 7))

        assert sink.entries() == before

    def test_before_an_empty_last_file_the_one_before_tells(self, sink):
        sink.put(0, 1, 2, 3, 2)
        sink.reopen()
        sink.sink.put_entry(sink.number, 4, Entry(300, 100, 7))  # the last record, again
        sink.put(4)

        assert sink.entries()[80] == [entry(500), EMPTY, EMPTY, EMPTY]


def columns_of(rows) -> Columns:
    columns = Columns.of(len(rows), 1)
    for i, (queue, offset, position, size, flag) in enumerate(rows):
        columns.queue[i], columns.queue_offset[i] = queue, offset
        columns.physical_offset[i], columns.size[i] = position, size
        columns.tags_code[i], columns.sys_flag[i] = position % 1000 - 500, flag
    return columns


def not_special(row: int) -> bool:
    pytest.fail(f"row {row} is a plain one, in its turn")


class Others:
    """What becomes of rows that are not the next of their queue; each record has 100 bytes."""

    def __init__(self, put, accept) -> None:
        self._put = put
        self._accept = accept

    def record_at(self, position: int, _size: int) -> int:
        return position // 100

    def put(self, row: int) -> bool:
        self._put(row)
        return True

    def is_settled(self, position: int, _size: int) -> bool:
        return self._accept(position // 100)


def write(sink, columns, count, put=not_special, accept=not_special) -> int:
    """Write a block; return how many of its records were put."""
    block, others = block_of(columns, count), Others(put, accept)
    QueueWriter(sink, others, others, others).write(block)
    assert block.failure is None
    return block.count


class TestWrite:
    @pytest.mark.parametrize("seed", range(25))
    def test_blocks_of_any_records_make_the_files_of_the_slow_twin(self, root, seed):
        """
        In turn and out of it, over rolls, in random blocks, with the sink opened again between.
        """
        pick = random.Random(seed)
        made, twins, following, position = Sink(root), {}, {}, 0
        disorder = pick.choice([0, 0.1, 0.4])
        for _ in range(pick.randint(1, 5)):
            rows = []
            for _ in range(pick.randint(0, 30)):
                queue = made.queues.number(pick.choice("ab"), pick.randrange(3))
                name = made.queues.names[queue]
                offset = following.setdefault(name, pick.choice([0, 2, 9]))
                flag = pick.choice([0, 0, 0, COMMIT, PREPARED, ROLLBACK])
                if pick.random() < disorder:
                    offset = max(0, offset + pick.choice([-9, -1, 1, 7]))
                elif flag in {0, COMMIT}:
                    following[name] += 1
                size = pick.randint(91, 400)
                rows.append((queue, offset, position, size, flag))
                if flag in {0, COMMIT}:
                    twin = twins.setdefault(name, SlowQueue(80))
                    twin.put(offset, position, size, position % 1000 - 500)
                position += size
            count = len(rows)
            put = write(made.sink, columns_of(rows), count, accept=lambda _: True)
            assert put == count
            if pick.random() < 0.3:
                made.sink.flush()
            if pick.random() < 0.3:
                made.reopen()
        made.sink.close()
        expected = {
            f"consumequeue/{name.topic}/{name.queue_id}/{offset_file(base)}": bytes(raw)
            for name, twin in twins.items()
            for base, raw in twin.files.items()
        }

        assert differences(files_of(root), expected) == []

    def test_special_rows_are_handed_over_in_their_place(self, root):
        made = Sink(root)
        columns = columns_of([(0, i, 100 * i, 100, 0) for i in range(6)])
        columns.special[[1, 4]] = 1
        seen = []

        def put(row: int) -> None:
            seen.append((row, [raw != EMPTY for raw in made.entries()[0]].count(True)))
            made.sink.put_entry(0, row, Entry(100 * row, 100, 1))

        write(made.sink, columns, 6, put)
        assert [row for row, _ in seen] == [1, 4]
        assert seen[0] == (1, 1)
        assert made.sink.file_count == 2
        made.sink.close()

    @pytest.mark.parametrize("offset", [0, 1, 2, 4, 9])
    def test_a_record_out_of_turn_is_put_only_if_it_is_accepted(self, root, offset):
        made = Sink(root)
        rows = [(0, i, 100 * i, 100, 0) for i in range(3)]
        rows += [(0, offset, 300, 100, 0), (0, 4, 400, 100, 0)]
        assert write(made.sink, columns_of(rows), 5, accept=lambda row: row != 3) == 3
        assert [raw != EMPTY for raw in made.entries()[0]].count(True) == 3
        made.sink.close()

    def test_more_queues_than_there_was_room_for(self, root):
        made = Sink(root)
        numbers = [made.queues.number("many", i) for i in range(700)]
        rows = [(number, 0, 100 * i, 100, 0) for i, number in enumerate(numbers)]
        write(made.sink, columns_of(rows), len(rows))
        made.sink.flush()

        assert made.sink.file_count == 700
        made.sink.close()
        for i in (0, 255, 256, 699):
            raw = np.fromfile(root / "consumequeue/many" / str(i) / offset_file(0), ">i8", 1)
            assert raw[0] == 100 * i


class TestManyQueues:
    @pytest.mark.parametrize("seed", range(5))
    def test_maps_are_bounded_and_a_queue_that_was_unmapped_goes_on(self, root, monkeypatch, seed):
        """
        Linux gives a process that many maps and no more; a queue beyond them takes an idle one's.
        """
        bound = MappedFile.maps + 12
        monkeypatch.setattr(consumequeue, "_MOST_MAPS", bound)
        pick = random.Random(seed)
        made = Sink(root)
        numbers = [made.queues.number("many", i) for i in range(40)]
        twins = {number: SlowQueue(80) for number in numbers}
        following = dict.fromkeys(numbers, 0)
        for _ in range(8):
            rows = []
            for _ in range(60):
                number = pick.choice(numbers)
                offset = following[number]
                following[number] += 1
                rows.append((number, offset, made.position, 100, 0))
                twins[number].put(offset, made.position, 100, made.position % 1000 - 500)
                made.position += 100
            write(made.sink, columns_of(rows), len(rows))
            # Full files wait for the next flush.
            made.sink.flush()
            assert MappedFile.maps <= bound
        expected = {
            f"consumequeue/many/{made.queues.names[number].queue_id}/{offset_file(base)}": bytes(
                raw
            )
            for number, twin in twins.items()
            for base, raw in twin.files.items()
        }

        assert differences(files_of(root), expected) == []
        assert made.sink.positions() == {
            f"consumequeue/many/{made.queues.names[number].queue_id}": following[number] * 20
            for number in numbers
            if following[number]
        }
        made.sink.close()
        assert MappedFile.maps == bound - 12

    def test_what_is_unmapped_is_on_disk_first(self, root, monkeypatch):
        """
        An error of the device is told to each process that has the file mapped, and to nobody else.
        """
        monkeypatch.setattr(consumequeue, "_MOST_MAPS", MappedFile.maps + 1)
        made = Sink(root)
        made.put(0)
        calls = []

        def note(name, inner):
            def noted(*arguments):
                calls.append(name)
                return inner(*arguments)

            monkeypatch.setattr(changes, name, noted)

        note("sync_memory", changes.sync_memory)
        note("unmap", changes.unmap)
        made.sink.put_entry(made.queues.number("t", 4), 0, Entry(made.position, 100, 7))

        assert calls == ["sync_memory", "unmap"]
        made.sink.close()

    def test_the_device_begins_with_all_busy_queues_before_one_is_waited_for(
        self, root, monkeypatch
    ):
        """
        Waited for one by one, or by several threads, they take twice as long and more.
        """
        entries = (64 << 10) // 20 + 1
        made = Sink(root, replace(SETTINGS, consumequeue_file_size=entries * 20))
        calls = []

        def note(name, inner):
            def noted(path, *rest):
                calls.append((name, path.parent.name))
                inner(path, *rest)

            monkeypatch.setattr(changes, name, noted)

        for name in ("begin_sync", "sync_memory"):
            note(name, getattr(changes, name))
        for queue in range(3):
            number = made.queues.number("busy", queue)
            at = queue * entries * 100
            rows = [(number, i, at + i * 100, 100, 0) for i in range(entries if queue else 1)]
            write(made.sink, columns_of(rows), len(rows))
        made.sink.flush()
        made.sink.close()

        assert calls[:2] == [("begin_sync", "1"), ("begin_sync", "2")]
        assert calls[2:] == [("sync_memory", str(queue)) for queue in range(3)]

    def test_one_failed_flush_of_many_is_raised_and_done_again(self, root, monkeypatch):
        made = Sink(root)
        numbers = [made.queues.number("many", i) for i in range(50)]
        rows = [(number, 0, 100 * i, 100, 0) for i, number in enumerate(numbers)]
        write(made.sink, columns_of(rows), len(rows))
        failing, done = {"many/7/"}, []
        inner = changes.sync_memory

        def sync(path, *rest):
            if any(name in str(path) for name in failing):
                raise OSError(5, "Input/output error", str(path))
            done.append(path)
            inner(path, *rest)

        monkeypatch.setattr(changes, "sync_memory", sync)
        with pytest.raises(OSError, match="Input/output error"):
            made.sink.flush()
        failing.clear()
        done.clear()
        made.sink.flush()

        assert "many/7/" in str(done)
        made.sink.flush()
        assert len(done) == len(set(done))
        made.sink.close()

    @pytest.mark.parametrize("count", [1, 204, 205, 700, 5000])
    def test_the_end_of_a_large_file_is_found_again(self, root, count):
        settings = replace(SETTINGS, consumequeue_file_size=6_000_000)
        made = Sink(root, settings)
        made.put(*range(count))
        made.reopen()
        made.put(count)
        raw = np.fromfile(
            root / "consumequeue/t/3" / offset_file(0), ">i8", count=1, offset=count * 20
        )

        assert raw[0] == count * 100
        assert made.sink.counts.repeated == made.sink.counts.misplaced == 0
        made.sink.close()
