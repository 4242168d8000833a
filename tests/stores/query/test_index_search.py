"""Chains of index files: the broker's rules, and bounded answers where nobody keeps to them.

That the rules are the broker's own is shown by `tests/oracle/queries.py`; here are files that no
broker writes.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
from pathlib import Path

import pytest

from reput.formats.errors import FormatError
from reput.formats.rocketmq import broker, indexfile
from reput.formats.rocketmq.indexfile import HEADER_SIZE, ITEM_SIZE, SLOT_SIZE, Header
from reput.stores.findings import Kind, Report
from reput.stores.query import index_search
from reput.stores.query.compiled.index import CompiledSearch
from reput.stores.query.index_search import ALWAYS, IndexSearch, Window
from reput.stores.reads import at_once, impatience

SLOTS, ITEMS = 7, 20
SETTINGS = broker.settings_of(
    broker.NEWEST, {"maxHashSlotNum": str(SLOTS), "maxIndexNum": str(ITEMS)}
)
BEGIN = 1_700_000_000_000
HASH = 3


class IndexFile:
    """An index file written by hand: items by number, a slot, a header."""

    def __init__(self):
        self.data = bytearray(indexfile.file_size(SLOTS, ITEMS))
        self.header(index_count=1)

    def header(self, begin=BEGIN, end=BEGIN + 100_000, index_count=1):
        header = Header(begin, end, 0, 0, 1, index_count)
        self.data[:HEADER_SIZE] = header.pack()
        return self

    def slot(self, number, slot=HASH % SLOTS):
        at = HEADER_SIZE + slot * SLOT_SIZE
        self.data[at : at + SLOT_SIZE] = number.to_bytes(4, "big", signed=True)
        return self

    def item(self, number, offset, seconds=0, previous=0, key_hash=HASH):
        at = indexfile.item_position(number, SLOTS)
        fields = ((key_hash, 4), (offset, 8), (seconds, 4), (previous, 4))
        raw = b"".join(value.to_bytes(size, "big", signed=True) for value, size in fields)
        self.data[at : at + ITEM_SIZE] = raw
        return self


@pytest.fixture
def search(tmp_path):
    """Return a function that writes files by name and opens them."""
    opened = []

    def make(**files):
        for name, file in files.items():
            data = file.data if isinstance(file, IndexFile) else file
            (tmp_path / name.lstrip("f")).write_bytes(data)
        report = Report()
        opened.append(IndexSearch(tmp_path, SETTINGS, report))
        return opened[-1], report

    yield make
    for each in opened:
        each.close()


def chain(*items):
    """A file whose slot leads through items (offset, seconds, previous), the last one first."""
    file = IndexFile().header(index_count=len(items) + 1).slot(len(items))
    for number, (offset, seconds, previous) in enumerate(items, 1):
        file.item(number, offset, seconds, previous)
    return file


class TestChains:
    def test_newest_first_and_only_those_of_the_hash(self, search):
        file = chain((100, 0, 0), (200, 1, 1), (300, 2, 2)).item(2, 200, 1, 1, HASH + SLOTS)
        found, report = search(f20260101000000000=file)

        assert found.offsets(HASH, ALWAYS, 64)[0] == [300, 100]
        assert report.ok

    def test_a_file_that_was_cut_while_it_is_read_is_named_with_the_byte(self, search, tmp_path):
        found, _ = search(f20260101000000000=chain((100, 0, 0)))
        (file,) = found.files()
        os.truncate(tmp_path / "20260101000000000", HEADER_SIZE + 2)
        with pytest.raises(FormatError, match="the index file was cut") as raised:
            at_once(file.select(6, ALWAYS, 64, [], Report()))

        place = str(tmp_path / "20260101000000000"), HEADER_SIZE + 6 * SLOT_SIZE
        assert (raised.value.path, raised.value.position) == place

    @pytest.mark.parametrize("limit", [1, 2, 3, 4])
    def test_no_more_than_asked_for_over_all_files(self, search, limit):
        old, new = chain((100, 0, 0), (200, 1, 1)), chain((300, 0, 0), (400, 1, 1))
        found, _ = search(f20260101000000000=old, f20260102000000000=new)

        assert found.offsets(HASH, ALWAYS, limit)[0] == [400, 300, 200, 100][:limit]

    def test_an_older_item_than_the_window_ends_the_chain(self, search):
        """
        A broker writes in the order of time, so it looks no further; with a clock that went back
        it misses what follows, and so do we.
        """
        file = chain((100, 50, 0), (200, 1, 1), (300, 60, 2))
        found, _ = search(f20260101000000000=file)
        window = Window(BEGIN + 40_000, BEGIN + 70_000)

        assert found.offsets(HASH, window, 64)[0] == [300]

    def test_no_older_file_is_looked_at_after_one_that_began_before_the_window(self, search):
        old = chain((100, 50, 0)).header(BEGIN, BEGIN + 90_000, 2)
        new = chain((200, 50, 0)).header(BEGIN + 1, BEGIN + 90_000, 2)
        found, _ = search(f20260101000000000=old, f20260102000000000=new)

        assert found.offsets(HASH, Window(BEGIN + 2, BEGIN + 99_000), 64)[0] == [200]

    @pytest.mark.parametrize("slot", [0, -5, 3, 1 << 30])
    def test_a_slot_that_leads_nowhere_is_an_empty_one(self, search, slot):
        found, _ = search(f20260101000000000=chain((100, 0, 0)).slot(slot))

        assert found.offsets(HASH, ALWAYS, 64)[0] == []

    @pytest.mark.parametrize("previous", [-1, 2, 9, 1 << 30])
    def test_a_pointer_that_leads_nowhere_is_the_chains_end(self, search, previous):
        found, report = search(f20260101000000000=chain((100, 0, 0), (200, 1, previous)))

        assert found.offsets(HASH, ALWAYS, 64)[0] == [200]
        assert report.ok


class TestMeanwhile:
    """A writer sets the slots of a whole block before the count in the header."""

    @pytest.mark.parametrize("kind", [IndexSearch, CompiledSearch])
    def test_what_stood_there_is_found_while_more_is_inserted(self, search, tmp_path, kind):
        items = [(100 * number, number, number - 1) for number in range(1, 9)]
        search(f20260101000000000=chain(*items).header(index_count=4))
        found = kind(tmp_path, SETTINGS, Report())
        hashed = indexfile.key_hash("t#")
        file = chain(*items).header(index_count=4).slot(8, hashed % SLOTS)
        for number, item in enumerate(items, 1):
            file.item(number, *item, hashed)
        (tmp_path / "20260101000000000").write_bytes(file.data)

        # A broker takes an item whose number is the count.
        assert found.offsets_of("t#", ALWAYS, 64)[0] == [400, 300, 200, 100]
        found.close()

    @pytest.mark.parametrize("previous", [6, 7])
    @pytest.mark.parametrize("kind", [IndexSearch, CompiledSearch])
    def test_a_chain_beyond_the_count_that_does_not_lead_back_is_none(
        self, search, tmp_path, kind, previous
    ):
        hashed = indexfile.key_hash("t#")
        file = chain((100, 0, 0)).slot(6, hashed % SLOTS).item(6, 600, 1, previous, hashed)
        search(f20260101000000000=file)
        found = kind(tmp_path, SETTINGS, Report())

        assert found.offsets_of("t#", ALWAYS, 64)[0] == []
        found.close()


class TestDamage:
    @pytest.mark.parametrize("length", [2, 3, 5, 12])
    def test_a_circle_is_named_and_left(self, search, length):
        """
        A broker would go round for ever, as long as no item has the hash.
        """
        items = [(100 + i, i, i or length) for i in range(length)]
        file = chain(*items)
        for number in range(1, length + 1):
            file.item(number, 100, 1, items[number - 1][2], HASH + SLOTS)
        found, report = search(f20260101000000000=file)

        assert found.offsets(HASH, ALWAYS, 64)[0] == []
        assert [f.kind for f in report.findings] == [Kind.BROKEN_CHAIN]
        assert "circle" in report.findings[0].detail

    def test_a_count_beyond_the_file_is_named(self, search):
        file = chain((100, 0, 0)).header(index_count=1 << 30).slot(ITEMS + 5)
        found, report = search(f20260101000000000=file)

        assert found.offsets(HASH, ALWAYS, 64)[0] == []
        assert [f.kind for f in report.findings] == [Kind.BROKEN_CHAIN]

    def test_an_item_before_its_files_time_ends_the_chain(self, search):
        found, _ = search(f20260101000000000=chain((100, 0, 0), (200, -1, 1)))

        assert found.offsets(HASH, ALWAYS, 64)[0] == []

    @pytest.mark.parametrize("size", [0, 1, 39, 40, 1000, indexfile.file_size(SLOTS, ITEMS) + 1])
    def test_a_file_of_another_size_is_named_and_left_out(self, search, size):
        found, report = search(
            f20260101000000000=chain((100, 0, 0)), f20260102000000000=bytes(size)
        )

        assert found.offsets(HASH, ALWAYS, 64)[0] == [100]
        assert [f.kind for f in report.findings] == [Kind.SIZE]

    def test_foreign_names_are_named_and_left_out(self, search, tmp_path):
        (tmp_path / "lost+found").mkdir()
        (tmp_path / "\x1b[2Jnotes.txt").write_bytes(b"x")
        found, report = search(f20260101000000000=chain((100, 0, 0)))

        assert found.offsets(HASH, ALWAYS, 64)[0] == [100]
        assert [f.kind for f in report.findings] == [Kind.NAME, Kind.NAME]

    def test_any_bytes_end_in_an_answer(self, search):
        """
        Random headers, slots and items: each look ends, and stays in the file.
        """
        pick = random.Random(7)
        for _ in range(200):
            file = IndexFile().header(index_count=pick.choice([ITEMS, 5, 1 << 31 - 1]))
            for slot in range(SLOTS):
                file.slot(pick.randint(-2, ITEMS + 2), slot)
            for item in range(ITEMS):
                file.item(
                    item, item, pick.randint(-1, 9), pick.randint(-2, ITEMS + 2), pick.randint(0, 9)
                )
            found, _ = search(f20260101000000000=file)
            for key_hash in range(10):
                assert len(found.offsets(key_hash, ALWAYS, 64)[0]) <= 64
            found.close()


def test_a_file_that_goes_while_they_are_listed_is_left_out(search, tmp_path):
    found, _ = search(f20260101000000000=chain((100, 0, 0)))
    (tmp_path / "20260101000000001").symlink_to(tmp_path / "gone")

    assert found.offsets(HASH, ALWAYS, 64)[0] == [100]


def test_no_more_files_stay_open_where_one_cannot_be_looked_at(search, tmp_path):
    """
    Each look would keep more descriptors else; one of a file that is removed goes with the next
    look that ends.
    """
    files = {f"f2026010100000000{number}": chain((100, 0, 0)) for number in range(3)}
    found, _ = search(**files)
    assert len(found.files()) == 3
    loop = tmp_path / "20260101000000001"
    loop.unlink()
    loop.symlink_to(loop)
    for _ in range(3):
        with pytest.raises(OSError, match="symbolic links"):
            found.files()
    assert len(open_in(tmp_path)) == 3
    loop.unlink()

    assert len(found.files()) == len(open_in(tmp_path)) == 2


def open_in(directory):
    """Return the files of a directory that this process has open."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(link.readlink())
    return [path for path in found if path.parent == directory]


