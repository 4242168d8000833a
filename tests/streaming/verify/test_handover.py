"""`reput handover` says no wherever a broker would lose something, and yes otherwise."""

from __future__ import annotations

import errno
import json
import shlex
import subprocess
import sys

import pytest

from reput.checkpoints import progress
from reput.formats.errors import ReputError, StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.endings.verdict import Verdict
from reput.streaming.job.reach import shortfalls
from reput.streaming.job.summary import StoreSummary, Summary
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.show.reports import print_handover
from reput.streaming.verify.handover import examine
from reput.streaming.verify.output import verify
from tests.builders.stores import LOG_FILE, Log, config_of, fill


@pytest.fixture
def made(tmp_path):
    log = fill(Log(), 5, 80)
    log.write(tmp_path / "store")
    return log, config_of(tmp_path / "store", tmp_path / "out")


def dispatch(config, end: int, **options) -> None:
    dispatcher = StoreDispatcher(config, **options)
    dispatcher.dispatch(end)
    dispatcher.close()


def test_a_complete_output_is_safe(made):
    log, config = made
    dispatch(config, log.end)
    result = examine(config)

    assert result.is_safe
    assert result.end == log.end
    assert result.places == ["consumequeue", "index", "checkpoint"]


def test_one_that_ends_before_the_log_is_not(made):
    log, config = made
    dispatch(config, log.places[-1].position)
    (problem,) = examine(config).problems

    assert f"ends at {log.places[-1].position}, the log ends at {log.end}" in problem


@pytest.mark.parametrize("again", [0, 5], ids=["from 0", "from within"])
def test_one_without_entries_of_live_messages_is_not(tmp_path, again):
    """
    A topic was deleted and made again, or numbers were given twice: the broker had entries of its
    own, which its rebuild of the log does not give, nor does ours. `verify` tells of it and is
    sound. Once these messages have expired nothing is left to tell.
    """
    log = Log()
    for number in (*range(10), *range(again, again + 8)):
        log.append(Message("t", body=bytes(300), queue_offset=number))
    last = log.append(Message("t", body=bytes(300), queue_offset=11 if again == 0 else 13))
    for number in range(30):
        log.append(Message("u", body=bytes(300), queue_offset=number))
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
    dispatch(config, log.end)
    # A record that says 0 is put wherever the queue ends, as a broker puts it.
    left_out = 7 if again == 0 else 5
    report = verify(config)
    (note,) = report.notes
    result = examine(config)
    (problem,) = result.problems

    assert report.ok
    assert report.repeated == left_out
    first = log.places[11 if again == 0 else 10].position
    assert f"{left_out} entries of messages are left out" in note.detail
    assert f"the first is {again or 1}, of the record at physical offset {first}." in note.detail
    assert f"{left_out} entries of messages are left out" in problem
    assert note.detail in problem
    assert result.verdict == Verdict.INCOMPLETE

    for base in range(0, last.position + 1, LOG_FILE):
        (config.path / names.COMMITLOG / names.offset_file(base)).unlink()
    assert verify(config).notes == []
    assert examine(config).is_safe


@pytest.mark.parametrize("further", [1, 2])
def test_entries_of_further_queues_are_no_messages(tmp_path, further):
    """
    A message whose own queue has it may be left out in others: each of these is counted, and none
    is said to be a message that nobody can read.
    """
    log = Log()
    queues = ",".join(f"%LMQ%{number}" for number in range(further))
    for number, at in enumerate((0, 1, 2, 1, 3)):
        properties = {
            "INNER_MULTI_DISPATCH": queues,
            "INNER_MULTI_QUEUE_OFFSET": ",".join([str(at)] * further),
        }
        log.append(Message("t", body=bytes(300), queue_offset=number, properties=properties))
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out", enableMultiDispatch="true")
    dispatch(config, log.end)
    report = verify(config)
    (problem,) = examine(config).problems
    said = "1 entry of a message is left out, as its queue offset had been given before"

    assert report.ok
    assert report.repeated == further
    where = f"it is 1, of the record at physical offset {log.places[3].position}. A broker"
    assert [each.detail.split("'s own")[0] for each in report.notes] == [
        f"{said}: {where}" for _ in range(further)
    ]
    assert problem.startswith(said if further == 1 else "2 entries of messages are left out, as ")


