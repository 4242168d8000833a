"""The index of a broker that was upgraded: its older part has no items for tags, and is right."""

from __future__ import annotations

import random
import shutil
import struct
from dataclasses import replace
from typing import NamedTuple

import pytest

from reput.checkpoints import progress
from reput.formats.errors import UsageError
from reput.formats.rocketmq import indexfile, names
from reput.formats.rocketmq.commitlog import ROLLBACK, TRANSACTION_TYPE
from reput.formats.rocketmq.indexfile import FIRST_ITEM, ITEM_STRUCT, Header
from reput.sinks.files.index import IndexSink
from reput.sinks.files.queues import QueueDirectory
from reput.stores.findings import Kind
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.streaming.dispatch.blocks.pipeline import Pipeline
from reput.streaming.dispatch.dispatcher import rebuild
from reput.streaming.endings.verdict import Verdict, verdict_of
from reput.streaming.settings.config import store_config
from reput.streaming.verify.output import verify
from tests.builders.stores import ITEMS, LOG_FILE, SLOTS, SMALL, Log, fill

OLDER, NEWER = "5.3", "5.5"
_INDEX_TIMESTAMP = 2


class Part(NamedTuple):
    """Records that a broker has indexed: of a version, from and to a number."""

    version: str
    first: int
    end: int


class Upgraded:
    """A broker's own store, its index written part by part by our kernels."""

    def __init__(self, root, seed=1, count=400, **conf):
        self.log = fill(Log(), seed, count)
        self.store = self.log.write(root / "store")
        self.conf = {**SMALL, **conf}
        self.staging = root / "staging"
        self.staging.mkdir()
        rebuild(self.store, root / "out", broker_version=NEWER, broker_conf=self.conf)
        for part in (names.CONSUMEQUEUE, names.CHECKPOINT):
            (root / "out" / part).rename(self.store / part)
        with (self.store / names.CHECKPOINT).open("r+b") as file:
            file.seek(8 * _INDEX_TIMESTAMP)
            file.write(bytes(8))

    def config(self, version=NEWER):
        return store_config(
            self.store, None, in_place=True, broker_version=version, broker_conf=self.conf
        )

    def index(self, *parts):
        """Write the index; `Part.end` of the last record is the number of records."""
        shutil.rmtree(self.store / names.INDEX, ignore_errors=True)
        sink = IndexSink(self.store, self.staging, self.config().settings)
        for part in parts:
            settings = self.config(part.version).settings
            # All records can be read by the newest one's rules.
            settings = replace(self.config().settings, version=settings.version)
            log = CommitLog(commitlog_directories(self.store, settings), settings, self.store)
            pipeline = Pipeline(log, QueueDirectory(lambda _: False), settings, threads=1)
            for block in pipeline.blocks(self.position(part.first), self.position(part.end)):
                sink.write(block)
            pipeline.close()
            log.close()
        sink.flush()
        sink.finish(writes_first_count=True)
        sink.close()
        return self

    def position(self, number):
        places = self.log.places
        return places[number].position if number < len(places) else places[-1].end

    @property
    def count(self):
        return len(self.log.places)

    @property
    def files(self):
        return sorted((self.store / names.INDEX).iterdir())

    def tagged(self, first, end=None):
        """Return the numbers of the records with a tag, and with items."""
        return [
            number
            for number, place in enumerate(self.log.places[:end])
            if number >= first
            and place.message.properties.get("TAGS")
            and place.message.sys_flag & TRANSACTION_TYPE != ROLLBACK
        ]


def notes(report, kind):
    return [note for note in report.notes if note.kind == kind]


def said(report):
    (note,) = notes(report, Kind.MISSING)
    return note


@pytest.fixture
def upgraded(tmp_path):
    """Return a function that makes a store."""

    def make(seed=1, count=400, **conf):
        return Upgraded(tmp_path, seed, count, **conf)

    return make


def sound(store, version=NEWER):
    report = verify(store.config(version))
    assert report.findings == []
    assert verdict_of(report) == Verdict.SOUND
    return report


