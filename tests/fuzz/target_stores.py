"""Whole files: a log's end and its records, a store's dispatch, resuming, verifying, inspecting."""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
import time
import zlib
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.formats.errors import FormatError, ReputError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import Verdict, read
from reput.formats.rocketmq.encode import encode_blank
from tests.builders.stores import LOG_FILE, config_of
from tests.fuzz import corpus
from tests.fuzz.mutate import I64, fix, pack, spoil, spoil_bytes, spoil_text
from tests.fuzz.target import Tree, WrongError, keep_tree, named, same

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.settings.config import StoreConfig

_BASES = (*(0,) * 9, LOG_FILE, 1 << 40, (1 << 62) - 8 * LOG_FILE, (1 << 63) - 2 * LOG_FILE)
_PROGRESS = ".reput/progress.json"


@contextmanager
def _scratch(case: Tree) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        case.write(root)
        yield root


def _spoil_log(random: Random, files: dict[str, bytes]) -> None:
    """Damage the files of a log: records, bytes, names, sizes."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if not files:
            return
        path = random.choice(sorted(files))
        raw = files[path]
        kind = random.random()
        if kind < 0.75 and names.is_index_file(Path(path).name):
            files[path] = _spoil_record(random, raw, int(Path(path).name))
        elif kind < 0.92:
            files[path] = spoil_bytes(random, raw, resize=False)
        elif kind < 0.95:
            files[path] = spoil_bytes(random, raw)
        else:
            _move(random, files, path)


def _spoil_record(random: Random, raw: bytes, base: int) -> bytes:
    """Spoil one record of a file where it stands; what follows moves, or stays."""
    starts, at = [], 0
    while at < len(raw):
        verdict, found = read(raw, at, base + at, base + len(raw))
        if verdict != Verdict.RECORD or isinstance(found, int):
            break
        starts.append((at, found.size))
        at += found.size
    if not starts:
        return spoil_bytes(random, raw, resize=False)
    at, size = random.choice(starts)
    made = pack(spoil(random, corpus.parts_of(raw[at : at + size])), base + at)
    if random.random() < 0.4:
        made = fix(random, spoil_bytes(random, made), base + at)
    tail = raw[at + size :]
    if random.random() < 0.3:
        # What a broker would do: the file ends with a BLANK after it.
        left = len(raw) - at - len(made)
        tail = encode_blank(left) if left >= 8 else b""
    elif random.random() < 0.5:
        made = made[:size].ljust(size, b"\0")
    return (raw[:at] + made + tail)[: len(raw)].ljust(len(raw), b"\0")


_NAMES = ("0" * 20, f"{1 << 62:020d}", f"{(1 << 63) - LOG_FILE:020d}", f"{1 << 63:020d}", "9" * 20,
          "9" * 40, "x", "00000000000000004096.bak", "0" * 19, "²" * 20, "20231114221320000")  # fmt: skip


def _move(random: Random, files: dict[str, bytes], path: str) -> None:
    """Remove, rename, copy, empty a file, or make it a directory."""
    kind = random.randrange(6)
    raw = files[path]
    other = str(Path(path).parent / random.choice(_NAMES))
    if kind == 0:
        del files[path]
    elif kind == 1:
        files.pop(path)
        files[other] = raw
    elif kind == 2:
        files[other] = raw
    elif kind == 3:
        files[path] = random.choice((b"", raw[: random.randrange(len(raw) + 1)], bytes(len(raw))))
    elif kind == 4:
        swapped = random.choice(sorted(files))
        files[path], files[swapped] = files[swapped], raw
    else:
        del files[path]
        files[f"{path}/"] = b""


def _log_of(case: Tree) -> dict[str, bytes]:
    return {p: raw for p, raw in case.files.items() if p.startswith("store/commitlog/")}


def _below(files: dict[str, bytes], prefix: str) -> dict[str, bytes]:
    return {f"{prefix}/{path}": raw for path, raw in files.items()}


def _store(random: Random) -> tuple[dict[str, bytes], corpus.Sound]:
    sound = random.choice(corpus.sound_stores())
    return _below(sound.store, "store"), sound


def _damaged_log(random: Random, files: dict[str, bytes]) -> None:
    log = {p: raw for p, raw in files.items() if p.startswith("store/commitlog/")}
    for path in log:
        del files[path]
    _spoil_log(random, log)
    files.update(log)


def _options(sound: corpus.Sound) -> dict[str, Any]:
    return {"version": sound.version, "conf": sound.conf}


def _config(root: Path, options: dict[str, Any], output: str = "output") -> StoreConfig:
    conf: dict[str, str] = options["conf"]
    return config_of(root / "store", root / output, options["version"], **conf)


class _Trees:
    """A target whose batch is one tree of files."""

    name = ""

    def __init__(self) -> None:
        corpus.sound_stores()

    def make(self, random: Random) -> Tree:
        raise NotImplementedError

    def run(self, root: Path, case: Tree) -> str:
        raise NotImplementedError

    def keep(self, batch: Tree, directory: Path) -> None:
        keep_tree(batch, directory)

    def check(self, batch: Tree) -> list[str]:
        with _scratch(batch) as root:
            return [self.run(root, batch)]


class Log(_Trees):
    """The files of a log: its end, and where records begin, from anywhere in it."""

    name = "log"

    def make(self, random: Random) -> Tree:
        sound = random.choice(corpus.sound_stores())
        base = random.choice(_BASES)
        log = {}
        for path, raw in sound.store.items():
            if path.startswith("commitlog/"):
                at = int(Path(path).name)
                if base + at + LOG_FILE < 1 << 63:
                    moved = _rebased(raw, at, base) if base else raw
                    log[f"store/commitlog/{names.offset_file(base + at)}"] = moved
        if random.random() < 0.3:
            last = max(log)
            ahead = int(Path(last).name) + LOG_FILE
            log[f"store/commitlog/{names.offset_file(ahead)}"] = bytes(LOG_FILE)
        _spoil_log(random, log)
        places = [random.choice((base, 0)) + random.randrange(4 * LOG_FILE) for _ in range(6)]
        return Tree(log, {**_options(sound), "places": places})

    def run(self, root: Path, case: Tree) -> str:
        return _look_at_log(_config(root, case.options), case.options["places"])


def _rebased(raw: bytes, at: int, base: int) -> bytes:
    """Move a file's records: each names its own place."""
    data = bytearray(raw)
    i = 0
    while i + 36 <= len(raw):
        verdict, found = read(raw, i, at + i, at + len(raw))
        if verdict != Verdict.RECORD or isinstance(found, int):
            break
        data[i + 28 : i + 36] = struct.pack(">Q", base + at + i)
        i += found.size
    return bytes(data)


