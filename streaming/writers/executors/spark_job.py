"""Runs one Spark job whose tasks carry orders to writers, each on the host that it names."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.serializers import CPickleSerializer

from reput.streaming.endings.failures import cause_of
from reput.streaming.writers.base import UnreachableError
from reput.streaming.writers.executors.task import Task, TaskResult, carry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext


def run_tasks(context: SparkContext, tasks: Sequence[Task]) -> list[TaskResult]:
    """Run the tasks, each on the host that it names if that has room.

    Raises:
        UnreachableError: Spark could not.
    """
    # Python's own `parallelize` knows no preferred hosts; Scala's `makeRDD` does.
    jvm: Any = context._jvm  # noqa: SLF001
    try:
        convert = jvm.scala.jdk.javaapi.CollectionConverters
        rows = jvm.java.util.ArrayList()
        for task in tasks:
            hosts = jvm.java.util.ArrayList()
            if task.host:
                hosts.add(task.host)
            rows.add(
                jvm.scala.Tuple2(bytearray(pickle.dumps(task)), convert.asScala(hosts).toSeq())
            )
        tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
        java: Any = context._jsc.sc()  # noqa: SLF001
        located = java.makeRDD(convert.asScala(rows).toSeq(), tag).toJavaRDD()
        spread: RDD[Any] = RDD(located, context, CPickleSerializer())
        found: list[TaskResult] = spread.map(carry).collect()
    except (Py4JError, OSError) as error:
        # A JVM that is gone is an OSError of its connection, and not of files.
        text = cause_of(str(error))
        raise UnreachableError(f"Spark could not reach the stores' writers: {text}") from error
    return found
