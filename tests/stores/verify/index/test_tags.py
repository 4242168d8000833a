"""Where an index begins to have items for tags: found by few looks, whatever stands around it."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from reput.formats.rocketmq import broker, indexfile
from reput.formats.rocketmq.indexfile import FIRST_ITEM, ITEM_STRUCT, Header
from reput.stores.findings import Scope
from reput.stores.verify.index.tag_votes import TagVote, tag_votes
from reput.stores.verify.index.tags import find_change

SLOTS, ITEMS = 7, 5000
SETTINGS = broker.settings_of("5.5", {"maxHashSlotNum": str(SLOTS), "maxIndexNum": str(ITEMS)})
OLDER = broker.settings_of("5.3", {"maxHashSlotNum": str(SLOTS), "maxIndexNum": str(ITEMS)})
SIZE = 100


def record(number, *, keys=1, tag="A"):
    properties = {"KEYS": " ".join(f"k{number}-{key}" for key in range(keys))}
    if tag:
        properties["TAGS"] = tag
    return SimpleNamespace(topic="t", properties=properties, physical_offset=number * SIZE)


def items_of(made, *, tags):
    keys = indexfile.index_keys(made.topic, made.properties, tag_entries=tags)
    return [(indexfile.key_hash(key), made.physical_offset, 0, 0) for key in keys]


class Store:
    """Index files in a directory, and the records that they are of."""

    other_tags_before = 0

    def __init__(self, directory, records, has_tag):
        self.records = {made.physical_offset: made for made in records}
        self.looks = 0
        self.end = len(records) * SIZE
        items = [item for made in records for item in items_of(made, tags=has_tag(made))]
        self.items = items
        self.files = []
        for number, first in enumerate(range(0, len(items), ITEMS - FIRST_ITEM)):
            part = items[first : first + ITEMS - FIRST_ITEM]
            header = Header(index_count=len(part) + FIRST_ITEM).pack()
            data = b"".join(ITEM_STRUCT.pack(*item) for item in part)
            self.files.append(directory / f"{number:017d}")
            at = indexfile.item_position(FIRST_ITEM, SLOTS)
            self.files[-1].write_bytes(header.ljust(at, b"\0") + data)

    def record_at(self, position):
        self.looks += 1
        return self.records.get(position)

    def columns(self, _start, _end):
        raise NotImplementedError

    def keys_at(self, _position):
        raise NotImplementedError

    def change(self, floor=0, settings=SETTINGS):
        scope = Scope(floor, self.end, is_ours=False, is_clean=True)
        return find_change(self.files, settings, scope, self)

    def place(self, item):
        return 1 + item // (ITEMS - FIRST_ITEM), FIRST_ITEM + item % (ITEMS - FIRST_ITEM)


@pytest.mark.parametrize("seed", range(12))
def test_the_place_is_exact_and_few_records_are_looked_at(tmp_path, seed):
    """
    In 40,000 items over several files; with long stretches of records without tags, as well.
    """
    pick = random.Random(seed)
    bare = range(*sorted(pick.sample(range(20_000), 2))) if seed % 2 else range(0)
    records = [
        record(number, keys=pick.choice([1, 1, 1, 2]), tag="" if number in bare else "A")
        for number in range(20_000)
    ]
    at = pick.randrange(2, 19_998)
    store = Store(tmp_path, records, lambda made: made.physical_offset >= at * SIZE)

    change = store.change()

    first = next(made for made in records[at:] if made.properties.get("TAGS"))
    number = store.items.index(items_of(first, tags=True)[0])
    assert (change.opened, change.number) == store.place(number)
    assert change.position == first.physical_offset
    # Where it cannot be told which side a stretch is on, all of these few windows are tried.
    assert bare or store.looks < 4_000


def test_items_that_end_with_tags_by_an_older_version(tmp_path):
    store = Store(
        tmp_path, [record(n) for n in range(9000)], lambda made: made.physical_offset < 500_000
    )

    change = store.change(settings=OLDER)

    assert (change.opened, change.number) == store.place(5000 * 2)
    assert change.position == 4999 * SIZE + 1
    assert store.change() is None


def test_the_end_if_nothing_is_by_the_version(tmp_path):
    store = Store(tmp_path, [record(n) for n in range(3000)], lambda _: False)

    assert store.change() == (*store.place(3000), store.end)


@pytest.mark.parametrize("missing", [1, 5, 700, 2999])
def test_one_missing_item_is_not_taken_for_the_place(tmp_path, missing):
    """
    It is a finding of the comparison.
    """
    store = Store(
        tmp_path,
        [record(n) for n in range(3000)],
        lambda made: made.physical_offset != missing * SIZE,
    )

    assert store.change() is None


@pytest.mark.parametrize("floor", [0, 100_000, 249_900, 260_000])
def test_what_has_expired_says_nothing(tmp_path, floor):
    store = Store(
        tmp_path, [record(n) for n in range(3000)], lambda made: made.physical_offset >= 250_000
    )
    store.records = {at: made for at, made in store.records.items() if at >= floor}

    change = store.change(floor)

    assert (change is None) == (floor >= 250_000)
    assert change is None or change.position == 250_000


class TestVotes:
    def votes(self, items, *records, is_end=False):
        known = {made.physical_offset: made for made in records}
        return tag_votes(items, known.get, is_end=is_end)

    def test_a_record_that_stands_twice_in_a_row_votes_twice(self):
        """
        Once without its tag's item and once with it, as a broker that was upgraded repeats it.
        """
        made, after = record(1, keys=2), record(2)
        items = [*items_of(made, tags=False), *items_of(made, tags=True)]

        votes = self.votes([*items, *items_of(after, tags=True)], made, after)

        assert votes == [TagVote(0, 2, SIZE, False), TagVote(2, 5, SIZE, True)]

    def test_the_last_record_may_go_on_elsewhere(self):
        made = record(1)
        assert self.votes(items_of(made, tags=True), made) == []
        assert self.votes(items_of(made, tags=False), made, is_end=True) == []
        assert self.votes(items_of(made, tags=True), made, is_end=True) == [
            TagVote(0, 2, SIZE, True)
        ]

    def test_beside_a_damaged_item_nothing_is_said(self):
        """
        The damaged one may have been the item for the tag of the record before.
        """
        first, second, third = (record(number) for number in (1, 2, 3))
        key, tag = items_of(first, tags=True)
        rest = [*items_of(second, tags=True), *items_of(third, tags=True)]

        for damaged in ((tag[0], 77, 0, 0), (0, 0, 0, 0), (5, SIZE, 0, 0)):
            assert not any(
                vote.position == SIZE
                for vote in self.votes([key, damaged, *rest], first, second, third)
            )

    def test_records_without_tags_say_nothing(self):
        made, after = record(1, tag=""), record(2)
        items = [*items_of(made, tags=True), *items_of(after, tags=True)]

        assert self.votes(items, made, after) == []
