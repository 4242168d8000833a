"""What a job ends with: its first error, whichever thread comes upon a second one."""

from __future__ import annotations

import pytest

from reput.formats.errors import FormatError, store_of
from reput.formats.rocketmq import names
from reput.streaming.job.outcome import Outcome
from reput.streaming.spark.errors import SPARK_ERRORS
from reput.streaming.writers.base import UnreachableError
from tests.builders.stores import LOG_FILE, Log, config_of, fill

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
        with outcome.explaining([], skips_corrupt=False):
            pass

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
        for later in (None, FIRST, LATER):
            with (
                pytest.raises(OSError, match="the first"),
                outcome.explaining([], skips_corrupt=False),
            ):
                outcome.end_with(later)

    def test_a_later_error_is_raised_where_it_happens_all_the_same(self, outcome):
        outcome.take(FIRST)
        with pytest.raises(OSError, match="a later one"):
            outcome.end_with(LATER)

        assert outcome.error is FIRST

    def test_an_error_is_marked_with_its_store(self, outcome):
        error = OSError("full")
        outcome.take(error, "b")

        assert store_of(error) == "b"


class TestExplained:
    @pytest.mark.parametrize("is_raised", [False, True])
    def test_damage_is_explained_whoever_hears_of_it_first(self, tmp_path, is_raised):
        """
        The job may look at its stores before Spark has told that their batch failed.
        """
        fill(Log(), 5, 150).write(tmp_path / "store")
        config = config_of(tmp_path / "store", tmp_path / "out")
        path = tmp_path / "store" / names.COMMITLOG / names.offset_file(LOG_FILE)
        error = FormatError(path, 0, "no magic", "Restore it.", "")
        outcome = Outcome(lambda: False)
        outcome.take(error)

        with (
            pytest.raises(FormatError, match=r"which leaves out [0-9]+ bytes") as raised,
            outcome.explaining([config], skips_corrupt=False),
        ):
            outcome.end_with(error if is_raised else None)

        assert raised.value.__cause__ is error

    def test_what_is_no_error_of_the_job_passes(self):
        outcome = Outcome(lambda: False)
        with (
            pytest.raises(OSError, match="a later one"),
            outcome.explaining([], skips_corrupt=False),
        ):
            raise LATER

        assert outcome.error is None


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
        with pytest.raises(FormatError), outcome.explaining([], skips_corrupt=True):
            pass
