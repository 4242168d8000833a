"""Random stores whose records no client makes, written byte by byte.

`Fuzz` lets the real store put messages, so it can only draw what a put accepts. Here are odd bytes
in names and properties, properties cut short, numbers in foreign digits, queue offsets and times
that jump, files of odd sizes, BLANKs of exactly 8 bytes, and inner batches and light queues whose
properties say anything. What a broker makes of such a log is what its own rebuild writes
(`Rebuild`); `differential.py --raw` compares.

What no log determines is left out (README.md, "What was checked"): a record that a broker cannot
parse, a light queue and a topic of one name, more keys on a record than an index file holds.
"""

from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING

from reput.formats.rocketmq.commitlog import (
    BLANK_SIZE,
    BORN_HOST,
    BORN_HOST_V6,
    MAGIC_V1,
    MAGIC_V2,
    STORE_HOST_V6,
    SYS_FLAG_AT,
)
from reput.formats.rocketmq.encode import Message, encode, encode_blank, fits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Java's String makes U+FFFD of these, once or several times: the hash of a tag depends on it.
_NOT_UTF8 = (
    b"\x80\x80", b"\xc0\x80", b"\xc2", b"\xe0\x80\x80", b"\xe2\x82", b"\xed\xa0\xbd\xed\xb8\x80",
    b"\xed\xbf\xbf", b"\xf0\x80\x80\x80", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80", b"\xff\xfe",
)  # fmt: skip
# The fourth and fifth have one hash, the sixth's is the smallest int.
_TAGS = (
    "red", "a||b", "x" * 3000, "Aa", "BB", "polygenelubricants", "订单", "😀", "a\x00b", " ", "  x ",
    "\x1f", "\x7f", "\u00a0", "\u2028", "\ufffd",
)  # fmt: skip
_KEYS = ("", "键", "😀", "\u00a0", "\t", "a\x00", "polygenelubricants", "x" * 200)
_IDS = ("u", "a b", "键" * 20, "y" * 63, "x" * 64, "z" * 65)
_DELAYS = (
    "-2147483648", "-1", "-0", "0", "+0", "1", "+3", "000000000000005", "18", "19", "40",
    "2147483647", "٣", "௩", "\uff19",
)  # fmt: skip
_LIGHT = ("%LMQ%a", "%LMQ%b", "%LMQ%键", "%RETRY%zz", "%LMQ%" + "l" * 200, "q1", "q2", " ")
_FLAGS = (1, 2, 0x40, 0x80, 0xC0, 0x100, 0x200, 0x300, 0x301, 0x1000, 1 << 30, -(1 << 31))
_PREPARED, _ROLLBACK = 0x4, 0xC
_BROKEN = (b"", b"\x01", b"\x01v", b"n\x01", b"nn", b"n\x01\x01", b"TAGS\x01", b"KEYS\x01")
_MAX_PROPERTIES = 32_000


