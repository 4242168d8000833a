"""The checkpoint file, derived offsets, and what an error says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reput.formats.errors import FormatError, StoreError
from reput.formats.layout import field_offsets
from reput.formats.rocketmq import broker, checkpoint, commitlog
from reput.formats.rocketmq.checkpoint import StoreCheckpoint


class TestCheckpoint:
    VALUES = StoreCheckpoint(1, 0x0102030405060708, 3, 4, 5, 6)

    def test_bytes_are_as_documented(self):
        raw = bytes.fromhex(
            "0000000000000001 0102030405060708 0000000000000003"
            "0000000000000004 0000000000000005 0000000000000006"
        )

        assert self.VALUES.pack(6) == raw + bytes(4096 - 48)
        assert checkpoint.unpack(self.VALUES.pack(6)) == self.VALUES

    @pytest.mark.parametrize(
        ("version", "fields"), [("4.9", 3), ("5.3", 5), ("5.4", 5), ("5.5", 6)]
    )
    def test_a_version_writes_only_what_it_knows(self, version, fields):
        raw = self.VALUES.pack(fields)

        assert broker.version_of(version).checkpoint_fields == fields
        assert len(raw) == 4096
        assert raw[: 8 * fields] == self.VALUES.pack(6)[: 8 * fields]
        assert not any(raw[8 * fields :])

    def test_too_few_bytes(self):
        with pytest.raises(ValueError, match="47 bytes"):
            checkpoint.unpack(bytes(47))


class TestLayout:
    def test_offsets_are_where_the_tables_put_them(self):
        assert field_offsets(commitlog.HEADER) == (0, 4, 8, 12, 16, 20, 28, 36, 40)

    def test_a_head_is_some_of_the_fields_in_their_order(self):
        record = commitlog.HEADER.names
        raw = commitlog.struct_of(commitlog.FIELDS).pack(*range(len(record)))

        for wanted in (("size",), ("magic", "physical_offset"), ("queue_id", "born_timestamp")):
            expected = tuple(record.index(name) for name in wanted)
            assert commitlog.head_of(*wanted).unpack_from(raw) == expected
        assert commitlog.head_of("size", "physical_offset").size == 36

    def test_a_type_without_fields_has_none(self):
        with pytest.raises(TypeError, match="no fields"):
            field_offsets(np.dtype(np.int64))


class TestErrors:
    def test_a_broken_file_is_named_with_its_byte_and_the_way_out(self):
        error = FormatError(Path("/s/commitlog/0"), 77, "no record", "Restore it.")

        assert str(error) == "/s/commitlog/0 at byte 77: no record. Restore it."
        assert (error.path, error.position) == ("/s/commitlog/0", 77)

    def test_a_store_that_cannot_be_used_says_what_to_do(self):
        assert str(StoreError("/s", "gone", "Give another")) == "/s: gone. Give another"