def _log(config: StoreConfig) -> CommitLog:
    from reput.stores.log.commitlog import CommitLog, commitlog_directories

    return CommitLog(commitlog_directories(config.path, config.settings), config.settings)


def _look_at_log_at(config: StoreConfig, places: list[int]) -> str:
    from reput.stores.log.records import read_record
    from reput.stores.log.tail import find_tail

    log = _log(config)
    try:
        for place in places:
            inside = min(max(place, log.min_offset), log.end_of_files)
            _ask(log, inside)
            read_record(log, place)
        verdict = "end"
        try:
            tail = find_tail(log)
        except FormatError:
            return "corrupt"
        if not log.min_offset <= tail.end <= log.end_of_files:
            raise WrongError(f"end {tail.end} of a log of [{log.min_offset}, {log.end_of_files})")
        _check_end(log, tail.end)
        again = find_tail(log, tail.end)
        same(again.end, tail.end, "the end, looked for from there")
        return verdict + "-" + tail.reason.name
    finally:
        log.close()


_look_at_log = named(_look_at_log_at, ReputError)


def _ask(log: CommitLog, place: int) -> None:
    try:
        log.record_before(place)
        log.timestamp_before(place)
        first = log.first_record(place)
        if first < place and any(log.read(first, 8)[128:136]):
            raise WrongError(f"the first record after {place} is at {first}")
        log.walk(log.base_of(min(place, log.end_of_files - 1)), place)
    except ReputError:
        return


