"""A queue set back to an older copy of the same length is found by the CRC of its last bytes."""

from __future__ import annotations

import json
import shutil
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reput.checkpoints import progress
from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE
from reput.formats.rocketmq.encode import Message
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.verify.output import verify
from reput.streaming.verify.repair import repair
from tests.builders.slow_twins import differences
from tests.builders.stores import Log, config_of, files_of
from tests.streaming.verify.test_repair import Made

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("consumequeue", "consumequeue_ext", "batchconsumequeue")
# Where an entry or unit has its tags code, and bytes that no check of a last entry looks at.
CODE_AT = {"consumequeue": 12, "consumequeue_ext": 2, "batchconsumequeue": 12}


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path, 5, "ext")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def made_of(tmp_path, kind):
    """Return a store with queues of this kind whose units or entries hold the tags codes."""
    return Made(tmp_path, 5, "ext" if kind == "consumequeue_ext" else "plain")


def cut_and_rewrite(made: Made, count: int | None = None) -> None:
    """Cut the log's last half and write it again, or `count` of it: the same with other tags."""
    log = made.log
    places = log.places[len(log.places) // 2 :]
    at = places[0].position
    log.places = log.places[: -len(places)]
    log.blanks = [blank for blank in log.blanks if blank < at]
    del log.data[at:]
    for _, _, message in places[:count]:
        tags = message.properties.get("TAGS", "")
        other = message.properties | ({"TAGS": tags.swapcase()} if tags else {})
        log.append(message._replace(properties=other))
    for path in (made.store / names.COMMITLOG).iterdir():
        path.unlink()
    log.write(made.store, ahead=1)


def set_back(made: Made, earlier: Path, kind: str) -> Path:
    """Set back a queue's last file whose older copy is as long and has other tags codes."""
    ends = progress.load(made.output).queues
    before = progress.load(earlier).queues
    for name, end in sorted(ends.items()):
        path = max((made.output / name).iterdir())
        older = earlier / path.relative_to(made.output)
        is_changed = name.startswith(f"{kind}/") and before.get(name) == end
        if is_changed and older.read_bytes() != path.read_bytes():
            shutil.copy(older, path)
            return path
    raise AssertionError(f"no queue of kind {kind} has changed")


def code_of_last(made: Made, kind: str) -> Path:
    """Change a bit of the tags code in a queue's last entry or unit."""
    units = {"consumequeue": 20, "batchconsumequeue": 46}
    queues = progress.load(made.output).queues
    name, end = next((n, e) for n, e in sorted(queues.items()) if n.startswith(f"{kind}/"))
    path = max((made.output / name).iterdir())
    raw = bytearray(path.read_bytes())
    at = end - int(path.name)
    # The tests' extensions have units of 20 bytes: no bit maps.
    raw[at - units.get(kind, 20) + CODE_AT[kind] + 7] ^= 0x10
    path.write_bytes(raw)
    return path


def test_a_queue_set_back_to_before_a_cut_is_refused_and_repaired(made_of, tmp_path, kind):
    """
    The log was cut and rewritten by messages of the same sizes between the copy and now: lengths,
    places and sizes are those of the record, and only the tags codes tell.
    """
    made_of.dispatch()
    earlier = shutil.copytree(made_of.output, tmp_path / "earlier")
    cut_and_rewrite(made_of)
    made_of.dispatch()
    made_of.check()
    path = set_back(made_of, earlier, kind)
    before = files_of(made_of.output)

    with pytest.raises(StoreError, match="not as its last writer left it") as raised:
        made_of.dispatch()
    assert str(path) in str(raised.value)
    assert "rebuild --repair" in str(raised.value)
    assert files_of(made_of.output) == before
    assert not verify(made_of.config).ok
    assert repair(made_of.config).ok
    made_of.check()
    made_of.grow(30)
    made_of.dispatch()
    made_of.check()


def test_what_a_repair_has_left_is_known_too(made_of, kind):
    """
    A repair is a clean end like any other.
    """
    made_of.dispatch()
    progress_file = made_of.output / progress.STATE_DIRECTORY / progress.FILE_NAME
    progress_file.unlink()
    assert repair(made_of.config).ok
    code_of_last(made_of, kind)

    with pytest.raises(StoreError, match="not as its last writer left it"):
        made_of.dispatch()


def test_a_queue_that_got_nothing_more_keeps_its_crc(made_of, kind):
    """
    What a start has compared is not taken from the file again at the next close: a queue that is
    set back while a writer runs, and gets nothing from it, is found at the next start.
    """
    made_of.dispatch()
    dispatcher = StoreDispatcher(made_of.config)
    code_of_last(made_of, kind)
    dispatcher.close()

    with pytest.raises(StoreError, match="not as its last writer left it"):
        made_of.dispatch()


def test_every_queue_has_one_after_a_clean_end_and_none_while_a_writer_runs(made):
    """
    A flush every half second writes no CRCs; a close has them for all queues, old and new.
    """
    end = made.log.places[150].end
    made.dispatch(end)
    known = progress.load(made.output)
    assert {kind: any(n.startswith(f"{kind}/") for n in known.tails) for kind in KINDS} == (
        dict.fromkeys(KINDS, True)
    )
    assert known.tails.keys() == known.queues.keys()

    dispatcher = StoreDispatcher(made.config, flush=FlushPolicy(is_sync=True))
    assert progress.load(made.output).tails == {}
    dispatcher.dispatch(made.log.places[200].end)
    dispatcher.flush()
    assert progress.load(made.output).tails == {}
    dispatcher.close()
    known = progress.load(made.output)
    assert known.tails.keys() == known.queues.keys()
    made.dispatch()
    made.check()


@pytest.mark.parametrize("is_early", [False, True])
def test_a_start_after_a_kill_goes_on(made, is_early):
    """
    A killed writer has left no CRC, not even of what it never touched.
    """
    made.dispatch(made.log.places[100].end)
    made.kill(made.log.places[100 if is_early else 200].end)
    assert progress.load(made.output).tails == {}
    made.dispatch()

    made.check()


@pytest.mark.parametrize("count", [None, 10])
def test_a_cut_while_a_writer_runs_leaves_no_old_crc(made, count):
    """
    Queues get other entries and end where they did, or end earlier: the CRCs at the close are those
    of the entries that are there, so the next start continues.
    """
    # Two runs, so that there is a place to go back to.
    made.dispatch(made.log.places[100].end)
    made.dispatch()
    dispatcher = StoreDispatcher(made.config, flush=FlushPolicy(is_sync=True))
    cut_and_rewrite(made, count)
    dispatcher.dispatch(made.log.end)
    dispatcher.close()
    made.dispatch()

    assert differences(files_of(made.output), made.expected()) == []
    assert progress.load(made.output).tails == progress.load(made.fresh()).tails


def test_a_record_of_an_earlier_build_is_read_as_nothing_known(made):
    """
    Without the field, a start continues as it did; from its clean end on the CRCs are known.
    """
    made.dispatch(made.log.places[150].end)
    path = made.output / progress.STATE_DIRECTORY / progress.FILE_NAME
    values = json.loads("{" + path.read_text().partition("\n")[2])
    del values["tails"]
    rest = json.dumps(values)[1:]
    path.write_text(f'{{"crc": {zlib.crc32(rest.encode())},\n{rest}')
    assert progress.load(made.output).tails == {}
    made.dispatch()

    made.check()
    assert progress.load(made.output).tails


def test_in_place_a_broker_may_have_gone_on(tmp_path):
    """
    No CRC is recorded in place, and none that came with the files is compared: a broker may have
    cut its log and written entries of the same sizes over its own.
    """
    made = Made(tmp_path)
    made.dispatch()
    for path in made.output.iterdir():
        shutil.move(path, made.store / path.name)
    made.output = made.store
    made.config = replace(made.config, output=made.store, in_place=True)
    assert progress.load(made.output).tails
    path = code_of_last(made, "consumequeue")
    before = path.read_bytes()
    made.dispatch()

    assert progress.load(made.output).tails == {}
    assert path.read_bytes() == before
    assert repair(made.config).ok
    assert progress.load(made.output).tails == {}


@pytest.mark.parametrize("damage", ["removed", "other entry"])
def test_verify_finds_it_in_a_queue_whose_records_have_all_expired(tmp_path, damage):
    """
    Nothing in the log tells what such a queue should hold.
    """
    log = Log()
    for i in range(3):
        log.append(Message("early", properties={"TAGS": "a"}, queue_offset=i))
    for i in range(60):
        log.append(Message("late", body=bytes(100), queue_offset=i))
    store = log.write(tmp_path / "store")
    config = config_of(store, tmp_path / "out")
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(log.end)
    dispatcher.close()
    (store / "commitlog" / names.offset_file(0)).unlink()
    assert verify(config).ok
    path = max((config.output / "consumequeue" / "early" / "0").iterdir())
    raw = bytearray(path.read_bytes())
    raw[2 * ENTRY_SIZE + 19] ^= 1
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(raw)

    report = verify(config)
    assert [finding.path for finding in report.findings] == [str(path)]
    with pytest.raises(StoreError, match="early"):
        StoreDispatcher(config)
