"""Damage: to bytes, to records (their fields, lengths, properties) and to texts.

Everything is drawn from a `random.Random`, so a case is made again from its seed.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.commitlog import (
    BORN_HOST_V6,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    STORE_HOST_V6,
)
from reput.formats.rocketmq.properties import PROPERTY_CRC_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

I64 = (
    0, 1, -1, 2, 19, 20, 21, 255, 4095, 4096, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32,
    -(1 << 31), -(1 << 31) - 1, (1 << 62) // 20, 1 << 62, (1 << 63) - 1, (1 << 63) - 1001,
    -(1 << 63), -(1 << 63) + 1, (1 << 63) - 7_200_000,
)  # fmt: skip
I32 = (
    0, 1, -1, 2, 7, 8, 90, 91, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 1 << 16, 1 << 20,
    (1 << 20) + 1, (1 << 22) + 65536, (1 << 31) - 1, (1 << 31) - 9, -(1 << 31), -2, -8,
)  # fmt: skip
I16 = (0, 1, -1, 2, 20, 126, 127, 128, 255, 256, 0x7FFE, 0x7FFF, -(1 << 15))
MAGICS = (MAGIC_V1, MAGIC_V2, MAGIC_BLANK, 0, -1, MAGIC_V1 + 1, MAGIC_V1 & 0x7FFFFFFF)
TOKENS: tuple[bytes, ...] = (
    b"TAGS", b"KEYS", b"UNIQ_KEY", b"DELAY", b"INNER_NUM", b"INNER_BASE", b"INNER_MULTI_DISPATCH",
    b"INNER_MULTI_QUEUE_OFFSET", b"__CRC32#", b"INNE", b"DELAZ", b"\x01", b"\x01", b"\x01", b"\x02",
    b"\x02", b"\x02", b" ", b"  ", b",", b"", b"0", b"1", b"18", b"+2", b"-1", b"99999999999", b"x",
    b"999999999", b"%LMQ%a", b"%LMQ%a/b", b"..", b"/", b"\0", b"a" * 63, b"a" * 64, b"a" * 65,
    b"\x80", b"\xc0\x80", b"\xc3\xa9", b"\xe2\x82\xac", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80",
    b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf0\x9f", b"\xff", "٣".encode(), "²".encode(),
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"32767", b"32768",
)  # fmt: skip
TOPICS: tuple[bytes, ...] = (
    b"SCHEDULE_TOPIC_XXXX", b"SCHEDULE_TOPIC_XXXX", b"", b".", b"..", b"a/b", b"/", b"a\0b", b"t",
    b"%RETRY%g", b"rmq_sys_x", b"batches", b"orders", b"t" * 127, b"t" * 128, b"t" * 255,
    b"t" * 256, b"\xff\xfe", "订单".encode(), b"\xed\xa0\x80", b"eightchr", b"ninechars",
)  # fmt: skip


class Parts(NamedTuple):
    """A record taken apart; lengths follow from the parts, plus what they lie by."""

    magic: int
    queue_id: int
    flag: int
    queue_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared: int
    body: bytes
    topic: bytes
    properties: bytes
    size_lie: int = 0
    body_lie: int = 0
    topic_lie: int = 0
    properties_lie: int = 0
    position_lie: int = 0
    crc_lie: int = 0
    seals: bool = False


def pack(parts: Parts, position: int) -> bytes:
    """Return the record's bytes; integers wrap around, nothing is refused."""
    topic_length = len(parts.topic) + parts.topic_lie
    is_v2 = parts.magic == MAGIC_V2
    raw = b"".join(
        (
            struct.pack(">I", parts.magic & 0xFFFFFFFF),
            struct.pack(
                ">III",
                ((zlib.crc32(parts.body) & 0x7FFFFFFF if parts.body else 0) + parts.crc_lie)
                & 0xFFFFFFFF,
                parts.queue_id & 0xFFFFFFFF,
                parts.flag & 0xFFFFFFFF,
            ),
            struct.pack(
                ">QQIQ",
                parts.queue_offset & (1 << 64) - 1,
                (position + parts.position_lie) & (1 << 64) - 1,
                parts.sys_flag & 0xFFFFFFFF,
                parts.born_timestamp & (1 << 64) - 1,
            ),
            parts.born_host,
            struct.pack(">Q", parts.store_timestamp & (1 << 64) - 1),
            parts.store_host,
            struct.pack(
                ">IQI",
                parts.reconsume_times & 0xFFFFFFFF,
                parts.prepared & (1 << 64) - 1,
                (len(parts.body) + parts.body_lie) & 0xFFFFFFFF,
            ),
            parts.body,
            struct.pack(">H", topic_length & 0xFFFF)
            if is_v2
            else struct.pack(">B", topic_length & 0xFF),
            parts.topic,
            struct.pack(
                ">H",
                (len(parts.properties) + 20 * parts.seals + parts.properties_lie) & 0xFFFF,
            ),
            parts.properties,
        )
    )
    size = 4 + len(raw) + 20 * parts.seals + parts.size_lie
    raw = struct.pack(">I", size & 0xFFFFFFFF) + raw
    return seal(raw) if parts.seals else raw


