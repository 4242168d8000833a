"""Kafka records, encoded by kernels: compared with kafka-python's own builder and readers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from reput.formats.java import strings
from reput.formats.kafka import records as kafkarecords
from reput.formats.kafka.headers import NUMBERS, header
from reput.formats.kafka.records import KEYS_KEY, NO_KEY, UNIQ_KEY_KEY, Encoded, RoutePieces
from reput.formats.rows.columns import RowColumns, read_rows
from reput.formats.rows.texts import Slices
from tests.builders import logs as builders

PAD = 128
TEXTS = st.text(st.characters(codec="ascii", exclude_characters="\x00\x01\x02"), max_size=20)
NAMES = st.text(st.characters(codec="ascii", categories=("L",)), min_size=1, max_size=9)
MESSAGES = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=90) | st.integers(8000, 9100).map(bytes),
        "properties": st.dictionaries(
            NAMES | st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "rmq.topic", "rmq.", "rmq"]),
            TEXTS.filter(bool),
            max_size=4,
        ),
        "queue_offset": st.integers(0, (1 << 63) - 2),
        "store_timestamp": st.integers(1, 1 << 44),
        "born_timestamp": st.integers(-(1 << 63), (1 << 63) - 1),
        "reconsume_times": st.integers(-(1 << 31), (1 << 31) - 1),
    }
)


def columns_of(messages: list[dict[str, Any]]) -> tuple[np.ndarray, RowColumns]:
    """Return the columns of records with these fields, read by the kernel for that."""
    raw, position = b"", 0
    for fields in messages:
        raw += builders.record(position, topic="orders", **fields)
        position = len(raw)
    data = np.frombuffer(bytes(PAD) + raw + bytes(PAD), np.uint8).copy()
    columns = RowColumns.of(len(messages), 100 * len(messages) + 100)
    verdict, _, count = read_rows(
        data, PAD, PAD + len(raw), PAD + len(raw), -PAD, 1 << 40, 0, columns
    )
    assert (verdict, count) == (0, len(messages))
    return data, columns


def pieces_of(headers: bytes, count: int, key: bytes = b"", head: bytes = b"") -> RoutePieces:
    """Return the pieces of a single route."""

    def at(start: int, piece: bytes) -> Slices:
        return Slices(np.array([start], np.int64), np.array([len(piece)], np.int32))

    data = np.frombuffer(headers + key + head + b"\0", np.uint8).copy()
    return RoutePieces(
        at(0, headers), count, at(len(headers), key), at(len(headers) + len(key), head), data
    )


def expected(records: list[tuple[int, bytes | None, bytes, list[tuple[str, bytes]]]]) -> bytes:
    """Return what kafka-python makes of records."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    for number, (timestamp, key, value, headers) in enumerate(records):
        builder.append(number, timestamp, key, value, headers)
    return bytes(builder.build()[61:])


def numbers(fields: dict[str, Any], position: int) -> list[tuple[str, bytes]]:
    values = (
        fields["queue_offset"], position, fields["store_timestamp"], fields["born_timestamp"],
        0, fields["reconsume_times"],
    )  # fmt: skip
    return [(n, str(v).encode()) for n, v in zip(NUMBERS, values, strict=True)]


class TestMessages:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(MESSAGES, min_size=1, max_size=4), st.sampled_from([0, 1, 2]), st.booleans())
    def test_they_are_what_kafka_python_encodes(self, messages, key, properties):
        """
        A reader of Kafka cannot tell these from records of a client that makes them one by one.
        """
        data, columns = columns_of(messages)
        pieces = pieces_of(header("rmq.topic", "orders"), 1)
        out = np.zeros(1 << 20, np.uint8)
        rows = np.arange(len(messages), dtype=np.int64)
        routes = np.zeros(len(messages), np.int32)

        encoded = Encoded(
            *kafkarecords.encode_messages(
                data, columns, rows, 0, 1000, routes, pieces, key, True, properties, out
            )
        )

        wanted = []
        for row, fields in enumerate(messages):
            name = {KEYS_KEY: "KEYS", UNIQ_KEY_KEY: "UNIQ_KEY", NO_KEY: ""}[key]
            text = fields["properties"].get(name)
            headers = [
                ("rmq.topic", b"orders"),
                *numbers(fields, int(columns.physical_offset[row])),
            ]
            if properties:
                headers += [
                    (f"property.{k}" if k.startswith("rmq.") else k, v.encode())
                    for k, v in fields["properties"].items()
                ]
            key_bytes = text.encode() if text else None
            wanted.append((fields["store_timestamp"], key_bytes, fields["body"], headers))
        stamps = [fields["store_timestamp"] for fields in messages]
        assert out[: encoded.length].tobytes() == expected(wanted)
        assert encoded[2:] == (len(messages), stamps[0], max(stamps))

    def test_what_does_not_fit_is_left_for_the_next_batch(self):
        """
        A batch ends before the record that would make it too large; the next begins with that.
        """
        one = {"body": b"x" * 500}
        data, columns = columns_of([one] * 10)
        pieces = pieces_of(b"", 0)
        rows, routes = np.arange(10, dtype=np.int64), np.zeros(10, np.int32)
        out = np.zeros(3000, np.uint8)
        found, first = [], 0
        while first < 10:
            encoded = Encoded(
                *kafkarecords.encode_messages(
                    data, columns, rows, first, 1000, routes, pieces, 0, False, False, out
                )
            )
            assert 0 < encoded.length <= 3000
            found.append(encoded.records)
            first = encoded.following

        assert sum(found) == 10
        assert max(found) > 1

    def test_a_record_that_is_larger_than_the_room_says_how_much_it_needs(self):
        data, columns = columns_of([{"body": b"x" * 500}])
        rows, routes = np.zeros(1, np.int64), np.zeros(1, np.int32)

        def encode(room: int) -> Encoded:
            out = np.zeros(room, np.uint8)
            return Encoded(
                *kafkarecords.encode_messages(
                    data, columns, rows, 0, 9, routes, pieces_of(b"", 0), 0, True, True, out
                )
            )

        needed = -encode(100).length
        assert needed > 500
        assert encode(needed).records == 1


class TestNotices:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(MESSAGES, min_size=1, max_size=4))
    def test_they_say_what_a_listener_of_the_broker_hears(self, messages):
        """
        The queue offset is that of the next message; the tags code is Java's hash of the tag.
        """
        data, columns = columns_of(messages)
        head = b'{"topic":"orders","queueId":0,"queueOffset":'
        out = np.zeros(1 << 20, np.uint8)
        encoded = Encoded(
            *kafkarecords.encode_notices(
                data, columns, np.arange(len(messages), dtype=np.int64), 0, 1000,
                np.zeros(len(messages), np.int32), pieces_of(b"", 0, b"orders@0", head), out,
            )
        )  # fmt: skip

        wanted = []
        for fields in messages:
            value = {
                "topic": "orders",
                "queueId": 0,
                "queueOffset": fields["queue_offset"] + 1,
                "tagsCode": strings.hash_code(fields["properties"].get("TAGS", "")),
                "storeTimestamp": fields["store_timestamp"],
            }
            text = json.dumps(value, separators=(",", ":")).encode()
            wanted.append((fields["store_timestamp"], b"orders@0", text, []))
        assert out[: encoded.length].tobytes() == expected(wanted)
