"""Frames of both codecs: real ones, any ones, and damaged ones."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.remoting.wire import frames
from reput.remoting.wire.codes import LanguageCode, SerializeType
from reput.remoting.wire.command import ONEWAY, RESPONSE, Command
from reput.remoting.wire.errors import FrameError
from tests.remoting.wire import twins
from tests.remoting.wire.captured import NAMES, captured

INT = st.integers(-(1 << 31), (1 << 31) - 1)
SHORT = st.integers(-(1 << 15), (1 << 15) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
FILLED = TEXT.filter(bool)
COMMANDS = st.builds(
    Command,
    SHORT,
    INT,
    INT,
    st.sampled_from(LanguageCode),
    SHORT,
    st.none() | FILLED,
    st.none() | st.dictionaries(FILLED, FILLED, min_size=1, max_size=6),
    st.binary(max_size=60),
    st.sampled_from(SerializeType),
)


def whole(command):
    return frames.encode(command) + command.body


def read(data):
    return list(frames.FrameDecoder().feed(data))


class TestRealFrames:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("codec", SerializeType)
    def test_what_was_decoded_encodes_to_the_same(self, name, codec):
        """
        In the codec in which it came, and in the other one.
        """
        found = captured(name)
        assert len(found) > 30
        for frame in found:
            [command] = read(frame.bytes_by())
            assert command == frame.command
            # A value that is empty, and no fields at all, have one form in ROCKETMQ.
            other = command._replace(codec=codec)
            if codec is SerializeType.ROCKETMQ:
                filled = {k: v for k, v in (command.fields or {}).items() if v}
                other = other._replace(fields=filled or None, remark=command.remark or None)
            assert read(whole(other)) == [other]

    @pytest.mark.parametrize("name", NAMES)
    def test_our_header_says_what_theirs_said(self, name):
        for frame in captured(name):
            size = int.from_bytes((sent := frames.encode(frame.command))[4:8], "big")
            assert json.loads(sent[8 : 8 + size]) == {
                **frame.header,
                "serializeTypeCurrentRPC": "JSON",
            }

    def test_any_division_gives_the_same_commands(self):
        """
        Requests are pipelined, and TCP divides them anywhere.
        """
        found = [frame for name in NAMES for frame in captured(name)][::7]
        stream = b"".join(frame.bytes_by() for frame in found)
        wanted = [frame.command for frame in found]
        chance = random.Random(1)
        for _ in range(50):
            decoder = frames.FrameDecoder()
            got, at = [], 0
            while at < len(stream):
                size = chance.choice((1, 2, 3, 5, 100, 1500, 70_000))
                got += decoder.feed(stream[at : at + size])
                at += size
            assert got == wanted
            assert decoder.pending == 0

    def test_bodies_are_not_copied(self):
        data = b"".join(frame.bytes_by() for frame in captured("clients-5.5.0"))
        bodies = [command.body for command in read(data)]

        assert all(isinstance(body, memoryview) and body.obj is data for body in bodies)


class TestAnyCommand:
    @given(st.lists(COMMANDS, max_size=4), st.data())
    def test_round_trip(self, commands, data):
        stream = b"".join(map(whole, commands))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
        decoder = frames.FrameDecoder()
        got = []
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            got += decoder.feed(stream[begin:end])

        assert got == commands

    @given(COMMANDS)
    def test_the_slow_twin_reads_the_same(self, command):
        [frame], is_good = twins.split(whole(command))

        assert is_good
        assert twins.decode(frame) == command

    def test_bytes_are_as_documented(self):
        """
        Written out by hand, once for each codec.
        """
        command = Command(
            11, 7, ONEWAY, LanguageCode.GO, 317, "é", {"a": "b"}, b"xyz", SerializeType.ROCKETMQ
        )
        assert whole(command) == bytes.fromhex(
            "00000026 0100001f 000b 09 013d 00000007 00000002"
            "00000002 c3a9 00000008 0001 61 00000001 62 78797a"
        )

        header = b'{"code":11,"flag":1,"language":"GO","opaque":7,"remark":"\xc3\xa9","serializeTypeCurrentRPC":"JSON","version":317}'
        command = Command(11, 7, RESPONSE, LanguageCode.GO, 317, "é")
        size = len(header).to_bytes(4, "big")
        assert whole(command) == (4 + len(header)).to_bytes(4, "big") + size + header

    def test_an_answer_is_for_its_request(self):
        request = Command(34, 12, ONEWAY, codec=SerializeType.ROCKETMQ)
        answer = request.answer(0, 513, fields={"a": "b"})

        assert (answer.opaque, answer.version, answer.codec) == (12, 513, SerializeType.ROCKETMQ)
        assert (request.is_response, request.is_oneway) == (False, True)
        assert (answer.is_response, answer.is_oneway) == (True, False)

    def test_a_code_of_more_than_16_bits_is_truncated_as_java_does(self):
        """
        POP's 200050 arrives as 3442; Java clients send these as JSON.
        """
        [command] = read(whole(Command(200050, codec=SerializeType.ROCKETMQ)))

        assert command.code == 3442

    def test_half_a_surrogate_pair_is_a_question_mark(self):
        for codec in SerializeType:
            [command] = read(whole(Command(0, remark="\ud800!", codec=codec)))
            assert command.remark == "?!"


class TestLimits:
    def test_a_frame_of_16_mebibytes_is_the_largest(self):
        """
        Length included; a peer that is told more closes the connection.
        """
        lengths = (0, frames.MAX_FRAME_LENGTH - 4, frames.MAX_FRAME_LENGTH - 3, -1, 0x7FFFFFFF)
        for length, is_read in zip(lengths, (True, True, False, False, False), strict=True):
            decoder = frames.FrameDecoder()
            data = length.to_bytes(4, "big", signed=True) + b"\0"
            if is_read and length:
                assert list(decoder.feed(data)) == []
                continue
            with pytest.raises(FrameError):
                list(decoder.feed(data))

    def test_a_large_body_is_read_and_a_larger_one_is_not_sent(self):
        head = frames.encode(Command(0))
        body = bytes(frames.MAX_FRAME_LENGTH - len(head))

        [command] = read(whole(Command(0, body=body)))
        assert len(command.body) == len(body)
        with pytest.raises(ValueError, match="16777217 bytes"):
            frames.encode(Command(0, body=body + b"\0"))

    def test_a_length_takes_no_memory(self):
        """
        A peer that announces 16 MiB and sends nothing costs what it has sent.
        """
        decoder = frames.FrameDecoder()
        assert list(decoder.feed((16_000_000).to_bytes(4, "big"))) == []
        assert decoder.pending == 4

    @pytest.mark.parametrize(
        ("frame", "reason"),
        [
            ("", "a frame of 0 bytes"),
            ("000000", "a frame of 3 bytes"),
            ("00000003 7b7d", "bad header length: 3"),
            ("02000002 7b7d", "a header of type 2"),
            ("ff000000", "a header of type 255"),
            ("00000000", "not JSON"),
            ("00000004 6e756c6c", "not an object"),
            ("00000003 7b7d7d", "not JSON"),
            ("01000004 00000000", "in the midst"),
        ],
    )
    def test_what_closes_a_connection(self, frame, reason):
        raw = bytes.fromhex(frame)
        decoder = frames.FrameDecoder()
        good = whole(Command(28, 5))
        got = []
        with pytest.raises(FrameError, match=reason):
            got.extend(decoder.feed(good + len(raw).to_bytes(4, "big") + raw))
        # What came before is answered; nothing is read after it.
        assert got == [Command(28, 5)]
        with pytest.raises(FrameError, match=reason):
            list(decoder.feed(good))

    @pytest.mark.parametrize(
        "header",
        [
            '{"code":"x"}', '{"code":1e400}', '{"code":2147483648}', '{"flag":[]}', '{"opaque":"99999999999"}',
            '{"extFields":[]}', '{"extFields":"a"}', "[" * 100_000, '{"code":NaN}',
            '{"code":' + "9" * 5000 + "}",
        ],
    )  # fmt: skip
    def test_values_of_other_types_close_it(self, header):
        raw = header.encode()
        with pytest.raises(FrameError):
            frames.decode(memoryview(len(raw).to_bytes(4, "big") + raw))

    def test_what_other_languages_write_is_read(self):
        """
        Nulls, numbers as values, names that nobody knows, and no order.
        """
        raw = (
            b'\n{"extFields":{"a":1,"b":true,"c":null,"d":1.50,"e":{"f":[]}}, "remark":null,'
            b'"language":"COBOL","nobody":{},"opaque":"7","code":105.0}'
        )
        command = frames.decode(memoryview(len(raw).to_bytes(4, "big") + raw))

        assert command == Command(
            105, 7, language=None, fields={"a": "1", "b": "true", "d": "1.50", "e": '{"f":[]}'}
        )


def damaged(chance, stream):
    """Return a stream with bytes flipped, removed, repeated or put in."""
    data = bytearray(stream)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data))
        kind = chance.randrange(5)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at : at + chance.choice((1, 2, 4, 50))]
        elif kind == 2:
            data[at:at] = chance.randbytes(chance.choice((1, 2, 4, 50)))
        elif kind == 3:
            data[at : at + 4] = chance.choice((0, 1, -1, 1 << 24, 1 << 30)).to_bytes(
                4, "big", signed=True
            )
        else:
            del data[at:]
        if not data:
            data += b"\0"
    return bytes(data)


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_an_error_of_ours_or_another_command(seed):
    """
    And the slow twin finds the same commands before it stops.
    """
    chance = random.Random(seed)
    real = [frame.command for name in NAMES for frame in captured(name)]
    for _ in range(300):
        chosen = [
            each._replace(codec=chance.choice(list(SerializeType)), body=each.body[:50])
            for each in chance.sample(real, 3)
        ]
        data = damaged(chance, b"".join(map(whole, chosen)))
        got, stopped = [], False
        try:
            got += frames.FrameDecoder().feed(data)
        except FrameError:
            stopped = True
        wanted, is_good = twins.split(data)
        read_by_twin = []
        try:
            read_by_twin += map(twins.decode, wanted)
        except (twins.NotAFrameError, FrameError):
            is_good = False
        assert stopped is not is_good
        if not stopped:
            assert got == read_by_twin
