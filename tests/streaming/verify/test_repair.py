"""An output with files missing, damaged or set back is refused or mended, never extended."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest

from reput.checkpoints import marks, progress
from reput.checkpoints.disk import locks, marking
from reput.formats.errors import ReputError, StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.show.reports import print_repairs
from reput.streaming.verify.output import verify
from reput.streaming.verify.repair import repair
from tests.builders.slow_twins import SlowStore, differences
from tests.builders.stores import (
    LOG_FILE,
    Log,
    Messages,
    config_of,
    files_of,
    name_batch_topics,
)

if TYPE_CHECKING:
    from pathlib import Path

EXT = {"enableConsumeQueueExt": "true"}
KINDS = {
    "plain": ({"batches": True}, {}),
    "ext": ({"batches": True}, EXT),
    "multi": ({"multi": True}, {"enableMultiDispatch": "true", "enableLmq": "true"}),
    "out of turn": ({"out_of_turn": True, "batches": True}, {}),
}


class Made:
    """A store whose log is written in two halves, and its output."""

    def __init__(self, root: Path, seed: int = 5, kind: str = "plain", count: int = 300) -> None:
        traits, self.conf = KINDS[kind]
        self.root = root
        self.store, self.output = root / "store", root / "out"
        self.log = Log()
        self.messages = Messages(seed, **traits)
        self.grow(count)
        name_batch_topics(self.store, "batches")
        self.config = config_of(self.store, self.output, **self.conf)

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.log.append(self.messages.next())
        self.log.write(self.store, ahead=1)

    def dispatch(self, end: int | None = None, **options) -> StoreDispatcher:
        dispatcher = StoreDispatcher(self.config, flush=FlushPolicy(is_sync=True), **options)
        try:
            dispatcher.dispatch(find_tail(dispatcher.log).end if end is None else end)
        finally:
            dispatcher.close()
        return dispatcher

    def kill(self, end: int | None = None) -> None:
        """Dispatch, and leave the output as a killed writer does."""
        dispatcher = StoreDispatcher(self.config, flush=FlushPolicy(is_sync=True))
        dispatcher.dispatch(find_tail(dispatcher.log).end if end is None else end)
        dispatcher.abandon()

    def expected(self) -> dict[str, bytes]:
        twin = SlowStore(self.config.settings, ["batches"])
        return twin.dispatch(self.log.records()).files(empty_count=1)

    def fresh(self) -> Path:
        """Return an output that was made from what the log has now."""
        other = self.root / "fresh"
        shutil.rmtree(other, ignore_errors=True)
        config = config_of(self.store, other, **self.conf)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(find_tail(dispatcher.log).end)
        dispatcher.close()
        return other

    def check(self) -> None:
        """Compare with the twin, and the rest with another rebuild."""
        assert differences(files_of(self.output), self.expected()) == []
        other = self.fresh()
        ours, theirs = self.output / names.CHECKPOINT, other / names.CHECKPOINT
        assert ours.read_bytes() == theirs.read_bytes()
        mine, another = progress.load(self.output), progress.load(other)
        for field in ("end", "messages", "queues", "firsts", "lasts", "ahead", "tails", "index_header",
                      "logics_offset", "repeated", "clean"):  # fmt: skip
            assert getattr(mine, field) == getattr(another, field), field
        headers = [header for _, header in mine.index_before]
        assert headers == [header for _, header in another.index_before]
        assert verify(self.config).ok


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path)


def queue_of(output: Path, kind: str = "consumequeue") -> Path:
    """Return the queue of a kind that has the most files."""
    directories = {path.parent for path in (output / kind).rglob("0*") if path.is_file()}
    return max(directories, key=lambda path: (len(list(path.iterdir())), str(path)))


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.is_file())


def set_back(path: Path, size: int) -> None:
    """Give a file the content of an earlier time: less of it, of the same size."""
    raw = path.read_bytes()
    used = len(raw.rstrip(b"\0")) // size * size // 2 // size * size
    path.write_bytes(raw[:used].ljust(len(raw), b"\0"))


def become_file(directory: Path) -> None:
    """Put a file in the place of a directory."""
    shutil.rmtree(directory)
    directory.write_text("not a directory")


def become_link(directory: Path) -> None:
    """Put a link that leads nowhere in the place of a directory."""
    shutil.rmtree(directory)
    directory.symlink_to(directory.parent / "nowhere")


def edit_progress(output: Path, change) -> None:
    path = output / progress.STATE_DIRECTORY / progress.FILE_NAME
    path.write_text(change(path.read_text()))


def flip(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 0x10
    path.write_bytes(raw)


REFUSED = {
    "all consume queues": lambda o: shutil.rmtree(o / "consumequeue"),
    "a queue's directory": lambda o: shutil.rmtree(queue_of(o)),
    "a queue's last file": lambda o: files(queue_of(o))[-1].unlink(),
    "a queue's first file": lambda o: files(queue_of(o))[0].unlink(),
    "a queue's middle file": lambda o: files(queue_of(o))[1].unlink(),
    "a queue's last file set back": lambda o: set_back(files(queue_of(o))[-1], 20),
    "a batch queue's directory": lambda o: shutil.rmtree(queue_of(o, "batchconsumequeue")),
    "a batch queue's last file": lambda o: files(queue_of(o, "batchconsumequeue"))[-1].unlink(),
    "a batch queue's last file set back": lambda o: set_back(
        files(queue_of(o, "batchconsumequeue"))[-1], 46
    ),
    "newest index file": lambda o: files(o / "index")[-1].unlink(),
    "an index file in the middle": lambda o: files(o / "index")[3].unlink(),
    "oldest index file": lambda o: files(o / "index")[0].unlink(),
    "whole index": lambda o: shutil.rmtree(o / "index"),
    "progress.json": lambda o: (o / ".reput/progress.json").unlink(),
    ".reput": lambda o: shutil.rmtree(o / ".reput"),
    "progress.json edited": lambda o: edit_progress(
        o, lambda text: text.replace('"messages"', '"messagez"')
    ),
    "progress.json cut": lambda o: edit_progress(o, lambda text: text[:200]),
    "a queue that is too many": lambda o: shutil.copytree(queue_of(o), o / "consumequeue/new/7"),
    "all consume queues a file": lambda o: become_file(o / "consumequeue"),
    "a topic's directory a file": lambda o: become_file(queue_of(o).parent),
    "a topic's directory a link to nowhere": lambda o: become_link(queue_of(o).parent),
    "a queue's directory a file": lambda o: become_file(queue_of(o)),
    "a batch queue's directory a file": lambda o: become_file(queue_of(o, "batchconsumequeue")),
    "index a file": lambda o: become_file(o / "index"),
    "a queue's file cut": lambda o: files(queue_of(o))[0].write_bytes(b"\1" * 40),
    "an index file cut": lambda o: files(o / "index")[1].write_bytes(b"\1" * 40),
}
# Extended as before: nothing that is written depends on it.
FINE = {
    "nothing": lambda o: None,
    "checkpoint": lambda o: (o / "checkpoint").unlink(),
}
# Too deep to be seen at a start.
HIDDEN = {
    "a bit in a queue's first file": lambda o: flip(files(queue_of(o))[0], 33),
    "a bit in an older index file": lambda o: flip(files(o / "index")[2], 40 + 4 * 13 + 45),
    "a bit in a slot": lambda o: flip(files(o / "index")[2], 43),
    "a bit in a batch queue": lambda o: flip(files(queue_of(o, "batchconsumequeue"))[0], 50),
    "an older file set back": lambda o: set_back(files(queue_of(o))[0], 20),
}
KINDS_OF_DAMAGE = REFUSED | FINE | HIDDEN


def half(made: Made) -> int:
    return made.log.places[len(made.log.places) // 2].end


@pytest.mark.parametrize("name", [*REFUSED, *FINE])
def test_a_start_refuses_or_goes_on_rightly(made, name):
    """
    What was done to a cleanly closed output is found before an entry is put beside the place where
    it belongs; what nothing depends on is not a reason to stop.
    """
    made.dispatch(half(made))
    KINDS_OF_DAMAGE[name](made.output)
    before = files_of(made.output)

    if name in REFUSED:
        with pytest.raises(ReputError, match="rebuild --repair"):
            made.dispatch()
        assert files_of(made.output) == before
    else:
        made.dispatch()
        made.check()


@pytest.mark.parametrize("name", [n for n in REFUSED if "progress" not in n and n != ".reput"])
def test_a_start_after_a_kill_refuses_too(made, name):
    """
    What a killed writer leaves is rolled back only where all that was recorded is there.
    """
    made.kill(half(made))
    if name == "a queue that is too many":
        pytest.skip("a killed writer may have left one; it is rolled back")
    KINDS_OF_DAMAGE[name](made.output)

    with pytest.raises(ReputError, match="rebuild --repair"):
        made.dispatch()


@pytest.mark.parametrize("name", [n for n in KINDS_OF_DAMAGE if n != "nothing"])
def test_verify_finds_it(made, name):
    """
    A verdict never says fine when something is missing.
    """
    made.dispatch()
    KINDS_OF_DAMAGE[name](made.output)

    assert not verify(made.config).ok


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("name", KINDS_OF_DAMAGE)
def test_a_repair_gives_a_rebuilds_bytes(made, name, is_killed):
    """
    Also with more log than was dispatched; what was right is not touched; dispatch continues after it.
    """
    (made.kill if is_killed else made.dispatch)(half(made))
    KINDS_OF_DAMAGE[name](made.output)
    expected = made.expected()
    inodes = {path: path.lstat().st_ino for path in made.output.rglob("*")}
    right = {n for n, raw in files_of(made.output).items()
             if not n.startswith("index") and expected.get(n) == raw}  # fmt: skip
    result = repair(made.config)

    assert result.ok
    made.check()
    assert all((made.output / n).stat().st_ino == inodes[made.output / n] for n in right)
    state = {path.name for path in (made.output / ".reput").iterdir()}
    assert state - {"settings.json"} == {"progress.json", "writer.lock"}
    made.grow(60)
    made.dispatch()
    made.check()


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2}', '{"format": 1, "types": 5}'])
def test_types_and_filters_that_cannot_be_read_are_those_of_today(made, text, capsys):
    """
    The progress record is another file, and right.
    """
    made.dispatch(half(made))
    path = made.output / ".reput" / "settings.json"
    path.write_text(text)

    with pytest.raises(StoreError, match=r"settings\.json: not readable"):
        StoreDispatcher(made.config)
    result = repair(made.config)
    assert result.ok
    assert (result.record, str(path) in result.settings) == ("", True)
    print_repairs([(made.config, result)], as_json=False)
    said = capsys.readouterr().out
    assert "types and filters made again" in said
    assert "progress record made again" not in said
    made.check()
    made.grow(60)
    made.dispatch()
    made.check()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_random_damage_is_refused_found_or_mended(tmp_path, kind, seed):
    """
    Removed, cut, set back, zeroed, swapped, flipped, whole directories: either a start refuses, or
    what comes of it equals a rebuild, or verify finds it; a repair always gives a rebuild's bytes.
    """
    pick = random.Random(f"{kind} {seed}")
    made = Made(tmp_path, seed, kind, pick.choice([40, 120, 300]))
    ends = [place.end for place in made.log.places]
    first = pick.choice(ends)
    pick.choice([made.dispatch, made.kill])(first)
    earlier = shutil.copytree(made.output, tmp_path / "earlier")
    pick.choice([made.dispatch, made.kill])(pick.choice([end for end in ends if end >= first]))
    for _ in range(pick.choice([1, 1, 2, 4])):
        damage(made.output, earlier, pick)
    tried = config_of(made.store, shutil.copytree(made.output, tmp_path / "tried"), **made.conf)
    refusal = ""
    try:
        dispatcher = StoreDispatcher(tried)
        dispatcher.dispatch(made.log.end)
        dispatcher.close()
    except ReputError as error:
        refusal = str(error)
    is_same = differences(files_of(tried.output), made.expected()) == []
    assert is_same or "rebuild --repair" in refusal or not verify(tried).ok

    assert repair(made.config).ok
    made.check()
    made.grow(30)
    made.dispatch()
    made.check()


def damage(output: Path, earlier: Path, pick: random.Random) -> None:
    """Do something to one file or directory of an output."""
    found = [path for kind in names.DISPATCHED for path in sorted((output / kind).rglob("*"))]
    found = [path for path in found if path.is_file()] or [output / ".reput/progress.json"]
    path, other = pick.choice(found), pick.choice(found)
    before = earlier / path.relative_to(output)
    if not path.exists():
        return
    raw = bytearray(path.read_bytes())
    at = pick.randrange(len(raw) + 1)
    match pick.choice(["remove", "cut", "back", "zero", "flip", "swap", "tree", "state"]):
        case "remove":
            path.unlink()
        case "cut":
            path.write_bytes(raw[:at])
        case "back" if before.exists():
            shutil.copy(before, path)
        case "zero":
            path.write_bytes(raw[:at].ljust(len(raw), b"\0"))
        case "flip":
            if raw:
                flip(path, at % len(raw))
        case "swap":
            path.write_bytes(other.read_bytes())
            other.write_bytes(raw)
        case "tree":
            shutil.rmtree(pick.choice([path.parent, output / path.relative_to(output).parts[0]]))
        case _:
            state = ".reput/progress.json"
            shutil.copy(earlier / state, output / state)


class TestExpired:
    """The log has lost its oldest files."""

    GONE = 22

    @pytest.fixture
    def made(self, tmp_path):
        made = Made(tmp_path, 11, "ext", 900)
        made.dispatch()
        self.expire(made)
        return made

    def expire(self, made: Made) -> None:
        for number in range(self.GONE):
            (made.store / names.COMMITLOG / names.offset_file(number * LOG_FILE)).unlink()

    def expired_queue(self, made: Made) -> Path:
        """Return a queue of which two files at least hold nothing but expired entries."""
        floor = self.GONE * LOG_FILE
        return next(
            path
            for path in sorted((made.output / "consumequeue").rglob("*"))
            if path.is_dir()
            and path.name.isdigit()
            and len(files(path)) > 2
            and 0 < int.from_bytes(files(path)[2].read_bytes()[:8], "big") < floor
        )

    def test_nothing_is_done_where_nothing_is_wrong(self, made):
        before = {path: path.stat().st_ino for path in made.output.rglob("*") if path.is_file()}
        content = files_of(made.output)
        result = repair(made.config)

        assert result.ok
        assert result.changes == []
        assert files_of(made.output) == content
        kept = [path for path in before if ".reput" not in path.parts and path.name != "checkpoint"]
        assert all(path.stat().st_ino == before[path] for path in kept)
        assert progress.load(made.output).messages == len(made.log.places)

    @pytest.mark.parametrize(
        "name",
        [
            "an index file cut",
            "a queue's last file",
            "a queue's last file set back",
            "a batch queue's last file",
            "newest index file",
            "a queue's middle file",
        ],
    )
    def test_what_the_log_has_comes_back_as_it_was(self, made, name):
        """
        What is left of expired records tells where entries, units and items belong.
        """
        before = files_of(made.output)
        if name == "an index file cut":
            files(made.output / "index")[-2].write_bytes(b"\1" * 40)
        elif name == "a queue's middle file":
            files(queue_of(made.output))[-2].unlink()
        else:
            REFUSED[name](made.output)
        result = repair(made.config)

        assert result.ok
        assert files_of(made.output) == before
        assert not [change for change in result.changes if change.what == "lost"]

    def test_what_it_has_no_more_is_named(self, made):
        """
        A first file with nothing but expired entries cannot be made again; those after it stay.
        """
        queue = self.expired_queue(made)
        oldest = files(queue)[:2]
        flip(oldest[1], 3)
        result = repair(made.config)

        assert result.ok
        assert [c.path for c in result.changes if c.what == "lost"] == oldest
        assert not any(path.exists() for path in oldest)
        assert verify(made.config).ok
        made.dispatch()

    def test_an_index_file_across_the_logs_beginning(self, made):
        """
        Its items cannot be made again, so the index begins where the log does, as in a rebuild.
        """
        floor = self.GONE * LOG_FILE
        known = progress.load(made.output)
        across = next(name for name, header in known.index_before if header[2] < floor <= header[3])
        (made.output / "index" / across).unlink()
        result = repair(made.config)

        assert result.ok
        assert any(c.what == "lost" and c.path.name == across for c in result.changes)
        fresh = files_of(made.fresh())
        index = [raw for name, raw in files_of(made.output).items() if name.startswith("index")]
        expected = [raw for name, raw in fresh.items() if name.startswith("index")]
        # The first file carries on from the one before it, of which no record is left.
        assert index[1 - len(expected) :] == expected[1:]

    @pytest.mark.parametrize("has_records", [True, False])
    @pytest.mark.parametrize("at", [20, 50])
    def test_an_index_of_which_all_items_have_expired(self, tmp_path, at, has_records):
        """
        Its last file is damaged and goes; those that stay are known at the next start, and
        the next file carries on from them.
        """
        made = Made(tmp_path, count=0)

        def append(number: int, keys: dict[str, str]) -> None:
            message = Message("t", properties=keys, queue_offset=number, store_timestamp=number + 1)
            made.log.append(message)

        for number in range(120):
            append(number, {"KEYS": f"k{number}"} if number < 60 else {})
        if not has_records:
            made.log.blank()
        made.log.write(made.store, ahead=1)
        made.dispatch()
        floor = made.log.places[60].position if has_records else made.log.end
        floor = -(-floor // LOG_FILE) * LOG_FILE
        for base in range(0, floor, LOG_FILE):
            (made.store / names.COMMITLOG / names.offset_file(base)).unlink()
        index = files(made.output / "index")
        flip(index[-1], 40 + 4 * 13 + at)

        assert repair(made.config).ok
        assert files(made.output / "index")[:5] == index[:5]
        made.dispatch()
        append(120, {"KEYS": "k"})
        made.log.write(made.store, first=floor // LOG_FILE)
        made.dispatch()
        assert verify(made.config).ok

    @pytest.mark.parametrize("is_killed", [True, False])
    def test_a_file_that_was_removed_as_expired_and_is_there(self, tmp_path, is_killed):
        """
        Removals are not synced, so a power cut may bring back one file and not the next.
        """
        made = Made(tmp_path, 11, "ext", 900)
        made.dispatch()
        self.expire(made)
        queue = self.expired_queue(made)
        oldest, *_ = before = files(queue)
        raw = oldest.read_bytes()
        made.dispatch(removes_expired=True)
        assert not any(path.exists() for path in before[:2])
        oldest.write_bytes(raw)
        for _ in range(60):
            made.log.append(made.messages.next())
        made.log.write(made.store, ahead=1, first=self.GONE)
        if is_killed:
            made.kill()
        made.dispatch()

        assert not oldest.exists()
        assert verify(made.config).ok

    def test_files_that_expired_are_no_reason_to_refuse(self, made):
        """
        Whatever removed them: the entry that is now a queue's first is of an expired record.
        """
        queue = self.expired_queue(made)
        files(queue)[0].unlink()
        made.dispatch()

        name = queue.relative_to(made.output).as_posix()
        assert progress.load(made.output).firsts[name] > 0
        assert verify(made.config).ok

    def test_a_file_of_records_that_are_there_is_one(self, tmp_path):
        made = Made(tmp_path, 11)
        made.dispatch()
        (made.store / names.COMMITLOG / names.offset_file(0)).unlink()
        queue = queue_of(made.output)
        for path in files(queue)[:-1]:
            path.unlink()

        with pytest.raises(StoreError, match="no such file"):
            made.dispatch()

    @pytest.mark.parametrize("is_ours", [True, False])
    def test_what_retention_removes_is_in_the_books(self, tmp_path, is_ours):
        made = Made(tmp_path, 11, "ext", 900)
        made.dispatch()
        self.expire(made)
        made.dispatch(removes_expired=True)
        if not is_ours:
            shutil.rmtree(made.output / ".reput")
            assert repair(made.config).ok
        made.dispatch()
        known = progress.load(made.output)

        assert known.firsts
        for name, base in known.firsts.items():
            assert files(made.output / name)[0].name == names.offset_file(base)


class TestRefusals:
    def test_a_repair_that_was_cut_off_has_to_be_run_again(self, made):
        """
        Nothing continues from an output of which a part is exchanged.
        """
        made.dispatch(half(made))
        marking.set_repairing(made.output / ".reput")

        with pytest.raises(StoreError, match="was interrupted"):
            made.dispatch()
        assert repair(made.config).ok
        made.dispatch()
        made.check()

    def test_what_a_cut_off_repair_has_built_is_removed_at_a_start(self, made):
        made.dispatch(half(made))
        (made.output / ".reput/repair/consumequeue/a/0").mkdir(parents=True)
        made.dispatch()

        assert not (made.output / ".reput/repair").exists()

    @pytest.mark.parametrize(
        ("name", "is_directory"),
        [
            (".reput/quarantine", True),
            (".reput/repair", True),
            ("checkpoint", False),
            ("abort", False),
            (".reput/progress.json", False),
        ],
    )
    def test_what_is_in_the_way_of_our_own_files(self, made, name, is_directory):
        """
        It is named before anything is changed, with what to do; afterwards the repair goes through.
        """
        made.dispatch()
        path = made.output / name
        path.unlink(missing_ok=True)
        path.write_text("x") if is_directory else path.mkdir()
        with pytest.raises(StoreError, match="Move it away") as raised:
            repair(made.config)

        assert str(path) in str(raised.value)
        assert not marks.is_repairing(made.output / ".reput")
        path.unlink() if is_directory else path.rmdir()
        assert repair(made.config).ok

    def test_two_writers(self, made):
        made.dispatch()
        with locks.lock_output(made.output / ".reput"), pytest.raises(StoreError, match="writing"):
            repair(made.config)

    @pytest.mark.parametrize("is_there", [False, True])
    def test_no_output_at_all(self, made, tmp_path, is_there):
        """
        A path with a typo gets no new output.
        """
        other = tmp_path / "outptu"
        if is_there:
            other.mkdir()

        with pytest.raises(StoreError, match="no output to repair"):
            repair(config_of(made.store, other, **made.conf))
        assert other.exists() == is_there
        assert not is_there or list(other.iterdir()) == []

    def test_another_stores_output(self, made, tmp_path):
        """
        Without a record, nothing but the files says whose they are.
        """
        made.dispatch()
        other = Made(tmp_path / "other", 77)
        other.dispatch()
        shutil.rmtree(other.output / ".reput")
        before = files_of(other.output)

        with pytest.raises(StoreError, match="nothing in it is of"):
            repair(config_of(made.store, other.output, **made.conf))
        assert files_of(other.output) == before

    def test_another_store_by_the_record(self, made, tmp_path):
        other = Made(tmp_path / "other", 77)
        other.dispatch()

        with pytest.raises(StoreError, match="nothing in it is of"):
            repair(config_of(made.store, other.output, **made.conf))

    def test_a_brokers_store(self, made):
        other = Made(made.root / "other", 77)

        with pytest.raises(StoreError, match="broker's store"):
            repair(config_of(made.store, other.store, **made.conf))

    def test_other_settings(self, made):
        made.dispatch()

        with pytest.raises(StoreError, match="now it is"):
            repair(config_of(made.store, made.output, **{**made.conf, "maxIndexNum": "20"}))

    def test_a_log_that_cannot_be_read_to_the_output_s_end(self, made):
        """
        What cannot be made again is not thrown away.
        """
        made.dispatch()
        flip(made.store / names.COMMITLOG / names.offset_file(LOG_FILE), 5)
        before = files_of(made.output)

        with pytest.raises(ReputError):
            repair(made.config)
        assert files_of(made.output) == before
        assert progress.load(made.output).clean


def test_a_repair_follows_a_cut_log(made):
    """
    Where the log has other records now, the output has those.
    """
    made.dispatch()
    log, at = made.log, half(made)
    log.places = [place for place in log.places if place.end <= at]
    del log.data[at:]
    log.blanks = [blank for blank in log.blanks if blank < at]
    for path in (made.store / names.COMMITLOG).iterdir():
        path.unlink()
    made.grow(20)
    files(queue_of(made.output))[0].unlink()

    assert repair(made.config).ok
    made.check()
    known = progress.load(made.output)
    assert known.truncations == 1
    assert [position <= at for _, position in known.cuts] == [True]


def test_index_files_keep_their_order(made):
    """
    Only the order of their names counts: files that are made again come between those that stay.
    """
    made.dispatch()
    index = made.output / "index"
    before = [path.name for path in files(index)]
    for name in (before[0], before[4], before[5], before[-1]):
        (index / name).unlink()
    shutil.rmtree(made.output / ".reput")

    assert repair(made.config).ok
    assert [path.name for path in files(index)][1:4] == before[1:4]
    made.check()
