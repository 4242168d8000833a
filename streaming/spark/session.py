"""A Spark session that is fit for the source: quiet, quick to start, workers that find us.

Starting Spark is loading classes by the ten thousand and compiling what they do. A session and
its first job, on 2 cores that had other work too: 12.0 s as Spark comes, 9.7 s with the serial
collector and an optimising compiler that waits longer, 6.3 s with the classes taken from an archive
as well (`streaming.spark.archive`). Without that compiler it is 4.4 s, but rows come at a fourth of
the speed: `QUICK_START` is for sessions that read none.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from reput.streaming.spark.archive import MAKE_ARCHIVE, ROOT, archive_option
from reput.streaming.spark.java import require_java
from reput.streaming.spark.launch import SessionStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_WORKER = Path(__file__).with_name("worker-python")
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_HEAP = "spark.driver.memory"
# MiB: Spark's default, and the most with which a JVM still has compressed pointers.
_LEAST_HEAP, _MOST_HEAP = 1024, 30 * 1024
# What a small machine waits for is the optimising compiler: with six times the calls that it comes
# with, it leaves the start alone and still has the loops that matter.
_COMPILE_LATER = (
    "-XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=4000 "
    "-XX:Tier4CompileThreshold=90000 -XX:Tier4BackEdgeThreshold=80000"
)
QUICK_START = {
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1",
    # No data passes through the JVM of such a session. What it keeps of past batches is for a page
    # that is not shown; over weeks it would fill the heap up to its bound.
    _HEAP: "512m",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    # Compiling Java does not pay for a row a batch.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# The command says once what has ended it; Spark's account of that is a page of Scala.
QUIET = {"spark.log.level": "OFF"}
# For the program that only puts Spark's command line together.
_LAUNCHER_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A query that is stopped while Python runs for it matches a long traceback recursively.
    JAVA_OPTIONS: f"-Xss8m -XX:+UseSerialGC {_COMPILE_LATER}",
    "spark.sql.adaptive.enabled": "false",
    # One writer a store: a second attempt beside the first would be a second writer.
    "spark.speculation": "false",
    # An idle job plans at this interval, which costs most of its CPU. No record waits for a plan.
    "spark.sql.streaming.pollingDelay": "500ms",
    # A batch of ours takes Spark's books longer than its data; this one renames plainly, where
    # the default goes through Hadoop's FileContext.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}
# Executors elsewhere have to reach the driver by its real address.
_LOCAL_DEFAULTS = {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}


def metrics_settings(host: str, port: int) -> dict[str, str]:
    """Return settings with which Spark shows its own metrics, for `build_session`.

    They are where Spark has them, on the port of its user interface: `/metrics/prometheus/`. Rates
    and latency of the query are among them.

    Args:
        host: address to listen on. Spark takes that from its environment, so it counts for the
            first session of a process.
        port: of the user interface.
    """
    os.environ["SPARK_LOCAL_IP"] = host
    sink = "spark.metrics.conf.*.sink.prometheusServlet"
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        # Only the port that is scraped is of use.
        "spark.port.maxRetries": "0",
        "spark.ui.killEnabled": "false",
        f"{sink}.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        f"{sink}.path": "/metrics/prometheus",
        # Without a namespace, each start would make new names.
        "spark.metrics.namespace": "reput",
        "spark.sql.streaming.metricsEnabled": "true",
    }


def leave_directory_alone() -> None:
    """Let Spark's Python workers look for no module in the working directory, from now on.

    They would ask everything in it what it is, and a disk that hangs may be mounted there.
    """
    os.environ["PYTHONSAFEPATH"] = "1"


def build_session(app_name: str, master: str | None = None, **conf: str) -> SparkSession:
    """Return a session whose workers can import these packages.

    Args:
        app_name: what Spark calls the application.
        master: a Spark master; by default the one of spark-submit, else `local[*]`.
        **conf: settings of Spark, as `**{"spark.ui.enabled": "true"}`. They go before those of
            spark-submit, and these before `DEFAULTS`. Java options are added to the default ones.

    Raises:
        UsageError: no JDK, or too old a one.
    """
    return begin_session(app_name, master, **conf).session()


def memory_for_tasks(a_task: int) -> dict[str, str]:
    """Return a setting that gives a local Spark's heap room for as many tasks as there are cores.

    Args:
        a_task: MiB. The heap only grows to what is used.

    Returns:
        Nothing where spark-submit has set the heap.
    """
    if _HEAP in submitted_settings():
        return {}
    tasks = len(os.sched_getaffinity(0))
    return {_HEAP: f"{min(max(tasks * a_task, _LEAST_HEAP), _MOST_HEAP)}m"}


def begin_session(app_name: str, master: str | None = None, **conf: str) -> SessionStart:
    """Begin to start Spark's JVM; it takes a second, in which the caller can do other things.

    The arguments are those of `build_session`. If this process ends without the session, so does
    the JVM: its standard input ends.

    Raises:
        UsageError: no JDK, or too old a one.
    """
    java = require_java()
    # Spark is slow to import.
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - the public way starts one
        return SessionStart(SparkConf(loadDefaults=False).setAll(list(conf.items())))
    submitted = submitted_settings()
    chosen = master or submitted.get("spark.master", "local[*]")
    local = chosen.startswith("local")
    _export_environment(local=local)
    defaults = {**DEFAULTS, **(_LOCAL_DEFAULTS if local else {}), **submitted}
    own = conf.get(JAVA_OPTIONS, "")
    # Java takes an archive or makes one.
    archive = "" if MAKE_ARCHIVE in own else archive_option(java)
    options = f"{DEFAULTS[JAVA_OPTIONS]} {archive} {own}"
    spark_conf = SparkConf().setAll(list({**defaults, **conf, JAVA_OPTIONS: options}.items()))
    spark_conf.setMaster(chosen).setAppName(app_name)
    start = SessionStart(spark_conf)
    start.launch()
    return start


def end_session(spark: SparkSession) -> None:
    """Stop Spark in a process that ends as well.

    PySpark's own `stop` makes ready for a next session too: for up to a second it waits for a
    thread of its own, which looks twice a second whether it is to end.
    """
    spark.sparkContext._jsc.stop()  # noqa: SLF001


def _export_environment(*, local: bool) -> None:
    """Let Spark's workers run this interpreter, with this checkout on their path."""
    if local:
        # Another interpreter lacks our packages, and fails only after a time-out.
        os.environ["PYSPARK_PYTHON"] = _worker_python()
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS)
    root = str(ROOT)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in known and root != sysconfig.get_path("purelib"):
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, known)])


def _worker_python() -> str:
    """Return the program of the workers: this interpreter, without the Spark that is in zips.

    Spark puts its own zips first on their path. From a zip, Python compiles each module in
    every process: 0.65 s each, and a job needs five of them before its first batch.
    """
    import pyspark  # noqa: PLC0415

    # Spark, too, names its home with links resolved.
    home = Path(pyspark.__file__).resolve().parent
    if Path(os.environ.get("SPARK_HOME", home)).resolve() != home or not os.access(
        _WORKER, os.X_OK
    ):
        return sys.executable
    os.environ["REPUT_PYTHON"] = sys.executable
    os.environ["REPUT_SPARK"] = str(home)
    return str(_WORKER)


def submitted_settings() -> dict[str, str]:
    """Return the settings that spark-submit was given, if it started us."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()  # noqa: SLF001 - without it SparkConf knows nothing
    return dict(SparkConf().getAll())
