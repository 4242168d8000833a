"""Finding by key: through chains that collide, back to the record itself."""

from __future__ import annotations

import pytest

from formats.encode import Message
from stores.commitlog import CommitLog, commitlog_directories
from stores.lookup import MAX_HITS, find_by_key, read_record
from streaming.dispatcher import StoreDispatcher
from tests.streaming.stores_for_tests import Log, config_of, fill


@pytest.fixture
def built(tmp_path):
    """Return a function that dispatches a log and opens it for looking up."""

    def build(log: Log, **conf):
        config = config_of(log.write(tmp_path / "store"), tmp_path / "out", **conf)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.end)
        dispatcher.close()
        return config.output, CommitLog(
            commitlog_directories(config.path, config.settings), config.settings
        )

    return build


class TestFindByKey:
    def test_every_key_of_a_random_log_is_found_newest_first(self, built):
        """
        13 slots and 11 items a file: every chain collides, every key lies in some rolled file.
        """
        log = fill(Log(), 3, 60)
        output, found = built(log)
        expected: dict[tuple[str, str], list[int]] = {}
        for record in log.records():
            if record.sys_flag & 12 == 12:
                continue
            keys = [k for k in record.properties.get("KEYS", "").split(" ") if k]
            for key in {*keys, record.properties.get("UNIQ_KEY", "")} - {""}:
                expected.setdefault((record.topic, key), []).insert(0, record.physical_offset)

        assert len(expected) > 20
        for (topic, key), places in expected.items():
            hits = [r.physical_offset for r in find_by_key(output, found, topic, key)]
            assert list(dict.fromkeys(hits)) == places

    def test_what_only_shares_a_hash_is_left_out(self, built):
        """
        "Aa" and "BB" have one hash; a lookup compares the keys.
        """
        log = Log()
        for key in ("Aa", "BB"):
            log.append(Message("t", properties={"KEYS": key}))
        output, found = built(log)

        assert [r.physical_offset for r in find_by_key(output, found, "t", "BB")] == [
            log.places[1].position
        ]
        assert find_by_key(output, found, "u", "BB") == []
        assert find_by_key(output, found, "t", "CC") == []

    def test_no_more_than_a_broker_gives(self, built):
        log = Log(1 << 14)
        for _ in range(MAX_HITS + 20):
            log.append(Message("t", properties={"KEYS": "k"}))
        output, found = built(log, mappedFileSizeCommitLog=str(1 << 14))

        assert len(find_by_key(output, found, "t", "k")) == MAX_HITS

    def test_without_an_index_there_is_nothing(self, built, tmp_path):
        _, found = built(fill(Log(), 1, 3))

        assert find_by_key(tmp_path / "none", found, "t", "k") == []


class TestReadRecord:
    def test_at_every_place_what_is_there_or_none(self, built):
        log = fill(Log(), 4, 20)
        _, found = built(log)
        records = {r.physical_offset: r for r in log.records()}

        for position in range(-1, log.end + 200):
            assert read_record(found, position) == records.get(position)
