"""Records: the documented bytes, every verdict, and the kernels against the readable reader."""

from __future__ import annotations

import zlib
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.kernels import frames
from reput.formats.rocketmq import commitlog, properties
from reput.formats.rocketmq.commitlog import ReadRules, Record, Verdict
from reput.formats.rocketmq.encode import Message, encode, encode_blank, fits
from tests.builders.hypotheses import COMPILED, examples, padded

WORKED_PROPERTIES = b"UNIQ_KEY\x01AC110001000018B4AAC216FE8B600000\x02KEYS\x01k1 k2\x02WAIT\x01true\x02TAGS\x01TagA\x02"
# STORE.md section 2.2, by hand.
WORKED = (
    bytes.fromhex(
        "000000b2 daa320a7 3610a686 00000003 00000000 0000000000000007 00000000"
        "000003e8 00000000 0000018bcfe567fb 0a000009 0000c351 0000018bcfe56800"
        "0a000001 00002a9f 00000000 00000000 00000000 00000005 68656c6c6f 09"
    )
    + b"TopicTest"
    + bytes.fromhex("0049")
    + WORKED_PROPERTIES
)
WORKED_MESSAGE = Message(
    topic="TopicTest",
    body=b"hello",
    properties=WORKED_PROPERTIES,
    queue_id=3,
    queue_offset=7,
    store_timestamp=1700000000000,
    born_timestamp=1699999999995,
    born_host="10.0.0.9",
    born_port=50001,
    store_host="10.0.0.1",
)


def read(raw: bytes, position: int = 1000, file_end: int = 4096, rules=commitlog.DEFAULT_RULES):
    return commitlog.read(raw, 0, position, file_end, rules)


def verdict_of(raw: bytes, **arguments) -> Verdict:
    return read(raw, **arguments)[0]


def patched(raw: bytes, at: int, piece: str) -> bytes:
    new = bytes.fromhex(piece)
    return raw[:at] + new + raw[at + len(new) :]


class TestBytes:
    def test_the_worked_example_is_written_byte_for_byte(self):
        assert encode(WORKED_MESSAGE, 1000) == WORKED
        assert len(WORKED) == 178

    def test_the_worked_example_is_read_field_by_field(self):
        assert read(WORKED) == (
            Verdict.RECORD,
            Record(
                physical_offset=1000,
                size=178,
                queue_id=3,
                flag=0,
                queue_offset=7,
                sys_flag=0,
                born_timestamp=1699999999995,
                born_host="10.0.0.9:50001",
                store_timestamp=1700000000000,
                store_host="10.0.0.1:10911",
                reconsume_times=0,
                prepared_transaction_offset=0,
                body=b"hello",
                topic="TopicTest",
                properties={
                    "UNIQ_KEY": "AC110001000018B4AAC216FE8B600000",
                    "KEYS": "k1 k2",
                    "WAIT": "true",
                    "TAGS": "TagA",
                },
            ),
        )

    def test_a_long_topic_takes_a_v2_record_and_hosts_of_ipv6_take_20_bytes(self):
        message = WORKED_MESSAGE._replace(
            topic="t" * 200, born_host="::1", store_host="fe80::2", sys_flag=commitlog.COMMIT
        )
        raw = encode(message, 1000)
        _, record = read(raw)

        assert raw[4:8] == bytes.fromhex("daa320ab")
        assert len(raw) == 91 + 5 + 200 + 73 + 1 + 2 * 12
        assert record.sys_flag == 0x8 | 0x10 | 0x20
        assert (record.born_host, record.store_host) == ("[::1]:50001", "[fe80::2]:10911")

    def test_the_smallest_record(self):
        assert commitlog.MIN_SIZE == 91 == len(encode(Message(""), 0))

    def test_a_property_crc_stands_in_the_last_20_bytes_lowest_digit_first(self):
        raw = encode(WORKED_MESSAGE._replace(property_crc=True), 1000)
        digits = f"{zlib.crc32(raw[:-20]) & 0x7FFFFFFF:010d}"[::-1].encode()

        assert raw[-20:] == b"__CRC32#\x01" + digits + b"\x02"
        assert properties.crc_matches(raw, commitlog.MIN_SIZE)

    def test_a_blank_is_its_length_its_magic_and_zeros(self):
        assert encode_blank(12) == bytes.fromhex("0000000c cbd43194 00000000")
        assert fits(4096 - 8, 4096)
        assert not fits(4096 - 7, 4096)

    @pytest.mark.parametrize(
        "message",
        [
            Message("t" * 40000),
            Message("t", properties=b"p" * 40000),
            Message("t", queue_id=1 << 31),
            Message("t", store_timestamp=1 << 63),
        ],
    )
    def test_what_does_not_fit_is_not_written(self, message):
        with pytest.raises(ValueError, match="does not fit"):
            encode(message, 0)


