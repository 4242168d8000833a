"""The command as a user has it: a process, its exit code, what it prints and what it leaves."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from reput.streaming.demo.writer import Writer
from reput.streaming.dispatch.dispatcher import rebuild
from tests.builders.goldens import GOLDENS, VERSIONS
from tests.json_schema import fits
from tests.test_goldens import FROM_NOTHING, files_below

HOLD_THE_LOCK = """
import fcntl, os, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(lock, fcntl.LOCK_EX, 1, 0)
print("held", flush=True)
time.sleep(60)
"""
REPUT = [sys.executable, "-m", "reput"]
ROOT = Path(__file__).parent.parent


def reput(*arguments, timeout=120, cwd=ROOT):
    command = [*REPUT, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, cwd=cwd
    )


def write_conf(path, conf):
    path.write_text("".join(f"{name}={value}\n" for name, value in conf.items()))
    return path


@pytest.fixture
def store(golden, tmp_path):
    """A store with nothing but its log, and the broker.conf that goes with it."""
    source = golden("5.5.0", "basic")
    path = source.copy_input(tmp_path / "store")
    return path, write_conf(tmp_path / "broker.conf", source.conf), source


@pytest.mark.spark
@pytest.mark.parametrize("version", VERSIONS)
def test_one_job_rebuilds_all_scenarios_of_a_version(golden, tmp_path, version):
    """
    One `rebuild --config` over every store of a version, each with its own settings.
    """
    scenarios = [s for v, s in GOLDENS if v == version and s != "unclean.live"]
    tables = []
    for scenario in scenarios:
        source = golden(version, scenario)
        source.copy_input(tmp_path / scenario)
        write_conf(tmp_path / f"{scenario}.conf", source.conf)
        tables.append(
            f'[[store]]\nname = "{scenario}"\npath = "{scenario}"\noutput = "out/{scenario}"\n'
            f'broker_version = "{version}"\nbroker_conf = "{scenario}.conf"\n'
        )
    (tmp_path / "reput.toml").write_text("\n".join(tables))

    done = reput("rebuild", "--config", tmp_path / "reput.toml", "--json")

    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert fits(summary, "run")
    assert [s["name"] for s in summary["stores"]] == scenarios
    assert summary["messages"] == sum(s["messages"] for s in summary["stores"]) > 0
    assert {"messages", "bytes", "seconds", "messages_per_second", "files"} <= set(summary)
    assert 0 < summary["dispatch_seconds"] <= summary["seconds"]
    for scenario in set(scenarios) - {"unclean-dirty", "unclean-recovered"}:
        for kind in ("consumequeue", "consumequeue_ext", "index"):
            theirs = files_below(golden(version, scenario).path, kind)
            assert files_below(tmp_path / "out" / scenario, kind) == theirs, (scenario, kind)
    for scenario in ("unclean-dirty", "unclean-recovered"):
        for kind in ("consumequeue", "index"):
            theirs = files_below(golden(version, FROM_NOTHING).path, kind)
            assert files_below(tmp_path / "out" / scenario, kind) == theirs, (scenario, kind)


@pytest.mark.spark
def test_a_second_rebuild_goes_on_and_changes_nothing(store, tmp_path):
    """
    Losing Spark's checkpoint loses nothing: the output knows how far it is.
    """
    path, conf, source = store
    arguments = ("rebuild", "--store", path, "--output", tmp_path / "out", "--broker-conf", conf)
    assert reput(*arguments).returncode == 0
    before = files_below(tmp_path / "out", "index")
    for spark in (tmp_path / "out" / ".reput").glob("spark-*"):
        shutil.rmtree(spark)

    again = reput(*arguments, "--json")

    assert again.returncode == 0, again.stderr
    assert fits(json.loads(again.stdout), "run")
    assert json.loads(again.stdout)["messages"] == 0
    assert files_below(tmp_path / "out", "index") == before
    assert files_below(source.path, "index") == before


@pytest.mark.spark
def test_sigterm_ends_a_live_job_in_order(tmp_path):
    """
    The running batch is finished, all is flushed, the abort marker is gone, the exit code is 0.
    """
    size = 4 << 20
    conf = {"mappedFileSizeCommitLog": size, "maxHashSlotNum": 5000, "maxIndexNum": 20000}
    log, output = tmp_path / "store" / "commitlog", tmp_path / "out"
    writer = subprocess.Popen(
        [sys.executable, "-m", "reput.streaming.demo.writer", log, "500", "120", str(size)],
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
    )
    try:
        while not (log.is_dir() and any(p.stat().st_size for p in log.iterdir())):
            time.sleep(0.05)
        arguments = ["run", "--store", tmp_path / "store", "--output", output, "--json"]
        job = subprocess.Popen(
            [*REPUT, *arguments, "--broker-conf", write_conf(tmp_path / "broker.conf", conf)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        progress = output / ".reput" / "progress.json"
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            if progress.exists() and json.loads(progress.read_text())["messages"] > 1000:
                break
            time.sleep(0.1)
        assert (output / "abort").exists()
        job.send_signal(signal.SIGTERM)
        printed, errors = job.communicate(timeout=60)
    finally:
        writer.kill()
        writer.wait()

    assert job.returncode == 0, errors
    assert fits(json.loads(printed), "run")
    assert json.loads(printed)["messages"] > 1000
    assert not (output / "abort").exists()
    assert json.loads(progress.read_text())["clean"] is True
    arguments = ("--store", tmp_path / "store", "--output", output)
    checked = reput("verify", *arguments, "--broker-conf", tmp_path / "broker.conf", "--json")
    # The demonstration's writer wrote on while the job ended.
    assert checked.returncode in {0, 4}, checked.stdout
    assert fits(json.loads(checked.stdout), "verify")
    assert json.loads(checked.stdout)["ok"]


def test_a_broker_s_new_store_is_waited_for(tmp_path):
    """
    A broker makes its first file with its first message; a wrong directory is refused at once.
    """
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    arguments = [*REPUT, "run", "--store", tmp_path / "store", "--output", tmp_path / "out"]
    job = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    # Behind the settings: a line for the job, one for the store.
    lines = [job.stderr.readline() for _ in range(3)]
    assert "waiting for the first message" in lines[2]
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=30)
    assert job.returncode == 0

    empty = tmp_path / "empty"
    empty.mkdir()
    assert reput("run", "--store", empty, "--output", tmp_path / "out").returncode == 3


@pytest.mark.parametrize("is_scraped", [True, False])
def test_what_stops_the_job_is_scraped_before_it_ends(tmp_path, is_scraped):
    """
    Else no alert could fire. It ends with the first scrape, or when the time is over.
    """
    writer = Writer(tmp_path / "store" / "commitlog", 4 << 20)
    writer.append(writer.next_message())
    (tmp_path / "out" / "consumequeue").mkdir(parents=True)
    conf = {"mappedFileSizeCommitLog": 4 << 20, "secretKey": "Zw8x", "maxIndexNum": 2000}
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    began = time.monotonic()
    job = subprocess.Popen(
        [
            *REPUT, "run", "--store", tmp_path / "store", "--output", tmp_path / "out",
            "--broker-conf", write_conf(tmp_path / "broker.conf", conf), "--metrics-port", str(port),
            "--log-format", "json", "--final-scrape-seconds", "300" if is_scraped else "0.1",
        ],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )  # fmt: skip
    lines = []
    for line in job.stderr:
        lines.append(json.loads(line))
        if lines[-1].get("event") == "stopped" and is_scraped:
            assert job.poll() is None
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                text = answer.read().decode()
    job.wait(30)

    assert job.returncode == 3
    assert time.monotonic() - began < 250
    events = [line.get("event") for line in lines if "event" in line]
    assert events == ["started", "store", "stopped", "failed"]
    assert lines[-1]["exit_code"] == 3
    assert lines[1]["settings"]["index_items"] == 2000
    assert "Zw8x" not in json.dumps(lines)
    if is_scraped:
        (stopped,) = re.findall('errors_total.*kind="consumequeue".* (.*)', text)
        assert float(stopped) == 1
        assert "rocketmq_reput_query_active 0.0" in text


def test_a_job_has_the_times_that_it_is_given(tmp_path):
    """
    It says so at its start, while it waits for the store's first message.
    """
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    job = subprocess.Popen(
        [
            *REPUT, "run", "--store", tmp_path / "store", "--output", tmp_path / "out",
            "--trigger-seconds", "0.5", "--follow-seconds", "2.5", "--log-format", "json",
        ],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )  # fmt: skip
    lines = (json.loads(line) for line in job.stderr)
    started = next(line for line in lines if line.get("event") == "started")
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=60)

    settings = started["settings"]
    assert (settings["trigger_seconds"], settings["follow_seconds"]) == (0.5, 2.5)


@pytest.mark.spark
def test_the_demonstration_proves_itself(tmp_path):
    """
    `reput demo` ends with a clean verify, a message found by its key, and all of them consumed.

    What it leaves is where it was asked for, as seen from the directory that it was asked in.
    """
    words = ("--seconds", "3", "--rate", "1000", "--directory", "fixtures", "--json")
    done = reput("demo", *words, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert fits(shown, "demo")
    assert shown["written"] == shown["dispatched"] > 1000
    assert shown["verify"]["found"] == 0
    assert shown["found"]
    assert shown["consumed"]["messages"] == shown["written"]
    assert shown["consumed"]["differing"] == 0
    assert (tmp_path / "fixtures" / "broker.conf").is_file()
    assert done.stderr.endswith("┘\n")


@pytest.mark.spark
def test_a_corrupt_record_stops_the_job_and_what_is_before_it_stays(store, tmp_path):
    """
    The message names file and byte; what was good before is dispatched, and verify says clean.
    """
    path, conf, _ = store
    first = path / "commitlog" / f"{131072:020d}"
    data = bytearray(first.read_bytes())
    data[100] ^= 0xFF
    first.write_bytes(data)
    output = tmp_path / "out"

    done = reput("rebuild", "--store", path, "--output", output, "--broker-conf", conf)

    assert done.returncode == 4
    assert first.name in done.stderr
    assert "at byte 0" in done.stderr
    progress = json.loads((output / ".reput" / "progress.json").read_text())
    assert progress["end"] == 131072
    assert progress["messages"] > 0


@pytest.mark.spark
def test_a_missing_log_file_is_no_dead_end(store, tmp_path):
    """
    Stopped in front of it, and told what to do; passed over if asked. verify never says clean.
    """
    path, conf, _ = store
    missing = sorted((path / "commitlog").iterdir())[1]
    assert len(list((path / "commitlog").iterdir())) > 2
    missing.unlink()
    output = tmp_path / "out"
    command = ("--store", path, "--output", output, "--broker-conf", conf)

    stopped = reput("rebuild", *command)
    before = reput("verify", *command)
    passed = reput("rebuild", *command, "--on-corrupt", "skip")
    after = reput("verify", *command)

    assert (stopped.returncode, passed.returncode) == (4, 0)
    for words in (str(missing), "the file is missing", "--on-corrupt skip", "dispatched and kept"):
        assert words in stopped.stderr
    assert str(missing) in passed.stderr
    assert (before.returncode, after.returncode) == (4, 4)
    assert before.stdout.splitlines()[-1].startswith("incomplete: ")
    assert after.stdout.splitlines()[-1].startswith("skipped: ")


class TestBadInput:
    """Each is one clear message on standard error, and exit code 2, 3 or, with a part done, 4."""

    def check(self, done, code, *words):
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        for word in words:
            assert word in done.stderr

    def rebuild(self, store, output, *more):
        return reput("rebuild", "--store", store, "--output", output, *more)

    def test_no_store(self, tmp_path):
        self.check(self.rebuild(tmp_path / "none", tmp_path / "out"), 3, "no such directory")

    @pytest.mark.parametrize("command", ["verify", "topics", "handover"])
    def test_no_output(self, store, tmp_path, command):
        """
        A directory that is not there is the same error in all commands.
        """
        path, conf, _ = store
        arguments = ("--store", path, "--output", tmp_path / "none", "--broker-conf", conf)
        self.check(reput(command, *arguments), 3, str(tmp_path / "none"))

    def test_an_empty_store(self, tmp_path):
        (tmp_path / "store").mkdir()
        self.check(self.rebuild(tmp_path / "store", tmp_path / "out"), 3, "no commitlog")

    def test_a_file_of_the_wrong_size(self, store, tmp_path):
        path, _, _ = store
        done = self.rebuild(path, tmp_path / "out")
        self.check(done, 3, "expected 1073741824 bytes", "mappedFileSizeCommitLog")

    def test_a_foreign_file(self, store, tmp_path):
        path, conf, _ = store
        (path / "commitlog" / "notes.txt").write_text("mine")
        done = self.rebuild(path, tmp_path / "out", "--broker-conf", conf)
        self.check(done, 3, "notes.txt", "not the name of a commitlog file")

    def test_a_gap_between_files(self, store, tmp_path):
        path, conf, _ = store
        (path / "commitlog" / f"{131072:020d}").unlink()
        done = self.rebuild(path, tmp_path / "out", "--broker-conf", conf)
        self.check(done, 4, "00000000000000131072 at byte 0", "--on-corrupt skip", "are dispatched")

    def test_a_dledger_store(self, tmp_path):
        (tmp_path / "store" / "dledger-n0" / "data").mkdir(parents=True)
        self.check(self.rebuild(tmp_path / "store", tmp_path / "out"), 3, "DLedger")

    def test_a_rocksdb_broker(self, store, tmp_path):
        path, _, _ = store
        conf = write_conf(tmp_path / "rocks.conf", {"storeType": "defaultRocksDB"})
        done = self.rebuild(path, tmp_path / "out", "--broker-conf", conf)
        self.check(done, 2, "RocksDB")

    @pytest.mark.parametrize("version", ["3.2", ""])
    def test_an_unknown_version(self, store, tmp_path, version):
        """
        An empty one is a variable that is not set.
        """
        path, _, _ = store
        done = self.rebuild(path, tmp_path / "out", "--broker-version", version)
        self.check(done, 2, f"broker version {version!r} is not known", "5.5")
        for words in (["topics"], ["query", "id", "00"], ["inspect", "commitlog"], ["verify"]):
            option = [path / "commitlog"] if words[0] == "inspect" else ["--store", path]
            self.check(
                reput(*words, *option, "--broker-version", version),
                2,
                f"broker version {version!r} is not known",
            )

    def test_an_option_that_does_not_exist(self):
        self.check(reput("rebuild", "--stoer", "x"), 2, "--stoer")

    def test_a_bad_setting(self, store, tmp_path):
        path, _, _ = store
        conf = write_conf(tmp_path / "bad.conf", {"maxIndexNum": "many"})
        done = self.rebuild(path, tmp_path / "out", "--broker-conf", conf)
        self.check(done, 2, "maxIndexNum='many'")

    def test_the_store_as_output(self, store):
        path, conf, _ = store
        self.check(self.rebuild(path, path, "--broker-conf", conf), 2, "--in-place")

    def test_an_output_that_is_not_ours(self, store, tmp_path):
        path, conf, source = store
        shutil.copytree(source.path / "index", tmp_path / "out" / "index")
        done = self.rebuild(path, tmp_path / "out", "--broker-conf", conf)
        self.check(done, 3, "was not written by reput")

    def test_a_store_that_a_broker_holds(self, store):
        path, conf, _ = store
        holder = subprocess.Popen(
            [
                sys.executable,
                "-c",
                HOLD_THE_LOCK,
                path / "lock",
            ],
            stdout=subprocess.PIPE,
        )
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            done = reput("rebuild", "--store", path, "--in-place", "--broker-conf", conf)
            self.check(done, 3, "a broker holds this store's lock")
        finally:
            holder.kill()
            holder.wait()

    def test_a_store_that_was_not_closed(self, store):
        path, conf, _ = store
        (path / "abort").touch()
        done = reput("rebuild", "--store", path, "--in-place", "--broker-conf", conf)
        self.check(done, 3, "not closed in order")

    def test_errors_as_json(self, tmp_path):
        done = self.rebuild(tmp_path / "none", tmp_path / "out", "--json")
        assert done.returncode == 3
        assert json.loads(done.stdout)["exit_code"] == 3

    def test_no_permission(self, store, tmp_path):
        path, conf, _ = store
        output = tmp_path / "ro"
        output.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", output], check=True)
        try:
            done = self.rebuild(path, output, "--broker-conf", conf)
            self.check(done, 3, "Read-only file system")
        finally:
            subprocess.run(["umount", output], check=True)


@pytest.mark.spark
def test_in_place_work_needs_an_idle_store(golden, tmp_path):
    """
    Queues and index that were lost are rebuilt where they belong, under the broker's lock.
    """
    source = golden("5.3.3", "basic")
    path = source.copy_input(tmp_path / "store")
    conf = write_conf(tmp_path / "broker.conf", source.conf)
    arguments = ("--broker-conf", conf, "--broker-version", "5.3")

    done = reput("rebuild", "--store", path, "--in-place", *arguments)

    assert done.returncode == 0, done.stderr
    for kind in ("consumequeue", "index"):
        assert files_below(path, kind) == files_below(source.path, kind)
    assert reput("verify", "--store", path, *arguments).returncode == 0


def test_verify_names_damage_with_exit_code_1(golden, tmp_path):
    """
    A broker's own store is verified too; a flipped byte is found, with file and byte.
    """
    source = golden("4.9.8", "basic")
    path = source.copy(tmp_path / "store")
    conf = write_conf(tmp_path / "broker.conf", source.conf)
    arguments = ("verify", "--store", path, "--broker-version", "4.9.8", "--broker-conf", conf)
    assert reput(*arguments).returncode == 0
    entry = path / "consumequeue" / "topic-1" / "2" / f"{0:020d}"
    data = bytearray(entry.read_bytes())
    data[25] ^= 1
    entry.write_bytes(data)

    done = reput(*arguments, "--json")

    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["found"] >= 1
    assert report["findings"][0]["file"] == str(entry)


@pytest.mark.parametrize("what", ["commitlog", "index", "checkpoint"])
def test_inspect_says_that_there_is_no_such_file(tmp_path, what):
    """
    A typo is told before a name that is not an offset; so is a directory.
    """
    typo = reput("inspect", what, tmp_path / "nope")
    directory = reput("inspect", what, tmp_path)

    assert (typo.returncode, directory.returncode) == (3, 3)
    assert typo.stderr == f"reput: {tmp_path / 'nope'}: No such file or directory\n"
    assert directory.stderr == f"reput: {tmp_path}: Is a directory\n"


def test_a_wrong_word_of_an_option_is_said_without_the_librarys_own():
    done = reput("rebuild", "--store", "/x", "--output", "/y", "--flush", "never")

    assert done.returncode == 2
    assert "Invalid value for '--flush': 'never' is not one of 'sync', 'async'." in done.stderr


@pytest.mark.parametrize("what", ["commitlog", "consumequeue", "index", "checkpoint"])
def test_inspect_shows_a_file(golden, what):
    """
    Every kind of file is shown as a table and as JSON.
    """
    source = golden("5.5.0", "basic")
    path = source.path / what
    while path.is_dir():
        path = min(path.iterdir())
    limit = [] if what == "checkpoint" else ["--limit", "3"]
    conf = path.with_suffix(".conf")
    if what in {"index", "commitlog"}:
        limit += ["--broker-conf", str(write_conf(conf, source.conf))]
    try:
        shown = reput("inspect", what, path, *limit)
        as_json = reput("inspect", what, path, *limit, "--json")
    finally:
        conf.unlink(missing_ok=True)

    assert shown.returncode == 0, shown.stderr
    assert str(path) in shown.stdout.replace("\n", "")
    rows = json.loads(as_json.stdout)["rows"]
    # The first queue in the order of names has one entry.
    assert len(rows) == {"checkpoint": 6, "consumequeue": 1}.get(what, 3)


def test_help_teaches():
    """
    Each command explains itself, with an example where one helps.
    """
    for command in ("", "run", "rebuild", "verify", "inspect", "demo"):
        done = reput(*command.split(), "--help")
        assert done.returncode == 0
        assert "Usage" in done.stdout
    assert "Exit codes" in reput("--help").stdout
    assert "Example" in reput("run", "--help").stdout


class TestRepair:
    """`reput rebuild --repair`, which needs no Spark."""

    @pytest.fixture
    def output(self, store, tmp_path):
        path, conf, source = store
        rebuild(path, tmp_path / "out", broker_version="5.5", broker_conf=source.conf)
        return tmp_path / "out", [
            "--store",
            path,
            "--output",
            tmp_path / "out",
            "--broker-conf",
            conf,
        ]

    def test_it_mends_and_says_what(self, output):
        """
        Exit code 0: sound now; each file that was made again is named.
        """
        path, options = output
        before = files_below(path, "consumequeue")
        gone = min(file for file in (path / "consumequeue").rglob("*") if file.is_file())
        gone.unlink()
        (path / ".reput" / "progress.json").unlink()
        done = reput("rebuild", "--repair", "--json", *options)
        said = json.loads(done.stdout)

        assert done.returncode == 0
        assert fits(said, "repair")
        assert said["ok"]
        [store] = said["stores"]
        assert [(c["what"], c["file"]) for c in store["changes"]] == [("made", str(gone))]
        assert store["verify"]["ok"]
        assert files_below(path, "consumequeue") == before

    def test_a_table_for_people(self, output):
        path, options = output
        (path / "checkpoint").unlink()
        done = reput("rebuild", "--repair", *options)

        assert done.returncode == 0
        assert "as the queues say" in done.stdout
        assert "1 change;" in done.stdout
        assert done.stdout.splitlines()[-1].startswith("sound: ")

    def test_what_does_not_go_with_it(self, output):
        _, options = output
        done = reput("rebuild", "--repair", "--delete-expired", *options)

        assert done.returncode == 2
        assert "--repair goes with neither" in done.stderr