def _check_end(log: CommitLog, end: int) -> None:
    """Check that records lead from the file's beginning to the end, by the slow reader."""
    base = log.base_of(end)
    if base == end or base not in log.bases:
        return
    raw = log.read(base, log.file_size)[128:-128].tobytes()
    at = 0
    while base + at < end:
        verdict, found = read(raw, at, base + at, base + log.file_size, log.settings.read_rules)
        if isinstance(found, int):
            raise WrongError(f"the end {end} is past {verdict.name} at {base + at}")
        at += found.size
    same(base + at, end, "a record's end")


class Dispatch(_Trees):
    """A damaged store into an empty output, which is then right up to its progress."""

    name = "dispatch"

    def make(self, random: Random) -> Tree:
        files, sound = _store(random)
        _damaged_log(random, files)
        config = sorted(p for p in files if p.startswith("store/config/"))
        if config and random.random() < 0.15:
            path = random.choice(config)
            files[path] = spoil_text(random, files[path].decode(), ("{}", "[]", "5")).encode(
                "utf-8", "replace"
            )
        return Tree(files, {**_options(sound), "cuts": random.choice((0, 0, 1, 2))})

    def run(self, root: Path, case: Tree) -> str:
        config = _config(root, case.options)
        verdict = _dispatched(config, case.options["cuts"])
        end = _recorded_end(config.output)
        if end is None or end < 0:
            return verdict
        _check_output(root, case, config, end)
        return verdict