def test_a_live_index_is_looked_at_anew(search, tmp_path):
    """
    New files and new items are found without opening anything again; removed files are forgotten.
    """
    found, _ = search(f20260101000000000=chain((100, 0, 0)))
    assert found.offsets(HASH, ALWAYS, 64)[0] == [100]

    (tmp_path / "20260102000000000").write_bytes(chain((200, 0, 0)).data)
    assert found.offsets(HASH, ALWAYS, 64)[0] == [200, 100]

    (tmp_path / "20260101000000000").unlink()
    assert found.offsets(HASH, ALWAYS, 64)[0] == [200]


def test_a_file_that_is_copied_for_long_is_read_in_the_end(search, tmp_path, monkeypatch):
    """
    The directory changes as the copy begins, and not as it ends. It is said once per size.
    """
    monkeypatch.setattr(index_search, "_MOMENT_NS", 0)
    found, report = search(f20260101000000000=chain((100, 0, 0)))
    data = chain((200, 0, 0)).data
    with (tmp_path / "20260102000000000").open("wb", 0) as copy:
        copy.write(data[:50])
        for _ in range(3):
            assert found.offsets(HASH, ALWAYS, 64)[0] == [100]
        copy.write(data[50:])

    assert found.offsets(HASH, ALWAYS, 64)[0] == [200, 100]
    assert [finding.position for finding in report.findings] == [50]


