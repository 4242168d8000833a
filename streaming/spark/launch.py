"""Starts Spark's JVM beside what else a process has to do."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession


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
        """Start the JVM on a thread, unless there is one: spark-submit's, or an older one."""
        from pyspark import SparkContext  # noqa: PLC0415

        if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:  # noqa: SLF001
            return
        reader, self._writer = os.pipe()
        # What the JVM says while it starts counts only if it fails.
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
            _quieten(SparkContext(conf=self._conf))
            return SparkSession.builder.getOrCreate()
        try:
            self._thread.join()
            if self._error is not None:
                raise self._error
            _quieten(SparkContext(conf=self._conf, gateway=self._gateway))
        except BaseException:
            os.close(self._writer)
            self._output.show()
            raise
        os.close(self._writer)
        self._output.started = True
        return SparkSession.builder.getOrCreate()


def _quieten(context: SparkContext) -> None:
    """Let PySpark's server of accumulators print no traceback when the JVM is gone.

    Whatever needs the JVM says in one line that it has ended; see `errors`.
    """
    server: Any = context._accumulatorServer  # noqa: SLF001 - no public way
    say = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
            say(request, address)

    server.handle_error = handle_error


class _OfItsOwnEnd(dict[str, Any]):
    """Arguments of a JVM process that ignores signals and ends when its standard input does.

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
