"""Extensions and batch queues: units one after the other, over files, and after a close."""

from __future__ import annotations

import random

import pytest

from reput.formats.rocketmq import batchconsumequeue, consumequeue_ext
from reput.formats.rocketmq.consumequeue_ext import Unit
from reput.formats.rocketmq.further_entries import unit_of
from reput.formats.rocketmq.names import QueueName
from reput.sinks.files.batchconsumequeue import BatchConsumeQueueSink
from reput.sinks.files.consumequeue_ext import ExtSink
from tests.builders.slow_twins import SlowExt, differences
from tests.builders.stores import files_of

NAME = QueueName("t", 2)
BASE = -(1 << 63)


class TestExt:
    def test_an_address_is_a_place_in_the_queues_files(self, root, staging):
        sink = ExtSink(root, staging, 100)
        units = [Unit(i, 5, b"ab") for i in range(6)]
        addresses = [sink.append(NAME, unit) - BASE for unit in units]
        sink.flush()
        sink.close()

        # Four units of 22 bytes fit before the 4 spare ones; a -1 tells where they end.
        assert addresses == [0, 22, 44, 66, 100, 122]
        files = files_of(root)
        assert files["consumequeue_ext/t/2/" + "0" * 20][88:] == b"\xff\xff" + bytes(10)
        for address, unit in zip(addresses, units, strict=True):
            raw = files[f"consumequeue_ext/t/2/{address // 100 * 100:020d}"]
            assert consumequeue_ext.unpack(raw, address % 100) == unit

    def test_a_unit_that_fits_no_file_is_not_stored(self, root, staging):
        """
        A broker looks for room in three files before it gives up, and each says that it has ended.
        """
        sink = ExtSink(root, staging, 100)

        assert sink.append(NAME, Unit(1, 2, bytes(77))) is None
        assert sink.append(NAME, Unit(1, 2, bytes(76))) == BASE + 300
        assert ExtSink(root, staging, 1 << 20).append(NAME, Unit(1, 2, bytes(32748))) is None
        sink.close()
        files = files_of(root).values()
        assert [raw[:2] for raw in files] == [b"\xff\xff"] * 3 + [b"\0\x60"]

    @pytest.mark.parametrize("seed", range(15))
    def test_any_units_make_the_files_of_the_slow_twin(self, root, staging, seed):
        pick = random.Random(seed)
        size = pick.choice([64, 100, 111])
        sink, twins = ExtSink(root, staging, size), {}
        for _ in range(pick.randint(1, 40)):
            name = QueueName(pick.choice("ab"), pick.randrange(2))
            bitmap = pick.randbytes(pick.choice([0, 1, 14, 45]))
            expected = twins.setdefault(name, SlowExt(size)).put(-5, 1 << 40, bitmap)
            assert sink.append(name, Unit(-5, 1 << 40, bitmap)) == expected
            if pick.random() < 0.2:
                sink.flush()
            if pick.random() < 0.2:
                sink.close()
                sink = ExtSink(root, staging, size)
        sink.close()

        assert (
            differences(
                files_of(root),
                {
                    f"consumequeue_ext/{n.topic}/{n.queue_id}/{base:020d}": bytes(raw)
                    for n, twin in twins.items()
                    for base, raw in twin.files.items()
                },
            )
            == []
        )


class TestBatches:
    SIZE = 3 * 46

    def append(self, sink, *positions: int) -> list[bool]:
        return [sink.append(NAME, unit_of(p, 100, 7, 9, p // 100, None)) for p in positions]

    def units(self, root) -> list[bytes]:
        raw = b"".join(files_of(root).values())
        return [raw[i : i + 46] for i in range(0, len(raw), 46)]

    def test_units_stand_in_the_order_of_their_records(self, root, staging):
        """
        Whatever their queue offsets: a reader searches, it does not calculate.
        """
        sink = BatchConsumeQueueSink(root, staging, self.SIZE)
        sink.append(NAME, unit_of(1000, 100, 7, 9, 0, (50, 5)))
        sink.append(NAME, unit_of(1100, 100, 7, 9, 3, None))
        sink.flush()
        sink.close()

        expected = batchconsumequeue.Unit(1000, 100, 7, 9, 50, 5).pack()
        assert self.units(root)[:2] == [
            expected,
            batchconsumequeue.Unit(1100, 100, 7, 9, 3, 1).pack(),
        ]

    def test_a_record_that_is_there_is_skipped(self, root, staging):
        sink = BatchConsumeQueueSink(root, staging, self.SIZE)

        assert self.append(sink, 100, 200, 100, 200, 300) == [True, True, False, False, True]
        sink.close()

    @pytest.mark.parametrize("count", range(1, 8))
    def test_it_goes_on_after_a_close(self, root, staging, count):
        sink = BatchConsumeQueueSink(root, staging, self.SIZE)
        self.append(sink, *range(0, 100 * count, 100))
        sink.close()
        sink = BatchConsumeQueueSink(root, staging, self.SIZE)
        self.append(sink, *range(0, 800, 100))
        sink.close()

        whole = [unit_of(p, 100, 7, 9, p // 100, None).pack() for p in range(0, 800, 100)]
        assert self.units(root) == [*whole, bytes(46)]
