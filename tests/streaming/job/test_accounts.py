"""What a job logs of its stores: each failure once, and every batch."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from reput.formats.errors import FormatError, StoreError, StuckError
from reput.streaming.job.accounts import Accounts

CONFIGS = [SimpleNamespace(name="a"), SimpleNamespace(name="b")]


@dataclass
class Failing:
    """Stands for writers, of which a test says what they have failed with."""

    failures: dict[str, BaseException] = field(default_factory=dict)

    def failure(self, store: str) -> BaseException | None:
        return self.failures.get(store)

    def seen_at(self, store: str) -> float:
        return 0.0


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