@pytest.mark.parametrize("kind", [IndexSearch, CompiledSearch])
def test_a_directory_that_a_copy_gives_the_time_of_the_one_before(search, tmp_path, kind):
    search(f20260101000000000=chain((100, 0, 0)))
    found = kind(tmp_path, SETTINGS, Report())
    before = tmp_path.stat()
    assert found.offsets(HASH, ALWAYS, 64)[0] == [100]
    (tmp_path / "copy").write_bytes(chain((900, 0, 0)).data)
    (tmp_path / "copy").rename(tmp_path / "20260101000000000")
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert found.offsets(HASH, ALWAYS, 64)[0] == [900]
    found.close()


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def reads():
    """Return how many reads this process has done."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["syscr"])


class TestManyItems:
    """All messages may have the same key: its chain is as long as the file has items."""

    ITEMS = 9000
    SETTINGS = broker.settings_of(broker.NEWEST, {"maxHashSlotNum": "7", "maxIndexNum": str(ITEMS)})
    # Only the five oldest ones are wanted.
    WINDOW = Window(BEGIN, BEGIN + 5000)

    def file(self, first):
        """Return a file of one key's items, with physical offsets that follow one."""
        data = bytearray(indexfile.file_size(7, self.ITEMS))
        data[:HEADER_SIZE] = Header(BEGIN, BEGIN + self.ITEMS, 0, 0, 1, self.ITEMS).pack()
        at = HEADER_SIZE + HASH * SLOT_SIZE
        data[at : at + SLOT_SIZE] = (self.ITEMS - 1).to_bytes(4, "big")
        for number in range(1, self.ITEMS):
            at = indexfile.item_position(number, 7)
            item = indexfile.ITEM_STRUCT.pack(HASH, first + number, number, number - 1)
            data[at : at + ITEM_SIZE] = item
        return data

    @pytest.fixture
    def found(self, tmp_path):
        (tmp_path / "20260101000000000").write_bytes(self.file(0))
        with contextlib.closing(IndexSearch(tmp_path, self.SETTINGS, Report())) as found:
            yield found

    @pytest.mark.parametrize("waits", [True, False])
    def test_they_are_read_by_pages(self, found, waits):
        """
        On a server's loop others wait meanwhile: an item a read took five times as long as a map.
        """
        found.offsets(HASH, self.WINDOW, 64)
        before = reads()
        with contextlib.nullcontext() if waits else impatience():
            assert found.offsets(HASH, self.WINDOW, 64)[0] == [5, 4, 3, 2, 1]
        assert reads() - before < self.ITEMS // 100

    def test_others_have_their_turn_meanwhile(self, found):
        answers = []

        def steps():
            answers.append((yield from found.offset_steps(HASH, self.WINDOW, 64)))

        turns = list(steps())
        assert answers[0][0] == [5, 4, 3, 2, 1]
        assert len(turns) >= 5
        assert not any(turns)

    @pytest.mark.parametrize("comes", [True, False])
    def test_the_file_goes_meanwhile(self, found, tmp_path, comes):
        """
        Another question has seen it by then; what takes its place is read from its beginning.
        """
        steps = found.offset_steps(HASH, self.WINDOW, 64)
        assert next(steps) is None
        (tmp_path / "20260101000000000").unlink()
        if comes:
            (tmp_path / "20260101000000000").write_bytes(self.file(100))
        found.files()

        assert at_once(steps)[0] == ([105, 104, 103, 102, 101] if comes else [])

    def test_a_copy_begins_in_its_place_meanwhile(self, found, tmp_path):
        steps = found.offset_steps(HASH, self.WINDOW, 64)
        assert next(steps) is None
        (tmp_path / "20260101000000000").unlink()
        (tmp_path / "20260101000000000").write_bytes(self.file(100)[:50])
        found.files()

        assert at_once(steps)[0] == []