class TestVerdicts:
    @pytest.mark.parametrize(
        ("raw", "expected"),
        [
            (b"", Verdict.SHORT),
            (WORKED[:7], Verdict.SHORT),
            (WORKED[:-1], Verdict.SHORT),
            (bytes(8), Verdict.END),
            (patched(WORKED, 4, "daa320a6"), Verdict.NO_MAGIC),
            (patched(bytes(200), 0, "000000b2"), Verdict.NO_MAGIC),
            (patched(WORKED, 0, "0000005a"), Verdict.BAD_LENGTH),
            (patched(WORKED, 0, "ffffffff"), Verdict.BAD_LENGTH),
            (patched(WORKED, 0, "000000b1"), Verdict.BAD_LENGTH),
            (patched(WORKED, 0, "000000b3") + b"x", Verdict.BAD_LENGTH),
            (patched(WORKED, 84, "ffffffff"), Verdict.BAD_LENGTH),
            (patched(WORKED, 84, "7fffffff"), Verdict.BAD_LENGTH),
            (patched(WORKED, 93, "ff"), Verdict.BAD_LENGTH),
            (patched(WORKED, 103, "ffff"), Verdict.BAD_LENGTH),
            (patched(WORKED, 4, "daa320ab"), Verdict.BAD_LENGTH),
            (patched(WORKED, 36, "00000030"), Verdict.BAD_LENGTH),
            (patched(WORKED, 35, "e9"), Verdict.BAD_OFFSET),
            (patched(WORKED, 56, "0000000000000000"), Verdict.BAD_TIMESTAMP),
            (patched(WORKED, 56, "ff"), Verdict.BAD_TIMESTAMP),
            (patched(WORKED, 90, "6d"), Verdict.BAD_BODY_CRC),
            (patched(WORKED, 8, "b6"), Verdict.BAD_BODY_CRC),
            (encode_blank(4096 - 1000)[:8], Verdict.ROLL),
            (encode_blank(4096 - 999), Verdict.BAD_LENGTH),
        ],
    )
    def test_what_stands_there(self, raw, expected):
        assert verdict_of(raw) == expected
        assert kernel_verdict(raw, 1000, 4096, commitlog.DEFAULT_RULES)[0] == expected

    def test_a_record_ends_where_the_file_does_or_before(self):
        assert verdict_of(WORKED, file_end=1178) == Verdict.RECORD
        assert verdict_of(WORKED, file_end=1177) == Verdict.BAD_LENGTH

    def test_old_brokers_know_no_v2(self):
        raw = encode(Message("t" * 128), 1000)

        assert verdict_of(raw) == Verdict.RECORD
        assert verdict_of(raw, rules=ReadRules(accepts_v2=False)) == Verdict.NO_MAGIC

    def test_a_body_is_checked_only_on_demand(self):
        rules = ReadRules(checks_body_crc=False)

        assert verdict_of(patched(WORKED, 90, "6d"), rules=rules) == Verdict.RECORD

    def test_an_empty_body_has_no_crc_to_check(self):
        raw = encode(Message("t"), 1000)

        assert verdict_of(patched(raw, 8, "12345678")) == Verdict.RECORD

    def test_every_flipped_byte_breaks_the_property_crc_or_something_before_it(self):
        rules = ReadRules(requires_property_crc=True)
        raw = encode(WORKED_MESSAGE._replace(property_crc=True), 1000)
        seen = set()

        assert verdict_of(raw, rules=rules) == Verdict.RECORD
        for at in range(len(raw)):
            damaged = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
            seen.add(verdict_of(damaged, rules=rules))
        assert Verdict.RECORD not in seen
        assert Verdict.BAD_PROPERTY_CRC in seen

    def test_a_property_crc_that_is_missing_or_no_number(self):
        """
        A broker that writes them has older records without; one that demands them has not.
        """
        checked, demanded = ReadRules(True, True, True), ReadRules(requires_property_crc=True)
        raw = encode(WORKED_MESSAGE._replace(property_crc=True), 1000)
        for without in (
            WORKED,
            raw[:-2] + b"x\x02",
            raw[:-1] + b"\x01",
            patched(raw, len(raw) - 20, "60"),
        ):
            assert verdict_of(without, rules=demanded) == Verdict.BAD_PROPERTY_CRC
            assert verdict_of(without, rules=checked) == Verdict.RECORD
        wrong = raw[:-2] + bytes([raw[-2] ^ 1]) + raw[-1:]
        for rules in (checked, demanded):
            assert verdict_of(wrong, rules=rules) == Verdict.BAD_PROPERTY_CRC
            assert verdict_of(raw, rules=rules) == Verdict.RECORD

    def test_every_verdict_can_be_printed(self):
        assert all(verdict.explanation for verdict in Verdict)


