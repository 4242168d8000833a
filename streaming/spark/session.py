"""A Spark session that is fit for the source: quiet, quick to start, workers that find us.

Starting Spark is loading classes by the ten thousand and compiling what they do. A session and
its first job, on 2 cores that had other work too: 12.0 s as Spark comes, 9.7 s with the serial
collector and an optimising compiler that waits longer, 6.3 s with the classes taken from an archive
as well (`archive_classes`, once per installation). Without that compiler it is 4.4 s, but rows come
at a fourth of the speed: `QUICK_START` is for sessions that read none.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reput
from reput.formats.errors import UsageError
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf
    from pyspark.sql import DataFrame, SparkSession

# Where `import reput` works from: a checkout, or site-packages.
_ROOT = Path(reput.__file__).resolve().parent.parent
OLDEST_JAVA = 17
ARCHIVE_DIRECTORY = Path("~/.cache/reput")
_LOOPBACK = "127.0.0.1"
_WORKER = Path(__file__).with_name("worker-python")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_HEAP = "spark.driver.memory"
# MiB: Spark's default, and the most with which a JVM still has compressed pointers.
_LEAST_HEAP, _MOST_HEAP = 1024, 30 * 1024
_INSTALL = (
    f"Spark needs a JDK {OLDEST_JAVA} or later. Install one (Debian, Ubuntu: apt-get install "
    f"openjdk-{OLDEST_JAVA}-jdk-headless; Fedora: dnf install java-{OLDEST_JAVA}-openjdk-headless),"
    " then have java on PATH or set JAVA_HOME"
)
# What a small machine waits for is the optimising compiler: with six times the calls that it comes
# with, it leaves the start alone and still has the loops that matter.
_COMPILE_LATER = (
    "-XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=4000 "
    "-XX:Tier4CompileThreshold=90000 -XX:Tier4BackEdgeThreshold=80000"
)
QUICK_START = {
    _JAVA_OPTIONS: "-XX:TieredStopAtLevel=1",
    # Of such a session no data passes through the JVM. What it keeps of past batches is for a
    # page that is not shown; over weeks the heap would fill up to its bound with it.
    _HEAP: "512m",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    # A row a batch is not worth having Java compiled for it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# What ends a command is said once, by the command; Spark's account of it is a page of Scala.
QUIET = {"spark.log.level": "OFF"}
# For the program that only puts Spark's command line together.
_LAUNCHER_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
_MAKE_ARCHIVE = "-XX:ArchiveClassesAtExit"
_QUIET_LOG = "-Xlog:disable -Xlog:all=error:stderr"
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A query that is stopped while Python runs for it matches a long traceback recursively.
    _JAVA_OPTIONS: f"-Xss8m -XX:+UseSerialGC {_COMPILE_LATER}",
    "spark.sql.adaptive.enabled": "false",
    # One writer a store: a second attempt beside the first would be a second writer.
    "spark.speculation": "false",
    # An idle job looks for new records this often; at Spark's 10 ms it needs several times the CPU.
    "spark.sql.streaming.pollingDelay": "120ms",
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
    """Return settings that have Spark show its own metrics, for `build_session`.

    They are where Spark has them, on the port of its user interface: `/metrics/prometheus/`. Of the
    query, rates and latency are among them.

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
        # Another port than the one that is scraped would help nobody.
        "spark.port.maxRetries": "0",
        "spark.ui.killEnabled": "false",
        f"{sink}.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        f"{sink}.path": "/metrics/prometheus",
        # Else each start would make new names.
        "spark.metrics.namespace": "reput",
        "spark.sql.streaming.metricsEnabled": "true",
    }


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
    if _HEAP in _submitted():
        return {}
    tasks = len(os.sched_getaffinity(0))
    return {_HEAP: f"{min(max(tasks * a_task, _LEAST_HEAP), _MOST_HEAP)}m"}


def begin_session(app_name: str, master: str | None = None, **conf: str) -> SessionStart:
    """Begin to start Spark's JVM, for who has other things to do in that second.

    The arguments are those of `build_session`. If this process ends without the session, so does
    the JVM: its standard input ends.

    Raises:
        UsageError: no JDK, or too old a one.
    """
    java = require_java()
    # Only who starts Spark pays for its import.
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - the public way starts one
        return SessionStart(SparkConf(loadDefaults=False).setAll(list(conf.items())))
    submitted = _submitted()
    chosen = master or submitted.get("spark.master", "local[*]")
    local = chosen.startswith("local")
    _export_environment(local=local)
    defaults = {**DEFAULTS, **(_LOCAL_DEFAULTS if local else {}), **submitted}
    own = conf.get(_JAVA_OPTIONS, "")
    # Java takes an archive or makes one.
    archive = "" if _MAKE_ARCHIVE in own else _archive_option(java)
    options = f"{DEFAULTS[_JAVA_OPTIONS]} {archive} {own}"
    spark_conf = SparkConf().setAll(list({**defaults, **conf, _JAVA_OPTIONS: options}.items()))
    spark_conf.setMaster(chosen).setAppName(app_name)
    start = SessionStart(spark_conf)
    start.launch()
    return start


