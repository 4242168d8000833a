"""Records: the kernels that walk, scan and show them against their readable twins."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numba import njit

from reput.formats.java import strings
from reput.formats.kernels import crc, frames, scan
from reput.formats.kernels import java as java_kernels
from reput.formats.kernels import properties as property_kernels
from reput.formats.kernels.properties import MASK_WIDTH
from reput.formats.kernels.routes import SCHEDULE
from reput.formats.rocketmq import commitlog, consumequeue, properties
from reput.formats.rocketmq.batchconsumequeue import inner_batch
from reput.formats.rocketmq.commitlog import (
    ACCEPT_V2,
    CHECK_BODY_CRC,
    CHECK_PROPERTY_CRC,
    MAGIC_BLANK,
    MIN_SIZE,
    PARSE_BATCHES,
    REQUIRE_PROPERTY_CRC,
    ReadRules,
    Record,
    Verdict,
)
from reput.formats.rows import columns as rows
from reput.formats.rows import texts
from reput.sinks.routes import RouteTable
from tests.fuzz import corpus, guard, mutate
from tests.fuzz.mutate import fix, pack, spoil, spoil_bytes
from tests.fuzz.target import same

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

_ROOM = 1 << 18
_DELAYS = (1000, 5000, 10_000, 1 << 40)
_POSITIONS = (0, 0, 4096, 1 << 30, (1 << 31) - 50, 1 << 40, (1 << 62) - 4096)


def _rules(number: int) -> ReadRules:
    return ReadRules(
        accepts_v2=bool(number & ACCEPT_V2),
        checks_body_crc=bool(number & CHECK_BODY_CRC),
        checks_property_crc=bool(number & CHECK_PROPERTY_CRC),
        requires_property_crc=bool(number & REQUIRE_PROPERTY_CRC),
        parses_batches=bool(number & PARSE_BATCHES),
    )


def _draw(random: Random, position: int, most: int = 3) -> bytes:
    pool = corpus.records() if random.random() < 0.8 else corpus.golden_records()
    raw = pack(spoil(random, random.choice(pool), most), position)
    if random.random() < 0.3:
        raw = spoil_bytes(random, raw)
        if random.random() < 0.8:
            raw = fix(random, raw, position)
    return raw


class Frame(NamedTuple):
    """Bytes to look for a record in."""

    raw: bytes
    at: int
    position: int
    file_end: int
    rules: int
    at_end: bool


class Frames:
    """`frames.check`, `hop` and `find_record` against `commitlog.read`; nothing is read beyond."""

    name = "frames"

    def __init__(self) -> None:
        self._arena = guard.Arena(_ROOM)

    def make(self, random: Random) -> list[Frame]:
        batch = []
        for _ in range(32):
            at = random.choice((0, 0, 0, random.randrange(40)))
            position = random.choice(_POSITIONS)
            raw = random.randbytes(at) + _draw(random, position)
            left = random.choice((*(len(raw) - at,) * 4, *(1 << 20,) * 4, 4096, 8, 0))
            if random.random() < 0.1:
                raw = raw[:at] + struct.pack(">ii", left, MAGIC_BLANK)[: random.randint(0, 8)]
            rules = random.choice((15, 7, 5, 4, 1, 0, random.randrange(16)))
            batch.append(Frame(raw, at, position, position + left, rules, random.random() < 0.7))
        return batch

    def keep(self, batch: list[Frame], directory: Path) -> None:
        keep_lines(batch, directory)

    def check(self, batch: list[Frame]) -> list[str]:
        return [self._check(frame) for frame in batch]

    def _check(self, frame: Frame) -> str:
        raw, at, position, file_end, rules, at_end = frame
        data = self._arena.hold(raw, at_end=at_end)
        found = frames.check(data, at, len(raw), position, file_end, rules)
        verdict, record = commitlog.read(raw, at, position, file_end, _rules(rules))
        same(Verdict(found[0]), verdict, "verdict")
        if isinstance(record, Record):
            self._compare(frame, found, record)
        elif verdict != Verdict.END:
            same(found[1], record, f"size of {verdict.name}")
        hopped = frames.hop(data, at, len(raw), position, file_end, rules, file_end, 1)
        size = found[1]
        wanted = (verdict, position, 0)
        if position >= file_end:
            wanted = (Verdict.RECORD, position, 0)
        elif verdict == Verdict.RECORD:
            wanted = (Verdict.RECORD, position + size, 1)
        same(tuple(map(int, hopped)), tuple(map(int, wanted)), "hop")
        self._find(frame, data)
        return verdict.name

    @staticmethod
    def _compare(frame: Frame, found: tuple[int, ...], record: Record) -> None:
        raw = frame.raw
        _, size, timestamp_at, body_at, body_length, topic_at, topic_length, properties_at = found
        same(size, record.size, "size")
        same(struct.unpack_from(">q", raw, timestamp_at)[0], record.store_timestamp, "timestamp")
        same(raw[body_at : body_at + body_length], record.body, "body")
        same(strings.decode(raw[topic_at : topic_at + topic_length]), record.topic, "topic")
        inside = raw[properties_at : frame.at + size]
        same(properties.parse(inside), record.properties, "properties")

    @staticmethod
    def _find(frame: Frame, data: Any) -> None:
        raw, at, position, file_end, rules, _ = frame
        origin = position - at
        found = int(frames.find_record(data, at, len(raw), position, file_end, rules, len(raw)))
        # What is found is what the twin would take for one, and the first of its kind.
        for i in range(at, len(raw) if found == frames.NO_POSITION else found + 1):
            if raw[i + 4 : i + 5] not in {b"\xda", b"\xcb"}:
                seems = False
            else:
                verdict, _ = commitlog.read(raw, i, origin + i, file_end, _rules(rules))
                seems = verdict in {Verdict.RECORD, Verdict.ROLL}
                if verdict == Verdict.SHORT and i + MIN_SIZE <= len(raw):
                    seems = struct.unpack_from(">q", raw, i + 28)[0] == origin + i
            same(seems, i == found, f"a record at {i}")


class Chain(NamedTuple):
    """Records in a row as they stand in a file, some of them spoilt, with junk around them."""

    raw: bytes
    starts: tuple[int, ...]
    position: int
    file_end: int
    rules: int
    wide: bool
    versions: tuple[bool, bool, bool]


def _chain(random: Random, before: int, behind: int) -> Chain:
    position = random.choice(_POSITIONS)
    raw = bytearray(random.randbytes(before))
    starts = []
    for _ in range(random.randint(8, 40)):
        starts.append(len(raw))
        raw += _draw(random, position + len(raw) - before, random.choice((0, 1, 2, 3)))
    end = len(raw) - before
    # Junk that would continue with the properties, if a kernel looked at it.
    raw += random.choice((bytes(behind), b"\x01\x02" * behind, b"TAGS\x01x\x02" * behind))[:behind]
    rules = random.choice((5, 5, 4, 7, 1, 20, 21))
    file_end = position + end + random.choice((0, 8, 100_000))
    flags = (random.random() < 0.9, random.random() < 0.5, random.random() < 0.5)
    wide = random.random() < 0.9
    return Chain(bytes(raw), tuple(starts), position, file_end, rules, wide, flags)


class Scan:
    """`scan.scan` over chains of records against `scan.describe` of each."""

    name = "scan"

    def __init__(self) -> None:
        self._arena = guard.Arena(_ROOM << 3)
        self._wide = self._columns(64, 1 << 17)
        self._narrow = self._columns(3, 17_000)
        self._delays = np.array(_DELAYS, np.int64)
        self._fresh()

    @staticmethod
    def _columns(records: int, keys: int) -> scan.Columns:
        plain = scan.Columns.of(records, keys)
        return scan.Columns(*(guard.zeros(len(c), c.dtype) for c in plain))

    def _fresh(self) -> None:
        self._routes = RouteTable(4)
        self._queues: dict[tuple[str, int], int] = {}

    def make(self, random: Random) -> Chain:
        return _chain(random, scan.PADDING, scan.PADDING)

    def keep(self, batch: Chain, directory: Path) -> None:
        keep_lines([batch], directory)

    def check(self, batch: Chain) -> list[str]:
        data = self._arena.hold(batch.raw)
        if len(self._queues) > 300:
            self._fresh()
        columns = self._wide if batch.wide else self._narrow
        verdicts: list[str] = []
        done = 0
        at = batch.starts[0]
        first = 0
        while True:
            verdict, at, count = self._scan(batch, data, at, columns, first)
            verdicts += self._compare(batch, columns, done, count)
            done = count
            if verdict == Verdict.FULL:
                first = done = 0
                continue
            if verdict == Verdict.UNKNOWN_QUEUE:
                self._add(batch, data, at)
                first = done
                continue
            if verdict == Verdict.RECORD:
                break
            verdicts.append(self._judge(batch, at, verdict))
            following = [start for start in batch.starts if start > at]
            if not following:
                break
            at = following[0]
            first = done = 0
        return verdicts

    def _scan(
        self, batch: Chain, data: Any, at: int, columns: scan.Columns, first: int
    ) -> tuple[Verdict, int, int]:
        limit = len(batch.raw) - scan.PADDING
        verdict, reached, count = scan.scan(
            data,
            at,
            limit,
            limit,
            batch.position - scan.PADDING,
            batch.file_end,
            batch.rules,
            first,
            *self._routes.arrays,
            self._delays,
            *batch.versions,
            *cast("tuple[Any, ...]", columns),
        )
        return Verdict(verdict), int(reached), int(count)

    def _add(self, batch: Chain, data: Any, at: int) -> None:
        limit = len(batch.raw) - scan.PADDING
        origin = batch.position - scan.PADDING
        parts = frames.check(data, at, limit, origin + at, batch.file_end, batch.rules)
        topic = batch.raw[parts[5] : parts[5] + parts[6]]
        (queue_id,) = struct.unpack_from(">i", batch.raw, at + 12)
        number = self._queues.setdefault((strings.decode(topic), queue_id), len(self._queues))
        kind = SCHEDULE if strings.decode(topic) == consumequeue.SCHEDULE_TOPIC else 0
        self._routes.add(topic, queue_id, number, kind)

    def _read(self, batch: Chain, at: int) -> tuple[Verdict, Record | int]:
        limit = len(batch.raw) - scan.PADDING
        position = batch.position - scan.PADDING + at
        return commitlog.read(batch.raw[:limit], at, position, batch.file_end, _rules(batch.rules))

    def _judge(self, batch: Chain, at: int, verdict: Verdict) -> str:
        wanted, record = self._read(batch, at)
        if verdict not in {Verdict.BAD_DELAY, Verdict.BAD_BATCH}:
            same(verdict, wanted, "verdict")
            return verdict.name
        assert isinstance(record, Record)
        if verdict == Verdict.BAD_BATCH:
            parsed = bool(batch.rules & PARSE_BATCHES)
            named = {"INNER_BASE", "INNER_NUM"} <= record.properties.keys()
            same((parsed, named), (True, True), "batch")
            try:
                inner_batch(record.properties)
            except ValueError:
                return "BAD_BATCH"
            return "SLOW_BATCH"
        level = record.properties["DELAY"]
        plain = level.isascii() and level.isdigit() and len(level) <= 9
        same((record.topic, plain), (consumequeue.SCHEDULE_TOPIC, False), "delay")
        try:
            row = scan.describe(record, _DELAYS, tag_entries=batch.versions[1])
        except ValueError:
            return "BAD_DELAY"
        # What the pipeline puts into its columns has to fit there.
        self._narrow.tags_code[0] = row.tags_code
        return "SLOW_DELAY"

    def _compare(self, batch: Chain, columns: scan.Columns, first: int, count: int) -> list[str]:
        key = int(columns.key_end[first - 1]) if first else 0
        for i in range(first, count):
            at = int(columns.physical_offset[i]) - batch.position + scan.PADDING
            verdict, record = self._read(batch, at)
            assert isinstance(record, Record), verdict
            row = scan.describe(
                record,
                _DELAYS,
                tag_entries=batch.versions[1],
                parses_batches=bool(batch.rules & PARSE_BATCHES),
            )
            end = int(columns.key_end[i])
            found = scan.Row(
                int(columns.physical_offset[i]),
                int(columns.size[i]),
                int(columns.queue_offset[i]),
                int(columns.tags_code[i]),
                int(columns.store_timestamp[i]),
                int(columns.sys_flag[i]),
                columns.key_hash[key:end].tolist(),
            )
            wanted = row if batch.versions[0] else row._replace(key_hashes=[])
            same(found, wanted, "row")
            number = self._queues[record.topic, record.queue_id]
            same(int(columns.queue[i]), number, "queue")
            inner = any(n.startswith("INNE") and len(n.encode()) >= 9 for n in record.properties)
            same(bool(columns.special[i]), batch.versions[2] and inner, "special")
            key = end
        return ["RECORD"] * (count - first)


class Rows:
    """`columns.read_rows` over chains of records against `columns.describe`, and the texts' kernels."""

    name = "rows"

    def __init__(self) -> None:
        self._arena = guard.Arena(_ROOM << 3)
        self._sets = [self._columns(64, 5000), self._columns(3, 66)]

    @staticmethod
    def _columns(count: int, properties_count: int) -> rows.RowColumns:
        def guarded(column: Any) -> Any:
            if isinstance(column, texts.Slices):
                return texts.Slices(*(guard.zeros(len(part), part.dtype) for part in column))
            return guard.zeros(len(column), column.dtype)

        plain = rows.RowColumns.of(count, properties_count)
        made: tuple[Any, ...] = tuple(guarded(column) for column in plain)
        return rows.RowColumns(*made)

    def make(self, random: Random) -> Chain:
        return _chain(random, 0, MASK_WIDTH)

    def keep(self, batch: Chain, directory: Path) -> None:
        keep_lines([batch], directory)

    def check(self, batch: Chain) -> list[str]:
        data = self._arena.hold(batch.raw)
        columns = self._sets[0 if batch.wide else 1]
        limit = len(batch.raw) - MASK_WIDTH
        verdicts: list[str] = []
        at = 0
        while True:
            found, at, count = rows.read_rows(
                data, at, limit, limit, batch.position, batch.file_end, batch.rules, columns
            )
            verdict = Verdict(found)
            verdicts += [self._compare(batch, columns, row) for row in range(count)]
            self._texts(batch, data, columns, count)
            if verdict == Verdict.RECORD:
                return verdicts
            if verdict == Verdict.FULL:
                if count == 0:
                    # One record's properties fit into the narrow set: it has room for them.
                    same(at, None, "progress")
                continue
            wanted, _ = commitlog.read(
                batch.raw[:limit], at, batch.position + at, batch.file_end, _rules(batch.rules)
            )
            same(verdict, wanted, "verdict")
            verdicts.append(verdict.name)
            following = [start for start in batch.starts if start > at]
            if not following:
                return verdicts
            at = following[0]

    @staticmethod
    def _compare(batch: Chain, columns: rows.RowColumns, row: int) -> str:
        at = int(columns.physical_offset[row]) - batch.position
        limit = len(batch.raw) - MASK_WIDTH
        verdict, record = commitlog.read(
            batch.raw[:limit], at, batch.position + at, batch.file_end, _rules(batch.rules)
        )
        assert isinstance(record, Record), verdict
        raw = batch.raw[at : at + record.size]
        wanted = rows.describe(record, raw)

        def piece(slices: texts.Slices, i: int = row) -> bytes:
            start = int(slices.at[i])
            return batch.raw[start : start + int(slices.length[i])]

        for name in ("size", "queue_id", "queue_offset", "flag", "sys_flag", "born_timestamp",
                     "store_timestamp", "reconsume_times", "prepared_transaction_offset"):  # fmt: skip
            same(int(getattr(columns, name)[row]), getattr(record, name), name)
        same(int(columns.body_crc[row]), wanted.body_crc, "body_crc")
        same(piece(columns.body), record.body, "body")
        topic, inside = piece(columns.topic), piece(columns.raw_properties)
        same(strings.decode(topic), record.topic, "topic")
        same(properties.parse(inside), record.properties, "properties")
        is_text = _is_text(topic) and _is_text(inside)
        if columns.needs_decoding[row]:
            many = len(record.properties) >= rows.MANY_PROPERTIES
            same(is_text and not many, False, "decoding")
            return "ODD"
        same(is_text, True, "UTF-8")
        first = int(columns.property_end[row - 1]) if row else 0
        found = {
            piece(columns.names, i).decode(): piece(columns.values, i).decode()
            for i in range(first, int(columns.property_end[row]))
        }
        same(list(found.items()), list(record.properties.items()), "map")
        for slices, text in (
            (columns.tags, wanted.tags),
            (columns.keys, wanted.keys),
            (columns.uniq_key, wanted.uniq_key),
        ):
            same(piece(slices).decode(), text or "", "a property of its own")
        return "RECORD"

    @staticmethod
    def _texts(batch: Chain, data: Any, columns: rows.RowColumns, count: int) -> None:
        if count == 0:
            return
        hosts = texts.Slices(columns.store_host.at[:count], columns.store_host.length[:count])
        ends = guard.zeros(count, np.int32)
        ends[:] = np.cumsum(2 * (hosts.length + 8))
        out = guard.zeros(int(ends[-1]), np.uint8)
        texts.write_message_ids(data, hosts, columns.physical_offset, ends, out)
        wanted = b"".join(
            (batch.raw[int(a) : int(a) + int(n)] + int(offset).to_bytes(8, "big"))
            .hex()
            .upper()
            .encode()
            for a, n, offset in zip(hosts.at, hosts.length, columns.physical_offset, strict=False)
        )
        same(out.tobytes(), wanted, "message ids")
        bodies = texts.Slices(columns.body.at[:count], columns.body.length[:count])
        ends[:] = np.cumsum(bodies.length)
        out = guard.zeros(int(ends[-1]), np.uint8)
        texts.gather(data, bodies, ends, out)