def kernel_verdict(raw: bytes, position: int, file_end: int, rules: ReadRules):
    data = padded(raw, 16, 128, 0xDA)
    return frames.check(data, 16, 16 + len(raw), position, file_end, rules.bits)


def same(raw: bytes, position: int, file_end: int, rules: ReadRules) -> Verdict:
    """Compare both readers on what stands in `raw`; return the verdict."""
    verdict, found = read(raw, position, file_end, rules)
    code, size, *places = (int(v) for v in kernel_verdict(raw, position, file_end, rules))

    assert Verdict(code) == verdict
    if not isinstance(found, Record):
        assert size == found
        return verdict
    assert size == found.size
    stamp_at, body_at, body_length, topic_at, topic_length, properties_at = places
    at = [p - 16 for p in (stamp_at, body_at, topic_at, properties_at)]
    assert int.from_bytes(raw[at[0] : at[0] + 8], "big") == found.store_timestamp
    assert raw[at[1] : at[1] + body_length] == found.body
    assert commitlog.strings.decode(raw[at[2] : at[2] + topic_length]) == found.topic
    assert commitlog.properties.parse(raw[at[3] : size]) == found.properties
    return verdict


hosts = st.sampled_from(["10.0.0.9", "255.255.255.255", "::1", "fe80::2"])
messages = st.builds(
    Message,
    topic=st.one_of(st.text(max_size=20), st.binary(max_size=200)),
    body=st.one_of(st.binary(max_size=30), st.binary(min_size=60, max_size=200)),
    properties=st.one_of(st.just(WORKED_PROPERTIES), st.binary(max_size=100)),
    queue_id=st.integers(-5, 1 << 30),
    queue_offset=st.integers(-5, 1 << 60),
    store_timestamp=st.sampled_from([1, 0, -1, 1_700_000_000_000]),
    sys_flag=st.integers(0, 15),
    born_host=hosts,
    store_host=hosts,
    property_crc=st.booleans(),
)
all_rules = st.builds(ReadRules, *[st.booleans()] * 4)
# Bytes that mean something in a record: lengths, flags, magics, the ends of digits.
telling = st.sampled_from([0, 1, 2, 7, 8, 0x10, 0x20, 0x30, 0x7F, 0x80, 0xA7, 0xAB, 0xFF])


@st.composite
def mutated(draw):
    """Return a record with some bytes changed, cut or added, and where its file ends."""
    raw = bytearray(encode(draw(messages), 1000))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.one_of(st.integers(0, len(raw) - 1), st.integers(0, min(110, len(raw) - 1))))
        raw[at] = draw(st.one_of(telling, st.integers(0, 255)))
    if draw(st.booleans()):
        cut = draw(st.integers(-3, len(raw)))
        raw = raw[: len(raw) - cut] if cut >= 0 else raw + bytes(-cut)
    file_end = 1000 + draw(st.sampled_from([len(raw), len(raw) + 8, len(raw) - 1, 100_000]))
    return bytes(raw), max(file_end, 1008)