class SessionStart:
    """A session that is being started."""

    def __init__(self, conf: SparkConf) -> None:
        self._conf = conf
        self._gateway: JavaGateway | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._output: _StartupOutput | None = None
        self._writer = -1

    def launch(self) -> None:
        """Have the JVM started by a thread, unless there is one: spark-submit's, or an older."""
        from pyspark import SparkContext  # noqa: PLC0415

        if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:  # noqa: SLF001
            return
        reader, self._writer = os.pipe()
        # What it says while it starts counts only if it fails.
        self._output = _StartupOutput(reader)
        self._thread = threading.Thread(target=self._launch, name="spark-launch", daemon=True)
        self._thread.start()

    def _launch(self) -> None:
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

        try:
            self._gateway = launch_gateway(  # type: ignore[no-untyped-call]
                self._conf, _OfItsOwnEnd(stderr=self._writer)
            )
        except BaseException as error:  # noqa: BLE001 - raised where the session is wanted
            self._error = error

    def session(self) -> SparkSession:
        """Return the session once it is there."""
        from pyspark import SparkContext  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415

        if SparkContext._active_spark_context is not None:  # noqa: SLF001 - as above
            return SparkSession.builder.config(map=dict(self._conf.getAll())).getOrCreate()
        if self._thread is None or self._output is None:
            SparkContext(conf=self._conf)
            return SparkSession.builder.getOrCreate()
        try:
            self._thread.join()
            if self._error is not None:
                raise self._error
            SparkContext(conf=self._conf, gateway=self._gateway)
        except BaseException:
            os.close(self._writer)
            self._output.show()
            raise
        os.close(self._writer)
        self._output.started = True
        return SparkSession.builder.getOrCreate()


class _OfItsOwnEnd(dict[str, Any]):
    """Arguments of a JVM's process that outlives signals: it ends when its standard input does.

    A signal for all processes of a group, or of a service, is for the job, which needs its JVM to
    end in order. PySpark has it ignore SIGINT, between fork and exec; this adds SIGTERM.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        if name != "preexec_fn":
            super().__setitem__(name, value)
            return

        def ignore_signals() -> None:
            value()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        super().__setitem__(name, ignore_signals)


def end_session(spark: SparkSession) -> None:
    """Stop Spark in a process that ends as well.

    PySpark's own `stop` makes ready for a next session too: for up to a second it waits for a
    thread of its own, which looks twice a second whether it is to end.
    """
    spark.sparkContext._jsc.stop()  # noqa: SLF001


def require_java() -> Path:
    """Return the `java` that Spark will start.

    Raises:
        UsageError: there is none, or one too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise UsageError(f"no java is on PATH and JAVA_HOME is not set. {_INSTALL}")
    java = Path(found).resolve()
    if not java.is_file():
        raise UsageError(f"JAVA_HOME is {home}, but {found} is not there. {_INSTALL}")
    release = java.parent.parent / "release"
    text = release.read_text("utf-8", "replace") if release.is_file() else ""
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    if not text:
        # A script that starts the real one; it takes a moment to say its version.
        version = re.search(r'version "(?:1\.)?(\d+)', _version_said(java))
    if version and int(version[1]) < OLDEST_JAVA:
        raise UsageError(f"{found} is Java {version[1]}. {_INSTALL}")
    return java


def _version_said(java: Path) -> str:
    """Return what a `java` prints as its version, "" if it does not start."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def _export_environment(*, local: bool) -> None:
    """Have Spark's workers run this interpreter, with this checkout on their path."""
    if local:
        # Another interpreter would not have our packages, and fails only after a time-out.
        os.environ["PYSPARK_PYTHON"] = _worker_python()
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS)
    root = str(_ROOT)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in known and root != sysconfig.get_path("purelib"):
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, known)])


