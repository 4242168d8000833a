"""Rows: what Spark is given is what the readable reader finds in the log."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.errors import FormatError, ReputError
from reput.formats.rocketmq import commitlog
from reput.formats.rocketmq.commitlog import Record, Verdict
from reput.formats.rows import columns
from reput.streaming.source import rows as reading
from reput.streaming.source.options import parse
from tests.builders.hypotheses import examples
from tests.builders.logs import FILE_SIZE, STORED_AT, overwrite, place, record, write_store
from tests.formats.rows.test_columns import FIELDS

GOLDEN = [
    ("5.5.0", "basic"),
    ("5.5.0", "flags"),
    ("5.5.0", "longtopic"),
    ("5.5.0", "propcrc"),
    ("5.3.3", "batch"),
    ("4.9.8", "trans"),
    ("4.9.8", "minoffset"),
]


def store_of(path, version="5.5", **broker):
    broker = broker or {"mappedFileSizeCommitLog": str(FILE_SIZE)}
    options = {f"broker.{name}": value for name, value in broker.items()}
    return parse({"path": str(path), "brokerVersion": version, **options}).stores[0]


def read(store, start=0, end=None, *, fail_on_data_loss=True):
    """Return the rows of a range as Python values, each batch checked by Arrow."""
    found = []
    for batch in reading.read_batches(store, start, end, fail_on_data_loss=fail_on_data_loss):
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


def twin(name, raw, position, file_end):
    """Return the row of a record, made from the slow reader's, and its end."""
    verdict, found = commitlog.read(raw, 0, position, file_end)
    assert verdict == Verdict.RECORD
    assert isinstance(found, Record)
    row = columns.describe(found, raw[: found.size])
    return {
        "brokerName": name,
        "topic": found.topic,
        "queueId": found.queue_id,
        "queueOffset": found.queue_offset,
        "physicalOffset": found.physical_offset,
        "size": found.size,
        "tags": row.tags,
        "keys": row.keys,
        "uniqKey": row.uniq_key,
        "properties": list(found.properties.items()),
        "body": found.body,
        "flag": found.flag,
        "sysFlag": found.sys_flag,
        "bodyCrc": row.body_crc,
        "bornTimestamp": moment(found.born_timestamp),
        "storeTimestamp": moment(found.store_timestamp),
        "bornHost": found.born_host,
        "storeHost": found.store_host,
        "reconsumeTimes": found.reconsume_times,
        "preparedTransactionOffset": found.prepared_transaction_offset,
        "msgId": row.message_id,
        "offsetMsgId": row.offset_message_id,
    }


def moment(milliseconds):
    try:
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def log_of(path):
    """Return the bytes of each file, by the physical offset where it begins."""
    return {int(p.name): p.read_bytes() for p in sorted((path / "commitlog").iterdir())}


@pytest.mark.parametrize(("version", "scenario"), GOLDEN)
def test_golden_rows_are_those_of_the_readable_reader(golden, version, scenario):
    store = golden(version, scenario)
    expected = []
    for base, raw in log_of(store.path).items():
        at = 0
        while True:
            verdict, size = commitlog.read(raw, at, base + at, base + len(raw))
            if verdict != Verdict.RECORD:
                break
            expected.append(twin(scenario, raw[at:], base + at, base + len(raw)))
            at += size.size
    end = expected[-1]["physicalOffset"] + expected[-1]["size"]

    settings = {**store.conf, "mappedFileSizeCommitLog": str(len(raw))}
    assert read(store_of(store.path, version, **settings), min(log_of(store.path)), end) == expected


@examples(60)
@given(st.lists(FIELDS, min_size=1, max_size=8))
def test_any_rows_are_those_of_the_readable_reader(tmp_path_factory, fields):
    """
    Malformed texts, absurd timestamps, IPv6 hosts, duplicate properties: side by side in a batch.
    """
    path = tmp_path_factory.mktemp("store")
    placed = write_store(path, fields)
    expected = [
        twin(path.name, p.raw, p.position, p.position - p.position % FILE_SIZE + FILE_SIZE)
        for p in placed
    ]

    assert read(store_of(path), 0, placed[-1].end) == expected