class TestCheck:
    """The kernel says what the readable reader says, of anything."""

    @given(message=messages, rules=all_rules)
    @examples(200, 30)
    def test_of_whole_records(self, message, rules):
        same(encode(message, 1000), 1000, 100_000, rules)

    @given(case=mutated(), rules=all_rules)
    @examples(800, 60)
    def test_of_damaged_records(self, case, rules):
        raw, file_end = case
        same(raw, 1000, file_end, rules)

    @pytest.mark.parametrize("property_crc", [False, True])
    def test_of_a_record_cut_anywhere_and_with_any_byte_changed(self, property_crc):
        """
        Exhaustive where hypothesis samples: all verdicts that damage can cause come up.
        """
        raw = encode(WORKED_MESSAGE._replace(property_crc=property_crc), 1000)
        rules = ReadRules(checks_property_crc=property_crc)
        seen: Counter[Verdict] = Counter()
        step = 1 if COMPILED else 7
        for at in range(0, len(raw), step):
            seen[same(raw[:at], 1000, 4096, rules)] += 1
            seen[same(raw[:at].ljust(len(raw), b"\0"), 1000, 4096, rules)] += 1
            for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
                damaged = raw[:at] + bytes([value]) + raw[at + 1 :]
                seen[same(damaged, 1000, 4096, rules)] += 1
        missing = {Verdict.SHORT, Verdict.BAD_LENGTH, Verdict.BAD_BODY_CRC} - set(seen)
        assert not missing
        assert (Verdict.BAD_PROPERTY_CRC in seen) == property_crc

    @given(raw=st.binary(max_size=200), position=st.integers(0, 1 << 40))
    @examples(200)
    def test_of_any_bytes(self, raw, position):
        same(raw, position, position + 150, commitlog.DEFAULT_RULES)

    def test_of_every_magic_like_number(self):
        for byte in range(256):
            raw = patched(WORKED, 7, f"{byte:02x}")
            same(raw, 1000, 4096, commitlog.DEFAULT_RULES)
            same(raw, 1000, 4096, ReadRules(accepts_v2=False))


PLAIN = commitlog.DEFAULT_RULES.bits


def chain(count: int, position: int = 1000) -> tuple[bytes, list[int]]:
    """Return records one after the other, and where they stand."""
    raw, places = b"", []
    for i in range(count):
        places.append(position + len(raw))
        raw += encode(Message("topic", body=bytes(i)), places[-1])
    return raw, places


class TestHop:
    def hop(self, raw, stop, *, limit=None, most=1 << 40):
        limit = len(raw) if limit is None else limit
        data = padded(raw)
        result = frames.hop(data, 16, 16 + limit, 1000, 100_000, PLAIN, stop, most)
        return Verdict(result[0]), int(result[1]), int(result[2])

    def test_stops_at_the_first_record_at_or_after(self):
        raw, places = chain(5)

        for number, place in enumerate(places):
            assert self.hop(raw, place) == (Verdict.RECORD, place, number)
            assert self.hop(raw, place - 1) == (Verdict.RECORD, place, number)

    def test_stops_at_what_is_no_record(self):
        raw, places = chain(3)
        end = 1000 + len(raw)

        assert self.hop(raw + bytes(8), 9999) == (Verdict.END, end, 3)
        assert self.hop(raw + b"garbage!", 9999) == (Verdict.NO_MAGIC, end, 3)
        assert self.hop(raw, 9999, limit=len(raw) - 1) == (Verdict.SHORT, places[2], 2)
        assert self.hop(raw + encode_blank(100_000 - end)[:8], 9999)[0] == Verdict.ROLL

    def test_passes_so_many_records_at_most(self):
        raw, places = chain(5)

        assert self.hop(raw, 9999, most=2) == (Verdict.RECORD, places[2], 2)


def slow_chain(raw: bytes, start: int, stop: int, file_end: int) -> tuple[Verdict, int, int, int]:
    """Return what stands after the records, where, the last record, and up to where all is proven.

    The readable twin of `frames.chain`.
    """
    met = []
    position, verdict = start, Verdict.RECORD
    while position < stop:
        verdict, record = commitlog.read(raw, position - start, position, file_end)
        if verdict != Verdict.RECORD:
            break
        met.append((position, record.store_timestamp))
        position += record.size
    last = met[-1][0] if met else frames.NO_POSITION
    proven = start
    for (_, before), (place, stored) in pairwise(met):
        if stored < before:
            break
        proven = place
    return verdict, position, last, proven