@njit(cache=False)
def _crc32(data: Any, length: int) -> int:
    return crc.crc32(data, 0, length)


class Piece(NamedTuple):
    """Bytes of a text, and what stands after them."""

    raw: bytes
    behind: bytes
    state: int


class Texts:
    """Bytes as text: the kernels for UTF-8, Java's hash and properties against Python's."""

    name = "texts"

    def __init__(self) -> None:
        self._arena = guard.Arena(_ROOM)
        self._names = texts.Slices(guard.zeros(70, np.int64), guard.zeros(70, np.int32))
        self._values = texts.Slices(guard.zeros(70, np.int64), guard.zeros(70, np.int32))

    def make(self, random: Random) -> list[Piece]:
        batch = []
        for _ in range(32):
            raw = random.choice((mutate.soup, mutate.pairs))(random)
            if random.random() < 0.5:
                raw = spoil_bytes(random, raw, 2)
            behind = random.choice((bytes(MASK_WIDTH), b"\x01a\x02" * MASK_WIDTH, b"\xbf" * 64))
            batch.append(Piece(raw, behind[:MASK_WIDTH], random.getrandbits(32)))
        return batch

    def keep(self, batch: list[Piece], directory: Path) -> None:
        keep_lines(batch, directory)

    def check(self, batch: list[Piece]) -> list[str]:
        return [self._check(piece) for piece in batch]

    def _check(self, piece: Piece) -> str:
        raw, length = piece.raw, len(piece.raw)
        bare = self._arena.hold(raw)
        is_text = _is_text(raw)
        same(bool(texts.is_utf8(bare, 0, length)), is_text, "UTF-8")
        text = strings.decode(raw)
        hashed = int(np.uint32(java_kernels.hash_utf8(np.uint32(0), bare, 0, length)))
        same(hashed, strings.hash_code(text) & 0xFFFFFFFF, "hash")
        same(int(_crc32(bare, length)), zlib.crc32(raw), "CRC")
        data = self._arena.hold(raw + piece.behind)
        wanted = properties.parse(raw)
        found = property_kernels.find(data, 0, length)
        for i, name in enumerate((properties.TAGS, properties.KEYS, properties.UNIQ_KEY, "DELAY")):
            at, size = int(found[2 * i]), int(found[2 * i + 1])
            same(strings.decode(raw[at : at + size]), wanted.get(name, ""), name)
        same(bool(found[9]), raw.isascii(), "ASCII")
        end, is_ascii = rows.split_properties(data, 0, length, 0, self._names, self._values)
        if end < 0:
            # Names that differ as bytes may be one as text, where they are malformed.
            same(len(wanted) >= rows.MANY_PROPERTIES or not is_text, True, "very many")
            return "MANY"
        same(bool(is_ascii), raw.isascii(), "ASCII")
        if not is_text:
            return "MALFORMED"
        pairs = [
            tuple(
                raw[int(s.at[i]) : int(s.at[i]) + int(s.length[i])].decode()
                for s in (self._names, self._values)
            )
            for i in range(end)
        ]
        same(pairs, list(wanted.items()), "properties")
        return "TEXT"


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def keep_lines(batch: list[Any], directory: Path) -> None:
    """Write a batch of values down, one a line."""
    directory.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{case!r}\n" for case in batch)
    (directory / "cases.txt").write_text(text, "utf-8")
