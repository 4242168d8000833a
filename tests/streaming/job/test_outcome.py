"""What a job ends with: its first error, whichever thread comes upon a second one."""

from __future__ import annotations

import pytest

from reput.formats.errors import FormatError, store_of
from reput.streaming.job.outcome import Outcome
from reput.streaming.spark.errors import SPARK_ERRORS
from reput.streaming.writers.base import UnreachableError

FIRST, LATER = OSError("the first"), OSError("a later one")


@pytest.fixture
def outcome():
    """Return the outcome of a job that nobody has asked to end."""
    return Outcome(lambda: False)


def keep(outcome: Outcome, error: BaseException) -> None:
    with pytest.raises(type(error)), outcome.keeping():
        raise error


class TestFirst:
    def test_all_is_well_at_the_beginning(self, outcome):
        outcome.take(None)
        outcome.end_with(None)
        outcome.raise_it([], skips_corrupt=False)

        assert outcome.error is None

    @pytest.mark.parametrize("again", [Outcome.take, keep])
    @pytest.mark.parametrize("before", [Outcome.take, keep])
    def test_the_first_error_counts(self, outcome, before, again):
        """
        The exit code and the message of a job do not depend on which thread is later.
        """
        before(outcome, FIRST)
        again(outcome, LATER)

        assert outcome.error is FIRST
        with pytest.raises(OSError, match="the first"):
            outcome.raise_it([], skips_corrupt=False)

    def test_a_later_error_is_raised_where_it_happens_all_the_same(self, outcome):
        outcome.take(FIRST)
        with pytest.raises(OSError, match="a later one"):
            outcome.end_with(LATER)

        assert outcome.error is FIRST

    def test_an_error_is_marked_with_its_store(self, outcome):
        error = OSError("full")
        outcome.take(error, "b")

        assert store_of(error) == "b"


class TestOfSpark:
    @pytest.mark.parametrize("kind", [*SPARK_ERRORS, UnreachableError])
    @pytest.mark.parametrize("is_asked", [False, True])
    def test_the_end_of_spark_counts_unless_the_job_was_asked_to_end(self, kind, is_asked):
        """
        A signal for a group of processes reaches Spark too.
        """
        outcome = Outcome(lambda: is_asked)
        error = kind.__new__(kind, "gone")
        keep(outcome, error)

        assert outcome.error is (None if is_asked else error)

    @pytest.mark.parametrize("is_asked", [False, True])
    def test_spark_may_end_before_a_job_that_was_asked_to_end(self, is_asked):
        outcome = Outcome(lambda: is_asked)

        def run() -> str:
            with outcome.ending_without_spark():
                raise UnreachableError("gone")
            return "on"

        if is_asked:
            assert run() == "on"
        else:
            with pytest.raises(UnreachableError):
                run()

    def test_a_stores_error_counts_also_in_a_job_that_was_asked_to_end(self):
        outcome = Outcome(lambda: True)
        error = FormatError("/log", 4, "no magic")
        keep(outcome, error)

        assert outcome.error is error
        with pytest.raises(FormatError):
            outcome.raise_it([], skips_corrupt=True)