def seal(raw: bytes) -> bytes:
    """Append the property CRC over what is there."""
    digits = f"{zlib.crc32(raw) & 0x7FFFFFFF:010d}"[::-1].encode()
    return raw + PROPERTY_CRC_PREFIX + digits + b"\x02"


def _near(random: Random, values: Sequence[int]) -> int:
    return random.choice(values) + random.choice((0, 0, 0, -1, 1))


def _small(random: Random) -> int:
    return random.choice((1, -1, 1, -1, 2, -2, 8, -8, 256, 65536, 1 << 31, random.getrandbits(32)))


def soup(random: Random, most: int = 30) -> bytes:
    """Return tokens of properties in any order."""
    return b"".join(random.choices(TOKENS, k=random.randrange(most)))


def pairs(random: Random, most: int = 8) -> bytes:
    """Return properties that are well-formed, their names and values strange."""
    made = []
    for _ in range(random.randrange(most)):
        name = random.choice(TOKENS[:11])
        made.append(name + b"\x01" + random.choice((soup(random, 4), random.choice(TOKENS))))
    return b"\x02".join(made) + random.choice((b"", b"\x02"))


def _many(random: Random) -> bytes:
    count = random.choice((62, 63, 64, 65, 66, 200))
    return b"".join(b"n%d\x01v\x02" % (i % random.choice((7, 1000))) for i in range(count))


def _new_topic(parts: Parts, topic: bytes) -> Parts:
    if len(topic) > 127:
        return parts._replace(topic=topic, magic=MAGIC_V2)
    return parts._replace(topic=topic)


def _flip_hosts(random: Random, parts: Parts) -> Parts:
    """Change the width of a host, by the flag alone or with the bytes."""
    born = random.random() < 0.5
    flag = BORN_HOST_V6 if born else STORE_HOST_V6
    flags = parts.sys_flag ^ flag
    if random.random() < 0.3:
        return parts._replace(sys_flag=flags)
    host = random.randbytes(20 if flags & flag else 8)
    if born:
        return parts._replace(sys_flag=flags, born_host=host)
    return parts._replace(sys_flag=flags, store_host=host)


def _delayed(random: Random, parts: Parts) -> Parts:
    level = random.choice((b"1", b"+1", b"-0", b"18", b"", b"x", "٣".encode(), b"0000000001"))
    properties = parts.properties + b"\x02DELAY\x01" + level + b"\x02"
    return parts._replace(topic=b"SCHEDULE_TOPIC_XXXX", magic=MAGIC_V1, properties=properties)


def _forge(random: Random, parts: Parts) -> Parts:
    """Put a record into the body; where it stands only the first one in a file can be right."""
    inner = pack(parts._replace(body=b""), 88 * random.randrange(3))
    return parts._replace(body=bytes(random.randrange(3)) + inner + bytes(random.randrange(9)))


_PARTS: tuple[Callable[[Random, Parts], Parts], ...] = (
    lambda r, p: p._replace(queue_id=_near(r, I32)),
    lambda r, p: p._replace(queue_offset=_near(r, I64)),
    lambda r, p: p._replace(store_timestamp=_near(r, I64)),
    lambda r, p: p._replace(
        born_timestamp=_near(r, I64), prepared=_near(r, I64), reconsume_times=_near(r, I32)
    ),
    lambda r, p: p._replace(sys_flag=p.sys_flag ^ 1 << r.randrange(32)),
    lambda r, p: p._replace(sys_flag=r.getrandbits(32)),
    lambda r, p: p._replace(magic=r.choice(MAGICS)),
    lambda r, p: p._replace(magic=MAGIC_V2),
    lambda r, p: p._replace(size_lie=_small(r)),
    lambda r, p: p._replace(body_lie=_small(r)),
    lambda r, p: p._replace(topic_lie=_small(r)),
    lambda r, p: p._replace(properties_lie=_small(r)),
    lambda r, p: p._replace(topic_lie=r.choice(I16), magic=r.choice((p.magic, MAGIC_V2))),
    lambda r, p: p._replace(properties_lie=r.choice(I16)),
    lambda r, p: p._replace(body_lie=-len(p.body) + _near(r, I32)),
    lambda r, p: p._replace(position_lie=_small(r)),
    lambda r, p: p._replace(crc_lie=_small(r)),
    lambda r, p: p._replace(seals=True),
    lambda r, p: p._replace(properties=soup(r)),
    lambda r, p: p._replace(properties=pairs(r)),
    lambda r, p: p._replace(properties=p.properties + r.choice(TOKENS)),
    lambda r, p: p._replace(properties=_many(r)),
    lambda r, p: _new_topic(p, r.choice(TOPICS)),
    lambda r, p: _new_topic(p, soup(r, 6)[:300]),
    lambda r, p: p._replace(body=r.randbytes(r.choice((0, 1, 15, 16, 17, 63, 64, 65, 79, 200)))),
    _flip_hosts,
    _delayed,
    _forge,
)