def test_one_that_lacks_only_a_blank_is(tmp_path):
    """
    The output ended where its file does, with a BLANK; the broker then made the next file, and nothing
    is in that: no message is missing. One is, once it has a record.
    """
    log = fill(Log(), 1, 10)
    log.blank()
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
    dispatch(config, log.end)
    end = log.blanks[-1]
    assert progress.load(config.output).end == end < log.end == LOG_FILE
    log.write(tmp_path / "store", ahead=1)

    report = verify(config)
    assert report.ok
    assert report.is_complete
    assert examine(config).is_safe
    summary = Summary([StoreSummary("store", end=end)], is_live=True)
    ways = {"is_interrupted": True, "only_flushed": False}
    assert shortfalls([config], summary, {}, **ways) == []

    fill(log, 2, 1).write(tmp_path / "store", ahead=1)
    assert not verify(config).is_complete
    assert not examine(config).is_safe
    assert [each.end for each in shortfalls([config], summary, {}, **ways)] == [end]


def test_of_a_store_without_a_first_message_nothing_is_left(tmp_path):
    """
    A job that ends beside it tells what it did with the others.
    """
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    config = config_of(tmp_path / "store", tmp_path / "out")
    summary = Summary([StoreSummary("store")], is_live=True)

    assert shortfalls([config], summary, {}, is_interrupted=True, only_flushed=False) == []


def test_one_with_nothing_in_it_is_not(made):
    """
    It ends nowhere, and not at a negative offset.
    """
    log, config = made
    StoreDispatcher(config).close()
    (problem,) = examine(config).problems

    assert f"has nothing of the log yet, the log ends at {log.end}" in problem


def test_one_whose_writer_was_killed_is_not(made):
    log, config = made
    dispatcher = StoreDispatcher(config, flush=FlushPolicy(is_sync=True))
    dispatcher.dispatch(log.end)
    dispatcher.abandon()

    assert any("was killed" in problem for problem in examine(config).problems)


def test_one_that_does_not_verify_is_not(made):
    log, config = made
    dispatch(config, log.end)
    path = next(p for p in sorted((config.output / "consumequeue").rglob("0*")) if p.is_file())
    raw = bytearray(path.read_bytes())
    raw[19] ^= 1
    path.write_bytes(raw)

    assert any("reput verify has" in problem for problem in examine(config).problems)


