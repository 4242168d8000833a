"""`reput handover` says no wherever a broker would lose something, and yes otherwise."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from formats import names
from formats.errors import StoreError
from streaming.config import FlushPolicy
from streaming.console import print_handover
from streaming.dispatcher import StoreDispatcher
from streaming.handover import examine
from tests.streaming.stores_for_tests import LOG_FILE, Log, config_of, fill


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

    assert f"ends at {log.places[-1].position}, the log at {log.end}" in problem


def test_one_whose_writer_was_killed_is_not(made):
    log, config = made
    dispatcher = StoreDispatcher(config, flush=FlushPolicy(is_sync=True))
    dispatcher.dispatch(log.end)
    dispatcher._close_files()

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
    command = [sys.executable, "-m", "streaming", "handover", "--json", "--broker-conf", str(conf)]
    command += ["--store", str(config.path), "--output", str(config.output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    said = json.loads(done.stdout)
    assert said["safe"] is is_complete
    assert said["verdict"] == ("sound" if is_complete else "incomplete")
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

    print_handover(config, examine(config), as_json=False)
    said, _, lines = capsys.readouterr().out.partition("With the broker stopped:\n")
    subprocess.run(["/bin/sh", "-e", "-c", lines], check=True)

    assert said.startswith("safe: ")
    assert {kind: (spaced / kind).stat().st_ino for kind in written} == written
    assert (spaced / "checkpoint").exists()
    assert (spaced / "before-reput-2" / "index" / "old").exists() == has_own