def spoil(random: Random, parts: Parts, most: int = 4) -> Parts:
    """Return a record with up to `most` of its parts spoilt."""
    for _ in range(random.randrange(most + 1)):
        parts = random.choice(_PARTS)(random, parts)
    return parts


def spoil_bytes(random: Random, raw: bytes, most: int = 3, *, resize: bool = True) -> bytes:  # noqa: C901 - each damage
    """Return bytes with up to `most` pieces of damage: bits, runs, cuts, copies."""
    data = bytearray(raw)
    for _ in range(random.randint(1, most)):
        kind = random.randrange(10 if resize else 7)
        if not data:
            return random.randbytes(random.randrange(64))
        at = random.randrange(len(data))
        length = min(random.choice((1, 2, 4, 8, 20, 46, 300)), len(data) - at)
        if kind < 2:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 2:
            data[at : at + length] = random.randbytes(length)
        elif kind == 3:
            data[at : at + length] = bytes([random.choice((0, 0, 0xFF, 1, 2, 0x80))]) * length
        elif kind == 4:
            _put_integer(random, data, at)
        elif kind == 5:
            other = random.randrange(len(data) - length + 1)
            data[at : at + length] = data[other : other + length]
        elif kind == 6:
            _swap_blocks(random, data)
        elif kind == 7:
            del data[at:]
        elif kind == 8:
            data += random.choice((bytes(length), random.randbytes(length), data[at:]))
        else:
            del data[at : at + length]
    return bytes(data)


def _put_integer(random: Random, data: bytearray, at: int) -> None:
    width, values = random.choice(((2, I16), (4, I32), (8, I64)))
    # Fields of files stand at multiples of two more often than not.
    at &= ~1 if random.random() < 0.7 else -1
    value = _near(random, values) & (1 << 8 * width) - 1
    if at + width <= len(data):
        data[at : at + width] = value.to_bytes(width, "big")


def _swap_blocks(random: Random, data: bytearray) -> None:
    """Swap two pieces of one size: entries, units, or what a page would be in a small file."""
    size = random.choice((20, 46, 64, 512, 4096))
    if len(data) >= 2 * size:
        a, b = (random.randrange(len(data) // size) * size for _ in range(2))
        data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


def fix(random: Random, raw: bytes, position: int) -> bytes:
    """Make some of a spoilt record right again, so that what is deeper in it is looked at."""
    data = bytearray(raw)
    if len(data) < 48:
        return raw
    if random.random() < 0.7:
        data[0:4] = struct.pack(">I", len(data))
    if random.random() < 0.7:
        data[28:36] = struct.pack(">Q", position & (1 << 64) - 1)
    if random.random() < 0.5:
        data[4:8] = struct.pack(">i", random.choice(MAGICS[:2]))
    return bytes(data)


_STRANGE = (
    "\0", "\ud7ff", "\ufffd", "\U0001f600", "²", "٣", "९", "\u2028", "\x85", "\ufeff", "\\u12",
    "\\uZZZZ", "\\", "\\ud800", "'", '"', "''", '"""', "[[", "]]", "[" * 2000, "{" * 2000,
    "(" * 400, "NOT " * 2000, "-" * 300, "9" * 25, "9" * 5000, "1e999", "0x10", "-0", "1_000",
    "nan", "inf", "true", "null", ",", ":", "=", "#", "\n", "\r\n", "\t", " ", ";", "/*", "*/",
)  # fmt: skip


def spoil_text(random: Random, text: str, words: Sequence[str] = (), most: int = 4) -> str:
    """Return a text with pieces removed, doubled, swapped or put in."""
    for _ in range(random.randint(1, most)):
        at = random.randrange(len(text) + 1)
        end = min(at + random.choice((1, 1, 2, 5, 20)), len(text))
        kind = random.randrange(6)
        if kind == 0:
            text = text[:at] + text[end:]
        elif kind == 1:
            text = text[:end] + text[at:]
        elif kind == 2:
            text = text[:at] + random.choice(_STRANGE) + text[end:]
        elif kind == 3:
            text = (
                text[:at] + chr(random.choice((random.randrange(128), 0x130, 0xFFFF))) + text[at:]
            )
        elif kind == 4 and words:
            text = text[:at] + random.choice(words) + text[at:]
        elif kind == 5:
            text = text[:at]
    return text


def encode_text(random: Random, text: str) -> bytes:
    """Return the bytes of a text, now and then not UTF-8."""
    raw = text.encode("utf-8", "surrogatepass")
    return spoil_bytes(random, raw, 2) if random.random() < 0.2 else raw