class TestChain:
    @examples(300)
    @given(
        st.lists(st.tuples(st.integers(0, 60), st.integers(1, 4)), max_size=8),
        st.integers(0, 2500),
        st.sampled_from([b"", bytes(8), b"garbage!"]),
    )
    def test_it_notes_what_its_twin_notes(self, records, stop, after):
        raw = b""
        for size, stored in records:
            raw += encode(Message("t", bytes(size), store_timestamp=stored), 1000 + len(raw))
        raw += after
        met = np.array([frames.NO_POSITION, 1000, 0], np.int64)
        data = padded(raw)
        verdict, reached = frames.chain(
            data, 16, 16 + len(raw), 1000, 100_000, PLAIN, 1000 + stop, met
        )
        found = Verdict(verdict), int(reached), int(met[frames.LAST]), int(met[frames.PROVEN])

        assert found == slow_chain(raw, 1000, 1000 + stop, 100_000)


class TestFindRecord:
    def find(self, raw, *, at=0, limit=None, stop=None, file_end=100_000):
        limit = len(raw) if limit is None else limit
        stop = len(raw) if stop is None else stop
        data = padded(raw)
        found = frames.find_record(data, 16 + at, 16 + limit, 1000 + at, file_end, PLAIN, 16 + stop)
        return None if found == frames.NO_POSITION else int(found) - 16

    def test_the_first_place_that_names_itself(self):
        raw, places = chain(4)
        places = [place - 1000 for place in places]

        for at in range(0, places[-1] + 1, 1 if COMPILED else 13):
            assert self.find(raw, at=at) == min(p for p in places if p >= at)
        assert self.find(raw, at=places[-1] + 1) is None

    def test_a_copy_of_a_record_elsewhere_is_none(self):
        """
        A record in another's body names the offset it was copied from.
        """
        inner = encode(Message("inner"), 77)
        raw = encode(Message("outer", body=inner), 1000)

        assert self.find(raw) == 0
        assert self.find(raw, at=1) is None

    def test_a_record_cut_off_by_the_end_counts_if_it_names_its_place(self):
        raw, places = chain(3)
        last = places[2] - 1000

        assert self.find(raw, at=places[1] - 999, limit=len(raw) - 1) == last
        assert self.find(raw, at=places[1] - 999, limit=last + commitlog.MIN_SIZE - 1) is None

    def test_a_blank_counts_where_it_fills_the_file(self):
        raw, _ = chain(1)
        file_end = 1000 + len(raw) + 50
        with_blank = raw + encode_blank(50)

        assert self.find(with_blank, at=1, file_end=file_end) == len(raw)
        assert self.find(with_blank, at=1, file_end=file_end + 1) is None

    def test_nothing_at_or_after_the_stop(self):
        raw, places = chain(3)

        assert self.find(raw, at=1, stop=places[1] - 1000) is None
        assert self.find(raw, at=1, stop=places[1] - 999) == places[1] - 1000

    @given(noise=st.binary(max_size=60), seed=st.integers(0, 1 << 30))
    @examples(100)
    def test_agrees_with_reading_every_place(self, noise, seed):
        pick = np.random.default_rng(seed)
        raw, _ = chain(int(pick.integers(1, 4)), 1000 + len(noise))
        raw = bytearray(noise + raw)
        for _ in range(int(pick.integers(0, 4))):
            raw[int(pick.integers(0, len(raw)))] = int(pick.choice([0xDA, 0xA3, 0xCB, 0, 1]))
        raw = bytes(raw)
        expected = None
        for at in range(len(raw)):
            verdict, _ = commitlog.read(raw, at, 1000 + at, 100_000)
            names_itself = raw[at + 28 : at + 36] == (1000 + at).to_bytes(8, "big")
            is_cut = verdict == Verdict.SHORT and at + 91 <= len(raw) and names_itself
            if verdict in {Verdict.RECORD, Verdict.ROLL} or is_cut:
                expected = at
                break

        assert self.find(raw) == expected
