"""How the command ends when something gets in between: signals, full disks, closed pipes, bugs.

A command that has not done what it was asked for never ends with 0, nor with the code that says
that nothing was found.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reput.checkpoints import progress
from reput.formats.errors import ReputError
from reput.streaming.cli.jobs.job import conclude_unbegun
from reput.streaming.cli.jobs.looks import Looks
from reput.streaming.demo.writer import Writer
from reput.streaming.endings.beside import beside, elsewhere
from reput.streaming.endings.interruptions import Ending, interrupted_code
from reput.streaming.settings.config import store_config
from tests.json_schema import fits
from tests.kafka.broker import free_port

ROOT = Path(__file__).parent.parent
FILE_SIZE = 4 << 20
# A few MiB in small batches keep a job busy for longer than a signal takes.
LOG_BYTES = 32 << 20
BATCH = "32k"
# What is done is logged at once, while most of it is left.
SHORT = ("--follow-seconds", "0.1")
PATIENCE = 240
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A store with a log of some MiB, and its broker.conf."""
    directory = tmp_path_factory.mktemp("endings")
    writer = Writer(directory / "store" / "commitlog", FILE_SIZE)
    written = 0
    while written < LOG_BYTES:
        message = writer.next_message()
        writer.append(message)
        written += 100 + len(message.body)
    for path in (directory / "store" / "commitlog").iterdir():
        # A log at rest, as of a broker that has stopped.
        os.utime(path, (1, 1))
    conf = directory / "broker.conf"
    conf.write_text(f"mappedFileSizeCommitLog={FILE_SIZE}\n")
    return directory / "store", conf


def ran(program, *arguments, **environment):
    """Run a program that uses this project in a Python of its own."""
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


class Command:
    """One `reput` in a process group of its own, as a terminal starts it."""

    def __init__(self, directory, *arguments, python=(), words=(), environment=None):
        self.output = directory / "stdout"
        self.errors = directory / "stderr"
        command = [sys.executable, *python, *(words or ("-m", "reput")), *map(str, arguments)]
        with self.output.open("wb") as out, self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=errors,
                cwd=ROOT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    def until(self, is_so):
        """Wait for a state of things; the command must not end before."""
        end = time.monotonic() + PATIENCE
        while not is_so():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < end, self.said
            time.sleep(0.02)

    def until_said(self, text):
        self.until(lambda: text in self.said)

    def signal(self, number, *, group):
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def ended(self):
        """Return the exit code."""
        try:
            return self.process.wait(PATIENCE)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    @property
    def said(self):
        return self.errors.read_text("utf-8", "replace")

    @property
    def printed(self):
        return self.output.read_text("utf-8", "replace")