class TestSound:
    @pytest.mark.parametrize("items", [ITEMS, 5000], ids=["many files", "one file"])
    @pytest.mark.parametrize("number", [5, 6, 7, 40, 128, 200, 399])
    def test_each_part_is_compared_by_its_rule(self, upgraded, number, items):
        """
        Wherever the broker was upgraded: nothing is found, and one note says where that was.
        """
        store = upgraded(maxIndexNum=str(items))
        store.index(Part(OLDER, 0, number), Part(NEWER, number, store.count))

        note = said(sound(store))

        first = store.tagged(number)
        where = store.position(first[0]) if first else store.log.end
        assert f"up to physical offset {where}, the index has no items for tags" in note.detail
        assert "brokers before 5.4" in note.detail

    def test_the_note_names_the_first_item_by_the_later_rule(self, upgraded):
        store = upgraded()
        store.index(Part(OLDER, 0, 200), Part(NEWER, 200, store.count))

        note = said(sound(store))

        (path,) = [path for path in store.files if str(path) == note.path]
        item = ITEM_STRUCT.unpack_from(path.read_bytes(), note.position)
        assert item[1] == store.position(store.tagged(200)[0])

    @pytest.mark.parametrize("seed", range(8))
    def test_records_that_are_indexed_again_by_the_newer_version(self, upgraded, seed):
        """
        A broker that did not stop in order indexes its last records again: with tags, where they
        had been indexed without.
        """
        pick = random.Random(seed)
        store = upgraded(seed, maxIndexNum=str(pick.choice([ITEMS, 50, 5000])))
        for _ in range(5):
            end = pick.randrange(50, 350)
            parts = [Part(OLDER, 0, end)]
            if pick.random() < 0.5:
                # The older version did so before, and was killed again.
                back = pick.randint(1, 9)
                parts.append(Part(OLDER, end - back, end - pick.randrange(back)))
            back = parts[-1].end - pick.randint(1, 9)
            store.index(*parts, Part(NEWER, back, store.count))

            report = sound(store)

            assert said(report)
            for note in notes(report, Kind.SURPLUS):
                assert "indexed again" in note.detail

    def test_nothing_since_but_the_checkpoint(self, upgraded):
        """
        The newer broker has written its checkpoint, which only it can, and no items yet.
        """
        store = upgraded()
        store.index(Part(OLDER, 0, store.count))

        assert f"up to physical offset {store.log.end}" in said(sound(store)).detail

    @pytest.mark.parametrize("expired", [1, 5, 9, 12])
    def test_after_records_have_expired(self, upgraded, expired):
        """
        Expired records cannot be compared; the note is there as long as any is by the older rule.
        """
        store = upgraded()
        store.index(Part(OLDER, 0, 200), Part(NEWER, 200, store.count))
        logs = sorted((store.store / names.COMMITLOG).iterdir())
        floor = expired * LOG_FILE
        for path in logs[:expired]:
            path.unlink()
        # Without their index files, as far as a broker has removed them.
        ends = {path: Header.unpack(path.read_bytes()).end_offset for path in store.files}
        for path, end in ends.items():
            if end < floor:
                path.unlink()

        report = verify(store.config())

        paths = {finding.path for finding in report.findings}
        assert not any(f"/{names.INDEX}/" in path for path in paths)
        older = [n for n in store.tagged(0, 200) if store.position(n) >= floor]
        assert len(notes(report, Kind.MISSING)) == (len(older) > 0)

    def test_beside_a_place_that_cannot_be_read(self, upgraded):
        """
        Items of records in it count as unverifiable, on either side.
        """
        store = upgraded()
        store.index(Part(OLDER, 0, 200), Part(NEWER, 200, store.count))
        logs = sorted((store.store / names.COMMITLOG).iterdir())
        for path in (logs[3], logs[-4]):
            path.unlink()

        report = verify(store.config())

        assert report.findings == []
        assert report.unverifiable > 0
        assert said(report)

    def test_a_broker_that_was_put_back_to_an_older_version(self, upgraded):
        """
        Items for tags up to a place, and none after it: the same the other way round.
        """
        store = upgraded()
        store.index(Part(NEWER, 0, 200), Part(OLDER, 195, store.count))
        with (store.store / names.CHECKPOINT).open("r+b") as file:
            file.seek(40)
            file.write(bytes(8))

        report = sound(store, OLDER)

        last = store.position(store.tagged(0, 200)[-1])
        [what] = [n.detail for n in notes(report, Kind.SURPLUS) if "tags" in n.detail]
        assert f"up to physical offset {last + 1}, the index has items for tags" in what


