"""Runs one Spark job whose tasks carry orders to writers, each on the host that it names."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.serializers import CPickleSerializer

from reput.streaming.endings.failures import cause_of
from reput.streaming.writers.base import UnreachableError
from reput.streaming.writers.executors.protocol import CLOSE, END
from reput.streaming.writers.executors.task import Task, TaskResult, carry_all

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
        groups = grouped(tasks)
        for group in groups:
            hosts, carried = jvm.java.util.ArrayList(), [tasks[number] for number in group]
            if carried[0].host:
                hosts.add(carried[0].host)
            rows.add(
                jvm.scala.Tuple2(bytearray(pickle.dumps(carried)), convert.asScala(hosts).toSeq())
            )
        tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
        java: Any = context._jsc.sc()  # noqa: SLF001
        located = java.makeRDD(convert.asScala(rows).toSeq(), tag).toJavaRDD()
        spread: RDD[Any] = RDD(located, context, CPickleSerializer())
        found: list[list[TaskResult]] = spread.map(carry_all).collect()
    except (Py4JError, OSError) as error:
        # A JVM that is gone is an OSError of its connection, and not of files.
        text = cause_of(str(error))
        raise UnreachableError(f"Spark could not reach the stores' writers: {text}") from error
    results = {
        number: result
        for group, carried in zip(groups, found, strict=True)
        for number, result in zip(group, carried, strict=True)
    }
    return [results[number] for number in range(len(tasks))]


def grouped(tasks: Sequence[Task]) -> list[list[int]]:
    """Return the numbers of tasks that one of Spark's carries.

    As many of these run at a time as there are cores, so the waits for a live job's writers, which
    may be slow or hang, would add up: each host gets one.
    """
    groups: dict[object, list[int]] = {}
    for number, task in enumerate(tasks):
        # Where a writer starts first, Spark says.
        is_there = task.order.kind in {CLOSE, END} or task.order.seen[0] != ""
        together = task.spec.follows and is_there
        groups.setdefault(("host", task.host) if together else number, []).append(number)
    return list(groups.values())