class RawStore:
    """One random store: its settings, its topics, and how far each queue is.

    Attributes:
        settings: the broker's, by their names in MessageStoreConfig and BrokerConfig.
    """

    def __init__(self, seed: int, *, is_v4: bool) -> None:
        self._random = draw = random.Random(f"{seed} {is_v4}")
        self._is_v4 = is_v4
        self._file_size = draw.choice([65536, 65536, 65536, 16384, 20000, 33333, 100001, 262144])
        self._max_keys = draw.choice([8, 16, 50, 300, 3000])
        self.settings = self._draw_settings()
        self._max_keys -= 5
        self._topics = [self._draw_topic(n) for n in range(draw.randint(1, 9))]
        self._batch_topics = [
            topic
            for topic in self._topics
            if not is_v4 and draw.random() < 0.2 and not topic.startswith("%LMQ%")
        ]
        self._offsets: dict[tuple[str, int], int] = {}
        self._light_offsets: dict[str, int] = {}
        self._now = draw.choice([1, 1000, 1_600_000_000_000, 1_600_000_000_000, 4 * 10**15])
        self._position = draw.choice([0, 0, 0, 1, 3, 40000]) * self._file_size
        self._with_large = draw.random() < 0.15
        self._file = bytearray()

    def _draw_settings(self) -> dict[str, str]:
        draw = self._random
        settings: dict[str, object] = {
            "mappedFileSizeCommitLog": self._file_size,
            "mappedFileSizeConsumeQueue": draw.choice(
                [20, 40, 59, 61, 199, 1000, 1001, 4096, 6001, 20000]
            ),
            "maxHashSlotNum": draw.choice([1, 2, 3, 7, 100, 5000]),
            "maxIndexNum": self._max_keys,
        }
        if draw.random() < 0.3:
            settings["enableConsumeQueueExt"] = "true"
            settings["mappedFileSizeConsumeQueueExt"] = draw.choice([64, 100, 1024, 4000, 5001])
        for name in ("enableMultiDispatch", "enableLmq"):
            if draw.random() < 0.5:
                settings[name] = "true"
        if draw.random() < 0.3:
            settings["messageDelayLevel"] = " ".join(
                f"{draw.randint(0, 10 ** draw.randint(1, 10))}{draw.choice('smhd')}"
                for _ in range(draw.randint(1, 40))
            )
        if draw.random() < 0.07:
            settings["messageIndexEnable"] = "false"
        if not self._is_v4:
            settings["mapperFileSizeBatchConsumeQueue"] = 46 * draw.choice([1, 2, 5, 100, 1000])
        return {name: str(value) for name, value in settings.items()}

    def _draw_topic(self, number: int) -> str:
        draw = self._random
        longest = draw.randint(121, 240) if not self._is_v4 else 120
        return draw.choice(
            [
                *(f"T{number}", f"T {number}", f"a%b{number}", f"compact{number}", "t" * 127),
                *(f"%RETRY%g{number}", f"%DLQ%g{number}", "%RETRY%" + "r" * longest),
                *(f"TIMER-{number}", "rmq_sys_wheel_timer", f"rmq_sys_REVIVE_LOG_c{number}"),
                *("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", f"rmq_sys_{number}"),
                *(f"%LMQ%x{number}", "语" * draw.randint(1, 40) + str(number)),
            ]
        )

    def write(self, directory: Path) -> None:
        """Write the log, `config/topics.json`, and a .facts file beside the directory."""
        draw, log = self._random, directory / "commitlog"
        log.mkdir(parents=True)
        for _ in range(draw.randint(5, 400)):
            self._append(log, self._draw_message())
        # Whole and plain, so that there is no doubt about the log's end.
        self._append(log, Message("last", b"x", {"TAGS": "end"}, store_timestamp=self._now))
        self._end_file(log)
        if self._batch_topics:
            table = {
                topic: {
                    "topicName": topic,
                    "attributes": {"queue.type": "BatchCQ"},
                    "perm": 6,
                    "readQueueNums": 4,
                    "writeQueueNums": 4,
                    "topicFilterType": "SINGLE_TAG",
                    "order": False,
                    "topicSysFlag": 0,
                }
                for topic in self._batch_topics
            }
            (directory / "config").mkdir()
            (directory / "config" / "topics.json").write_text(
                json.dumps({"topicConfigTable": table}), encoding="utf-8"
            )
        settings = ", ".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        directory.with_name(f"{directory.name}.facts").write_text(
            f"config={{{settings}}}\n", encoding="utf-8"
        )

    def _append(self, log: Path, message: Message) -> None:
        """Append a record, in the next file where this one has no room for it."""
        draw = self._random
        is_wide = not self._is_v4 and draw.random() < 0.1
        record = _encode(message, self._position, is_wide=is_wide)
        if not fits(len(record), self._file_size):
            return
        if not fits(len(record), self._left):
            if draw.random() < 0.5:
                self._fill_to_smallest_blank()
            blank = encode_blank(self._left)
            if draw.random() < 0.3:
                blank = blank[:BLANK_SIZE] + draw.randbytes(len(blank) - BLANK_SIZE)
            self._add(blank)
            self._end_file(log)
            record = _encode(message, self._position, is_wide=is_wide)
        self._add(record)

    @property
    def _left(self) -> int:
        return self._file_size - len(self._file)

    def _add(self, raw: bytes) -> None:
        self._file += raw
        self._position += len(raw)

    def _end_file(self, log: Path) -> None:
        start = self._position - len(self._file)
        (log / f"{start:020d}").write_bytes(bytes(self._file).ljust(self._file_size, b"\0"))
        self._file = bytearray()

    def _fill_to_smallest_blank(self) -> None:
        """Append a record that leaves 8 bytes, if the file has room for one."""
        offset = self._offsets.get(("edge", 0), 0)
        message = Message("edge", queue_offset=offset, store_timestamp=self._now)
        room = self._left - BLANK_SIZE - len(encode(message, self._position))
        if room < 0:
            return
        self._offsets["edge", 0] = offset + 1
        self._add(encode(message._replace(body=self._random.randbytes(room)), self._position))

    def _draw_message(self) -> Message:
        draw = self._random
        topic = draw.choice(self._topics)
        queue = draw.choice([0, 0, 1, 3, 7, 999])
        if draw.random() < 0.03:
            queue = draw.choice([65535, 123456, 1 << 20])
        offset = self._draw_offset(topic, queue)
        flags = draw.choice([_PREPARED, 0x8, _ROLLBACK]) if draw.random() < 0.1 else 0
        if draw.random() < 0.2:
            flags |= draw.choice(_FLAGS)
        if flags & _ROLLBACK in (0, 0x8):
            self._offsets[topic, queue] = offset + 1
        self._tick()
        longest = self._file_size // 4 if self._with_large and draw.random() < 0.05 else 400
        return Message(
            topic,
            draw.randbytes(0 if draw.random() < 0.1 else draw.randint(0, longest)),
            self._draw_properties(topic),
            queue,
            offset,
            self._now,
            born_timestamp=draw.choice([self._now, 0, -1, 1 << 62]),
            flag=draw.getrandbits(31),
            sys_flag=flags,
            born_host=draw.choice(["1.2.3.4", "2001:db8::7"]),
            born_port=draw.choice([1, 10911, 65535]),
            store_host=draw.choice(["1.2.3.4", "fe80::1"]),
            reconsume_times=draw.choice([0, 3, (1 << 31) - 1]),
            prepared_transaction_offset=draw.choice([-1, 0, self._position]),
        )

    def _draw_offset(self, topic: str, queue: int) -> int:
        """Return the queue's next offset, and at times one before or after it."""
        draw = self._random
        offset = self._offsets.get((topic, queue))
        if offset is None:
            offset = draw.choice([0, 0, 0, 1, 7, 300, 10**6 + 3])
        chance = draw.random()
        if chance < 0.02:
            return offset + draw.randint(1, 500)
        if chance < 0.04:
            return max(0, offset - draw.randint(1, 5))
        return 0 if chance < 0.045 else offset

    def _tick(self) -> None:
        draw, chance = self._random, self._random.random()
        if chance < 0.9:
            self._now += draw.randint(0, 30)
        elif chance < 0.96:
            self._now += draw.randint(0, 10**5)
        elif chance < 0.98:
            self._now -= draw.randint(0, 10**4)
        else:
            self._now += draw.choice([-(10**9), 10**9, 3 * 10**12, 2_200_000_000_000])
        self._now = max(1, self._now)

    def _draw_properties(self, topic: str) -> bytes:
        draw = self._random
        pairs: list[tuple[str, str | bytes]] = []
        if draw.random() < 0.6:
            pairs.append(("TAGS", self._draw_tag()))
        if draw.random() < 0.6:
            pairs.append(("KEYS", self._draw_keys()))
        if draw.random() < 0.6:
            pairs.append(("UNIQ_KEY", draw.choice([*_IDS, f"{draw.getrandbits(128):032X}"])))
        if draw.random() < 0.2:
            pairs += [(name, "no") for name in ("UNIQ_KEY ", "TAGSX", "KEY", "tags")]
        if draw.random() < 0.2:
            pairs += [("TIMER_OUT_MS", str(self._now + 1000)), ("TIMER_ROLL_TIMES", "0")]
        if topic == "SCHEDULE_TOPIC_XXXX" or draw.random() < 0.15:
            pairs.append(("DELAY", draw.choice(_DELAYS)))
        pairs += self._draw_light_queues()
        pairs += self._draw_inner_batch()
        if draw.random() < 0.2:
            pairs.append(("x" * draw.randint(1, 70), "y" * draw.randint(1, 70)))
        if draw.random() < 0.1:
            pairs.append(("a", "b\x01c\x01"))
        if draw.random() < 0.02:
            pairs.append(("pad", b"p" * draw.randint(0, 20000)))
        return self._joined([_bytes(name) + b"\x01" + _bytes(value) for name, value in pairs])

    def _joined(self, parts: list[bytes]) -> bytes:
        """Join properties in any order, one of them twice or broken at times."""
        draw = self._random
        if draw.random() < 0.1:
            parts.append(draw.choice(_BROKEN))
        draw.shuffle(parts)
        if parts and draw.random() < 0.1:
            parts.append(draw.choice(parts))
        if draw.random() < 0.05:
            return b""
        raw = b"\x02".join(parts) + (b"\x02" if parts and draw.random() < 0.7 else b"")
        if draw.random() < 0.03:
            raw = b"\x02" * draw.randint(1, 70) + raw
        return raw[:_MAX_PROPERTIES]

    def _draw_tag(self) -> str | bytes:
        draw = self._random
        if draw.random() < 0.8:
            return draw.choice(_TAGS)
        return draw.choice([b"", b"x"]) + draw.choice(_NOT_UTF8) + draw.choice([b"", b"y"])

    def _draw_keys(self) -> bytes:
        draw = self._random
        if draw.random() < 0.1:
            return b" " * draw.randint(0, 130)
        count = draw.randint(0, 4 if draw.random() < 0.9 else max(1, min(1000, self._max_keys)))
        return b" ".join(
            self._draw_key() for _ in range(min(count, self._max_keys))
        ) + b" " * draw.randint(0, 3)

    def _draw_key(self) -> bytes:
        draw, chance = self._random, self._random.random()
        if chance < 0.5:
            return b"k%d" % draw.randint(0, 99)
        return _bytes(draw.choice(_KEYS)) if chance < 0.8 else draw.choice(_NOT_UTF8)

    def _draw_light_queues(self) -> list[tuple[str, str]]:
        """Return the two properties of multi-dispatch, their counts different at times."""
        draw = self._random
        if "enableMultiDispatch" not in self.settings or draw.random() < 0.5:
            return []
        known = _LIGHT if self._is_v4 else (*_LIGHT, "%LMQ%a/b")
        names = [draw.choice(known) for _ in range(draw.randint(1, 6))]
        offsets = [self._draw_light_offset(name) for name in names]
        if draw.random() < 0.05:
            offsets.append("7")
        if draw.random() < 0.05:
            names.append("")
        return [
            ("INNER_MULTI_DISPATCH", ",".join(names)),
            ("INNER_MULTI_QUEUE_OFFSET", ",".join(offsets)),
        ]

    def _draw_light_offset(self, name: str) -> str:
        draw = self._random
        offset = self._light_offsets.get(name, draw.choice([0, 0, 5, 1000]))
        chance = draw.random()
        if chance < 0.06:
            offset = max(0, offset - draw.randint(1, 3))
        elif chance < 0.1:
            offset += draw.randint(1, 50)
        elif chance < 0.12:
            offset = 0
        self._light_offsets[name] = offset + 1
        return f"{draw.choice(['', '', '', '+', '00'])}{offset}"

    def _draw_inner_batch(self) -> list[tuple[str, str]]:
        draw = self._random
        if self._is_v4 or draw.random() < 0.85:
            return []
        odd: Sequence[str] = ("0", "1", "32767", "-1", "-32768", "+7", "٣")
        found = [("INNER_NUM", draw.choice([*odd, *(str(draw.randint(1, 500)) for _ in odd)]))]
        if draw.random() < 0.85:
            bases = ["0", "-1", "9223372036854775807", "5", "+1", str(draw.randint(0, 10**6))]
            found.append(("INNER_BASE", draw.choice(bases)))
        return found


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _encode(message: Message, position: int, *, is_wide: bool) -> bytes:
    """Return a record; a wide one has two bytes for a topic's length that needs one."""
    raw = encode(message, position)
    if not is_wide or struct.unpack_from(">i", raw, 4)[0] != MAGIC_V1:
        return raw
    flags = struct.unpack_from(">i", raw, SYS_FLAG_AT)[0]
    body_at = BORN_HOST + (20 if flags & BORN_HOST_V6 else 8) + 8
    body_at += (20 if flags & STORE_HOST_V6 else 8) + 12
    topic_at = body_at + 4 + len(message.body)
    wide = bytearray(raw[:topic_at] + b"\0" + raw[topic_at:])
    struct.pack_into(">ii", wide, 0, len(wide), MAGIC_V2)
    return bytes(wide)
