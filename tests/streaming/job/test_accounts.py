"""What a job logs of its stores: each failure once, and every batch."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from reput.formats.errors import FormatError, StoreError, StuckError
from reput.streaming.dispatch.batch import Batch
from reput.streaming.job.accounts import Accounts
from reput.streaming.writers.base import Result

CONFIGS = [SimpleNamespace(name=name, output=Path("/out", name)) for name in "ab"]


@dataclass
class Failing:
    """Stands for writers, of which a test says what they have failed with."""

    failures: dict[str, BaseException] = field(default_factory=dict)
    silences: dict[str, float] = field(default_factory=dict)

    def end(self, store: str) -> int:
        return {"a": 5, "b": 6}[store]

    def failure(self, store: str) -> BaseException | None:
        return self.failures.get(store)

    def seen_at(self, store: str) -> float:
        return time.monotonic() - self.silences.get(store, 0.0)

    def state(self, store: str) -> None:
        """Say nothing of where an output stands."""


@pytest.fixture
def writers():
    return Failing()


@pytest.fixture
def said(writers, caplog):
    """Return a function that looks at store b with an error, and returns the lines that it logs."""
    caplog.set_level(logging.INFO, logger="reput")
    accounts = Accounts(writers, CONFIGS, is_live=True)

    def look(error: BaseException | None) -> list[str]:
        caplog.clear()
        writers.failures = {} if error is None else {"b": error}
        assert accounts.look_at_failure("b") is error
        return [record.event for record in caplog.records]

    return look


class TestEnds:
    """
    A writer is ahead of Spark's plan when its log is lost, and stays so: `/healthz` is not to fail.
    """

    def test_a_store_that_has_failed_or_is_silent_has_none(self, writers):
        accounts = Accounts(writers, CONFIGS, is_live=True)
        found = []
        for failure, silence in ((None, 0.0), (OSError(5, "away"), 0.0), (None, 21.0), (None, 0.0)):
            writers.failures = {} if failure is None else {"b": failure}
            writers.silences = {"b": silence}
            for store in "ab":
                accounts.look_at_failure(store)
            found.append(accounts.ends())

        assert found == [{"a": 5, "b": 6}, {"a": 5}, {"a": 5}, {"a": 5, "b": 6}]


class TestFailure:
    def test_a_writer_that_stays_silent_is_said_once(self, said):
        """
        Its error says for how long, which is another text each time.
        """
        found = [said(StuckError("/out/b", seconds)) for seconds in (10, 20, 30)]

        assert found == [["failed"], [], []]

    @pytest.mark.parametrize(
        "other",
        [
            StuckError("/out/other", 10),
            FormatError("/log", 8, "no magic"),
            FormatError("/log", 4, "no size"),
            StoreError("/log", "no magic", ""),
            OSError(28, "No space left on device"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_another_failure_is_said(self, said, other):
        assert said(FormatError("/log", 4, "no magic")) == ["failed"]
        assert said(FormatError("/log", 4, "no magic")) == []
        assert said(other) == ["failed"]

    def test_its_end_is_said_and_the_next_one_too(self, said):
        error = StuckError("/out/b", 10)

        assert [said(each) for each in (None, error, None, None, error)] == [
            [], ["failed"], ["resumed"], [], ["failed"],
        ]  # fmt: skip

    def test_a_job_of_one_store_ends_with_its_failure_instead(self, writers, caplog):
        accounts = Accounts(writers, CONFIGS[1:], is_live=True)
        writers.failures["b"] = StuckError("/out/b", 10)

        assert accounts.look_at_failure("b") is writers.failures["b"]
        assert caplog.records == []


class TestBatches:
    @pytest.fixture
    def accounts(self, writers, caplog):
        caplog.set_level(logging.INFO, logger="reput")
        return Accounts(writers, CONFIGS, is_live=True)

    def test_what_was_told_between_two_batches_of_sparks_is_one_line(self, accounts, caplog):
        accounts.take([Result("a", [Batch(0, 10, messages=2)]), Result("b", [Batch(5, 9)])])
        accounts.take([Result("a", [Batch(10, 30, messages=1)])])
        accounts.log_batch(7)
        accounts.log_batch(8)

        assert [record.getMessage() for record in caplog.records] == [
            "batch 7 of a: 3 messages, 30 bytes in 0.000 s, at 30",
            "batch 7 of b: 0 messages, 4 bytes in 0.000 s, at 9",
        ]
        assert [(record.batch, record.store) for record in caplog.records] == [(7, "a"), (7, "b")]

    def test_what_comes_after_the_last_one_has_a_line_without_its_number(self, accounts, caplog):
        accounts.take([Result("a", [Batch(0, 10, messages=2)])])
        accounts.log_batch(7)
        caplog.clear()
        accounts.take([Result("a", [Batch(10, 30, messages=1)]), Result("b", [Batch(5, 5)])])
        accounts.log_rest()
        accounts.log_rest()

        (record,) = caplog.records
        assert record.getMessage() == (
            "after the last batch of a: 1 messages, 20 bytes in 0.000 s, at 30"
        )
        assert (record.store, record.messages, record.end) == ("a", 1, 30)
        assert not hasattr(record, "batch")


def test_the_store_that_failed_first_comes_first(writers, caplog):
    accounts = Accounts(writers, CONFIGS, is_live=True)
    writers.failures = {"b": StoreError("/b", "gone", "mount it")}
    accounts.look_at_failure("b")
    assert caplog.messages[-1].endswith("; the other stores are dispatched")
    writers.failures["a"] = StoreError("/a", "gone", "mount it")
    for store in "ab":
        accounts.look_at_failure(store)

    assert accounts.failed_stores() == ["b", "a"]
    # No store is left to be dispatched.
    assert caplog.messages[-1].endswith("mount it")
    del writers.failures["b"]
    accounts.look_at_failure("b")
    assert accounts.failed_stores() == ["a"]