def test_what_is_absent_is_null(tmp_path):
    write_store(tmp_path, [{"properties": {"TAGS": "", "other": "x"}}])

    (row,) = read(store_of(tmp_path), 0, 1)
    assert (row["tags"], row["keys"], row["uniqKey"]) == (None, None, None)
    assert row["msgId"] == row["offsetMsgId"] == "0A00000100002A9F" + "0" * 16


def test_timestamps_keep_their_milliseconds_and_are_null_beyond_sparks_years(tmp_path):
    born = [STORED_AT + 123, 253_402_300_799_999, 253_402_300_800_000, -(2**63)]
    placed = write_store(tmp_path, [{"born_timestamp": value} for value in born])

    found = [row["bornTimestamp"] for row in read(store_of(tmp_path), 0, placed[-1].end)]
    assert found == [moment(born[0]), moment(born[1]), None, None]
    assert found[0].microsecond == 123_000


class TestRanges:
    """A range is the records that start in it, whatever its ends hit."""

    @pytest.mark.parametrize("base", [0, 3 * FILE_SIZE])
    def test_any_cut_loses_and_repeats_nothing(self, tmp_path, base):
        """
        Bodies hold records forged for the very place where they stand, longer ones and BLANKs too.
        """
        placed = write_store(tmp_path, forged_records(base), base=base)
        expected = [p.position for p in placed]
        store = store_of(tmp_path)
        end = placed[-1].end

        assert len({p.position // FILE_SIZE for p in placed}) > 2
        # Every cut would take a minute; 29 divides no record's size, so all kinds of place come up.
        for cut in range(base, end + 1, 29):
            before, behind = read(store, base, cut), read(store, cut, end)
            assert [row["physicalOffset"] for row in before + behind] == expected, cut

    def test_batches_are_small(self, tmp_path, monkeypatch):
        monkeypatch.setattr(reading, "BLOCK_BYTES", 1000)
        monkeypatch.setattr(reading, "ROWS", 3)
        fields = [{"body": bytes([i]) * (3000 if i == 7 else i)} for i in range(20)]
        placed = write_store(tmp_path, fields)

        batches = list(
            reading.read_batches(store_of(tmp_path), 0, placed[-1].end, fail_on_data_loss=True)
        )
        assert [body for b in batches for body in b["body"].to_pylist()] == [
            f["body"] for f in fields
        ]
        assert max(len(batch) for batch in batches) == 3

    def test_corrupt_record_is_named_after_the_good_ones(self, tmp_path):
        placed = write_store(tmp_path, [{"body": b"x" * 50}] * 30)
        bad = placed[20]
        overwrite(tmp_path, bad.position + 90, b"!")
        batches = reading.read_batches(
            store_of(tmp_path), 0, placed[-1].end, fail_on_data_loss=True
        )

        assert sum(len(batch) for batch in [next(batches)]) > 0
        with pytest.raises(FormatError, match=rf"/0+ at byte {bad.position}: .* CRC"):
            list(batches)

    def test_expired_range_is_an_error_or_skipped(self, tmp_path, caplog):
        placed = write_store(tmp_path, [{"body": b"x" * 900}] * 12)
        (tmp_path / "commitlog" / f"{0:020d}").unlink()
        store = store_of(tmp_path)

        with pytest.raises(ReputError, match=r"store .*: physical offsets 0 to 4096 have expired"):
            read(store, 0, placed[-1].end)
        found = read(store, 0, placed[-1].end, fail_on_data_loss=False)
        assert [r["physicalOffset"] for r in found] == [
            p.position for p in placed if p.position >= FILE_SIZE
        ]
        assert "physical offsets 0 to 4096 have expired and are skipped" in caplog.text


def forged_records(base):
    """Return messages whose bodies hold records, valid for the place where they stand."""
    fields = []
    for i in range(36):
        # Twice: the first placing tells where the body begins.
        fields.append({"body": bytes(200), "properties": {"KEYS": str(i)}})
        position = place(fields, base=base)[-1].position + 88
        forged = record(position + 10, body=b"f" * (i * 20 % 200))
        body = bytes(10) + forged[: 150 + i]
        if i % 5 == 0:
            left = FILE_SIZE - (position + 10) % FILE_SIZE
            body = bytes(10) + left.to_bytes(4, "big") + bytes.fromhex("cbd43194")
        fields[-1]["body"] = body.ljust(200, b"\1")
    return fields