def below(process):
    """Return the processes that descend from one, but for those that end meanwhile."""
    children = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path("/proc", str(process), "task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return [each for child in children for each in (child, *below(child))]


def options(log, output):
    store, conf = log
    return ("--store", store, "--output", output, "--broker-conf", conf)


def reput(*arguments, **more):
    return subprocess.run(
        [sys.executable, "-m", "reput", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=PATIENCE,
        **more,
    )


class TestBeforeItBegins:
    """A signal while Python still imports: -X importtime tells how far it is."""

    @pytest.mark.parametrize("number", SIGNALS)
    @pytest.mark.parametrize("command", ["rebuild", "run", "verify"])
    def test_it_ends_in_order(self, log, tmp_path, command, number):
        job = Command(
            tmp_path, command, *options(log, tmp_path / "out"), python=("-X", "importtime")
        )
        job.until_said(" typer")
        job.signal(number, group=True)

        assert job.ended() == 4
        assert "Traceback" not in job.said
        assert "run it again: reput" in job.said

    def test_so_does_what_pip_installs(self, tmp_path):
        """
        The script of an installation takes signals before it imports the rest, too.
        """
        program = "from reput.streaming.cli.command import main; main()"
        job = Command(
            tmp_path,
            "verify",
            "--store",
            tmp_path,
            python=("-X", "importtime"),
            words=("-c", program),
        )
        job.until_said(" typer")
        job.signal(signal.SIGINT, group=True)

        assert job.ended() == 4
        assert "Traceback" not in job.said

    def test_as_json(self, tmp_path):
        """
        Whatever it is, --json makes it a document.
        """
        job = Command(
            tmp_path, "topics", "--json", "--store", tmp_path, python=("-X", "importtime")
        )
        job.until_said(" typer")
        job.signal(signal.SIGTERM, group=False)

        assert job.ended() == 4
        assert json.loads(job.printed)["exit_code"] == 4

    @pytest.mark.parametrize("number", SIGNALS)
    def test_run_while_it_imports_spark(self, log, tmp_path, number):
        """
        However early it is, a job ends with its document: of a log that nobody writes all is left.
        """
        job = Command(
            tmp_path, "run", *options(log, tmp_path / "out"), "--json", python=("-X", "importtime")
        )
        job.until_said(" pyspark.sql")
        job.signal(number, group=True)

        assert job.ended() == 4
        assert "Traceback" not in job.said
        document = json.loads(job.printed)
        assert fits(document, "run")
        assert (document["messages"], document["complete"]) == (0, False)
        assert f"{number.name}: ending in order" in job.said

    def test_a_store_without_a_message(self, tmp_path):
        """
        A job that waits for the first message is a job that runs: it ends in order.
        """
        (tmp_path / "store" / "commitlog").mkdir(parents=True)
        places = ("--store", tmp_path / "store", "--output", tmp_path / "out")
        job = Command(tmp_path, "run", *places, "--json")
        job.until_said("waiting for the first message")
        job.signal(signal.SIGTERM, group=False)

        assert job.ended() == 0
        assert "Traceback" not in job.said
        assert "SIGTERM: ending in order" in job.said
        document = json.loads(job.printed)
        assert fits(document, "run")
        assert (document["messages"], document["complete"]) == (0, True)
        assert [store["name"] for store in document["stores"]] == ["store"]

    def test_tail_ends_by_a_signal(self, golden, tmp_path):
        """
        Nothing is missing: it has no other end.
        """
        source = golden("5.5.0", "basic")
        conf = tmp_path / "broker.conf"
        conf.write_text("".join(f"{k}={v}\n" for k, v in source.conf.items()))
        topic = min(path.name for path in (source.path / "consumequeue").iterdir())
        job = Command(
            tmp_path, "tail", "--topic", topic, "--store", source.path,
            "--broker-conf", conf, "--from-start",
        )  # fmt: skip
        job.until(lambda: job.printed)
        job.signal(signal.SIGINT, group=True)

        assert job.ended() == 0
        assert "Traceback" not in job.said

    @pytest.mark.parametrize("option", ["--limit", "--seconds"])
    @pytest.mark.parametrize("moment", ["before", "while"])
    def test_tail_with_an_end_of_its_own_is_incomplete(self, golden, tmp_path, option, moment):
        """
        What was to be shown was not: before it begins and while it waits for more.
        """
        source = golden("5.5.0", "basic")
        conf = tmp_path / "broker.conf"
        conf.write_text("".join(f"{k}={v}\n" for k, v in source.conf.items()))
        topic = min(path.name for path in (source.path / "consumequeue").iterdir())
        job = Command(
            tmp_path, "tail", "--topic", topic, "--store", source.path,
            "--broker-conf", conf, "--from-start", option, "100000", python=("-X", "importtime"),
        )  # fmt: skip
        job.until((lambda: " typer" in job.said) if moment == "before" else lambda: job.printed)
        job.signal(signal.SIGINT, group=True)

        assert job.ended() == 4
        assert "run it again: reput tail" in job.said


@pytest.mark.spark
class TestJobs:
    """A signal to the job, or to its whole group as a terminal and a service send it."""

    @pytest.mark.parametrize(
        ("number", "group"),
        [(signal.SIGTERM, True), (signal.SIGINT, True), (signal.SIGINT, False)],
    )
    def test_an_interrupted_rebuild_is_incomplete(self, log, tmp_path, number, group):
        """
        It says how far it got, verify says the same, and the next one does the rest.
        """
        out = tmp_path / "out"
        job = Command(tmp_path, "rebuild", *options(log, out), "--max-batch-bytes", BATCH, "--json")
        job.until(lambda: any((out / "consumequeue").glob("*/*/*")))
        job.signal(number, group=group)

        assert job.ended() == 4
        assert "Traceback" not in job.said
        said = json.loads(job.printed)
        assert fits(said, "run")
        reached = said["stores"][0]["end"]
        assert not said["complete"]
        assert f"dispatched up to physical offset {reached} of " in job.said
        assert "run again: reput rebuild --store" in job.said
        assert not (out / "abort").exists()
        assert progress.load(out).clean
        checked = reput("verify", *options(log, out))
        assert checked.returncode == 4
        assert checked.stdout.splitlines()[-1].startswith("incomplete: ")

        again = reput("rebuild", *options(log, out), "--json")
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["complete"]
        sound = reput("verify", *options(log, out))
        assert sound.returncode == 0
        assert sound.stdout.splitlines()[-1].startswith("sound: ")

    @pytest.mark.parametrize("number", SIGNALS)
    @pytest.mark.parametrize("command", ["run", "rebuild"])
    def test_while_spark_starts(self, log, tmp_path, command, number):
        """
        What was opened is closed in order, and Spark's own handler of Ctrl-C is none.
        """
        out = tmp_path / "out"
        job = Command(tmp_path, command, *options(log, out))
        job.until((out / "abort").exists)
        job.signal(number, group=True)

        assert job.ended() == 4
        assert "Traceback" not in job.said
        assert not (out / "abort").exists()
        assert f"run again: reput {command}" in job.said

    @pytest.mark.parametrize(
        ("number", "age"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGTERM, -3600)]
    )
    def test_a_job_that_runs_ends_in_order(self, log, tmp_path, number, age):
        """
        With its whole group, Spark's processes among them, in the middle of its batches; also where
        files have times to come, as of a clock that was set back.
        """
        out = tmp_path / "out"
        log = (shutil.copytree(log[0], tmp_path / "store"), log[1])
        for path in (log[0] / "commitlog").iterdir():
            os.utime(path, (time.time() - age,) * 2)
        job = Command(tmp_path, "run", *options(log, out), "--max-batch-bytes", BATCH, *SHORT)
        job.until_said("batch 0 of")
        job.signal(number, group=True)

        # Nobody writes this log, and some of it is left.
        assert job.ended() == 4
        assert f"{number.name}: ending in order" in job.said
        assert "dispatched up to physical offset" in job.said
        assert "Traceback" not in job.said
        assert not (out / "abort").exists()
        assert progress.load(out).clean

    @pytest.mark.parametrize("placement", ["driver", "executors"])
    def test_a_wrong_file_size_is_no_damage(self, tmp_path, placement):
        """
        Nothing is dispatched, and a setting is what to look at: 3 wherever the writers are.
        """
        writer = Writer(tmp_path / "store" / "commitlog", FILE_SIZE)
        writer.append(writer.next_message())
        conf = tmp_path / "broker.conf"
        conf.write_text(f"mappedFileSizeCommitLog={FILE_SIZE // 2}\n")
        done = reput(
            "rebuild", *options((tmp_path / "store", conf), tmp_path / "out"),
            "--placement", placement,
        )  # fmt: skip

        assert done.returncode == 3, done.stderr
        assert "mappedFileSizeCommitLog" in done.stderr
        assert "Traceback" not in done.stderr

    def test_a_job_that_keeps_up_has_ended_well(self, tmp_path):
        """
        It was to follow the log until it is told to end.
        """
        writer = Writer(tmp_path / "store" / "commitlog", FILE_SIZE)
        for _ in range(100):
            writer.append(writer.next_message())
        conf = tmp_path / "broker.conf"
        conf.write_text(f"mappedFileSizeCommitLog={FILE_SIZE}\n")
        job = Command(tmp_path, "run", *options((tmp_path / "store", conf), tmp_path / "out"))
        job.until_said("batch 0 of")
        job.signal(signal.SIGTERM, group=False)

        assert job.ended() == 0
        assert "physical offset" not in job.said

    def test_beside_a_broker_a_job_says_what_is_left(self, log, tmp_path):
        """
        A broker's next records are left always, so that is not a failure; nor is it called complete.
        """
        store = shutil.copytree(log[0], tmp_path / "store")
        (store / "lock").touch()
        holds = (
            "import fcntl, sys\nf = open(sys.argv[1], 'r+b')\nfcntl.lockf(f, fcntl.LOCK_EX, 1)\n"
        )
        broker = subprocess.Popen(
            [sys.executable, "-c", f"{holds}print(flush=True)\ninput()", store / "lock"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            broker.stdout.readline()
            out = tmp_path / "out"
            job = Command(
                tmp_path,
                "run",
                *options((store, log[1]), out),
                "--max-batch-bytes",
                BATCH,
                *SHORT,
                "--json",
            )
            job.until_said("batch 0 of")
            job.signal(signal.SIGTERM, group=False)
            code = job.ended()
        finally:
            broker.communicate(b"\n")

        assert code == 0
        said = json.loads(job.printed)
        assert fits(said, "run")
        assert (said["complete"], said["queues_complete"], "error" in said) == (False, False, False)
        end = said["stores"][0]["end"]
        assert (
            f"ended beside its broker. store: dispatched up to physical offset {end} of" in job.said
        )

    @pytest.mark.parametrize("placement", ["driver", "executors"])
    def test_every_process_of_a_service_gets_the_signal(self, log, tmp_path, placement):
        """
        The JVM, Spark's workers and the writers beside them, whatever group they are in.
        """
        out = tmp_path / "out"
        job = Command(
            tmp_path, "run", *options(log, out),
            "--max-batch-bytes", BATCH, *SHORT, "--placement", placement,
        )  # fmt: skip
        job.until_said("batch 0 of")
        everyone = [job.process.pid, *below(job.process.pid)]
        for process in everyone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)

        assert len(everyone) > 2
        assert job.ended() == 4
        assert len(job.said.splitlines()) < 30
        assert not (out / "abort").exists()
        assert progress.load(out).clean

    @pytest.mark.parametrize("group", [False, True])
    @pytest.mark.parametrize("placement", ["driver", "executors"])
    def test_a_rebuild_that_waits_for_kafka_ends_within_seconds(
        self, log, tmp_path, placement, group
    ):
        """
        Kafka is away, for ever as far as the job knows: it says what is done and what Kafka lacks.
        """
        out = tmp_path / "out"
        job = Command(
            tmp_path, "rebuild", *options(log, out), "--placement", placement, "--json", "-v",
            "--kafka-bootstrap", f"127.0.0.1:{free_port()}",
        )  # fmt: skip
        job.until_said("batch 0 of")
        # It waits by now, or does so in a moment.
        time.sleep(4)
        job.signal(signal.SIGTERM, group=group)
        signalled = time.monotonic()

        assert job.ended() == 4
        assert time.monotonic() - signalled < 40
        assert "Traceback" not in job.said
        said = json.loads(job.printed)
        assert fits(said, "run")
        assert (said["complete"], said["queues_complete"]) == (False, True)
        assert "how much of the log Kafka has is not known" in said["error"]
        assert said["stores"][0]["kafka"]["lag_bytes"] is None
        assert not (out / "abort").exists()
        assert progress.load(out).clean

    def test_the_second_signal_ends_it_at_once(self, log, tmp_path):
        """
        Nobody has to wait for an end in order, however long it takes; the next start rolls back
        what was not recorded.
        """
        out = tmp_path / "out"
        program = (
            "import time\n"
            "from reput.streaming.cli import command\n"
            "from reput.streaming.job import job\n"
            "job.Job._close = lambda _: time.sleep(30)\n"
            "command.main()\n"
        )
        job = Command(
            tmp_path,
            "run",
            *options(log, out),
            "--max-batch-bytes",
            BATCH,
            *SHORT,
            words=("-c", program),
        )
        job.until_said("batch 0 of")
        job.signal(signal.SIGINT, group=True)
        job.until_said("ending in order")
        job.signal(signal.SIGINT, group=True)

        assert job.ended() == -signal.SIGINT
        assert "Traceback" not in job.said
        assert reput("rebuild", *options(log, out)).returncode == 0
        assert reput("verify", *options(log, out)).returncode == 0


class TestUnexpected:
    """A bug, or a machine without memory or threads: one line, a file, and exit code 3."""

    def run(self, tmp_path, error, *arguments):
        program = (
            "from reput.streaming.cli import command, topics\n"
            "from reput.streaming.verify import output\n"
            "def fail(*_, **__):\n"
            f"    raise {error}\n"
            "topics.open_store = fail\n"
            "output.verify = fail\n"
            "command.main()\n"
        )
        return ran(program, *arguments, TMPDIR=str(tmp_path))

    @pytest.mark.parametrize("command", ["topics", "verify"])
    @pytest.mark.parametrize(
        "error", ["MemoryError", 'RuntimeError("can\'t start new thread")', "KeyError('x')"]
    )
    def test_one_line_and_a_file(self, log, tmp_path, command, error):
        store, conf = log
        done = self.run(tmp_path, error, command, "--store", store, "--broker-conf", conf)

        assert done.returncode == 3
        [line] = done.stderr.splitlines()
        assert line.startswith(f"reput: unexpected {error.partition('(')[0]}")
        path = Path(line.partition("details are in ")[2])
        assert path.parent == tmp_path
        text = path.read_text()
        assert "Traceback" in text
        assert "pyspark " in text

    def test_as_json(self, log, tmp_path):
        store, conf = log
        done = self.run(
            tmp_path, "KeyError('x')", "topics", "--json", "--store", store, "--broker-conf", conf
        )

        assert done.returncode == 3
        said = json.loads(done.stdout)
        assert fits(said, "error")
        assert said["error"].startswith("unexpected KeyError: 'x'; details")

    def test_without_a_place_for_it(self):
        """
        What cannot be written does not hide what happened.
        """
        program = (
            "import tempfile\n"
            "from reput.streaming.endings.failures import FAILURES\n"
            "def full(*_, **__):\n"
            "    raise OSError(28, 'No space left on device')\n"
            "tempfile.mkstemp = full\n"
            "print(FAILURES.describe(ValueError('odd')))\n"
        )
        done = ran(program)
        assert done.returncode == 0, done.stderr

        assert done.stdout == (
            "unexpected ValueError: odd; its details cannot be written: No space left on device\n"
        )


class TestOutput:
    """Standard output that is full, closed, or not read to its end."""

    @pytest.fixture
    def topics(self, golden, tmp_path):
        source = golden("5.5.0", "basic")
        conf = tmp_path / "broker.conf"
        conf.write_text("".join(f"{k}={v}\n" for k, v in source.conf.items()))
        return ("--store", source.path, "--broker-conf", conf)

    @pytest.mark.parametrize("json_option", [(), ("--json",)])
    @pytest.mark.parametrize("command", ["topics", "verify"])
    def test_full(self, topics, command, json_option):
        """
        The answer did not arrive, so it is not 0, nor 1.
        """
        command = [sys.executable, "-m", "reput", command, *map(str, topics), *json_option]
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT
            )

        assert done.returncode == 3
        assert done.stderr == "reput: standard output: No space left on device\n"

    def test_closed(self, topics):
        command = [sys.executable, "-m", "reput", "topics", *map(str, topics)]
        shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
        done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)

        assert done.returncode == 3
        assert done.stderr == "reput: standard output: Bad file descriptor\n"

    @pytest.mark.parametrize("command", ["topics", "verify", "tail", "--help"])
    def test_not_read(self, topics, command):
        """
        `| head -1` is not an error.
        """
        more = [] if command == "--help" else list(map(str, topics))
        if command == "tail":
            more += ["--topic", "topic-1", "--from-start", "--limit", "50"]
        process = subprocess.Popen(
            [sys.executable, "-m", "reput", command, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        process.stdout.close()
        with process.stderr:
            said = process.stderr.read()

        assert process.wait(PATIENCE) == 0
        assert said == b""

    def test_not_read_and_damaged(self, log, tmp_path):
        """
        The verdict's code comes through a pipe that nobody reads.
        """
        (tmp_path / "out" / "consumequeue").mkdir(parents=True)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "reput",
                "verify",
                *map(str, options(log, tmp_path / "out")),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        process.stdout.close()
        with process.stderr:
            assert process.stderr.read() == b""

        assert process.wait(PATIENCE) == 1


def test_the_end_comes_before_the_word():
    """
    What is said of a signal may wait for a pipe that nobody reads: the job ends meanwhile.
    """
    order = []
    ending = Ending(order.append)
    ending.passes_to(lambda: order.append("stop"))
    before = [signal.getsignal(number) for number in SIGNALS]
    try:
        with ending.watching():
            signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)

    assert order == ["stop", "SIGTERM"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_failure_stays_one_when_a_signal_follows(number):
    """
    A job fails, and the signal comes before its error is told: the error is told, and its code.
    """
    program = (
        "import signal, sys\n"
        "from reput.streaming.endings import interruptions as endings\n"
        "endings.begin()\n"
        "sys.argv = ['reput', 'run']\n"
        "try:\n"
        "    with endings.Ending(print).watching():\n"
        "        raise OSError('full')\n"
        "except OSError as error:\n"
        f"    signal.raise_signal({int(number)})\n"
        "    print(error)\n"
        "    sys.exit(3)\n"
    )
    done = ran(program)

    assert (done.returncode, done.stdout) == (3, "full\n")


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("moment", ["thread", "module"])
def test_what_is_done_keeps_its_code(number, moment):
    """
    A signal while Python waits for threads, or takes its modules apart: the answer is out already.
    """
    program = (
        "import os, sys, threading, time\n"
        "from reput.streaming.endings import interruptions as endings\n"
        "class Late:\n"
        "    def __init__(self):\n"
        "        self.kill, self.itself = os.kill, os.getpid()\n"
        "    def __del__(self):\n"
        f"        self.kill(self.itself, {int(number)})\n"
        "def late():\n"
        "    threading.main_thread().join()\n"
        "    Late()\n"
        "    time.sleep(60)\n"
        "sys.argv = ['reput', 'verify', '--json']\n"
        "endings.begin()\n"
        "print('{}', flush=True)\n"
        f"if {moment == 'thread'}:\n"
        "    threading.Thread(target=late).start()\n"
        "else:\n"
        "    endings.late = Late()\n"
        "endings.exit_with(1)\n"
    )
    done = ran(program)

    assert (done.returncode, done.stdout, done.stderr) == (1, "{}\n", "")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_between_two_that_take_signals_is_taken_by_the_next(number):
    """
    A job has waited for its first message, and still imports Spark: it ends in order all the same.
    """
    program = (
        "import signal, sys\n"
        "from reput.streaming.endings import interruptions as endings\n"
        "endings.begin()\n"
        "sys.argv = ['reput', 'run', '--json']\n"
        "with endings.Ending(print).watching():\n"
        "    pass\n"
        f"signal.raise_signal({int(number)})\n"
        "ending = endings.Ending(print)\n"
        "with ending.watching():\n"
        "    ending.passes_to(lambda: print('stop'))\n"
    )
    done = ran(program)

    assert (done.returncode, done.stdout) == (0, f"{number.name}\nstop\n"), done.stderr


def test_half_an_answer_is_followed_by_no_second_document():
    """
    A signal comes while the answer is printed: standard error and the exit code tell of it.
    """
    program = (
        "import signal, sys\n"
        "from reput.streaming.endings import interruptions as endings\n"
        "from reput.streaming.endings.failures import FAILURES\n"
        "endings.begin()\n"
        "sys.argv = ['reput', 'verify', '--json']\n"
        "FAILURES.answered(1)\n"
        "print('{', flush=True)\n"
        "signal.raise_signal(signal.SIGTERM)\n"
    )
    done = ran(program)

    assert (done.returncode, done.stdout) == (4, "{\n")
    assert done.stderr.startswith("reput: SIGTERM: interrupted before it was done")


def test_what_is_made_elsewhere_may_be_nothing():
    """
    A call in another thread returns what it returns; one that is not waited for, nothing.
    """
    assert elsewhere(lambda: None) is None
    assert elsewhere(lambda: 3) == 3
    assert beside(lambda: 3) == 3
    assert beside(lambda: time.sleep(1), lambda: True) is None
    with pytest.raises(ReputError, match="x"):
        elsewhere(lambda: (_ for _ in ()).throw(ReputError("x")))


def test_a_thread_that_fails_says_one_line(tmp_path):
    """
    Its traceback goes where that of the command would go.
    """
    program = (
        "import threading\n"
        "from pathlib import Path\n"
        "from reput.streaming.endings.failures import FAILURES\n"
        f"FAILURES.writes([Path({str(tmp_path)!r})])\n"
        "FAILURES.watch_threads()\n"
        "thread = threading.Thread(target=lambda: 1 / 0, name='ends')\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    done = ran(program)
    assert done.returncode == 0, done.stderr

    path = tmp_path / "unexpected.txt"
    assert done.stderr == (
        f"reput: ends: unexpected ZeroDivisionError: division by zero; details are in {path}\n"
    )
    assert "Traceback" in path.read_text()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("tail --topic t", 0),
        ("-v tail --topic t", 0),
        ("run --store s", 4),
        ("tail --topic t --limit=5", 4),
        ("tail --topic t -n5", 4),
        ("tail --topic t --seconds 1", 4),
        ("rebuild --store s", 4),
        ("topics", 4),
    ],
)
def test_a_signal_before_options_are_read_ends_as_later_ones_do(monkeypatch, words, code):
    """
    What is asked for without an end leaves nothing undone, from the process's first moment on.
    """
    monkeypatch.setattr(sys, "argv", ["reput", *words.split()])

    assert interrupted_code() == code


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_job_that_is_ended_while_it_is_loaded_says_so(options):
    """
    With --json it prints its one document, of nothing done.
    """
    program = (
        "import os, signal, sys, time\n"
        "sys.argv[0] = 'reput'\n"
        "from reput.streaming.endings import interruptions as endings\n"
        "endings.begin()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(60)\n"
    )
    done = ran(program, "run", *options)

    assert done.returncode == 4
    said = done.stderr.removeprefix("reput: ").rstrip("\n")
    assert said == (
        "SIGTERM: ended before it began; what is left of the log is not known; run it again: "
        f"{shlex.join(['reput', 'run', *options])}"
    )
    assert bool(done.stdout) == bool(options)
    if options:
        document = json.loads(done.stdout)
        assert fits(document, "run")
        assert document.pop("error") == said
        assert not any(document.values())


def test_of_a_store_that_is_missing_nothing_is_known_to_be_done(tmp_path, capsys):
    (tmp_path / "new" / "commitlog").mkdir(parents=True)
    configs = [store_config(tmp_path / n, tmp_path / f"{n}-out") for n in ("new", "missing")]
    ending = Ending(lambda _: None)
    ending.name = "SIGTERM"

    assert conclude_unbegun(configs, ending, Looks(), as_json=True) == 4
    assert not json.loads(capsys.readouterr().out)["complete"]


@pytest.mark.parametrize(("is_written", "code"), [(False, 4), (True, 0)])
def test_a_job_that_waits_for_one_store_says_what_is_left_of_another(
    log, tmp_path, capsys, is_written, code
):
    """
    Nothing is known to be done of a log at rest; of one that is being written something always is left.
    """
    (tmp_path / "new" / "commitlog").mkdir(parents=True)
    copy = tmp_path / "store"
    shutil.copytree(log[0], copy)
    if is_written:
        next((copy / "commitlog").iterdir()).touch()
    configs = [
        store_config(path, tmp_path / f"{path.name}-out", broker_conf={
            "mappedFileSizeCommitLog": str(FILE_SIZE)
        })
        for path in (copy, tmp_path / "new")
    ]  # fmt: skip
    ending = Ending(lambda _: None)
    ending.name = "SIGTERM"

    assert conclude_unbegun(configs, ending, Looks(), as_json=True) == code
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert fits(document, "run")
    assert document["complete"] == (code == 0)
    assert ("run it again: " in printed.err) == (code == 4)


def test_secrets_stay_out_of_the_details(monkeypatch, tmp_path):
    """
    The command line is written down, except for what looks like a secret.
    """
    from reput.streaming.endings.failures import Failures

    monkeypatch.setattr(sys, "argv", ["reput", "run", "--kafka", "sasl_password=abc"])
    failures = Failures()
    failures.writes([tmp_path])
    failures.describe(ReputError("x"))

    text = (tmp_path / "unexpected.txt").read_text()
    assert "reput run --kafka ***" in text
    assert "abc" not in text