def test_one_that_has_passed_over_something_is_not(made):
    log, config = made
    place = log.places[40]
    path = config.path / "commitlog" / names.offset_file(place.position // LOG_FILE * LOG_FILE)
    raw = bytearray(path.read_bytes())
    raw[place.position % LOG_FILE + 4] ^= 1
    path.write_bytes(raw)
    dispatch(config, log.end, skips_corrupt=True)

    assert any("passed over" in problem for problem in examine(config).problems)


def test_one_that_stopped_at_a_corrupt_record_is_not_sent_there_again(made):
    """
    A rebuild would stop there once more: what passing over leaves out is said, and what it is for.
    """
    log, config = made
    place, after = log.places[40], log.places[41]
    path = config.path / "commitlog" / names.offset_file(place.position // LOG_FILE * LOG_FILE)
    raw = bytearray(path.read_bytes())
    raw[place.position % LOG_FILE + 4] ^= 1
    path.write_bytes(raw)
    dispatcher = StoreDispatcher(config)
    with pytest.raises(ReputError):
        dispatcher.dispatch(log.end)
    before = examine(config)
    dispatcher.close()
    result = examine(config)
    said = "\n".join(result.problems)

    assert f"ends at {place.position}" in said
    assert f"leaves out {after.position - place.position} bytes" in said
    assert "--on-corrupt skip" in said
    assert "is not handed over" in said
    assert "once more" not in said
    assert result.commands == []
    # Before anything is recorded it is the same place, or the log's beginning.
    assert any("is writing; stop it first" in each for each in before.problems)


def test_a_writer_that_failed_is_not_said_to_be_killed(made, monkeypatch):
    """
    A full device is named by the next start and by handover; after that start it is not news.
    """
    log, config = made
    dispatcher = StoreDispatcher(config, flush=FlushPolicy(is_sync=True))
    dispatcher.dispatch(log.places[40].position)
    full = OSError(errno.ENOSPC, "No space left on device", "/out/queué")
    with monkeypatch.context() as patched:
        patched.setattr(dispatcher.parts.output, "flush", lambda: (_ for _ in ()).throw(full))
        with pytest.raises(OSError, match="No space"):
            dispatcher.dispatch(log.end)
    dispatcher.close()
    (problem,) = (each for each in examine(config).problems if "last writer" in each)
    assert "its last writer failed: /out/queu\\xe9: No space left on device; see to" in problem
    assert "killed" not in problem

    again = StoreDispatcher(config)
    assert again.recovery.reasons[0].startswith("its last writer failed: /out/queu")
    again.dispatch(log.end)
    again.close()
    after = StoreDispatcher(config)
    after.close()
    assert (after.recovery.reasons, examine(config).is_safe) == ([], True)


def test_a_broker_that_was_killed_is_named(made):
    log, config = made
    dispatch(config, log.end)
    (config.path / "abort").touch()

    assert any("was killed, and will recover" in problem for problem in examine(config).problems)


def test_without_an_output_there_is_nothing_to_hand_over(made):
    _, config = made

    with pytest.raises(StoreError, match="has not written this output"):
        examine(config)


def test_a_running_broker_is_refused(made):
    log, config = made
    dispatch(config, log.end)
    lock = config.path / "lock"
    lock.touch()
    program = (
        "import fcntl,sys; f=open(sys.argv[1],'r+b'); fcntl.lockf(f,fcntl.LOCK_EX,1,0);"
        "print('held',flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match="a broker holds this store's lock"):
            examine(config)
        holder.stdin.close()


@pytest.mark.parametrize("is_complete", [True, False])
def test_the_command(made, tmp_path, is_complete):
    log, config = made
    dispatch(config, log.end if is_complete else log.places[3].end)
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{k}={v}\n" for k, v in config.properties.items()))
    command = [sys.executable, "-m", "reput", "handover", "--json", "--broker-conf", str(conf)]
    command += ["--store", str(config.path), "--output", str(config.output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    said = json.loads(done.stdout)
    assert said["safe"] is is_complete
    assert said["verdict"] == ("sound" if is_complete else "incomplete")
    assert len(said["commands"]) == (3 if is_complete else 0)
    # What verify says of the rest is the same problem.
    assert len(said["problems"]) == (0 if is_complete else 1)
    assert done.returncode == (0 if is_complete else 4)


@pytest.mark.parametrize("has_own", [True, False])
def test_what_to_type_puts_the_files_in_place(made, tmp_path, has_own, capsys):
    """
    Pasted into a shell as they stand: the output's files are the store's, and its own are kept.
    """
    log, config = made
    spaced = tmp_path / "the store"
    config.path.rename(spaced)
    config = config_of(spaced, config.output)
    dispatch(config, log.end)
    if has_own:
        (spaced / "index").mkdir()
        (spaced / "index" / "old").touch()
        (spaced / "before-reput").mkdir()
    written = {kind: (config.output / kind).stat().st_ino for kind in ("index", "consumequeue")}

    result = examine(config)
    print_handover(result, as_json=False)
    said, _, lines = capsys.readouterr().out.partition("With the broker stopped:\n")
    subprocess.run(["/bin/sh", "-e", "-c", lines], check=True)

    assert said.startswith("safe: ")
    assert [line.strip().removesuffix(" &&") for line in lines.splitlines()] == result.commands
    assert all(str(spaced) in shlex.split(line)[-1] for line in result.commands)
    assert result.commands[-1].startswith("sync ")
    assert {kind: (spaced / kind).stat().st_ino for kind in written} == written
    assert (spaced / "checkpoint").exists()
    assert (spaced / "before-reput-2" / "index" / "old").exists() == has_own
