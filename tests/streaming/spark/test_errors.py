"""Errors of ours cross Spark as what they are, and Spark's own are told in one line."""

from __future__ import annotations

import shutil

import pytest
from pyspark.errors import PySparkException

from reput.formats.errors import ReputError, UsageError, recovered
from reput.streaming.source.datasource import register
from reput.streaming.spark.errors import source_error
from tests.builders.stores import Log, config_of, fill
from tests.formats.test_errors import ERRORS, content


@pytest.mark.spark
class TestThroughSpark:
    @pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
    def test_a_task_s_error_comes_back_equal(self, spark, error):
        def fail(_):
            raise error

        with pytest.raises(PySparkException) as raised:
            spark.sparkContext.parallelize([1], 1).map(fail).collect()

        assert content(recovered(str(raised.value))) == content(error)

    @pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
    def test_an_error_of_rows_comes_back_equal(self, spark, error):
        """
        Spark reads better with it: the message stands on its own line, as before.
        """

        def fail(batches):
            raise error
            yield from batches

        with pytest.raises(PySparkException) as raised:
            spark.range(1).mapInArrow(fail, "id long").collect()

        text = str(raised.value)
        assert content(recovered(text)) == content(error)
        assert f"reput.formats.errors.{type(error).__name__}: " in text

    def test_an_error_of_the_source_s_planner_comes_back(self, spark, tmp_path):
        """
        The store goes while a query reads it: path and remedy are what the reader said.
        """
        config = config_of(fill(Log(), 1, 20).write(tmp_path / "store"), tmp_path / "out")
        register(spark)
        frame = spark.readStream.format("rocketmq").option("path", str(config.path))
        loaded = frame.option("rows", "ranges").load()
        shutil.rmtree(config.path)
        query = (
            loaded.writeStream.foreachBatch(lambda *_: None)
            .option("checkpointLocation", str(tmp_path / "spark"))
            .trigger(availableNow=True)
            .start()
        )
        with pytest.raises(PySparkException):
            query.awaitTermination()
        error = source_error(str(query.exception()))

        assert error.code == "store"
        assert error.fields["path"].startswith(str(config.path))
        assert error.fields["remedy"]


def test_an_argument_that_the_source_refuses_is_not_the_command_s():
    """
    The command exits with 2 for its own arguments alone, which it has checked before Spark runs.
    """
    error = UsageError("no such topic")
    came = source_error(f"Spark says\n{error.__notes__[0]}\n")

    assert (type(came), str(came)) == (ReputError, "no such topic")


def test_what_is_not_ours_is_told_by_its_first_cause():
    came = source_error("Job aborted\nCaused by: java.lang.OutOfMemoryError: heap", "it failed")

    assert str(came).startswith("it failed: java.lang.OutOfMemoryError: heap; ")
