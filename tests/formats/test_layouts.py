"""The checkpoint file, derived offsets, and what an error says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reput.formats.errors import FormatError, StoreError
from reput.formats.kernels.indexfile import State
from reput.formats.layout import field_offsets
from reput.formats.rocketmq import (
    batchconsumequeue,
    broker,
    checkpoint,
    commitlog,
    consumequeue,
    indexfile,
)
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.formats.rocketmq.encode import Message, encode


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

    @pytest.mark.parametrize("born", ["127.0.0.1", "::1"])
    @pytest.mark.parametrize("stored", ["127.0.0.1", "::1"])
    def test_places_are_those_of_a_written_record(self, born, stored):
        """
        For each pair of widths; a walk over heads finds the store timestamp by either of two.
        """
        message = Message(
            "t",
            b"body",
            born_host=born,
            store_host=stored,
            store_timestamp=0x1122334455667788,
            reconsume_times=7,
        )
        raw = encode(message, 0)
        (flags,) = commitlog.head_of("sys_flag").unpack_from(raw)
        places = commitlog.PLACES[flags & commitlog.WIDE_HOSTS]
        after = {"127.0.0.1": "stored_v4", "::1": "stored_v6"}[born]

        assert raw[places.store_timestamp : places.store_host].hex() == "1122334455667788"
        assert places.reconsume_times - places.store_host == (8 if stored == "127.0.0.1" else 20)
        assert raw[places.reconsume_times :][:4] == bytes([0, 0, 0, 7])
        assert raw[places.body : places.body + 4] == b"body"
        assert commitlog.head_of(after).unpack_from(raw) == (0x1122334455667788,)

    @pytest.mark.parametrize(
        ("unit", "fields"),
        [
            (consumequeue.Entry, consumequeue.FIELDS),
            (batchconsumequeue.Unit, batchconsumequeue.FIELDS),
            (indexfile.Header, indexfile.HEADER_FIELDS),
            (indexfile.Item, indexfile.ITEM_FIELDS),
        ],
    )
    def test_a_named_tuple_has_the_layouts_fields_in_its_order(self, unit, fields):
        assert unit._fields == tuple(name for name, _ in fields)

    def test_kernels_know_the_index_header_by_its_fields(self):
        """
        Kernels freeze these places as constants: each has to be a plain int.
        """
        fields = [name.upper() for name, _ in indexfile.HEADER_FIELDS]
        places = [getattr(State, name, State.COUNT) for name in fields]

        assert places == list(range(State.FIELDS))
        assert {type(place) for place in places} == {int}
        assert indexfile.HEADER_OFFSETS == (0, 8, 16, 24, 32, 36)

    @pytest.mark.parametrize(
        ("module", "name"),
        [
            (commitlog, "HEADER"),
            (consumequeue, "ENTRY"),
            (batchconsumequeue, "UNIT"),
            (indexfile, "ITEM"),
        ],
    )
    def test_a_dtype_is_made_at_its_first_use(self, module, name):
        """
        Readers of single records never import numpy.
        """
        made = getattr(module, name)

        assert made.itemsize == sum(made[field].itemsize for field in made.names)
        assert getattr(module, name) is made is vars(module)[name]
        with pytest.raises(AttributeError, match=f"{module.__name__}.*no attribute 'NOTHING'"):
            _ = module.NOTHING

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