class TestFindings:
    @pytest.fixture
    def store(self, upgraded):
        return upgraded(maxIndexNum="50")

    @pytest.mark.parametrize("number", [201, 260, 399])
    def test_an_item_for_a_tag_that_is_missing_after_the_place(self, store, number):
        missing = store.tagged(number)[0] if store.tagged(number) else store.tagged(0)[-1]
        assert missing > store.tagged(200)[0]
        store.index(
            Part(OLDER, 0, 200),
            Part(NEWER, 200, missing),
            Part(OLDER, missing, missing + 1),
            Part(NEWER, missing + 1, store.count),
        )

        report = verify(store.config())

        assert report.findings
        assert said(report)

    @pytest.mark.parametrize("number", [0, 1, 60, 150])
    def test_an_item_for_a_tag_before_the_place(self, store, number):
        surplus = store.tagged(number)[0]
        store.index(
            Part(OLDER, 0, surplus),
            Part(NEWER, surplus, surplus + 1),
            Part(OLDER, surplus + 1, 200),
            Part(NEWER, 200, store.count),
        )

        report = verify(store.config())

        assert report.findings
        assert said(report)

    def test_any_byte_of_any_item(self, store):
        """
        One byte that differs is found, before the place, at it and after it.
        """
        store.index(Part(OLDER, 0, 200), Part(NEWER, 200, store.count))
        place = said(sound(store))
        pick = random.Random(3)
        wheres = [(path, None) for path in store.files for _ in range(2)]
        near = [path for path in store.files if str(path) == place.path]
        wheres += [(near[0], place.position + at) for at in range(-20, 40, 3)]
        for path, at in wheres:
            data = path.read_bytes()
            begin, end = (
                indexfile.item_position(number, SLOTS)
                for number in (FIRST_ITEM, Header.unpack(data).next_item)
            )
            byte = pick.randrange(begin, end) if at is None else at
            if not begin <= byte < end:
                continue
            changed = bytearray(data)
            changed[byte] ^= pick.randrange(1, 256)
            path.write_bytes(changed)

            assert verify(store.config()).found, (path, byte)

            path.write_bytes(data)

    def test_records_without_items_at_the_place(self, store):
        store.index(Part(OLDER, 0, 190), Part(NEWER, 205, store.count))

        assert Kind.MISSING in {finding.kind for finding in verify(store.config()).findings}

    def test_without_any_tag_and_a_newer_checkpoint_the_version_is_wrong(self, store):
        """
        Then the version is wrong, as before.
        """
        store.index(Part(OLDER, 0, store.count))
        (store.store / names.CHECKPOINT).write_bytes(
            struct.pack(">6q", 1, 1, 0, 0, 0, 0) + bytes(4048)
        )

        with pytest.raises(UsageError, match=r"give --broker-version 4\.9 or 5\.3"):
            verify(store.config())

    def test_the_older_version_is_refused(self, store):
        """
        What was written last names the version that the store is verified with.
        """
        store.index(Part(OLDER, 0, 200), Part(NEWER, 200, store.count))

        for version in ("4.9", "5.3"):
            with pytest.raises(UsageError, match=r"give --broker-version 5\.5"):
                verify(store.config(version))

    def test_our_own_output_is_of_one_version(self, store, tmp_path):
        """
        It is held to the version in its record, and so is each byte.
        """
        store.index(Part(OLDER, 0, 200), Part(NEWER, 200, store.count))
        output = tmp_path / "out-of-one"
        config = replace(store.config(), output=output, in_place=False)
        rebuild(store.store, output, broker_version=NEWER, broker_conf=store.conf)
        assert (output / names.STATE / progress.FILE_NAME).exists()
        assert verify(config).findings == []
        shutil.rmtree(output / names.INDEX)
        shutil.copytree(store.store / names.INDEX, output / names.INDEX)

        report = verify(config)

        assert report.found > 100
        assert not [note for note in report.notes if "tags" in note.detail]