class TestOpenFiles:
    """A store may have more index files than the process has descriptors."""

    def many(self, search, count):
        names = [f"f{20260101000000000 + number}" for number in range(count)]
        return search(**{name: chain((at, 0, 0)) for at, name in enumerate(names)})[0]

    def test_files_are_open_that_were_opened_last(self, search):
        before = descriptors()
        found = self.many(search, 200)
        for _ in range(2):
            assert found.offsets(HASH, ALWAYS, 200)[0] == list(reversed(range(200)))
        assert 0 < descriptors() - before <= found.opened.most_open
        found.close()
        assert descriptors() == before

    def test_where_none_are_left_none_are_lost(self, search):
        found = self.many(search, 60)
        before = descriptors()
        _, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        for left in (8, 8, 20, 20):
            resource.setrlimit(resource.RLIMIT_NOFILE, (before + left, hard))
            try:
                with pytest.raises(OSError, match="Too many open files"):
                    found.offsets(HASH, ALWAYS, 64)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert found.offsets(HASH, ALWAYS, 64)[0] == list(reversed(range(60)))
        found.close()
        assert descriptors() == before

    @pytest.mark.parametrize("kind", [IndexSearch, CompiledSearch])
    def test_a_file_that_takes_the_place_of_another_one_is_read(self, search, tmp_path, kind):
        self.many(search, 2)
        found = kind(tmp_path, SETTINGS, Report())
        assert found.offsets(HASH, ALWAYS, 64)[0] == [1, 0]

        (tmp_path / "copy").write_bytes(chain((900, 0, 0)).data)
        (tmp_path / "copy").rename(tmp_path / "20260101000000001")
        assert found.offsets(HASH, ALWAYS, 64)[0] == [900, 0]
        found.close()

    def test_a_file_that_goes_between_the_look_and_the_read(self, search, tmp_path):
        found = self.many(search, 3)
        found.opened.most_open = 1

        def question(files):
            (tmp_path / "20260101000000000").unlink(missing_ok=True)
            return [each.path for each in files if each.header()]

        assert [path[-1] for path in found._asked(question)] == ["1", "2"]

    def test_one_that_stays_unreadable_is_an_error(self, search):
        found = self.many(search, 1)

        def question(files):
            raise FileNotFoundError(files[0].path)

        with pytest.raises(FileNotFoundError):
            found._asked(question)


