"""Blocks by several threads: the same records as one scan over the whole, in log order."""

from __future__ import annotations

import weakref

import pytest

from reput.formats.errors import FormatError, ReputError
from reput.formats.kernels import scan
from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.sinks.files.queues import QueueDirectory
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.streaming.dispatch.blocks.pipeline import Pipeline
from tests.builders.stores import LOG_FILE, Log, Messages, config_of, fill

SIZES = [(1024, 1), (1500, 3), (4096, 2), (1 << 20, 4)]


class Parsed:
    """All that a pipeline says of a range."""

    def __init__(self, log: Log, tmp_path, block_size: int, threads: int, **conf) -> None:
        config = config_of(
            log.write(tmp_path, ahead=1),
            tmp_path.with_name(f"{tmp_path.name}-none"),
            mappedFileSizeCommitLog=str(log.file_size),
            **conf,
        )
        self.settings = config.settings
        directories = commitlog_directories(config.path, self.settings)
        self.queues = QueueDirectory(lambda topic: False)
        self.pipeline = Pipeline(
            CommitLog(directories, self.settings), self.queues, self.settings, threads, block_size
        )
        self.rows: list[tuple] = []
        self.reached: list[int] = []

    def run(self, start: int, end: int):
        """Take all blocks; return the error that ended them."""
        try:
            for block in self.pipeline.blocks(start, end):
                self.take(block)
        except ReputError as error:
            return error
        finally:
            self.pipeline.close()
        return None

    def take(self, block) -> None:
        columns, first = block.columns, 0
        for i in range(block.count):
            last = int(columns.key_end[i])
            name = self.queues.names[int(columns.queue[i])]
            self.rows.append(
                (
                    *name,
                    int(columns.physical_offset[i]),
                    int(columns.size[i]),
                    int(columns.queue_offset[i]),
                    int(columns.tags_code[i]),
                    int(columns.store_timestamp[i]),
                    int(columns.sys_flag[i]),
                    columns.key_hash[first:last].tolist(),
                )
            )
            first = last
        self.reached.append(block.reached)


def expected(log: Log, settings, start: int = 0, end: int = 1 << 62) -> list[tuple]:
    """Return the rows of the slow twin."""
    tags = settings.version.indexes_tags
    return [
        (r.topic, r.queue_id, *scan.describe(r, settings.delays, tag_entries=tags))
        for r in log.records()
        if start <= r.physical_offset < end
    ]


