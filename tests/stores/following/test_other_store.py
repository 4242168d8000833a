"""An output of another store answers for that one: whatever reads it says so, and when it is not."""

from __future__ import annotations

import random
import shutil

import pytest

from reput.checkpoints import output_record, progress
from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.stores.following.identity import compare
from reput.stores.following.other_store import refuse_other_store
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.stores import LOG_FILE, SMALL, Log, config_of, fill
from tests.streaming.settings.test_places import run


def dispatched(tmp_path, log, name="store", **options):
    config = config_of(log.write(tmp_path / name), tmp_path / f"out-{name}")
    dispatcher = StoreDispatcher(config, **options)
    dispatcher.dispatch(log.end)
    dispatcher.close()
    return config


def is_refused(config) -> bool:
    """Tell whether it is refused; a job that compares all that it read has to refuse it as well."""
    log = CommitLog(commitlog_directories(config.path, config.settings), config.settings)
    try:
        seen = compare(log, progress.known_log(progress.load(config.output)), is_thorough=True)
        is_unrelated = not seen.is_same and seen.common is None and not seen.is_related
        try:
            refuse_other_store(log, config.path, config.output, output_record.read(config.output))
        except StoreError:
            assert is_unrelated
            return True
        return False
    finally:
        log.close()


@pytest.mark.parametrize(
    "command",
    [
        "topics",
        "tail --topic orders --seconds 0",
        "query offset 0 --topic orders --queue 0",
        "query key k1 --topic orders",
        "query consumers",
        "export --topic orders --to TO",
        "verify",
        "handover",
    ],
)
@pytest.mark.parametrize("is_of_file", [False, True], ids=["options", "reput.toml"])
def test_each_command_that_reads_one_says_so(tmp_path, monkeypatch, capsys, command, is_of_file):
    """
    In one line that names both, with the exit code of a rebuild, and without an answer.
    """
    first = dispatched(tmp_path, fill(Log(), 1, 60))
    other = fill(Log(), 2, 60).write(tmp_path / "other")
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in SMALL.items()))
    words = ["--store", other, "--output", first.output, "--broker-conf", conf]
    if is_of_file:
        (tmp_path / "reput.toml").write_text(
            f"[[store]]\npath='{other}'\noutput='{first.output}'\nbroker_conf='{conf}'\n"
        )
        words = ["--config", tmp_path / "reput.toml"]
    command = command.replace("TO", str(tmp_path / "to")).split()

    code, shown, error = run(monkeypatch, capsys, *command, *words)

    assert (code, shown, error.count("\n")) == (3, "", 1)
    assert f"{first.output}: none of its records is in the commitlog of {other}" in error


@pytest.mark.parametrize("seed", range(12))
def test_a_log_that_was_cut_is_the_same_log(tmp_path, seed):
    """
    Cut anywhere after its first record, and written again, with or without its oldest files.
    """
    pick = random.Random(seed)
    config = dispatched(tmp_path, fill(Log(), seed, 200))
    log = fill(Log(), seed, pick.choice([1, 2, 50, 150]))
    fill(log, seed + 100, 120)
    shutil.rmtree(config.path / names.COMMITLOG)
    log.write(config.path)

    assert not is_refused(config)


def test_a_log_that_has_expired_says_nothing(tmp_path):
    """
    The files that were read are gone, and of others the output knows nothing.
    """
    log = fill(Log(), 1, 60)
    config = dispatched(tmp_path, log)
    last = log.end // LOG_FILE
    fill(log, 2, 200).write(config.path)
    for path in sorted((config.path / names.COMMITLOG).iterdir())[: last + 1]:
        path.unlink()

    assert not is_refused(config)


def test_what_expired_in_part_is_of_the_log(tmp_path):
    config = dispatched(tmp_path, fill(Log(), 1, 200))
    for path in sorted((config.path / names.COMMITLOG).iterdir())[:-1]:
        path.unlink()

    assert not is_refused(config)


def test_a_first_record_that_was_passed_over_or_is_damaged_since_says_nothing(tmp_path):
    """
    Of one that cannot be read, nothing tells what it was; what stands after it does.
    """
    log = fill(Log(), 1, 40)
    broken = bytearray(log.data)
    broken[4] ^= 1
    whole, log.data = log.data, broken
    passed = dispatched(tmp_path, log, "passed", skips_corrupt=True)
    assert progress.load(passed.output).skipped
    assert not is_refused(passed)
    log.data = whole
    sound = dispatched(tmp_path, log, "sound")
    log.data = broken
    log.write(sound.path)

    assert not is_refused(sound)


def test_a_log_that_was_replaced_as_a_whole_is_another_one(tmp_path):
    config = dispatched(tmp_path, fill(Log(), 1, 60))
    shutil.rmtree(config.path / names.COMMITLOG)
    fill(Log(), 2, 90).write(config.path)

    assert is_refused(config)


def test_queues_of_the_store_itself_are_its_brokers(tmp_path):
    """
    Their record of progress may be of a job before the broker continued.
    """
    log = fill(Log(), 1, 60)
    config = dispatched(tmp_path, log)
    (config.output / names.STATE).rename(config.path / names.STATE)
    shutil.rmtree(config.path / names.COMMITLOG)
    fill(Log(), 2, 60).write(config.path)
    files = CommitLog(commitlog_directories(config.path, config.settings), config.settings)

    record = output_record.read(config.path)
    assert record
    refuse_other_store(files, config.path, None, record)
    refuse_other_store(files, config.path, config.path, record)
    files.close()