def test_the_kernel_and_its_twin_agree(search, tmp_path):
    """
    Random files, three at once, chains whole and broken: the same offsets, order included.
    """
    pick = random.Random(11)
    keys = [f"t#k{i}" for i in range(12)] + ["t#ключ", "t#\ud800", "t#", "t#polygenelubricants"]
    hashes = [indexfile.key_hash(key) for key in keys]
    for _ in range(60):
        for number in range(3):
            begin = BEGIN + pick.choice([0, 5000, 20_000]) * number
            file = IndexFile().header(begin, begin + 9000, pick.choice([ITEMS, 5, 1 << 30]))
            for item in range(1, ITEMS):
                # Mostly what a broker writes: each points to an older one.
                previous = (
                    pick.randint(0, item - 1) if pick.random() < 0.95 else pick.randint(-2, 30)
                )
                file.item(
                    item, number * 100 + item, pick.randint(0, 9), previous, pick.choice(hashes)
                )
            for slot in range(SLOTS):
                file.slot(pick.randint(0, ITEMS + 1), slot)
            (tmp_path / f"{20260101000000000 + number}").write_bytes(file.data)
        twin = IndexSearch(tmp_path, SETTINGS, Report())
        kernel = CompiledSearch(tmp_path, SETTINGS, Report())
        for key in keys:
            begin = BEGIN + pick.randint(-2000, 50_000)
            for window in (ALWAYS, Window(begin, begin + pick.randint(0, 20_000))):
                for limit in (1, 3, 64, 100):
                    expected = twin.offsets(indexfile.key_hash(key), window, limit)
                    assert kernel.offsets_of(key, window, limit) == expected
        for window in (ALWAYS, Window(BEGIN + 4000, BEGIN + 8000)):
            for limit in (1, 64):
                some = [key.removeprefix("t#") for key in pick.choices(keys, k=pick.randint(0, 40))]
                one_by_one = [twin.offsets_of("t#" + key, window, limit) for key in some]
                together = kernel.offsets_of_many("t#", some, window, limit)
                assert together.offsets == [hits for hits, _, _ in one_by_one]
                assert all(together[1:] == hits[1:] for hits in one_by_one)
        twin.close()
        kernel.close()


def test_there_is_room_for_the_hits_of_a_key_after_a_call_for_none(search, tmp_path):
    """
    The same window and limit are not asked for again; the room for them has to be there already.
    """
    limit = 5000
    search(f20260101000000000=chain(*((100 + i, i, i) for i in range(ITEMS - 1))))
    kernel = CompiledSearch(tmp_path, SETTINGS, Report())

    assert kernel.offsets_of_many("t#", [], ALWAYS, limit).offsets == []
    assert len(kernel.search) >= kernel.first_hit + limit
    assert kernel.offsets_of("t#", ALWAYS, limit) == kernel.offsets(
        indexfile.key_hash("t#"), ALWAYS, limit
    )
    kernel.close()