@pytest.mark.parametrize(("block_size", "threads"), SIZES)
class TestBlocks:
    @pytest.mark.parametrize("seed", range(4))
    def test_give_all_records_in_order(self, tmp_path, block_size, threads, seed):
        log = fill(Log(), seed, 120)
        parsed = Parsed(log, tmp_path, block_size, threads)

        assert parsed.run(0, log.end) is None
        assert parsed.rows == expected(log, parsed.settings)
        assert parsed.reached == sorted(parsed.reached)

    def test_of_any_range_give_those_that_start_in_it(self, tmp_path, block_size, threads):
        log = fill(Log(), 5, 80)
        for start in log.boundaries[::7]:
            for end in (start, start + 1, start + 700, (start + log.end) // 2, log.end):
                end = min(end, log.end)
                parsed = Parsed(log, tmp_path, block_size, threads)
                assert parsed.run(start, end) is None
                assert parsed.rows == expected(log, parsed.settings, start, end)

    @pytest.mark.parametrize("claim", [0, 300])
    def test_begin_at_true_records_though_some_are_forged(
        self, tmp_path, block_size, threads, claim
    ):
        """
        A block that had begun in a body is parsed again from where the one before it ended.
        """
        log = Log(1 << 15)
        for number in range(40):
            inner = Message(f"forged{number}", body=bytes(number), properties={"TAGS": "no"})
            log.append_forged("true", inner, pad=number * 13 % 600, claim=claim, tail=number)
            fill(log, number, 1)
        parsed = Parsed(log, tmp_path, block_size, threads)

        assert parsed.run(0, log.end) is None
        assert parsed.rows == expected(log, parsed.settings)
        assert all(not row[0].startswith("forged") for row in parsed.rows)

    def test_hold_records_larger_than_a_block_and_than_what_is_read_after_it(
        self, tmp_path, block_size, threads
    ):
        log = Log(1 << 20)
        for size in (10, 3000, 70_000, 5, 300_000, 66_000):
            log.append(Message("t", body=bytes(size), properties={"KEYS": "k"}))
        parsed = Parsed(log, tmp_path, block_size, threads)

        assert parsed.run(0, log.end) is None
        assert parsed.rows == expected(log, parsed.settings)

    def test_hold_records_beyond_a_limit_that_was_lowered_since(
        self, tmp_path, block_size, threads
    ):
        """
        maxMessageSize says what a broker takes, not what its log holds.
        """
        log = Log(1 << 21)
        for size in (10, 900_000, 700_000, 20, 150_000, 30):
            log.append(Message("t", body=bytes(size)))
        parsed = Parsed(log, tmp_path, block_size, threads, maxMessageSize="1024")

        assert parsed.run(0, log.end) is None
        assert parsed.rows == expected(log, parsed.settings)

    def test_with_more_keys_than_columns_are_handed_over_in_parts(
        self, tmp_path, block_size, threads
    ):
        log = Log(1 << 19)
        for _ in range(12):
            log.append(Message("t", properties={"KEYS": "k " * 15_000}))
        parsed = Parsed(log, tmp_path, block_size, threads)

        assert parsed.run(0, log.end) is None
        assert parsed.rows == expected(log, parsed.settings)

    @pytest.mark.parametrize("number", [0, 1, 20, 44])
    def test_end_at_a_corrupt_record_with_all_before_it(
        self, tmp_path, block_size, threads, number
    ):
        log = fill(Log(), 9, 45)
        bad = log.places[number].position
        parsed = Parsed(log, tmp_path, block_size, threads)
        path = tmp_path / "commitlog" / names.offset_file(bad - bad % LOG_FILE)
        raw = bytearray(path.read_bytes())
        raw[bad % LOG_FILE + 4] ^= 1
        path.write_bytes(raw)

        error = parsed.run(0, log.end)
        assert isinstance(error, FormatError)
        assert (error.path, error.position) == (str(path), bad % LOG_FILE)
        assert parsed.rows == expected(log, parsed.settings, 0, bad)

    def test_end_at_a_record_whose_delay_is_no_number(self, tmp_path, block_size, threads):
        log = fill(Log(), 9, 10)
        bad = log.append(Message("SCHEDULE_TOPIC_XXXX", properties={"DELAY": "soon"}))
        fill(log, 10, 10)
        parsed = Parsed(log, tmp_path, block_size, threads)

        error = parsed.run(0, log.end)
        assert isinstance(error, FormatError)
        assert error.position == bad.position % LOG_FILE
        assert parsed.rows == expected(log, parsed.settings, 0, bad.position)

    def test_can_be_abandoned(self, tmp_path, block_size, threads):
        """
        A full disk ends the loop over them; the threads must end too.
        """
        log = fill(Log(), 3, 120)
        parsed = Parsed(log, tmp_path, block_size, threads)
        blocks = parsed.pipeline.blocks(0, log.end)
        next(blocks)
        blocks.close()

        assert parsed.run(0, log.end) is None
        assert parsed.rows == expected(log, parsed.settings)


def test_blocks_of_a_backlog_are_not_kept_after_it(tmp_path):
    """
    A job that has caught up lives for weeks; a backlog's blocks are megabytes each.
    """
    log = Log(1 << 20)
    for _ in range(20):
        log.append(Message("t", body=bytes(20_000)))
    caught_up = log.end
    fill(log, 1, 3)
    parsed = Parsed(log, tmp_path, 1 << 16, 2)
    large = {weakref.ref(block) for block in parsed.pipeline.blocks(0, caught_up)}
    kept = sum(each() is not None for each in large)
    assert parsed.run(caught_up, log.end) is None

    assert kept > 0
    assert [each for each in large if each() is not None] == []
    assert parsed.rows == expected(log, parsed.settings, caught_up)


def test_a_queue_that_cannot_be_is_an_error_only_if_its_record_is_one(tmp_path):
    """
    A forged record may name any topic.
    """
    log = Log(1 << 14)
    for number in range(20):
        log.append_forged("true", Message("../x", body=bytes(20)), pad=number * 31, tail=200)
    parsed = Parsed(log, tmp_path, 1024, 2)

    assert parsed.run(0, log.end) is None
    assert parsed.queues.names[0].topic == "true"


def test_records_at_a_place_are_read_the_slow_way(tmp_path):
    log = fill(Log(), 3, 20)
    parsed = Parsed(log, tmp_path, 4096, 1)

    for record in log.records():
        assert parsed.pipeline.record_at(record.physical_offset, record.size) == record
    with pytest.raises(FormatError):
        parsed.pipeline.record_at(log.places[1].position + 1, 100)


def test_messages_cover_what_they_are_said_to(tmp_path):
    """
    The random logs of these tests hold every kind of record.
    """
    maker = Messages(1, multi=True, batches=True)
    made = [maker.next() for _ in range(300)]

    assert {m.sys_flag for m in made} == {0, 4, 8, 12}
    assert {"batches", "SCHEDULE_TOPIC_XXXX", "订单", "t" * 130} <= {m.topic for m in made}
    assert any(m.born_host == "::1" for m in made)
    assert any("INNER_MULTI_DISPATCH" in m.properties for m in made)
    assert any("INNER_NUM" in m.properties for m in made)