def _worker_python() -> str:
    """Return what starts the workers: this interpreter, without the Spark that is in zips.

    Spark puts its own zips first on their path. From a zip Python compiles each module anew in
    every process: 0.65 s each, and a job needs five of them before its first batch.
    """
    import pyspark  # noqa: PLC0415

    # Without links, as Spark itself names it.
    home = Path(pyspark.__file__).resolve().parent
    if Path(os.environ.get("SPARK_HOME", home)).resolve() != home or not os.access(
        _WORKER, os.X_OK
    ):
        return sys.executable
    os.environ["REPUT_PYTHON"] = sys.executable
    os.environ["REPUT_SPARK"] = str(home)
    return str(_WORKER)


def _submitted() -> dict[str, str]:
    """Return the settings that spark-submit was given, if it started us."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()  # noqa: SLF001 - without it SparkConf knows nothing
    return dict(SparkConf().getAll())


def archive_path(java: Path) -> Path:
    """Return where the classes of this Java and this Spark are kept, there or not."""
    import pyspark  # noqa: PLC0415

    release = java.parent.parent / "release"
    identity = f"{java} {release.stat().st_mtime_ns if release.exists() else 0} "
    identity += f"{Path(pyspark.__file__).resolve()} {pyspark.__version__}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    # A container's user may have no home: then this is a place that is not there.
    directory = Path(os.path.expanduser(ARCHIVE_DIRECTORY))  # noqa: PTH111 - which would raise
    return directory / f"spark-{key}.jsa"


def _archive_option(java: Path) -> str:
    archive = archive_path(java)
    # Java compares it with its jars, and goes on without it where they differ.
    return f"-XX:SharedArchiveFile={archive} {_QUIET_LOG}" if archive.is_file() else ""


def archive_classes() -> Path:
    """Keep the classes that a job loads in an archive, so that later sessions start faster.

    Takes some 20 s and 150 MB; a second call finds the archive and does nothing. It belongs to
    one Java and one Spark: others do not find it.

    Raises:
        UsageError: no JDK, or too old a one.
        OSError: the archive cannot be written.
    """
    archive = archive_path(require_java())
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(f".{os.getpid()}")
    # A JVM writes its archive when it ends, and this process's may be somebody's session.
    command = [sys.executable, "-m", "reput.streaming.spark.session", str(partial)]
    # In a group of its own: Ctrl-C is for this process, which ends the other one.
    subprocess.run(command, check=True, cwd=_ROOT, process_group=0)
    partial.replace(archive)
    return archive


def _run_typical_job(archive: Path) -> None:
    """Run a small streaming query of our own source, and have the JVM write down its classes."""
    from reput.formats.rocketmq.encode import Message, encode, encode_blank  # noqa: PLC0415
    from reput.streaming.source.datasource import register  # noqa: PLC0415

    # Classes that cannot be kept are named one by one; only what keeps all others counts.
    options = f"{_MAKE_ARCHIVE}={archive} {_QUIET_LOG}"
    session = build_session("archive", **{_JAVA_OPTIONS: options})
    register(session)
    record = encode(Message("topic", b"body"), 0)
    size = 4096
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "commitlog")
        log.mkdir()
        (log / names.offset_file(0)).write_bytes(record + encode_blank(size - len(record)))
        for rows in ("messages", "ranges"):
            frame = session.readStream.format("rocketmq").option("path", directory)
            frame = frame.option("broker.mappedFileSizeCommitLog", size).option("rows", rows)
            writer = frame.load().writeStream.foreachBatch(_collect)
            place = str(Path(directory, rows))
            writer = writer.option("checkpointLocation", place).trigger(availableNow=True)
            writer.start().awaitTermination()
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - its JVM has to end by itself
    process = gateway.proc
    session.stop()
    process.stdin.close()
    process.wait(timeout=120)


def _collect(batch: DataFrame, _: int) -> None:
    batch.collect()


class _StartupOutput:
    """Passes the JVM's standard error on, except for what it says while it starts well."""

    def __init__(self, descriptor: int) -> None:
        self.started = False
        self._lines: list[bytes] = []
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._run, name="spark-stderr", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with os.fdopen(self._descriptor, "rb") as lines:
            for line in lines:
                if self.started:
                    self._print(line)
                else:
                    self._lines.append(line)

    def show(self) -> None:
        # A JVM that could not start has ended, and so has what it said.
        self._thread.join(timeout=1)
        for line in self._lines:
            self._print(line)

    @staticmethod
    def _print(line: bytes) -> None:
        sys.stderr.write(line.decode("utf-8", "replace"))
        sys.stderr.flush()


if __name__ == "__main__":
    _run_typical_job(Path(sys.argv[1]))
