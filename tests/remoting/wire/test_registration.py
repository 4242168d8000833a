"""What brokers tell of their topics, in each form, whole and damaged."""

from __future__ import annotations

import json
import struct
import zlib

import pytest

from reput.remoting.wire import registration
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.errors import FieldError
from reput.remoting.wire.registration import DataVersion, Registration, TopicConfig
from tests.remoting.wire.captured import captured

TOLD = Registration(
    DataVersion(3, 1_700_000_000_000, 2),
    (TopicConfig("T", 4, 8, 6), TopicConfig("%RETRY%g", 1, 1, 6), TopicConfig("Ü", 2, 2, 4)),
)


def piece(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">i", len(raw)) + raw


def compressed(told: Registration, *, is_5: bool) -> bytes:
    """Return a body as `RegisterBrokerBody#encode(true)` writes it."""
    more = " {}" if is_5 else ""
    plain = piece(json.dumps(told.version.said(has_state=is_5)))
    plain += struct.pack(">i", len(told.topics))
    for name, reads, writes, perm, _ in told.topics:
        plain += piece(f"{name} {reads} {writes} {perm} SINGLE_TAG{more}")
    plain += piece("[]") + (struct.pack(">i", 0) if is_5 else b"")
    return zlib.compress(plain, 9)


@pytest.mark.parametrize("name", ["clients-4.9.8", "clients-5.5.0", "tools-4.9.7", "tools-5.5.0"])
def test_what_real_brokers_sent_is_read_and_written_again(name):
    found = [each for each in captured(name) if each.header["code"] == RequestCode.REGISTER_BROKER]
    assert found
    for frame in found:
        told = registration.read(frame.body, is_compressed=False)
        crc = frame.header["extFields"]["bodyCrc32"]

        assert registration.crc_of(frame.body) == int(crc)
        assert TopicConfig("TBW102", 2, 2, 7) in told.topics
        is_5 = frame.header["version"] > 409
        again = json.loads(registration.write(told, is_5=is_5))
        sent = json.loads(frame.body)
        # No other release counts when it last changed static topics, which we have none of.
        for each in (again, sent):
            each["topicConfigSerializeWrapper"].pop("mappingDataVersion", None)
        assert again == sent


@pytest.mark.parametrize("is_5", [False, True])
def test_both_forms_say_the_same(is_5):
    expected = TOLD if is_5 else TOLD._replace(version=TOLD.version._replace(state_version=0))

    plain = registration.write(TOLD, is_5=is_5)
    assert registration.read(plain, is_compressed=False) == expected
    assert registration.read(compressed(TOLD, is_5=is_5), is_compressed=True) == expected


def test_an_empty_body_tells_of_no_topics():
    nothing = Registration(DataVersion(), ())
    assert registration.read(b"", is_compressed=False) == nothing
    assert registration.read(b"", is_compressed=True) == nothing


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"{}",
        b"1",
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":1}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"6"}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":1e3}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":1' + bytes(b"0" * 30)
        + b"}}}}",
    ],
)  # fmt: skip
def test_a_body_that_is_something_else_is_refused(body):
    with pytest.raises(FieldError, match="Failed to decode"):
        registration.read(body, is_compressed=False)


class TestCompressed:
    def test_every_cut_is_refused(self):
        whole = compressed(TOLD, is_5=True)
        for end in range(1, len(whole)):
            with pytest.raises(FieldError, match="Failed to decode"):
                registration.read(whole[:end], is_compressed=True)

    @pytest.mark.parametrize(
        "plain",
        [
            b"",
            piece("{}"),
            piece("{}") + struct.pack(">i", 1),
            piece("{}") + struct.pack(">ii", 1, 5) + b"T 1",
            piece("{}") + struct.pack(">ii", 1, -1),
            piece("{}") + struct.pack(">i", 1) + piece("T 1 1 6"),
            piece("{}") + struct.pack(">i", 1) + piece("T 1 x 6 SINGLE_TAG"),
            piece("{}") + struct.pack(">i", -1),
            piece("{}") + struct.pack(">i", registration.MOST_TOPICS + 1),
            piece("7") + struct.pack(">i", 0),
        ],
    )
    def test_what_stands_in_it_has_to_be_whole(self, plain):
        with pytest.raises(FieldError, match="Failed to decode"):
            registration.read(zlib.compress(plain), is_compressed=True)

    def test_a_bomb_takes_no_memory(self):
        bomb = zlib.compress(bytes(registration.MOST_INFLATED + 1), 9)
        assert len(bomb) < 20_000
        with pytest.raises(FieldError, match="does not end within"):
            registration.read(bomb, is_compressed=True)


def test_versions_of_both_releases_are_read():
    assert registration.read_version(b'{"counter":1,"timestamp":2}') == DataVersion(1, 2)
    said = b'{"counter":1,"stateVersion":3,"timestamp":2}'
    assert registration.read_version(said) == DataVersion(1, 2, 3)
    for wrong in (b"", b"7", b'{"counter":"x"}'):
        with pytest.raises(FieldError):
            registration.read_version(wrong)
