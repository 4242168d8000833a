"""The session: what it needs is said before Spark says something else."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

import reput
from reput.formats.errors import UsageError
from reput.streaming.spark import archive as class_archive
from reput.streaming.spark import java as spark_java
from reput.streaming.spark import session


def test_no_java_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(
        UsageError, match=r"no java is on PATH .* Install one \(Debian, Ubuntu: apt"
    ):
        session.build_session("test")


def test_java_home_without_java_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(UsageError, match=f"JAVA_HOME is {tmp_path}"):
        spark_java.require_java()


@pytest.mark.parametrize(
    ("version", "accepted"), [("1.8.0_402", False), ("11.0.2", False), ("21", True)]
)
def test_old_java_is_refused(monkeypatch, tmp_path, version, accepted):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    (tmp_path / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    if accepted:
        assert spark_java.require_java() == tmp_path / "bin" / "java"
    else:
        with pytest.raises(UsageError, match=r"is Java \d+\. Spark needs a JDK 17 or later"):
            spark_java.require_java()


def test_old_java_that_a_script_starts_is_refused(monkeypatch, tmp_path):
    """
    A script beside which no file says the version is asked for it.
    """
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(UsageError, match=r"is Java 8\. Spark needs a JDK 17"):
        spark_java.require_java()


def test_archive_belongs_to_one_java(monkeypatch, tmp_path):
    """
    Another one would map it, find that it does not fit and start as slowly as without.
    """
    monkeypatch.setattr(class_archive, "ARCHIVE_DIRECTORY", tmp_path)
    one = class_archive.archive_path(tmp_path / "a" / "bin" / "java")
    other = class_archive.archive_path(tmp_path / "b" / "bin" / "java")

    assert one.parent == tmp_path
    assert one != other


def test_an_environment_may_be_reached_by_a_link(monkeypatch, tmp_path):
    """
    Spark names itself by where it really is; workers compare that with what they are told.
    """
    home = Path(pyspark.__file__).resolve().parent
    java = tmp_path / "bin" / "java"
    archive = class_archive.archive_path(java)
    (tmp_path / "link").symlink_to(home.parent)
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "link" / "pyspark" / "__init__.py"))
    monkeypatch.setenv("REPUT_SPARK", "")
    monkeypatch.setenv("REPUT_PYTHON", "")
    monkeypatch.delenv("SPARK_HOME", raising=False)

    assert Path(session._worker_python()).name == "worker-python"
    assert os.environ["REPUT_SPARK"] == str(home)
    assert class_archive.archive_path(java) == archive


@pytest.mark.spark
def test_workers_do_not_read_spark_from_zips(spark):
    """
    Python compiles what is in a zip again in every process.
    """
    (paths,) = spark.sparkContext.parallelize([0], 1).map(lambda _: list(sys.path)).collect()

    assert paths
    assert [path for path in paths if path.endswith("pyspark.zip")] == []


def started(script: str) -> subprocess.Popen[bytes]:
    """Start a Python program in a session of the system of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(reput.__file__).parents[1],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def processes_of(session_id: int) -> list[int]:
    """Return the processes that are of a session of the system."""
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session_id and fields[0] != "Z":
                found.append(int(place.name))
    return found


def wait_for_the_end_of(session_id: int) -> list[int]:
    """Return the processes that are left of a session after a minute at most."""
    deadline = time.monotonic() + 60
    while (left := processes_of(session_id)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def test_a_jvm_whose_session_is_not_wanted_ends_with_the_process():
    """
    As where an output turns out to be in use while Spark is starting already.
    """
    script = (
        "from reput.streaming.spark.session import begin_session\n"
        "import os, time\n"
        "begin_session('test')\n"
        "time.sleep(0.5)\n"
    )
    with started(script) as process:
        seen = 0
        while process.poll() is None:
            seen = max(seen, len(processes_of(process.pid)))
            time.sleep(0.02)
        assert process.stderr is not None
        assert process.stderr.read() == b""

    assert seen > 1
    assert process.returncode == 0
    assert wait_for_the_end_of(process.pid) == []


def test_ending_a_session_ends_the_jvm_with_the_process():
    script = (
        "from reput.streaming.spark.session import begin_session, end_session\n"
        "start = begin_session('test', 'local[1]')\n"
        "spark = start.session()\n"
        "print(spark.range(3).count())\n"
        "end_session(spark)\n"
    )
    with started(script) as process:
        said, errors = process.communicate(timeout=120)

    assert (said, errors) == (b"3\n", b"")
    assert wait_for_the_end_of(process.pid) == []


def test_a_jvm_that_is_killed_is_told_in_no_traceback():
    """
    PySpark has a server of accumulators, which the JVM is connected to.
    """
    script = (
        "import os, signal, time\n"
        "from reput.streaming.spark.session import begin_session\n"
        "spark = begin_session('test', 'local[1]').session()\n"
        "context = spark.sparkContext\n"
        "print(context.parallelize([1]).map(str).count())\n"
        "jvm = int(context._jvm.java.lang.ProcessHandle.current().pid())\n"
        "os.kill(jvm, signal.SIGKILL)\n"
        "os.waitpid(jvm, 0)\n"
        "time.sleep(1)\n"
        "os._exit(0)\n"
    )
    with started(script) as process:
        said, errors = process.communicate(timeout=120)

    assert said == b"1\n"
    # py4j may say what it was about to send.
    assert b"accumulators.py" not in errors


def test_workers_of_a_job_look_for_no_module_in_the_working_directory(monkeypatch, tmp_path):
    """
    They asked each entry of it what it is, and a disk that hangs may be mounted there.
    """
    (tmp_path / "found.py").write_text("")
    monkeypatch.setenv("REPUT_PYTHON", sys.executable)
    monkeypatch.setenv("REPUT_SPARK", "/none")
    codes = []
    for is_safe in (False, True):
        monkeypatch.setenv("PYTHONSAFEPATH", "")
        if is_safe:
            session.leave_directory_alone()
        words = [str(session._WORKER), "-m", "found"]
        codes.append(
            subprocess.run(words, cwd=tmp_path, check=False, capture_output=True).returncode
        )

    assert codes == [0, 1]
