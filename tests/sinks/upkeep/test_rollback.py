"""Rolling back: an output written on to B and cut back to A has the bytes that it had at A."""

from __future__ import annotations

import random
import shutil

import pytest

from reput.formats.errors import FormatError
from reput.sinks.files.index import NO_INDEX
from reput.sinks.upkeep.listing import queue_directories
from reput.sinks.upkeep.rollback import RolledBack, queues_before, restore
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.slow_twins import differences
from tests.builders.stores import Log, config_of, files_of, fill, name_batch_topics

EXT = {"enableConsumeQueueExt": "true"}
MULTI = {"enableMultiDispatch": "true", "enableLmq": "true"}


class Output:
    """A store and its output, dispatched step by step and never closed in order."""

    def __init__(self, path, log, **conf) -> None:
        name_batch_topics(log.write(path / "store"), "batches")
        self.log = log
        self.config = config_of(path / "store", path / "out", **conf)
        self.dispatcher = StoreDispatcher(self.config)

    def dispatch(self, end: int):
        """Dispatch up to a position; return the files and the places to cut back to."""
        self.dispatcher.dispatch(end)
        self.dispatcher.index._publish()
        return (
            files_of(self.config.output),
            self.dispatcher.parts.output.where()["queues"],
            self.index,
        )

    @property
    def index(self):
        return self.dispatcher.index.position

    def cut(self, queues, index) -> RolledBack:
        self.dispatcher.abandon()
        root, settings = self.config.output, self.config.settings
        return restore(root, root / ".reput", settings, queues, index)

    def cut_before(self, end, index) -> RolledBack:
        """Cut back to a record, by what stands in the queues."""
        root, settings = self.config.output, self.config.settings
        where = self.dispatcher.parts.output.where()
        queues = queues_before(root, settings, where["queues"], end, where["lasts"])
        return self.cut(queues, index)

    def ends(self, seed: int) -> tuple[int, int]:
        pick = random.Random(seed)
        places = [place.end for place in self.log.places]
        a, b = sorted(pick.sample(places, 2))
        return a, b


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("conf", [{}, EXT, MULTI], ids=["plain", "ext", "multi"])
@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "searched"])
def test_back_from_b_to_a(tmp_path, seed, conf, is_recorded):
    """
    For any A and B: files rolled in between go, ext and batch queues too, chains of the index
    are as they were.
    """
    log = fill(Log(), seed, 40, multi=conf is MULTI, batches=True)
    output = Output(tmp_path, log, **conf)
    a, b = output.ends(seed)
    at_a, queues, index = output.dispatch(a)
    end = output.dispatcher.progress.end
    output.dispatch(b)
    if is_recorded:
        output.cut(queues, index)
    else:
        output.cut_before(end, index)

    assert differences(files_of(output.config.output), at_a) == []


@pytest.mark.parametrize("seed", range(20))
def test_back_with_entries_out_of_turn(tmp_path, seed):
    """
    Repeated and misplaced entries, which are appended by rules of their own.
    """
    output = Output(tmp_path, fill(Log(), seed, 40, out_of_turn=True, batches=True))
    a, b = output.ends(seed)
    at_a, queues, index = output.dispatch(a)
    output.dispatch(b)
    output.cut(queues, index)

    assert differences(files_of(output.config.output), at_a) == []


@pytest.mark.parametrize("seed", range(12))
def test_back_with_ext_units_that_no_entry_points_to(tmp_path, seed):
    """
    A repeated entry is skipped, but its unit was appended: the broker's does, so ours. Where the
    units end is recorded, so such units are told from a killed writer's.
    """
    log = fill(Log(), seed, 40, out_of_turn=True)
    output = Output(tmp_path, log, **EXT)
    a, b = output.ends(seed)
    at_a, queues, index = output.dispatch(a)
    output.dispatch(b)
    output.cut(queues, index)

    assert differences(files_of(output.config.output), at_a) == []


def test_an_ext_unit_whose_entry_was_not_written_yet_goes_with_its_files(tmp_path):
    """
    The unit comes first. Killed right after it, a new queue has an extension and no entries.
    """
    output = Output(tmp_path, fill(Log(), 1, 20), **EXT)
    output.dispatch(output.log.end)
    root = output.config.output
    shutil.rmtree(min(queue_directories(root / "consumequeue")))
    output.cut({}, NO_INDEX)

    assert files_of(root) == {}


@pytest.mark.parametrize("kind", ["consumequeue", "consumequeue_ext", "batchconsumequeue", "index"])
def test_files_that_somebody_has_removed_are_missed(tmp_path, kind):
    output = Output(tmp_path, fill(Log(), 1, 60, batches=True), **EXT)
    _, queues, index = output.dispatch(output.log.end)
    removed = min(queue_directories(output.config.output / kind))
    shutil.rmtree(removed)

    with pytest.raises(FormatError, match=str(removed)):
        output.cut(queues, index)


def test_back_to_nothing(tmp_path):
    output = Output(tmp_path, fill(Log(), 3, 40, batches=True), **EXT)
    output.dispatch(output.log.end)
    taken = output.cut({}, NO_INDEX)

    assert files_of(output.config.output) == {}
    assert taken.entries > 0
    assert taken.items > 0


def test_cutting_where_it_ends_changes_nothing_and_counts_nothing(tmp_path):
    output = Output(tmp_path, fill(Log(), 4, 40))
    at_end, queues, index = output.dispatch(output.log.end)

    assert output.cut(queues, index) == RolledBack()
    assert files_of(output.config.output) == at_end


def test_an_output_without_files_can_be_cut(tmp_path):
    output = Output(tmp_path, fill(Log(), 4, 1))

    assert output.cut({}, NO_INDEX) == RolledBack()


def test_entries_that_were_cut_off_between_their_fields_go(tmp_path):
    """
    The size is written last: an entry without one is none, but its bytes are there.
    """
    output = Output(tmp_path, fill(Log(), 5, 40))
    at_end, queues, index = output.dispatch(output.log.end)
    torn = [
        name
        for name in at_end
        if name.startswith("consumequeue/") and at_end[name].endswith(bytes(20))
    ]
    for name in torn:
        path = output.config.output / name
        raw = bytearray(path.read_bytes())
        used = next(i for i in range(0, len(raw), 20) if raw[i + 8 : i + 12] == bytes(4))
        raw[used : used + 8] = b"\1" * 8
        raw[used + 12 : used + 20] = b"\2" * 8
        path.write_bytes(raw)

    assert torn
    assert output.cut(queues, index).entries == len(torn)
    assert files_of(output.config.output) == at_end


def test_cutting_leaves_holes_holes(tmp_path):
    """
    A queue's file is six megabytes for a few entries: writing its zeros would allocate them, of
    every queue there is, and a SIGBUS would end the process where the disk cannot take them.
    """
    size = 4 << 20
    conf = {"mappedFileSizeConsumeQueue": str(size), "mappedFileSizeConsumeQueueExt": str(size)}
    output = Output(tmp_path, fill(Log(), 6, 30, batches=True), **EXT, **conf)
    a, b = output.ends(1)
    _, queues, index = output.dispatch(a)
    output.dispatch(b)
    output.cut(queues, index)

    files = [path for path in output.config.output.glob("consumequeue*/**/*") if path.is_file()]
    assert files
    assert max(path.stat().st_blocks * 512 for path in files) < 1 << 20