def _dispatch(config: StoreConfig, cuts: int) -> str:
    from reput.stores.log.tail import find_tail
    from reput.streaming.dispatch.dispatcher import StoreDispatcher

    dispatcher = StoreDispatcher(config, threads=1)
    try:
        try:
            end = find_tail(dispatcher.log).end
            verdict = "dispatched"
        except FormatError:
            # What a job does as well: as far as it goes.
            end = dispatcher.log.end_of_files
            verdict = "up to the damage"
        begin = dispatcher.log.min_offset
        for number in range(1, cuts + 2):
            dispatcher.dispatch(begin + (end - begin) * number // (cuts + 1))
    finally:
        dispatcher.close()
    return verdict


_dispatched = named(_dispatch, ReputError)


def _recorded_end(output: Path) -> int | None:
    from reput.checkpoints import progress

    found = progress.load(output)
    return None if found is None else found.end


def _check_output(root: Path, case: Tree, config: StoreConfig, end: int) -> None:
    """Check that an output is what the log up to `end` gives: verified with a log that ends there.

    What stands after it may be damaged, so that `verify` could not read it.
    """
    from reput.streaming.verify.output import verify

    size = config.settings.commitlog_file_size
    for path, raw in _log_of(case).items():
        base = names.parse_offset_file(Path(path).name)
        if base is None or path.endswith("/") or not raw:
            continue
        if base >= end and base > 0:
            (root / path).unlink()
        else:
            keep = max(min(end - base, len(raw)), 0)
            # A BLANK, for a record that ends with a zero counts as torn where nothing follows.
            left = max(size, len(raw)) - keep
            filler = encode_blank(left) if left >= 8 and keep else bytes(left)
            (root / path).write_bytes(raw[:keep] + filler)
    log = root / "store" / names.COMMITLOG
    if end and end % size == 0 and (log / names.offset_file(end - size)).is_file():
        # A next file without a record: a log ends before the BLANK of its last file.
        following = log / names.offset_file(end)
        if following.is_dir():
            shutil.rmtree(following)
        following.write_bytes(bytes(size))
    files = log.iterdir()
    if not any(path.is_file() and path.stat().st_size for path in files):
        return
    report = verify(config)
    if not report.ok:
        raise WrongError(f"the output is not as the log says: {report.findings[:3]}")


class Recovery(_Trees):
    """An output that was damaged, opened again: refused, or resumed; and what went unnoticed."""

    name = "recovery"

    def make(self, random: Random) -> Tree:
        files, sound = _store(random)
        is_clean = random.random() < 0.5
        output = _below(sound.clean if is_clean else sound.killed, "output")
        sound_files = {**files, **output}
        for _ in range(random.choice((1, 1, 2))):
            _spoil_output(random, output)
        if random.random() < 0.15:
            # A log that has continued, was cut, or is another one.
            _damaged_log(random, files)
        touched = _kinds_of_difference(sound_files, {**files, **output})
        return Tree({**files, **output}, {**_options(sound), "touched": touched})

    def run(self, root: Path, case: Tree) -> str:
        from reput.streaming.verify.output import verify

        config = _config(root, case.options)
        verdict = _resumed(config)
        if verdict != "resumed":
            return verdict
        try:
            report = verify(config)
        except ReputError as error:
            return f"resumed, then {type(error).__name__}"
        if report.ok:
            return verdict
        return f"accepted: {'+'.join(case.options['touched'])}"


def _kinds_of_difference(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """Return which kinds of files differ: `consumequeue`, `.reput`, …"""
    every = before.keys() | after.keys()
    return sorted({path.split("/")[1] for path in every if before.get(path) != after.get(path)})


def _resume(config: StoreConfig) -> str:
    _dispatch(config, 0)
    return "resumed"


# A file where a directory should be, and the other way round, is for the system to say.
_resumed = named(_resume, ReputError, OSError)


def _spoil_output(random: Random, files: dict[str, bytes]) -> None:
    """Damage one file of an output."""
    kinds = sorted({path.split("/")[1] for path in files})
    if not kinds:
        return
    kind = random.choice(kinds)
    path = random.choice(sorted(p for p in files if p.split("/")[1] == kind))
    raw = files[path]
    chance = random.random()
    if path.endswith(_PROGRESS) and chance < 0.7:
        files[path] = _spoil_progress(random, raw)
    elif chance < 0.6 and raw:
        files[path] = spoil_bytes(random, raw, resize=random.random() < 0.3)
    else:
        _move(random, files, path)


def _spoil_progress(random: Random, raw: bytes) -> bytes:
    """Change fields of a progress record, half of the time with a CRC that is right for them."""
    head, _, rest = raw.partition(b"\n")
    try:
        values: dict[str, Any] = json.loads(b"{" + rest)
    except ValueError:
        return raw[: len(raw) // 2]
    fields = sorted(values)
    # A right CRC over values that no writer has is nobody's accident.
    is_sealed = random.random() < 0.5
    for _ in range(random.randint(1, 2)):
        field = random.choice(fields)
        if type(values.get(field)) is int:
            values[field] = random.choice((*I64, values[field] - 1, values[field] + 100))
        elif type(values.get(field)) is bool:
            values[field] = not values[field]
        elif not is_sealed:
            values[field] = random.choice((None, [], {}, "", "x", 5, True, [1]))
    rest = json.dumps(values)[1:].encode()
    if is_sealed:
        head = b'{"crc": %d,' % zlib.crc32(rest)
    return head + b"\n" + rest


class Verify(_Trees):
    """`verify` of damaged stores and outputs: a report or a named error."""

    name = "verify"

    def make(self, random: Random) -> Tree:
        files, sound = _store(random)
        output = _below(sound.clean if random.random() < 0.7 else sound.killed, "output")
        for _ in range(random.choice((1, 1, 2, 4))):
            _spoil_output(random, output)
        if random.random() < 0.2:
            _damaged_log(random, files)
        is_own = random.random() < 0.2
        if is_own:
            output = {path.replace("output/", "store/", 1): raw for path, raw in output.items()}
            output = {path: raw for path, raw in output.items() if "/.reput/" not in path}
        return Tree({**files, **output}, {**_options(sound), "own": is_own})

    def run(self, root: Path, case: Tree) -> str:
        from reput.streaming.settings.config import store_config
        from tests.builders.stores import SMALL

        options = case.options
        config = _config(root, options)
        if options["own"]:
            conf = {**SMALL, **options["conf"]}
            version = options["version"]
            config = store_config(
                root / "store", None, broker_version=version, broker_conf=conf, in_place=True
            )
        return _verified(config)


def _verify(config: StoreConfig) -> str:
    from reput.streaming.verify.output import verify

    report = verify(config)
    for finding in report.findings:
        str(finding)
    return "nothing found" if report.ok else "found"


_verified = named(_verify, ReputError, OSError)


class Inspect(_Trees):
    """`reput inspect` of each file of a damaged store, and finding messages by key in it."""

    name = "inspect"

    def make(self, random: Random) -> Tree:
        files, sound = _store(random)
        output = _below(sound.clean, "output")
        for _ in range(3):
            _spoil_output(random, output)
        _damaged_log(random, files)
        every = {**files, **output}
        paths = random.sample(sorted(every), min(len(every), 12))
        asks = [
            (path, random.choice((0, 1, 5, *I64)), random.choice((None, 0, 3)), random.random())
            for path in paths
        ]
        return Tree(every, {**_options(sound), "asks": asks})

    def check(self, batch: Tree) -> list[str]:
        with _scratch(batch) as root:
            config = _config(root, batch.options)
            verdicts = [
                _inspected(root / path, path, config, first, limit, chance)
                for path, first, limit, chance in batch.options["asks"]
            ]
            verdicts.append(_looked_up(config))
            return verdicts


def _inspect(
    path: Path, name: str, config: StoreConfig, first: int, limit: int | None, chance: float
) -> str:
    from reput.stores.inspect import files as inspect
    from reput.stores.inspect.printable import printable

    settings = config.settings
    kind = name.split("/")[1]
    if chance < 0.3:
        path = path.parent
    if chance < 0.1 or kind in {names.COMMITLOG, "config"}:
        found = inspect.inspect_commitlog(path, settings, first, limit)
    elif kind == names.INDEX:
        shows_slots = chance < 0.5
        found = inspect.inspect_index(path, settings, first, limit, shows_slots=shows_slots)
    elif kind == names.CONSUMEQUEUE_EXT:
        found = inspect.inspect_ext(path, first, limit)
    elif kind == names.BATCH_CONSUMEQUEUE:
        found = inspect.inspect_batch(path, first, limit)
    elif kind == names.CONSUMEQUEUE:
        found = inspect.inspect_consumequeue(path, first, limit)
    else:
        found = inspect.inspect_checkpoint(path)
    count = 0
    for row in found.rows:
        printable(str(row))
        count += 1
    printable(str(found.facts))
    return f"{kind} rows" if count else f"{kind} empty"


_inspected = named(_inspect, ReputError, OSError)


def _look_up(config: StoreConfig) -> str:
    from reput.stores.query.message_store import MessageStore

    with MessageStore.open(config.path, config.output, config.settings) as store:
        found = sum(len(store.by_key("orders", key).messages) for key in ("k1", "k2", "k3"))
        for topic in store.topics():
            for queue_id in store.queue_ids(topic):
                for offset in (0, 1, 5):
                    found += len(store.pull(topic, queue_id, offset).messages)
                    store.offset_by_time(topic, queue_id, 1_700_000_000_000 + offset)
        start = store.first_since(1_700_000_000_000)
        if start is not None:
            found += sum(1 for _ in store.records_from(start))
    return "found" if found else "not found"


_looked_up = named(_look_up, ReputError, OSError)


def without_waiting() -> None:
    """Let nothing wait for a disk or a writer: neither is under test here."""

    def at_once(_what: Any) -> None:
        return

    for module, name in ((time, "sleep"), (os, "fsync"), (os, "fdatasync")):
        setattr(module, name, at_once)
    # Of the disk's own calls those that make things durable and change nothing else.
    disk = import_module("reput.checkpoints.disk.changes")
    for name in ("sync_memory", "sync_directory", "sync_file_system"):
        if hasattr(disk, name):
            setattr(disk, name, lambda *_arguments: None)
