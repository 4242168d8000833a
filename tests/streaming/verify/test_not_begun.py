"""An output that nothing was dispatched to is incomplete; one whose record is gone is damaged."""

from __future__ import annotations

import shutil

import pytest

from reput.checkpoints import marks, progress
from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.endings.verdict import Verdict, verdict_of
from reput.streaming.verify.output import verify
from tests.builders.served import messages
from tests.builders.stores import config_of


@pytest.fixture
def made(tmp_path):
    """Return a log, and the configuration of an output that is not there."""
    log = messages(30)
    return log, config_of(log.write(tmp_path / "store"), tmp_path / "out")


@pytest.mark.parametrize("there", [(), (progress.STATE_DIRECTORY,), (names.ABORT,)])
def test_nothing_was_dispatched(made, there):
    _, config = made
    config.output.mkdir()
    for name in there:
        (config.output / name).mkdir()
    report = verify(config)

    assert verdict_of(report) == Verdict.INCOMPLETE
    assert report.lacking == 1
    assert "nothing was dispatched here: `reput rebuild` does it" in report.lacks[0].detail
    assert (report.found, report.messages) == (0, 0)


@pytest.mark.parametrize(
    "there",
    [*names.DISPATCHED, names.CHECKPOINT, f"{progress.STATE_DIRECTORY}/{marks.REPAIRING}"],
)
def test_something_is_there_and_no_record(made, there):
    _, config = made
    (config.output / there).mkdir(parents=True)
    if there == names.CHECKPOINT:
        (config.output / there).rmdir()
        (config.output / there).write_bytes(bytes(4096))

    assert verdict_of(verify(config)) == Verdict.DAMAGED


def test_the_record_is_gone(made):
    log, config = made
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(log.end)
    dispatcher.close()
    shutil.rmtree(config.output / progress.STATE_DIRECTORY)
    report = verify(config)

    assert verdict_of(report) == Verdict.DAMAGED
    assert [each.detail for each in report.findings if "--repair" in each.detail]
    assert report.messages == 30


def test_no_directory_is_an_error(made):
    """
    It may be a typo: nobody is to be told to rebuild there.
    """
    _, config = made

    with pytest.raises(StoreError, match=r"no such directory\. Point --output"):
        verify(config)
